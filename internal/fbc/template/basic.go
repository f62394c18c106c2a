package template

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// document is a template that holds blobs.
type document struct {
	Schema        string            `json:"schema"`
	Entries       []json.RawMessage `json:"entries"`
	Substitutions []substitution    `json:"substitutions"`
}

// readDocument reads a template of a type that holds blobs.
func readDocument(t Type, input []byte) (*document, []fbc.Meta, error) {
	text, err := firstDocument(input)
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
		meta, err := metaOf(entry)
		if err != nil {
			return nil, nil, fmt.Errorf("unmarshalling template: entries[%d] %w", i, err)
		}
		entries = append(entries, meta)
	}

	return &d, entries, nil
}

// checkSchemas checks that blobs fit the schemas that OLM defines.
func checkSchemas(blobs []fbc.Meta) error {
	for _, blob := range blobs {
		if err := fbc.CheckSchema(blob); err != nil {
			return err
		}
	}
	return nil
}

// renderBasic puts the bundles of images in the place of those that are named by their
// image alone.
func renderBasic(ctx context.Context, input []byte, r Renderer) ([]fbc.Meta, error) {
	_, entries, err := readDocument(Basic, input)
	if err == nil {
		err = checkSchemas(entries)
	}
	if err != nil {
		return nil, err
	}

	images := make([]string, len(entries))
	for i, entry := range entries {
		if entry.Schema == fbc.SchemaBundle {
			if images[i], err = imageOf(entry); err != nil {
				return nil, err
			}
		}
	}

	rendered, err := renderAll(ctx, nonEmpty(images), r)
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

// imageOf returns the image of a bundle of a basic template, which has nothing else; a name
// is not looked at.
func imageOf(entry fbc.Meta) (string, error) {
	b, err := fbc.DecodeBundle(entry)
	if err != nil {
		return "", err
	}
	if b.Image == "" || b.Package != "" || len(b.Properties) > 0 || len(b.RelatedImages) > 0 {
		return "", errors.New("unexpected fields present in basic template bundle")
	}
	return b.Image, nil
}

func nonEmpty(texts []string) []string {
	var some []string
	for _, text := range texts {
		if text != "" {
			some = append(some, text)
		}
	}
	return some
}
