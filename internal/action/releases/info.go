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

// Info looks at a release.
type Info struct {
	Source
	// Image is the release: a reference, or a version that the resolver knows.
	Image string
	// Sizes reads how large the images are, which asks a registry for each.
	Sizes bool
	// Verify, if set, says whether the release is signed; the answer is a warning if not.
	Verify *Trust
}

// Release is what is known of a release. As JSON it has, beside what is ours, the names by
// which scripts of the field know image, digest, config, metadata, references and
// displayVersions.
type Release struct {
	// Image is its pull spec by digest.
	Image   string    `json:"image"`
	Digest  string    `json:"digest"`
	Created time.Time `json:"created"`
	// Config is what its image says of itself.
	Config   ReleaseConfig    `json:"config"`
	Metadata release.Metadata `json:"metadata"`
	// References is its list of images, an ImageStream.
	References json.RawMessage `json:"references"`
	// Images that it names.
	Images []ReleaseImage `json:"images"`
	// Components are versions of what is in the images, by name.
	Components map[string]Component `json:"displayVersions,omitempty"`
	// Manifests are how many files with manifests it has.
	Manifests int `json:"manifests"`
	// MetadataFiles are how many files it has beside them.
	MetadataFiles int `json:"metadataFiles"`
	// Warnings are sentences about what is not as it should be.
	Warnings []string `json:"warnings,omitempty"`
	// Verified reports whether it is signed, if that was asked.
	Verified *bool `json:"verified,omitempty"`
}

// ReleaseConfig is what the image of a release says of itself.
type ReleaseConfig struct {
	// OS and Architecture that its programs are for.
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
}

// ReleaseImage is an image of a release.
type ReleaseImage struct {
	Name     string `json:"name"`
	PullSpec string `json:"pullSpec"`
	Digest   string `json:"digest"`
	// Repository and Commit that it was built from.
	Repository string `json:"repository,omitempty"`
	Commit     string `json:"commit,omitempty"`
	// Size is known if it was asked for.
	Size *ImageSize `json:"size,omitempty"`
}

// ImageSize is how large an image is.
type ImageSize struct {
	Created time.Time `json:"created"`
	Layers  int       `json:"layers"`
	// Bytes of all layers, compressed.
	Bytes int64 `json:"bytes"`
	// Unique are the bytes of layers that no other image of the release has.
	Unique int64 `json:"unique"`
}

// Component is something in the images that has a version of its own.
type Component struct {
	Version string `json:"version"`
	// Title is what people call it. It may be empty.
	Title string `json:"displayName,omitempty"`
}

// Run looks at the release.
func (a *Info) Run(ctx context.Context) (*Release, error) {
	opened, err := a.open(ctx, a.Image)
	if err != nil {
		return nil, err
	}

	defer func() { _ = opened.Close() }() // It was only read.
	found, err := describe(opened)
	if err != nil {
		return nil, &report.Error{Object: objectOf(a.Image), Err: err}
	}

	if a.Sizes {
		if err := a.measure(ctx, found); err != nil {
			return nil, &report.Error{Object: objectOf(a.Image), Err: err}
		}
	}

	if a.Verify != nil {
		if err := a.verify(ctx, found); err != nil {
			return nil, err
		}
	}

	return found, nil
}

func (a *Info) verify(ctx context.Context, found *Release) error {
	verifier, err := a.Verify.verifier(ctx, a.Source, found.Image)
	if err != nil {
		return err
	}

	verified := true
	if err := verifier.Verify(ctx, found.Digest); err != nil {
		verified = false
		found.Warnings = append(found.Warnings, "the release is not signed as it must be: "+err.Error())
	}

	found.Verified = &verified
	return nil
}

// describe tells what a release has.
func describe(opened *releaseimage.Image) (*Release, error) {
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
	r.components(payload.Images.Tags)
	for _, warning := range payload.Warnings {
		r.Warnings = append(r.Warnings, warning.Error())
	}

	return r, nil
}

// components collects the versions that the images tell.
func (r *Release) components(tags []release.ImageTag) {
	r.Components = map[string]Component{}
	for _, tag := range tags {
		titles := pairs(tag.Annotations[release.AnnotationVersionNames])
		for name, version := range pairs(tag.Annotations[release.AnnotationVersions]) {
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

// pairs reads name=value with commas.
func pairs(text string) map[string]string {
	found := map[string]string{}
	for item := range strings.SplitSeq(text, ",") {
		if name, value, ok := strings.Cut(strings.TrimSpace(item), "="); ok {
			found[name] = value
		}
	}
	return found
}

// measure reads how large the images are.
func (a *Info) measure(ctx context.Context, r *Release) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(4)
	layers := make([]map[string]int64, len(r.Images))
	for i := range r.Images {
		found := &r.Images[i]
		group.Go(func() error {
			pulled, err := a.clients(found.PullSpec).Pull(ctx, found.PullSpec)
			if err != nil {
				return fmt.Errorf("image %q: %w", found.Name, err)
			}

			defer func() { _ = pulled.Close() }() // It was only read.
			digests, sizes := pulled.Sizes()
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
	for _, of := range layers {
		for digest := range of {
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
