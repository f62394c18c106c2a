package template

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// Schemas of the two files of a composite template, and of its builders.
const (
	catalogsSchema  = "olm.composite.catalogs"
	compositeSchema = "olm.composite"

	basicBuilder  = "olm.builder.basic"
	semverBuilder = "olm.builder.semver"
	rawBuilder    = "olm.builder.raw"
	customBuilder = "olm.builder.custom"
)

// Composite is a composite template. It consists of two files. The file of the catalog
// maintainers lists the catalogs, their folders and the allowed builders. The file of a
// contributor lists what is built for each catalog.
type Composite struct {
	catalogs   []compositeCatalog
	components []component
}

type catalogsFile struct {
	Schema   string             `json:"schema"`
	Catalogs []compositeCatalog `json:"catalogs"`
}

type compositeCatalog struct {
	Name        string `json:"name"`
	Destination struct {
		WorkingDir string `json:"workingDir"`
	} `json:"destination"`
	Builders []string `json:"builders"`
}

type compositeFile struct {
	Schema     string      `json:"schema"`
	Components []component `json:"components"`
}

// component is a contribution to the catalog with its name.
type component struct {
	Name        string `json:"name"`
	Destination struct {
		Path string `json:"path"`
	} `json:"destination"`
	Strategy struct {
		Name     string `json:"name"`
		Template struct {
			Schema string        `json:"schema"`
			Config builderConfig `json:"config"`
		} `json:"template"`
	} `json:"strategy"`
}

// builderConfig is the configuration of a builder. A custom builder has a command, all others
// have an input.
type builderConfig struct {
	Input   string   `json:"input"`
	Output  string   `json:"output"`
	Command string   `json:"command"`
	Args    []string `json:"args"`
}

// Builders provides the inputs and operations for building a composite template.
type Builders struct {
	// Renderer renders the bundles of basic and semver templates.
	Renderer Renderer
	// Open opens an input by the name in the template.
	Open func(name string) (io.ReadCloser, error)
	// AllowCommands lets a template run arbitrary commands. Run runs a command and returns its
	// output, which must be a catalog. A template with a command is refused unless both are set.
	AllowCommands bool
	Run           func(ctx context.Context, command string, args []string) (io.ReadCloser, error)
}

// Output is a file that was built for a catalog.
type Output struct {
	// Catalog is the name of the catalog.
	Catalog string
	// Dir is the folder of the contribution. It is itself a catalog that can be validated.
	Dir string
	// File is the path for the blobs, within Dir.
	File  string
	Blobs []fbc.Meta
}

// ReadComposite parses the two files of a composite template, which are JSON or YAML.
func ReadComposite(catalogs, contributions []byte) (*Composite, error) {
	var catalogsDoc catalogsFile
	if err := unmarshalJSONOrYAML(catalogs, &catalogsDoc); err != nil {
		return nil, fmt.Errorf("catalogs: %w", err)
	}

	var contributionsDoc compositeFile
	if err := unmarshalJSONOrYAML(contributions, &contributionsDoc); err != nil {
		return nil, fmt.Errorf("contributions: %w", err)
	}
	if catalogsDoc.Schema != catalogsSchema {
		return nil, fmt.Errorf("catalogs: unknown schema (%q), should be %q", catalogsDoc.Schema, catalogsSchema)
	}
	if contributionsDoc.Schema != compositeSchema {
		return nil, fmt.Errorf("contributions: unknown schema (%q), should be %q", contributionsDoc.Schema, compositeSchema)
	}

	seen := map[string]bool{}
	for _, catalog := range catalogsDoc.Catalogs {
		switch {
		case seen[catalog.Name]:
			return nil, fmt.Errorf("catalogs: there are two catalogs %q", catalog.Name)
		case catalog.Destination.WorkingDir == "":
			return nil, fmt.Errorf("catalogs: catalog %q: destination.workingDir must be set", catalog.Name)
		}
		seen[catalog.Name] = true
		for _, builder := range catalog.Builders {
			if !slices.Contains([]string{basicBuilder, semverBuilder, rawBuilder, customBuilder}, builder) {
				return nil, fmt.Errorf("catalogs: catalog %q: unknown builder %q", catalog.Name, builder)
			}
		}
	}

	return &Composite{catalogs: catalogsDoc.Catalogs, components: contributionsDoc.Components}, nil
}

// unmarshalJSONOrYAML unmarshals a document of JSON or YAML.
func unmarshalJSONOrYAML(input []byte, into any) (err error) {
	// A panic of the YAML parser is caused by the text, so it is returned as an error.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("cannot be parsed as YAML: %v", p)
		}
	}()
	if err := checkYAMLLimits(input); err != nil {
		return err
	}
	return yaml.Unmarshal(input, into)
}

// Build builds all components, in the order of the contributions.
func (c *Composite) Build(ctx context.Context, with Builders) ([]Output, error) {
	var outputs []Output
	written := map[string]string{}
	for _, component := range c.components {
		catalog, err := c.findCatalogOfComponent(component)
		if err != nil {
			return nil, fmt.Errorf("building component %q: %w", component.Name, err)
		}

		output, err := resolveDestination(catalog, component)
		if err != nil {
			return nil, fmt.Errorf("building component %q: %w", component.Name, err)
		}
		if other, seen := written[output.File]; seen {
			return nil, fmt.Errorf("building component %q: writes the file %q, as component %q does", component.Name, output.File, other)
		}

		written[output.File] = component.Name
		if output.Blobs, err = component.buildComponentBlobs(ctx, with); err != nil {
			return nil, fmt.Errorf("building component %q: %w", component.Name, err)
		}

		outputs = append(outputs, output)
	}

	return outputs, nil
}

// findCatalogOfComponent returns the catalog of a component. It returns an error if the catalog
// does not allow the component's builder.
func (c *Composite) findCatalogOfComponent(component component) (compositeCatalog, error) {
	var names []string
	for _, catalog := range c.catalogs {
		if catalog.Name == component.Name {
			schema := component.Strategy.Template.Schema
			if !slices.Contains(catalog.Builders, schema) {
				return catalog, fmt.Errorf("the catalog allows no builder %q, only: %s", schema, strings.Join(catalog.Builders, ", "))
			}
			return catalog, nil
		}
		names = append(names, catalog.Name)
	}

	return compositeCatalog{}, fmt.Errorf("no such catalog, only: %s", strings.Join(names, ", "))
}

// resolveDestination returns the output path of a component, which must be below the folder of
// the catalog.
func resolveDestination(catalog compositeCatalog, component component) (Output, error) {
	inside, file := component.Destination.Path, component.Strategy.Template.Config.Output
	if inside == "" {
		inside = "."
	}

	switch {
	case !filepath.IsLocal(inside):
		return Output{}, fmt.Errorf("destination.path %q leaves the folder of the catalog", inside)
	case file == "":
		return Output{}, errors.New("strategy.template.config.output must be set")
	case !filepath.IsLocal(file), path.Clean(file) == ".":
		return Output{}, fmt.Errorf("strategy.template.config.output %q is not a file in the folder of the component", file)
	}

	dir := path.Join(catalog.Destination.WorkingDir, inside)
	return Output{Catalog: catalog.Name, Dir: dir, File: path.Join(dir, file)}, nil
}

// buildComponentBlobs runs the builder of a component and returns its blobs.
func (c component) buildComponentBlobs(ctx context.Context, with Builders) ([]fbc.Meta, error) {
	config := c.Strategy.Template.Config
	if c.Strategy.Template.Schema == customBuilder {
		return runCustomBuilder(ctx, config, with)
	}
	if config.Input == "" {
		return nil, errors.New("strategy.template.config.input must be set")
	}

	file, err := with.Open(config.Input)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // It was only read.
	if c.Strategy.Template.Schema == rawBuilder {
		return readCatalogStream(file, config.Input)
	}

	input, err := ReadInput(file)
	if err != nil {
		return nil, fmt.Errorf("reading %q: %w", config.Input, err)
	}

	t := Basic
	if c.Strategy.Template.Schema == semverBuilder {
		t = Semver
	}

	return Render(ctx, t, input, with.Renderer)
}

func runCustomBuilder(ctx context.Context, config builderConfig, with Builders) ([]fbc.Meta, error) {
	switch {
	case config.Command == "":
		return nil, errors.New("strategy.template.config.command must be set")
	case !with.AllowCommands || with.Run == nil:
		return nil, fmt.Errorf("refused to run the command %q: a builder %q runs any command, which has to be allowed expressly", config.Command, customBuilder)
	}

	printed, err := with.Run(ctx, config.Command, config.Args)
	if err != nil {
		return nil, fmt.Errorf("running the command %q: %w", config.Command, err)
	}
	defer func() { _ = printed.Close() }() // It was only read.
	return readCatalogStream(printed, "output of "+config.Command)
}

// readCatalogStream reads a catalog from a single stream.
func readCatalogStream(r io.Reader, name string) ([]fbc.Meta, error) {
	input, err := ReadInput(r)
	if err != nil {
		return nil, fmt.Errorf("reading %q: %w", name, err)
	}

	var blobs []fbc.Meta
	for meta, err := range fbc.Read(bytes.NewReader(input), name, fbc.Limits{}) {
		if err == nil {
			err = fbc.CheckSchema(meta)
		}
		if err != nil {
			return nil, err
		}
		blobs = append(blobs, meta)
	}

	return blobs, nil
}
