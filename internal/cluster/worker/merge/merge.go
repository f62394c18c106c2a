// Package merge computes what an object of the cluster must look like, given a manifest of the
// release. Values in the manifest win, and other values in the object stay. For each kind, rules
// state which fields must equal those of the manifest.
//
// Server-side apply is not used because it behaves differently: it keeps containers, ports and
// rules that others added, and it removes labels and annotations that an earlier release set.
// This package does not know defaults. It removes a field that the manifest owns but does not
// state, and the API server sets its default again. Only the API server can decide whether this
// changes the object.
//
// The package has no side effects.
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

// Merge returns the live object merged with the manifest, and whether the result differs from
// the live object. It does not change its arguments. They must not be changed afterwards either,
// because the result shares their values.
func Merge(live, manifest *unstructured.Unstructured) (merged *unstructured.Unstructured, differs bool) {
	rules, ok := rulesByKind[manifest.GroupVersionKind().GroupKind()]
	if !ok {
		return mergeWithoutRules(live, manifest)
	}

	wanted := maps.Clone(manifest.Object)
	for _, field := range []string{"apiVersion", "kind", "metadata", "status"} {
		delete(wanted, field)
	}

	if rules.keepLive != nil {
		wanted = runtime.DeepCopyJSON(wanted)
		rules.keepLive(wanted, live.Object, manifest.GetAnnotations())
	}

	merged = &unstructured.Unstructured{Object: rules.fields.mergeObject(live.Object, wanted)}
	mergeMetadata(merged, live, manifest)
	return merged, !equality.Semantic.DeepEqual(live.Object, merged.Object)
}

// mergeWithoutRules implements Merge for kinds without rules. It replaces top-level fields that
// differ and, if there are any, the metadata. A difference in the metadata alone is ignored.
func mergeWithoutRules(live, manifest *unstructured.Unstructured) (merged *unstructured.Unstructured, differs bool) {
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
		cloneMetadata(merged)
		merged.SetLabels(manifest.GetLabels())
		merged.SetAnnotations(manifest.GetAnnotations())
		merged.SetOwnerReferences(manifest.GetOwnerReferences())
	}

	return merged, differs
}

// IsCovered reports whether live has all values of merged. It is true if the result of Merge
// only lacks values that the manifest does not state.
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

// InvalidReason returns why a manifest is invalid, or "".
func InvalidReason(manifest *unstructured.Unstructured) string {
	if _, ok, _ := unstructured.NestedFieldNoCopy(manifest.Object, "spec", "selector"); ok && manifest.GroupVersionKind().GroupKind() == jobKind {
		return "spec.selector must not be set: the server sets the selector of a Job"
	}
	return ""
}

// mergeMetadata adds labels, annotations, owner references and finalizers. It never removes any.
func mergeMetadata(merged, live, manifest *unstructured.Unstructured) {
	cloneMetadata(merged)
	if labels := mergeStringMaps(live.GetLabels(), manifest.GetLabels()); len(labels) > 0 {
		merged.SetLabels(labels)
	}
	if annotations := mergeStringMaps(live.GetAnnotations(), manifest.GetAnnotations()); len(annotations) > 0 {
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

// cloneMetadata replaces the metadata of an object by a shallow copy, so that it can be changed.
func cloneMetadata(u *unstructured.Unstructured) {
	metadata, _ := u.Object["metadata"].(map[string]any)
	u.Object["metadata"] = maps.Clone(metadata)
}

func mergeStringMaps(live, manifest map[string]string) map[string]string {
	result := maps.Clone(live)
	if result == nil {
		result = map[string]string{}
	}
	maps.Copy(result, manifest)
	return result
}

// mergeObject returns a live object merged with the wanted one.
func (n *ruleNode) mergeObject(live, wanted map[string]any) map[string]any {
	result := maps.Clone(live)
	if result == nil {
		result = map[string]any{}
	}

	for name, value := range wanted {
		if field := n.fieldNode(name); value != nil && field.effectiveRule() != ruleCreateOnly {
			result[name] = field.mergeValue(live[name], value)
		}
	}

	if n == nil {
		return result
	}

	for name, field := range n.fields {
		if wanted[name] == nil && field.removesUnstated() {
			delete(result, name)
		} else if _, ok := live[name].(map[string]any); wanted[name] == nil && ok && field.rule == ruleMerge {
			// The rules of the fields below also apply if the manifest omits their parent.
			result[name] = field.mergeValue(live[name], map[string]any{})
		}
	}

	return result
}

// mergeValue returns a live value merged with the wanted one.
func (n *ruleNode) mergeValue(live, wanted any) any {
	switch n.effectiveRule() {
	case ruleExact, ruleReplaceIfStated:
		return wanted
	case ruleAppendMissing:
		return appendMissing(live, wanted)
	case ruleMergeByNameAndPrune, ruleMergeByName:
		return n.mergeListByName(live, wanted)
	default:
		// A live value that is no object has nothing to keep.
		liveObject, _ := live.(map[string]any)
		if wantedObject, ok := wanted.(map[string]any); ok {
			return n.mergeObject(liveObject, wantedObject)
		}
		return wanted
	}
}

// mergeListByName merges list elements by name. If the elements of the wanted list are no
// objects, or names occur twice, the list is used unchanged. Nothing of such a live list is
// kept.
func (n *ruleNode) mergeListByName(live, wanted any) any {
	wantedList, ok := indexElementsByName(wanted)
	if !ok {
		return wanted
	}

	liveList, _ := indexElementsByName(live)
	result := make([]any, 0, len(wantedList.elements))
	for _, element := range wantedList.elements {
		result = append(result, n.items.mergeObject(liveList.byName[elementName(element)], element))
	}

	if n.rule == ruleMergeByName {
		for _, element := range liveList.elements {
			if _, ok := wantedList.byName[elementName(element)]; !ok {
				result = append(result, element)
			}
		}
	}

	return result
}

// namedElements is a list of objects with unique names. An empty name counts as a name.
type namedElements struct {
	elements []map[string]any
	byName   map[string]map[string]any
}

func indexElementsByName(value any) (namedElements, bool) {
	list, ok := value.([]any)
	if !ok {
		return namedElements{}, false
	}

	result := namedElements{byName: make(map[string]map[string]any, len(list))}
	for _, item := range list {
		element, ok := item.(map[string]any)
		if !ok {
			return namedElements{}, false
		}
		if _, twice := result.byName[elementName(element)]; twice {
			return namedElements{}, false
		}

		result.elements = append(result.elements, element)
		result.byName[elementName(element)] = element
	}

	return result, true
}

func elementName(element map[string]any) string {
	name, _ := element["name"].(string)
	return name
}

// appendMissing returns the live list without duplicates, followed by the wanted elements that
// it lacks.
func appendMissing(live, wanted any) any {
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
		// Decoded JSON values marshal to one text, as keys are sorted.
		text, err := json.Marshal(item)
		if err != nil || !known[string(text)] {
			known[string(text)] = true
			result = append(result, item)
		}
	}

	return result
}
