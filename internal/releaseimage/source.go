package releaseimage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/release"
)

// buildInput is the initial content of a release to build.
type buildInput struct {
	metadata   release.Metadata
	components []component
	// files are the files of release-manifests, own those of manifests, by name.
	files, own map[string][]byte
	created    time.Time
	// annotations are the annotations of image-references.
	annotations map[string]string
	// originalFiles are the files in release-manifests of a release that is rebuilt without
	// changes; nil otherwise.
	originalFiles map[string][]byte
	// hasNoBase is true if the input is a release without a base image.
	hasNoBase bool
}

func (b *Build) readBuildInput(ctx context.Context) (*buildInput, error) {
	switch {
	case b.FromDir != nil:
		return b.readInputFromDir(ctx)
	case b.FromRelease != "":
		return b.readInputFromRelease(ctx)
	default:
		return b.readInputFromImages(ctx)
	}
}

// readInputFromImages reads images only, starting with those of an ImageStream.
func (b *Build) readInputFromImages(ctx context.Context) (*buildInput, error) {
	s := &buildInput{files: map[string][]byte{}, own: map[string][]byte{}}
	var mappings []Mapping
	overridden := map[string]bool{}
	if b.FromStream != nil {
		s.annotations = map[string]string{annotationFromStream: b.FromStream.Name}
		for _, tag := range b.FromStream.Tags {
			mappings = append(mappings, Mapping{Name: tag.Name, Image: tag.PullSpec, Annotations: tag.Annotations})
		}
	}

	mappings = b.overrideMappings(mappings, overridden)
	var err error
	s.components, err = readComponents(ctx, b.Clients, mappings)
	if err == nil {
		err = checkExcludedImages(b.Exclude, s.components, b.FromStream)
	}

	markOverriddenComponents(s.components, overridden)
	return s, err
}

// overrideMappings replaces images by the requested ones with the same names, adds the other
// requested ones, and removes excluded ones. It records the replaced names in overridden.
func (b *Build) overrideMappings(mappings []Mapping, overridden map[string]bool) []Mapping {
	for _, wanted := range b.Images {
		i := slices.IndexFunc(mappings, func(known Mapping) bool { return known.Name == wanted.Name })
		if i < 0 {
			mappings = append(mappings, wanted)
			continue
		}
		mappings[i] = wanted
		overridden[wanted.Name] = true
	}

	return slices.DeleteFunc(mappings, func(m Mapping) bool { return slices.Contains(b.Exclude, m.Name) })
}

func markOverriddenComponents(components []component, overridden map[string]bool) {
	for i := range components {
		if !overridden[components[i].name] {
			continue
		}

		annotations := maps.Clone(components[i].annotations)
		if annotations == nil {
			annotations = map[string]string{}
		}

		annotations[annotationOverride] = "true"
		components[i].annotations = annotations
	}
}

// checkExcludedImages returns an error for each excluded image that does not exist, because its
// name is probably misspelled.
func checkExcludedImages(exclude []string, kept []component, stream *release.ImageReferences) error {
	if stream == nil {
		return nil
	}

	var errs []error
	for _, name := range exclude {
		_, ok := stream.PullSpec(name)
		if !ok && !slices.ContainsFunc(kept, func(c component) bool { return c.name == name }) {
			errs = append(errs, fmt.Errorf("there is no image %q to exclude", name))
		}
	}

	return errors.Join(errs...)
}

// readInputFromDir reads a directory of manifests.
func (b *Build) readInputFromDir(ctx context.Context) (*buildInput, error) {
	folder, own := ".", ""
	if info, err := fs.Stat(b.FromDir, release.FolderRelease); err == nil && info.IsDir() {
		folder, own = release.FolderRelease, release.FolderOwn
	}

	s := &buildInput{own: map[string][]byte{}}
	var err error
	if s.files, err = readManifestFolder(b.FromDir, folder); err != nil {
		return nil, err
	}

	if own != "" {
		if s.own, err = readManifestFolder(b.FromDir, own); err != nil {
			return nil, err
		}
		delete(s.own, fileImages)
	}

	metadata := path.Join(folder, path.Base(release.FileMetadata))
	data, err := fs.ReadFile(b.FromDir, metadata)
	if err == nil {
		if s.metadata, err = release.ParseMetadata(data); err != nil {
			return nil, fmt.Errorf("%s: %w", metadata, err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}

	var references release.ImageReferences
	if data, ok := s.files[fileImages]; ok {
		if references, err = release.ParseUnnamedImageReferences(data, unnamedVersion); err != nil {
			return nil, fmt.Errorf("%s: %w", path.Join(folder, fileImages), err)
		}
		delete(s.files, fileImages)
	}

	if len(s.files)+len(s.own) == 0 {
		return nil, errors.New("the folder has no manifests: files with the ending .yaml, .yml or .json")
	}

	s.created = references.Created.UTC()
	return s, s.addListedImages(ctx, b, references)
}

// addListedImages adds the images that a directory lists, and the requested ones.
func (s *buildInput) addListedImages(ctx context.Context, b *Build, references release.ImageReferences) error {
	var mappings []Mapping
	for _, tag := range references.Tags {
		mappings = append(mappings, Mapping{Name: tag.Name, Image: tag.PullSpec, Annotations: tag.Annotations})
	}

	overridden := map[string]bool{}
	var read []Mapping
	for _, mapping := range b.overrideMappings(mappings, overridden) {
		listed, isListed := references.PullSpec(mapping.Name)
		if isListed && !overridden[mapping.Name] && image.IsCanonical(mapping.Image) {
			// The list already contains everything about it.
			s.components = append(s.components, component{
				name: mapping.Name, pullSpec: mapping.Image, annotations: mapping.Annotations, listedAs: listed, isRequired: true,
			})
			continue
		}
		read = append(read, mapping)
	}

	found, err := readComponents(ctx, b.Clients, read)
	if err != nil {
		return err
	}

	for _, c := range found {
		listed, isListed := references.PullSpec(c.name)
		c.listedAs = listed
		c.isRequired = isListed
		s.components = append(s.components, c)
	}

	markOverriddenComponents(s.components, overridden)
	return checkExcludedImages(b.Exclude, s.components, &references)
}

// readInputFromRelease reads a release: its images, and the manifests that do not come from one
// of its images. The others are generated again.
func (b *Build) readInputFromRelease(ctx context.Context) (*buildInput, error) {
	opened, err := Open(ctx, b.Clients(b.FromRelease), b.FromRelease)
	if err != nil {
		return nil, err
	}
	defer func() { _ = opened.Close() }() // Everything needed was read.
	s := &buildInput{metadata: opened.Payload.Metadata, own: map[string][]byte{}, created: opened.Payload.Images.Created.UTC()}
	if s.files, err = readManifestFolder(opened.files, release.FolderRelease); err != nil {
		return nil, err
	}

	before := maps.Clone(s.files)
	if before[path.Base(release.FileMetadata)], err = opened.files.ReadFile(release.FileMetadata); err != nil {
		return nil, err
	}

	delete(s.files, fileImages)
	if err := s.readOwnManifests(ctx, b, opened); err != nil {
		return nil, err
	}

	components, err := s.readReleaseComponents(ctx, b, opened.Payload.Images)
	if err != nil {
		return nil, err
	}
	if b.isRebuild() {
		s.annotations = opened.Payload.Images.Annotations
		s.components = components
		s.originalFiles = before
		return s, nil
	}

	s.annotations = map[string]string{annotationFromRelease: opened.Canonical}
	return s, s.replaceImages(ctx, b, components)
}

// readReleaseComponents reads the images of a release, and removes their manifests from the
// files.
func (s *buildInput) readReleaseComponents(ctx context.Context, b *Build, images release.ImageReferences) ([]component, error) {
	var mappings []Mapping
	for _, tag := range images.Tags {
		mappings = append(mappings, Mapping{Name: tag.Name, Image: tag.PullSpec, Annotations: tag.Annotations})
	}

	components, err := readComponents(ctx, b.Clients, mappings)
	if err != nil {
		return nil, err
	}

	brought := &composition{name: images.Name, components: slices.Clone(components), files: map[string][]byte{}, allowMissing: true}
	if err := brought.composeManifests(cmp.Or(b.BaseTag, DefaultBase)); err != nil {
		return nil, err
	}

	for name := range brought.files {
		delete(s.files, name)
	}

	for i := range components {
		components[i].isRequired = true
		components[i].listedAs = components[i].pullSpec
	}

	return components, nil
}

// readOwnManifests reads the manifests in the directory manifests of a release, without those
// that come from its base image.
func (s *buildInput) readOwnManifests(ctx context.Context, b *Build, opened *Image) error {
	var err error
	if s.own, err = readManifestFolder(opened.files, release.FolderOwn); err != nil {
		return err
	}
	if opened.Labels[LabelBaseDigest] == "" {
		s.hasNoBase = true
		return nil
	}

	base, ok := opened.Payload.Images.PullSpec(cmp.Or(b.BaseTag, DefaultBase))
	if b.Base != "" && b.Base != BaseNone {
		base, ok = b.Base, true
	}
	if !ok {
		return fmt.Errorf("the release %s has no image %q, which is its base image: name the base image", opened.Canonical, cmp.Or(b.BaseTag, DefaultBase))
	}

	manifests, err := readBaseManifests(ctx, b.Clients, base)
	for name, data := range manifests {
		if string(s.own[name]) == string(data) {
			delete(s.own, name)
		}
	}

	return err
}

// replaceImages adds the components of a release, replaced by the requested images with the same
// names.
func (s *buildInput) replaceImages(ctx context.Context, b *Build, components []component) error {
	overridden := map[string]bool{}
	var wanted []Mapping
	for _, mapping := range b.Images {
		if slices.Contains(b.Exclude, mapping.Name) {
			continue
		}
		wanted = append(wanted, mapping)
		overridden[mapping.Name] = slices.ContainsFunc(components, func(c component) bool { return c.name == mapping.Name })
	}

	found, err := readComponents(ctx, b.Clients, wanted)
	if err != nil {
		return err
	}

	for _, old := range components {
		i := slices.IndexFunc(found, func(c component) bool { return c.name == old.name })
		switch {
		case i >= 0:
			found[i].listedAs = old.pullSpec
			found[i].isRequired = true
		case !slices.Contains(b.Exclude, old.name):
			s.components = append(s.components, old)
		}
	}

	s.components = append(s.components, found...)
	markOverriddenComponents(s.components, overridden)
	return nil
}

// unnamedVersion is the name of an image list without a name. The list of a directory becomes
// the name of the release.
const unnamedVersion = "0.0.1"
