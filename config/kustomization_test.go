package config_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mainstay-dev/mainstay/internal/action"
)

// TestKustomizationIsTheInstallation checks that the kustomizations have the objects that `mainstay install` applies and
// its dry run prints, with the same content.
func TestKustomizationIsTheInstallation(t *testing.T) {
	for name, test := range map[string]struct {
		installation action.Installation
		folders      []string
	}{
		"OLM v1":           {action.Installation{}, []string{"."}},
		"OLM Classic":      {action.Installation{Classic: true}, []string{".", "classic"}},
		"console":          {action.Installation{Console: true}, []string{".", "console"}},
		"default catalogs": {action.Installation{Classic: true, DefaultCatalogs: true}, []string{".", "classic", "classic/operatorhubio"}},
	} {
		t.Run(name, func(t *testing.T) { requireSameObjects(t, test.installation, test.folders) })
	}
}

// requireSameObjects compares an installation with the kustomizations of folders.
func requireSameObjects(t *testing.T, installation action.Installation, folders []string) {
	t.Helper()
	written, err := installation.Objects()
	if err != nil {
		t.Fatal(err)
	}

	var applied []*unstructured.Unstructured
	for _, folder := range folders {
		applied = append(applied, kustomized(t, folder)...)
	}

	byName := func(objects []*unstructured.Unstructured) map[string]any {
		contents := map[string]any{}
		for _, object := range objects {
			contents[object.GetKind()+" "+object.GetNamespace()+"/"+object.GetName()] = object.Object
		}
		return contents
	}
	if diff := cmp.Diff(byName(written), byName(applied)); diff != "" {
		t.Errorf("objects (-want as installed +got from the kustomization):\n%s", diff)
	}
}
