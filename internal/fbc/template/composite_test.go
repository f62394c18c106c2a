package template_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/mainstay-dev/mainstay/internal/fbc/template"
)

const compositeCatalogs = `
schema: olm.composite.catalogs
catalogs:
- name: first
  destination: {workingDir: /catalogs/first}
  builders: [olm.builder.basic, olm.builder.semver, olm.builder.raw, olm.builder.custom]
- name: second
  destination: {workingDir: second}
  builders: [olm.builder.raw]
`

// newContribution returns a component for a catalog.
func newContribution(catalog, path, builder, config string) string {
	return fmt.Sprintf("- name: %s\n  destination: {path: %q}\n  strategy: {name: s, template: {schema: %s, config: {%s}}}\n", catalog, path, builder, config)
}

func newContributions(components ...string) string {
	return "schema: olm.composite\ncomponents:\n" + strings.Join(components, "")
}

var compositeInputs = fstest.MapFS{
	"basic.yaml":  {Data: []byte("schema: olm.template.basic\nentries:\n- schema: olm.bundle\n  image: a:1.0.0\n")},
	"semver.yaml": {Data: []byte("schema: olm.semver\nstable: {bundles: [{image: 'a:1.0.0'}]}\n")},
	"raw.yaml":    {Data: []byte("schema: own\nname: x\n---\nschema: own\nname: w\n")},
	"broken.yaml": {Data: []byte("schema: olm.channel\npackage: p\nname: c\nentries: 7\n")},
}

func openInput(name string) (io.ReadCloser, error) { return compositeInputs.Open(name) }

// echoArguments prints its arguments, one per line.
func echoArguments(_ context.Context, command string, args []string) (io.ReadCloser, error) {
	if command != "echo" {
		return nil, fmt.Errorf("no command %s: %w", command, fs.ErrNotExist)
	}
	return io.NopCloser(strings.NewReader(strings.Join(args, "\n"))), nil
}

func TestComposite(t *testing.T) {
	c, err := template.ReadComposite([]byte(compositeCatalogs), []byte(newContributions(
		newContribution("first", "p", "olm.builder.basic", "input: basic.yaml, output: a.json"),
		newContribution("first", "p/q", "olm.builder.semver", "input: semver.yaml, output: sub/b.json"),
		newContribution("second", "", "olm.builder.raw", "input: raw.yaml, output: c.yaml"),
		newContribution("first", ".", "olm.builder.custom", `command: echo, args: ["schema: own", "name: z"], output: d.yaml`),
	)))
	if err != nil {
		t.Fatal(err)
	}

	outputs, err := c.Build(context.Background(), template.Builders{Renderer: registry{}, Open: openInput, AllowCommands: true, Run: echoArguments})
	if err != nil {
		t.Fatal(err)
	}

	var got []string
	for _, o := range outputs {
		got = append(got, fmt.Sprintf("%s: %s in %s\n%s", o.Catalog, o.File, o.Dir, summarizeBlobs(t, o.Blobs)))
	}

	const want = `first: /catalogs/first/p/a.json in /catalogs/first/p
olm.bundle a.v1.0.0 a:1.0.0
first: /catalogs/first/p/q/sub/b.json in /catalogs/first/p/q
olm.package p default stable-v1.0
olm.channel stable-v1.0:
  a.v1.0.0
olm.bundle a.v1.0.0 a:1.0.0
second: second/c.yaml in second
own x
own w
first: /catalogs/first/d.yaml in /catalogs/first
own z`
	if got := strings.Join(got, "\n"); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestReadCompositeRefuses(t *testing.T) {
	catalogs := func(text string) string { return "schema: olm.composite.catalogs\ncatalogs: " + text }
	cases := map[string]struct{ catalogs, contributions, want string }{
		"no catalogs":      {"", newContributions(), `catalogs: unknown schema (""), should be "olm.composite.catalogs"`},
		"no YAML":          {"a: b: c", newContributions(), `catalogs: error converting YAML to JSON: …`},
		"too many nodes":   {"a: [" + longList + "]", newContributions(), `catalogs: has a YAML document with more than 500000 lines and list items…`},
		"no contributions": {compositeCatalogs, "schema: olm.composite.catalogs", `contributions: unknown schema ("olm.composite.catalogs"), should be "olm.composite"`},
		"no components":    {compositeCatalogs, "schema: olm.composite\ncomponents: 7\n", `contributions: error unmarshaling JSON: …`},
		"no folder":        {catalogs(`[{name: a}]`), newContributions(), `catalogs: catalog "a": destination.workingDir must be set`},
		"two of a name":    {catalogs(`[{name: a, destination: {workingDir: a}}, {name: a, destination: {workingDir: b}}]`), newContributions(), `catalogs: there are two catalogs "a"`},
		"no builder":       {catalogs(`[{name: a, destination: {workingDir: a}, builders: [olm.builder.new]}]`), newContributions(), `catalogs: catalog "a": unknown builder "olm.builder.new"`},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := template.ReadComposite([]byte(c.catalogs), []byte(c.contributions))
			checkError(t, err, c.want)
		})
	}
}

func TestCompositeRefuses(t *testing.T) {
	const first = `building component "first": `
	raw := newContribution("first", "p", "olm.builder.raw", "input: raw.yaml, output: a")
	cases := map[string]struct {
		components []string
		want       string
	}{
		"no catalog":         {[]string{newContribution("third", "p", "olm.builder.raw", "")}, `building component "third": no such catalog, only: first, second`},
		"a builder":          {[]string{newContribution("second", "p", "olm.builder.basic", "")}, `building component "second": the catalog allows no builder "olm.builder.basic", only: olm.builder.raw`},
		"a path out":         {[]string{newContribution("first", "../p", "olm.builder.raw", "input: raw.yaml, output: a")}, first + `destination.path "../p" leaves the folder of the catalog`},
		"an absolute path":   {[]string{newContribution("first", "/p", "olm.builder.raw", "input: raw.yaml, output: a")}, first + `destination.path "/p" leaves the folder of the catalog`},
		"an output outside":  {[]string{newContribution("first", "p", "olm.builder.raw", "input: raw.yaml, output: a/../../b")}, first + `strategy.template.config.output "a/../../b" is not a file in the folder of the component`},
		"an output, a dot":   {[]string{newContribution("first", "p", "olm.builder.raw", "input: raw.yaml, output: ./")}, first + `strategy.template.config.output "./" is not a file in the folder of the component`},
		"no output":          {[]string{newContribution("first", "p", "olm.builder.raw", "input: raw.yaml")}, first + `strategy.template.config.output must be set`},
		"no input":           {[]string{newContribution("first", "p", "olm.builder.raw", "output: a")}, first + `strategy.template.config.input must be set`},
		"a missing input":    {[]string{newContribution("first", "p", "olm.builder.raw", "input: gone, output: a")}, first + `open gone: file does not exist`},
		"a broken input":     {[]string{newContribution("first", "p", "olm.builder.raw", "input: broken.yaml, output: a")}, first + `parse channel: json: …`},
		"not a template":     {[]string{newContribution("first", "p", "olm.builder.semver", "input: raw.yaml, output: a")}, first + `render: unable to read file: …`},
		"a file twice":       {[]string{raw, newContribution("second", "", "olm.builder.raw", "input: raw.yaml, output: b"), raw}, first + `writes the file "/catalogs/first/p/a", as component "first" does`},
		"no command":         {[]string{newContribution("first", "p", "olm.builder.custom", "output: a")}, first + `strategy.template.config.command must be set`},
		"a missing command":  {[]string{newContribution("first", "p", "olm.builder.custom", "command: rm, output: a")}, first + `running the command "rm": no command rm: file does not exist`},
		"a command's output": {[]string{newContribution("first", "p", "olm.builder.custom", `command: echo, args: ["{}"], output: a`)}, first + `output of echo: document 1…`},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			composite, err := template.ReadComposite([]byte(compositeCatalogs), []byte(newContributions(c.components...)))
			if err != nil {
				t.Fatal(err)
			}
			_, err = composite.Build(context.Background(), template.Builders{Renderer: registry{}, Open: openInput, AllowCommands: true, Run: echoArguments})
			checkError(t, err, c.want)
		})
	}
}

// A command only runs if it is allowed and Run is set.
func TestCompositeRunsNoCommand(t *testing.T) {
	composite, err := template.ReadComposite([]byte(compositeCatalogs), []byte(newContributions(newContribution("first", "p", "olm.builder.custom", "command: echo, output: a"))))
	if err != nil {
		t.Fatal(err)
	}

	run := func(context.Context, string, []string) (io.ReadCloser, error) {
		t.Error("got the command run, want an error before")
		return nil, errors.New("no")
	}
	const want = `building component "first": refused to run the command "echo": a builder "olm.builder.custom" runs any command, which has to be allowed expressly`
	for _, with := range []template.Builders{{}, {AllowCommands: true}, {Run: run}} {
		_, err := composite.Build(context.Background(), with)
		checkError(t, err, want)
	}
}
