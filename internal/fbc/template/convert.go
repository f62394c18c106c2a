package template

import (
	"encoding/json"
	"fmt"

	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/fbc/jsontext"
	"github.com/mainstay-dev/mainstay/internal/fbc/yamltext"
)

// Converted is a template that was created from a catalog.
type Converted struct {
	schema string
	// entries are compact JSON.
	entries       [][]byte
	substitutions bool
}

// Convert creates a template from a catalog, which is a stream of JSON or YAML. A basic template
// keeps only the image of each bundle. A substitutes template has an empty list of substitutions.
// Convert does not check that the documents are valid blobs.
func Convert(to Type, input []byte) (*Converted, error) {
	if to != Basic && to != Substitutes {
		return nil, fmt.Errorf("a catalog cannot be converted to a template of type %q, only of %q and %q", to, Basic, Substitutes)
	}

	c := &Converted{schema: schemas[to], substitutions: to == Substitutes}
	err := visitDocuments(input, func(document json.RawMessage) error {
		entry, _, err := jsontext.Compact(nil, document, 0)
		if err != nil {
			return err
		}
		if entry[0] != '{' {
			return fmt.Errorf("document %d is not an object", len(c.entries)+1)
		}

		if to == Basic {
			if entry, err = stripBundleContent(entry); err != nil {
				return fmt.Errorf("document %d: %w", len(c.entries)+1, err)
			}
		}

		c.entries = append(c.entries, entry)
		return nil
	})

	return c, err
}

// stripBundleContent removes all fields of a bundle except its schema and its image. It returns
// other blobs unchanged.
func stripBundleContent(entry []byte) ([]byte, error) {
	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(entry, &head); err != nil || head.Schema != fbc.SchemaBundle {
		return entry, err
	}

	var bundle struct {
		Image string `json:"image"`
	}
	if err := json.Unmarshal(entry, &bundle); err != nil {
		return nil, fmt.Errorf("parse bundle: %w", err)
	}

	short := append([]byte(nil), `{"image":`...)
	short = jsontext.AppendQuoted(short, bundle.Image)
	short = append(short, `,"schema":`...)
	short = jsontext.AppendQuoted(short, head.Schema)

	return append(short, '}'), nil
}

// JSON returns the template as JSON, indented by four blanks, with a trailing line feed.
func (c *Converted) JSON() []byte {
	text := append([]byte(nil), `{"schema":`...)
	text = jsontext.AppendQuoted(text, c.schema)
	text = append(text, `,"entries":`...)
	text = c.appendEntriesJSON(text)
	if c.substitutions {
		text = append(text, `,"substitutions":[]`...)
	}

	text = append(text, '}')
	return append(jsontext.Indent(nil, text, "", "    "), '\n')
}

// YAML returns the template as a YAML document after a line "---", with a trailing empty line.
func (c *Converted) YAML() []byte {
	text := append([]byte(nil), `{"entries":`...)
	text = c.appendEntriesJSON(text)
	text = append(text, `,"schema":`...)
	text = jsontext.AppendQuoted(text, c.schema)
	if c.substitutions {
		text = append(text, `,"substitutions":[]`...)
	}

	text = append(text, '}')
	return append(yamltext.Append([]byte("---\n"), text), '\n')
}

func (c *Converted) appendEntriesJSON(text []byte) []byte {
	if len(c.entries) == 0 {
		return append(text, "null"...)
	}

	separator := byte('[')
	for _, entry := range c.entries {
		text = append(append(text, separator), entry...)
		separator = ','
	}
	return append(text, ']')
}
