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

// Annotations of image-references about how a release was made.
const (
	annotationFromRelease = "release.openshift.io/from-release"
	annotationFromStream  = "release.openshift.io/from-image-stream"
	annotationOverride    = "io.openshift.release.override"
)

const (
	// DefaultBase is the image that a release is built upon: that of the program which
	// applies it.
	DefaultBase = "cluster-version-operator"
	// BaseNone stands for no image to build upon.
	BaseNone = "scratch"
)

// ErrNotReproducible is about a release that was built again from what it was made from, and
// came out otherwise.
var ErrNotReproducible = errors.New("the release could not be reproduced from its inputs")

// Build puts a release together. It begins with at most one of FromDir, FromRelease and
// FromStream.
type Build struct {
	// Clients reach the registries.
	Clients Clients

	// FromDir has manifests, and beside them image-references and release-metadata, if they
	// are known: all in one folder, or in manifests and release-manifests as they stand in a
	// release image.
	FromDir fs.FS
	// FromRelease is the reference of a release to begin with.
	FromRelease string
	// FromStream are the images of an ImageStream.
	FromStream *release.ImageReferences
	// Images are added, or take the place of those with the same name.
	Images []Mapping
	// Files are further manifests by the names of their files, which take the place of those
	// with the same name.
	Files map[string][]byte

	// Name is the version of the release, a semantic version. Empty: that of what the release
	// is made from.
	Name string
	// Previous and Next are versions from and to which clusters may be updated, beside those
	// of what it is made from.
	Previous, Next []string
	// Metadata are further texts about the release.
	Metadata map[string]string
	// Created is when the release was made. Zero: what it is made from says it, or else it is
	// the time of its newest image, so that the same input makes the same release.
	Created time.Time

	// Base is the image to build upon: its reference, or BaseNone. Empty: the image BaseTag of
	// the release.
	Base string
	// BaseTag is empty for DefaultBase.
	BaseTag string
	// KeepPlatforms makes a release for all platforms that the image to build upon is there
	// for, of which there must be several: a list of images, with the architecture
	// release.ArchitectureMulti. Otherwise the release is for the platform of the client.
	KeepPlatforms bool
	// Include are images to keep though nothing names them.
	Include []string
	// Exclude are images to drop.
	Exclude []string
	// AllowMissing lets components name images that the release does not have.
	AllowMissing bool
	// SkipCheck takes manifests as they are, also broken ones.
	SkipCheck bool
}

// Composed is a release that was put together.
type Composed struct {
	Metadata release.Metadata
	Images   release.ImageReferences
	// Files of the payload by their paths, release-metadata and image-references among them.
	Files map[string][]byte
	// Base is the image to build upon, by digest; empty for none.
	Base string
	// Warnings are sentences about what was passed over.
	Warnings []string

	clients Clients
	// keepPlatforms says that the base must be there for several platforms.
	keepPlatforms bool
}

// Compose puts the payload together. With the same input it gives the same.
func (b *Build) Compose(ctx context.Context) (*Composed, error) {
	if err := errors.Join(b.check(), checkNames(b.Images)); err != nil {
		return nil, err
	}

	source, err := b.source(ctx)
	if err != nil {
		return nil, err
	}
	if err := b.settle(&source.metadata); err != nil {
		return nil, err
	}

	maps.Copy(source.files, b.Files)
	c := &composition{
		name: source.metadata.Version, components: source.components, files: source.files, own: source.own,
		allowMissing: b.AllowMissing,
	}
	for _, name := range slices.Concat(b.Include, []string{cmp.Or(b.BaseTag, DefaultBase)}) {
		for i := range c.components {
			c.components[i].keep = c.components[i].keep || c.components[i].name == name
		}
	}

	if err := c.compose(cmp.Or(b.BaseTag, DefaultBase)); err != nil {
		return nil, err
	}

	for _, name := range c.prune() {
		c.warnings = append(c.warnings, fmt.Sprintf("image %q is left out: nothing names it", name))
	}

	composed, err := b.finish(ctx, c, source)
	if err != nil {
		return nil, err
	}

	if source.was != nil {
		if err := reproduces(composed, source.was); err != nil {
			return nil, err
		}
	}

	return composed, nil
}

func (b *Build) check() error {
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

// changesNothing reports whether a release is only built again.
func (b *Build) changesNothing() bool {
	return b.Name == "" && len(b.Images)+len(b.Files)+len(b.Previous)+len(b.Next)+len(b.Metadata)+len(b.Exclude)+len(b.Include) == 0 && b.Created.IsZero() && b.Base == "" && !b.KeepPlatforms
}

// settle completes the metadata by what was asked for.
func (b *Build) settle(metadata *release.Metadata) error {
	metadata.Kind = release.KindMetadata
	if b.Name != "" {
		metadata.Version = b.Name
	}
	if metadata.Version == "" {
		return errors.New("the release has no name: give it a semantic version")
	}
	if _, err := semver.Parse(metadata.Version); err != nil {
		return fmt.Errorf("the name %q of the release is no semantic version: %w", metadata.Version, err)
	}

	metadata.Previous = union(metadata.Previous, b.Previous)
	metadata.Next = union(metadata.Next, b.Next)
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

// union adds versions that are not there yet.
func union(versions, more []string) []string {
	for _, version := range more {
		if !slices.Contains(versions, version) {
			versions = append(versions, version)
		}
	}
	return versions
}

// finish writes what the release says of itself and of its images, and checks the whole.
func (b *Build) finish(ctx context.Context, c *composition, source *source) (*Composed, error) {
	composed := &Composed{Metadata: source.metadata, Images: c.references(), Files: map[string][]byte{}, Warnings: c.warnings, clients: b.Clients, keepPlatforms: b.KeepPlatforms}
	composed.Images.Annotations = source.annotations
	composed.Images.Created = metav1.NewTime(b.created(c, source))
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
	if composed.Base, err = b.base(composed.Images, source.noBase); err != nil {
		return nil, err
	}
	if b.SkipCheck {
		return composed, nil
	}

	return composed, composed.check(ctx)
}

// created is when the release was made, in whole seconds.
func (b *Build) created(c *composition, source *source) time.Time {
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

// base finds the image to build upon.
func (b *Build) base(images release.ImageReferences, none bool) (string, error) {
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

// check loads the payload as clusters will, with the manifests that the base has.
func (c *Composed) check(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "mainstay-release-")
	if err != nil {
		return err
	}

	defer func() { _ = os.RemoveAll(dir) }() // Nothing of it is needed any more.
	if err := c.Write(dir); err != nil {
		return err
	}
	if err := c.addOwn(ctx, dir); err != nil {
		return err
	}

	// Templates are executed with the same values by every program that knows them.
	_, err = release.Load(os.DirFS(dir), release.Options{ReleaseImage: "release", StrictTemplates: true})
	return err
}

// addOwn writes the manifests of the base into a folder, but for those that the release
// replaces.
func (c *Composed) addOwn(ctx context.Context, dir string) error {
	own := filepath.Join(dir, release.FolderOwn)
	if err := os.MkdirAll(own, dirMode); err != nil || c.Base == "" {
		return err
	}

	manifests, err := ownManifests(ctx, c.clients, c.Base)
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

// ownManifests reads the folder manifests of an image to build upon.
func ownManifests(ctx context.Context, clients Clients, base string) (map[string][]byte, error) {
	manifests, err := func() (map[string][]byte, error) {
		pulled, err := clients(base).Pull(ctx, base)
		if err != nil {
			return nil, err
		}

		defer func() { _ = pulled.Close() }() // It was only read.
		files, err := pulled.Folders(ctx, "", release.FolderOwn)
		if err != nil {
			return nil, err
		}

		defer func() { _ = files.Close() }() // It was only read.
		return readFolder(files, release.FolderOwn)
	}()
	if err != nil {
		return nil, fmt.Errorf("the image to build upon: %w", err)
	}
	return manifests, nil
}

// Write writes the files of the payload into a folder. A folder of manifests that holds
// something else already is refused.
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

// reproduces reports whether a release that was built again is as it was.
func reproduces(c *Composed, was map[string][]byte) error {
	made := map[string][]byte{}
	for file, data := range c.Files {
		if folder, name := path.Split(file); path.Clean(folder) == release.FolderRelease {
			made[name] = data
		}
	}

	for name, data := range was {
		again, ok := made[name]
		same := ok && string(again) == string(data)
		if name == fileImages || name == path.Base(release.FileMetadata) {
			same = ok && sameJSON(again, data)
		}
		if !same {
			return fmt.Errorf("%w: %s differs", ErrNotReproducible, name)
		}
	}

	for name := range made {
		if _, ok := was[name]; !ok {
			return fmt.Errorf("%w: %s is new", ErrNotReproducible, name)
		}
	}

	return nil
}

// sameJSON compares what two documents say, however they are written.
func sameJSON(a, b []byte) bool {
	var left, right any
	if json.Unmarshal(a, &left) != nil || json.Unmarshal(b, &right) != nil {
		return false
	}
	first, errFirst := json.Marshal(left)
	second, errSecond := json.Marshal(right)
	return errFirst == nil && errSecond == nil && string(first) == string(second)
}
