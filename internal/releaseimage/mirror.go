package releaseimage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/release"
	"github.com/mainstay-dev/mainstay/internal/releaseimage/signature"
)

// Copied is an image of a release to be mirrored.
type Copied struct {
	// Component is the name of the image in the release; empty for the release image.
	Component string `json:"component,omitempty"`
	// Source is the source reference, by digest.
	Source string `json:"source"`
	// Tag is the tag in the target.
	Tag string `json:"tag"`
}

// Plan lists the images of a release to be copied.
type Plan struct {
	// Version is the version of the release.
	Version string `json:"version"`
	// Release is the release image.
	Release Copied `json:"release"`
	// Images are the images that the release names, in order.
	Images []Copied `json:"images"`
	// Signatures are the sigstore signatures of the release image. They are copied with it.
	Signatures []Copied `json:"signatures,omitempty"`
}

// NewPlan returns the plan of a release. Tags are <version>-<architecture>-<component> for each
// image, and <version>-<architecture> for the release image.
func NewPlan(opened *Image) Plan {
	metadata := opened.Payload.Metadata
	// Tags cannot contain a plus sign.
	tag := strings.ReplaceAll(metadata.Version, "+", "_") + "-" + TagArchitecture(metadata.Architecture(opened.Architecture))
	plan := Plan{Version: metadata.Version, Release: Copied{Source: opened.Canonical, Tag: tag}}
	for _, image := range opened.Payload.Images.Tags {
		plan.Images = append(plan.Images, Copied{Component: image.Name, Source: image.PullSpec, Tag: tag + "-" + image.Name})
	}

	return plan
}

// FindSignatures adds the sigstore signatures of the release image to the plan.
func (p *Plan) FindSignatures(ctx context.Context, client *image.Client) error {
	digest, err := signature.ParseDigest(signature.DigestOf(p.Release.Source))
	if err != nil {
		return err
	}

	attachments := Attachments{Client: client, Repository: RepositoryOf(p.Release.Source)}
	found, err := client.Resolve(ctx, attachments.Reference(digest))
	if failed := (*image.Error)(nil); errors.As(err, &failed) && failed.Kind == image.KindNotFound {
		return nil
	}
	if err != nil {
		return err
	}

	p.Signatures = []Copied{{Source: found, Tag: signatureTag(digest)}}
	return nil
}

// Mirror states where a repository is mirrored.
type Mirror struct {
	// Source is a repository.
	Source string `json:"source"`
	// Mirrors are the repositories with its images.
	Mirrors []string `json:"mirrors"`
}

// Target is the destination of a mirrored release.
type Target struct {
	// Repository is a repository without tag and digest. "${component}" in it is replaced by the
	// name of an image, so that each image has its own repository.
	Repository string
	// Release is the reference of the release image. If empty, it is in Repository.
	Release string
	// SkipRelease leaves out the release image.
	SkipRelease bool
}

// componentVariable is replaced by the name of an image in a repository.
const componentVariable = "${component}"

// releaseComponent replaces componentVariable for the release image.
const releaseComponent = "release"

// Check returns an error if the repository or the release reference is invalid.
func (t Target) Check() error {
	repository := t.repositoryFor(releaseComponent)
	if RepositoryOf(repository) != repository || !strings.Contains(repository, "/") {
		return fmt.Errorf("%q must be a repository without tag and digest, such as registry.example.com/releases", t.Repository)
	}
	if strings.Contains(t.Release, "@") {
		return fmt.Errorf("%q must have a tag, not a digest, which follows from the content", t.Release)
	}
	return nil
}

func (t Target) repositoryFor(component string) string {
	return strings.ReplaceAll(t.Repository, componentVariable, component)
}

// ReferenceFor returns the target reference of an image.
func (t Target) ReferenceFor(image Copied) string {
	switch {
	case image.Component != "":
		return t.repositoryFor(image.Component) + ":" + image.Tag
	case t.Release != "":
		return t.Release
	default:
		return t.repositoryFor(releaseComponent) + ":" + image.Tag
	}
}

// signatureReference returns the target reference of a signature, which is in the repository of
// the release image.
func (t Target) signatureReference(plan Plan, made Copied) string {
	return RepositoryOf(t.ReferenceFor(plan.Release)) + ":" + made.Tag
}

// Mirrors returns the mirrors of each source repository, sorted.
func (t Target) Mirrors(plan Plan) []Mirror {
	mirrorsBySource := map[string][]string{}
	for _, image := range t.imagesForClusters(plan) {
		source, mirror := RepositoryOf(image.Source), RepositoryOf(t.ReferenceFor(image))
		if source != mirror && !slices.Contains(mirrorsBySource[source], mirror) {
			mirrorsBySource[source] = append(mirrorsBySource[source], mirror)
		}
	}

	var mirrors []Mirror
	for source, repositories := range mirrorsBySource {
		slices.Sort(repositories)
		mirrors = append(mirrors, Mirror{Source: source, Mirrors: repositories})
	}

	slices.SortFunc(mirrors, func(a, b Mirror) int { return strings.Compare(a.Source, b.Source) })
	return mirrors
}

// imagesForClusters returns the images that clusters pull.
func (t Target) imagesForClusters(plan Plan) []Copied {
	if t.SkipRelease {
		return plan.Images
	}
	return append(slices.Clip(plan.Images), plan.Release)
}

// copyTask is one image to copy.
type copyTask struct {
	Copied
	to string
}

// copyTasks returns the copies to make: first the images, which may be copied in parallel, and
// then what depends on them, in order. The release image is last, so that it is only present if
// everything else is.
func (t Target) copyTasks(plan Plan) (first, then []copyTask) {
	for _, copied := range plan.Images {
		first = append(first, copyTask{copied, t.ReferenceFor(copied)})
	}

	if t.SkipRelease {
		return first, nil
	}

	for _, signed := range plan.Signatures {
		then = append(then, copyTask{signed, t.signatureReference(plan, signed)})
	}
	return first, append(then, copyTask{plan.Release, t.ReferenceFor(plan.Release)})
}

// maxParallelCopies is how many images are copied in parallel.
const maxParallelCopies = 4

// Copy copies the images of a release from their registries to the target. done may be nil; it
// is called for each copied image, never concurrently.
func (t Target) Copy(ctx context.Context, clients func(from, to string) *image.Client, plan Plan, done func(Copied)) error {
	return t.copyEachImage(ctx, plan, done, func(ctx context.Context, task copyTask) error {
		_, err := clients(task.Source, task.to).Copy(ctx, task.Source, task.to)
		return err
	})
}

// Save copies the images of a release into a directory.
func Save(ctx context.Context, clients Clients, plan Plan, dir string, done func(Copied)) error {
	if err := os.MkdirAll(filepath.Join(dir, configFolder), dirMode); err != nil {
		return err
	}

	layout, err := image.OpenLayout(dir)
	if err != nil {
		return err
	}
	defer func() { _ = layout.Close() }() // All writes are complete.
	err = Target{}.copyEachImage(ctx, plan, done, func(ctx context.Context, task copyTask) error {
		_, err := clients(task.Source).Save(ctx, task.Source, layout, task.Tag)
		return err
	})
	if err != nil {
		return err
	}

	data, err := json.MarshalIndent(plan, "", "  ")
	if err != nil {
		return err
	}

	return os.WriteFile(filepath.Join(dir, configFolder, planFileName(plan.Release.Tag)), append(data, '\n'), fileMode)
}

// Restore copies the images of a release from a directory to the target.
func (t Target) Restore(ctx context.Context, clients Clients, dir string, plan Plan, done func(Copied)) error {
	layout, err := image.OpenLayout(dir)
	if err != nil {
		return err
	}
	defer func() { _ = layout.Close() }() // It was only read.
	named, err := layout.Images()
	if err != nil {
		return err
	}

	return t.copyEachImage(ctx, plan, done, func(ctx context.Context, task copyTask) error {
		_, digest, _ := strings.Cut(task.Source, "@")
		if named[task.Tag] != digest {
			return fmt.Errorf("the folder contains %q with digest %q instead of %q: it was modified", task.Tag, named[task.Tag], digest)
		}
		_, err := clients(task.to).Restore(ctx, layout, task.Tag, task.to)
		return err
	})
}

// copyEachImage copies the images of a plan by calling copyOne, and calls done after each.
func (t Target) copyEachImage(ctx context.Context, plan Plan, done func(Copied), copyOne func(context.Context, copyTask) error) error {
	var mu sync.Mutex
	copyAndReport := func(ctx context.Context, task copyTask) error {
		if err := copyOne(ctx, task); err != nil {
			return fmt.Errorf("%s: %w", task.Tag, err)
		}

		mu.Lock()
		defer mu.Unlock()
		if done != nil {
			done(task.Copied)
		}

		return nil
	}

	first, then := t.copyTasks(plan)
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(maxParallelCopies)
	for _, task := range first {
		group.Go(func() error { return copyAndReport(inner, task) })
	}

	if err := group.Wait(); err != nil {
		return err
	}

	for _, task := range then {
		if err := copyAndReport(ctx, task); err != nil {
			return err
		}
	}

	return nil
}

// configFolder is the directory next to mirrored images with objects to be applied to clusters.
const configFolder = "config"

const planPrefix, planSuffix = "release-", ".json"

func planFileName(tag string) string { return planPrefix + tag + planSuffix }

// maxPlanBytes is the maximum size of a plan: thousands of images.
const maxPlanBytes = 4 << 20

// ErrSeveral is returned if a directory contains several releases and no version is given.
var ErrSeveral = errors.New("the folder holds several releases")

// LoadPlan reads the plan of the release that was saved in a directory. The version selects one of
// several; it may be empty if there is only one.
func LoadPlan(dir, version string) (Plan, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Plan{}, err
	}
	defer func() { _ = root.Close() }() // It was only read.
	names, err := listFileNames(root.FS(), configFolder)
	if err != nil {
		return Plan{}, err
	}

	var plans []Plan
	for _, name := range names {
		if !strings.HasPrefix(name, planPrefix) || !strings.HasSuffix(name, planSuffix) {
			continue
		}
		plan, err := readPlanFile(root.FS(), path.Join(configFolder, name))
		if err != nil {
			return Plan{}, fmt.Errorf("%s: %w", filepath.Join(dir, configFolder, name), err)
		}
		if version == "" || plan.Version == version {
			plans = append(plans, plan)
		}
	}

	switch len(plans) {
	case 0:
		return Plan{}, fmt.Errorf("the folder %s holds no release %s that was mirrored into it", dir, version)
	case 1:
		return plans[0], nil
	default:
		var versions []string
		for _, plan := range plans {
			versions = append(versions, plan.Version)
		}
		return Plan{}, fmt.Errorf("%w: %s", ErrSeveral, strings.Join(versions, ", "))
	}
}

func readPlanFile(fsys fs.FS, name string) (Plan, error) {
	file, err := fsys.Open(name)
	if err != nil {
		return Plan{}, err
	}
	defer func() { _ = file.Close() }() // It was only read.
	data, err := io.ReadAll(io.LimitReader(file, maxPlanBytes+1))
	if err != nil {
		return Plan{}, err
	}
	if len(data) > maxPlanBytes {
		return Plan{}, fmt.Errorf("it is larger than the %d bytes that it may have", maxPlanBytes)
	}

	return parsePlan(data)
}

// parsePlan decodes and validates a plan, because its tags and sources become parts of
// references.
func parsePlan(data []byte) (Plan, error) {
	var plan Plan
	if err := json.Unmarshal(data, &plan); err != nil {
		return Plan{}, err
	}
	if plan.Release.Component != "" {
		return Plan{}, errors.New("the release image is not a component")
	}

	var sources release.ImageReferences
	for _, copied := range slices.Concat(plan.Images, plan.Signatures, []Copied{plan.Release}) {
		if copied.Tag == "" || versionPattern.FindString(":"+copied.Tag) != ":"+copied.Tag {
			return Plan{}, fmt.Errorf("%q is not a tag", copied.Tag)
		}
		sources.Tags = append(sources.Tags, release.ImageTag{Name: copied.Tag, PullSpec: copied.Source})
	}

	for _, copied := range plan.Images {
		if copied.Component == "" || strings.ContainsAny(copied.Component, "/:@ ") {
			return Plan{}, fmt.Errorf("%q is not a name of an image", copied.Component)
		}
	}

	return plan, sources.CheckPinned()
}
