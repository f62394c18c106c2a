// Package upgradeable reports, as ClusterOperator "olm", whether the installed extensions
// allow the update of the cluster to its next minor version.
//
// It reads what revisions record of their bundles, and writes that one object. The component
// that updates the cluster reads it; nothing is blocked here.
package upgradeable

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/bundle/platform"
	"github.com/mainstay-dev/mainstay/internal/excerpt"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// versionScheme is a scheme of cluster versions.
type versionScheme struct {
	// name is the name for messages.
	name string
	// property is the property of a bundle that states its last supported minor version.
	property string
}

var (
	openShift  = versionScheme{"OpenShift", platform.PropertyMaxOpenShiftVersion}
	kubernetes = versionScheme{"Kubernetes", "olm.maxKubernetesVersion"}
)

// limit is an installed bundle that does not support the next minor version.
type limit struct {
	extension, bundle string
	// why is the end of a sentence that begins with the bundle.
	why string
}

// String implements fmt.Stringer.
func (l limit) String() string { return fmt.Sprintf("%s (%s %s)", l.extension, l.bundle, l.why) }

// findVersionLimits returns the installed bundles that do not support the next minor version,
// sorted by extension. A statement that cannot be parsed counts as a limit, because the supported
// versions are unknown.
func findVersionLimits(sets []olmv1.ClusterObjectSet, versions map[versionScheme]platform.Minor) []limit {
	var found []limit
	for i := range sets {
		set := &sets[i]
		if set.Spec.LifecycleState != olmv1.LifecycleStateActive || !mayStateLimit(set) {
			continue
		}
		for _, on := range []versionScheme{openShift, kubernetes} {
			current, ok := versions[on]
			if !ok {
				continue
			}
			if why := describeVersionLimit(set, on, current); why != "" {
				found = append(found, limit{set.Labels[olmv1.LabelOwnerName], set.Annotations[olmv1.AnnotationBundleName], why})
			}
		}
	}

	slices.SortFunc(found, func(a, b limit) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(found)
}

// mayStateLimit reports whether a revision's bundle may state a limit, without parsing it.
func mayStateLimit(set *olmv1.ClusterObjectSet) bool {
	recorded := set.Annotations[olmv1.AnnotationProvides]
	return strings.Contains(recorded, openShift.property) || strings.Contains(recorded, kubernetes.property)
}

// describeVersionLimit returns why the revision's bundle does not support the next minor version. It
// returns an empty string if it does, or states nothing.
func describeVersionLimit(set *olmv1.ClusterObjectSet, on versionScheme, current platform.Minor) string {
	var recorded []fbc.Property
	if err := json.Unmarshal([]byte(set.Annotations[olmv1.AnnotationProvides]), &recorded); err != nil {
		return "has properties that cannot be parsed"
	}

	stated := platform.PropertyValues(recorded, on.property)
	switch len(stated) {
	case 0:
		return ""
	case 1:
	default:
		return fmt.Sprintf("states %s %d times", on.property, len(stated))
	}

	text := stated[0]
	last, err := platform.ParseMinor(text)
	if err != nil {
		return fmt.Sprintf("states %s %.40q, which is not a version", on.property, text)
	}
	if last.Less(current.Next()) {
		return fmt.Sprintf("works up to %s %s", on.name, last)
	}

	return ""
}

// maxNamedExtensions is how many extensions the message names. It states only the number of the
// others.
const maxNamedExtensions = 10

// limitsMessage returns which extensions block the next minor version, and what to do.
func limitsMessage(found []limit) string {
	texts := make([]string, len(found))
	for i := range found {
		texts[i] = found[i].String()
	}

	return fmt.Sprintf("ClusterExtensions keep the cluster from its next minor version: %s. Update them to versions that work on it, or remove them",
		excerpt.Join(texts, maxNamedExtensions, ", ", " and "))
}
