package fbc_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/fstest"

	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// newBundleJSON returns a blob like that of a real bundle: mostly CSV metadata, with escapes.
func newBundleJSON(i int) string {
	description := strings.Repeat(`## Heading\nSome \"text\" of a description with a [link](https://example.com).\n`, 60)
	gvks := strings.Repeat(`{"type":"olm.gvk","value":{"group":"example.com","kind":"Thing","version":"v1"}},`, 10)
	return fmt.Sprintf(`{"schema":"olm.bundle","name":"p.v1.%d.0","package":"p","image":"example.com/p@sha256:%064d","properties":[%s{"type":"olm.csv.metadata","value":{"description":"%s"}}]}`,
		i, i, gvks, description) + "\n"
}

// newBundlesJSON returns indented bundles.
func newBundlesJSON(b *testing.B, n int) []byte {
	b.Helper()
	var out bytes.Buffer
	for i := range n {
		if err := json.Indent(&out, []byte(newBundleJSON(i)), "", "    "); err != nil {
			b.Fatal(err)
		}
	}
	return out.Bytes()
}

// newBundlesYAML returns bundles as YAML.
func newBundlesYAML(n int) []byte {
	var text bytes.Buffer
	for i := range n {
		fmt.Fprintf(&text, "---\nschema: olm.bundle\nname: p.v%d\npackage: p\nimage: example.com/p\nproperties:\n", i)
		for range 20 {
			text.WriteString("- type: olm.gvk\n  value:\n    group: example.com\n    kind: Thing\n    version: v1\n")
		}
		text.WriteString("- type: olm.csv.metadata\n  value:\n    description: |\n")
		for range 50 {
			text.WriteString("      Some text of a description with a [link](https://example.com).\n")
		}
	}

	return text.Bytes()
}

// newCatalogFS returns a catalog of n files with the same text.
func newCatalogFS(text []byte, n int) fstest.MapFS {
	fsys := fstest.MapFS{}
	for i := range n {
		fsys[fmt.Sprintf("%d/catalog", i)] = &fstest.MapFile{Data: text}
	}
	return fsys
}

func benchmarkRead(b *testing.B, text []byte) {
	b.Helper()
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range fbc.Read(bytes.NewReader(text), "catalog", fbc.Limits{}) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkReadJSON(b *testing.B) {
	text := newBundlesJSON(b, 500)
	b.Run("ours", func(b *testing.B) { benchmarkRead(b, text) })
	b.Run("encoding/json", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		b.ReportAllocs()
		for b.Loop() {
			decoder := json.NewDecoder(bytes.NewReader(text))
			for decoder.More() {
				var object map[string]any
				if err := decoder.Decode(&object); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

func BenchmarkReadYAML(b *testing.B) {
	text := newBundlesYAML(100)
	b.Run("ours", func(b *testing.B) { benchmarkRead(b, text) })
	b.Run("sigs.k8s.io/yaml", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		b.ReportAllocs()
		for b.Loop() {
			for document := range bytes.SplitSeq(text, []byte("---\n")) {
				if _, err := yaml.YAMLToJSON(document); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

// BenchmarkMap reads a catalog of many files, and of one file, on all processors.
func BenchmarkMap(b *testing.B) {
	text := newBundlesJSON(b, 20)
	for name, fsys := range map[string]fstest.MapFS{"files": newCatalogFS(text, 100), "file": newCatalogFS(bytes.Repeat(text, 100), 1)} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(100 * len(text)))
			b.ReportAllocs()
			for b.Loop() {
				for _, err := range fbc.Map(fsys, fbc.Limits{}, func(m fbc.Meta) (int, error) { return len(m.Blob), nil }) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// BenchmarkRender indexes a catalog and writes it.
func BenchmarkRender(b *testing.B) {
	text := newBundlesJSON(b, 20)
	fsys := newCatalogFS(text, 100)
	for name, format := range map[string]fbc.Format{"JSON": fbc.FormatJSON, "YAML": fbc.FormatYAML} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(100 * len(text)))
			b.ReportAllocs()
			for b.Loop() {
				ix := fbc.NewIndex(fbc.Limits{})
				if err := ix.Add(fsys); err != nil {
					b.Fatal(err)
				}
				if _, err := fbc.Write(io.Discard, ix, fbc.WriteOptions{Format: format, Bundle: tidyBundle}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecodeBundle(b *testing.B) {
	metas, err := readAll(bytes.NewReader(newBundlesJSON(b, 1)), fbc.Limits{})
	if err != nil {
		b.Fatal(err)
	}

	b.Run("ours", func(b *testing.B) {
		b.SetBytes(int64(len(metas[0].Blob)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := fbc.DecodeBundle(metas[0]); err != nil {
				b.Fatal(err)
			}
		}
	})

	b.Run("encoding/json", func(b *testing.B) {
		b.SetBytes(int64(len(metas[0].Blob)))
		b.ReportAllocs()
		for b.Loop() {
			if err := json.Unmarshal(metas[0].Blob, new(fbc.Bundle)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
