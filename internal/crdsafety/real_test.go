package crdsafety

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/blang/semver/v4"
	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
)

// definitions reads the CRDs of a bundle by name. CRDs of v1beta1 are converted,
// as the API server did when it still served v1beta1.
func definitions(t *testing.T, folder string) map[string]*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	scheme := runtime.NewScheme()
	install.Install(scheme)
	decoder := serializer.NewCodecFactory(scheme).UniversalDecoder(apiextensions.SchemeGroupVersion)
	files, err := filepath.Glob(filepath.Join(folder, "manifests", "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no manifests in %s: %v", folder, err)
	}

	result := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}

		object, _, err := decoder.Decode(data, nil, nil)
		if runtime.IsNotRegisteredError(err) {
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}

		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := scheme.Convert(object, crd, nil); err != nil {
			t.Fatalf("%s: %v", file, err)
		}

		result[crd.Name] = crd
	}

	return result
}

// TestRealBundles checks every update between consecutive versions of real packages, and logs the
// result (-v). A CRD compared with itself is safe.
func TestRealBundles(t *testing.T) {
	packages, err := filepath.Glob(filepath.Join(checkout.SharedData(t, "bundles"), "*"))
	if err != nil || len(packages) == 0 {
		t.Skipf("no real bundles: %v", err)
	}

	for _, folder := range packages {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			versions, err := filepath.Glob(filepath.Join(folder, "*"))
			if err != nil {
				t.Fatal(err)
			}

			slices.SortFunc(versions, func(a, b string) int {
				return cmp.Or(semver.MustParse(filepath.Base(a)).Compare(semver.MustParse(filepath.Base(b))), strings.Compare(a, b))
			})
			var before map[string]*apiextensionsv1.CustomResourceDefinition
			for _, version := range versions {
				after := definitions(t, version)
				for name, crd := range after {
					if err := Check(crd, crd.DeepCopy()); err != nil {
						t.Errorf("%s, %s: got error %v for a CRD compared with itself, want none", filepath.Base(version), name, err)
					}
					if old := before[name]; old != nil {
						logVerdict(t, filepath.Base(version), Check(old, crd))
					}
				}
				before = after
			}
		})
	}
}

func logVerdict(t *testing.T, to string, err error) {
	t.Helper()
	var unsafe *UnsafeError
	if errors.As(err, &unsafe) {
		t.Logf("to %s: %s: %d violations:\n%s", to, unsafe.Name, len(unsafe.Violations), strings.Join(messages(t, err)[:min(5, len(unsafe.Violations))], "\n"))
	}
}

// TestArgoCD checks an update that was reviewed manually: applications have fewer
// required fields, a version with a conversion webhook is added, and two fields of
// a status are removed.
func TestArgoCD(t *testing.T) {
	folder := filepath.Join(checkout.SharedData(t, "bundles"), "argocd-operator")
	if _, err := os.Stat(folder); err != nil {
		t.Skipf("the package is not available: %v", err)
	}

	old, updated := definitions(t, filepath.Join(folder, "0.5.0")), definitions(t, filepath.Join(folder, "0.8.0"))
	want := map[string][]string{
		"applications.argoproj.io": nil, "applicationsets.argoproj.io": nil, "appprojects.argoproj.io": nil, "argocdexports.argoproj.io": nil,
		"argocds.argoproj.io": {
			`"NoExistingFieldRemoved" validation failed: crd/argocds.argoproj.io version/v1alpha1 field/^.status.dex may not be removed`,
			`"NoExistingFieldRemoved" validation failed: crd/argocds.argoproj.io version/v1alpha1 field/^.status.ssoConfig may not be removed`,
		},
	}

	got := map[string][]string{}
	for name, crd := range updated {
		got[name] = messages(t, Check(old[name], crd))
	}

	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
