package yamltext_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	goyaml "go.yaml.in/yaml/v2"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/internal/fbc/jsontext"
	"github.com/mainstay-dev/mainstay/internal/fbc/yamltext"
	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
)

// resolveScalar resolves a scalar with the YAML library.
func resolveScalar(dst, scalar []byte) ([]byte, bool) {
	var value any
	if goyaml.Unmarshal(scalar, &value) != nil {
		return dst, false
	}
	text, err := json.Marshal(value)
	return append(dst, text...), err == nil
}

// supportedDocuments are YAML documents that AppendJSON converts.
var supportedDocuments = []string{
	"a: b\n", "a: b\nc: d\n", "a:\n  b: c\n", "a:\n- b\n- c\n", "a:\n  - b\n  - c\nd: e\n", "- a\n- - b\n  - c\n-   d: e\n    f: g\n- - - h\n", "- a:\n  - b\n  - c: d\n    e: f\n  g: h\n- i\n",
	"# c\n\n  a: b # c\n  # d\n  c: 'd' # e\n\n", "a:\nb: null\nc: ~\nd:\n  # note\ne:\n-\n-\n  f: g\n", "a: true\nb: false\nc: yes\nd: 1\ne: -12\nf: 0\ng: 017\nh: 1.50\ni: 1999-09-09\nk9: 9\nj: 1e3\nk: 1_000\nl: .5\nm: 12345678901234567890\nn2: 10:30\n",
	"a: b c  \nd: e\n  f\n  g\n\n  h\n\n\n   i\nj: k\n", "a: - b\n"[:0] + "a: b- c\n", "a: http://x:80/y#z\n", "a: b\n  - c\n  ? d\n", "'a b': \"c\"\n\"d\": 'e'\n", "a: 'it''s'\nb: ''\nc: \"\"\nd: '''x'''\n",
	"a: 'b\n  c\n\n  d  \n  e'\nf: g\n", "a: \"b\n  c\\n\\\n  \\  d \\x41\\u00e9\\U0001F600\\0\\a\\b\\t\\v\\f\\r\\e\\\"\\\\\\N\\_\\L\\P \n  e\"\n", "a: |\n  b\n   c\n\n  d\ne: |-\n  f\ng: |+\n  h\n\n\ni: |2\n   j\nk: |\n\n  l\n", "a: |\nb: |+\n\n\nc: d\n", "- |\n  a\n  # no comment\n- |-\n b\n",
	"a: []\nb: {}\nc: [] # d\n", "é: ü\na: 日本 😀\n", "a: b#c\nd: 'e' # f\n", "a: b\na: c\n", "a: [\n"[:0] + "a:\n  - |\n    b\n\n    c\n  - d\n", "a: \"b\" \nc: d\n", "a: b\n# c\n  # d\nc: d\n", "a:\n- b: |\n    c\n  d: e\n", "- a: b\n  c:\n  - d\n- e\n", "a: |\n  b\n  \n    \n  c\n", "a: x\n  # c\nb: y\n",
}

// unsupportedDocuments are YAML documents that need a complete parser.
var unsupportedDocuments = []string{
	"", "a", "a: b", "a: &x b\n", "a: *x\n", "a: !!str b\n", "a: [b]\n", "a: {b: c}\n", "? a\n: b\n", "a: >\n  b\n", "a:\n  b\n", "a:\n  'b'\n", "a: b: c\n", "a: b:\n", "a: b\n  c: d\n", "a:\t b\n", "\ta: b\n", "a: b\r\n", "a: \"b\n", "a: 'b\n", "a: 'b' c\n", "a: \"\\q\"\n", "a: \"\\ud800\"\n", "a: \"\\U+001F600\"\n", "a: \"\\x-1\"\n",
	"a: b\n c\n\td\n", "1: a\n", "true: a\n", "<<: a\n", "a : b\n", "a: |x\n  b\n", "a: |\n\tb\n", "a: |\n    \n  b\n", "- a\nb: c\n", "a: b\n- c\n", "a:\n   b: c\n  d: e\n", "  a: b\nc: d\n", "- a\n b\n- c\n  - d\n"[:0] + "%a: b\n", "--- a\n", "a: b\n---\nc: d\n", "a: \x01\n", "a: \u0085\n", "a: \u2028\n", "a: \ufeff\n", "\"a\":b\n", "a: @b\n", "a: `b\n", "a: %b\n", "a: -\n", "- a: b\n   c: d\n", "-\ta\n", "'a\\b': c\n", "a: \"b\nc\"\n", "a: .inf\n", "a: |\n  \n", "a: b\n \tc\n", "a: b\tc\n", strings.Repeat("k", 1001) + ": v\n",
}

// checkRead compares the conversion of a document with the YAML library. It reports whether
// AppendJSON supports the document.
func checkRead(t *testing.T, text []byte) bool {
	t.Helper()
	out, ok := yamltext.AppendJSON([]byte("before"), text, 20, resolveScalar)
	if !ok {
		if string(out) != "before" {
			t.Errorf("got %q for the unsupported document %q, want an unchanged buffer", out, text)
		}
		return false
	}

	got, _, err := jsontext.Compact(nil, out[len("before"):], 0)
	if err != nil {
		t.Fatalf("%q: got %s, which is not JSON: %v", text, out, err)
	}

	converted, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatalf("%q: got %s, want the error of the library: %v", text, got, err)
	}

	want, _, err := jsontext.Compact(nil, converted, 0)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got) {
		t.Errorf("%q: got\n%s, want\n%s", text, got, want)
	}

	return true
}

func TestAppendJSONIsAsTheYAMLLibrary(t *testing.T) {
	for _, text := range supportedDocuments {
		if !checkRead(t, []byte(text)) {
			t.Errorf("got %q unsupported, want it converted", text)
		}
	}

	for _, text := range unsupportedDocuments {
		if checkRead(t, []byte(text)) {
			t.Errorf("got %q converted, want it unsupported", text)
		}
	}
}

func TestAppendJSONKeepsTheDepth(t *testing.T) {
	for text, want := range map[string]bool{"- - - - a\n": true, "- - - - - a\n": false, "a:\n  b:\n    c:\n      d: e\n": true, "a:\n- b:\n  - c: d\n    e:\n    - f\n": false} {
		if _, ok := yamltext.AppendJSON(nil, []byte(text), 4, resolveScalar); ok != want {
			t.Errorf("%q: got supported %t, want %t", text, ok, want)
		}
	}
}

// FuzzAppendJSON compares with the YAML library, and converts the output of Append back.
func FuzzAppendJSON(f *testing.F) {
	for _, text := range append(supportedDocuments, unsupportedDocuments...) {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) { checkRead(t, text) })
}

// FuzzBoth writes values as YAML and converts them back.
func FuzzBoth(f *testing.F) {
	for _, text := range jsonValues() {
		f.Add([]byte(text))
	}

	f.Fuzz(func(t *testing.T, text []byte) {
		if value, _, err := jsontext.Compact(nil, text, 15); err == nil {
			checkRead(t, yamltext.Append(nil, value))
		}
	})
}

// TestAppendJSONReadsRealDocuments counts the real documents that need a complete parser.
func TestAppendJSONReadsRealDocuments(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(checkout.SharedData(t, "."), "*", "*", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}

	more, err := filepath.Glob(filepath.Join(checkout.SharedData(t, "."), "*", "*", "*", "*", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}

	left, all := 0, 0
	for _, path := range append(paths, more...) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitAfterSeq(string(text), "\n---\n") {
			all++
			if !checkRead(t, []byte(strings.TrimSuffix(strings.TrimPrefix(document, "---\n"), "---\n"))) {
				left++
			}
		}
	}

	t.Logf("%d of %d documents need a complete parser", left, all)
	if left*2 > all {
		t.Errorf("got %d of %d documents that need a complete parser, want fewer", left, all)
	}
}

func BenchmarkAppendJSON(b *testing.B) {
	var texts [][]byte
	size := 0
	for value := range realDocuments(b) {
		text := yamltext.Append(nil, value)
		texts = append(texts, text)
		size += len(text)
	}

	b.Run("ours", func(b *testing.B) {
		b.SetBytes(int64(size))
		b.ReportAllocs()
		var dst []byte
		for b.Loop() {
			for _, text := range texts {
				dst, _ = yamltext.AppendJSON(dst[:0], text, 100, resolveScalar)
			}
		}
	})

	b.Run("sigs.k8s.io/yaml", func(b *testing.B) {
		b.SetBytes(int64(size))
		b.ReportAllocs()
		for b.Loop() {
			for _, text := range texts {
				if _, err := yaml.YAMLToJSON(text); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}
