package release

import (
	"bytes"

	"github.com/mainstay-dev/mainstay/internal/template"
)

// manifestTemplateLanguage is the language of the templates in FolderOwn. It has no formatting
// functions, because a large width would use much memory.
var manifestTemplateLanguage = template.Language{Functions: []string{"index", "eq", "ne", "not", "and", "or"}}

// templateName is the name of templates in errors; it precedes a line number.
const templateName = "line"

// executeTemplate executes the template of a file. Its values are .ReleaseImage, .ClusterProfile
// and, by name, .Images.
func executeTemplate(data []byte, values map[string]any) ([]byte, error) {
	if !bytes.Contains(data, []byte("{{")) {
		return data, nil
	}

	parsed, err := manifestTemplateLanguage.Parse(templateName, string(data))
	if err != nil {
		return nil, err
	}

	text, err := parsed.Execute(values)
	return []byte(text), err
}
