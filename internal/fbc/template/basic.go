package template

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// document is a template that contains blobs. Errors of encoding/json contain the name of this
// type.
type document struct {
	Schema        string            `json:"schema"`
	Entries       []json.RawMessage `json:"entries"`
	Substitutions []substitution    `json:"substitutions"`
}

// readTemplateDocument parses a template of a type that contains blobs. It returns the template
// and its blobs.
func readTemplateDocument(t Type, input []byte) (*document, []fbc.Meta, error) {
	text, err := decodeFirstDocument(input)
	if err != nil {
		return nil, nil, fmt.Errorf("decoding template schema: %w", err)
	}

	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, nil, fmt.Errorf("unmarshalling template: %w", err)
	}
	if d.Schema != schemas[t] {
		return nil, nil, fmt.Errorf("template has unknown schema (%q), should be %q", d.Schema, schemas[t])
	}

	entries := make([]fbc.Meta, 0, len(d.Entries))
	for i, entry := range d.Entries {
		meta, err := parseSingleBlob(entry)
		if err != nil {
			return nil, nil, fmt.Errorf("unmarshalling template: entries[%d] %w", i, err)
		}
		entries = append(entries, meta)
	}

	return &d, entries, nil
}

// checkBlobSchemas returns an error if a blob does not fit the schema that OLM defines for it.
func checkBlobSchemas(blobs []fbc.Meta) error {
	for _, blob := range blobs {
		if err := fbc.CheckSchema(blob); err != nil {
			return err
		}
	}
	return nil
}

// renderBasicTemplate replaces each bundle that only has an image by the bundles of that image.
func renderBasicTemplate(ctx context.Context, input []byte, r Renderer) ([]fbc.Meta, error) {
	_, entries, err := readTemplateDocument(Basic, input)
	if err == nil {
		err = checkBlobSchemas(entries)
	}
	if err != nil {
		return nil, err
	}

	images := make([]string, len(entries))
	for i, entry := range entries {
		if entry.Schema == fbc.SchemaBundle {
			if images[i], err = imageOfBasicBundle(entry); err != nil {
				return nil, err
			}
		}
	}

	rendered, err := renderDistinctImages(ctx, withoutEmptyStrings(images), r)
	if err != nil {
		return nil, err
	}

	var blobs []fbc.Meta
	for i, entry := range entries {
		if images[i] == "" {
			blobs = append(blobs, entry)
			continue
		}
		for _, bundle := range rendered[images[i]] {
			blobs = append(blobs, bundle.Blob)
		}
	}

	return blobs, nil
}

// imageOfBasicBundle returns the image of a bundle of a basic template. It returns an error if
// the bundle has other content; a name is ignored.
func imageOfBasicBundle(entry fbc.Meta) (string, error) {
	b, err := fbc.DecodeBundle(entry)
	if err != nil {
		return "", err
	}
	if b.Image == "" || b.Package != "" || len(b.Properties) > 0 || len(b.RelatedImages) > 0 {
		return "", errors.New("unexpected fields present in basic template bundle")
	}
	return b.Image, nil
}

func withoutEmptyStrings(texts []string) []string {
	var some []string
	for _, text := range texts {
		if text != "" {
			some = append(some, text)
		}
	}
	return some
}
