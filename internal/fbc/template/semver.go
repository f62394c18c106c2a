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

// semverTemplate is a template that generates channels from the versions of bundles.
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

// Kinds of channels.
const (
	majorKind = "major"
	minorKind = "minor"
)

// archetypes are the streams of a template, least stable first.
var archetypes = []string{"candidate", "fast", "stable"}

func (t *semverTemplate) bundlesOfArchetype(archetype string) bundleList {
	switch archetype {
	case "candidate":
		return t.Candidate
	case "fast":
		return t.Fast
	}
	return t.Stable
}

// parseSemverTemplate parses a template. It returns an error for unknown fields.
func parseSemverTemplate(input []byte) (t *semverTemplate, err error) {
	// A panic of the YAML parser is caused by the text, so it is returned as an error.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("cannot be parsed as YAML: %v", p)
		}
	}()
	if err := checkYAMLLimits(input); err != nil {
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

	return t, t.defaultPreference()
}

// defaultPreference sets the default preference if there is none. It returns an error for an
// invalid preference.
func (t *semverTemplate) defaultPreference() error {
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

// bundleVersion is the version of a bundle of an archetype.
type bundleVersion struct {
	name    string
	version semver.Version
}

// semverBundles are the bundles of a template.
type semverBundles struct {
	// byImage are the bundles by the image in the template.
	byImage map[string]Bundle
	decoded map[string]*fbc.Bundle
	// pkg is the package of all bundles.
	pkg string
}

func renderSemverTemplate(ctx context.Context, input []byte, r Renderer) ([]fbc.Meta, error) {
	t, err := parseSemverTemplate(input)
	if err != nil {
		return nil, fmt.Errorf("render: unable to read file: %w", err)
	}

	bundles, err := t.renderTemplateBundles(ctx, r)
	if err != nil {
		return nil, err
	}

	versions := map[string][]bundleVersion{}
	for _, archetype := range archetypes {
		if versions[archetype], err = bundles.sortedVersions(t.bundlesOfArchetype(archetype)); err != nil {
			return nil, fmt.Errorf("render: unable to post-process bundle info: %w", err)
		}
	}

	channels, defaultChannel := t.generateChannels(bundles.pkg, versions)
	pkg := &fbc.Package{Schema: fbc.SchemaPackage, Name: bundles.pkg, DefaultChannel: defaultChannel}
	bundles.copyPresentation(pkg, channels)

	return bundles.buildCatalogBlobs(pkg, channels)
}

// renderTemplateBundles renders the bundles of the template's images.
func (t *semverTemplate) renderTemplateBundles(ctx context.Context, r Renderer) (*semverBundles, error) {
	var images []string
	for _, archetype := range archetypes {
		for _, bundle := range t.bundlesOfArchetype(archetype).Bundles {
			images = append(images, bundle.Image)
		}
	}

	rendered, err := renderDistinctImages(ctx, images, r)
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

// sortedVersions returns the bundles of an archetype, lowest version first.
func (b *semverBundles) sortedVersions(list bundleList) ([]bundleVersion, error) {
	var versions []bundleVersion
	seen := map[string]bool{}
	for _, listed := range list.Bundles {
		bundle := b.decoded[listed.Image]
		v, err := b.parseBundleVersion(bundle)
		if err != nil {
			return nil, err
		}
		if seen[bundle.Name] {
			return nil, fmt.Errorf("duplicate bundle name %q", bundle.Name)
		}

		seen[bundle.Name] = true
		versions = append(versions, bundleVersion{name: bundle.Name, version: v})
	}

	slices.SortFunc(versions, func(a, b bundleVersion) int { return a.version.Compare(b.version) })
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

// parseBundleVersion returns the version of a bundle's olm.package property. The first bundle
// determines the package that all bundles must have.
func (b *semverBundles) parseBundleVersion(bundle *fbc.Bundle) (semver.Version, error) {
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

// copyPresentation copies the description and the icon of the newest bundle in the default
// channel to the package.
func (b *semverBundles) copyPresentation(pkg *fbc.Package, channels []fbc.Channel) {
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
		pkg.Description, pkg.Icon = readPresentation(b.byImage[image].CSV, bundle)
		return
	}
}

// buildCatalogBlobs returns the blobs of the catalog: the package, its channels, and its bundles
// by name.
func (b *semverBundles) buildCatalogBlobs(pkg *fbc.Package, channels []fbc.Channel) ([]fbc.Meta, error) {
	meta, err := parseSingleBlob(pkg.AppendJSON(nil))
	if err != nil {
		return nil, err
	}

	blobs := []fbc.Meta{meta}
	for _, channel := range channels {
		meta, err := parseSingleBlob(channel.AppendJSON(nil))
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
