package template_test

import (
	"path"
	"testing"

	"github.com/mainstay-dev/mainstay/internal/fbc/template"
	"github.com/mainstay-dev/mainstay/internal/testing/golden"
)

const catalog = `---
schema: olm.package
name: p
defaultChannel: stable
---
schema: olm.channel
package: p
name: stable
entries:
- skipRange: '>=1.0.0 <1.1.0'
  name: a.v1.1.0
---
image: a:1.1.0
schema: olm.bundle
package: p
name: a.v1.1.0
properties:
- value: {version: 1.1.0, packageName: p}
  type: olm.package
---
x: no schema
`

func TestConvert(t *testing.T) {
	for _, to := range []template.Type{template.Basic, template.Substitutes} {
		t.Run(string(to), func(t *testing.T) {
			for name, input := range map[string]string{"": catalog, "empty-": ""} {
				converted, err := template.Convert(to, []byte(input))
				if err != nil {
					t.Fatal(err)
				}
				golden.Check(t, path.Join("convert", name+string(to)+".json"), converted.JSON())
				golden.Check(t, path.Join("convert", name+string(to)+".yaml"), converted.YAML())
			}
		})
	}
}

func TestConvertRefuses(t *testing.T) {
	cases := map[string]struct {
		to    template.Type
		input string
		want  string
	}{
		"to semver":      {template.Semver, "", `a catalog cannot be converted to a template of type "semver", only of "basic" and "substitutes"`},
		"no YAML":        {template.Basic, "a: b: c", `error converting YAML to JSON: yaml: mapping values are not allowed in this context`},
		"no JSON":        {template.Basic, `{"a":1}{"b":2}{"c"`, `unexpected EOF`},
		"a list":         {template.Basic, "- a\n", `document 1 is not an object`},
		"no image":       {template.Basic, `{"schema":"a"}{"schema":"olm.bundle","image":1}`, `document 2: parse bundle: json: cannot unmarshal number into Go struct field .image of type string`},
		"no schema":      {template.Basic, `{"schema":7}`, `document 1: json: cannot unmarshal number into Go struct field .schema of type string`},
		"too many nodes": {template.Basic, "a: [" + longList + "]", `has a YAML document with more than 500000 lines and list items…`},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := template.Convert(c.to, []byte(c.input))
			checkError(t, err, c.want)
		})
	}
}
