package steps_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/steps"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
	"github.com/mainstay-dev/mainstay/internal/testing/golden"
)

const csv = `{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion",
"metadata":{"name":"kettle.v1.1.0","namespace":"placeholder","annotations":{"capabilities":"Basic Install"}},
"spec":{"version":"1.1.0","replaces":"kettle.v0.9.0","displayName":"Kettle","install":{"strategy":"deployment","spec":{
"deployments":[],
"permissions":[{"serviceAccountName":"kettle","rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get","list"]}]},
 {"serviceAccountName":"default","rules":[{"apiGroups":[""],"resources":["events"],"verbs":["create"]}]}],
"clusterPermissions":[{"serviceAccountName":"kettle","rules":[{"apiGroups":["example.com"],"resources":["kettles"],"verbs":["*"]}]}]}}}}`

var objects = []string{
	`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"steam"},"stringData":{"a":"b"}}`,
	`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"kettles.example.com"}}`,
	csv,
	`{"apiVersion":"v1","kind":"Service","metadata":{"name":"kettle"}}`,
	"dependencies: []\n",
}

var place = steps.Place{Namespace: "tea", Catalog: "shop", CatalogNamespace: "olm"}

func readKettleBundle(t *testing.T) steps.Bundle {
	t.Helper()
	b, err := steps.Decode(csv, objects)
	if err != nil {
		t.Fatal(err)
	}
	b.Replaces, b.Properties = "kettle.v1.0.0", `{"properties":[]}`
	return b
}

func TestFromBundle(t *testing.T) {
	made, err := steps.FromBundle(readKettleBundle(t), place)
	if err != nil {
		t.Fatal(err)
	}

	var text strings.Builder
	for _, step := range made {
		r := step.Resource
		var manifest bytes.Buffer
		if err := json.Indent(&manifest, []byte(r.Manifest), "", "  "); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "%s %s: %s/%s %s %s from %s/%s\n%s\n", step.Status, step.Resolving, r.Group, r.Version, r.Kind, r.Name, r.CatalogSourceNamespace, r.CatalogSource, manifest.String())
	}

	golden.Check(t, "steps.txt", []byte(text.String()))
}

// An account with a manifest in the bundle is one step, and is owned by the operator too.
func TestAccountOfBundle(t *testing.T) {
	b := readKettleBundle(t)
	more, err := steps.Decode("", []string{`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"kettle","labels":{"a":"b"}},"imagePullSecrets":[{"name":"login"}]}`})
	if err != nil {
		t.Fatal(err)
	}

	b.Objects = append(b.Objects, more.Objects...)
	made, err := steps.FromBundle(b, place)
	if err != nil {
		t.Fatal(err)
	}

	var manifests []string
	for _, step := range made {
		if step.Resource.Kind == "ServiceAccount" {
			manifests = append(manifests, step.Resource.Manifest)
		}
	}

	if len(manifests) != 1 || !strings.Contains(manifests[0], `"login"`) || !strings.Contains(manifests[0], `"kind":"ClusterServiceVersion","name":"kettle.v1.1.0"`) {
		t.Errorf("got the accounts %q", manifests)
	}
}

// The names of roles equal those in existing clusters.
func TestRoleNames(t *testing.T) {
	var csv v1alpha1.ClusterServiceVersion
	csv.Name = strings.Repeat("long", 20)
	rule := rbacv1.PolicyRule{APIGroups: []string{"<&>"}, Resources: []string{"pods"}, Verbs: []string{"get"}}
	permission := v1alpha1.StrategyDeploymentPermissions{ServiceAccountName: "kettle", Rules: []rbacv1.PolicyRule{rule}}
	csv.Spec.InstallStrategy.StrategySpec.Permissions = []v1alpha1.StrategyDeploymentPermissions{permission}
	csv.Spec.InstallStrategy.StrategySpec.ClusterPermissions = []v1alpha1.StrategyDeploymentPermissions{permission}
	made, err := steps.FromCSV(&csv, place)
	if err != nil {
		t.Fatal(err)
	}

	hash := csvinfo.TextHash(fmt.Sprintf(`{"name":%q,"permission":{"serviceAccountName":"kettle","rules":[{"verbs":["get"],"apiGroups":["\u003c\u0026\u003e"],"resources":["pods"]}]}}`+"\n", csv.Name))
	clusterHash := csvinfo.TextHash(fmt.Sprintf(`{"name":%q,"namespace":"tea","permission":{"serviceAccountName":"kettle","rules":[{"verbs":["get"],"apiGroups":["\u003c\u0026\u003e"],"resources":["pods"]}]}}`+"\n", csv.Name))
	role := csv.Name[:62-len(hash)] + "-" + hash
	clusterRole := csv.Name[:62-len(clusterHash)] + "-" + clusterHash
	var names []string
	for _, step := range made {
		names = append(names, step.Resource.Kind+" "+step.Resource.Name)
	}

	want := []string{"ServiceAccount kettle", "Role " + role, "RoleBinding " + role, "ClusterRole " + clusterRole, "ClusterRoleBinding " + clusterRole}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}

	var binding rbacv1.RoleBinding
	if err := json.Unmarshal([]byte(made[2].Resource.Manifest), &binding); err != nil {
		t.Fatal(err)
	}

	wantHash := csvinfo.TextHash(fmt.Sprintf(`{"RoleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":%q},"Subjects":[{"kind":"ServiceAccount","name":"kettle","namespace":"tea"}]}`, role))
	if got := binding.Labels[csvinfo.LabelPermissionsHash]; got != wantHash {
		t.Errorf("got the hash %q of the binding, want %q", got, wantHash)
	}
}

func TestInvalid(t *testing.T) {
	without := func(what string) string { return strings.Replace(csv, what, "", 1) }
	for name, test := range map[string]struct {
		csv     string
		objects []string
		want    string
	}{
		"no apiVersion":          {without(`"apiVersion":"operators.coreos.com/v1alpha1",`), nil, "bundle CSV kettle.v1.1.0 missing APIVersion"},
		"no kind":                {without(`"kind":"ClusterServiceVersion",`), nil, "bundle CSV kettle.v1.1.0 missing Kind"},
		"no kind in a file":      {"", []string{without(`"kind":"ClusterServiceVersion",`)}, "bundle CSV kettle.v1.1.0 missing Kind"},
		"no CSV":                 {"", objects[:2], "the bundle has no ClusterServiceVersion with a name"},
		"no spec":                {`{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":{"name":"kettle"}}`, nil, "bundle CSV kettle has no spec"},
		"spec of another type":   {strings.Replace(csv, `"deployments":[]`, `"deployments":"none"`, 1), nil, "bundle CSV kettle.v1.1.0 is none: "},
		"an object without name": {csv, []string{`{"apiVersion":"v1","kind":"Secret","metadata":{}}`}, `an object of "kettle.v1.1.0" has no kind, apiVersion or name: it is /v1, Kind=Secret ""`},
		"no YAML":                {csv, []string{"\t{"}, "an object: document 1: "},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := steps.Decode(test.csv, test.objects)
			if err == nil {
				_, err = steps.FromBundle(b, place)
			}
			invalid := (*steps.InvalidError)(nil)
			if !errors.As(err, &invalid) || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("got error %v, want %q", err, test.want)
			}
		})
	}
}

// Steps that refer to a ConfigMap lead to their original manifests.
func TestReferences(t *testing.T) {
	configMap := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "olm", Name: "unpacked", Annotations: map[string]string{"olm.contentEncoding": "gzip+base64"}},
		BinaryData: map[string][]byte{},
	}
	for i, text := range objects {
		configMap.BinaryData[strconv.Itoa(i)] = builder.Compress(t, text)
	}

	b, err := steps.DecodeConfigMap(configMap)
	if err != nil {
		t.Fatal(err)
	}

	b.Replaces, b.Properties = "kettle.v1.0.0", `{"properties":[]}`
	inline, err := steps.FromBundle(b, place)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(b.Digest, "sha256:") {
		t.Errorf("got the digest %q", b.Digest)
	}

	configMap.Data = map[string]string{"more.yaml": "kind: Service"}
	if changed, err := steps.DecodeConfigMap(configMap); err != nil || changed.Digest == b.Digest {
		t.Errorf("got the same digest %s of other content (error %v)", changed.Digest, err)
	}

	want, err := steps.FromBundle(readKettleBundle(t), place)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, inline); diff != "" {
		t.Errorf("(-inline +unpacked):\n%s", diff)
	}

	referring, err := steps.FromBundle(b, place)
	if err != nil {
		t.Fatal(err)
	}

	ref := steps.Reference{Name: "unpacked", Namespace: "olm", CatalogSourceName: "shop", CatalogSourceNamespace: "olm", Replaces: b.Replaces, Properties: b.Properties}
	if err := steps.ReplaceManifests(referring, ref); err != nil {
		t.Fatal(err)
	}

	wantManifest := `{"kind":"ConfigMap","name":"unpacked","namespace":"olm","catalogSourceName":"shop","catalogSourceNamespace":"olm","replaces":"kettle.v1.0.0","properties":"{\"properties\":[]}"}`
	for i, step := range referring {
		if step.Resource.Manifest != wantManifest {
			t.Errorf("got the manifest %s, want %s", step.Resource.Manifest, wantManifest)
		}

		got, ok := steps.ReferenceOf(step)
		ref.Kind = "ConfigMap"
		if diff := cmp.Diff(ref, got); diff != "" || !ok {
			t.Errorf("%v: %s", ok, diff)
		}

		manifest, err := steps.Manifest(step, inline)
		if err != nil || manifest != inline[i].Resource.Manifest {
			t.Errorf("%s %s: %v, %s", step.Resource.Kind, step.Resource.Name, err, manifest)
		}
		if _, ok := steps.ReferenceOf(inline[i]); ok {
			t.Errorf("%s is parsed as a reference", inline[i].Resource.Manifest)
		}
	}

	gone := *referring[0]
	gone.Resource.Name = "other"
	if _, err := steps.Manifest(&gone, inline); err == nil {
		t.Error("a missing step was found")
	}
}

// A compressed ConfigMap that becomes too large is rejected.
func TestCompressedTooLarge(t *testing.T) {
	configMap := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"olm.contentEncoding": "gzip+base64"}},
		BinaryData: map[string][]byte{"bomb": builder.Compress(t, strings.Repeat("#", 9<<20))},
	}
	if _, err := steps.DecodeConfigMap(configMap); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("got error %v", err)
	}
}

// TestLenient checks that bundles which the bundle loader accepts are accepted too.
func TestLenient(t *testing.T) {
	configMap := &corev1.ConfigMap{Data: map[string]string{
		"README.md": "Kettle: [boils",
		"csv.yaml":  strings.Replace(csv, "operators.coreos.com/v1alpha1", "binding.operators.coreos.com/v1alpha1", 1),
	}}
	b, err := steps.DecodeConfigMap(configMap)
	if err != nil {
		t.Fatal(err)
	}

	made, err := steps.FromBundle(b, place)
	if err != nil {
		t.Fatal(err)
	}

	got := made[0].Resource
	if got.Group != v1alpha1.GroupVersion.Group || got.Version != v1alpha1.GroupVersion.Version || !strings.Contains(got.Manifest, `"apiVersion":"operators.coreos.com/v1alpha1"`) {
		t.Errorf("got a step of %s/%s for the ClusterServiceVersion: %s", got.Group, got.Version, got.Manifest)
	}
}

// Any bundle is rejected or converted to steps that name their objects.
func FuzzFromBundle(f *testing.F) {
	f.Add(csv, objects[0])
	f.Add("", csv)
	f.Add(csv, objects[4])
	f.Fuzz(func(t *testing.T, csv, object string) {
		if len(csv)+len(object) > 64<<10 {
			t.Skip("longer than the limit of this test")
		}

		b, err := steps.Decode(csv, []string{object})
		if err != nil {
			return
		}

		made, err := steps.FromBundle(b, place)
		if err != nil {
			return
		}

		for _, step := range made {
			if step.Resource.Kind == "" || step.Resource.Name == "" || step.Resolving == "" || !json.Valid([]byte(step.Resource.Manifest)) {
				t.Errorf("got the step %+v", step)
			}
		}

		if made[0].Resource.Kind != v1alpha1.ClusterServiceVersionKind {
			t.Errorf("got the first step %+v", made[0])
		}
	})
}

// Every real bundle is converted to steps.
func TestRealBundles(t *testing.T) {
	for _, folder := range checkout.RealBundles(t) {
		files, err := filepath.Glob(filepath.Join(folder, "manifests", "*"))
		if err != nil {
			t.Fatal(err)
		}

		var manifests []string
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			manifests = append(manifests, string(data))
		}

		b, err := steps.Decode("", manifests)
		if err != nil {
			t.Errorf("%s: %v", folder, err)
			continue
		}

		made, err := steps.FromBundle(b, place)
		if err != nil {
			t.Errorf("%s: %v", folder, err)
			continue
		}

		names := map[string]bool{}
		for _, step := range made {
			name := step.Resource.Group + " " + step.Resource.Kind + " " + step.Resource.Name
			if names[name] {
				t.Errorf("%s: got two steps for %s", folder, name)
			}
			names[name] = true
		}

		if len(made) < len(b.Objects)+1 || made[0].Resource.Kind != v1alpha1.ClusterServiceVersionKind {
			t.Errorf("%s: from %d objects: got %d steps, the first a %s", folder, len(b.Objects)+1, len(made), made[0].Resource.Kind)
		}
	}
}
