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
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// named is how many ClusterServiceVersions the message names; of the others it gives the number.
const named = 50

// statement is what a ClusterServiceVersion says of the versions of the platform.
type statement struct {
	namespace, name string
	last            platform.Minor
	err             error
}

func (s statement) String() string {
	if s.err != nil {
		return fmt.Sprintf("- %s/%s has invalid %s properties: %s", s.namespace, s.name, platform.PropertyMaxOpenShiftVersion, s.err)
	}
	return fmt.Sprintf("- maximum supported OCP version for %s/%s is %s", s.namespace, s.name, s.last)
}

// states reports whether an object may state a limit, without reading it.
func states(object metav1.Object) bool {
	return strings.Contains(object.GetAnnotations()[csvinfo.AnnotationProperties], platform.PropertyMaxOpenShiftVersion)
}

// stated reads what an object states. It is nil when that is nothing.
func stated(object metav1.Object) *statement {
	if !states(object) {
		return nil
	}

	s := &statement{namespace: object.GetNamespace(), name: object.GetName()}
	var recorded struct {
		Properties []fbc.Property `json:"properties"`
	}
	if err := json.Unmarshal([]byte(object.GetAnnotations()[csvinfo.AnnotationProperties]), &recorded); err != nil {
		s.err = fmt.Errorf("the annotation %s is no JSON object with a list of properties: %w", csvinfo.AnnotationProperties, err)
		return s
	}

	values := platform.Stated(recorded.Properties, platform.PropertyMaxOpenShiftVersion)
	if len(values) == 0 {
		return nil
	}

	s.last, s.err = lastOf(values)
	return s
}

// lastOf reads the last minor version that a bundle works on.
func lastOf(values []string) (platform.Minor, error) {
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

// lastOfMajor4 is the version of the platform that is called 5.0 too: updates lead from 4.22 to either.
var lastOfMajor4, firstOfMajor5 = platform.Minor{Major: 4, Minor: 23}, platform.Minor{Major: 5}

// counted returns the version that counts in comparisons.
func counted(m platform.Minor) platform.Minor {
	if m == lastOfMajor4 {
		return firstOfMajor5
	}
	return m
}

// upgradeable reports whether installed operators let the platform be updated to its next minor
// version. It is called that of the release even where that cannot be read: then nobody knows, and
// it is not. Patches are always let through: whoever updates the cluster looks at minor versions.
func upgradeable(statements []statement, release string) configv1.ClusterOperatorStatusCondition {
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

	next := counted(current).Next()
	var against []statement
	for _, s := range statements {
		if s.err != nil || counted(s.last).Less(counted(next)) {
			against = append(against, s)
		}
	}

	if len(against) == 0 {
		return c
	}

	c.Status, c.Reason, c.Message = metav1.ConditionFalse, reasonIncompatible, message(against, next)
	return c
}

// message names those that stand against the next version, the unreadable ones first.
func message(against []statement, next platform.Minor) string {
	slices.SortFunc(against, func(a, b statement) int {
		return cmp.Or(-compareBool(a.err != nil, b.err != nil), strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
	})
	updates := "minor version upgrades to " + next.String()
	if next == lastOfMajor4 {
		updates += " or major version upgrades to " + firstOfMajor5.String()
	}

	lines := []string{"ClusterServiceVersions blocking " + updates + ":"}
	for _, s := range against[:min(named, len(against))] {
		lines = append(lines, s.String())
	}

	if len(against) > named {
		lines = append(lines, fmt.Sprintf("- and %d more", len(against)-named))
	}

	return strings.Join(lines, "\n")
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
