// Package objectdiff compares two sets of Kubernetes manifests. It returns which objects
// are added, changed and removed, each with a unified diff of its YAML.
//
// It compares manifests, not the resulting objects on a cluster. It does no I/O.
package objectdiff

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// Kind is the kind of a change.
type Kind string

const (
	// Added means that only the second set has the object.
	Added Kind = "added"
	// Changed means that both sets have the object, with different content.
	Changed Kind = "changed"
	// Removed means that only the first set has the object.
	Removed Kind = "removed"
)

// Change is the change of one object.
type Change struct {
	Change     Kind   `json:"change"`
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	// Diff is the difference as hunks of lines, without a header. It does not contain the values
	// of Secrets.
	Diff string `json:"diff"`
}

// Object returns the kind, namespace and name of the object for messages.
func (c Change) Object() string {
	if c.Namespace == "" {
		return c.Kind + " " + c.Name
	}
	return c.Kind + " " + c.Namespace + "/" + c.Name
}

// Result is the difference of two sets of objects.
type Result struct {
	// Changes are sorted by group, kind, namespace and name.
	Changes []Change `json:"changes"`
	// Unchanged is the number of objects that are equal in both sets.
	Unchanged int `json:"unchanged"`
}

// Count returns the number of changes of a kind.
func (r *Result) Count(kind Kind) int {
	count := 0
	for _, change := range r.Changes {
		if change.Change == kind {
			count++
		}
	}
	return count
}

// identity identifies an object. It does not contain the API version: the object of v1beta1 and v1
// is the same.
type identity struct {
	schema.GroupKind
	namespace, name string
}

func identityOf(object *unstructured.Unstructured) identity {
	return identity{object.GroupVersionKind().GroupKind(), object.GetNamespace(), object.GetName()}
}

func (i identity) compareTo(other identity) int {
	return cmp.Or(cmp.Compare(i.Group, other.Group), cmp.Compare(i.Kind, other.Kind),
		cmp.Compare(i.namespace, other.namespace), cmp.Compare(i.name, other.name))
}

// Compare compares two sets. It returns an error if an object cannot be encoded as YAML.
func Compare(before, after []*unstructured.Unstructured) (*Result, error) {
	first, second := indexByIdentity(before), indexByIdentity(after)
	var all []identity
	for id := range first {
		all = append(all, id)
	}

	for id := range second {
		if first[id] == nil {
			all = append(all, id)
		}
	}

	slices.SortFunc(all, identity.compareTo)
	result := &Result{}
	for _, id := range all {
		change, err := compareObjects(first[id], second[id])
		if err != nil {
			return nil, err
		}
		if change == nil {
			result.Unchanged++
			continue
		}
		result.Changes = append(result.Changes, *change)
	}

	return result, nil
}

func indexByIdentity(objects []*unstructured.Unstructured) map[identity]*unstructured.Unstructured {
	result := make(map[identity]*unstructured.Unstructured, len(objects))
	for _, object := range objects {
		result[identityOf(object)] = object
	}
	return result
}

// compareObjects returns the change of one object, or nil if there is none. One of the two may be
// nil.
func compareObjects(before, after *unstructured.Unstructured) (*Change, error) {
	shown := cmp.Or(after, before)
	change := &Change{
		Change: Changed, APIVersion: shown.GetAPIVersion(), Kind: shown.GetKind(), Namespace: shown.GetNamespace(), Name: shown.GetName(),
	}
	switch {
	case before == nil:
		change.Change = Added
	case after == nil:
		change.Change = Removed
	}

	before, after = hideSecrets(before, after)
	old, err := toYAMLLines(before)
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", change.Object(), err)
	}

	wanted, err := toYAMLLines(after)
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", change.Object(), err)
	}

	change.Diff = unifiedDiff(old, wanted)
	if change.Diff == "" {
		return nil, nil
	}

	return change, nil
}

func toYAMLLines(object *unstructured.Unstructured) ([]string, error) {
	if object == nil {
		return nil, nil
	}

	data, err := yaml.Marshal(object.Object)
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n"), nil
}

// hideSecrets replaces the values of Secrets. A changed value is marked as changed.
func hideSecrets(before, after *unstructured.Unstructured) (*unstructured.Unstructured, *unstructured.Unstructured) {
	if before != nil && !isSecret(before) || after != nil && !isSecret(after) {
		return before, after
	}
	return hideSecretValues(before, after, "hidden (before)"), hideSecretValues(after, before, "hidden (after)")
}

func isSecret(object *unstructured.Unstructured) bool {
	return object.GroupVersionKind().GroupKind() == schema.GroupKind{Kind: "Secret"}
}

// hideSecretValues returns a copy of a Secret with hidden values. Values that differ from the other
// Secret are replaced by changed.
func hideSecretValues(object, other *unstructured.Unstructured, changed string) *unstructured.Unstructured {
	if object == nil {
		return nil
	}

	object = object.DeepCopy()
	for _, field := range []string{"data", "stringData"} {
		values, _ := object.Object[field].(map[string]any)
		for key, value := range values {
			values[key] = "hidden"
			if other != nil && !hasSameValue(value, other, field, key) {
				values[key] = changed
			}
		}
	}

	return object
}

func hasSameValue(value any, other *unstructured.Unstructured, field, key string) bool {
	values, _ := other.Object[field].(map[string]any)
	theirs, ok := values[key]
	a, _ := json.Marshal(value) // values decoded from JSON always encode
	b, _ := json.Marshal(theirs)
	return ok && string(a) == string(b)
}
