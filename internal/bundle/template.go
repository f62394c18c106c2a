package bundle

import (
	"fmt"

	"github.com/mainstay-dev/mainstay/internal/template"
)

// ImageTemplate makes the reference of a bundle's image of what the bundle says of
// itself, for bundles that are rendered before they are pushed.
type ImageTemplate struct{ template *template.Template }

// templateName is what errors call the template.
const templateName = "image"

// imageLanguage is what templates of image references may say: what Go templates do with
// three texts.
var imageLanguage = template.Language{Functions: []string{"print", "println", "printf", "len", "slice", "not", "and", "or", "eq", "ne"}}

// ParseImageTemplate reads a Go template over .Package, .Name (of the CSV) and .Version,
// such as registry.example/{{.Package}}-bundle:v{{.Version}}. It may have conditions and
// the functions of Go templates that take texts.
func ParseImageTemplate(text string) (*ImageTemplate, error) {
	parsed, err := imageLanguage.Parse(templateName, text)
	if err != nil {
		return nil, fmt.Errorf("invalid image reference template: %w", err)
	}
	return &ImageTemplate{parsed}, nil
}

// Image is the reference of the bundle's image. ref is what the bundle was read from; it
// stands in the error.
func (t *ImageTemplate) Image(b *Bundle, ref string) (string, error) {
	text, err := t.template.Execute(map[string]any{"Package": b.Package, "Name": b.Name(), "Version": b.StatedVersion()})
	if err != nil {
		return "", fmt.Errorf("failed templating image reference from bundle for %q: template: %s: %w", ref, templateName, err)
	}
	return text, nil
}
