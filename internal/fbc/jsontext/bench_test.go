package jsontext_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/mainstay-dev/mainstay/internal/fbc/jsontext"
)

// benchText has the structure of a catalog: indented, with many short texts and some long ones.
func benchText() []byte {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetIndent("", "    ")
	encoder.SetEscapeHTML(false)
	gvk := map[string]any{"type": "olm.gvk", "value": map[string]any{"group": "example.com", "kind": "Thing", "version": "v1"}}
	description := strings.Repeat("## Heading\nSome \"text\" of a description with a [link](https://example.com) & more.\n", 60)
	csv := map[string]any{"type": "olm.csv.metadata", "value": map[string]any{"description": description, "keywords": []string{"a", "b"}, "icon": strings.Repeat("QUJD", 1000)}}
	for range 20 {
		err := encoder.Encode(map[string]any{"schema": "olm.bundle", "name": "b", "image": "example.com/p@sha256:0", "properties": []any{gvk, gvk, gvk, gvk, gvk, gvk, gvk, gvk, csv}})
		if err != nil {
			panic(err) // The value can always be marshaled.
		}
	}

	return out.Bytes()
}

// benchValues returns the values of a text in canonical form.
func benchValues(b *testing.B, text []byte) [][]byte {
	b.Helper()
	var values [][]byte
	for len(bytes.TrimSpace(text)) > 0 {
		value, n, err := jsontext.Compact(nil, text, 0)
		if err != nil {
			b.Fatal(err)
		}
		values = append(values, value)
		text = text[n:]
	}

	return values
}

func BenchmarkCompact(b *testing.B) {
	text := benchText()
	b.Run("ours", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		b.ReportAllocs()
		var dst []byte
		for b.Loop() {
			for rest := text; len(rest) > 1; {
				out, n, err := jsontext.Compact(dst[:0], rest, 0)
				if err != nil {
					b.Fatal(err)
				}
				dst, rest = out, rest[n:]
			}
		}
	})

	b.Run("json.Compact", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		b.ReportAllocs()
		var out bytes.Buffer
		for b.Loop() {
			decoder := json.NewDecoder(bytes.NewReader(text))
			for decoder.More() {
				var value json.RawMessage
				out.Reset()
				if decoder.Decode(&value) != nil || json.Compact(&out, value) != nil {
					b.Fatal("it is not JSON")
				}
			}
		}
	})

	b.Run("json.Unmarshal and Marshal", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		b.ReportAllocs()
		for b.Loop() {
			decoder := json.NewDecoder(bytes.NewReader(text))
			for decoder.More() {
				var value any
				if err := decoder.Decode(&value); err != nil {
					b.Fatal(err)
				}
				if _, err := encodeReference(value); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

func BenchmarkIndent(b *testing.B) {
	text := benchText()
	values := benchValues(b, text)
	b.Run("ours", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		b.ReportAllocs()
		var dst []byte
		for b.Loop() {
			for _, value := range values {
				dst = jsontext.Indent(dst[:0], value, "", "    ")
			}
		}
	})

	b.Run("json.Indent", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		b.ReportAllocs()
		var out bytes.Buffer
		for b.Loop() {
			for _, value := range values {
				out.Reset()
				if err := json.Indent(&out, value, "", "    "); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

func BenchmarkEnd(b *testing.B) {
	text := benchText()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		for rest := text; len(rest) > 1; rest = rest[jsontext.End(rest):] {
		}
	}
}

func BenchmarkCursor(b *testing.B) {
	text := benchText()
	values := benchValues(b, text)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		for _, value := range values {
			c := jsontext.Cursor{Text: value}
			c.Value()
		}
	}
}
