package clusteroperator

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/bundle/platform"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/excerpt"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// maxNamedCSVs limits the CSVs that the message names. Of further ones it states the number.
const maxNamedCSVs = 50

// versionLimit is the newest version of the platform that a CSV supports.
type versionLimit struct {
	namespace, name string
	maxVersion      platform.Minor
	err             error
}

func (l versionLimit) String() string {
	if l.err != nil {
		return fmt.Sprintf("- %s/%s has invalid %s properties: %s", l.namespace, l.name, platform.PropertyMaxOpenShiftVersion, l.err)
	}
	return fmt.Sprintf("- maximum supported OCP version for %s/%s is %s", l.namespace, l.name, l.maxVersion)
}

// mayDeclareLimit reports whether an object may declare a limit, without parsing it.
func mayDeclareLimit(object metav1.Object) bool {
	return strings.Contains(object.GetAnnotations()[csvinfo.AnnotationProperties], platform.PropertyMaxOpenShiftVersion)
}

// readVersionLimit returns the limit that an object declares, or nil if there is none.
func readVersionLimit(object metav1.Object) *versionLimit {
	if !mayDeclareLimit(object) {
		return nil
	}

	s := &versionLimit{namespace: object.GetNamespace(), name: object.GetName()}
	var recorded struct {
		Properties []fbc.Property `json:"properties"`
	}
	if err := json.Unmarshal([]byte(object.GetAnnotations()[csvinfo.AnnotationProperties]), &recorded); err != nil {
		s.err = fmt.Errorf("the annotation %s is not a JSON object with a list of properties: %w", csvinfo.AnnotationProperties, err)
		return s
	}

	values := platform.PropertyValues(recorded.Properties, platform.PropertyMaxOpenShiftVersion)
	if len(values) == 0 {
		return nil
	}

	s.maxVersion, s.err = parseMaxVersion(values)
	return s
}

// parseMaxVersion returns the newest minor version that a bundle supports.
func parseMaxVersion(values []string) (platform.Minor, error) {
	if len(values) > 1 {
		return platform.Minor{}, fmt.Errorf("defining more than one %q property is not allowed", platform.PropertyMaxOpenShiftVersion)
	}

	value := strings.Trim(values[0], `"`)
	if value == "" {
		return platform.Minor{}, errors.New(`value cannot be "" (an empty string)`)
	}

	version, err := semver.ParseTolerant(value)
	if err != nil {
		return platform.Minor{}, fmt.Errorf("failed to parse %q as semver: %w", value, err)
	}
	if !version.Equals(semver.Version{Major: version.Major, Minor: version.Minor}) || len(version.Build) > 0 {
		return platform.Minor{}, fmt.Errorf("property %s must specify only <major>.<minor> version, got invalid value %s", platform.PropertyMaxOpenShiftVersion, version)
	}

	return platform.Minor{Major: version.Major, Minor: version.Minor}, nil
}

// lastMinorOfMajor4 is the version of the platform that is equivalent to 5.0: both follow 4.22.
var lastMinorOfMajor4, firstMinorOfMajor5 = platform.Minor{Major: 4, Minor: 23}, platform.Minor{Major: 5}

// normalizeMinor returns the version to use in comparisons.
func normalizeMinor(m platform.Minor) platform.Minor {
	if m == lastMinorOfMajor4 {
		return firstMinorOfMajor5
	}
	return m
}

// newUpgradeableCondition returns the condition Upgradeable: whether installed
// operators allow an update to the next minor version. If there are limits and the release
// cannot be parsed, it is False. Patch updates are always possible: the Cluster Version
// Operator checks it for minor versions only.
func newUpgradeableCondition(statements []versionLimit, release string) configv1.ClusterOperatorStatusCondition {
	c := configv1.ClusterOperatorStatusCondition{
		Type: configv1.OperatorUpgradeable, Status: metav1.ConditionTrue, Reason: configv1.ReasonAsExpected, Message: messageUpgradeable,
	}
	if len(statements) == 0 {
		return c
	}

	current, err := platform.ParseMinor(release)
	if err != nil {
		c.Status, c.Reason = metav1.ConditionFalse, reasonUndetermined
		c.Message = "Encountered errors while checking compatibility with the next minor version of OpenShift: "
		if release == "" {
			c.Message += "the version of the platform is not known: set RELEASE_VERSION"
		} else {
			c.Message += fmt.Sprintf("failed to parse %q as semver: %s", release, err)
		}
		return c
	}

	next := normalizeMinor(current).Next()
	var blocking []versionLimit
	for _, s := range statements {
		if s.err != nil || normalizeMinor(s.maxVersion).Less(normalizeMinor(next)) {
			blocking = append(blocking, s)
		}
	}

	if len(blocking) == 0 {
		return c
	}

	c.Status, c.Reason, c.Message = metav1.ConditionFalse, reasonIncompatible, formatBlockingCSVs(blocking, next)
	return c
}

// formatBlockingCSVs returns a message with the CSVs that block the next version, invalid ones
// first.
func formatBlockingCSVs(blocking []versionLimit, next platform.Minor) string {
	slices.SortFunc(blocking, func(a, b versionLimit) int {
		return cmp.Or(-compareBool(a.err != nil, b.err != nil), strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
	})
	updates := "minor version upgrades to " + next.String()
	if next == lastMinorOfMajor4 {
		updates += " or major version upgrades to " + firstMinorOfMajor5.String()
	}

	lines := make([]string, len(blocking))
	for i := range blocking {
		lines[i] = blocking[i].String()
	}

	return "ClusterServiceVersions blocking " + updates + ":\n" + excerpt.Join(lines, maxNamedCSVs, "\n", "\n- and ")
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
