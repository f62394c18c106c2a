package bundle

import (
	"fmt"

	"github.com/mainstay-dev/mainstay/internal/template"
)

// ImageTemplate generates the reference of a bundle's image from the bundle itself, for
// bundles that are rendered before they are pushed.
type ImageTemplate struct{ template *template.Template }

// templateName is the name of the template in errors.
const templateName = "image"

// imageTemplateLanguage restricts templates of image references to functions for text.
var imageTemplateLanguage = template.Language{Functions: []string{"print", "println", "printf", "len", "slice", "not", "and", "or", "eq", "ne"}}

// ParseImageTemplate parses a Go template over .Package, .Name (of the CSV) and .Version,
// such as registry.example/{{.Package}}-bundle:v{{.Version}}. It may use conditions and the
// functions of Go templates for text.
func ParseImageTemplate(text string) (*ImageTemplate, error) {
	parsed, err := imageTemplateLanguage.Parse(templateName, text)
	if err != nil {
		return nil, fmt.Errorf("invalid image reference template: %w", err)
	}
	return &ImageTemplate{parsed}, nil
}

// Image returns the reference of the bundle's image. ref is the source of the bundle for
// the error.
func (t *ImageTemplate) Image(b *Bundle, ref string) (string, error) {
	text, err := t.template.Execute(map[string]any{"Package": b.Package, "Name": b.Name(), "Version": b.StatedVersion()})
	if err != nil {
		return "", fmt.Errorf("failed templating image reference from bundle for %q: template: %s: %w", ref, templateName, err)
	}
	return text, nil
}
