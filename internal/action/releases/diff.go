package releases

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/objectdiff"
	"github.com/mainstay-dev/mainstay/internal/release"
	"github.com/mainstay-dev/mainstay/internal/releaseimage"
)

// Diff compares two releases.
type Diff struct {
	Source
	// From and To are the releases: references, or versions that Resolver finds.
	From, To string
}

// Comparison is the difference between two releases.
type Comparison struct {
	From *Release `json:"from"`
	To   *Release `json:"to"`
	// UpgradeFrom reports whether clusters can update from the first release to the second.
	UpgradeFrom bool `json:"upgradeFrom"`
	// Images are the differing images, sorted by name.
	Images []ImageChange `json:"images,omitempty"`
	// Components are the components with differing versions, sorted by name.
	Components []ComponentChange `json:"components,omitempty"`
	// Metadata are the differing metadata, sorted by key.
	Metadata []MetadataChange `json:"metadata,omitempty"`
	// Manifests are the differing objects, sorted by file.
	Manifests []ManifestChange `json:"manifests,omitempty"`
}

// Identical reports whether both releases have the same digest.
func (c *Comparison) Identical() bool { return c.From.Digest == c.To.Digest }

// Values of ImageChange.Change.
const (
	// ImageChanged means that the image is built from another commit, or that a commit is
	// unknown.
	ImageChanged = "changed"
	// ImageRebuilt means that the image is built again from the same commit.
	ImageRebuilt = "rebuilt"
	// ImageAdded means that only the second release contains the image.
	ImageAdded = "added"
	// ImageRemoved means that only the first release contains the image.
	ImageRemoved = "removed"
)

// ImageChange is an image that differs.
type ImageChange struct {
	Name   string        `json:"name"`
	Change string        `json:"change"`
	From   *ReleaseImage `json:"from,omitempty"`
	To     *ReleaseImage `json:"to,omitempty"`
}

// ComponentChange is a component whose version differs. The version is empty if the release
// does not contain the component.
type ComponentChange struct {
	Name string `json:"name"`
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// MetadataChange is a metadata value that differs. The value is empty if the release does
// not contain the key.
type MetadataChange struct {
	Key  string `json:"key"`
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// ManifestChange is an object that differs.
type ManifestChange struct {
	// File is the name of the file without its folder.
	File string `json:"file"`
	objectdiff.Change
}

// Run compares the releases.
func (a *Diff) Run(ctx context.Context) (*Comparison, error) {
	from, err := a.openRelease(ctx, a.From)
	if err != nil {
		return nil, err
	}
	defer func() { _ = from.Close() }() // it was only read
	to, err := a.openRelease(ctx, a.To)
	if err != nil {
		return nil, err
	}
	defer func() { _ = to.Close() }() // it was only read
	compared, err := compareReleases(from, to)
	if err != nil {
		return nil, &report.Error{Object: releaseObject(a.To), Err: err}
	}

	return compared, nil
}

// compareReleases returns the difference between two opened releases.
func compareReleases(from, to *releaseimage.Image) (*Comparison, error) {
	c := &Comparison{}
	var err error
	if c.From, err = describeRelease(from); err != nil {
		return nil, err
	}
	if c.To, err = describeRelease(to); err != nil {
		return nil, err
	}

	c.UpgradeFrom = slices.Contains(c.To.Metadata.Previous, c.From.Metadata.Version)
	c.Images = compareImages(c.From.Images, c.To.Images)
	for _, name := range unionOfKeys(componentVersions(c.From), componentVersions(c.To)) {
		if before, after := componentVersions(c.From)[name], componentVersions(c.To)[name]; before != after {
			c.Components = append(c.Components, ComponentChange{Name: name, From: before, To: after})
		}
	}

	for _, key := range unionOfKeys(c.From.Metadata.Metadata, c.To.Metadata.Metadata) {
		if before, after := c.From.Metadata.Metadata[key], c.To.Metadata.Metadata[key]; before != after {
			c.Metadata = append(c.Metadata, MetadataChange{Key: key, From: before, To: after})
		}
	}

	c.Manifests, err = compareManifests(from.Payload.Manifests, to.Payload.Manifests)
	return c, err
}

// componentVersions returns the versions of a release's components by name.
func componentVersions(r *Release) map[string]string {
	found := map[string]string{}
	for name, component := range r.Components {
		found[name] = component.Version
	}
	return found
}

// unionOfKeys returns the sorted keys of two maps.
func unionOfKeys[T any](a, b map[string]T) []string {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(keys)
	return slices.Compact(keys)
}

// compareImages returns the differing images, sorted by name.
func compareImages(from, to []ReleaseImage) []ImageChange {
	before, after := map[string]*ReleaseImage{}, map[string]*ReleaseImage{}
	for i := range from {
		before[from[i].Name] = &from[i]
	}

	for i := range to {
		after[to[i].Name] = &to[i]
	}

	var changes []ImageChange
	for _, name := range unionOfKeys(before, after) {
		change := ImageChange{Name: name, From: before[name], To: after[name]}
		switch {
		case change.From == nil:
			change.Change = ImageAdded
		case change.To == nil:
			change.Change = ImageRemoved
		case change.From.Digest == change.To.Digest:
			continue
		case change.From.Commit != "" && change.From.Commit == change.To.Commit && change.From.Repository == change.To.Repository:
			change.Change = ImageRebuilt
		default:
			change.Change = ImageChanged
		}
		changes = append(changes, change)
	}

	return changes
}

// compareManifests compares manifests file by file, because variants of an object for
// different clusters are in different files.
func compareManifests(from, to []release.Manifest) ([]ManifestChange, error) {
	before, after := groupObjectsByFile(from), groupObjectsByFile(to)
	var changes []ManifestChange
	for _, file := range unionOfKeys(before, after) {
		result, err := objectdiff.Compare(before[file], after[file])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, change := range result.Changes {
			changes = append(changes, ManifestChange{File: file, Change: change})
		}
	}

	return changes, nil
}

// groupObjectsByFile returns the objects of each file. Files are named without their
// folder, except those of the operator's own folder.
func groupObjectsByFile(manifests []release.Manifest) map[string][]*unstructured.Unstructured {
	files := map[string][]*unstructured.Unstructured{}
	for i := range manifests {
		folder, name := path.Split(manifests[i].File)
		if strings.TrimSuffix(folder, "/") == release.FolderOwn {
			name = path.Join(release.FolderOwn, name)
		}
		files[name] = append(files[name], manifests[i].Object.DeepCopy())
	}

	return files
}
