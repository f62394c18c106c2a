package configmapserver

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// readPackages reads the packages and adds their blobs.
func (p *parser) readPackages(data map[string]string) {
	if _, ok := data[KeyPackages]; !ok {
		p.problems.add(KeyPackages, -1, "", errNoKey)
		return
	}

	p.readList(data, KeyPackages, "", func(_ int, object map[string]any) (string, error) {
		var manifest bundle.PackageManifest
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, &manifest); err != nil {
			return "", fmt.Errorf("a field has a wrong type: %w", err)
		}
		return manifest.PackageName, p.addPackage(&manifest)
	})
}

// addPackage adds the blobs of a package, or none if something in it cannot be served.
func (p *parser) addPackage(manifest *bundle.PackageManifest) error {
	if manifest.DefaultChannel == "" && len(manifest.Channels) == 1 {
		manifest.DefaultChannel = manifest.Channels[0].Name
	}
	if err := p.checkPackage(manifest); err != nil {
		return err
	}
	p.packages[manifest.PackageName] = true

	name := manifest.PackageName
	channels, members, err := p.buildChannels(manifest)
	if err != nil {
		return err
	}

	pkg := fbc.Package{Schema: fbc.SchemaPackage, Name: name, DefaultChannel: manifest.DefaultChannel}
	texts := [][]byte{pkg.AppendJSON(nil)}
	loaded := map[string]*bundle.Bundle{}
	for _, c := range members {
		b, err := p.loadBundle(name, c)
		if err == nil {
			texts, err = p.appendBundle(texts, b)
		}
		if err != nil {
			return fmt.Errorf("%s[%d] (%s): %w", KeyCSVs, c.entry, c.name, err)
		}
		loaded[c.name] = b
		c.isUsed = true
	}

	for _, channel := range channels {
		for i, entry := range channel.Entries {
			channel.Entries[i] = loaded[entry.Name].ChannelEntry()
		}
		texts = append(texts, channel.AppendJSON(nil))
	}

	return p.addBlobs(texts)
}

// checkPackage returns an error for a package whose names are missing, repeated or unknown.
func (p *parser) checkPackage(manifest *bundle.PackageManifest) error {
	switch {
	case manifest.PackageName == "":
		return errors.New("packageName is missing")
	case p.packages[manifest.PackageName]:
		return errors.New("another entry has the same packageName: merge the channels of both")
	case len(manifest.Channels) == 0:
		return errors.New("channels is empty: add a channel with a name and a currentCSV")
	}

	var names []string
	for i, channel := range manifest.Channels {
		switch {
		case channel.Name == "":
			return fmt.Errorf("channels[%d]: name is missing", i)
		case slices.Contains(names, channel.Name):
			return fmt.Errorf("channels[%d]: another channel has the name %q: remove one of them", i, channel.Name)
		case channel.CurrentCSV == "":
			return fmt.Errorf("channels[%d] (%s): currentCSV is missing", i, channel.Name)
		case p.csvs[channel.CurrentCSV] == nil:
			return fmt.Errorf("channels[%d] (%s): currentCSV %q is not in %s: add it there, or correct the name", i, channel.Name, channel.CurrentCSV, KeyCSVs)
		}
		names = append(names, channel.Name)
	}

	switch {
	case manifest.DefaultChannel == "":
		return errors.New("defaultChannel is missing: it is required if there are several channels")
	case !slices.Contains(names, manifest.DefaultChannel):
		return fmt.Errorf("defaultChannel %q is not in channels: add it there, or correct the name", manifest.DefaultChannel)
	}

	return nil
}

// buildChannels returns the channels of a package, and the ClusterServiceVersions in them. A
// channel contains its current one and all that this replaces or skips, directly or not. Its
// entries have only names.
func (p *parser) buildChannels(manifest *bundle.PackageManifest) ([]*fbc.Channel, []*csv, error) {
	var channels []*fbc.Channel
	var members []*csv
	isMember := map[string]bool{}
	for _, c := range manifest.Channels {
		channel := &fbc.Channel{Schema: fbc.SchemaChannel, Package: manifest.PackageName, Name: c.Name}
		seen := map[string]bool{}
		pending := []string{c.CurrentCSV}
		for len(pending) > 0 {
			found := p.csvs[pending[0]]
			pending = pending[1:]
			if found == nil || seen[found.name] {
				continue
			}
			if p.channelEntries++; p.channelEntries > maxChannelEntries {
				return nil, nil, fmt.Errorf("channels %q: the channels of the ConfigMap have more than %d entries: use a catalog image", c.Name, maxChannelEntries)
			}

			seen[found.name] = true
			channel.Entries = append(channel.Entries, fbc.ChannelEntry{Name: found.name})
			pending = append(pending, found.updates...)
			if !isMember[found.name] {
				isMember[found.name] = true
				members = append(members, found)
			}
		}
		channels = append(channels, channel)
	}

	return channels, members, nil
}

// loadBundle returns the bundle of a ClusterServiceVersion: its manifest and those of its CRDs.
func (p *parser) loadBundle(pkg string, c *csv) (*bundle.Bundle, error) {
	annotations, err := bundle.Description{MediaType: bundle.MediaType, Package: pkg}.AnnotationsFile()
	if err != nil {
		return nil, err
	}

	files := &bundle.Files{
		HasManifests: true, HasMetadata: true,
		Metadata:  []bundle.File{{Name: bundle.FolderMetadata + "/annotations.yaml", Data: annotations}},
		Manifests: []bundle.File{{Name: c.name, Documents: []map[string]any{c.object}}},
	}
	added := map[string]bool{}
	for _, name := range c.ownedCRDs {
		if len(p.crds[name]) == 0 {
			return nil, fmt.Errorf("it owns CustomResourceDefinition %q, which is not in %s: add it there, or remove it from spec.customresourcedefinitions.owned", name, KeyCRDs)
		}
		if added[name] {
			continue
		}
		added[name] = true
		for _, found := range p.crds[name] {
			files.Manifests = append(files.Manifests, bundle.File{Name: fmt.Sprintf("%s[%d]", KeyCRDs, found.entry), Documents: []map[string]any{found.object}})
		}
	}

	b, err := files.Load(nil)
	if err != nil {
		return nil, err
	}
	switch {
	case len(b.Omitted) > 0:
		return nil, errors.New(b.Omitted[0])
	case b.StatedVersion() == "":
		return nil, errors.New("spec.version is missing: add a semantic version, such as 1.2.3")
	}

	for _, warning := range b.Warnings {
		p.warnings = append(p.warnings, fmt.Sprintf("%s[%d] (%s): %s", KeyCSVs, c.entry, c.name, warning))
	}

	return b, nil
}

// appendBundle appends the blob of a bundle.
func (p *parser) appendBundle(texts [][]byte, b *bundle.Bundle) ([][]byte, error) {
	blob, err := b.FBC("", bundle.WithObjects)
	if err != nil {
		return nil, err
	}

	text := blob.AppendJSON(nil)
	if p.blobBytes += len(text); p.blobBytes > maxBlobBytes {
		return nil, fmt.Errorf("the catalog has more than %d bytes, because each ClusterServiceVersion contains its CRDs: use a catalog image", maxBlobBytes)
	}

	return append(texts, text), nil
}

// addBlobs adds the blobs of a package if they follow the rules of file-based catalogs.
func (p *parser) addBlobs(texts [][]byte) error {
	var blobs []fbc.Meta
	for _, text := range texts {
		for meta, err := range fbc.Read(bytes.NewReader(text), "", fbc.Limits{}) {
			if err != nil {
				return err
			}
			meta.At = fbc.Place{} // The position within this text is of no use to users.
			blobs = append(blobs, meta)
		}
	}

	if err := fbc.Validate(yieldAll(blobs)); err != nil {
		return err
	}
	p.blobs = append(p.blobs, blobs...)

	return nil
}

// yieldAll returns an iterator over blobs.
func yieldAll(blobs []fbc.Meta) iter.Seq2[fbc.Meta, error] {
	return func(yield func(fbc.Meta, error) bool) {
		for _, meta := range blobs {
			if !yield(meta, nil) {
				return
			}
		}
	}
}
