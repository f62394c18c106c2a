package bundle

import (
	"strings"
	"testing"
	"text/template"
)

// templateValues are the values of the templates.
var templateValues = map[string]any{"Package": "kettle", "Name": "kettle.v0.1.0", "Version": "0.1.0"}

// templateStruct has the same values for the library, because in templates of the library a map has every key.
var templateStruct = struct{ Package, Name, Version string }{"kettle", "kettle.v0.1.0", "0.1.0"}

// TestTemplateExecution compares the results of templates with the library.
func TestTemplateExecution(t *testing.T) {
	for _, text := range []string{
		"test.registry/{{.Package}}-bundle:v{{.Version}}",
		"registry.example.com/{{ .Name }}",
		`{{ printf "%s/%s:v%s" "registry.example.com" .Package .Version }}`,
		`r/{{ .Package | printf "%s-%s" "a" | print }}:{{/* none */}}{{ .Version }}`,
		`r/{{ if eq .Package "kettle" "pot" }}tea{{ else if .Name }}water{{ end }}`,
		`r/{{ if ne .Package "kettle" }}tea{{ else if and .Name (not false) }}water{{ else }}none{{ end }}`,
		`r/{{ slice .Version 0 3 }}{{ slice .Version 2 }}{{ len .Package }}{{ or "" .Name }}{{ println 7 true }}`,
		"  r/{{- .Package -}}  x",
		`{{ 030 }} {{ 0x1e }} {{ 0b11 }} {{ 1_000 }} {{ 'a' }} {{ '.' }} {{ -7 }} {{ +7 }}`,
		"",
	} {
		parsed, err := ParseImageTemplate(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}

		var want strings.Builder
		if err := template.Must(template.New(templateName).Parse(text)).Execute(&want, templateStruct); err != nil {
			t.Fatal(err)
		}
		if got, err := parsed.template.Execute(templateValues); err != nil || got != want.String() {
			t.Errorf("%s: got %q (%v), want %q", text, got, err, want.String())
		}
	}
}

func TestTemplateExecutionRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"{{ .Package":                      "unclosed action",
		"{{ .Channel }}":                   "there is no value .Channel: there are .Name, .Package, .Version",
		"{{ .Package.Name }}":              "there is no value .Package.Name",
		"{{ lower .Package }}":             `function "lower" not defined`,
		"{{ range .Package }}x{{ end }}":   "is not supported",
		"{{ $x := .Package }}{{ $x }}":     "variables are not supported",
		`{{ define "x" }}y{{ end }}`:       "nested templates",
		`{{ template "x" }}`:               "is not supported",
		"{{ . }}":                          "is not a string",
		"{{ 1.5 }}":                        "is not an integer",
		"{{ 1e3 }}":                        "is not an integer",
		"{{ 0x1p4 }}":                      "is not an integer",
		"{{ 0i }}":                         "is not an integer",
		"{{ .Package 1 }}":                 "takes no arguments",
		"{{ printf }}":                     "1 or more",
		"{{ printf 1 }}":                   "the format is not a string",
		"{{ eq .Package }}":                "2 or more",
		"{{ not }}":                        "1 or more",
		"{{ and }}":                        "1 or more",
		"{{ len 1 }}":                      "len takes a string",
		"{{ slice .Package 1 100 }}":       "out of the range",
		"{{ slice .Package true }}":        "slice takes",
		"{{ slice }}":                      "slice takes",
		"{{ slice .Package 3 1 }}":         "out of the range",
		"{{ if printf 1 }}a{{ end }}":      "the format is not a string",
		"{{ printf (slice .Package 99) }}": "out of the range",
	} {
		parsed, err := ParseImageTemplate(text)
		if err == nil {
			_, err = parsed.template.Execute(templateValues)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want one that contains %q", text, err, want)
		}
	}
}

// FuzzImageTemplate checks that no template causes a panic, and that the result is that of
// the library.
func FuzzImageTemplate(f *testing.F) {
	f.Add("test.registry/{{.Package}}-bundle:v{{.Version}}")
	f.Add(`{{ if and (eq .Name "a") .Package }}{{ slice .Version 1 }}{{ end }}`)
	f.Add(`{{ printf "%[3]*.[2]*[1]f" 12 | len }}`)
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 200 || strings.Contains(text, "%") {
			return // Formats with a large width are not tested.
		}

		parsed, err := ParseImageTemplate(text)
		if err != nil {
			return
		}

		got, err := parsed.template.Execute(templateValues)
		if err != nil {
			return
		}

		reference, err := template.New(templateName).Parse(text)
		if err != nil {
			t.Fatalf("the library rejects %q: %v", text, err)
		}

		var want strings.Builder
		if err := reference.Execute(&want, templateStruct); err == nil && got != want.String() {
			t.Errorf("%q: got %q, want %q", text, got, want.String())
		}
	})
}
