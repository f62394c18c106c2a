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
	// maxInputBytes bounds a template. Substitutes templates contain whole catalogs, which
	// have some ten megabytes for a package.
	maxInputBytes = 256 << 20
	// maxYAMLBytes and maxYAMLNodes bound a YAML document, which needs several times the size
	// of its text in memory. A node is a line, a list item or a key, and needs about 200
	// bytes. The limits equal those of package fbc.
	maxYAMLBytes = 8 << 20
	maxYAMLNodes = 500_000
)

// ReadInput reads a whole template. It returns an error if the template is too large.
func ReadInput(r io.Reader) ([]byte, error) { return readInputWithLimit(r, maxInputBytes) }

func readInputWithLimit(r io.Reader, limit int64) ([]byte, error) {
	input, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(input)) > limit {
		return nil, fmt.Errorf("the template is larger than %d bytes", limit)
	}
	return input, nil
}

// checkYAMLLimits returns an error if parsing a YAML document would need too much memory.
func checkYAMLLimits(input []byte) error {
	for document := range bytes.SplitSeq(input, []byte("\n---")) {
		if len(document) > maxYAMLBytes {
			return fmt.Errorf("has a YAML document larger than %d bytes: write it as JSON, or split it", maxYAMLBytes)
		}
		nodes := 0
		for _, mark := range []string{"\n", ",", "[", "{", "- "} {
			nodes += bytes.Count(document, []byte(mark))
		}
		if nodes > maxYAMLNodes {
			return fmt.Errorf("has a YAML document with more than %d lines and list items: write it as JSON, or split it", maxYAMLNodes)
		}
	}

	return nil
}

// decodeFirstDocument returns the first document of JSON or YAML as JSON. It returns io.EOF if
// there is none.
func decodeFirstDocument(input []byte) (document json.RawMessage, err error) {
	err = visitDocuments(input, func(d json.RawMessage) error {
		document = d
		return errStopReading
	})
	if document == nil && err == nil {
		return nil, io.EOF
	}
	return document, err
}

// errStopReading ends visitDocuments without an error.
var errStopReading = errors.New("enough")

// visitDocuments calls visit for each document of a stream of JSON or YAML, with the document as
// JSON.
func visitDocuments(input []byte, visit func(json.RawMessage) error) (err error) {
	// A panic of the YAML parser is caused by the text, so it is returned as an error.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("cannot be parsed as YAML: %v", p)
		}
	}()
	if !isJSONObjectStream(input) {
		if err := checkYAMLLimits(input); err != nil {
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
		if errors.Is(err, errStopReading) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// isJSONObjectStream reports whether the whole text is a stream of JSON objects. Such a text is
// never parsed as YAML.
func isJSONObjectStream(input []byte) bool {
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
