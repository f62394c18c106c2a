package fbc

import (
	"encoding/base64"

	"github.com/mainstay-dev/mainstay/internal/fbc/jsontext"
)

// AppendJSON appends the package as compact JSON, its fields in the order of the field's
// tools.
func (p *Package) AppendJSON(dst []byte) []byte {
	o := fieldWriter{out: dst}
	o.text("schema", p.Schema)
	o.text("name", p.Name)
	o.text("defaultChannel", p.DefaultChannel)
	if p.Icon != nil {
		o.key("icon")
		icon := fieldWriter{out: o.out}
		icon.key("base64data")
		icon.out = appendBase64(icon.out, p.Icon.Data)
		icon.text("mediatype", p.Icon.MediaType)
		o.out = icon.end()
	}

	o.optional("description", p.Description)
	optionalList(&o, "properties", p.Properties, appendProperty)
	return o.end()
}

// appendBase64 appends bytes as encoding/json does.
func appendBase64(dst, data []byte) []byte {
	if data == nil {
		return append(dst, "null"...)
	}
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, data)
	return append(dst, '"')
}

// AppendJSON appends the channel as compact JSON, its fields in the order of the field's
// tools.
func (c *Channel) AppendJSON(dst []byte) []byte {
	o := fieldWriter{out: dst}
	o.text("schema", c.Schema)
	o.text("name", c.Name)
	o.text("package", c.Package)
	requiredList(&o, "entries", c.Entries, appendEntry)
	optionalList(&o, "properties", c.Properties, appendProperty)
	return o.end()
}

func appendEntry(dst []byte, e *ChannelEntry) []byte {
	o := fieldWriter{out: dst}
	o.text("name", e.Name)
	o.optional("replaces", e.Replaces)
	optionalList(&o, "skips", e.Skips, func(dst []byte, s *string) []byte { return jsontext.AppendQuoted(dst, *s) })
	o.optional("skipRange", e.SkipRange)
	return o.end()
}

// AppendJSON appends the bundle as compact JSON, its fields in the order of the field's
// tools. The values of its properties, which have to be compact JSON, stay as they are.
func (b *Bundle) AppendJSON(dst []byte) []byte {
	o := fieldWriter{out: dst}
	o.text("schema", b.Schema)
	o.optional("name", b.Name)
	o.optional("package", b.Package)
	o.text("image", b.Image)
	optionalList(&o, "properties", b.Properties, appendProperty)
	optionalList(&o, "relatedImages", b.RelatedImages, appendRelatedImage)

	return o.end()
}

func appendProperty(dst []byte, p *Property) []byte {
	o := fieldWriter{out: dst}
	o.text("type", p.Type)
	o.key("value")
	if p.Value == nil {
		o.out = append(o.out, "null"...)
	} else {
		o.out = append(o.out, p.Value...)
	}

	return o.end()
}

func appendRelatedImage(dst []byte, i *RelatedImage) []byte {
	o := fieldWriter{out: dst}
	o.text("name", i.Name)
	o.text("image", i.Image)
	return o.end()
}

// AppendJSON appends the deprecations as compact JSON, their fields in the order of the
// field's tools.
func (d *Deprecations) AppendJSON(dst []byte) []byte {
	o := fieldWriter{out: dst}
	o.text("schema", d.Schema)
	o.text("package", d.Package)
	requiredList(&o, "entries", d.Entries, appendDeprecation)
	return o.end()
}

func appendDeprecation(dst []byte, e *DeprecationEntry) []byte {
	o := fieldWriter{out: dst}
	o.key("reference")
	reference := fieldWriter{out: o.out}
	reference.text("schema", e.Reference.Schema)
	reference.optional("name", e.Reference.Name)
	o.out = reference.end()
	o.text("message", e.Message)

	return o.end()
}

// fieldWriter writes a JSON object behind what is in out.
type fieldWriter struct {
	out []byte
	// begun says that it has a member.
	begun bool
}

// key begins a member, whose value is then to be appended.
func (o *fieldWriter) key(name string) {
	mark := byte(',')
	if !o.begun {
		mark, o.begun = '{', true
	}
	o.out = append(append(append(o.out, mark, '"'), name...), '"', ':')
}

func (o *fieldWriter) text(name, value string) {
	o.key(name)
	o.out = jsontext.AppendQuoted(o.out, value)
}

// optional leaves an empty text out.
func (o *fieldWriter) optional(name, value string) {
	if value != "" {
		o.text(name, value)
	}
}

// end returns what was written; an object has at least one member.
func (o *fieldWriter) end() []byte { return append(o.out, '}') }

// requiredList writes a list that is null when there is none.
func requiredList[T any](o *fieldWriter, name string, values []T, write func([]byte, *T) []byte) {
	o.key(name)
	if values == nil {
		o.out = append(o.out, "null"...)
		return
	}

	o.out = append(o.out, '[')
	for i := range values {
		if i > 0 {
			o.out = append(o.out, ',')
		}
		o.out = write(o.out, &values[i])
	}

	o.out = append(o.out, ']')
}

// optionalList leaves an empty list out.
func optionalList[T any](o *fieldWriter, name string, values []T, write func([]byte, *T) []byte) {
	if len(values) > 0 {
		requiredList(o, name, values, write)
	}
}
