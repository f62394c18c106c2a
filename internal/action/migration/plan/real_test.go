package plan

import (
	"cmp"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
)

// TestRealBundles checks each real bundle: it has a plan, or blockers that name all obstacles in its
// files, and no others.
func TestRealBundles(t *testing.T) {
	root := checkout.SharedData(t, "bundles")
	counts := map[string]int{}
	for _, folder := range bundleFolders(t, root) {
		name, _ := filepath.Rel(root, folder)
		t.Run(name, func(t *testing.T) {
			b, err := bundle.Load(os.DirFS(folder))
			if err != nil {
				t.Fatal(err)
			}

			p := New(newFacts(t, b, targetFor(b)), Options{})
			obstacles := findObstacles(t, folder)
			for _, finding := range p.Findings {
				if finding.Severity == SeverityBlocker && !mentionsAny(finding.Message, obstacles[finding.Check]) {
					t.Errorf("got the blocker %s without a reason in the files: %s", finding.Check, finding.Message)
				}
			}
			for check, names := range obstacles {
				for _, name := range names {
					if !slices.ContainsFunc(p.Findings, func(f Finding) bool {
						return f.Check == check && f.Severity == SeverityBlocker && strings.Contains(f.Message, name)
					}) {
						t.Errorf("got the findings %+v, want a blocker %s that names %s", p.Findings, check, name)
					}
				}
			}

			if questions := checksOf(p.Findings, SeverityAcknowledge); slices.Contains(questions, "PodTemplate") {
				t.Error("got a restart, want none")
			}
			if hasPlan := p.Extension != nil && len(p.Objects) > 0; hasPlan == (len(obstacles["Bundle"]) > 0) {
				t.Errorf("got a plan: %v, want one if and only if the bundle can be rendered", hasPlan)
			}

			counts[strings.Join(slices.Sorted(maps.Keys(obstacles)), ",")]++
		})
	}

	t.Logf("bundles by obstacle: %v", counts)
	if counts[""] == 0 || counts["Bundle"] == 0 {
		t.Errorf("got the bundles %v by obstacle, want some without and some that cannot be rendered", counts)
	}
}

// targetFor returns the namespace that the operator of a bundle watches in the test.
func targetFor(b *bundle.Bundle) string {
	switch modes := b.InstallModes(); {
	case slices.Contains(modes, v1alpha1.InstallModeTypeAllNamespaces):
		return ""
	case slices.Contains(modes, v1alpha1.InstallModeTypeOwnNamespace):
		return namespace
	default:
		return "other"
	}
}

func mentionsAny(message string, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return strings.Contains(message, name) })
}

// findObstacles returns the content of the files of a bundle that prevents its migration: the names that a blocker
// must mention, by check. It reads the files itself, so that it does not repeat a mistake of the code.
func findObstacles(t *testing.T, folder string) map[string][]string {
	t.Helper()
	obstacles := map[string][]string{}
	for _, file := range readYAML(t, filepath.Join(folder, "manifests")) {
		switch {
		case file.Kind == "CustomResourceDefinition" && file.APIVersion != "apiextensions.k8s.io/v1":
			obstacles["Bundle"] = append(obstacles["Bundle"], strconv.Quote(file.Metadata.Name))
		case file.Kind == "ClusterServiceVersion":
			for _, api := range file.Spec.APIServiceDefinitions.Owned {
				obstacles["APIServices"] = append(obstacles["APIServices"], api.Version+"."+api.Group)
			}
			for _, crd := range file.Spec.CustomResourceDefinitions.Required {
				obstacles["Dependencies"] = append(obstacles["Dependencies"], crd.Kind)
			}
		}
	}

	for _, file := range readYAML(t, filepath.Join(folder, "metadata")) {
		for _, dependency := range file.Dependencies {
			obstacles["Dependencies"] = append(obstacles["Dependencies"], cmp.Or(dependency.Value.PackageName, dependency.Value.Kind))
		}
	}
	return obstacles
}

// yamlFile are the fields of the files of a bundle that can be obstacles.
type yamlFile struct {
	APIVersion   string                             `json:"apiVersion"`
	Kind         string                             `json:"kind"`
	Metadata     struct{ Name string }              `json:"metadata"`
	Spec         v1alpha1.ClusterServiceVersionSpec `json:"-"`
	Raw          json.RawMessage                    `json:"spec"`
	Dependencies []struct {
		Value struct {
			PackageName string `json:"packageName"`
			Kind        string `json:"kind"`
		} `json:"value"`
	} `json:"dependencies"`
}

// readYAML reads the YAML files of a folder, which need not exist.
func readYAML(t *testing.T, folder string) []yamlFile {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil {
		t.Fatal(err)
	}

	var files []yamlFile
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var file yamlFile
		if err := yaml.Unmarshal(data, &file); err != nil {
			continue // It is not a manifest.
		}
		if file.Kind == v1alpha1.ClusterServiceVersionKind {
			if err := json.Unmarshal(file.Raw, &file.Spec); err != nil {
				t.Fatal(err)
			}
		}
		files = append(files, file)
	}
	return files
}

// bundleFolders returns the folders below a root that contain a bundle.
func bundleFolders(t *testing.T, root string) []string {
	t.Helper()
	var folders []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == "manifests" && !strings.Contains(path, "/tests/") {
			folders = append(folders, filepath.Dir(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return folders
}

// TestRealDependency plans the migration of two real operators, one of which OLM Classic has installed for the other. The
// remedies name the next step: first the required operator, then the one that requires it.
func TestRealDependency(t *testing.T) {
	root := checkout.SharedData(t, "bundles")
	load := func(folder string) *bundle.Bundle {
		b, err := bundle.Load(os.DirFS(filepath.Join(root, folder)))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	required, dependent := load("poison-pill-operator/0.1.0"), load("node-healthcheck-operator/0.0.1")
	first := newFacts(t, required, targetFor(required))
	first.Subscription.Annotations = map[string]string{v1alpha1.AnnotationGeneratedBy: "install-x"}
	installed := dependent.CSV.DeepCopy()
	installed.Namespace, installed.UID = namespace, "dependent"
	properties, err := json.Marshal(map[string]any{"properties": dependent.Properties})
	if err != nil {
		t.Fatal(err)
	}
	installed.Annotations[csvinfo.AnnotationProperties] = string(properties)
	first.CSVs = append(first.CSVs, *installed)

	if got := checksOf(New(first, Options{}).Findings, SeverityBlocker); !slices.Contains(got, "GeneratedSubscription") {
		t.Errorf("the generated Subscription: got the blockers %q, want GeneratedSubscription", got)
	}
	first.Subscription.Annotations = nil
	p := New(first, Options{})
	if got := checksOf(p.Findings, SeverityBlocker); len(got) > 0 {
		t.Errorf("without the annotation: got the blockers %q, want none", got)
	}
	if got := checksOf(p.Findings, SeverityWarning); !slices.Contains(got, "Dependents") {
		t.Errorf("without the annotation: got the warnings %q, want Dependents", got)
	}

	second := newFacts(t, dependent, targetFor(dependent))
	if got := checksOf(New(second, Options{}).Findings, SeverityBlocker); !slices.Contains(got, "Dependencies") {
		t.Errorf("before the required operator is migrated: got the blockers %q, want Dependencies", got)
	}
	second.addRevision("poison-pill", map[string]string{
		olmv1.AnnotationProvides: `[{"type":"olm.gvk","value":{"group":"poison-pill.medik8s.io","version":"v1alpha1","kind":"PoisonPillRemediation"}}]`,
	})
	if got := checksOf(New(second, Options{}).Findings, SeverityBlocker); len(got) > 0 {
		t.Errorf("after the required operator is migrated: got the blockers %q, want none", got)
	}
}
