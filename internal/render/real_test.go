package render

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
)

// manifest has the fields of an object that decide whether its bundle can be rendered.
type manifest struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		APIs struct {
			Owned []any `json:"owned"`
		} `json:"apiservicedefinitions"`
	} `json:"spec"`
}

// expectedReasons returns texts that the refusal of a bundle must contain, or none if the bundle must
// render. It reads the files of the bundle without the code under test.
func expectedReasons(t *testing.T, dir string) []string {
	t.Helper()
	var reasons []string
	files, err := filepath.Glob(filepath.Join(dir, "manifests", "*"))
	if err != nil {
		t.Fatal(err)
	}

	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}

		var m manifest
		if err := yaml.Unmarshal(data, &m); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if m.Kind == "CustomResourceDefinition" && m.APIVersion == "apiextensions.k8s.io/v1beta1" {
			reasons = append(reasons, fmt.Sprintf("%q", m.Metadata.Name), "apiextensions.k8s.io/v1beta1, which was removed in Kubernetes 1.22")
		}
		if m.Kind != "ClusterServiceVersion" {
			continue
		}
		if len(m.Spec.APIs.Owned) > 0 {
			reasons = append(reasons, "apiServiceDefintions are not supported")
		}
	}

	return reasons
}

// installations are the ways to install a bundle: one for each mode that it supports.
func installations(b *bundle.Bundle) map[v1alpha1.InstallModeType]Options {
	ways := map[v1alpha1.InstallModeType]Options{
		v1alpha1.InstallModeTypeAllNamespaces:   {InstallNamespace: "install"},
		v1alpha1.InstallModeTypeOwnNamespace:    {InstallNamespace: "install", WatchNamespace: "install"},
		v1alpha1.InstallModeTypeSingleNamespace: {InstallNamespace: "install", WatchNamespace: "watched"},
	}
	for mode := range ways {
		if !slices.Contains(b.InstallModes(), mode) {
			delete(ways, mode)
		}
	}
	return ways
}

func TestRenderRealBundles(t *testing.T) {
	rendered, refused, webhooks := 0, 0, 0
	for _, dir := range checkout.RealBundles(t) {
		b, err := bundle.Load(os.DirFS(dir))
		if err != nil {
			t.Errorf("%s: %v", dir, err)
			continue
		}
		want := expectedReasons(t, dir)
		for mode, opts := range installations(b) {
			t.Run(b.Name()+"/"+string(mode), func(t *testing.T) {
				objects, err := Render(b, opts)
				if len(want) == 0 {
					rendered++
					webhooks += len(b.CSV.Spec.WebhookDefinitions)
					if err != nil {
						t.Fatalf("got error %v, want none", err)
					}

					checkObjects(t, objects, opts)
					checkComplete(t, b, opts, objects)
					return
				}
				refused++
				for _, reason := range want {
					if err == nil || !strings.Contains(err.Error(), reason) {
						t.Errorf("got error %v, want one that contains %q", err, reason)
					}
				}
			})
		}
	}

	if rendered == 0 || refused == 0 || webhooks == 0 {
		t.Errorf("got %d rendered with %d webhooks and %d refused, want at least one of each", rendered, webhooks, refused)
	}
}
