package fbc

import (
	"encoding/json"
	"fmt"

	"github.com/blang/semver/v4"

	"github.com/mainstay-dev/mainstay/internal/versionrange"
)

// Summary has the data of one blob that the model and its rules need, and the faults of the blob
// itself. It is small and does not share memory with the blob.
type Summary struct {
	// At is the position of the blob.
	At Place

	schema, pkg, name string
	// undecoded is set if the blob does not fit its schema: only its name is known.
	undecoded bool
	faults    []*TreeError
	findings  []Finding

	// number is the index of an olm.deprecations blob in the catalog, from 0.
	number int
	// defaultChannel is the default channel of a package.
	defaultChannel string
	entries        []ChannelEntry
	// invalidRanges are the errors of the entries' invalid skipRanges.
	invalidRanges map[string]error
	// bundle is nil for other blobs.
	bundle       *bundleSummary
	deprecations []DeprecationEntry
}

// bundleSummary has the data of a bundle that the rules need in addition to the model.
type bundleSummary struct {
	ModelBundle
	// packageProperty is the last olm.package property, and packagePropertyCount their number.
	packageProperty      PackageProperty
	packagePropertyCount int
	// hasObjects is set if the bundle's manifests are in the catalog.
	hasObjects bool
	// hasVersion is set if the version and release are valid.
	hasVersion bool
	// packagePropertyInvalid is set if an olm.package property cannot be read.
	packagePropertyInvalid bool
}

// Summarize extracts the summary of one blob of Walk. This is the expensive part of a validation.
// It is safe for concurrent use.
func Summarize(meta Meta) Summary {
	s := Summary{At: meta.At, schema: meta.Schema, pkg: meta.PackageName(), name: meta.Name}
	switch meta.Schema {
	case SchemaPackage:
		s.summarizePackage(meta)
	case SchemaChannel:
		s.summarizeChannel(meta)
	case SchemaBundle:
		s.summarizeBundle(meta)
	case SchemaDeprecations:
		if d, err := DecodeDeprecations(meta); err != nil {
			s.addSchemaFault(meta, "parse deprecation: %w", explainMismatch[Deprecations](meta))
		} else {
			s.deprecations = d.Entries
		}
	default:
		s.checkReservedSchema()
	}

	return s
}

// CheckSchema returns an error if the blob is of a schema that OLM defines and does not fit it.
func CheckSchema(meta Meta) error {
	if s := Summarize(meta); s.undecoded {
		return s.faults[0]
	}
	return nil
}

// addFaultf adds a fault of the blob.
func (s *Summary) addFaultf(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	s.faults = append(s.faults, &TreeError{Message: err.Error(), Err: err, standalone: true})
}

// addSchemaFault adds the fault that the blob does not fit its schema.
func (s *Summary) addSchemaFault(meta Meta, format string, err error) {
	s.undecoded = true
	s.addFaultf(format, err)
	s.faults[len(s.faults)-1].blobName = meta.String()
}

// explainMismatch returns the error of encoding/json for a blob that does not fit its schema.
func explainMismatch[T any](meta Meta) error {
	if err := json.Unmarshal(meta.Blob, new(T)); err != nil {
		return err
	}
	return fmt.Errorf("%s is not as its schema says", meta)
}

func (s *Summary) summarizePackage(meta Meta) {
	p, err := DecodePackage(meta)
	if err != nil {
		s.addSchemaFault(meta, "parse package: %w", explainMismatch[Package](meta))
		return
	}
	s.defaultChannel = p.DefaultChannel
}

func (s *Summary) summarizeChannel(meta Meta) {
	channel, err := DecodeChannel(meta)
	if err != nil {
		s.addSchemaFault(meta, "parse channel: %w", explainMismatch[Channel](meta))
		return
	}

	s.entries = channel.Entries
	for _, entry := range channel.Entries {
		if err := checkVersionRange(entry.SkipRange); err != nil {
			if s.invalidRanges == nil {
				s.invalidRanges = map[string]error{}
			}
			s.invalidRanges[entry.SkipRange] = err
		}
	}
}

// checkVersionRange returns an error if a version range is invalid. It may be empty.
func checkVersionRange(text string) error {
	if text == "" {
		return nil
	}
	_, err := versionrange.Parse(text)
	return err
}

func (s *Summary) summarizeBundle(meta Meta) {
	s.bundle = &bundleSummary{ModelBundle: ModelBundle{Name: s.name}}
	bundle, err := DecodeBundle(meta)
	if err != nil {
		s.addSchemaFault(meta, "parse bundle: %w", explainMismatch[Bundle](meta))
		return
	}

	s.bundle.Image = bundle.Image
	for i, p := range bundle.Properties {
		s.readBundleProperty(i, p)
		s.checkPropertyOfBundle(i, p)
	}

	s.checkPackageProperty()
	if err := CheckPullSpec(bundle.Image); bundle.Image != "" && err != nil {
		s.addFaultf("package %q bundle %q image: invalid image pull spec %q: %w", s.pkg, s.name, bundle.Image, err)
	}

	for i, related := range bundle.RelatedImages {
		if err := CheckPullSpec(related.Image); related.Image != "" && err != nil {
			s.addFaultf("package %q bundle %q relatedImages[%d].image: invalid image pull spec %q: %w", s.pkg, s.name, i, related.Image, err)
		}
	}

	s.parseVersionAndRelease()
}

// checkPackageProperty checks that the bundle has exactly one olm.package property and that it
// names the bundle's package.
func (s *Summary) checkPackageProperty() {
	switch b := s.bundle; {
	case b.packagePropertyInvalid:
		// The unreadable property may be the required one.
	case b.packagePropertyCount != 1:
		s.addFaultf("package %q bundle %q must have exactly 1 %q property, found %d", s.pkg, s.name, PropertyPackage, b.packagePropertyCount)
	case b.packageProperty.PackageName != s.pkg && s.pkg != "":
		s.addFaultf("package %q does not match %q property %q", s.pkg, PropertyPackage, b.packageProperty.PackageName)
	}
}

// parseVersionAndRelease parses the version and the release of the olm.package property.
func (s *Summary) parseVersionAndRelease() {
	b := s.bundle
	if b.packagePropertyCount != 1 || b.packagePropertyInvalid {
		return
	}

	version, err := semver.Parse(b.packageProperty.Version)
	if err != nil {
		s.addFaultf("error parsing bundle %q version %q: %w", s.name, b.packageProperty.Version, err)
	}

	release, rerr := ParseRelease(b.packageProperty.Release)
	if rerr != nil {
		s.addFaultf("error parsing bundle %q release version %q: %w", s.name, b.packageProperty.Release, rerr)
	}

	b.Version, b.Release = version, release
	b.hasVersion = err == nil && rerr == nil
}
