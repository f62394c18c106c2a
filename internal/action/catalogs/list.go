package catalogs

import (
	"context"
	"errors"
	"fmt"

	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// List reads what a valid catalog has: its packages, their channels, and the bundles in
// those.
type List struct {
	Registry Registry
	Progress report.Progress

	// Ref is a catalog: a folder, an image, a SQLite file.
	Ref string
	// Package is the only one that is listed. Empty means all.
	Package string
}

// Run returns the packages, by name.
func (a *List) Run(ctx context.Context) ([]*fbc.ModelPackage, error) {
	s, err := openSource(ctx, a.Registry, a.Progress, a.Ref, anyCatalog)
	if errors.Is(err, errNotAllowed) {
		return nil, fmt.Errorf("cannot list non-index %q", a.Ref)
	}
	if err != nil {
		return nil, fmt.Errorf("render reference %q: %w", a.Ref, err)
	}

	defer s.close()
	model, err := s.model(ctx, a.Progress)
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
