package install_test

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/extension/install"
	"github.com/mainstay-dev/mainstay/internal/extension/preflight"
	"github.com/mainstay-dev/mainstay/internal/extension/rollout"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

const greetings = "greetings.hello.example.com"

// TestUnsafeCRD rolls out a bundle for real, and offers an update whose definition lost a
// field: nothing changes until the extension's spec allows it.
func TestUnsafeCRD(t *testing.T) {
	c := env.Client(t, clientgoscheme.AddToScheme, olmv1.AddToScheme, apiextensionsv1.AddToScheme)
	w := newFixture(t, func(controller *install.Controller) {
		controller.Bundles = renaming{controller.Bundles.(*fixture)}
		controller.Preflight = preflight.Checks{preflight.NewCRDChecker(c).Check}
	})
	runRolloutController(t, c)
	w.createNamespace("crds")
	catalog := w.createCatalog("crds", "1.0.0")
	w.CreateForTest(newExtension("crds", "crds"))

	const installed = "True Succeeded Installed bundle quay.io/example/hello:1.0.0" + digest + " successfully"
	w.makeDeploymentAvailable(c, "crds", "hello-operator")
	w.expectCondition("crds", olmv1.TypeInstalled, installed)
	before := w.getGreetingsCRD(c)

	w.setCatalogVersions(catalog, "1.0.0", "2.0.0")
	w.expectCondition("crds", olmv1.TypeProgressing, `True Retrying validating upgrade for CRD "greetings.hello.example.com" failed: `+
		`CustomResourceDefinition greetings.hello.example.com failed upgrade safety validation. `+
		`"NoExistingFieldRemoved" validation failed: crd/greetings.hello.example.com version/v1alpha1 field/^.spec.name may not be removed`+"\n"+
		`"ChangeValidator" validation failed: version "v1alpha1", field "^.spec": new required fields added: [whom]`)
	w.expectCondition("crds", olmv1.TypeInstalled, installed)
	if version := w.getExtension("crds").Status.Install.Bundle.Version; version != "1.0.0" {
		t.Errorf("version %s counts as installed", version)
	}
	if diff := cmp.Diff(before, w.getGreetingsCRD(c)); diff != "" {
		t.Errorf("the definition changed (-before +after):\n%s", diff)
	}

	second := &olmv1.ClusterObjectSet{}
	if err := w.Get(t.Context(), client.ObjectKey{Name: "crds-2"}, second); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the second revision exists, or cannot be read: %v", err)
	}

	ext := w.getExtension("crds")
	w.PatchObject(ext, func() {
		ext.Spec.Install = &olmv1.ClusterExtensionInstallConfig{Preflight: &olmv1.PreflightConfig{
			CRDUpgradeSafety: &olmv1.CRDUpgradeSafetyPreflightConfig{Enforcement: olmv1.CRDUpgradeSafetyEnforcementNone},
		}}
	})
	w.Eventually("the definition is the new one", func() error {
		spec := w.getGreetingsCRD(c).Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		if _, has := spec.Properties["name"]; has {
			return errors.New("it still has the field")
		}
		return nil
	})

	w.makeDeploymentAvailable(c, "crds", "hello-operator")
	w.expectCondition("crds", olmv1.TypeInstalled, strings.Replace(installed, "1.0.0", "2.0.0", 1))

	w.delete(w.getExtension("crds"))
	w.Eventually("the extension's definition is deleted", func() error {
		err := c.Get(t.Context(), client.ObjectKey{Name: greetings}, &apiextensionsv1.CustomResourceDefinition{})
		if err == nil {
			return errors.New("it is there")
		}
		return client.IgnoreNotFound(err)
	})
}

// renaming returns version 2.0.0 of the example bundle: 1.0.0, with a field of the
// definition renamed.
type renaming struct{ *fixture }

func (r renaming) Open(ctx context.Context, image string) (*install.BundleImage, error) {
	repository, found := strings.CutSuffix(image, ":2.0.0")
	if !found {
		return r.fixture.Open(ctx, image)
	}

	original, err := r.filesOfImage(ctx, repository+":1.0.0")
	if err != nil {
		return nil, err
	}

	renamed := fstest.MapFS{}
	err = fs.WalkDir(original, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}

		data, err := fs.ReadFile(original, path)
		if strings.Contains(path, "greetings") {
			data = []byte(strings.NewReplacer("required: [name]", "required: [whom]", "name:\n                  description", "whom:\n                  description").Replace(string(data)))
		}

		renamed[path] = &fstest.MapFile{Data: data}
		return err
	})
	if err != nil {
		return nil, err
	}

	return openBundle(renamed, image)
}

// runRolloutController runs the controller of revisions until the test ends.
func runRolloutController(t *testing.T, c client.Client) {
	t.Helper()
	runControllers(t, c, func(mgr ctrl.Manager) error { return rollout.Setup(mgr, rollout.Options{SystemNamespace: "default"}) })
}

// runControllers runs controllers until the test ends.
func runControllers(t *testing.T, c client.Client, setup func(ctrl.Manager) error) {
	t.Helper()
	(&env.Fixture{Client: c, T: t}).StartManager(env.Manager{Setup: setup})
}

func (w *fixture) getGreetingsCRD(c client.Client) *apiextensionsv1.CustomResourceDefinition {
	w.T.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	w.Must(c.Get(w.T.Context(), client.ObjectKey{Name: greetings}, crd))
	return crd
}

// makeDeploymentAvailable simulates the rollout of a Deployment.
func (w *fixture) makeDeploymentAvailable(c client.Client, namespace, name string) {
	w.T.Helper()
	w.Eventually("the Deployment is available", func() error {
		var deployment appsv1.Deployment
		if err := c.Get(w.T.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &deployment); err != nil {
			return err
		}

		before := deployment.DeepCopy()
		deployment.Status = builder.AvailableStatus(&deployment)
		return c.Status().Patch(w.T.Context(), &deployment, client.MergeFrom(before))
	})
}
