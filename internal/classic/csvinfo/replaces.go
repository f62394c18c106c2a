package csvinfo

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// Replacement returns the CSV in the namespace of csv that replaces it, or nil if there is
// none. Copied CSVs and csv itself are ignored. If there are several, it returns the one with
// the lowest name.
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

// LastReplacement returns the end of the chain of replacements that starts with csv, which is csv itself
// if nothing replaces it. It returns an error if the chain has a cycle.
func LastReplacement(csv *v1alpha1.ClusterServiceVersion, among []v1alpha1.ClusterServiceVersion) (*v1alpha1.ClusterServiceVersion, error) {
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

// ReplacementChain returns the names of csv, of its ancestors, and of the chain of its replacements. The
// last ancestor may not exist any more. The walk ends at a cycle.
func ReplacementChain(csv *v1alpha1.ClusterServiceVersion, among []v1alpha1.ClusterServiceVersion) sets.Set[string] {
	chain := Ancestors(csv, among)
	for next := csv; next != nil; {
		chain.Insert(next.Name)
		if next = Replacement(next, among); next != nil && chain.Has(next.Name) {
			break
		}
	}

	return chain
}

// Ancestors returns the names of the CSVs that csv replaces directly or indirectly. The last
// one may not exist any more. The walk ends at a cycle.
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
