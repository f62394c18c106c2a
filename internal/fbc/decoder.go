package fbc

import (
	"bytes"
	"encoding/base64"
	"encoding/json"

	"github.com/mainstay-dev/mainstay/internal/fbc/jsontext"
)

// decoder decodes blobs of the schemas that OLM defines, in one pass and without parsing the
// values of properties. It handles common input only and sets unusual for the rest. The caller
// then falls back to encoding/json, which has many more rules and well-known errors.
type decoder struct {
	cursor jsontext.Cursor
	// unusual is set when the blob needs encoding/json.
	unusual bool
}

func (d *decoder) decodePackage(p *Package) {
	for more := d.openObject(); more; more = d.moveToNext() {
		switch key := d.readKey(); string(key) {
		case "schema":
			p.Schema = d.decodeSchemaName()
		case "name":
			p.Name = d.decodeString()
		case "defaultChannel":
			p.DefaultChannel = d.decodeString()
		case "icon":
			p.Icon = d.decodeIcon()
		case "description":
			p.Description = d.decodeString()
		case "properties":
			p.Properties = decodeList(d, (*decoder).decodeProperty)
		default:
			d.skipUnknownField(key, "schema", "name", "defaultChannel", "icon", "description", "properties")
		}
	}
}

func (d *decoder) decodeIcon() *Icon {
	if d.skipNull() {
		return nil
	}

	icon := &Icon{}
	for more := d.openObject(); more; more = d.moveToNext() {
		switch key := d.readKey(); string(key) {
		case "base64data":
			icon.Data = d.decodeBase64()
		case "mediatype":
			icon.MediaType = d.decodeString()
		default:
			d.skipUnknownField(key, "base64data", "mediatype")
		}
	}

	return icon
}

func (d *decoder) decodeChannel(c *Channel) {
	for more := d.openObject(); more; more = d.moveToNext() {
		switch key := d.readKey(); string(key) {
		case "schema":
			c.Schema = d.decodeSchemaName()
		case "package":
			c.Package = d.decodeString()
		case "name":
			c.Name = d.decodeString()
		case "entries":
			c.Entries = decodeList(d, (*decoder).decodeChannelEntry)
		case "properties":
			c.Properties = decodeList(d, (*decoder).decodeProperty)
		default:
			d.skipUnknownField(key, "schema", "package", "name", "entries", "properties")
		}
	}
}

func (d *decoder) decodeChannelEntry(e *ChannelEntry) {
	for more := d.openObject(); more; more = d.moveToNext() {
		switch key := d.readKey(); string(key) {
		case "name":
			e.Name = d.decodeString()
		case "replaces":
			e.Replaces = d.decodeString()
		case "skips":
			e.Skips = decodeList(d, func(d *decoder, s *string) { *s = d.decodeString() })
		case "skipRange":
			e.SkipRange = d.decodeString()
		default:
			d.skipUnknownField(key, "name", "replaces", "skips", "skipRange")
		}
	}
}

func (d *decoder) decodeBundle(b *Bundle) {
	for more := d.openObject(); more; more = d.moveToNext() {
		switch key := d.readKey(); string(key) {
		case "schema":
			b.Schema = d.decodeSchemaName()
		case "name":
			b.Name = d.decodeString()
		case "package":
			b.Package = d.decodeString()
		case "image":
			b.Image = d.decodeString()
		case "properties":
			b.Properties = decodeList(d, (*decoder).decodeProperty)
		case "relatedImages":
			b.RelatedImages = decodeList(d, (*decoder).decodeRelatedImage)
		default:
			d.skipUnknownField(key, "schema", "name", "package", "image", "properties", "relatedImages")
		}
	}
}

func (d *decoder) decodeProperty(p *Property) {
	for more := d.openObject(); more; more = d.moveToNext() {
		switch key := d.readKey(); string(key) {
		case "type":
			p.Type = d.decodePropertyType()
		case "value":
			p.Value = d.decodeRawValue()
		default:
			d.skipUnknownField(key, "type", "value")
		}
	}
}

func (d *decoder) decodeRelatedImage(i *RelatedImage) {
	for more := d.openObject(); more; more = d.moveToNext() {
		switch key := d.readKey(); string(key) {
		case "name":
			i.Name = d.decodeString()
		case "image":
			i.Image = d.decodeString()
		default:
			d.skipUnknownField(key, "name", "image")
		}
	}
}

func (d *decoder) decodeDeprecations(p *Deprecations) {
	for more := d.openObject(); more; more = d.moveToNext() {
		switch key := d.readKey(); string(key) {
		case "schema":
			p.Schema = d.decodeSchemaName()
		case "package":
			p.Package = d.decodeString()
		case "entries":
			p.Entries = decodeList(d, (*decoder).decodeDeprecationEntry)
		default:
			d.skipUnknownField(key, "schema", "package", "entries")
		}
	}
}

func (d *decoder) decodeDeprecationEntry(e *DeprecationEntry) {
	for more := d.openObject(); more; more = d.moveToNext() {
		switch key := d.readKey(); string(key) {
		case "reference":
			if !d.skipNull() {
				d.decodeDeprecationReference(&e.Reference)
			}
		case "message":
			e.Message = d.decodeString()
		default:
			d.skipUnknownField(key, "reference", "message")
		}
	}
}

func (d *decoder) decodeDeprecationReference(r *DeprecationReference) {
	for more := d.openObject(); more; more = d.moveToNext() {
		switch key := d.readKey(); string(key) {
		case "schema":
			r.Schema = d.decodeSchemaName()
		case "name":
			r.Name = d.decodeString()
		default:
			d.skipUnknownField(key, "schema", "name")
		}
	}
}

// openObject enters an object and reports whether it has a member.
func (d *decoder) openObject() bool {
	if d.unusual || d.cursor.Kind() != '{' {
		d.unusual = true
		return false
	}
	return d.cursor.Open()
}

func (d *decoder) moveToNext() bool { return !d.unusual && d.cursor.More() }

// readKey returns the next key without its quotes. A key with escapes is unusual.
func (d *decoder) readKey() []byte {
	if d.cursor.Kind() != '"' {
		d.unusual = true
		return nil
	}

	key := trimQuotes(d.cursor.Key())
	if bytes.IndexByte(key, '\\') >= 0 {
		d.unusual = true
	}
	return key
}

// skipUnknownField skips the value of a field that the schema does not define. A key that differs
// from a known one only in case is unusual.
func (d *decoder) skipUnknownField(key []byte, known ...string) {
	for _, name := range known {
		if bytes.EqualFold(key, []byte(name)) {
			d.unusual = true
		}
	}
	d.cursor.Value()
}

// skipNull skips a null, which leaves a field unchanged, and reports whether there was one.
func (d *decoder) skipNull() bool {
	if d.cursor.Kind() != 'n' {
		return false
	}
	d.cursor.Value()
	return true
}

// decodeString decodes a string or null.
func (d *decoder) decodeString() string {
	if d.skipNull() {
		return ""
	}
	if d.cursor.Kind() != '"' {
		d.unusual = true
		return ""
	}

	text, err := jsontext.Unquote(d.cursor.Value())
	if err != nil {
		d.unusual = true
	}

	return text
}

// decodeSchemaName decodes the name of a schema.
func (d *decoder) decodeSchemaName() string {
	return d.decodeInternedString(SchemaBundle, SchemaChannel, SchemaPackage, SchemaDeprecations)
}

// decodePropertyType decodes the type of a property.
func (d *decoder) decodePropertyType() string {
	return d.decodeInternedString(PropertyGVK, PropertyPackage, PropertyGVKRequired, PropertyBundleObject, PropertyCSVMetadata,
		PropertyPackageRequired, PropertyConstraint)
}

// decodeInternedString decodes a string. If it is one of the usual ones it returns that string,
// so that blobs share its memory.
func (d *decoder) decodeInternedString(usual ...string) string {
	if d.cursor.Kind() == '"' {
		at := d.cursor
		quoted := trimQuotes(at.Value())
		for _, s := range usual {
			if string(quoted) == s {
				d.cursor = at
				return s
			}
		}
	}

	return d.decodeString()
}

// decodeRawValue returns the next value unchanged.
func (d *decoder) decodeRawValue() json.RawMessage {
	if d.cursor.Kind() <= ' ' {
		d.unusual = true
	}
	return json.RawMessage(d.cursor.Value())
}

// decodeBase64 decodes a string of base64.
func (d *decoder) decodeBase64() []byte {
	if d.skipNull() {
		return nil
	}

	text := d.decodeString()
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		d.unusual = true
	}

	return data
}

// decodeList decodes a list, or null as nil.
func decodeList[T any](d *decoder, read func(*decoder, *T)) []T {
	if d.skipNull() {
		return nil
	}
	if d.cursor.Kind() != '[' {
		d.unusual = true
		return nil
	}

	values := []T{}
	for more := d.cursor.Open(); more; more = d.moveToNext() {
		values = append(values, *new(T))
		if !d.skipNull() {
			read(d, &values[len(values)-1])
		}
	}

	return values
}
