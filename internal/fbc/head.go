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

// names keeps the strings that stand in many blobs, so that there is one of each.
type names struct {
	schemas map[string]string
	pkg     string
}

// maxSchemas is how many schemas are kept as names: more than any catalog has.
const maxSchemas = 100

func (n *names) schema(text []byte) string {
	if known, ok := n.schemas[string(text)]; ok {
		return known
	}
	if n.schemas == nil {
		n.schemas = map[string]string{}
	}

	s := string(text)
	if len(n.schemas) < maxSchemas {
		n.schemas[s] = s
	}

	return s
}

// packageName expects the package of the blob before.
func (n *names) packageName(text []byte) string {
	if n.pkg != string(text) {
		n.pkg = string(text)
	}
	return n.pkg
}

// readHead finds what every schema has in common among the members of a blob. Keys are
// compared without regard to case, and two that differ only in case are refused: readers
// would disagree on which counts.
func (n *names) readHead(meta *Meta, members []jsontext.Member) error {
	if len(meta.Blob) == 0 || meta.Blob[0] != '{' {
		return fmt.Errorf("is %s, not an object: missing root schema field", kindOf(meta.Blob))
	}
	if err := checkKeys(members); err != nil {
		return err
	}

	for _, m := range members {
		var err error
		switch key := inner(m.Key); {
		case bytes.EqualFold(key, []byte("schema")):
			meta.Schema, err = n.text(n.schema, "schema", m.Value)
		case bytes.EqualFold(key, []byte("package")):
			meta.Package, err = n.text(n.packageName, "package", m.Value)
		case bytes.EqualFold(key, []byte("name")):
			meta.Name, err = n.text(nil, "name", m.Value)
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

// text reads the value of a field that has to be a string. It is kept by known, which
// gives the string that was kept before.
func (n *names) text(known func([]byte) string, field string, value []byte) (string, error) {
	if value[0] != '"' {
		return "", fmt.Errorf("expected value for key %q to be a string, got %s", field, kindOf(value))
	}
	if text := inner(value); known != nil && bytes.IndexByte(text, '\\') < 0 {
		return known(text), nil
	}
	return jsontext.Unquote(value)
}

// inner returns what stands between the quotes.
func inner(quoted []byte) []byte { return quoted[1 : len(quoted)-1] }

// checkKeys refuses keys that differ only in case.
func checkKeys(members []jsontext.Member) error {
	if !slices.ContainsFunc(members, func(m jsontext.Member) bool { return hasOtherCase(m.Key) }) {
		return nil
	}

	// Keys are canonical, where no escape has a letter in upper case: they fold as what
	// they stand for.
	seen := make(map[string][]byte, len(members))
	for _, m := range members {
		folded := strings.Map(foldRune, string(inner(m.Key)))
		if other, ok := seen[folded]; ok {
			return fmt.Errorf("duplicate keys for key %q: [%s %s] differ only in case, keep one", folded, inner(other), inner(m.Key))
		}
		seen[folded] = m.Key
	}

	return nil
}

// hasOtherCase reports whether a key may be the same as another one without regard to case.
func hasOtherCase(key []byte) bool {
	for _, b := range key {
		if 'A' <= b && b <= 'Z' || b >= utf8.RuneSelf {
			return true
		}
	}
	return false
}

// foldRune returns the same for all characters that differ only in case.
func foldRune(r rune) rune {
	smallest := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		smallest = min(smallest, next)
	}
	return unicode.ToLower(smallest)
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
