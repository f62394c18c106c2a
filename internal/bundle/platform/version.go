// Package platform reads what bundles say of the platforms that they work on: up to which minor
// version.
//
// It compares versions and reads properties. What follows from them for an update of the cluster,
// its readers decide.
package platform

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/blang/semver/v4"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// PropertyMaxOpenShiftVersion is the type of the property that names the last minor version of
// OpenShift that a bundle works on.
const PropertyMaxOpenShiftVersion = "olm.maxOpenShiftVersion"

// Minor is a version without its patch, pre-release and build parts: only these two count.
type Minor struct{ Major, Minor uint64 }

func (m Minor) String() string { return fmt.Sprintf("%d.%d", m.Major, m.Minor) }

// Less reports whether a version is before the other.
func (m Minor) Less(other Minor) bool {
	return m.Major < other.Major || m.Major == other.Major && m.Minor < other.Minor
}

// Next is the version that an update to the next minor version leads to.
func (m Minor) Next() Minor { return Minor{m.Major, m.Minor + 1} }

// ParseMinor reads a version of two or three parts.
func ParseMinor(version string) (Minor, error) {
	v, err := semver.ParseTolerant(strings.TrimSpace(version))
	return Minor{v.Major, v.Minor}, err
}

// Stated returns the values of all properties of a type as text. A number, as YAML reads 4.18
// without quotes, is given as it is written.
func Stated(properties []fbc.Property, propertyType string) []string {
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
