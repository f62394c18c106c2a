// Package upgradeable reports, as ClusterOperator "olm", whether the installed extensions
// let the cluster be updated to its next minor version.
//
// It reads what revisions record of their bundles, and writes that one object. Whoever
// updates the cluster reads it; nothing is stopped here.
package upgradeable

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/bundle/platform"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// counted is what versions of a cluster are counted by.
type counted struct {
	// name for people.
	name string
	// property of a bundle that names the last minor version that it works on.
	property string
}

var (
	openShift  = counted{"OpenShift", platform.PropertyMaxOpenShiftVersion}
	kubernetes = counted{"Kubernetes", "olm.maxKubernetesVersion"}
)

// limit is an installed bundle that does not work on the next minor version.
type limit struct {
	extension, bundle string
	// why, as the end of a sentence that begins with the bundle.
	why string
}

func (l limit) String() string { return fmt.Sprintf("%s (%s %s)", l.extension, l.bundle, l.why) }

// limits returns the installed bundles that keep a cluster from its next minor version,
// sorted by extension. What a bundle states that cannot be read counts as a limit: nobody
// knows on what it works.
func limits(sets []olmv1.ClusterObjectSet, versions map[counted]platform.Minor) []limit {
	var found []limit
	for i := range sets {
		set := &sets[i]
		if set.Spec.LifecycleState != olmv1.LifecycleStateActive || !states(set) {
			continue
		}
		for _, on := range []counted{openShift, kubernetes} {
			current, ok := versions[on]
			if !ok {
				continue
			}
			if why := limitOf(set, on, current); why != "" {
				found = append(found, limit{set.Labels[olmv1.LabelOwnerName], set.Annotations[olmv1.AnnotationBundleName], why})
			}
		}
	}

	slices.SortFunc(found, func(a, b limit) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(found)
}

// states reports whether a revision's bundle may state a limit, without reading it.
func states(set *olmv1.ClusterObjectSet) bool {
	recorded := set.Annotations[olmv1.AnnotationProvides]
	return strings.Contains(recorded, openShift.property) || strings.Contains(recorded, kubernetes.property)
}

// limitOf says why the revision's bundle does not work on the next minor version; empty
// when it does, or says nothing.
func limitOf(set *olmv1.ClusterObjectSet, on counted, current platform.Minor) string {
	var recorded []fbc.Property
	if err := json.Unmarshal([]byte(set.Annotations[olmv1.AnnotationProvides]), &recorded); err != nil {
		return "says of itself what cannot be read"
	}

	stated := platform.Stated(recorded, on.property)
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
		return fmt.Sprintf("states %s %.40q, which is no version", on.property, text)
	}
	if last.Less(current.Next()) {
		return fmt.Sprintf("works up to %s %s", on.name, last)
	}

	return ""
}

// named is how many extensions the message names; of the others it gives the number.
const named = 10

// message says what keeps the cluster from its next minor version, and what to do.
func message(found []limit) string {
	texts := make([]string, 0, named)
	for _, l := range found[:min(named, len(found))] {
		texts = append(texts, l.String())
	}

	more := ""
	if len(found) > named {
		more = fmt.Sprintf(" and %d more", len(found)-named)
	}

	return fmt.Sprintf("ClusterExtensions keep the cluster from its next minor version: %s%s. Update them to versions that work on it, or remove them",
		strings.Join(texts, ", "), more)
}
