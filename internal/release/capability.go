package release

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/sets"
)

// Capabilities are the optional parts of the platform.
type Capabilities struct {
	// Known are the capabilities of this version of the platform.
	Known sets.Set[string]
	// Enabled are the capabilities that the cluster has.
	Enabled sets.Set[string]
}

// Excludes reports whether the manifest belongs to a capability that is not enabled, and why, as
// a sentence without a subject. It is called when a manifest is applied, not when a payload is
// loaded: a newer release may have capabilities that this program does not know.
func (c Capabilities) Excludes(m Manifest) (reason string, excluded bool) {
	for _, name := range m.Capabilities() {
		switch {
		case !c.Known.Has(name):
			return fmt.Sprintf("needs capability %q, which is not known", name), true
		case !c.Enabled.Has(name):
			return fmt.Sprintf("needs capability %q, which is not enabled", name), true
		}
	}

	return "", false
}

// ImplicitlyEnabled returns the disabled capabilities that an update from the current to the
// next manifests must enable, sorted. Otherwise an object that is managed now, and belongs to
// them in the next release, would be left without a manager. Both lists must only contain
// manifests that belong to the cluster.
func (c Capabilities) ImplicitlyEnabled(current, next []Manifest) []string {
	managed := sets.Set[Key]{}
	for _, m := range current {
		if _, excluded := c.Excludes(m); !excluded {
			managed.Insert(m.Key())
		}
	}

	implicit := sets.Set[string]{}
	for _, m := range next {
		if managed.Has(m.Key()) {
			implicit.Insert(m.Capabilities()...)
		}
	}

	return sets.List(implicit.Difference(c.Enabled))
}
