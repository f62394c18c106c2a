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
	for more := d.enterObject(); more; more = d.moveToNextElement() {
		switch key := d.readObjectKey(); string(key) {
		case "schema":
			p.Schema = d.decodeSchemaName()
		case "name":
			p.Name = d.decodeStringOrNull()
		case "defaultChannel":
			p.DefaultChannel = d.decodeStringOrNull()
		case "icon":
			p.Icon = d.decodePackageIcon()
		case "description":
			p.Description = d.decodeStringOrNull()
		case "properties":
			p.Properties = decodeListElements(d, (*decoder).decodeProperty)
		default:
			d.skipUnknownField(key, "schema", "name", "defaultChannel", "icon", "description", "properties")
		}
	}
}

func (d *decoder) decodePackageIcon() *Icon {
	if d.skipNull() {
		return nil
	}

	icon := &Icon{}
	for more := d.enterObject(); more; more = d.moveToNextElement() {
		switch key := d.readObjectKey(); string(key) {
		case "base64data":
			icon.Data = d.decodeBase64String()
		case "mediatype":
			icon.MediaType = d.decodeStringOrNull()
		default:
			d.skipUnknownField(key, "base64data", "mediatype")
		}
	}

	return icon
}

func (d *decoder) decodeChannel(c *Channel) {
	for more := d.enterObject(); more; more = d.moveToNextElement() {
		switch key := d.readObjectKey(); string(key) {
		case "schema":
			c.Schema = d.decodeSchemaName()
		case "package":
			c.Package = d.decodeStringOrNull()
		case "name":
			c.Name = d.decodeStringOrNull()
		case "entries":
			c.Entries = decodeListElements(d, (*decoder).decodeChannelEntry)
		case "properties":
			c.Properties = decodeListElements(d, (*decoder).decodeProperty)
		default:
			d.skipUnknownField(key, "schema", "package", "name", "entries", "properties")
		}
	}
}

func (d *decoder) decodeChannelEntry(e *ChannelEntry) {
	for more := d.enterObject(); more; more = d.moveToNextElement() {
		switch key := d.readObjectKey(); string(key) {
		case "name":
			e.Name = d.decodeStringOrNull()
		case "replaces":
			e.Replaces = d.decodeStringOrNull()
		case "skips":
			e.Skips = decodeListElements(d, func(d *decoder, s *string) { *s = d.decodeStringOrNull() })
		case "skipRange":
			e.SkipRange = d.decodeStringOrNull()
		default:
			d.skipUnknownField(key, "name", "replaces", "skips", "skipRange")
		}
	}
}

func (d *decoder) decodeBundle(b *Bundle) {
	for more := d.enterObject(); more; more = d.moveToNextElement() {
		switch key := d.readObjectKey(); string(key) {
		case "schema":
			b.Schema = d.decodeSchemaName()
		case "name":
			b.Name = d.decodeStringOrNull()
		case "package":
			b.Package = d.decodeStringOrNull()
		case "image":
			b.Image = d.decodeStringOrNull()
		case "properties":
			b.Properties = decodeListElements(d, (*decoder).decodeProperty)
		case "relatedImages":
			b.RelatedImages = decodeListElements(d, (*decoder).decodeRelatedImage)
		default:
			d.skipUnknownField(key, "schema", "name", "package", "image", "properties", "relatedImages")
		}
	}
}

func (d *decoder) decodeProperty(p *Property) {
	for more := d.enterObject(); more; more = d.moveToNextElement() {
		switch key := d.readObjectKey(); string(key) {
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
	for more := d.enterObject(); more; more = d.moveToNextElement() {
		switch key := d.readObjectKey(); string(key) {
		case "name":
			i.Name = d.decodeStringOrNull()
		case "image":
			i.Image = d.decodeStringOrNull()
		default:
			d.skipUnknownField(key, "name", "image")
		}
	}
}

func (d *decoder) decodeDeprecations(p *Deprecations) {
	for more := d.enterObject(); more; more = d.moveToNextElement() {
		switch key := d.readObjectKey(); string(key) {
		case "schema":
			p.Schema = d.decodeSchemaName()
		case "package":
			p.Package = d.decodeStringOrNull()
		case "entries":
			p.Entries = decodeListElements(d, (*decoder).decodeDeprecationEntry)
		default:
			d.skipUnknownField(key, "schema", "package", "entries")
		}
	}
}

func (d *decoder) decodeDeprecationEntry(e *DeprecationEntry) {
	for more := d.enterObject(); more; more = d.moveToNextElement() {
		switch key := d.readObjectKey(); string(key) {
		case "reference":
			if !d.skipNull() {
				d.decodeDeprecationReference(&e.Reference)
			}
		case "message":
			e.Message = d.decodeStringOrNull()
		default:
			d.skipUnknownField(key, "reference", "message")
		}
	}
}

func (d *decoder) decodeDeprecationReference(r *DeprecationReference) {
	for more := d.enterObject(); more; more = d.moveToNextElement() {
		switch key := d.readObjectKey(); string(key) {
		case "schema":
			r.Schema = d.decodeSchemaName()
		case "name":
			r.Name = d.decodeStringOrNull()
		default:
			d.skipUnknownField(key, "schema", "name")
		}
	}
}

// enterObject enters an object and reports whether it has a member.
func (d *decoder) enterObject() bool {
	if d.unusual || d.cursor.Kind() != '{' {
		d.unusual = true
		return false
	}
	return d.cursor.Open()
}

func (d *decoder) moveToNextElement() bool { return !d.unusual && d.cursor.More() }

// readObjectKey returns the next key without its quotes. A key with escapes is unusual.
func (d *decoder) readObjectKey() []byte {
	if d.cursor.Kind() != '"' {
		d.unusual = true
		return nil
	}

	key := trimJSONQuotes(d.cursor.Key())
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

func (d *decoder) decodeStringOrNull() string {
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

func (d *decoder) decodeSchemaName() string {
	return d.decodeInternedString(SchemaBundle, SchemaChannel, SchemaPackage, SchemaDeprecations)
}

func (d *decoder) decodePropertyType() string {
	return d.decodeInternedString(PropertyGVK, PropertyPackage, PropertyGVKRequired, PropertyBundleObject, PropertyCSVMetadata,
		PropertyPackageRequired, PropertyConstraint)
}

// decodeInternedString decodes a string. If it is one of the usual ones it returns that string,
// so that blobs share its memory.
func (d *decoder) decodeInternedString(usual ...string) string {
	if d.cursor.Kind() == '"' {
		at := d.cursor
		quoted := trimJSONQuotes(at.Value())
		for _, s := range usual {
			if string(quoted) == s {
				d.cursor = at
				return s
			}
		}
	}

	return d.decodeStringOrNull()
}

// decodeRawValue returns the next value unchanged.
func (d *decoder) decodeRawValue() json.RawMessage {
	if d.cursor.Kind() <= ' ' {
		d.unusual = true
	}
	return json.RawMessage(d.cursor.Value())
}

func (d *decoder) decodeBase64String() []byte {
	if d.skipNull() {
		return nil
	}

	text := d.decodeStringOrNull()
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		d.unusual = true
	}

	return data
}

// decodeListElements decodes a list, or null as nil.
func decodeListElements[T any](d *decoder, read func(*decoder, *T)) []T {
	if d.skipNull() {
		return nil
	}
	if d.cursor.Kind() != '[' {
		d.unusual = true
		return nil
	}

	values := []T{}
	for more := d.cursor.Open(); more; more = d.moveToNextElement() {
		values = append(values, *new(T))
		if !d.skipNull() {
			read(d, &values[len(values)-1])
		}
	}

	return values
}
