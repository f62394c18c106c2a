package authoring

import (
	"context"
	"io/fs"

	"github.com/mainstay-dev/mainstay/internal/bundle/validate"
)

// maxCategories is how large a file of categories may be, in bytes.
const maxCategories = 1 << 20

// ValidateBundle finds out what is wrong with a bundle.
type ValidateBundle struct {
	// Bundle has the folders manifests and metadata.
	Bundle fs.FS
	// Optional names further rules, of those that validate.Optional gives.
	Optional []string
	// CategoriesFile is a JSON file of the categories that an operator may be in. When empty
	// they are those of operatorhub.io.
	CategoriesFile string
	// KubeVersion is a version of Kubernetes that the bundle is to run on. It may be empty.
	KubeVersion string
	// ContainerTools is docker or podman, or empty. Neither is used.
	ContainerTools string
	// Inspect tells what images are there for, to the multiarch validator only.
	Inspect func(ctx context.Context, images []string) map[string]validate.Inspection
}

// Run returns what it found. The error says that the bundle cannot be read; one that is read
// and not valid is told by the findings' Err.
func (a *ValidateBundle) Run(ctx context.Context) (validate.Findings, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}

	options := validate.Options{Optional: a.Optional, KubeVersion: a.KubeVersion, ContainerTools: a.ContainerTools}
	if a.Inspect != nil {
		options.Inspect = func(images []string) map[string]validate.Inspection { return a.Inspect(ctx, images) }
	}
	if a.CategoriesFile != "" {
		options.Categories = readCategories(a.CategoriesFile)
	}

	return validate.Bundle(a.Bundle, options)
}

// readCategories reads a file of categories. What is wrong with it is a finding about the
// bundle, if that names categories at all.
func readCategories(name string) *validate.Categories {
	categories := &validate.Categories{Name: name}
	categories.Data, categories.Err = readFile(name, maxCategories)
	return categories
}
