package fbc

import (
	"encoding/base64"

	"github.com/mainstay-dev/mainstay/internal/fbc/jsontext"
)

// AppendJSON appends the package as compact JSON, with its fields in the order of opm.
func (p *Package) AppendJSON(dst []byte) []byte {
	o := objectWriter{out: dst}
	o.writeString("schema", p.Schema)
	o.writeString("name", p.Name)
	o.writeString("defaultChannel", p.DefaultChannel)
	if p.Icon != nil {
		o.writeKey("icon")
		icon := objectWriter{out: o.out}
		icon.writeKey("base64data")
		icon.out = appendBase64(icon.out, p.Icon.Data)
		icon.writeString("mediatype", p.Icon.MediaType)
		o.out = icon.closeObject()
	}

	o.writeOptionalString("description", p.Description)
	writeOptionalListMember(&o, "properties", p.Properties, appendProperty)
	return o.closeObject()
}

// appendBase64 appends bytes in base64 as encoding/json does.
func appendBase64(dst, data []byte) []byte {
	if data == nil {
		return append(dst, "null"...)
	}
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, data)
	return append(dst, '"')
}

// AppendJSON appends the channel as compact JSON, with its fields in the order of opm.
func (c *Channel) AppendJSON(dst []byte) []byte {
	o := objectWriter{out: dst}
	o.writeString("schema", c.Schema)
	o.writeString("name", c.Name)
	o.writeString("package", c.Package)
	writeListMember(&o, "entries", c.Entries, appendChannelEntry)
	writeOptionalListMember(&o, "properties", c.Properties, appendProperty)
	return o.closeObject()
}

func appendChannelEntry(dst []byte, e *ChannelEntry) []byte {
	o := objectWriter{out: dst}
	o.writeString("name", e.Name)
	o.writeOptionalString("replaces", e.Replaces)
	writeOptionalListMember(&o, "skips", e.Skips, func(dst []byte, s *string) []byte { return jsontext.AppendQuoted(dst, *s) })
	o.writeOptionalString("skipRange", e.SkipRange)
	return o.closeObject()
}

// AppendJSON appends the bundle as compact JSON, with its fields in the order of opm. The values
// of its properties must be compact JSON and are copied unchanged.
func (b *Bundle) AppendJSON(dst []byte) []byte {
	o := objectWriter{out: dst}
	o.writeString("schema", b.Schema)
	o.writeOptionalString("name", b.Name)
	o.writeOptionalString("package", b.Package)
	o.writeString("image", b.Image)
	writeOptionalListMember(&o, "properties", b.Properties, appendProperty)
	writeOptionalListMember(&o, "relatedImages", b.RelatedImages, appendRelatedImage)

	return o.closeObject()
}

func appendProperty(dst []byte, p *Property) []byte {
	o := objectWriter{out: dst}
	o.writeString("type", p.Type)
	o.writeKey("value")
	if p.Value == nil {
		o.out = append(o.out, "null"...)
	} else {
		o.out = append(o.out, p.Value...)
	}

	return o.closeObject()
}

func appendRelatedImage(dst []byte, i *RelatedImage) []byte {
	o := objectWriter{out: dst}
	o.writeString("name", i.Name)
	o.writeString("image", i.Image)
	return o.closeObject()
}

// AppendJSON appends the deprecations as compact JSON, with their fields in the order of opm.
func (d *Deprecations) AppendJSON(dst []byte) []byte {
	o := objectWriter{out: dst}
	o.writeString("schema", d.Schema)
	o.writeString("package", d.Package)
	writeListMember(&o, "entries", d.Entries, appendDeprecationEntry)
	return o.closeObject()
}

func appendDeprecationEntry(dst []byte, e *DeprecationEntry) []byte {
	o := objectWriter{out: dst}
	o.writeKey("reference")
	reference := objectWriter{out: o.out}
	reference.writeString("schema", e.Reference.Schema)
	reference.writeOptionalString("name", e.Reference.Name)
	o.out = reference.closeObject()
	o.writeString("message", e.Message)

	return o.closeObject()
}

// objectWriter appends a JSON object to out.
type objectWriter struct {
	out []byte
	// hasMembers is set once a member was written.
	hasMembers bool
}

// writeKey writes the key of a member. The caller appends its value to out.
func (o *objectWriter) writeKey(name string) {
	mark := byte(',')
	if !o.hasMembers {
		mark, o.hasMembers = '{', true
	}
	o.out = append(append(append(o.out, mark, '"'), name...), '"', ':')
}

func (o *objectWriter) writeString(name, value string) {
	o.writeKey(name)
	o.out = jsontext.AppendQuoted(o.out, value)
}

// writeOptionalString writes a string unless it is empty.
func (o *objectWriter) writeOptionalString(name, value string) {
	if value != "" {
		o.writeString(name, value)
	}
}

// closeObject ends the object and returns the output. The object must have a member.
func (o *objectWriter) closeObject() []byte { return append(o.out, '}') }

// writeListMember writes a list, or null if it is nil.
func writeListMember[T any](o *objectWriter, name string, values []T, write func([]byte, *T) []byte) {
	o.writeKey(name)
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

// writeOptionalListMember writes a list unless it is empty.
func writeOptionalListMember[T any](o *objectWriter, name string, values []T, write func([]byte, *T) []byte) {
	if len(values) > 0 {
		writeListMember(o, name, values, write)
	}
}
