// Package merge says what an object of the cluster must be like, given a manifest of the
// release: what the manifest states wins, what others have in the object stays, and for
// each kind it is written down which fields are exactly the manifest's.
//
// Server-side apply is not used for it, as it does something else: it keeps containers,
// ports and rules that others added, and removes labels and annotations that an earlier
// release stated. Defaults are not known here either: a field that is the manifest's and
// that the manifest does not state is taken away, and the API server gives it its default
// again. Whether an object changes by that is for the API server to say.
//
// It is pure: objects in, objects out.
package merge

import (
	"encoding/json"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Merge returns the live object with what the manifest states, and whether that differs from
// the live object in anything. Neither of both is changed, nor may they be changed
// afterwards: the result shares their parts.
func Merge(live, manifest *unstructured.Unstructured) (merged *unstructured.Unstructured, differs bool) {
	rules, ok := kinds[manifest.GroupVersionKind().GroupKind()]
	if !ok {
		return wholly(live, manifest)
	}

	wanted := maps.Clone(manifest.Object)
	for _, field := range []string{"apiVersion", "kind", "metadata", "status"} {
		delete(wanted, field)
	}

	if rules.adopt != nil {
		wanted = runtime.DeepCopyJSON(wanted)
		rules.adopt(wanted, live.Object, manifest.GetAnnotations())
	}

	merged = &unstructured.Unstructured{Object: rules.fields.object(live.Object, wanted)}
	mergeMetadata(merged, live, manifest)
	return merged, !equality.Semantic.DeepEqual(live.Object, merged.Object)
}

// wholly is Merge for kinds without rules: a part of the object that differs is replaced
// as a whole, and then the metadata too. A difference in metadata alone is none.
func wholly(live, manifest *unstructured.Unstructured) (merged *unstructured.Unstructured, differs bool) {
	merged = &unstructured.Unstructured{Object: maps.Clone(live.Object)}
	for field, value := range manifest.Object {
		switch field {
		case "apiVersion", "kind", "metadata", "status":
			continue
		}
		if !equality.Semantic.DeepEqual(live.Object[field], value) {
			merged.Object[field] = value
			differs = true
		}
	}

	if differs {
		detachMetadata(merged)
		merged.SetLabels(manifest.GetLabels())
		merged.SetAnnotations(manifest.GetAnnotations())
		merged.SetOwnerReferences(manifest.GetOwnerReferences())
	}

	return merged, differs
}

// IsCovered reports whether an object has all of another and more, if anything: whether what
// Merge gave differs from the live object only in what the manifest does not state.
func IsCovered(merged, live any) bool {
	switch merged := merged.(type) {
	case map[string]any:
		other, ok := live.(map[string]any)
		for name, value := range merged {
			ok = ok && IsCovered(value, other[name])
		}
		return ok
	case []any:
		other, ok := live.([]any)
		ok = ok && len(other) == len(merged)
		for i, value := range merged {
			ok = ok && IsCovered(value, other[i])
		}
		return ok
	default:
		return equality.Semantic.DeepEqual(merged, live)
	}
}

// Refused tells what a manifest must not state, or nothing.
func Refused(manifest *unstructured.Unstructured) string {
	if _, ok, _ := unstructured.NestedFieldNoCopy(manifest.Object, "spec", "selector"); ok && manifest.GroupVersionKind().GroupKind() == job {
		return "spec.selector must not be set: the server makes that of a Job"
	}
	return ""
}

// mergeMetadata adds labels, annotations, owners and finalizers. None is ever removed.
func mergeMetadata(merged, live, manifest *unstructured.Unstructured) {
	detachMetadata(merged)
	if labels := union(live.GetLabels(), manifest.GetLabels()); len(labels) > 0 {
		merged.SetLabels(labels)
	}
	if annotations := union(live.GetAnnotations(), manifest.GetAnnotations()); len(annotations) > 0 {
		merged.SetAnnotations(annotations)
	}

	owners, changed := live.GetOwnerReferences(), false
	for _, owner := range manifest.GetOwnerReferences() {
		i := slices.IndexFunc(owners, func(o metav1.OwnerReference) bool { return o.UID == owner.UID })
		switch {
		case i < 0:
			owners, changed = append(owners, owner), true
		case !equality.Semantic.DeepEqual(owners[i], owner):
			owners[i], changed = owner, true
		}
	}

	if changed {
		merged.SetOwnerReferences(owners)
	}

	finalizers := live.GetFinalizers()
	for _, finalizer := range manifest.GetFinalizers() {
		if !slices.Contains(finalizers, finalizer) {
			finalizers = append(finalizers, finalizer)
			merged.SetFinalizers(finalizers)
		}
	}
}

// detachMetadata makes the metadata the object's own, so that it can be changed.
func detachMetadata(u *unstructured.Unstructured) {
	metadata, _ := u.Object["metadata"].(map[string]any)
	u.Object["metadata"] = maps.Clone(metadata)
}

func union(live, manifest map[string]string) map[string]string {
	result := maps.Clone(live)
	if result == nil {
		result = map[string]string{}
	}
	maps.Copy(result, manifest)
	return result
}

// object returns a live object with what is wanted of it.
func (n *node) object(live, wanted map[string]any) map[string]any {
	result := maps.Clone(live)
	if result == nil {
		result = map[string]any{}
	}

	for name, value := range wanted {
		if field := n.field(name); value != nil && field.ruleOf() != left {
			result[name] = field.value(live[name], value)
		}
	}

	if n == nil {
		return result
	}

	for name, field := range n.fields {
		if wanted[name] == nil && field.removes() {
			delete(result, name)
		} else if _, ok := live[name].(map[string]any); wanted[name] == nil && ok && field.rule == stated {
			// The rules of what lies below hold though the manifest states nothing there.
			result[name] = field.value(live[name], map[string]any{})
		}
	}

	return result
}

// value returns a live value with what is wanted of it.
func (n *node) value(live, wanted any) any {
	switch n.ruleOf() {
	case exact, given:
		return wanted
	case added:
		return addMissing(live, wanted)
	case pruned, kept:
		return n.list(live, wanted)
	default:
		// What is no object has nothing that could stay.
		liveObject, _ := live.(map[string]any)
		if wantedObject, ok := wanted.(map[string]any); ok {
			return n.object(liveObject, wantedObject)
		}
		return wanted
	}
}

// list merges elements by name. A wanted list whose elements are no objects, or have a name
// twice, is taken as it is, and of such a live one nothing stays.
func (n *node) list(live, wanted any) any {
	wantedList, ok := byName(wanted)
	if !ok {
		return wanted
	}

	liveList, _ := byName(live)
	result := make([]any, 0, len(wantedList.elements))
	for _, element := range wantedList.elements {
		result = append(result, n.items.object(liveList.byName[nameOf(element)], element))
	}

	if n.rule == kept {
		for _, element := range liveList.elements {
			if _, ok := wantedList.byName[nameOf(element)]; !ok {
				result = append(result, element)
			}
		}
	}

	return result
}

// named is a list of objects with names, of which the empty one is one.
type named struct {
	elements []map[string]any
	byName   map[string]map[string]any
}

func byName(value any) (named, bool) {
	list, ok := value.([]any)
	if !ok {
		return named{}, false
	}

	result := named{byName: make(map[string]map[string]any, len(list))}
	for _, item := range list {
		element, ok := item.(map[string]any)
		if !ok {
			return named{}, false
		}
		if _, twice := result.byName[nameOf(element)]; twice {
			return named{}, false
		}

		result.elements = append(result.elements, element)
		result.byName[nameOf(element)] = element
	}

	return result, true
}

func nameOf(element map[string]any) string {
	name, _ := element["name"].(string)
	return name
}

// addMissing returns a live list, each element once, and those of the wanted one that it
// lacks.
func addMissing(live, wanted any) any {
	liveList, ok := live.([]any)
	wantedList, both := wanted.([]any)
	if !both {
		return wanted
	}
	if !ok {
		liveList = nil
	}

	var result []any
	known := make(map[string]bool, len(liveList)+len(wantedList))
	for _, item := range slices.Concat(liveList, wantedList) {
		// Of what was read as JSON it gives one text, with the names in order.
		text, err := json.Marshal(item)
		if err != nil || !known[string(text)] {
			known[string(text)] = true
			result = append(result, item)
		}
	}

	return result
}
