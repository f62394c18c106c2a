package releaseimage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/release"
)

// fileImages is the name of a component's list of images that its manifests use.
const fileImages = "image-references"

// maxParallelPulls is how many images are read in parallel.
const maxParallelPulls = 4

// Mapping maps the name of an image to its reference.
type Mapping struct {
	// Name is the name of the image in the release.
	Name string
	// Image is the reference by tag or by digest.
	Image string
	// Annotations describe the source of the image. They take precedence over those from its
	// labels.
	Annotations map[string]string
}

// component is an image of a release that is being built.
type component struct {
	name string
	// pullSpec is the reference by digest.
	pullSpec    string
	annotations map[string]string
	// listedAs is the reference of the image in the existing manifests. It is empty if they do
	// not use it.
	listedAs string
	// created is when the image was created; zero if the image was not read.
	created time.Time
	// isOperator is true if the image contributes manifests, which are in manifests.
	isOperator bool
	manifests  map[string][]byte
	// isRequired keeps the image even if no manifest names it.
	isRequired bool
}

// annotationLabels are the labels that become annotations of a release's images.
var annotationLabels = []string{
	release.AnnotationCommit, release.AnnotationCommitRef, release.AnnotationSource,
	release.AnnotationVersions, release.AnnotationVersionNames,
}

// Clients returns the client for an image, because the credentials may depend on the image.
type Clients func(ref string) *image.Client

// readComponents reads images in parallel, and returns them in the order of the mappings.
func readComponents(ctx context.Context, clients Clients, mappings []Mapping) ([]component, error) {
	found := make([]component, len(mappings))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxParallelPulls)
	for i, mapping := range mappings {
		group.Go(func() error {
			var err error
			if found[i], err = readComponent(ctx, clients, mapping); err != nil {
				return fmt.Errorf("image %q: %w", mapping.Name, err)
			}
			return nil
		})
	}

	return found, group.Wait()
}

func readComponent(ctx context.Context, clients Clients, mapping Mapping) (component, error) {
	pulled, err := clients(mapping.Image).Pull(ctx, mapping.Image)
	if err != nil {
		return component{}, err
	}
	defer func() { _ = pulled.Close() }() // It was only read.
	c := component{name: mapping.Name, pullSpec: pulled.Canonical, created: pulled.Created(), annotations: map[string]string{}}
	for _, label := range annotationLabels {
		if value := pulled.Labels[label]; value != "" {
			c.annotations[label] = value
		}
	}

	for key, value := range mapping.Annotations {
		c.annotations[key] = value
	}

	if c.isOperator = pulled.Labels[LabelOperator] == "true"; c.isOperator {
		c.manifests, err = readOperatorManifests(ctx, pulled)
	}

	return c, err
}

// readOperatorManifests reads the manifests in an operator's image.
func readOperatorManifests(ctx context.Context, pulled *image.Image) (map[string][]byte, error) {
	files, err := pulled.FilesOfFolders(ctx, "", release.FolderOwn)
	if err != nil {
		return nil, err
	}
	defer func() { _ = files.Close() }() // It was only read.
	if _, err := fs.Stat(files, release.FolderOwn); err != nil {
		return nil, fmt.Errorf("the label %s says that it has manifests, but there is no folder /%s", LabelOperator, release.FolderOwn)
	}

	return readManifestFolder(files, release.FolderOwn)
}

// readManifestFolder reads the manifests directly in a directory, and the list of images.
func readManifestFolder(fsys fs.FS, folder string) (map[string][]byte, error) {
	names, err := listFileNames(fsys, folder)
	if err != nil {
		return nil, err
	}

	files := map[string][]byte{}
	total := 0
	for _, name := range names {
		if !release.IsManifestFile(name) && name != fileImages {
			continue
		}

		info, err := fs.Stat(fsys, path.Join(folder, name))
		if err != nil {
			return nil, err
		}
		if total += int(min(info.Size(), maxPayloadBytes+1)); total > maxPayloadBytes {
			return nil, fmt.Errorf("its manifests have more than the %d bytes that they may have", maxPayloadBytes)
		}
		if files[name], err = fs.ReadFile(fsys, path.Join(folder, name)); err != nil {
			return nil, err
		}
	}

	return files, nil
}

// maxPayloadBytes is the maximum size of all manifests of a release. It equals the limit of
// package release.
const maxPayloadBytes = 128 << 20

// checkMappings returns errors for images without a name or reference, and for duplicate names.
func checkMappings(mappings []Mapping) error {
	seen := map[string]bool{}
	var errs []error
	for _, mapping := range mappings {
		switch {
		case mapping.Name == "" || mapping.Image == "":
			errs = append(errs, fmt.Errorf("%s=%s: an image must be written as NAME=IMAGE", mapping.Name, mapping.Image))
		case seen[mapping.Name]:
			errs = append(errs, fmt.Errorf("the image %q is given twice", mapping.Name))
		}
		seen[mapping.Name] = true
	}

	return errors.Join(errs...)
}
