package operands

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestParseFieldPath(t *testing.T) {
	for text, want := range map[string][]string{
		"":                            {},
		"<nil>":                       {},
		"spec.size":                   {"spec", "size"},
		"spec.pools[0].name":          {"spec", "pools", "0", "name"},
		"spec.labels[a.b/c].x":        {"spec", "labels", "a.b/c", "x"},
		`metadata.annotations["a.b"]`: {"metadata", "annotations", "a.b"},
		"spec.pools[0":                {"spec", "pools", "0"},
	} {
		if diff := cmp.Diff(want, parseFieldPath(text)); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

func FuzzParseFieldPath(f *testing.F) {
	f.Add("spec.pools[0].name")
	f.Add("[[].")
	f.Fuzz(func(t *testing.T, text string) {
		if got := len(parseFieldPath(text)); got > len(text) {
			t.Errorf("got %d steps of a path with %d bytes", got, len(text))
		}
	})
}

func TestFindFaults(t *testing.T) {
	unknown := apierrors.NewBadRequest(`Orchard in version "v1" cannot be handled as a Orchard: strict decoding error: unknown field "spec.a", unknown field "spec.b[0]"`)
	for name, test := range map[string]struct {
		err  error
		want []OperandFault
	}{
		"no error":        {nil, nil},
		"another error":   {errors.New("no network"), nil},
		"unknown fields":  {unknown, []OperandFault{{[]string{"spec", "a"}, "the schema has no such field"}, {[]string{"spec", "b", "0"}, "the schema has no such field"}}},
		"another refusal": {apierrors.NewBadRequest("admission webhook said no"), []OperandFault{{[]string{}, "admission webhook said no"}}},
		"forbidden":       {apierrors.NewForbidden(schema.GroupResource{}, "a", nil), nil},
	} {
		if diff := cmp.Diff(test.want, findFaults(test.err)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestStateOf(t *testing.T) {
	condition := func(kind, status, message string) any {
		return map[string]any{"type": kind, "status": status, "reason": "Because", "message": message}
	}
	for name, test := range map[string]struct {
		object         map[string]any
		state, message string
	}{
		"nothing":          {map[string]any{}, "", ""},
		"phase first":      {map[string]any{"status": map[string]any{"state": "s", "phase": "p"}}, "p", ""},
		"a status":         {map[string]any{"status": map[string]any{"status": "Running", "state": "s"}}, "Running", ""},
		"another form":     {map[string]any{"status": map[string]any{"phase": map[string]any{}, "conditions": []any{"x", map[string]any{}}}}, "", ""},
		"true conditions":  {map[string]any{"status": map[string]any{"conditions": []any{condition("A", "True", ""), condition("B", "False", ""), condition("C", "True", "")}}}, "A, C", ""},
		"a missing status": {map[string]any{"status": map[string]any{"phase": "p", "conditions": []any{condition("Ready", "False", "no disk")}}}, "p", "Because: no disk"},
		"a problem":        {map[string]any{"status": map[string]any{"conditions": []any{condition("Degraded", "True", "slow")}}}, "Degraded", "Because: slow"},
		"deleted":          {map[string]any{"metadata": map[string]any{"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": map[string]any{"phase": "p"}}, "Deleting", ""},
	} {
		state, message := stateOf(&unstructured.Unstructured{Object: test.object})
		if state != test.state || message != test.message {
			t.Errorf("%s: got %q and %q, want %q and %q", name, state, message, test.state, test.message)
		}
	}
}

// A schema that contains itself keeps its references.
func TestFindSchema(t *testing.T) {
	document := []byte(`{"components":{"schemas":{
		"tree":{"type":"object","properties":{"apiVersion":{"type":"string"},"metadata":{"$ref":"#/components/schemas/meta"},"left":{"$ref":"#/components/schemas/tree"}},
			"x-kubernetes-group-version-kind":[{"group":"g.example.com","version":"v1","kind":"Tree"}]},
		"plain":{"type":"object","properties":{"kind":{"type":"string"},"spec":{"type":"object"}},"x-kubernetes-group-version-kind":[{"group":"g.example.com","version":"v1","kind":"Plain"}]},
		"meta":{"type":"object"}}}}`)
	for kind, want := range map[string]struct {
		property      string
		hasComponents bool
	}{"Tree": {"left", true}, "Plain": {"spec", false}} {
		found, err := findSchema(document, schema.GroupVersionKind{Group: "g.example.com", Version: "v1", Kind: kind})
		if err != nil {
			t.Fatal(err)
		}
		properties, _ := found["properties"].(map[string]any)
		_, hasComponents := found["components"]
		if len(properties) != 1 || properties[want.property] == nil || hasComponents != want.hasComponents {
			t.Errorf("%s: got %v, want only the property %s", kind, found, want.property)
		}
	}

	if found, err := findSchema(document, schema.GroupVersionKind{Kind: "None"}); err != nil || len(found) != 0 {
		t.Errorf("got %v, %v for an unknown kind, want an empty schema", found, err)
	}
	if _, err := findSchema([]byte("{"), schema.GroupVersionKind{}); err == nil {
		t.Error("got no error for a broken document")
	}
}
