package fbc_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// bundleJSON is a blob like that of a real bundle: mostly CSV metadata, with escapes.
func bundleJSON(i int) string {
	description := strings.Repeat(`## Heading\nSome \"text\" of a description with a [link](https://example.com).\n`, 60)
	gvks := strings.Repeat(`{"type":"olm.gvk","value":{"group":"example.com","kind":"Thing","version":"v1"}},`, 10)
	return fmt.Sprintf(`{"schema":"olm.bundle","name":"p.v1.%d.0","package":"p","image":"example.com/p@sha256:%064d","properties":[%s{"type":"olm.csv.metadata","value":{"description":"%s"}}]}`,
		i, i, gvks, description) + "\n"
}

func benchmarkRead(b *testing.B, text []byte) {
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
	var text bytes.Buffer
	for i := range 1000 {
		text.WriteString(bundleJSON(i))
	}
	benchmarkRead(b, text.Bytes())
}

func BenchmarkReadJSONIndented(b *testing.B) {
	var text bytes.Buffer
	for i := range 200 {
		text.WriteString("{\n    \"schema\": \"olm.channel\",\n    \"package\": \"p\",\n    \"entries\": [\n")
		for j := range 200 {
			fmt.Fprintf(&text, "        {\n            \"name\": \"p.v%d.%d.0\",\n            \"replaces\": \"p.v1\"\n        },\n", i, j)
		}
		text.WriteString("        {\n            \"name\": \"p.v0\"\n        }\n    ]\n}\n")
	}
	benchmarkRead(b, text.Bytes())
}

func BenchmarkReadYAML(b *testing.B) {
	var text bytes.Buffer
	for i := range 100 {
		fmt.Fprintf(&text, "---\nschema: olm.bundle\nname: p.v%d\npackage: p\nimage: example.com/p\nproperties:\n", i)
		for range 20 {
			text.WriteString("- type: olm.gvk\n  value:\n    group: example.com\n    kind: Thing\n    version: v1\n")
		}
		text.WriteString("- type: olm.csv.metadata\n  value:\n    description: |\n")
		for range 50 {
			text.WriteString("      Some text of a description with a [link](https://example.com).\n")
		}
	}
	benchmarkRead(b, text.Bytes())
}
