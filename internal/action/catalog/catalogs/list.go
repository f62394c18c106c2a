package catalogs

import (
	"context"
	"errors"
	"fmt"

	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// List reads the packages of a valid catalog with their channels and bundles.
type List struct {
	Registry Registry
	Progress report.Progress

	// Ref is a catalog: a folder, an image or a SQLite file.
	Ref string
	// Package limits the result to one package. Empty means all.
	Package string
}

// Run returns the packages, sorted by name.
func (a *List) Run(ctx context.Context) ([]*fbc.ModelPackage, error) {
	s, err := openReference(ctx, a.Registry, a.Progress, a.Ref, anyCatalog)
	if errors.Is(err, errKindNotAllowed) {
		return nil, fmt.Errorf("cannot list non-index %q", a.Ref)
	}
	if err != nil {
		return nil, fmt.Errorf("render reference %q: %w", a.Ref, err)
	}
	defer s.close()
	model, err := s.loadCatalogModel(ctx, a.Progress)
	if err != nil {
		return nil, err
	}
	if a.Package == "" {
		return model.Packages, nil
	}
	if found := model.Package(a.Package); found != nil {
		return []*fbc.ModelPackage{found}, nil
	}

	return nil, fmt.Errorf("package %q not found", a.Package)
}
