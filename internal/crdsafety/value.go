package crdsafety

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// canonical returns a JSON value so that equal values have equal texts, however they are
// written. No value, and null, which the API server takes for none, give "".
func canonical(value *apiextensionsv1.JSON) string {
	if value == nil || len(value.Raw) == 0 {
		return ""
	}

	decoder := json.NewDecoder(bytes.NewReader(value.Raw))
	decoder.UseNumber()
	var decoded any
	if err := decoder.Decode(&decoded); err != nil {
		// The API server does not accept it; it is only compared as it stands.
		return string(value.Raw)
	}
	if decoded == nil {
		return ""
	}

	return encode(numbers(decoded))
}

// numbers writes whole numbers and fractions in one way each, in place.
func numbers(value any) any {
	switch v := value.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		// 1.0 is the integer 1 to the API server.
		if f, err := v.Float64(); err == nil {
			if i, err := strconv.ParseInt(strconv.FormatFloat(f, 'f', -1, 64), 10, 64); err == nil {
				return i
			}
			return f
		}
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = numbers(v[key])
		}
	}

	return value
}

// encode returns a value as JSON, with the keys of maps sorted.
func encode(value any) string {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		// A raw value in it is no JSON, which the API server does not accept.
		return err.Error()
	}

	return string(bytes.TrimSpace(buffer.Bytes()))
}

// sameValue reports whether two values mean the same. What is empty is the same as what
// is not there.
func sameValue(a, b any) bool {
	return reflect.DeepEqual(a, b) || sameEncoding(a, b)
}

func sameEncoding(a, b any) bool {
	first, err := json.Marshal(a)
	if err != nil {
		return false
	}
	second, err := json.Marshal(b)
	return err == nil && (bytes.Equal(first, second) || empty(first) && empty(second))
}

func empty(encoded []byte) bool {
	switch string(encoded) {
	case "null", "{}", "[]", `""`:
		return true
	}
	return false
}
