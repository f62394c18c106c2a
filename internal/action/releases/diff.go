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
	// From and To are the releases: references, or versions that the resolver knows.
	From, To string
}

// Comparison is what two releases differ in.
type Comparison struct {
	From *Release `json:"from"`
	To   *Release `json:"to"`
	// UpgradeFrom reports whether clusters may be updated from the first to the second.
	UpgradeFrom bool `json:"upgradeFrom"`
	// Images that differ, by name.
	Images []ImageChange `json:"images,omitempty"`
	// Components whose versions differ, by name.
	Components []ComponentChange `json:"components,omitempty"`
	// Metadata that differs, by key.
	Metadata []MetadataChange `json:"metadata,omitempty"`
	// Manifests that differ, by file.
	Manifests []ManifestChange `json:"manifests,omitempty"`
}

// Identical reports whether the releases are one.
func (c *Comparison) Identical() bool { return c.From.Digest == c.To.Digest }

// How an image changes.
const (
	// ImageChanged is built from another commit, or it is not known from which.
	ImageChanged = "changed"
	// ImageRebuilt is built again from the same commit.
	ImageRebuilt = "rebuilt"
	// ImageAdded is new.
	ImageAdded = "added"
	// ImageRemoved is gone.
	ImageRemoved = "removed"
)

// ImageChange is an image that differs.
type ImageChange struct {
	Name   string        `json:"name"`
	Change string        `json:"change"`
	From   *ReleaseImage `json:"from,omitempty"`
	To     *ReleaseImage `json:"to,omitempty"`
}

// ComponentChange is a component whose version differs; empty where it is not there.
type ComponentChange struct {
	Name string `json:"name"`
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// MetadataChange is a text that differs; empty where it is not there.
type MetadataChange struct {
	Key  string `json:"key"`
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// ManifestChange is an object that differs.
type ManifestChange struct {
	// File of the payload, without its folder.
	File string `json:"file"`
	objectdiff.Change
}

// Run compares the releases.
func (a *Diff) Run(ctx context.Context) (*Comparison, error) {
	from, err := a.open(ctx, a.From)
	if err != nil {
		return nil, err
	}

	defer func() { _ = from.Close() }() // It was only read.
	to, err := a.open(ctx, a.To)
	if err != nil {
		return nil, err
	}

	defer func() { _ = to.Close() }() // It was only read.
	compared, err := compare(from, to)
	if err != nil {
		return nil, &report.Error{Object: objectOf(a.To), Err: err}
	}

	return compared, nil
}

func compare(from, to *releaseimage.Image) (*Comparison, error) {
	c := &Comparison{}
	var err error
	if c.From, err = describe(from); err != nil {
		return nil, err
	}
	if c.To, err = describe(to); err != nil {
		return nil, err
	}

	c.UpgradeFrom = slices.Contains(c.To.Metadata.Previous, c.From.Metadata.Version)
	c.Images = compareImages(c.From.Images, c.To.Images)
	for _, name := range union(versions(c.From), versions(c.To)) {
		if before, after := versions(c.From)[name], versions(c.To)[name]; before != after {
			c.Components = append(c.Components, ComponentChange{Name: name, From: before, To: after})
		}
	}

	for _, key := range union(c.From.Metadata.Metadata, c.To.Metadata.Metadata) {
		if before, after := c.From.Metadata.Metadata[key], c.To.Metadata.Metadata[key]; before != after {
			c.Metadata = append(c.Metadata, MetadataChange{Key: key, From: before, To: after})
		}
	}

	c.Manifests, err = compareManifests(from.Payload.Manifests, to.Payload.Manifests)
	return c, err
}

func versions(r *Release) map[string]string {
	found := map[string]string{}
	for name, component := range r.Components {
		found[name] = component.Version
	}
	return found
}

// union returns the keys of two maps, sorted.
func union[T any](a, b map[string]T) []string {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(keys)
	return slices.Compact(keys)
}

func compareImages(from, to []ReleaseImage) []ImageChange {
	before, after := map[string]*ReleaseImage{}, map[string]*ReleaseImage{}
	for i := range from {
		before[from[i].Name] = &from[i]
	}

	for i := range to {
		after[to[i].Name] = &to[i]
	}

	var changes []ImageChange
	for _, name := range union(before, after) {
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

// compareManifests compares file by file: variants of one object, for different clusters,
// lie in different files.
func compareManifests(from, to []release.Manifest) ([]ManifestChange, error) {
	before, after := byFile(from), byFile(to)
	var changes []ManifestChange
	for _, file := range union(before, after) {
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

// byFile returns the objects of each file. Those of the operator's own folder stand under
// their file's name, too.
func byFile(manifests []release.Manifest) map[string][]*unstructured.Unstructured {
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
