package csvinfo

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// Replacement returns the one among the ClusterServiceVersions of a namespace that replaces csv, nil
// when there is none. Copies replace nothing, and nothing replaces itself. Of several, that with
// the lowest name is given.
func Replacement(csv *v1alpha1.ClusterServiceVersion, among []v1alpha1.ClusterServiceVersion) *v1alpha1.ClusterServiceVersion {
	var found *v1alpha1.ClusterServiceVersion
	for i := range among {
		other := &among[i]
		if other.Spec.Replaces != csv.Name || other.Name == csv.Name || other.Namespace != csv.Namespace || IsCopied(other) {
			continue
		}
		if found == nil || other.Name < found.Name {
			found = other
		}
	}

	return found
}

// Last returns the end of the chain of replacements that begins with csv, which is csv itself when
// nothing replaces it. A chain that comes back to where it was is an error.
func Last(csv *v1alpha1.ClusterServiceVersion, among []v1alpha1.ClusterServiceVersion) (*v1alpha1.ClusterServiceVersion, error) {
	seen := sets.New(csv.Name)
	for {
		next := Replacement(csv, among)
		if next == nil {
			return csv, nil
		}
		if seen.Has(next.Name) {
			return nil, fmt.Errorf("the replacements of ClusterServiceVersion %s/%s form a cycle at %q: change spec.replaces of one of them", csv.Namespace, csv.Name, next.Name)
		}

		seen.Insert(next.Name)
		csv = next
	}
}

// Chain returns the names of csv, of those that it replaces one after the other, and of those that
// replace it. The one replaced last may be gone. A cycle ends the walk.
func Chain(csv *v1alpha1.ClusterServiceVersion, among []v1alpha1.ClusterServiceVersion) sets.Set[string] {
	chain := Ancestors(csv, among)
	for next := csv; next != nil; {
		chain.Insert(next.Name)
		if next = Replacement(next, among); next != nil && chain.Has(next.Name) {
			break
		}
	}

	return chain
}

// Ancestors returns the names of those that csv replaces, one after the other. The last one may be
// gone. A cycle ends the walk.
func Ancestors(csv *v1alpha1.ClusterServiceVersion, among []v1alpha1.ClusterServiceVersion) sets.Set[string] {
	byName := map[string]*v1alpha1.ClusterServiceVersion{}
	for i := range among {
		if other := &among[i]; other.Namespace == csv.Namespace && !IsCopied(other) {
			byName[other.Name] = other
		}
	}

	names := sets.Set[string]{}
	for at := csv; at != nil; at = byName[at.Spec.Replaces] {
		replaced := at.Spec.Replaces
		if replaced == "" || replaced == csv.Name || names.Has(replaced) {
			break
		}
		names.Insert(replaced)
	}

	return names
}
