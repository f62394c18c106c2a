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

// fileImages is what a component calls its list of the images that its manifests name.
const fileImages = "image-references"

// pulls is how many images are read at once.
const pulls = 4

// Mapping names an image of a release.
type Mapping struct {
	// Name is what manifests and people call it.
	Name string
	// Image is its reference, by tag or by digest.
	Image string
	// Annotations say what it was built from. Those that it says of itself are added.
	Annotations map[string]string
}

// component is an image of a release that is put together.
type component struct {
	name string
	// pullSpec by digest.
	pullSpec    string
	annotations map[string]string
	// listed is how the manifests at hand name it. Empty: they do not.
	listed string
	// created is when its image was made; zero when it was not read.
	created time.Time
	// isOperator says that manifests are those that the image brings along.
	isOperator bool
	manifests  map[string][]byte
	// keep has it stay though nothing names it.
	keep bool
}

// fromLabels are the labels that become annotations of a release's images.
var fromLabels = []string{
	release.AnnotationCommit, release.AnnotationCommitRef, release.AnnotationSource,
	release.AnnotationVersions, release.AnnotationVersionNames,
}

// Clients returns the client for an image: which login is used may depend on it.
type Clients func(ref string) *image.Client

// readComponents reads the images, several at once, and gives them in their order.
func readComponents(ctx context.Context, clients Clients, mappings []Mapping) ([]component, error) {
	found := make([]component, len(mappings))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(pulls)
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
	for _, label := range fromLabels {
		if value := pulled.Labels[label]; value != "" {
			c.annotations[label] = value
		}
	}

	for key, value := range mapping.Annotations {
		c.annotations[key] = value
	}

	if c.isOperator = pulled.Labels[LabelOperator] == "true"; c.isOperator {
		c.manifests, err = manifestsOf(ctx, pulled)
	}

	return c, err
}

// manifestsOf reads the files of an operator's folder of manifests.
func manifestsOf(ctx context.Context, pulled *image.Image) (map[string][]byte, error) {
	files, err := pulled.Folders(ctx, "", release.FolderOwn)
	if err != nil {
		return nil, err
	}

	defer func() { _ = files.Close() }() // It was only read.
	if _, err := fs.Stat(files, release.FolderOwn); err != nil {
		return nil, fmt.Errorf("the label %s says that it has manifests, but there is no folder /%s", LabelOperator, release.FolderOwn)
	}

	return readFolder(files, release.FolderOwn)
}

// readFolder reads the manifests directly in a folder, and the list of images.
func readFolder(fsys fs.FS, folder string) (map[string][]byte, error) {
	names, err := fileNames(fsys, folder)
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

// maxPayloadBytes is the size of all manifests of a release: what package release loads.
const maxPayloadBytes = 128 << 20

// checkNames refuses images without a name or with one that is there twice.
func checkNames(mappings []Mapping) error {
	seen := map[string]bool{}
	var wrong []error
	for _, mapping := range mappings {
		switch {
		case mapping.Name == "" || mapping.Image == "":
			wrong = append(wrong, fmt.Errorf("%s=%s: an image must be written as NAME=IMAGE", mapping.Name, mapping.Image))
		case seen[mapping.Name]:
			wrong = append(wrong, fmt.Errorf("the image %q is given twice", mapping.Name))
		}
		seen[mapping.Name] = true
	}

	return errors.Join(wrong...)
}
