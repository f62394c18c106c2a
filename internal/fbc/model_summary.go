package fbc

import (
	"encoding/json"
	"fmt"

	"github.com/blang/semver/v4"
)

// Summary is what the model and its rules need to know of one blob, and what is wrong
// with that blob by itself. It is small and keeps nothing of the blob.
type Summary struct {
	// At is where the blob stands.
	At Place

	schema, pkg, name string
	// unread tells that the blob does not fit its schema: only its name is known.
	unread bool
	faults []*TreeError

	// number counts the olm.deprecations blobs of a catalog, from 0.
	number int
	// defaultChannel of a package.
	defaultChannel string
	// entries of a channel, and what is wrong with their skipRanges.
	entries []ChannelEntry
	ranges  map[string]error
	// bundle is nil for other blobs.
	bundle *bundleSummary
	// deprecations of a package.
	deprecations []DeprecationEntry
}

// bundleSummary is what the rules ask of a bundle beside what the model has.
type bundleSummary struct {
	ModelBundle
	// stated is the last olm.package property, and packages how many there are.
	stated   PackageProperty
	packages int
	// hasObjects tells that the bundle's manifests are in the catalog.
	hasObjects bool
	// versioned tells that its version and release are known.
	versioned bool
	// unreadPackage tells that a property could not be read that is or may be the
	// olm.package property.
	unreadPackage bool
}

// Summarize looks at one blob as Walk gives it. This is the part of a validation that
// takes time. It may be called for several blobs at once.
func Summarize(meta Meta) Summary {
	s := Summary{At: meta.At, schema: meta.Schema, pkg: meta.PackageName(), name: meta.Name}
	switch meta.Schema {
	case SchemaPackage:
		s.readPackage(meta)
	case SchemaChannel:
		s.readChannel(meta)
	case SchemaBundle:
		s.readBundle(meta)
	case SchemaDeprecations:
		if d, err := DecodeDeprecations(meta); err != nil {
			s.misfit(meta, "parse deprecation: %w", reason[Deprecations](meta))
		} else {
			s.deprecations = d.Entries
		}
	}

	return s
}

// CheckSchema says why a blob does not fit its schema, if it is one that OLM defines and it
// does not.
func CheckSchema(meta Meta) error {
	if s := Summarize(meta); s.unread {
		return s.faults[0]
	}
	return nil
}

// fault notes what is wrong with the blob.
func (s *Summary) fault(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	s.faults = append(s.faults, &TreeError{Message: err.Error(), Err: err, alone: true})
}

// misfit notes that the blob does not fit its schema.
func (s *Summary) misfit(meta Meta, format string, err error) {
	s.unread = true
	s.fault(format, err)
	s.faults[len(s.faults)-1].blob = meta.String()
}

// reason says why a blob does not fit its schema, in the words of encoding/json alone.
func reason[T any](meta Meta) error {
	if err := json.Unmarshal(meta.Blob, new(T)); err != nil {
		return err
	}
	return fmt.Errorf("%s is not as its schema says", meta)
}

func (s *Summary) readPackage(meta Meta) {
	p, err := DecodePackage(meta)
	if err != nil {
		s.misfit(meta, "parse package: %w", reason[Package](meta))
		return
	}
	s.defaultChannel = p.DefaultChannel
}

func (s *Summary) readChannel(meta Meta) {
	channel, err := DecodeChannel(meta)
	if err != nil {
		s.misfit(meta, "parse channel: %w", reason[Channel](meta))
		return
	}

	s.entries = channel.Entries
	for _, entry := range channel.Entries {
		if err := checkRange(entry.SkipRange); err != nil {
			if s.ranges == nil {
				s.ranges = map[string]error{}
			}
			s.ranges[entry.SkipRange] = err
		}
	}
}

// maxRange bounds a range of versions, in bytes. Real ones have some 40; a hundred
// alternatives still fit.
const maxRange = 4096

// checkRange checks a range of versions, which may be empty.
func checkRange(text string) error {
	switch {
	case text == "":
		return nil
	case len(text) > maxRange:
		return fmt.Errorf("is longer than %d bytes", maxRange)
	}

	_, err := semver.ParseRange(text)
	return err
}

func (s *Summary) readBundle(meta Meta) {
	s.bundle = &bundleSummary{ModelBundle: ModelBundle{Name: s.name}}
	bundle, err := DecodeBundle(meta)
	if err != nil {
		s.misfit(meta, "parse bundle: %w", reason[Bundle](meta))
		return
	}

	s.bundle.Image = bundle.Image
	for i, p := range bundle.Properties {
		s.readProperty(i, p)
	}

	s.checkPackage()
	if err := checkPullSpec(bundle.Image); bundle.Image != "" && err != nil {
		s.fault("package %q bundle %q image: invalid image pull spec %q: %w", s.pkg, s.name, bundle.Image, err)
	}

	for i, related := range bundle.RelatedImages {
		if err := checkPullSpec(related.Image); related.Image != "" && err != nil {
			s.fault("package %q bundle %q relatedImages[%d].image: invalid image pull spec %q: %w", s.pkg, s.name, i, related.Image, err)
		}
	}

	s.readVersion()
}

// checkPackage checks that the bundle says once to which package it belongs.
func (s *Summary) checkPackage() {
	switch b := s.bundle; {
	case b.unreadPackage:
		// Perhaps it is the one.
	case b.packages != 1:
		s.fault("package %q bundle %q must have exactly 1 %q property, found %d", s.pkg, s.name, PropertyPackage, b.packages)
	case b.stated.PackageName != s.pkg && s.pkg != "":
		s.fault("package %q does not match %q property %q", s.pkg, PropertyPackage, b.stated.PackageName)
	}
}

// readVersion reads the version and the release that the bundle states.
func (s *Summary) readVersion() {
	b := s.bundle
	if b.packages != 1 || b.unreadPackage {
		return
	}

	version, err := semver.Parse(b.stated.Version)
	if err != nil {
		s.fault("error parsing bundle %q version %q: %w", s.name, b.stated.Version, err)
	}

	release, rerr := ParseRelease(b.stated.Release)
	if rerr != nil {
		s.fault("error parsing bundle %q release version %q: %w", s.name, b.stated.Release, rerr)
	}

	b.Version, b.Release = version, release
	b.versioned = err == nil && rerr == nil
}
