package crdsafety

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// canonicalJSON returns a JSON value in a form that is the same for equal values. It returns an
// empty string for no value, and for null, which the API server treats as no value.
func canonicalJSON(value *apiextensionsv1.JSON) string {
	if value == nil || len(value.Raw) == 0 {
		return ""
	}

	decoder := json.NewDecoder(bytes.NewReader(value.Raw))
	decoder.UseNumber()
	var decoded any
	if err := decoder.Decode(&decoded); err != nil {
		// The API server does not accept it. It is compared unchanged.
		return string(value.Raw)
	}
	if decoded == nil {
		return ""
	}

	return encodeJSON(normalizeNumbers(decoded))
}

// normalizeNumbers replaces numbers by int64 or float64, in place.
func normalizeNumbers(value any) any {
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
			v[i] = normalizeNumbers(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = normalizeNumbers(v[key])
		}
	}

	return value
}

// encodeJSON returns a value as JSON, with sorted keys.
func encodeJSON(value any) string {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		// It contains a raw value that is not JSON, which the API server does not accept.
		return err.Error()
	}

	return string(bytes.TrimSpace(buffer.Bytes()))
}

// equalValues reports whether two values have the same meaning. Empty and absent values are equal.
func equalValues(a, b any) bool {
	return reflect.DeepEqual(a, b) || equalEncodings(a, b)
}

func equalEncodings(a, b any) bool {
	first, err := json.Marshal(a)
	if err != nil {
		return false
	}
	second, err := json.Marshal(b)
	return err == nil && (bytes.Equal(first, second) || isEmptyJSON(first) && isEmptyJSON(second))
}

func isEmptyJSON(encoded []byte) bool {
	switch string(encoded) {
	case "null", "{}", "[]", `""`:
		return true
	}
	return false
}
