// Package template makes file-based catalogs from templates: short files that a catalog's
// author keeps, from which the blobs of the catalog follow. It knows the templates basic,
// semver, substitutes and composite, and turns a catalog back into a template.
//
// It is pure: what the images of bundles hold it asks of a Renderer, and it gives blobs,
// which package fbc writes. Whether these make a valid catalog is fbc.Validate's business.
package template

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// Type is a kind of template.
type Type string

// The types of templates that are one file.
const (
	// Basic is a catalog in which bundles are named by their images alone.
	Basic Type = "basic"
	// Semver makes channels and their edges from the versions of bundles.
	Semver Type = "semver"
	// Substitutes puts bundles in the place of others of a catalog.
	Substitutes Type = "substitutes"
)

// schemas are the schemas of the templates.
var schemas = map[Type]string{
	Basic:       "olm.template.basic",
	Semver:      "olm.semver",
	Substitutes: "olm.template.substitutes",
}

// Types are the types of templates that are one file.
func Types() []Type { return []Type{Basic, Semver, Substitutes} }

// ParseType reads the name of a type.
func ParseType(name string) (Type, error) {
	if t := Type(name); slices.Contains(Types(), t) {
		return t, nil
	}
	return "", fmt.Errorf("invalid template type %q, must be one of: %v", name, Types())
}

// Detect tells the type of a template by the schema of its first document.
func Detect(input []byte) (Type, error) {
	document, err := firstDocument(input)
	if err != nil {
		return "", fmt.Errorf("decoding template input: %w", err)
	}

	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(document, &head); err != nil {
		return "", fmt.Errorf("unmarshalling template schema: %w", err)
	}
	if head.Schema == "" {
		return "", errors.New("template input missing required 'schema' field")
	}

	for _, t := range Types() {
		if schemas[t] == head.Schema {
			return t, nil
		}
	}

	return "", fmt.Errorf("unknown template schema: %s", head.Schema)
}

// Renderer reads bundles from their images.
type Renderer interface {
	// Render returns the bundles of an image, which normally is one. It may be called for
	// several images at once.
	Render(ctx context.Context, image string) ([]Bundle, error)
}

// Bundle is a bundle that was read from its image.
type Bundle struct {
	// Blob is its olm.bundle blob.
	Blob fbc.Meta
	// CSV is its ClusterServiceVersion as JSON. If it is nil it is looked for among the
	// objects in the blob.
	CSV []byte
}

// Render makes the blobs of a template's catalog. The input is JSON or YAML. Errors of
// the renderer are wrapped.
func Render(ctx context.Context, t Type, input []byte, r Renderer) ([]fbc.Meta, error) {
	switch t {
	case Basic:
		return renderBasic(ctx, input, r)
	case Semver:
		return renderSemver(ctx, input, r)
	case Substitutes:
		return renderSubstitutes(ctx, input, r)
	}

	_, err := ParseType(string(t))
	return nil, err
}

// renderers is how many images are read at once.
const renderers = 4

// renderAll reads the bundles of images, each image once.
func renderAll(ctx context.Context, images []string, r Renderer) (map[string][]Bundle, error) {
	images = slices.Compact(slices.Sorted(slices.Values(images)))
	rendered := make([][]Bundle, len(images))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(renderers)
	for i, image := range images {
		g.Go(func() (err error) {
			rendered[i], err = r.Render(ctx, image)
			return err
		})
	}

	if err := g.Wait(); err != nil {
		return nil, err
	}

	bundles := make(map[string][]Bundle, len(images))
	for i, image := range images {
		bundles[image] = rendered[i]
	}

	return bundles, nil
}

// metaOf reads one blob.
func metaOf(blob []byte) (fbc.Meta, error) {
	var found []fbc.Meta
	for meta, err := range fbc.Read(bytes.NewReader(blob), "", fbc.Limits{}) {
		var content *fbc.Error
		if errors.As(err, &content) {
			// Where it stands in a text of its own helps nobody.
			err = content.Err
		}
		if err != nil {
			return fbc.Meta{}, err
		}
		found = append(found, meta)
	}

	if len(found) != 1 {
		return fbc.Meta{}, errors.New("is not one object")
	}

	found[0].At = fbc.Place{}
	return found[0], nil
}
