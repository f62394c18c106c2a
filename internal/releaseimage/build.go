package releaseimage

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/blang/semver/v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/internal/release"
)

// Annotations of image-references about the input of a build.
const (
	annotationFromRelease = "release.openshift.io/from-release"
	annotationFromStream  = "release.openshift.io/from-image-stream"
	annotationOverride    = "io.openshift.release.override"
)

const (
	// DefaultBase is the default base image of a release: that of the program that applies it.
	DefaultBase = "cluster-version-operator"
	// BaseNone means that there is no base image.
	BaseNone = "scratch"
)

// ErrNotReproducible is returned if rebuilding a release from its inputs leads to another
// result.
var ErrNotReproducible = errors.New("the release could not be reproduced from its inputs")

// Build builds a release. At most one of FromDir, FromRelease and FromStream may be set.
type Build struct {
	// Clients access the registries.
	Clients Clients

	// FromDir contains manifests and, optionally, image-references and release-metadata: all in
	// one directory, or in manifests and release-manifests as in a release image.
	FromDir fs.FS
	// FromRelease is the reference of a release to start from.
	FromRelease string
	// FromStream are the images of an ImageStream.
	FromStream *release.ImageReferences
	// Images are added, or replace images with the same name.
	Images []Mapping
	// Files are additional manifests by file name. They replace files with the same name.
	Files map[string][]byte

	// Name is the semantic version of the release. If empty, the version of the input is used.
	Name string
	// Previous and Next are versions from and to which clusters may be updated, in addition to
	// those of the input.
	Previous, Next []string
	// Metadata are additional metadata values of the release.
	Metadata map[string]string
	// Created is when the release was created. If zero, the time of the input is used, or else
	// that of its newest image, so that the same input leads to the same release.
	Created time.Time

	// Base is the reference of the base image, or BaseNone. If empty, the image BaseTag of the
	// release is used.
	Base string
	// BaseTag is the name of the base image in the release. If empty, it is DefaultBase.
	BaseTag string
	// KeepPlatforms builds a multi-architecture release for all platforms of the base image, of
	// which there must be several. Otherwise the release is for the platform of the client.
	KeepPlatforms bool
	// Include are names of images to keep even if nothing uses them.
	Include []string
	// Exclude are names of images to remove.
	Exclude []string
	// AllowMissing allows components to name images that the release does not have.
	AllowMissing bool
	// SkipCheck skips the validation of manifests.
	SkipCheck bool
}

// Composed is a composed release.
type Composed struct {
	Metadata release.Metadata
	Images   release.ImageReferences
	// Files are the files of the payload by path, including release-metadata and
	// image-references.
	Files map[string][]byte
	// Base is the reference of the base image; empty for none.
	Base string
	// Warnings describe what was skipped.
	Warnings []string

	clients Clients
	// keepPlatforms requires a base image with several platforms.
	keepPlatforms bool
}

// Compose composes the payload. The same input leads to the same payload.
func (b *Build) Compose(ctx context.Context) (*Composed, error) {
	if err := errors.Join(b.checkInputs(), checkMappings(b.Images)); err != nil {
		return nil, err
	}

	source, err := b.readBuildInput(ctx)
	if err != nil {
		return nil, err
	}
	if err := b.completeMetadata(&source.metadata); err != nil {
		return nil, err
	}

	maps.Copy(source.files, b.Files)
	c := &composition{
		name: source.metadata.Version, components: source.components, files: source.files, own: source.own,
		allowMissing: b.AllowMissing,
	}
	for _, name := range slices.Concat(b.Include, []string{cmp.Or(b.BaseTag, DefaultBase)}) {
		for i := range c.components {
			c.components[i].isRequired = c.components[i].isRequired || c.components[i].name == name
		}
	}

	if err := c.composeManifests(cmp.Or(b.BaseTag, DefaultBase)); err != nil {
		return nil, err
	}

	for _, name := range c.pruneUnusedImages() {
		c.warnings = append(c.warnings, fmt.Sprintf("image %q is left out: nothing names it", name))
	}

	composed, err := b.assembleRelease(ctx, c, source)
	if err != nil {
		return nil, err
	}

	if source.originalFiles != nil {
		if err := checkReproduced(composed, source.originalFiles); err != nil {
			return nil, err
		}
	}

	return composed, nil
}

func (b *Build) checkInputs() error {
	from := 0
	for _, given := range []bool{b.FromDir != nil, b.FromRelease != "", b.FromStream != nil} {
		if given {
			from++
		}
	}

	switch {
	case from > 1:
		return errors.New("a release is made from a folder, from a release or from an ImageStream: name one of them")
	case from == 0 && len(b.Images) == 0:
		return errors.New("there is nothing to make a release from: name a folder, a release, or images")
	default:
		return nil
	}
}

// isRebuild reports whether a release is rebuilt without changes.
func (b *Build) isRebuild() bool {
	return b.Name == "" && len(b.Images)+len(b.Files)+len(b.Previous)+len(b.Next)+len(b.Metadata)+len(b.Exclude)+len(b.Include) == 0 && b.Created.IsZero() && b.Base == "" && !b.KeepPlatforms
}

// completeMetadata applies the options of the build to the metadata, and validates it.
func (b *Build) completeMetadata(metadata *release.Metadata) error {
	metadata.Kind = release.KindMetadata
	if b.Name != "" {
		metadata.Version = b.Name
	}
	if metadata.Version == "" {
		return errors.New("the release has no name: give it a semantic version")
	}
	if _, err := semver.Parse(metadata.Version); err != nil {
		return fmt.Errorf("the name %q of the release is not a semantic version: %w", metadata.Version, err)
	}

	metadata.Previous = appendMissing(metadata.Previous, b.Previous)
	metadata.Next = appendMissing(metadata.Next, b.Next)
	merged := map[string]string{}
	maps.Copy(merged, metadata.Metadata)
	maps.Copy(merged, b.Metadata)
	if b.KeepPlatforms {
		merged[release.MetadataArchitecture] = release.MultiArchitecture
	}
	if len(merged) > 0 {
		metadata.Metadata = merged
	}

	return metadata.Check()
}

// appendMissing appends the versions that are not in the list.
func appendMissing(versions, more []string) []string {
	for _, version := range more {
		if !slices.Contains(versions, version) {
			versions = append(versions, version)
		}
	}
	return versions
}

// assembleRelease encodes the metadata and image references, and validates the payload.
func (b *Build) assembleRelease(ctx context.Context, c *composition, source *buildInput) (*Composed, error) {
	composed := &Composed{Metadata: source.metadata, Images: c.imageReferences(), Files: map[string][]byte{}, Warnings: c.warnings, clients: b.Clients, keepPlatforms: b.KeepPlatforms}
	composed.Images.Annotations = source.annotations
	composed.Images.Created = metav1.NewTime(b.creationTime(c, source))
	for name, data := range c.files {
		composed.Files[path.Join(release.FolderRelease, name)] = data
	}

	for name, data := range c.own {
		composed.Files[path.Join(release.FolderOwn, name)] = data
	}

	var err error
	if composed.Files[release.FileMetadata], err = composed.Metadata.Encode(); err != nil {
		return nil, err
	}
	if composed.Files[release.FileImages], err = composed.Images.Encode(); err != nil {
		return nil, err
	}
	if composed.Base, err = b.findBaseImage(composed.Images, source.hasNoBase); err != nil {
		return nil, err
	}
	if b.SkipCheck {
		return composed, nil
	}

	return composed, composed.checkPayload(ctx)
}

// creationTime returns when the release was created, in whole seconds.
func (b *Build) creationTime(c *composition, source *buildInput) time.Time {
	at := b.Created
	if at.IsZero() {
		at = source.created
	}

	if at.IsZero() {
		for _, component := range c.components {
			if component.created.After(at) {
				at = component.created
			}
		}
	}

	if at.IsZero() {
		at = time.Unix(0, 0)
	}

	return at.UTC().Truncate(time.Second)
}

// findBaseImage returns the reference of the base image; none states that the input has no base
// image.
func (b *Build) findBaseImage(images release.ImageReferences, none bool) (string, error) {
	switch {
	case b.Base == BaseNone, b.Base == "" && none:
		return "", nil
	case b.Base != "":
		return b.Base, nil
	}

	tag := cmp.Or(b.BaseTag, DefaultBase)
	pullSpec, ok := images.PullSpec(tag)
	if !ok {
		return "", fmt.Errorf("the release has no image %q to build upon: name another one, or %q for none", tag, BaseNone)
	}

	return pullSpec, nil
}

// checkPayload loads the payload as clusters do, with the manifests of the base image.
func (c *Composed) checkPayload(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "mainstay-release-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // The directory is temporary.
	if err := c.Write(dir); err != nil {
		return err
	}
	if err := c.writeBaseManifests(ctx, dir); err != nil {
		return err
	}

	// Every program executes templates with the same values.
	_, err = release.Load(os.DirFS(dir), release.Options{ReleaseImage: "release", StrictTemplates: true})
	return err
}

// writeBaseManifests writes the manifests of the base image into a directory, except those that
// the release replaces.
func (c *Composed) writeBaseManifests(ctx context.Context, dir string) error {
	own := filepath.Join(dir, release.FolderOwn)
	if err := os.MkdirAll(own, dirMode); err != nil || c.Base == "" {
		return err
	}

	manifests, err := readBaseManifests(ctx, c.clients, c.Base)
	if err != nil {
		return err
	}

	for name, data := range manifests {
		if _, replaced := c.Files[path.Join(release.FolderOwn, name)]; replaced {
			continue
		}
		if err := os.WriteFile(filepath.Join(own, name), data, fileMode); err != nil {
			return err
		}
	}

	return nil
}

// readBaseManifests reads the directory manifests of a base image.
func readBaseManifests(ctx context.Context, clients Clients, base string) (map[string][]byte, error) {
	manifests, err := func() (map[string][]byte, error) {
		pulled, err := clients(base).Pull(ctx, base)
		if err != nil {
			return nil, err
		}
		defer func() { _ = pulled.Close() }() // It was only read.
		files, err := pulled.FilesOfFolders(ctx, "", release.FolderOwn)
		if err != nil {
			return nil, err
		}
		defer func() { _ = files.Close() }() // It was only read.
		return readManifestFolder(files, release.FolderOwn)
	}()
	if err != nil {
		return nil, fmt.Errorf("the image to build upon: %w", err)
	}
	return manifests, nil
}

// Write writes the files of the payload into a directory. It returns an error if a manifest
// directory in it is not empty.
func (c *Composed) Write(dir string) error {
	for _, folder := range []string{release.FolderOwn, release.FolderRelease} {
		if err := os.MkdirAll(filepath.Join(dir, folder), dirMode); err != nil {
			return err
		}
		if entries, err := os.ReadDir(filepath.Join(dir, folder)); err != nil || len(entries) > 0 {
			return errors.Join(err, fmt.Errorf("the folder %s is not empty", filepath.Join(dir, folder)))
		}
	}

	for _, name := range slices.Sorted(maps.Keys(c.Files)) {
		if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), c.Files[name], fileMode); err != nil {
			return err
		}
	}
	return nil
}

// checkReproduced returns an error if a rebuilt release differs from the original files.
func checkReproduced(c *Composed, original map[string][]byte) error {
	rebuilt := map[string][]byte{}
	for file, data := range c.Files {
		if folder, name := path.Split(file); path.Clean(folder) == release.FolderRelease {
			rebuilt[name] = data
		}
	}

	for name, data := range original {
		again, ok := rebuilt[name]
		same := ok && string(again) == string(data)
		if name == fileImages || name == path.Base(release.FileMetadata) {
			same = ok && isEqualJSON(again, data)
		}
		if !same {
			return fmt.Errorf("%w: %s differs", ErrNotReproducible, name)
		}
	}

	for name := range rebuilt {
		if _, ok := original[name]; !ok {
			return fmt.Errorf("%w: %s is new", ErrNotReproducible, name)
		}
	}

	return nil
}

// isEqualJSON reports whether two JSON documents have the same content, regardless of
// formatting.
func isEqualJSON(a, b []byte) bool {
	var left, right any
	if json.Unmarshal(a, &left) != nil || json.Unmarshal(b, &right) != nil {
		return false
	}
	first, errFirst := json.Marshal(left)
	second, errSecond := json.Marshal(right)
	return errFirst == nil && errSecond == nil && string(first) == string(second)
}
