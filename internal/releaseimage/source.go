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

// source is what a release begins with.
type source struct {
	metadata   release.Metadata
	components []component
	// files are those of release-manifests, own those of manifests, by name.
	files, own map[string][]byte
	created    time.Time
	// annotations of image-references.
	annotations map[string]string
	// was are the files of release-manifests of the release that is only built again; nil
	// when it is not.
	was map[string][]byte
	// noBase says that the release it was read from is built upon nothing.
	noBase bool
}

func (b *Build) source(ctx context.Context) (*source, error) {
	switch {
	case b.FromDir != nil:
		return b.fromDir(ctx)
	case b.FromRelease != "":
		return b.fromRelease(ctx)
	default:
		return b.fromImages(ctx)
	}
}

// fromImages begins with images alone, those of an ImageStream first.
func (b *Build) fromImages(ctx context.Context) (*source, error) {
	s := &source{files: map[string][]byte{}, own: map[string][]byte{}}
	var mappings []Mapping
	overridden := map[string]bool{}
	if b.FromStream != nil {
		s.annotations = map[string]string{annotationFromStream: b.FromStream.Name}
		for _, tag := range b.FromStream.Tags {
			mappings = append(mappings, Mapping{Name: tag.Name, Image: tag.PullSpec, Annotations: tag.Annotations})
		}
	}

	mappings = b.override(mappings, overridden)
	var err error
	s.components, err = readComponents(ctx, b.Clients, mappings)
	if err == nil {
		err = checkExcluded(b.Exclude, s.components, b.FromStream)
	}

	markOverrides(s.components, overridden)
	return s, err
}

// override puts the images that were asked for in place of those with their names, and
// leaves out those that are not wanted.
func (b *Build) override(mappings []Mapping, overridden map[string]bool) []Mapping {
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

func markOverrides(components []component, overridden map[string]bool) {
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

// checkExcluded refuses to leave out what is not there: the name is probably misspelt.
func checkExcluded(exclude []string, kept []component, stream *release.ImageReferences) error {
	if stream == nil {
		return nil
	}

	var wrong []error
	for _, name := range exclude {
		_, ok := stream.PullSpec(name)
		if !ok && !slices.ContainsFunc(kept, func(c component) bool { return c.name == name }) {
			wrong = append(wrong, fmt.Errorf("there is no image %q to leave out", name))
		}
	}

	return errors.Join(wrong...)
}

// fromDir begins with a folder of manifests.
func (b *Build) fromDir(ctx context.Context) (*source, error) {
	folder, own := ".", ""
	if info, err := fs.Stat(b.FromDir, release.FolderRelease); err == nil && info.IsDir() {
		folder, own = release.FolderRelease, release.FolderOwn
	}

	s := &source{own: map[string][]byte{}}
	var err error
	if s.files, err = readFolder(b.FromDir, folder); err != nil {
		return nil, err
	}

	if own != "" {
		if s.own, err = readFolder(b.FromDir, own); err != nil {
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
	return s, b.addListed(ctx, s, references)
}

// addListed adds the images that a folder lists, and those that were asked for.
func (b *Build) addListed(ctx context.Context, s *source, references release.ImageReferences) error {
	var mappings []Mapping
	for _, tag := range references.Tags {
		mappings = append(mappings, Mapping{Name: tag.Name, Image: tag.PullSpec, Annotations: tag.Annotations})
	}

	overridden := map[string]bool{}
	var read []Mapping
	for _, mapping := range b.override(mappings, overridden) {
		listed, isListed := references.PullSpec(mapping.Name)
		if isListed && !overridden[mapping.Name] && image.IsCanonical(mapping.Image) {
			// All that is known of it is known already.
			s.components = append(s.components, component{
				name: mapping.Name, pullSpec: mapping.Image, annotations: mapping.Annotations, listed: listed, keep: true,
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
		c.listed, c.keep = listed, isListed
		s.components = append(s.components, c)
	}

	markOverrides(s.components, overridden)
	return checkExcluded(b.Exclude, s.components, &references)
}

// fromRelease begins with a release: with its images, and with those of its manifests that
// none of its images brought. What they brought is made again.
func (b *Build) fromRelease(ctx context.Context) (*source, error) {
	opened, err := Open(ctx, b.Clients(b.FromRelease), b.FromRelease)
	if err != nil {
		return nil, err
	}

	defer func() { _ = opened.Close() }() // What is needed later was read.
	s := &source{metadata: opened.Payload.Metadata, own: map[string][]byte{}, created: opened.Payload.Images.Created.UTC()}
	if s.files, err = readFolder(opened.files, release.FolderRelease); err != nil {
		return nil, err
	}

	before := maps.Clone(s.files)
	if before[path.Base(release.FileMetadata)], err = opened.files.ReadFile(release.FileMetadata); err != nil {
		return nil, err
	}

	delete(s.files, fileImages)
	if err := b.ownOf(ctx, s, opened); err != nil {
		return nil, err
	}

	components, err := b.componentsOf(ctx, s, opened.Payload.Images)
	if err != nil {
		return nil, err
	}
	if b.changesNothing() {
		s.annotations, s.components, s.was = opened.Payload.Images.Annotations, components, before
		return s, nil
	}

	s.annotations = map[string]string{annotationFromRelease: opened.Canonical}
	return s, b.replaceImages(ctx, s, components)
}

// componentsOf reads the images of a release, and takes what they brought out of its files.
func (b *Build) componentsOf(ctx context.Context, s *source, images release.ImageReferences) ([]component, error) {
	var mappings []Mapping
	for _, tag := range images.Tags {
		mappings = append(mappings, Mapping{Name: tag.Name, Image: tag.PullSpec, Annotations: tag.Annotations})
	}

	components, err := readComponents(ctx, b.Clients, mappings)
	if err != nil {
		return nil, err
	}

	brought := &composition{name: images.Name, components: slices.Clone(components), files: map[string][]byte{}, allowMissing: true}
	if err := brought.compose(cmp.Or(b.BaseTag, DefaultBase)); err != nil {
		return nil, err
	}

	for name := range brought.files {
		delete(s.files, name)
	}

	for i := range components {
		components[i].keep, components[i].listed = true, components[i].pullSpec
	}

	return components, nil
}

// ownOf returns a release that is made from another one those manifests of the folder
// manifests that its base does not have.
func (b *Build) ownOf(ctx context.Context, s *source, opened *Image) error {
	var err error
	if s.own, err = readFolder(opened.files, release.FolderOwn); err != nil {
		return err
	}
	if opened.Labels[LabelBaseDigest] == "" {
		s.noBase = true
		return nil
	}

	base, ok := opened.Payload.Images.PullSpec(cmp.Or(b.BaseTag, DefaultBase))
	if b.Base != "" && b.Base != BaseNone {
		base, ok = b.Base, true
	}
	if !ok {
		return fmt.Errorf("the release %s has no image %q that it was built upon: name it", opened.Canonical, cmp.Or(b.BaseTag, DefaultBase))
	}

	manifests, err := ownManifests(ctx, b.Clients, base)
	for name, data := range manifests {
		if string(s.own[name]) == string(data) {
			delete(s.own, name)
		}
	}

	return err
}

// replaceImages puts the images that were asked for in place of those of the release.
func (b *Build) replaceImages(ctx context.Context, s *source, components []component) error {
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
			found[i].listed, found[i].keep = old.pullSpec, true
		case !slices.Contains(b.Exclude, old.name):
			s.components = append(s.components, old)
		}
	}

	s.components = append(s.components, found...)
	markOverrides(s.components, overridden)
	return nil
}

// unnamedVersion is the name of a list of images that has none: that of a folder of manifests
// becomes the name of the release.
const unnamedVersion = "0.0.1"
