// Package platform reads which platform versions a bundle supports: the highest minor
// version.
//
// It compares versions and reads properties. Its callers decide whether the cluster may be
// updated.
package platform

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/blang/semver/v4"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// PropertyMaxOpenShiftVersion is the type of the property with the last minor version of
// OpenShift that a bundle supports.
const PropertyMaxOpenShiftVersion = "olm.maxOpenShiftVersion"

// Minor is a version without its patch, pre-release and build parts.
type Minor struct{ Major, Minor uint64 }

func (m Minor) String() string { return fmt.Sprintf("%d.%d", m.Major, m.Minor) }

// Less reports whether m is lower than other.
func (m Minor) Less(other Minor) bool {
	return m.Major < other.Major || m.Major == other.Major && m.Minor < other.Minor
}

// Next returns the next minor version.
func (m Minor) Next() Minor { return Minor{m.Major, m.Minor + 1} }

// ParseMinor parses a version of two or three parts.
func ParseMinor(version string) (Minor, error) {
	v, err := semver.ParseTolerant(strings.TrimSpace(version))
	return Minor{v.Major, v.Minor}, err
}

// PropertyValues returns the values of all properties of a type as text. A number, such as 4.18
// without quotes in YAML, is returned as written.
func PropertyValues(properties []fbc.Property, propertyType string) []string {
	var stated []string
	for _, p := range properties {
		if p.Type != propertyType {
			continue
		}
		var text string
		if err := json.Unmarshal(p.Value, &text); err != nil {
			text = string(p.Value)
		}
		stated = append(stated, text)
	}

	return stated
}
