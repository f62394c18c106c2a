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

// Copied is an image of a release that is mirrored.
type Copied struct {
	// Component is its name in the release; empty for the release image.
	Component string `json:"component,omitempty"`
	// Source is where it comes from, by digest.
	Source string `json:"source"`
	// Tag that it gets.
	Tag string `json:"tag"`
}

// Plan is what there is to copy of a release.
type Plan struct {
	// Version of the release.
	Version string `json:"version"`
	// Release is the release image.
	Release Copied `json:"release"`
	// Images are those that it names, in their order.
	Images []Copied `json:"images"`
	// Signatures are those that lie beside the release image in its repository. They go with
	// it.
	Signatures []Copied `json:"signatures,omitempty"`
}

// NewPlan says what there is to copy of a release: <version>-<architecture>-<component> for
// each image, <version>-<architecture> for the release image.
func NewPlan(opened *Image) Plan {
	metadata := opened.Payload.Metadata
	// A tag may have no plus.
	tag := strings.ReplaceAll(metadata.Version, "+", "_") + "-" + TagArchitecture(metadata.Architecture(opened.Architecture))
	plan := Plan{Version: metadata.Version, Release: Copied{Source: opened.Canonical, Tag: tag}}
	for _, image := range opened.Payload.Images.Tags {
		plan.Images = append(plan.Images, Copied{Component: image.Name, Source: image.PullSpec, Tag: tag + "-" + image.Name})
	}

	return plan
}

// FindSignatures adds the signatures of sigstore that lie beside the release image, so that
// they are copied too.
func (p *Plan) FindSignatures(ctx context.Context, client *image.Client) error {
	digest, err := signature.ParseDigest(signature.DigestOf(p.Release.Source))
	if err != nil {
		return err
	}

	beside := Attachments{Client: client, Repository: RepositoryOf(p.Release.Source)}
	found, err := client.Resolve(ctx, beside.Reference(digest))
	if failed := (*image.Error)(nil); errors.As(err, &failed) && failed.Kind == image.KindNotFound {
		return nil
	}
	if err != nil {
		return err
	}

	p.Signatures = []Copied{{Source: found, Tag: tagOf(digest)}}
	return nil
}

// Mirror is a place that an image's source is mirrored at.
type Mirror struct {
	// Source is a repository.
	Source string `json:"source"`
	// Mirrors are repositories that have its images.
	Mirrors []string `json:"mirrors"`
}

// Target is where a release is mirrored to.
type Target struct {
	// Repository without tag and digest. "${component}" in it stands for the name of an
	// image, which then has a repository of its own.
	Repository string
	// Release is the reference that the release image gets. Empty: it lies in Repository.
	Release string
	// SkipRelease leaves the release image out.
	SkipRelease bool
}

// componentVariable in a repository stands for the name of an image.
const componentVariable = "${component}"

// releaseComponent is what stands for the release image in a repository.
const releaseComponent = "release"

// Check refuses a repository that is none.
func (t Target) Check() error {
	repository := t.repository(releaseComponent)
	if RepositoryOf(repository) != repository || !strings.Contains(repository, "/") {
		return fmt.Errorf("%q must be a repository without tag and digest, such as registry.example.com/releases", t.Repository)
	}
	if strings.Contains(t.Release, "@") {
		return fmt.Errorf("%q must have a tag, not a digest, which follows from the content", t.Release)
	}
	return nil
}

func (t Target) repository(component string) string {
	return strings.ReplaceAll(t.Repository, componentVariable, component)
}

// Of returns where an image goes.
func (t Target) Of(image Copied) string {
	switch {
	case image.Component != "":
		return t.repository(image.Component) + ":" + image.Tag
	case t.Release != "":
		return t.Release
	default:
		return t.repository(releaseComponent) + ":" + image.Tag
	}
}

// ofSignature returns where a signature goes: beside the release image.
func (t Target) ofSignature(plan Plan, made Copied) string {
	return RepositoryOf(t.Of(plan.Release)) + ":" + made.Tag
}

// Mirrors returns, for each repository that images come from, where they are mirrored, sorted.
func (t Target) Mirrors(plan Plan) []Mirror {
	at := map[string][]string{}
	for _, image := range t.all(plan) {
		source, mirror := RepositoryOf(image.Source), RepositoryOf(t.Of(image))
		if source != mirror && !slices.Contains(at[source], mirror) {
			at[source] = append(at[source], mirror)
		}
	}

	var mirrors []Mirror
	for source, found := range at {
		slices.Sort(found)
		mirrors = append(mirrors, Mirror{Source: source, Mirrors: found})
	}

	slices.SortFunc(mirrors, func(a, b Mirror) int { return strings.Compare(a.Source, b.Source) })
	return mirrors
}

// all returns the images that clusters ask for.
func (t Target) all(plan Plan) []Copied {
	if t.SkipRelease {
		return plan.Images
	}
	return append(slices.Clip(plan.Images), plan.Release)
}

// job is one image to copy.
type job struct {
	Copied
	to string
}

// jobs returns what there is to copy: first the images, all of which may be copied at once, and
// then what needs them, in its order. When the release image is there, all is.
func (t Target) jobs(plan Plan) (first, then []job) {
	for _, found := range plan.Images {
		first = append(first, job{found, t.Of(found)})
	}

	if t.SkipRelease {
		return first, nil
	}

	for _, made := range plan.Signatures {
		then = append(then, job{made, t.ofSignature(plan, made)})
	}
	return first, append(then, job{plan.Release, t.Of(plan.Release)})
}

// copies is how many images are copied at once.
const copies = 4

// Copy copies the images of a release from their registries to the target. The function done
// may be nil; it is told of each image that has been copied, one at a time.
func (t Target) Copy(ctx context.Context, clients func(from, to string) *image.Client, plan Plan, done func(Copied)) error {
	return t.each(ctx, plan, done, func(ctx context.Context, found job) error {
		_, err := clients(found.Source, found.to).Copy(ctx, found.Source, found.to)
		return err
	})
}

// Save copies the images of a release into a folder.
func Save(ctx context.Context, clients Clients, plan Plan, dir string, done func(Copied)) error {
	if err := os.MkdirAll(filepath.Join(dir, folderConfig), dirMode); err != nil {
		return err
	}

	layout, err := image.OpenLayout(dir)
	if err != nil {
		return err
	}

	defer func() { _ = layout.Close() }() // What was written is closed.
	err = Target{}.each(ctx, plan, done, func(ctx context.Context, found job) error {
		_, err := clients(found.Source).Save(ctx, found.Source, layout, found.Tag)
		return err
	})
	if err != nil {
		return err
	}

	data, err := json.MarshalIndent(plan, "", "  ")
	if err != nil {
		return err
	}

	return os.WriteFile(filepath.Join(dir, folderConfig, planFile(plan.Release.Tag)), append(data, '\n'), fileMode)
}

// Restore copies the images of a release from a folder to the target.
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

	return t.each(ctx, plan, done, func(ctx context.Context, found job) error {
		_, digest, _ := strings.Cut(found.Source, "@")
		if named[found.Tag] != digest {
			return fmt.Errorf("the folder has %q as %q, not as %q: it was changed", found.Tag, named[found.Tag], digest)
		}
		_, err := clients(found.to).Restore(ctx, layout, found.Tag, found.to)
		return err
	})
}

// each copies the images of a plan, and tells done of those that are part of the release.
func (t Target) each(ctx context.Context, plan Plan, done func(Copied), copyOne func(context.Context, job) error) error {
	var mu sync.Mutex
	one := func(ctx context.Context, found job) error {
		if err := copyOne(ctx, found); err != nil {
			return fmt.Errorf("%s: %w", found.Tag, err)
		}

		mu.Lock()
		defer mu.Unlock()
		if done != nil {
			done(found.Copied)
		}

		return nil
	}

	first, then := t.jobs(plan)
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(copies)
	for _, found := range first {
		group.Go(func() error { return one(inner, found) })
	}

	if err := group.Wait(); err != nil {
		return err
	}

	for _, found := range then {
		if err := one(ctx, found); err != nil {
			return err
		}
	}

	return nil
}

// folderConfig is the folder beside mirrored images with what is to be applied to clusters.
const folderConfig = "config"

const planPrefix, planSuffix = "release-", ".json"

func planFile(tag string) string { return planPrefix + tag + planSuffix }

// maxPlanBytes bounds what is read of a plan: thousands of images.
const maxPlanBytes = 4 << 20

// ErrSeveral is about a folder with several releases, of which none was named.
var ErrSeveral = errors.New("the folder holds several releases")

// Saved reads the plan of the release that was saved in a folder. The version chooses one of
// several; it may be empty when there is one.
func Saved(dir, version string) (Plan, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Plan{}, err
	}

	defer func() { _ = root.Close() }() // It was only read.
	names, err := fileNames(root.FS(), folderConfig)
	if err != nil {
		return Plan{}, err
	}

	var found []Plan
	for _, name := range names {
		if !strings.HasPrefix(name, planPrefix) || !strings.HasSuffix(name, planSuffix) {
			continue
		}
		plan, err := readPlan(root.FS(), path.Join(folderConfig, name))
		if err != nil {
			return Plan{}, fmt.Errorf("%s: %w", filepath.Join(dir, folderConfig, name), err)
		}
		if version == "" || plan.Version == version {
			found = append(found, plan)
		}
	}

	switch len(found) {
	case 0:
		return Plan{}, fmt.Errorf("the folder %s holds no release %s that was mirrored into it", dir, version)
	case 1:
		return found[0], nil
	default:
		var versions []string
		for _, plan := range found {
			versions = append(versions, plan.Version)
		}
		return Plan{}, fmt.Errorf("%w: %s", ErrSeveral, strings.Join(versions, ", "))
	}
}

func readPlan(fsys fs.FS, name string) (Plan, error) {
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

// parsePlan reads a plan and checks it: tags and sources become parts of references.
func parsePlan(data []byte) (Plan, error) {
	var plan Plan
	if err := json.Unmarshal(data, &plan); err != nil {
		return Plan{}, err
	}
	if plan.Release.Component != "" {
		return Plan{}, errors.New("the release image is no component")
	}

	var sources release.ImageReferences
	for _, found := range slices.Concat(plan.Images, plan.Signatures, []Copied{plan.Release}) {
		if found.Tag == "" || versionPattern.FindString(":"+found.Tag) != ":"+found.Tag {
			return Plan{}, fmt.Errorf("%q is no tag", found.Tag)
		}
		sources.Tags = append(sources.Tags, release.ImageTag{Name: found.Tag, PullSpec: found.Source})
	}

	for _, found := range plan.Images {
		if found.Component == "" || strings.ContainsAny(found.Component, "/:@ ") {
			return Plan{}, fmt.Errorf("%q is no name of an image", found.Component)
		}
	}

	return plan, sources.CheckPinned()
}
