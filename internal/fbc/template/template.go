// Package template renders file-based catalogs from templates. A template is a short file that a
// catalog author maintains, from which the blobs of the catalog are generated. The package
// supports the templates basic, semver, substitutes and composite, and converts catalogs to
// templates.
//
// A Renderer provides the bundles of images. The results are blobs, which package fbc writes. Use
// fbc.Validate to validate them.
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

// Type is the type of a template.
type Type string

// Types of single-file templates.
const (
	// Basic is a catalog in which bundles only have an image.
	Basic Type = "basic"
	// Semver generates channels and their edges from the versions of bundles.
	Semver Type = "semver"
	// Substitutes replaces bundles of a catalog by others.
	Substitutes Type = "substitutes"
)

var schemas = map[Type]string{
	Basic:       "olm.template.basic",
	Semver:      "olm.semver",
	Substitutes: "olm.template.substitutes",
}

// Types returns the types of single-file templates.
func Types() []Type { return []Type{Basic, Semver, Substitutes} }

// ParseType parses the name of a type.
func ParseType(name string) (Type, error) {
	if t := Type(name); slices.Contains(Types(), t) {
		return t, nil
	}
	return "", fmt.Errorf("invalid template type %q, must be one of: %v", name, Types())
}

// Detect returns the type of a template from the schema of its first document.
func Detect(input []byte) (Type, error) {
	document, err := decodeFirstDocument(input)
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

// Renderer renders bundles from their images.
type Renderer interface {
	// Render returns the bundles of an image, usually one. It must be safe for concurrent use.
	Render(ctx context.Context, image string) ([]Bundle, error)
}

// Bundle is a bundle that was rendered from its image.
type Bundle struct {
	// Blob is the olm.bundle blob.
	Blob fbc.Meta
	// CSV is the ClusterServiceVersion as JSON. If it is nil, the ClusterServiceVersion among the
	// objects in the blob is used.
	CSV []byte
}

// Render returns the blobs of a template's catalog. The input is JSON or YAML. Errors of the
// renderer are wrapped.
func Render(ctx context.Context, t Type, input []byte, r Renderer) ([]fbc.Meta, error) {
	switch t {
	case Basic:
		return renderBasicTemplate(ctx, input, r)
	case Semver:
		return renderSemverTemplate(ctx, input, r)
	case Substitutes:
		return renderSubstitutesTemplate(ctx, input, r)
	}

	_, err := ParseType(string(t))
	return nil, err
}

// maxConcurrentRenders is the number of images that are rendered concurrently.
const maxConcurrentRenders = 4

// renderDistinctImages renders the bundles of images, each image once.
func renderDistinctImages(ctx context.Context, images []string, r Renderer) (map[string][]Bundle, error) {
	images = slices.Compact(slices.Sorted(slices.Values(images)))
	rendered := make([][]Bundle, len(images))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(maxConcurrentRenders)
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

// parseSingleBlob parses a text with exactly one blob.
func parseSingleBlob(blob []byte) (fbc.Meta, error) {
	var found []fbc.Meta
	for meta, err := range fbc.Read(bytes.NewReader(blob), "", fbc.Limits{}) {
		var content *fbc.Error
		if errors.As(err, &content) {
			// The position within this text is of no use to users.
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
