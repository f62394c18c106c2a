package template

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// semverTemplate is a template from which channels are made by the versions of bundles.
type semverTemplate struct {
	Schema                string `json:"schema"`
	GenerateMajorChannels bool   `json:"generateMajorChannels"`
	GenerateMinorChannels bool   `json:"generateMinorChannels"`
	// DefaultChannelTypePreference is major, minor or empty.
	DefaultChannelTypePreference string     `json:"defaultChannelTypePreference"`
	Candidate                    bundleList `json:"candidate"`
	Fast                         bundleList `json:"fast"`
	Stable                       bundleList `json:"stable"`
}

type bundleList struct {
	Bundles []struct {
		Image string `json:"image"`
	} `json:"bundles"`
}

// The kinds of channels.
const (
	majorKind = "major"
	minorKind = "minor"
)

// archetypes are the streams of a template, those that are trusted least first.
var archetypes = []string{"candidate", "fast", "stable"}

func (t *semverTemplate) list(archetype string) bundleList {
	switch archetype {
	case "candidate":
		return t.Candidate
	case "fast":
		return t.Fast
	}
	return t.Stable
}

// readSemver reads a template, which has no unknown fields.
func readSemver(input []byte) (t *semverTemplate, err error) {
	// What the YAML parser does not expect is still the fault of the text.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("cannot be parsed as YAML: %v", p)
		}
	}()
	if err := checkYAML(input); err != nil {
		return nil, err
	}

	t = &semverTemplate{}
	if err := yaml.UnmarshalStrict(input, t); err != nil {
		return nil, err
	}
	if t.Schema != schemas[Semver] {
		return nil, fmt.Errorf("readFile: input file has unknown schema, should be %q", schemas[Semver])
	}
	if !t.GenerateMajorChannels && !t.GenerateMinorChannels {
		t.GenerateMinorChannels = true
	}

	return t, t.checkPreference()
}

// checkPreference checks the preference, and sets it if it is not set.
func (t *semverTemplate) checkPreference() error {
	const mismatch = "schema attribute mismatch: DefaultChannelTypePreference set to '%[1]s' doesn't make sense if not generating %[1]s-version channels"
	switch preference := t.DefaultChannelTypePreference; {
	case preference == "" && t.GenerateMinorChannels:
		t.DefaultChannelTypePreference = minorKind
	case preference == "":
		t.DefaultChannelTypePreference = majorKind
	case preference == minorKind && !t.GenerateMinorChannels, preference == majorKind && !t.GenerateMajorChannels:
		return fmt.Errorf(mismatch, preference)
	case preference != minorKind && preference != majorKind:
		return fmt.Errorf("unknown DefaultChannelTypePreference: %q\nValid values are %q and %q", preference, majorKind, minorKind)
	}

	return nil
}

// version is a bundle among those of an archetype.
type version struct {
	name    string
	version semver.Version
}

// semverBundles are the bundles of a template.
type semverBundles struct {
	// byImage are the bundles by the image that the template gives.
	byImage map[string]Bundle
	decoded map[string]*fbc.Bundle
	// pkg is the package of all.
	pkg string
}

func renderSemver(ctx context.Context, input []byte, r Renderer) ([]fbc.Meta, error) {
	t, err := readSemver(input)
	if err != nil {
		return nil, fmt.Errorf("render: unable to read file: %w", err)
	}

	bundles, err := t.render(ctx, r)
	if err != nil {
		return nil, err
	}

	versions := map[string][]version{}
	for _, archetype := range archetypes {
		if versions[archetype], err = bundles.versions(t.list(archetype)); err != nil {
			return nil, fmt.Errorf("render: unable to post-process bundle info: %w", err)
		}
	}

	channels, defaultChannel := t.channels(bundles.pkg, versions)
	pkg := &fbc.Package{Schema: fbc.SchemaPackage, Name: bundles.pkg, DefaultChannel: defaultChannel}
	bundles.describe(pkg, channels)

	return bundles.blobs(pkg, channels)
}

// render reads the bundles of the template's images.
func (t *semverTemplate) render(ctx context.Context, r Renderer) (*semverBundles, error) {
	var images []string
	for _, archetype := range archetypes {
		for _, bundle := range t.list(archetype).Bundles {
			images = append(images, bundle.Image)
		}
	}

	rendered, err := renderAll(ctx, images, r)
	if err != nil {
		return nil, err
	}
	if len(rendered) == 0 {
		return nil, errors.New("render: no bundles specified or no bundles could be rendered")
	}

	bundles := &semverBundles{byImage: map[string]Bundle{}, decoded: map[string]*fbc.Bundle{}}
	for _, image := range images {
		if len(rendered[image]) != 1 {
			return nil, fmt.Errorf("bundle reference %q resulted in %d bundles, expected 1", image, len(rendered[image]))
		}
		bundles.byImage[image] = rendered[image][0]
		if bundles.decoded[image], err = fbc.DecodeBundle(rendered[image][0].Blob); err != nil {
			return nil, fmt.Errorf("bundle reference %q: %w", image, err)
		}
	}

	return bundles, nil
}

// versions returns the bundles of an archetype, lowest version first.
func (b *semverBundles) versions(list bundleList) ([]version, error) {
	var versions []version
	seen := map[string]bool{}
	for _, listed := range list.Bundles {
		bundle := b.decoded[listed.Image]
		v, err := b.versionOf(bundle)
		if err != nil {
			return nil, err
		}
		if seen[bundle.Name] {
			return nil, fmt.Errorf("duplicate bundle name %q", bundle.Name)
		}

		seen[bundle.Name] = true
		versions = append(versions, version{name: bundle.Name, version: v})
	}

	slices.SortFunc(versions, func(a, b version) int { return a.version.Compare(b.version) })
	var faults []string
	for i := 1; i < len(versions); i++ {
		if before, v := versions[i-1].version, versions[i].version; before.EQ(v) {
			faults = append(faults, fmt.Sprintf("bundle version %q cannot be compared to %q", v, before))
		}
	}

	if len(faults) > 0 {
		return nil, fmt.Errorf("encountered bundle versions which differ only by build metadata, which cannot be ordered: %s", strings.Join(faults, "\n"))
	}

	return versions, nil
}

// versionOf returns the version that a bundle states. The first bundle decides the package
// of all.
func (b *semverBundles) versionOf(bundle *fbc.Bundle) (semver.Version, error) {
	var stated []fbc.PackageProperty
	for i, p := range bundle.Properties {
		if p.Type != fbc.PropertyPackage {
			continue
		}
		var s fbc.PackageProperty
		if err := json.Unmarshal(p.Value, &s); err != nil {
			return semver.Version{}, fmt.Errorf("parse properties for bundle %q: parse property[%d] of type %q: %w", bundle.Name, i, p.Type, err)
		}
		stated = append(stated, s)
	}

	if len(stated) != 1 {
		return semver.Version{}, fmt.Errorf("bundle %q has multiple %q properties, expected exactly 1", bundle.Name, fbc.PropertyPackage)
	}

	v, err := semver.Parse(stated[0].Version)
	if err != nil {
		return semver.Version{}, fmt.Errorf("bundle %q has invalid version %q: %w", bundle.Name, stated[0].Version, err)
	}

	switch {
	case b.pkg == "":
		b.pkg = stated[0].PackageName
	case b.pkg != stated[0].PackageName:
		return semver.Version{}, fmt.Errorf("bundle %q does not belong to this package: %q", stated[0].PackageName, b.pkg)
	}

	return v, nil
}

// describe copies the description and the icon that the package's newest bundle in its
// default channel has, as far as it has them.
func (b *semverBundles) describe(pkg *fbc.Package, channels []fbc.Channel) {
	var newest string
	for _, channel := range channels {
		if channel.Name == pkg.DefaultChannel {
			newest = channel.Entries[len(channel.Entries)-1].Name
		}
	}

	for image, bundle := range b.decoded {
		if bundle.Name != newest {
			continue
		}
		pkg.Description, pkg.Icon = presentation(b.byImage[image].CSV, bundle)
		return
	}
}

// blobs returns the blobs of the catalog: the package, its channels, and its bundles by
// name.
func (b *semverBundles) blobs(pkg *fbc.Package, channels []fbc.Channel) ([]fbc.Meta, error) {
	meta, err := metaOf(pkg.AppendJSON(nil))
	if err != nil {
		return nil, err
	}

	blobs := []fbc.Meta{meta}
	for _, channel := range channels {
		meta, err := metaOf(channel.AppendJSON(nil))
		if err != nil {
			return nil, err
		}
		blobs = append(blobs, meta)
	}

	var bundles []fbc.Meta
	for _, bundle := range b.byImage {
		bundles = append(bundles, bundle.Blob)
	}

	slices.SortFunc(bundles, func(a, b fbc.Meta) int {
		return strings.Compare(a.Name+"\x00"+string(a.Blob), b.Name+"\x00"+string(b.Blob))
	})
	return append(blobs, bundles...), nil
}
