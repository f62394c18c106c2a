// Package objectdiff compares two sets of Kubernetes objects, as they are to be applied: it
// says which are added, changed and removed, and shows each as a unified diff of its YAML.
//
// It is about what is written, not about what a cluster makes of it. It does no I/O.
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

// Kind of a change.
type Kind string

const (
	// Added: only the second set has the object.
	Added Kind = "added"
	// Changed: both have it, with different content.
	Changed Kind = "changed"
	// Removed: only the first set has it.
	Removed Kind = "removed"
)

// Change is what becomes of one object.
type Change struct {
	Change     Kind   `json:"change"`
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	// Diff is the difference as hunks of lines, without a header. The values of Secrets
	// are not in it.
	Diff string `json:"diff"`
}

// Object names the object as a person would: its kind, namespace and name.
func (c Change) Object() string {
	if c.Namespace == "" {
		return c.Kind + " " + c.Name
	}
	return c.Kind + " " + c.Namespace + "/" + c.Name
}

// Result is what two sets of objects differ in.
type Result struct {
	// Changes are sorted by group, kind, namespace and name.
	Changes []Change `json:"changes"`
	// Unchanged is the number of objects that both sets have alike.
	Unchanged int `json:"unchanged"`
}

// Count is the number of changes of a kind.
func (r *Result) Count(kind Kind) int {
	count := 0
	for _, change := range r.Changes {
		if change.Change == kind {
			count++
		}
	}
	return count
}

// identity is what makes two objects the same one. The version of an API does not: the
// object of v1beta1 and v1 is one.
type identity struct {
	schema.GroupKind
	namespace, name string
}

func identify(object *unstructured.Unstructured) identity {
	return identity{object.GroupVersionKind().GroupKind(), object.GetNamespace(), object.GetName()}
}

func (i identity) compare(other identity) int {
	return cmp.Or(cmp.Compare(i.Group, other.Group), cmp.Compare(i.Kind, other.Kind),
		cmp.Compare(i.namespace, other.namespace), cmp.Compare(i.name, other.name))
}

// Compare compares two sets. An object that cannot be written as YAML is an error.
func Compare(before, after []*unstructured.Unstructured) (*Result, error) {
	first, second := index(before), index(after)
	var all []identity
	for id := range first {
		all = append(all, id)
	}

	for id := range second {
		if first[id] == nil {
			all = append(all, id)
		}
	}

	slices.SortFunc(all, identity.compare)
	result := &Result{}
	for _, id := range all {
		change, err := compare(first[id], second[id])
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

func index(objects []*unstructured.Unstructured) map[identity]*unstructured.Unstructured {
	result := make(map[identity]*unstructured.Unstructured, len(objects))
	for _, object := range objects {
		result[identify(object)] = object
	}
	return result
}

// compare returns the change of one object, nil when there is none. One of the two may be
// nil.
func compare(before, after *unstructured.Unstructured) (*Change, error) {
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
	old, err := lines(before)
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", change.Object(), err)
	}

	wanted, err := lines(after)
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", change.Object(), err)
	}

	change.Diff = unified(old, wanted)
	if change.Diff == "" {
		return nil, nil
	}

	return change, nil
}

func lines(object *unstructured.Unstructured) ([]string, error) {
	if object == nil {
		return nil, nil
	}

	data, err := yaml.Marshal(object.Object)
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n"), nil
}

// hideSecrets replaces the values of Secrets. One that differs shows that it does, and not
// in what.
func hideSecrets(before, after *unstructured.Unstructured) (*unstructured.Unstructured, *unstructured.Unstructured) {
	if before != nil && !isSecret(before) || after != nil && !isSecret(after) {
		return before, after
	}
	return hide(before, after, "hidden (before)"), hide(after, before, "hidden (after)")
}

func isSecret(object *unstructured.Unstructured) bool {
	return object.GroupVersionKind().GroupKind() == schema.GroupKind{Kind: "Secret"}
}

func hide(object, other *unstructured.Unstructured, changed string) *unstructured.Unstructured {
	if object == nil {
		return nil
	}

	object = object.DeepCopy()
	for _, field := range []string{"data", "stringData"} {
		values, _ := object.Object[field].(map[string]any)
		for key, value := range values {
			values[key] = "hidden"
			if other != nil && !same(value, other, field, key) {
				values[key] = changed
			}
		}
	}

	return object
}

func same(value any, other *unstructured.Unstructured, field, key string) bool {
	values, _ := other.Object[field].(map[string]any)
	theirs, ok := values[key]
	a, _ := json.Marshal(value) // what came from JSON is written as JSON
	b, _ := json.Marshal(theirs)
	return ok && string(a) == string(b)
}
