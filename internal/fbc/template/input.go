package template

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/util/yaml"
)

const (
	// maxInput bounds a template, in bytes. Those of substitutes hold whole catalogs; a
	// package has at most some ten megabytes of them.
	maxInput = 256 << 20
	// maxYAML and maxNodes bound a YAML document, which takes several times its text in
	// memory: its bytes, and its lines, list items and keys of about 200 bytes each. They
	// are those of the documents of catalogs.
	maxYAML  = 8 << 20
	maxNodes = 500_000
)

// ReadInput reads a template to its end.
func ReadInput(r io.Reader) ([]byte, error) { return readAtMost(r, maxInput) }

func readAtMost(r io.Reader, limit int64) ([]byte, error) {
	input, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(input)) > limit {
		return nil, fmt.Errorf("the template is larger than %d bytes", limit)
	}
	return input, nil
}

// checkYAML refuses YAML documents that would take too much memory to be parsed.
func checkYAML(input []byte) error {
	for document := range bytes.SplitSeq(input, []byte("\n---")) {
		if len(document) > maxYAML {
			return fmt.Errorf("has a YAML document larger than %d bytes: write it as JSON, or split it", maxYAML)
		}
		nodes := 0
		for _, mark := range []string{"\n", ",", "[", "{", "- "} {
			nodes += bytes.Count(document, []byte(mark))
		}
		if nodes > maxNodes {
			return fmt.Errorf("has a YAML document with more than %d lines and list items: write it as JSON, or split it", maxNodes)
		}
	}

	return nil
}

// firstDocument returns the first document of JSON or YAML as JSON. It gives io.EOF when
// there is none.
func firstDocument(input []byte) (document json.RawMessage, err error) {
	err = eachDocument(input, func(d json.RawMessage) error {
		document = d
		return errEnough
	})
	if document == nil && err == nil {
		return nil, io.EOF
	}
	return document, err
}

// errEnough ends the reading of documents.
var errEnough = errors.New("enough")

// eachDocument calls a function for each document of a stream of JSON or YAML, with the
// document as JSON.
func eachDocument(input []byte, visit func(json.RawMessage) error) (err error) {
	// What the YAML parser does not expect is still the fault of the text.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("cannot be parsed as YAML: %v", p)
		}
	}()
	if !isJSON(input) {
		if err := checkYAML(input); err != nil {
			return err
		}
	}

	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(input), 4096)
	for {
		var document json.RawMessage
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = visit(document)
		}
		if errors.Is(err, errEnough) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// isJSON reports whether a text is a stream of JSON objects to its end, so that no YAML
// parser sees it.
func isJSON(input []byte) bool {
	decoder := json.NewDecoder(bytes.NewReader(input))
	for {
		var value json.RawMessage
		switch err := decoder.Decode(&value); {
		case errors.Is(err, io.EOF):
			return true
		case err != nil || value[0] != '{':
			return false
		}
	}
}
