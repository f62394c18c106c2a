package fbc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// bounds finds the end of a JSON object in a text that arrives in pieces. It looks at
// braces, brackets and strings alone: whether the object is valid is seen later.
type bounds struct {
	// at is how much of the text has been looked at.
	at int
	// opened is where the content of the string begins that at is in, 0 outside of one.
	opened int
	// depth is how many braces and brackets are open.
	depth int
	// limit is the largest depth.
	limit int
}

// scan looks at a longer piece of the text. It gives the length of the object, or 0
// when the text does not hold its end.
func (b *bounds) scan(text []byte) (int, error) {
	for b.at < len(text) {
		if b.opened > 0 {
			end := stringEnd(text, b.opened, b.at)
			if end < 0 {
				b.at = len(text)
				return 0, nil
			}
			b.at, b.opened = end, 0
			continue
		}
		switch text[b.at] {
		case '"':
			b.opened = b.at + 1
		case '{', '[':
			if b.depth++; b.depth > b.limit {
				return 0, fmt.Errorf("is nested more than %d deep", b.limit)
			}
		case '}', ']':
			if b.depth--; b.depth <= 0 {
				return b.at + 1, nil
			}
		}
		b.at++
	}
	return 0, nil
}

// stringEnd gives the index after the quote that closes the string whose content
// starts at an index, or -1 when the text ends before it. The quote is looked for from
// another index on, within the string.
func stringEnd(text []byte, opened, at int) int {
	for {
		quote := bytes.IndexByte(text[at:], '"')
		if quote < 0 {
			return -1
		}
		quote += at
		escapes := 0
		for i := quote - 1; i >= opened && text[i] == '\\'; i-- {
			escapes++
		}
		if escapes%2 == 0 {
			return quote + 1
		}
		at = quote + 1
	}
}

// compactJSON appends a JSON value to the buffer without blanks and line breaks. Bytes
// that are not UTF-8 become U+FFFD, as encoding/json reads them.
func compactJSON(buffer *bytes.Buffer, text []byte) ([]byte, error) {
	buffer.Reset()
	if err := json.Compact(buffer, text); err != nil {
		return nil, err
	}
	if utf8.Valid(buffer.Bytes()) {
		return bytes.Clone(buffer.Bytes()), nil
	}
	var clean []byte
	for rest := buffer.Bytes(); len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		clean = utf8.AppendRune(clean, r)
		rest = rest[size:]
	}
	return clean, nil
}

// headOf finds what every schema has in common among the keys of a blob, which is a
// valid JSON object in compact form. Keys are compared without regard to case, and
// two that differ only in case are refused: readers would disagree on which counts.
// Of a key that stands twice in the same spelling the last counts.
func headOf(blob []byte) (Meta, error) {
	meta := Meta{Blob: blob}
	if len(blob) == 0 || blob[0] != '{' {
		return Meta{}, fmt.Errorf("is %s, not an object with a schema", kindOf(blob))
	}
	seen := map[string]string{}
	for at := 1; at < len(blob)-1; {
		keyEnd := stringEnd(blob, at+1, at+1)
		key, err := unquote(blob[at:keyEnd])
		if err != nil {
			return Meta{}, err
		}
		valueEnd := skipValue(blob, keyEnd+1)
		value := blob[keyEnd+1 : valueEnd]
		// The comma, or the closing brace.
		at = valueEnd + 1

		folded := strings.ToLower(key)
		if other, ok := seen[folded]; ok && other != key {
			return Meta{}, fmt.Errorf("has the keys %q and %q, which differ only in case: keep one", other, key)
		}
		seen[folded] = key
		if err := meta.setHead(folded, value); err != nil {
			return Meta{}, err
		}
	}
	if meta.Schema == "" {
		return Meta{}, errors.New("has no schema: every blob needs a non-empty string in its field schema")
	}
	if meta.Schema == SchemaPackage {
		meta.Package = ""
	}
	return meta, nil
}

// setHead takes over the value of a key if it is one of those of every schema.
func (m *Meta) setHead(key string, value []byte) error {
	var field *string
	switch key {
	case "schema":
		field = &m.Schema
	case "package":
		field = &m.Package
	case "name":
		field = &m.Name
	default:
		return nil
	}
	if value[0] != '"' {
		return fmt.Errorf("has %s in its field %s, which must be a string", kindOf(value), key)
	}
	text, err := unquote(value)
	if err != nil {
		return err
	}
	*field = text
	return nil
}

// skipValue gives the index after the value that starts at an index of a valid JSON
// text in compact form.
func skipValue(text []byte, at int) int {
	switch text[at] {
	case '"':
		return stringEnd(text, at+1, at+1)
	case '{', '[':
		b := bounds{limit: len(text)}
		n, _ := b.scan(text[at:]) // The limit cannot be passed.
		return at + n
	}
	for text[at] != ',' && text[at] != '}' && text[at] != ']' {
		at++
	}
	return at
}

// unquote gives the content of a valid JSON string.
func unquote(quoted []byte) (string, error) {
	if inner := quoted[1 : len(quoted)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return string(inner), nil
	}
	var text string
	err := json.Unmarshal(quoted, &text)
	return text, err
}

// kindOf names the kind of a JSON value, for an error.
func kindOf(value []byte) string {
	if len(value) == 0 {
		return "nothing"
	}
	switch value[0] {
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "a list"
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	default:
		return "a number"
	}
}
