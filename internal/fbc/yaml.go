package fbc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v2"
)

// nodeMarks are what a list item, a key or a line of a YAML document begins or ends with.
var nodeMarks = [][]byte{[]byte("\n"), []byte(","), []byte("["), []byte("{"), []byte("- ")}

// yamlToJSON converts one YAML document to compact JSON with sorted keys. It reads the
// dialect that Kubernetes reads, YAML 1.1. The result is at most BlobBytes long, whatever
// its aliases repeat, and nested at most Depth deep.
func yamlToJSON(text []byte, limits Limits) (result []byte, err error) {
	nodes := 0
	for _, mark := range nodeMarks {
		nodes += bytes.Count(text, mark)
	}
	if nodes > limits.YAMLNodes {
		return nil, fmt.Errorf("is a YAML document with more than %d lines and list items: write it as JSON, or split it", limits.YAMLNodes)
	}
	// The parser reports what it expects to go wrong by errors. What it does not
	// expect is still the fault of the text, not of this program's state.
	defer func() {
		if p := recover(); p != nil {
			result, err = nil, fmt.Errorf("cannot be parsed as YAML: %v", p)
		}
	}()
	var value any
	if err := yaml.Unmarshal(text, &value); err != nil {
		return nil, fmt.Errorf("cannot be parsed as YAML: %w", err)
	}
	// Sized as the text: the JSON form is about as long.
	e := &jsonWriter{out: make([]byte, 0, len(text)), limit: limits.BlobBytes}
	if err := e.value(value, limits.Depth); err != nil {
		return nil, err
	}
	return e.out, nil
}

// jsonWriter writes what the YAML parser gives as JSON.
type jsonWriter struct {
	out   []byte
	limit int
}

func (w *jsonWriter) value(value any, depth int) error {
	if len(w.out) > w.limit {
		return fmt.Errorf("is larger than %d bytes once its aliases are followed", w.limit)
	}
	switch v := value.(type) {
	case nil:
		w.out = append(w.out, "null"...)
	case string:
		w.out = appendQuoted(w.out, v)
	case bool:
		w.out = strconv.AppendBool(w.out, v)
	case int:
		w.out = strconv.AppendInt(w.out, int64(v), 10)
	case int64:
		w.out = strconv.AppendInt(w.out, v, 10)
	case uint64:
		w.out = strconv.AppendUint(w.out, v, 10)
	case float64:
		return w.number(v)
	case []any:
		return w.list(v, depth-1)
	case map[any]any:
		return w.object(v, depth-1)
	default:
		return fmt.Errorf("has a value of a type that JSON does not have: %T", value)
	}
	return nil
}

func (w *jsonWriter) number(v float64) error {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return fmt.Errorf("has the number %v, which JSON does not have", v)
	}
	text, err := json.Marshal(v)
	w.out = append(w.out, text...)
	return err
}

func (w *jsonWriter) list(list []any, depth int) error {
	if depth < 0 {
		return errors.New("is nested too deep")
	}
	w.out = append(w.out, '[')
	for i, v := range list {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		if err := w.value(v, depth); err != nil {
			return err
		}
	}
	w.out = append(w.out, ']')
	return nil
}

func (w *jsonWriter) object(object map[any]any, depth int) error {
	if depth < 0 {
		return errors.New("is nested too deep")
	}
	type field struct {
		name  string
		value any
	}
	fields := make([]field, 0, len(object))
	for key, v := range object {
		name, err := keyName(key)
		if err != nil {
			return err
		}
		fields = append(fields, field{name, v})
	}
	slices.SortFunc(fields, func(a, b field) int { return strings.Compare(a.name, b.name) })
	w.out = append(w.out, '{')
	for i, f := range fields {
		if i > 0 {
			if f.name == fields[i-1].name {
				return fmt.Errorf("has two keys that both read %q in JSON: keep one", f.name)
			}
			w.out = append(w.out, ',')
		}
		w.out = append(appendQuoted(w.out, f.name), ':')
		if err := w.value(f.value, depth); err != nil {
			return err
		}
	}
	w.out = append(w.out, '}')
	return nil
}

// keyName gives the JSON key of a YAML key, which may be a scalar of any kind.
func keyName(key any) (string, error) {
	switch k := key.(type) {
	case string:
		return k, nil
	case bool:
		return strconv.FormatBool(k), nil
	case int:
		return strconv.Itoa(k), nil
	case int64:
		return strconv.FormatInt(k, 10), nil
	case uint64:
		return strconv.FormatUint(k, 10), nil
	case float64:
		return strconv.FormatFloat(k, 'g', -1, 64), nil
	default:
		return "", fmt.Errorf("has a key that is not a scalar: %.100v", key)
	}
}

// appendQuoted appends a string as JSON. The characters of HTML are left as they are:
// catalogs are full of version ranges.
func appendQuoted(out []byte, text string) []byte {
	const hex = "0123456789abcdef"
	out = append(out, '"')
	start := 0
	for i := 0; i < len(text); {
		c := text[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(text[i:])
			if r == utf8.RuneError && size == 1 {
				out = append(append(out, text[start:i]...), "\ufffd"...)
				start = i + 1
			}
			i += size
			continue
		}
		out = append(out, text[start:i]...)
		switch c {
		case '"', '\\':
			out = append(out, '\\', c)
		case '\n':
			out = append(out, `\n`...)
		case '\t':
			out = append(out, `\t`...)
		case '\r':
			out = append(out, `\r`...)
		default:
			out = append(out, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		start = i
	}
	return append(append(out, text[start:]...), '"')
}
