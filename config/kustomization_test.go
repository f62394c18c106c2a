package config_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mainstay-dev/mainstay/internal/action"
)

// What the kustomization prints is what `mainstay install` writes, and what its dry run prints:
// the same objects with the same content.
func TestKustomizationIsTheInstallation(t *testing.T) {
	written, err := (&action.Installation{}).Objects()
	if err != nil {
		t.Fatal(err)
	}

	byName := func(objects []*unstructured.Unstructured) map[string]any {
		contents := map[string]any{}
		for _, object := range objects {
			contents[object.GetKind()+" "+object.GetNamespace()+"/"+object.GetName()] = object.Object
		}
		return contents
	}
	if diff := cmp.Diff(byName(written), byName(kustomized(t, "."))); diff != "" {
		t.Errorf("the kustomization differs from the installation (-installation +kustomization):\n%s", diff)
	}
}
