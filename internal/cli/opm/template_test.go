package opm_test

import (
	"os"
	"strings"
	"testing"
)

// Output of templates. The named files are passed as standard input.
func TestTemplates(t *testing.T) {
	i := newRegistryFixture(t)
	for name, c := range map[string]struct{ line, input string }{
		"basic":            {"alpha render-template basic -o yaml", "basic.yaml"},
		"basic-detected":   {"alpha render-template - -o yaml --migrate-level all", "basic.yaml"},
		"basic-mermaid":    {"alpha render-template -o mermaid", "basic.yaml"},
		"semver":           {"alpha render-template semver", "semver.yaml"},
		"semver-mermaid":   {"alpha render-template semver -o mermaid", "semver.yaml"},
		"of-a-folder":      {"alpha render-template basic", "folder.yaml"},
		"composite":        {"alpha render-template", "composite.yaml"},
		"no-schema":        {"alpha render-template", "noschema.yaml"},
		"unknown-type":     {"alpha render-template veneer basic.yaml", ""},
		"unknown-format":   {"alpha render-template basic -o svg", "basic.yaml"},
		"unknown-level":    {"alpha render-template basic --migrate-level newest", "basic.yaml"},
		"not-there":        {"alpha render-template basic testdata/nothing.yaml", ""},
		"too-many":         {"alpha render-template one two three", ""},
		"other-type":       {"alpha render-template semver", "basic.yaml"},
		"to-basic":         {"alpha convert-template basic -o yaml", "catalog.yaml"},
		"to-basic-json":    {"alpha convert-template basic -", "catalog.yaml"},
		"to-substitutes":   {"alpha convert-template substitutes", "catalog.yaml"},
		"to-not-there":     {"alpha convert-template basic testdata/nothing.yaml", ""},
		"to-format":        {"alpha convert-template basic -o mermaid", "catalog.yaml"},
		"to-basic-nothing": {"alpha convert-template basic", "empty.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			input := ""
			if c.input != "" {
				data, err := os.ReadFile("testdata/templates/" + c.input)
				if err != nil {
					t.Fatal(err)
				}
				input = strings.ReplaceAll(string(data), "ADDRESS", i.address)
			}
			check(t, "templates/"+name, command{line: strings.Fields(c.line), input: input}.run(t))
		})
	}
}

// A composite template writes its files, and rejects commands unless they are allowed.
func TestComposite(t *testing.T) {
	i := newRegistryFixture(t)
	dir := t.TempDir()
	write(t, dir, "basic.yaml", strings.ReplaceAll(basicTemplate, "ADDRESS", i.address))
	write(t, dir, "catalogs.yaml", strings.ReplaceAll(`schema: olm.composite.catalogs
catalogs:
- name: kitchen
  destination: {workingDir: DIR/out}
  builders: [olm.builder.basic, olm.builder.custom]
`, "DIR", dir))

	contribution := `schema: olm.composite
components:
- name: kitchen
  destination: {path: kettle}
  strategy:
    name: s
    template:
      schema: olm.builder.SCHEMA
      config: CONFIG
`

	write(t, dir, "composite.yaml", strings.NewReplacer("SCHEMA", "basic", "CONFIG", "{input: "+dir+"/basic.yaml, output: catalog.yaml}").Replace(contribution))
	line := "alpha render-template composite -o yaml -f " + dir + "/catalogs.yaml -c " + dir + "/composite.yaml"
	if r := run(t, line); r.code != 0 || r.out+r.errors != "" {
		t.Fatal(r)
	}
	if out := mustRun(t, "alpha", "list", "bundles", dir+"/out/kettle"); !strings.Contains(out, "kettle.v0.1.0") {
		t.Error(out)
	}

	write(t, dir, "composite.yaml", strings.NewReplacer("SCHEMA", "custom", "CONFIG", "{command: cat, args: ["+dir+"/out/kettle/catalog.yaml], output: more.yaml}").Replace(contribution))
	if r := run(t, line); r.code != 1 || !strings.Contains(r.errors, "allowed") {
		t.Errorf("a command has run: %s", r)
	}
	// The directory then contains the catalog twice, which the validation detects.
	if r := run(t, line+" --allow-commands"); r.code != 1 || !strings.Contains(r.errors, `duplicate package "kettle"`) {
		t.Errorf("not validated: %s", r)
	}
	if r := run(t, line+" --allow-commands --validate=false"); r.code != 0 {
		t.Error(r)
	}
}

const basicTemplate = `schema: olm.template.basic
entries:
- schema: olm.package
  name: kettle
  defaultChannel: stable
- schema: olm.channel
  package: kettle
  name: stable
  entries: [{name: kettle.v0.1.0}]
- schema: olm.bundle
  image: ADDRESS/kettle:v0.1.0
`
