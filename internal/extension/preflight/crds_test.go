package preflight_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/crdsafety"
	"github.com/mainstay-dev/mainstay/internal/extension/preflight"
	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// parseCRD returns a CRD with the fields of a spec.
func parseCRD(t *testing.T, name, fields string) unstructured.Unstructured {
	t.Helper()
	var object unstructured.Unstructured
	text := `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ` + name + `.preflight.example.com}
spec:
  group: preflight.example.com
  scope: Namespaced
  names: {kind: K` + name + `, plural: ` + name + `}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: ` + fields + `}}}}
`
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		t.Fatal(err)
	}

	return object
}

// newOwnerReferences returns the reference to a controller.
func newOwnerReferences(apiVersion, kind, name, uid string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID(uid), Controller: ptr.To(true)}}
}

// newExtension returns the extension whose CRDs are checked.
func newExtension() *olmv1.ClusterExtension {
	return &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: "asked", UID: "asked"}}
}

// refusalMessage returns the message for a CRD whose field a is removed.
func refusalMessage(name string) string {
	name += ".preflight.example.com"
	return fmt.Sprintf(`validating upgrade for CRD %q failed: CustomResourceDefinition %[2]s failed upgrade safety validation. `+
		`"NoExistingFieldRemoved" validation failed: crd/%[2]s version/v1 field/^.spec.a may not be removed`, name, name)
}

// TestCRDs removes a field of existing CRDs, and expects errors for those that are checked.
func TestCRDs(t *testing.T) {
	c := env.Client(t, apiextensionsv1.AddToScheme)
	const v1, set = "olm.operatorframework.io/v1", olmv1.ClusterObjectSetKind
	for _, tc := range []struct {
		name   string
		owners []metav1.OwnerReference
		delete bool
		passes bool
	}{
		{name: "adopted"},
		{name: "revisions", owners: newOwnerReferences(v1, set, "asked-12", "x")},
		{name: "extensions", owners: newOwnerReferences(v1, olmv1.ClusterExtensionKind, "asked", "asked")},
		{name: "others", owners: newOwnerReferences(v1, set, "other-1", "x"), passes: true},
		{name: "longer", owners: newOwnerReferences(v1, set, "asked-too-1", "x"), passes: true},
		{name: "foreign", owners: newOwnerReferences("v1", "ConfigMap", "asked-1", "x"), passes: true},
		{name: "deleted", delete: true, passes: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			live := parseCRD(t, tc.name, "{a: {type: string}}")
			live.SetOwnerReferences(tc.owners)
			if tc.delete {
				live.SetFinalizers([]string{"example.com/hold"})
			}

			createCRD(t, c, &live)
			if tc.delete {
				if err := c.Delete(t.Context(), &live); err != nil {
					t.Fatal(err)
				}
			}

			err := preflight.NewCRDChecker(c).Check(t.Context(), newExtension(), newChange(parseCRD(t, tc.name, "{}")))
			var unsafe *crdsafety.UnsafeError
			if errors.As(err, &unsafe) == tc.passes || (err != nil) == tc.passes {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestCRDsAreReportedTogether(t *testing.T) {
	c := env.Client(t, apiextensionsv1.AddToScheme)
	for _, name := range []string{"ones", "twos", "threes"} {
		live := parseCRD(t, name, "{a: {type: string}}")
		createCRD(t, c, &live)
	}

	objects := []unstructured.Unstructured{
		parseCRD(t, "ones", "{}"), parseCRD(t, "twos", "{a: {type: string}, b: {type: string}}"),
		parseCRD(t, "threes", "{}"), parseCRD(t, "absents", "{}"), newServiceObjects("default")[0],
	}
	checks := preflight.Checks{
		func(context.Context, *olmv1.ClusterExtension, preflight.Change) error { return errDown },
		preflight.NewCRDChecker(c).Check,
	}
	err := checks.Check(t.Context(), newExtension(), preflight.Change{Written: objects})
	want := errDown.Error() + "\n" + refusalMessage("ones") + "\n" + refusalMessage("threes")
	if err == nil {
		t.Fatal("unsafe definitions pass")
	}
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	ext := newExtension()
	for enforcement, passes := range map[olmv1.CRDUpgradeSafetyEnforcement]bool{
		olmv1.CRDUpgradeSafetyEnforcementStrict: false, olmv1.CRDUpgradeSafetyEnforcementNone: true,
	} {
		ext.Spec.Install = &olmv1.ClusterExtensionInstallConfig{Preflight: &olmv1.PreflightConfig{
			CRDUpgradeSafety: &olmv1.CRDUpgradeSafetyPreflightConfig{Enforcement: enforcement},
		}}
		if err := preflight.NewCRDChecker(c).Check(t.Context(), ext, preflight.Change{Written: objects}); (err == nil) != passes {
			t.Errorf("enforcement %s: %v", enforcement, err)
		}
	}
}

func TestCRDsThatCannotBeChecked(t *testing.T) {
	c := env.Client(t, apiextensionsv1.AddToScheme)
	live := parseCRD(t, "bads", "{}")
	createCRD(t, c, &live)
	bad := parseCRD(t, "bads", "{}")
	bad.Object["spec"] = "nothing"
	for name, tc := range map[string]struct {
		reader client.Reader
		want   string
	}{
		"no answer":  {noAnswer{}, `validating upgrade for CRD "bads.preflight.example.com" failed: reading it from the cluster: down`},
		"unreadable": {c, `validating upgrade for CRD "bads.preflight.example.com" failed: decoding the bundle's CRD: cannot restore struct from: string`},
	} {
		err := preflight.NewCRDChecker(tc.reader).Check(t.Context(), newExtension(), newChange(bad))
		var unsafe *crdsafety.UnsafeError
		if err == nil || err.Error() != tc.want || errors.As(err, &unsafe) {
			t.Errorf("%s: got %v, want %s", name, err, tc.want)
		}
	}
}

// TestCheckExtension checks the account that the spec names, and no account when it names
// none.
func TestCheckExtension(t *testing.T) {
	w := newFixture(t)
	ext := newExtension()
	ext.Spec.Namespace = w.account.Namespace
	if err := w.checker.CheckExtension(t.Context(), ext, preflight.Change{Written: newServiceObjects(w.account.Namespace)}); err != nil {
		t.Errorf("without an account: got error %v", err)
	}

	ext.Spec.ServiceAccount = &olmv1.ServiceAccountReference{Name: w.account.Name}
	want := w.checker.Check(t.Context(), w.account, "asked", newServiceObjects(w.account.Namespace))
	got := w.checker.CheckExtension(t.Context(), ext, preflight.Change{Written: newServiceObjects(w.account.Namespace)})
	if want == nil || got == nil || got.Error() != want.Error() {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestCRDsAsTheServerKeepsThem expects no change between a CRD and the form in which the API server and
// the client return it.
func TestCRDsAsTheServerKeepsThem(t *testing.T) {
	c := env.Client(t, apiextensionsv1.AddToScheme)
	root, err := checkout.Root()
	if err != nil {
		t.Fatal(err)
	}

	keeps := func(t *testing.T, folder string) {
		files, err := filepath.Glob(filepath.Join(folder, "manifests", "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}

			var object unstructured.Unstructured
			if err := yaml.Unmarshal(data, &object.Object); err != nil {
				t.Fatal(err)
			}
			if object.GetAPIVersion() != "apiextensions.k8s.io/v1" {
				continue
			}

			live := object.DeepCopy()
			if err := c.Create(t.Context(), live.DeepCopy(), client.DryRunAll); err != nil {
				t.Logf("the server rejects it: %v", err)
				continue
			}

			createCRD(t, c, live)
			if err := preflight.NewCRDChecker(c).Check(t.Context(), newExtension(), newChange(object)); err != nil {
				t.Errorf("%s is not a safe update of itself: %v", object.GetName(), err)
			}
		}
	}

	t.Run("hello-operator", func(t *testing.T) { keeps(t, filepath.Join(root, "examples", "bundles", "hello-operator", "1.0.0")) })
	t.Run("real", func(t *testing.T) {
		packages, err := filepath.Glob(filepath.Join(checkout.SharedData(t, "bundles"), "*"))
		if err != nil || len(packages) == 0 {
			t.Skipf("no real bundles: %v", err)
		}
		for _, folder := range packages {
			versions, err := filepath.Glob(filepath.Join(folder, "*"))
			if err != nil || len(versions) == 0 {
				t.Fatalf("%s has no versions: %v", folder, err)
			}
			t.Run(filepath.Base(folder), func(t *testing.T) { keeps(t, versions[len(versions)-1]) })
		}
	})
}

// TestServerRefusesTheWorst: changes that the API server rejects even with the check turned off.
func TestServerRefusesTheWorst(t *testing.T) {
	c := env.Client(t, apiextensionsv1.AddToScheme)
	object := parseCRD(t, "worsts", "{}")
	createCRD(t, c, &object)
	var live apiextensionsv1.CustomResourceDefinition
	eventually(t, "the definition is established", func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(&object), &live); err != nil {
			return err
		}
		for _, condition := range live.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
				return nil
			}
		}
		return errors.New("it is not")
	})

	for name, change := range map[string]func(*apiextensionsv1.CustomResourceDefinition){
		"scope":          func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Scope = apiextensionsv1.ClusterScoped },
		"stored version": func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Versions[0].Name = "v2" },
	} {
		changed := live.DeepCopy()
		change(changed)
		if err := c.Update(t.Context(), changed); !apierrors.IsInvalid(err) {
			t.Errorf("%s: got %v, want that it is invalid", name, err)
		}
	}
}

type noAnswer struct{ client.Reader }

func (noAnswer) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errDown
}

// createCRD creates a CRD, and deletes it at the end of the test.
func createCRD(t *testing.T, c client.Client, crd *unstructured.Unstructured) {
	t.Helper()
	if err := c.Create(t.Context(), crd); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		free := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		for _, err := range []error{c.Delete(context.Background(), crd), c.Patch(context.Background(), crd, free)} {
			if client.IgnoreNotFound(err) != nil {
				t.Error(err)
			}
		}
	})
}

func newChange(objects ...unstructured.Unstructured) preflight.Change {
	return preflight.Change{Written: objects}
}
