package v1alpha1

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// LooseVersion is the text of a version. People who write manifests by hand forget
// the quotes, and YAML then makes a number of 1.16; so a JSON number is read as its
// digits. It is always written as a string, and nothing here says that the text is a
// valid version.
//
// +kubebuilder:validation:Type=string
type LooseVersion string

// UnmarshalJSON reads a string, a number or null. Anything else is an error.
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
