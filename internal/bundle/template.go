package bundle

import (
	"fmt"
	"text/template/parse"
)

// ImageTemplate makes the reference of a bundle's image of what the bundle says of
// itself, for bundles that are rendered before they are pushed.
type ImageTemplate struct{ root *parse.ListNode }

// templateName is what errors call the template.
const templateName = "image"

// ParseImageTemplate reads a Go template over .Package, .Name (of the CSV) and .Version,
// such as registry.example/{{.Package}}-bundle:v{{.Version}}. It may have conditions and
// the functions of Go templates that take texts.
func ParseImageTemplate(text string) (*ImageTemplate, error) {
	known := map[string]any{}
	for name := range templateFuncs {
		known[name] = true
	}
	trees, err := parse.Parse(templateName, text, "", "", known)
	if err != nil {
		return nil, fmt.Errorf("invalid image reference template: %w", err)
	}
	if len(trees) != 1 {
		return nil, fmt.Errorf("invalid image reference template: template: %s: nested templates are not supported", templateName)
	}
	return &ImageTemplate{root: trees[templateName].Root}, nil
}

// Image is the reference of the bundle's image. ref is what the bundle was read from; it
// stands in the error.
func (t *ImageTemplate) Image(b *Bundle, ref string) (string, error) {
	text, err := t.execute(imageName{b.Package, b.Name(), b.StatedVersion()})
	if err != nil {
		return "", fmt.Errorf("failed templating image reference from bundle for %q: template: %s: %w", ref, templateName, err)
	}
	return text, nil
}

func (t *ImageTemplate) execute(name imageName) (string, error) {
	e := &execution{name: name}
	err := e.list(t.root)
	return e.out.String(), err
}
