package hub

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/blang/semver/v4"
	"github.com/klauspost/compress/gzip"

	"github.com/mainstay-dev/mainstay/internal/action/catalog/browse"
	"github.com/mainstay-dev/mainstay/internal/excerpt"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/upgradegraph"
)

// Limits of an index.
const (
	// maxCatalogBytes limits the blobs that are held while an index is made: five times the largest public catalog.
	maxCatalogBytes = 512 << 20
	// maxIconsBytes limits all icons of an index: 5,000 icons of 25 kB. Further ones are left out.
	maxIconsBytes = 128 << 20
	// maxUpdates limits the edges of a package. A range may update every version from every other.
	maxUpdates = 5000
)

// Index has the packages of one catalog. It does not change once it is made.
type Index struct {
	// Packages are sorted by name.
	Packages []PackageSummary
	// Problems are packages that are left out, with the reason.
	Problems []string

	// details are the compressed details by the name of the package.
	details map[string][]byte
	icons   map[string]Icon
	// iconsSize is the size of all icons, and size about that of the index.
	iconsSize, size int64
}

// Build makes the index of a catalog from its blobs. A package with invalid content is left out, and is a problem of the
// index. An error is one of reading the catalog.
func Build(catalog string, metas iter.Seq2[fbc.Meta, error]) (*Index, error) {
	blobs := map[string][]fbc.Meta{}
	bytesRead := 0
	for meta, err := range metas {
		if err != nil {
			return nil, err
		}
		if bytesRead += len(meta.Blob); bytesRead > maxCatalogBytes {
			return nil, fmt.Errorf("it has more than %d MiB, which is more than can be shown", maxCatalogBytes>>20)
		}
		if name := meta.PackageName(); name != "" {
			blobs[name] = append(blobs[name], meta)
		}
	}

	x := newIndex()
	for _, name := range slices.Sorted(maps.Keys(blobs)) {
		if err := x.addPackage(catalog, name, blobs[name]); err != nil {
			x.Problems = append(x.Problems, fmt.Sprintf("package %q: %s", name, excerpt.Line(err.Error(), maxShortText)))
		}
		delete(blobs, name) // the rest needs the memory
	}
	return x, nil
}

func newIndex() *Index {
	return &Index{Packages: []PackageSummary{}, details: map[string][]byte{}, icons: map[string]Icon{}}
}

// packageName is what names of packages consist of. They are part of the names of files and addresses.
var packageName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$`)

// addPackage adds a package of a file-based catalog. Packages without a version, and those that shall not be offered, are
// left out.
func (x *Index) addPackage(catalog, name string, blobs []fbc.Meta) error {
	if !packageName.MatchString(name) {
		return errors.New("its name is not one that a package can have")
	}

	loaded, err := browse.Load(name, iterateBlobs(blobs))
	if err != nil {
		return err
	}
	isOther := func(blob fbc.Meta) bool { return blob.Schema != fbc.SchemaPackage }
	content, err := fbc.LoadContent(name, iterateBlobs(slices.DeleteFunc(slices.Clone(blobs), isOther)))
	if err != nil {
		return err
	}

	p := loaded[0]
	newest := p.Newest()
	if newest == nil {
		return nil
	}

	heads := headsOf(p)
	releases := readReleases(blobs, heads)
	described := releases[newest.Name]
	if described == nil || described.isHidden() {
		return nil
	}

	d := newDetails(catalog, p)
	if content.Package != nil {
		d.Description = content.Package.Description
		if content.Package.Icon != nil {
			d.Icon = x.addIcon(content.Package.Icon.MediaType, content.Package.Icon.Data)
		}
	}
	if d.Icon == "" {
		d.Icon = x.addIcon(described.icon.MediaType, described.icon.Data)
	}
	described.describe(&d.PackageSummary)
	for _, head := range heads {
		if r := releases[head]; r != nil {
			d.Releases = append(d.Releases, r.newDetails(head))
		}
	}
	return x.add(d)
}

// iterateBlobs returns blobs as those who read catalogs take them.
func iterateBlobs(blobs []fbc.Meta) iter.Seq2[fbc.Meta, error] {
	return func(yield func(fbc.Meta, error) bool) {
		for _, blob := range blobs {
			if !yield(blob, nil) {
				return
			}
		}
	}
}

// readReleases returns the descriptions of bundles by name.
func readReleases(blobs []fbc.Meta, names []string) map[string]*release {
	releases := map[string]*release{}
	for _, blob := range blobs {
		if blob.Schema != fbc.SchemaBundle || !slices.Contains(names, blob.Name) {
			continue
		}
		if b, err := fbc.DecodeBundle(blob); err == nil {
			releases[b.Name] = readRelease(b)
		}
	}
	return releases
}

// headsOf returns the bundles that are described: the newest, and the heads of the channels. A channel of a valid catalog
// has one.
func headsOf(p *browse.Package) []string {
	heads := []string{p.Newest().Name}
	for _, channel := range p.Channels {
		if len(channel.Heads) > 0 && len(heads) < maxItems && !slices.Contains(heads, channel.Heads[0]) {
			heads = append(heads, channel.Heads[0])
		}
	}
	return heads
}

// newDetails returns the details of a package without the descriptions of its versions.
func newDetails(catalog string, p *browse.Package) *PackageDetails {
	d := &PackageDetails{Channels: []ChannelSummary{}, Versions: []VersionSummary{}, Releases: []ReleaseDetails{}}
	d.Catalog, d.Name, d.DefaultChannel, d.Deprecated = catalog, p.Name, p.DefaultChannel, cleanText(p.Deprecated)
	d.Version = p.Newest().Version
	for _, c := range p.Channels {
		channel := ChannelSummary{Name: c.Name, Versions: c.Entries, Deprecated: cleanText(c.Deprecated)}
		if len(c.Heads) > 0 {
			channel.Head = c.Heads[0]
		}
		d.Channels = append(d.Channels, channel)
	}

	graph := p.Graph()
	versions := map[string]*semver.Version{}
	for i := range p.Bundles {
		versions[p.Bundles[i].Name] = p.Bundles[i].Node().Version
	}
	for i := range p.Bundles {
		b := &p.Bundles[i]
		d.Versions = append(d.Versions, VersionSummary{
			Name: b.Name, Version: b.Version, Release: b.Release, Image: b.Image, Channels: b.Channels, Requires: b.Requires,
			InstallModes: b.InstallModes, MinKubeVersion: b.MinKubeVersion, Deprecated: cleanText(b.Deprecated),
		})
		d.addUpdates(graph, b, versions)
		if !slices.Contains(d.minKubeVersions, b.MinKubeVersion) {
			d.minKubeVersions = append(d.minKubeVersions, b.MinKubeVersion)
		}
	}
	return d
}

// addUpdates adds the edges that lead from a bundle to others. Those to an older version are left out: a range may contain
// newer versions, but no resolver follows it backwards.
func (d *PackageDetails) addUpdates(graph *upgradegraph.Graph, from *browse.Bundle, versions map[string]*semver.Version) {
	for _, edge := range graph.Successors(from.Node()) {
		if older, newer := versions[edge.To], versions[edge.From]; older != nil && newer != nil && older.LT(*newer) {
			continue
		}
		if len(d.Updates) >= maxUpdates {
			d.OmittedUpdates++
			continue
		}
		d.Updates = append(d.Updates, UpdateEdge{From: edge.From, To: edge.To, Kind: edge.Kind, Channels: edge.Channels})
	}
}

// addIcon adds an icon and returns its name. It returns an empty name for one that is not shown.
func (x *Index) addIcon(mediaType string, data []byte) string {
	icon, ok := NewIcon(mediaType, data)
	if !ok {
		return ""
	}
	name := icon.FileName()
	if _, known := x.icons[name]; known {
		return name
	}

	if x.iconsSize += int64(len(data)); x.iconsSize > maxIconsBytes {
		return ""
	}
	x.icons[name] = Icon{Type: icon.Type, Data: bytes.Clone(data)}
	x.size += int64(len(data))
	return name
}

// summaryBytes is about the memory of a summary.
const summaryBytes = 2 << 10

// add adds a package.
func (x *Index) add(d *PackageDetails) error {
	packed, err := packDetails(d)
	if err != nil {
		return err
	}
	x.Packages = append(x.Packages, d.PackageSummary)
	x.details[d.Name] = packed
	x.size += int64(len(packed)) + summaryBytes
	return nil
}

// packers are compressors for reuse, because each has a megabyte of tables.
var packers = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

func packDetails(d *PackageDetails) ([]byte, error) {
	var packed bytes.Buffer
	w, _ := packers.Get().(*gzip.Writer)
	defer packers.Put(w)
	w.Reset(&packed)
	if err := json.NewEncoder(w).Encode(d); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return bytes.Clone(packed.Bytes()), nil
}

// Details returns the details of a package. It returns nil if the index does not have it.
func (x *Index) Details(name string) (*PackageDetails, error) {
	packed, ok := x.details[name]
	if !ok {
		return nil, nil
	}

	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	d := &PackageDetails{}
	if err := json.NewDecoder(r).Decode(d); err != nil {
		return nil, err
	}
	at, _ := slices.BinarySearchFunc(x.Packages, name, func(s PackageSummary, name string) int { return strings.Compare(s.Name, name) })
	d.PackageSummary = x.Packages[at]
	return d, nil
}

// Size returns about how much memory the index needs, in bytes.
func (x *Index) Size() int64 { return x.size }

// Icon returns an icon by the name of its file.
func (x *Index) Icon(name string) (Icon, bool) {
	icon, ok := x.icons[name]
	return icon, ok
}

// SortSummaries sorts summaries by the name that people see, then by package and catalog.
func SortSummaries(packages []PackageSummary) {
	slices.SortFunc(packages, func(a, b PackageSummary) int {
		return cmp.Or(
			strings.Compare(strings.ToLower(cmp.Or(a.DisplayName, a.Name)), strings.ToLower(cmp.Or(b.DisplayName, b.Name))),
			strings.Compare(a.Name, b.Name), strings.Compare(a.Catalog, b.Catalog),
		)
	})
}
