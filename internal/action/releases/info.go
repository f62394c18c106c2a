package releases

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/release"
	"github.com/mainstay-dev/mainstay/internal/releaseimage"
)

// Info inspects a release.
type Info struct {
	Source
	// Image is the release: a reference, or a version that Resolver finds.
	Image string
	// Sizes adds the sizes of all images. Each image requires a request to a registry.
	Sizes bool
	// Verify, if set, checks the signatures of the release. A release without valid
	// signatures results in a warning.
	Verify *Trust
}

// Release describes a release. In JSON, image, digest, config, metadata, references and
// displayVersions have the names that existing scripts read.
type Release struct {
	// Image is the pull spec by digest.
	Image   string    `json:"image"`
	Digest  string    `json:"digest"`
	Created time.Time `json:"created"`
	// Config is the platform of the release image.
	Config   ReleaseConfig    `json:"config"`
	Metadata release.Metadata `json:"metadata"`
	// References is the ImageStream with the images of the release.
	References json.RawMessage `json:"references"`
	// Images are the images of the release.
	Images []ReleaseImage `json:"images"`
	// Components are the components with versions of their own, by name.
	Components map[string]Component `json:"displayVersions,omitempty"`
	// Manifests is the number of files with manifests.
	Manifests int `json:"manifests"`
	// MetadataFiles is the number of other files.
	MetadataFiles int `json:"metadataFiles"`
	// Warnings are defects of the release.
	Warnings []string `json:"warnings,omitempty"`
	// Verified reports whether the release has the required signatures. It is nil if that
	// was not checked.
	Verified *bool `json:"verified,omitempty"`
}

// ReleaseConfig is the platform of a release image.
type ReleaseConfig struct {
	// OS and Architecture are GOOS and GOARCH values.
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
}

// ReleaseImage is an image of a release.
type ReleaseImage struct {
	Name     string `json:"name"`
	PullSpec string `json:"pullSpec"`
	Digest   string `json:"digest"`
	// Repository and Commit identify the source code of the image.
	Repository string `json:"repository,omitempty"`
	Commit     string `json:"commit,omitempty"`
	// Size is set if Info.Sizes is set.
	Size *ImageSize `json:"size,omitempty"`
}

// ImageSize is the size of an image.
type ImageSize struct {
	Created time.Time `json:"created"`
	Layers  int       `json:"layers"`
	// Bytes is the size of all compressed layers.
	Bytes int64 `json:"bytes"`
	// Unique is the size of the layers that no other image of the release contains.
	Unique int64 `json:"unique"`
}

// Component is a part of the images with a version of its own.
type Component struct {
	Version string `json:"version"`
	// Title is the display name. It may be empty.
	Title string `json:"displayName,omitempty"`
}

// Run inspects the release.
func (a *Info) Run(ctx context.Context) (*Release, error) {
	opened, err := a.openRelease(ctx, a.Image)
	if err != nil {
		return nil, err
	}
	defer func() { _ = opened.Close() }() // it was only read
	found, err := describeRelease(opened)
	if err != nil {
		return nil, &report.Error{Object: releaseObject(a.Image), Err: err}
	}

	if a.Sizes {
		if err := a.measureImages(ctx, found); err != nil {
			return nil, &report.Error{Object: releaseObject(a.Image), Err: err}
		}
	}

	if a.Verify != nil {
		if err := a.verifySignature(ctx, found); err != nil {
			return nil, err
		}
	}

	return found, nil
}

// verifySignature sets Verified and adds a warning if the release does not have the
// required signatures.
func (a *Info) verifySignature(ctx context.Context, found *Release) error {
	verifier, err := a.Verify.newVerifier(ctx, a.Source, found.Image)
	if err != nil {
		return err
	}

	verified := true
	if err := verifier.Verify(ctx, found.Digest); err != nil {
		verified = false
		found.Warnings = append(found.Warnings, "the release is not signed as required: "+err.Error())
	}

	found.Verified = &verified
	return nil
}

// describeRelease returns the description of an opened release.
func describeRelease(opened *releaseimage.Image) (*Release, error) {
	payload := opened.Payload
	r := &Release{
		Image: opened.Canonical, Digest: opened.Digest(), Created: opened.Created, Config: ReleaseConfig{opened.OS, opened.Architecture},
		Metadata: payload.Metadata,
	}
	references, err := payload.Images.Encode()
	if err != nil {
		return nil, err
	}

	r.References = references
	names, err := opened.ReleaseFiles()
	if err != nil {
		return nil, err
	}

	for _, name := range names {
		if release.IsManifestFile(name) {
			r.Manifests++
		} else {
			r.MetadataFiles++
		}
	}

	for _, tag := range payload.Images.Tags {
		_, digest, _ := strings.Cut(tag.PullSpec, "@")
		r.Images = append(r.Images, ReleaseImage{
			Name: tag.Name, PullSpec: tag.PullSpec, Digest: digest,
			Repository: tag.Annotations[release.AnnotationSource], Commit: tag.Annotations[release.AnnotationCommit],
		})
	}

	slices.SortFunc(r.Images, func(a, b ReleaseImage) int { return strings.Compare(a.Name, b.Name) })
	r.collectComponents(payload.Images.Tags)
	for _, warning := range payload.Warnings {
		r.Warnings = append(r.Warnings, warning.Error())
	}

	return r, nil
}

// collectComponents sets the components from the annotations of the images. It adds a
// warning if images state different versions.
func (r *Release) collectComponents(tags []release.ImageTag) {
	r.Components = map[string]Component{}
	for _, tag := range tags {
		titles := parseKeyValueList(tag.Annotations[release.AnnotationVersionNames])
		for name, version := range parseKeyValueList(tag.Annotations[release.AnnotationVersions]) {
			known, ok := r.Components[name]
			if ok && known.Version != version {
				r.Warnings = append(r.Warnings, fmt.Sprintf("component %s has the versions %s and %s", name, min(known.Version, version), max(known.Version, version)))
			}
			if !ok || known.Title == "" {
				r.Components[name] = Component{Version: version, Title: titles[name]}
			}
		}
	}

	slices.Sort(r.Warnings)
}

// parseKeyValueList parses a comma-separated list of name=value.
func parseKeyValueList(text string) map[string]string {
	found := map[string]string{}
	for item := range strings.SplitSeq(text, ",") {
		if name, value, ok := strings.Cut(strings.TrimSpace(item), "="); ok {
			found[name] = value
		}
	}
	return found
}

// measureImages sets the sizes of the images.
func (a *Info) measureImages(ctx context.Context, r *Release) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(4)
	layers := make([]map[string]int64, len(r.Images))
	for i := range r.Images {
		found := &r.Images[i]
		group.Go(func() error {
			pulled, err := a.newRegistryClient(found.PullSpec).Pull(ctx, found.PullSpec)
			if err != nil {
				return fmt.Errorf("image %q: %w", found.Name, err)
			}
			defer func() { _ = pulled.Close() }() // it was only read
			digests, sizes := pulled.LayerSizes()
			found.Size = &ImageSize{Created: pulled.Created(), Layers: len(digests)}
			layers[i] = map[string]int64{}
			for n, digest := range digests {
				layers[i][digest] = sizes[n]
			}

			return nil
		})
	}

	if err := group.Wait(); err != nil {
		return err
	}

	users := map[string]int{}
	for _, sizes := range layers {
		for digest := range sizes {
			users[digest]++
		}
	}

	for i := range r.Images {
		for digest, size := range layers[i] {
			r.Images[i].Size.Bytes += size
			if users[digest] == 1 {
				r.Images[i].Size.Unique += size
			}
		}
	}

	return nil
}
