package fbc

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mainstay-dev/mainstay/internal/fbc/jsontext"
)

// stringInterner deduplicates strings that occur in many blobs.
type stringInterner struct {
	schemas     map[string]string
	lastPackage string
}

// maxInternedSchemas bounds the interned schema names. It is more than any catalog has.
const maxInternedSchemas = 100

func (n *stringInterner) internSchemaName(text []byte) string {
	if known, ok := n.schemas[string(text)]; ok {
		return known
	}
	if n.schemas == nil {
		n.schemas = map[string]string{}
	}

	s := string(text)
	if len(n.schemas) < maxInternedSchemas {
		n.schemas[s] = s
	}

	return s
}

// internPackageName returns the name as a string. It only remembers the last name, as blobs of
// one package usually follow each other.
func (n *stringInterner) internPackageName(text []byte) string {
	if n.lastPackage != string(text) {
		n.lastPackage = string(text)
	}
	return n.lastPackage
}

// readCommonFields reads the fields that all schemas share from the members of a blob. Keys are
// compared without regard to case. Two keys that differ only in case are an error, as readers
// would disagree on which one counts.
func (n *stringInterner) readCommonFields(meta *Meta, members []jsontext.Member) error {
	if len(meta.Blob) == 0 || meta.Blob[0] != '{' {
		return fmt.Errorf("is %s, not an object: missing root schema field", describeJSONKind(meta.Blob))
	}
	if err := checkDuplicateKeys(members); err != nil {
		return err
	}

	for _, m := range members {
		var err error
		switch key := trimJSONQuotes(m.Key); {
		case bytes.EqualFold(key, []byte("schema")):
			meta.Schema, err = n.readStringField(n.internSchemaName, "schema", m.Value)
		case bytes.EqualFold(key, []byte("package")):
			meta.Package, err = n.readStringField(n.internPackageName, "package", m.Value)
		case bytes.EqualFold(key, []byte("name")):
			meta.Name, err = n.readStringField(nil, "name", m.Value)
		}
		if err != nil {
			return err
		}
	}

	if meta.Schema == "" {
		return errors.New("missing root schema field: every blob needs a non-empty string in its field schema")
	}
	if meta.Schema == SchemaPackage {
		meta.Package = ""
	}

	return nil
}

// readStringField reads the value of a field that must be a string. If intern is set, it
// deduplicates the string.
func (n *stringInterner) readStringField(intern func([]byte) string, field string, value []byte) (string, error) {
	if value[0] != '"' {
		return "", fmt.Errorf("expected value for key %q to be a string, got %s", field, describeJSONKind(value))
	}
	if text := trimJSONQuotes(value); intern != nil && bytes.IndexByte(text, '\\') < 0 {
		return intern(text), nil
	}
	return jsontext.Unquote(value)
}

// trimJSONQuotes returns a JSON string without its quotes.
func trimJSONQuotes(quoted []byte) []byte { return quoted[1 : len(quoted)-1] }

// checkDuplicateKeys returns an error if two keys differ only in case.
func checkDuplicateKeys(members []jsontext.Member) error {
	if !slices.ContainsFunc(members, func(m jsontext.Member) bool { return hasCaseVariants(m.Key) }) {
		return nil
	}

	// Keys are in canonical form, in which no escape contains an upper-case letter.
	// Folding a key therefore folds the characters that its escapes represent.
	seen := make(map[string][]byte, len(members))
	for _, m := range members {
		folded := strings.Map(foldRuneCase, string(trimJSONQuotes(m.Key)))
		if other, ok := seen[folded]; ok {
			return fmt.Errorf("duplicate keys for key %q: [%s %s] differ only in case, keep one", folded, trimJSONQuotes(other), trimJSONQuotes(m.Key))
		}
		seen[folded] = m.Key
	}

	return nil
}

// hasCaseVariants reports whether another key may be equal to this one without regard to case.
func hasCaseVariants(key []byte) bool {
	for _, b := range key {
		if 'A' <= b && b <= 'Z' || b >= utf8.RuneSelf {
			return true
		}
	}
	return false
}

// foldRuneCase returns the same rune for all characters that differ only in case.
func foldRuneCase(r rune) rune {
	smallest := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		smallest = min(smallest, next)
	}
	return unicode.ToLower(smallest)
}

// describeJSONKind returns the kind of a JSON value for use in an error.
func describeJSONKind(value []byte) string {
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
