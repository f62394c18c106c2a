package v1alpha1

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// LooseVersion is the text of a version, which need not be valid. It accepts a JSON number
// as its digits, because authors forget the quotes and YAML then reads 1.16 as a number. It
// is always written as a string.
//
// +kubebuilder:validation:Type=string
type LooseVersion string

// UnmarshalJSON accepts a string, a number or null. It returns an error for anything else.
func (v *LooseVersion) UnmarshalJSON(data []byte) error {
	data = bytes.TrimSpace(data)
	if bytes.Equal(data, []byte("null")) {
		*v = ""
		return nil
	}

	var text string
	if err := json.Unmarshal(data, &text); err == nil {
		*v = LooseVersion(text)
		return nil
	}

	var number json.Number
	if err := json.Unmarshal(data, &number); err != nil {
		return fmt.Errorf("a version must be a string, such as \"1.2.3\"")
	}

	*v = LooseVersion(number)
	return nil
}
