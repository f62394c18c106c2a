package release

import (
	"bytes"

	"github.com/mainstay-dev/mainstay/internal/template"
)

// manifestLanguage is what the templates of FolderOwn may say. Functions that format are not
// among it: a width of a billion costs as much.
var manifestLanguage = template.Language{Functions: []string{"index", "eq", "ne", "not", "and", "or"}}

// templateName is what errors call a template, before a number.
const templateName = "line"

// execute executes the template of a file. It may name .ReleaseImage, .ClusterProfile and, by
// their names, .Images.
func execute(data []byte, values map[string]any) ([]byte, error) {
	if !bytes.Contains(data, []byte("{{")) {
		return data, nil
	}

	parsed, err := manifestLanguage.Parse(templateName, string(data))
	if err != nil {
		return nil, err
	}

	text, err := parsed.Execute(values)
	return []byte(text), err
}
