package fbc

import (
	"bytes"
	"encoding/base64"
	"encoding/json"

	"github.com/mainstay-dev/mainstay/internal/fbc/jsontext"
)

// fieldReader reads the keys and values of a JSON text one after the other.
type fieldReader struct {
	cursor jsontext.Cursor
	// unusual is set when the text needs encoding/json.
	unusual bool
}

// enterObject enters an object and reports whether it has a member.
func (r *fieldReader) enterObject() bool {
	if r.unusual || r.cursor.Kind() != '{' {
		r.unusual = true
		return false
	}
	return r.cursor.Open()
}

func (r *fieldReader) moveToNextElement() bool { return !r.unusual && r.cursor.More() }

// readObjectKey returns the next key without its quotes. A key with escapes is unusual.
func (r *fieldReader) readObjectKey() []byte {
	if r.cursor.Kind() != '"' {
		r.unusual = true
		return nil
	}

	key := trimJSONQuotes(r.cursor.Key())
	if bytes.IndexByte(key, '\\') >= 0 {
		r.unusual = true
	}
	return key
}

// skipUnknownField skips the value of a field that the schema does not define. A key that differs
// from a known one only in case is unusual.
func (r *fieldReader) skipUnknownField(key []byte, known ...string) {
	for _, name := range known {
		if bytes.EqualFold(key, []byte(name)) {
			r.unusual = true
		}
	}
	r.cursor.Value()
}

// skipNull skips a null, which leaves a field unchanged, and reports whether there was one.
func (r *fieldReader) skipNull() bool {
	if r.cursor.Kind() != 'n' {
		return false
	}
	r.cursor.Value()
	return true
}

func (r *fieldReader) decodeStringOrNull() string {
	if r.skipNull() {
		return ""
	}
	if r.cursor.Kind() != '"' {
		r.unusual = true
		return ""
	}

	text, err := jsontext.Unquote(r.cursor.Value())
	if err != nil {
		r.unusual = true
	}

	return text
}

// decodeInternedString decodes a string. If it is one of the usual ones it returns that string,
// so that blobs share its memory.
func (r *fieldReader) decodeInternedString(usual ...string) string {
	if r.cursor.Kind() == '"' {
		at := r.cursor
		quoted := trimJSONQuotes(at.Value())
		for _, s := range usual {
			if string(quoted) == s {
				r.cursor = at
				return s
			}
		}
	}

	return r.decodeStringOrNull()
}

// decodeRawValue returns the next value unchanged.
func (r *fieldReader) decodeRawValue() json.RawMessage {
	if r.cursor.Kind() <= ' ' {
		r.unusual = true
	}
	return json.RawMessage(r.cursor.Value())
}

func (r *fieldReader) decodeBase64String() []byte {
	if r.skipNull() {
		return nil
	}

	text := r.decodeStringOrNull()
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		r.unusual = true
	}

	return data
}

func (r *fieldReader) decodeSchemaName() string {
	return r.decodeInternedString(SchemaBundle, SchemaChannel, SchemaPackage, SchemaDeprecations)
}

func (r *fieldReader) decodePropertyType() string {
	return r.decodeInternedString(PropertyGVK, PropertyPackage, PropertyGVKRequired, PropertyBundleObject, PropertyCSVMetadata,
		PropertyPackageRequired, PropertyConstraint)
}
