package fbc

import (
	"bytes"
	"encoding/base64"
	"encoding/json"

	"github.com/mainstay-dev/mainstay/internal/fbc/jsontext"
)

// decoder reads the blobs of the schemas that OLM defines, in one pass and without
// looking into the values of properties. It knows the usual: what is odd, it leaves to
// encoding/json, whose rules for it are many, and whose errors are known.
type decoder struct {
	cursor jsontext.Cursor
	// odd says that there is something else than the usual.
	odd bool
}

func (d *decoder) pkg(p *Package) {
	for more := d.open(); more; more = d.more() {
		switch key := d.key(); string(key) {
		case "schema":
			p.Schema = d.schema()
		case "name":
			p.Name = d.text()
		case "defaultChannel":
			p.DefaultChannel = d.text()
		case "icon":
			p.Icon = d.icon()
		case "description":
			p.Description = d.text()
		case "properties":
			p.Properties = list(d, (*decoder).property)
		default:
			d.skip(key, "schema", "name", "defaultChannel", "icon", "description", "properties")
		}
	}
}

func (d *decoder) icon() *Icon {
	if d.null() {
		return nil
	}

	icon := &Icon{}
	for more := d.open(); more; more = d.more() {
		switch key := d.key(); string(key) {
		case "base64data":
			icon.Data = d.base64()
		case "mediatype":
			icon.MediaType = d.text()
		default:
			d.skip(key, "base64data", "mediatype")
		}
	}

	return icon
}

func (d *decoder) channel(c *Channel) {
	for more := d.open(); more; more = d.more() {
		switch key := d.key(); string(key) {
		case "schema":
			c.Schema = d.schema()
		case "package":
			c.Package = d.text()
		case "name":
			c.Name = d.text()
		case "entries":
			c.Entries = list(d, (*decoder).entry)
		case "properties":
			c.Properties = list(d, (*decoder).property)
		default:
			d.skip(key, "schema", "package", "name", "entries", "properties")
		}
	}
}

func (d *decoder) entry(e *ChannelEntry) {
	for more := d.open(); more; more = d.more() {
		switch key := d.key(); string(key) {
		case "name":
			e.Name = d.text()
		case "replaces":
			e.Replaces = d.text()
		case "skips":
			e.Skips = list(d, func(d *decoder, s *string) { *s = d.text() })
		case "skipRange":
			e.SkipRange = d.text()
		default:
			d.skip(key, "name", "replaces", "skips", "skipRange")
		}
	}
}

func (d *decoder) bundle(b *Bundle) {
	for more := d.open(); more; more = d.more() {
		switch key := d.key(); string(key) {
		case "schema":
			b.Schema = d.schema()
		case "name":
			b.Name = d.text()
		case "package":
			b.Package = d.text()
		case "image":
			b.Image = d.text()
		case "properties":
			b.Properties = list(d, (*decoder).property)
		case "relatedImages":
			b.RelatedImages = list(d, (*decoder).relatedImage)
		default:
			d.skip(key, "schema", "name", "package", "image", "properties", "relatedImages")
		}
	}
}

func (d *decoder) property(p *Property) {
	for more := d.open(); more; more = d.more() {
		switch key := d.key(); string(key) {
		case "type":
			p.Type = d.propertyType()
		case "value":
			p.Value = d.raw()
		default:
			d.skip(key, "type", "value")
		}
	}
}

func (d *decoder) relatedImage(i *RelatedImage) {
	for more := d.open(); more; more = d.more() {
		switch key := d.key(); string(key) {
		case "name":
			i.Name = d.text()
		case "image":
			i.Image = d.text()
		default:
			d.skip(key, "name", "image")
		}
	}
}

func (d *decoder) deprecations(p *Deprecations) {
	for more := d.open(); more; more = d.more() {
		switch key := d.key(); string(key) {
		case "schema":
			p.Schema = d.schema()
		case "package":
			p.Package = d.text()
		case "entries":
			p.Entries = list(d, (*decoder).deprecation)
		default:
			d.skip(key, "schema", "package", "entries")
		}
	}
}

func (d *decoder) deprecation(e *DeprecationEntry) {
	for more := d.open(); more; more = d.more() {
		switch key := d.key(); string(key) {
		case "reference":
			if !d.null() {
				d.reference(&e.Reference)
			}
		case "message":
			e.Message = d.text()
		default:
			d.skip(key, "reference", "message")
		}
	}
}

func (d *decoder) reference(r *DeprecationReference) {
	for more := d.open(); more; more = d.more() {
		switch key := d.key(); string(key) {
		case "schema":
			r.Schema = d.schema()
		case "name":
			r.Name = d.text()
		default:
			d.skip(key, "schema", "name")
		}
	}
}

// open goes into an object.
func (d *decoder) open() bool {
	if d.odd || d.cursor.Kind() != '{' {
		d.odd = true
		return false
	}
	return d.cursor.Open()
}

func (d *decoder) more() bool { return !d.odd && d.cursor.More() }

// key returns the key that comes next without its quotes. One with escapes is odd.
func (d *decoder) key() []byte {
	if d.cursor.Kind() != '"' {
		d.odd = true
		return nil
	}

	key := inner(d.cursor.Key())
	if bytes.IndexByte(key, '\\') >= 0 {
		d.odd = true
	}
	return key
}

// skip goes past the value of a field that the schema does not have. One whose name
// differs from a known one only in case is odd.
func (d *decoder) skip(key []byte, known ...string) {
	for _, name := range known {
		if bytes.EqualFold(key, []byte(name)) {
			d.odd = true
		}
	}
	d.cursor.Value()
}

// null goes past a null, which leaves a field as it is.
func (d *decoder) null() bool {
	if d.cursor.Kind() != 'n' {
		return false
	}
	d.cursor.Value()
	return true
}

// text reads a string.
func (d *decoder) text() string {
	if d.null() {
		return ""
	}
	if d.cursor.Kind() != '"' {
		d.odd = true
		return ""
	}

	text, err := jsontext.Unquote(d.cursor.Value())
	if err != nil {
		d.odd = true
	}

	return text
}

// schema reads the name of a schema.
func (d *decoder) schema() string {
	return d.oneOf(SchemaBundle, SchemaChannel, SchemaPackage, SchemaDeprecations)
}

// propertyType reads the type of a property.
func (d *decoder) propertyType() string {
	return d.oneOf(PropertyGVK, PropertyPackage, PropertyGVKRequired, PropertyBundleObject, PropertyCSVMetadata,
		PropertyPackageRequired, PropertyConstraint)
}

// oneOf reads a string that is mostly one of a few, of which there is then only one in
// memory.
func (d *decoder) oneOf(usual ...string) string {
	if d.cursor.Kind() == '"' {
		at := d.cursor
		quoted := inner(at.Value())
		for _, s := range usual {
			if string(quoted) == s {
				d.cursor = at
				return s
			}
		}
	}

	return d.text()
}

// raw returns a value as it stands.
func (d *decoder) raw() json.RawMessage {
	if d.cursor.Kind() <= ' ' {
		d.odd = true
	}
	return json.RawMessage(d.cursor.Value())
}

// base64 reads bytes.
func (d *decoder) base64() []byte {
	if d.null() {
		return nil
	}

	text := d.text()
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		d.odd = true
	}

	return data
}

// list reads a list.
func list[T any](d *decoder, read func(*decoder, *T)) []T {
	if d.null() {
		return nil
	}
	if d.cursor.Kind() != '[' {
		d.odd = true
		return nil
	}

	values := []T{}
	for more := d.cursor.Open(); more; more = d.more() {
		values = append(values, *new(T))
		if !d.null() {
			read(d, &values[len(values)-1])
		}
	}

	return values
}
