package template

import (
	"strings"
	"testing"
	library "text/template"
)

// everything is a language without restrictions.
var everything = Language{Documents: true, Functions: []string{
	"and", "eq", "index", "len", "ne", "not", "or", "print", "printf", "println", "slice",
}}

// document is the value for the templates of the tests.
var document = map[string]any{
	"name": "kettle", "count": int64(3), "share": 0.5, "on": true, "nothing": nil,
	"labels": map[string]any{"b": "2", "a": "1"}, "plain": map[string]string{"x": "y"},
	"images": []any{map[string]any{"name": "one"}, map[string]any{"name": "two"}}, "empty": []any{},
}

func TestDocuments(t *testing.T) {
	for _, text := range []string{
		"", "text", "{{ .name }} {{ $.name }}", "{{ .count }} {{ .share }} {{ .on }}", "{{ .labels.a }}{{ (.labels).b }}", "{{ .plain.x }}",
		"{{ range .images }}{{ .name }} {{ end }}", "{{ range .empty }}x{{ else }}none{{ end }}", "{{ range $key, $value := .labels }}{{ $key }}={{ $value }},{{ end }}",
		"{{ range $i, $image := .images }}{{ $i }}{{ $image.name }}{{ $.name }}{{ end }}", "{{ range $image := .images }}{{ $image.name }}{{ end }}",
		"{{ with .labels }}{{ .a }}{{ end }}{{ with .empty }}x{{ else }}y{{ end }}", "{{ with $x := .name }}{{ $x }}{{ . }}{{ end }}",
		"{{ $x := 1 }}{{ if .on }}{{ $x = 2 }}{{ $y := 3 }}{{ $y }}{{ end }}{{ $x }}", "{{ if $x := .name }}{{ $x }}{{ end }}",
		"{{ .unknown }}{{ .nothing }}", "{{ if .unknown }}a{{ else if .count }}b{{ end }}", "{{ .labels }} {{ .images }}",
		`{{ index .labels "a" }}{{ index .images 1 "name" }}{{ index .labels "none" }}`, `{{ "a" | index .labels | printf "%s-%d" "x" | len }}`,
		`{{ len .images }}{{ len .labels }}{{ len .name }}{{ slice .name 1 3 }}`, `{{ eq .name "x" "kettle" }}{{ ne .name "x" }}{{ not .on }}`,
		`{{ and .on .name }}{{ or .empty .name }}{{ print 1 2 "a" }}{{ println .name }}`, "a {{- .name -}} b{{/* none */}}",
		`{{ range .images }}{{ range $.labels }}{{ . }}{{ end }}{{ end }}`, `{{ .name | printf "%q" }}{{ "\n" }}`,
	} {
		parsed, err := everything.Parse("x", text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}

		var want strings.Builder
		if err := library.Must(library.New("x").Parse(text)).Execute(&want, document); err != nil {
			t.Fatal(err)
		}
		if got, err := parsed.Execute(document); err != nil || got != want.String() {
			t.Errorf("%s: got %q (%v), want %q", text, got, err, want.String())
		}
	}

	// A number of a document equals a constant, and a key of a nil value is nil.
	parsed, err := everything.Parse("x", "{{ eq .count 3 }} {{ .unknown.deeper }}")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := parsed.Execute(document); err != nil || got != "true <no value>" {
		t.Errorf("got %q: %v", got, err)
	}
}

func TestRefusals(t *testing.T) {
	closed := Language{Functions: everything.Functions}
	for _, test := range []struct {
		language   Language
		text, want string
	}{
		{everything, "{{ range .name }}{{ end }}", "is neither a list nor a map"}, {everything, "{{ range 9 }}{{ end }}", "is neither a list nor a map"},
		{everything, "{{ range .images }}{{ break }}{{ end }}", "is not supported"}, {everything, "{{ nil }}", "is not supported"},
		{everything, `{{ template "x" }}`, "is not supported"}, {everything, `{{ define "y" }}{{ end }}`, "nested templates"},
		{everything, "{{ $ = 1 }}", "cannot be assigned"}, {everything, "{{ eq .labels .labels }}", "takes no maps and lists"},
		{everything, "{{ index .images 2 }}", "no list with a value 2"}, {everything, `{{ index .name "a" }}`, "must be a map"}, {everything, "{{ index .labels .on }}", "strings and integers"},
		{everything, strings.Repeat("{{ range $.images }}", 25) + strings.Repeat("{{ end }}", 25), "takes more than the 1000000 steps"},
		{everything, strings.Repeat("{{ range $.images }}", 10) + strings.Repeat("long ", 10_000) + strings.Repeat("{{ end }}", 10), "makes more than the 8388608 bytes"},
		{everything, strings.Repeat("x", maxTemplateBytes+1), "is larger than the 262144 bytes"},
		{closed, "{{ range .images }}{{ end }}", "has values, if and functions only"}, {closed, "{{ with .name }}{{ end }}", "has values, if and functions only"},
		{closed, "{{ $x := 1 }}", "variables are not supported"}, {closed, "{{ .unknown }}", "there is no value .unknown: there are .count, .empty, "},
		{closed, "{{ .labels.c }}", "there is no value .labels.c"}, {closed, `{{ index .labels "c" }}`, `there is no value "c"`},
		{closed, "{{ .labels }}", "is not a string"}, {closed, "{{ print .labels }}", "takes no maps and lists"},
		{Language{}, "{{ len .name }}", `function "len" not defined`}, {Language{Functions: []string{"html"}}, "{{ html .name }}", "there is no function html"},
	} {
		parsed, err := test.language.Parse("x", test.text)
		if err == nil {
			_, err = parsed.Execute(document)
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%.60s: got error %v, want one that contains %q", test.text, err, test.want)
		}
	}
}

// FuzzDocuments checks that every template ends, and that the standard library can parse it.
func FuzzDocuments(f *testing.F) {
	f.Add("{{ range $k, $v := .labels }}{{ $k }}{{ else }}{{ .x }}{{ end }}")
	f.Add(`{{ with $x := index .images 0 }}{{ $x.name | slice 1 }}{{ end }}`)
	f.Add("{{ if and .on (not .empty) }}{{ $.plain.x }}{{ $y := len .name }}{{ end }}")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 200 || strings.Contains(text, "%") {
			return // Formats with a large width are not tested.
		}

		parsed, err := everything.Parse("x", text)
		if err != nil {
			return
		}
		if got, _ := parsed.Execute(document); len(got) > maxOutputBytes+len(text) {
			t.Errorf("%q: got %d bytes, want fewer", text, len(got))
		}
		if _, err := library.New("x").Parse(text); err != nil {
			t.Errorf("the library rejects %q: %v", text, err)
		}
	})
}
