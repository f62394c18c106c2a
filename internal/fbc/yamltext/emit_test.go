package yamltext_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	goyaml "go.yaml.in/yaml/v2"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/internal/fbc/jsontext"
	"github.com/mainstay-dev/mainstay/internal/fbc/yamltext"
	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
)

var long = strings.Repeat("word and  two blanks: ", 20)

// jsonValues are JSON values with every kind of text.
func jsonValues() []string {
	texts := []string{
		"", " ", "a", "a b", " a", "a ", "a\n", "a\n\n", "\n", "\n\n", "\na", " \na", "a \nb", "a\n b", "a\tb", "a\r\nb", "\u2028", "a\u2028b", "a\u2028\nb\u2029", "\u2028\n",
		"é", "日本語", "😀", "a\u00a0b", "a\u0085b", "\ufeffa b", "b\ufeff", "\x7f", "\x00\x07\x1b\x0b", "\ufffd\ufffe", "\"'\\", "'", "it's", "a: b", "a:", ":a", ": a", "a #b", "a#b", "#a", "- a", "-a", "-", "?", "?a", "? a",
		"---", "--- a", "...", "..", "[a", "{a", "}", "]", ",", "&a", "*a", "!a", "|", ">", "%a", "@a", "`a", "a,b]c}", "<<", "=", "~", "null", "Null", "y", "yes", "Y", "n", "no", "on", "off", "true", "TRUE", "tRUE", "0", "00", "01", "1", "-1", "+1", "1_000", "_1",
		"0x1F", "0xG", "0b11", "0b+1", "0b-1", "-0b1", "0o17", "017", "089", "1.5", "1.", ".5", "._5", "1.2.3", "1e3", "1e400", "1E+3", "e3", ".inf", "-.inf", "+.INF", ".nan", "12345678901234567890", "123456789012345678901234567890", "0xFFFFFFFFFFFFFFFFFF",
		"2020-01-01", "2020-1-1", "2020-01-01T10:00:00Z", "2020-01-01t1:0:0Z", "2020-01-01 10:00:00", "2020-13-01", "2020", "10:30", "1:2:3.5", "10:60", "sha256:abc", "v1.2.3", "1 2", "a\\nb",
		long, long + "\n" + long, long + " \n", "'" + long, "é" + long, long + "\t", strings.Repeat("x", 200) + " y", strings.Repeat("é ", 100), "\u2028" + long, strings.Repeat("a ", 70) + "\x01",
		strings.Repeat("k", 128), strings.Repeat("k", 129), strings.Repeat("a b ", 50), strings.Repeat("a b ", 25), "\ufeff\u00ff\u0100\uffff\U0001F600", "'" + strings.Repeat("a b ", 25), "\t" + strings.Repeat("a b ", 25),
	}

	var out []string
	for _, text := range texts {
		quoted := string(jsontext.AppendQuoted(nil, text))
		for _, format := range []string{`%s`, `[%s]`, `{"k":%s}`, `{%s:1}`, `[[%s]]`, `{"a":{"b":[%s,{"c":%s}]}}`, `{%s:[1,[2],{}]}`, `{%s:{"a":1,"b":[]}}`, `[{%s:%s}]`} {
			out = append(out, strings.ReplaceAll(format, "%s", quoted))
		}
	}

	// The order of some keys depends on the other keys, so pairs are compared here.
	keys := strings.Fields("b0 b00 b01 b001 b010 b0- b00-1 b10 b100 b1-0 b b- b.0 b.a b1a b1é b² ba B _ 9 10 b٣ b2")
	for i, a := range keys {
		for _, b := range keys[:i] {
			out = append(out, fmt.Sprintf(`{"%s":1,"%s":2}`, a, b))
		}
	}

	return append(out,
		`[]`, `{}`, `[[]]`, `[{}]`, `{"a":{}}`, `{"a":[]}`, `[[[1,2],[3]],[]]`, `[{"a":[{"b":[1]}]}]`, `null`, `true`, `[null,false]`,
		`[0,-0,1,-1,9007199254740993,9223372036854775807,9223372036854775808,18446744073709551615,18446744073709551616,1.0,1.5,1e3,1e21,1e400,-1e-7,1234567.5,0.1e1,-0.0]`,
		`{"a1":1,"a10":1,"a2":1,"a_b":1,"aB":1,"ab":1,"A":1,"01":1,"1":1,"10":1,"100":1,"é":1,"a-b":1,"a.b":1,"":1,"a20":1,"a200":1,"a021":1}`,
	)
}

// marshalReference returns the output of the YAML library for a value.
func marshalReference(t *testing.T, value []byte) string {
	t.Helper()
	text, err := goyaml.Marshal(unmarshalReference(t, value))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// unmarshalReference returns a value as the YAML library reads it.
func unmarshalReference(t *testing.T, value []byte) any {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.UseNumber()
	var decoded any
	if err := decoder.Decode(&decoded); err != nil {
		t.Fatal(err)
	}

	return normalizeNumbers(t, decoded)
}

// normalizeNumbers replaces the numbers in a value by the results of the YAML library.
func normalizeNumbers(t *testing.T, value any) any {
	t.Helper()
	switch v := value.(type) {
	case json.Number:
		var read any
		if err := goyaml.Unmarshal([]byte(v), &read); err != nil {
			t.Fatal(err)
		}
		return read
	case []any:
		for i := range v {
			v[i] = normalizeNumbers(t, v[i])
		}
	case map[string]any:
		mapping := map[any]any{}
		for key := range v {
			mapping[key] = normalizeNumbers(t, v[key])
		}
		return mapping
	}

	return value
}

// checkAppend compares the output for a value with the YAML library, and reads it back.
func checkAppend(t *testing.T, text []byte) {
	t.Helper()
	value, _, err := jsontext.Compact(nil, text, 100)
	if err != nil {
		return
	}

	got := yamltext.Append([]byte("before\n"), value)
	// The library does not quote this text, so it is not read back as a string.
	if want := "before\n" + marshalReference(t, value); !bytes.Contains(value, []byte(`"<<"`)) && want != string(got) {
		t.Errorf("YAML of %s (-want +got):\n%s", value, cmp.Diff(want, string(got)))
	}

	var read any
	if err := goyaml.Unmarshal(got[len("before\n"):], &read); err != nil {
		t.Fatalf("YAML of %s cannot be read: %v\n%s", value, err, got)
	}
	if diff := cmp.Diff(floatsToIntegers(unmarshalReference(t, value)), read); diff != "" {
		t.Errorf("YAML of %s, read back (-want +got):\n%s", value, diff)
	}
}

// floatsToIntegers converts floats that are written without a fraction to integers.
func floatsToIntegers(value any) any {
	switch v := value.(type) {
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1e6 {
			return int(v)
		}
	case []any:
		for i := range v {
			v[i] = floatsToIntegers(v[i])
		}
	case map[any]any:
		for key := range v {
			v[key] = floatsToIntegers(v[key])
		}
	}

	return value
}

func TestAppendIsAsTheYAMLLibrary(t *testing.T) {
	for _, text := range jsonValues() {
		checkAppend(t, []byte(text))
	}
}

func FuzzAppend(f *testing.F) {
	for _, text := range jsonValues() {
		f.Add([]byte(text))
	}
	f.Fuzz(checkAppend)
}

// TestAppendOfRealCatalogs compares with sigs.k8s.io/yaml, and reads the output.
func TestAppendOfRealCatalogs(t *testing.T) {
	for value := range realDocuments(t) {
		want, err := yaml.JSONToYAML(value)
		if err != nil {
			t.Fatal(err)
		}

		got := yamltext.Append(nil, value)
		if !bytes.Equal(want, got) {
			t.Errorf("YAML (-want +got):\n%s", cmp.Diff(string(want), string(got)))
		}
		if value[0] != '{' {
			continue
		}

		again, ok := yamltext.AppendJSON(nil, got, 100, resolveScalar)
		if !ok {
			t.Errorf("the written YAML cannot be read:\n%.2000s", got)
			continue
		}
		if canonical, _, err := jsontext.Compact(nil, again, 0); err != nil || !bytes.Equal(value, canonical) {
			t.Errorf("the written YAML, read back: error %v (-want +got):\n%s", err, cmp.Diff(string(value), string(canonical)))
		}
	}
}

// realDocuments returns the YAML documents of real catalogs and bundles as JSON.
func realDocuments(t testing.TB) iter.Seq[[]byte] {
	dir := checkout.SharedData(t, ".")
	return func(yield func([]byte) bool) {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".yaml" {
				return err
			}
			text, err := os.ReadFile(path)
			for document := range strings.SplitSeq("\n"+string(text), "\n---\n") {
				value, convertErr := yaml.YAMLToJSON([]byte(document))
				if err = errors.Join(err, convertErr); err != nil {
					return err
				}
				canonical, _, compactErr := jsontext.Compact(nil, value, 0)
				if compactErr != nil || !yield(canonical) {
					return errors.Join(compactErr, filepath.SkipAll)
				}
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	var values [][]byte
	size := 0
	for value := range realDocuments(b) {
		values = append(values, value)
		size += len(value)
	}

	b.Run("ours", func(b *testing.B) {
		b.SetBytes(int64(size))
		b.ReportAllocs()
		var dst []byte
		for b.Loop() {
			for _, value := range values {
				dst = yamltext.Append(dst[:0], value)
			}
		}
	})

	b.Run("sigs.k8s.io/yaml", func(b *testing.B) {
		b.SetBytes(int64(size))
		b.ReportAllocs()
		for b.Loop() {
			for _, value := range values {
				if _, err := yaml.JSONToYAML(value); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}
