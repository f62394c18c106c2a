package authoring

import (
	"context"
	"fmt"
	"io/fs"

	"github.com/blang/semver/v4"

	"github.com/mainstay-dev/mainstay/internal/bundle/validate"
)

// maxCategoriesBytes limits the size of a file with categories.
const maxCategoriesBytes = 1 << 20

// ValidateBundle validates a bundle.
type ValidateBundle struct {
	// Bundle contains the folders manifests and metadata.
	Bundle fs.FS
	// IsImage means that the bundle is an image, whose labels are Labels.
	IsImage bool
	Labels  map[string]string
	// Optional are names of additional rules that validate.Optional returns.
	Optional []string
	// CategoriesFile is a JSON file with the allowed categories of an operator. Empty means
	// those of operatorhub.io.
	CategoriesFile string
	// KubeVersion is a target version of Kubernetes. It may be empty.
	KubeVersion string
	// ContainerTools is docker, podman or empty. It has no effect.
	ContainerTools string
	// Inspect returns the platforms of images for the multiarch validator.
	Inspect func(ctx context.Context, images []string) map[string]validate.Inspection
}

// ValidateKubeVersion returns an error if a version of Kubernetes is not one, such as 1.25 or v1.25.3.
func ValidateKubeVersion(version string) error {
	if _, err := semver.ParseTolerant(version); err != nil {
		return fmt.Errorf("invalid version of Kubernetes: %q", version)
	}
	return nil
}

// Run returns the findings. It returns an error if the bundle cannot be read. The Err of
// the findings reports an invalid bundle.
func (a *ValidateBundle) Run(ctx context.Context) (validate.Findings, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}

	options := validate.Options{IsImage: a.IsImage, Labels: a.Labels, Optional: a.Optional, KubeVersion: a.KubeVersion, ContainerTools: a.ContainerTools}
	if a.Inspect != nil {
		options.Inspect = func(images []string) map[string]validate.Inspection { return a.Inspect(ctx, images) }
	}
	if a.CategoriesFile != "" {
		options.Categories = readCategories(a.CategoriesFile)
	}

	return validate.Bundle(a.Bundle, options)
}

// readCategories reads a file with categories. An error becomes a finding if the bundle has
// categories.
func readCategories(name string) *validate.Categories {
	categories := &validate.Categories{Name: name}
	categories.Data, categories.Err = readFileLimited(name, maxCategoriesBytes)
	return categories
}
