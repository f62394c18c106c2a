package install_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/extension/rollout"
	"github.com/mainstay-dev/mainstay/internal/extension/serving"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
	"github.com/mainstay-dev/mainstay/internal/testing/mortal"
)

// TestKilledAtEachStep installs, updates and removes an extension with webhooks by programs that
// are killed: the first after its first write, the next after its second, and so on, until one is
// done. The result must be that of a program that is not killed.
func TestKilledAtEachStep(t *testing.T) {
	w := newFixtureWithoutController(t)
	c := env.Client(t, clientgoscheme.AddToScheme, olmv1.AddToScheme, apiextensionsv1.AddToScheme)
	w.createNamespace("killed")
	w.runDeployments(c, "killed")
	catalog := w.createCatalog("killed")

	journey := func(run func(what string, done func() error)) (installed, updated []string) {
		w.setCatalogVersions(catalog, "1.1.0")
		w.CreateForTest(newExtension("killed", "killed"))
		run("install", func() error { return w.checkVersionReached(c, "killed", "1.1.0", 1) })
		installed = w.captureState(c, "killed")
		w.setCatalogVersions(catalog, "1.1.0", "1.2.0")
		run("update", func() error { return w.checkVersionReached(c, "killed", "1.2.0", 2) })
		updated = w.captureState(c, "killed")
		w.delete(w.getExtension("killed"))
		run("removal", func() error {
			err := w.Get(t.Context(), client.ObjectKey{Name: "killed"}, &olmv1.ClusterExtension{})
			if err == nil {
				return errors.New("the extension is there")
			}
			return client.IgnoreNotFound(err)
		})

		// Secrets are left to the garbage collector, which does not run here.
		left := slices.DeleteFunc(w.captureState(c, "killed"), func(line string) bool { return line[:7] == "Secret " })
		if len(left) > 0 {
			t.Errorf("still existing: %q", left)
		}
		if err := c.DeleteAllOf(t.Context(), &corev1.Secret{}, client.InNamespace("killed")); err != nil {
			t.Fatal(err)
		}

		return installed, updated
	}

	stop := w.startMortal(c, 1<<30)
	wantInstalled, wantUpdated := journey(func(what string, done func() error) { w.Eventually(what+" without a kill", done) })
	stop.Kill()

	deaths := 0
	gotInstalled, gotUpdated := journey(func(what string, done func() error) {
		for writes := 1; done() != nil; writes++ {
			if writes > 100 {
				t.Fatalf("%s: not done after 100 writes of one program: %v", what, done())
			}

			life := w.startMortal(c, int64(writes))
			w.Eventually(what+" or the program is killed", func() error {
				if life.IsDead() {
					return nil
				}
				return done()
			})

			life.Kill()
			deaths++
		}
	})
	if diff := cmp.Diff(wantInstalled, gotInstalled); diff != "" {
		t.Errorf("installed (-without +with kills):\n%s", diff)
	}
	if diff := cmp.Diff(wantUpdated, gotUpdated); diff != "" {
		t.Errorf("updated (-without +with kills):\n%s", diff)
	}

	t.Logf("%d programs were killed", deaths)
	if deaths < 10 {
		t.Errorf("got %d killed programs, too few for this test", deaths)
	}
}

// TestRecreatedWhileTheOldRevisionGoes recreates an extension while a revision of the
// former extension with the same name is still being removed.
func TestRecreatedWhileTheOldRevisionGoes(t *testing.T) {
	w := newFixture(t)
	w.createNamespace("again")
	w.createCatalog("again", "1.0.0")
	first := newExtension("again", "again")
	w.CreateForTest(first)
	old := w.waitForRevision("again-1")
	w.markSucceeded(old)
	w.expectCondition("again", olmv1.TypeInstalled, "True")

	w.PatchObject(old, func() { old.Finalizers = append(old.Finalizers, "example.com/slow") })
	ext := w.getExtension("again")
	w.delete(ext)
	w.Eventually("the old revision is being deleted", func() error {
		if w.waitForRevision("again-1").DeletionTimestamp.IsZero() {
			return errors.New("it stays")
		}
		return nil
	})

	// A user removes the finalizers.
	ext = w.getExtension("again")
	w.PatchObject(ext, func() { ext.Finalizers = nil })
	w.Eventually("the extension is deleted", func() error {
		err := w.Get(t.Context(), client.ObjectKey{Name: "again"}, &olmv1.ClusterExtension{})
		if err == nil {
			return errors.New("it is there")
		}
		return client.IgnoreNotFound(err)
	})

	w.CreateForTest(newExtension("again", "again"))
	w.expectCondition("again", olmv1.TypeProgressing, "True Retrying waiting until revision again-1")
	w.expectCondition("again", olmv1.TypeInstalled, "False Failed No bundle installed")

	old = w.waitForRevision("again-1")
	w.PatchObject(old, func() { old.Finalizers = nil })
	w.Eventually("the new extension has a revision of its own", func() error {
		if owner := w.waitForRevision("again-1").OwnerReferences[0].UID; owner == first.UID {
			return errors.New("it is the old one")
		}
		return nil
	})

	w.markSucceeded(w.waitForRevision("again-1"))
	w.expectCondition("again", olmv1.TypeInstalled, "True Succeeded")
}

// startMortal starts a program with all controllers of extensions, which is killed after a number of
// writes.
func (w *fixture) startMortal(c client.Client, writes int64) *mortal.Process {
	w.T.Helper()
	return mortal.Start(w.T.Context(), env.Start(w.T), writes, func(ctx context.Context, connection *rest.Config) {
		mgr, err := env.NewManager(connection, ctrl.Options{Scheme: c.Scheme(), GracefulShutdownTimeout: ptr.To(time.Duration(0))}, w.setUpAll)
		if err == nil { // The objects on the cluster show whether it works.
			_ = mgr.Start(ctx)
		}
	})
}

// setUpAll adds all controllers of extensions.
func (w *fixture) setUpAll(mgr ctrl.Manager) error {
	return errors.Join(w.newController(mgr).SetupWithManager(mgr),
		rollout.Setup(mgr, rollout.Options{SystemNamespace: "default"}), serving.Setup(mgr, serving.Options{}))
}

// checkVersionReached returns an error unless a version is installed, nothing else is active, and
// the status is about that version.
func (w *fixture) checkVersionReached(c client.Client, name, version string, revision int64) error {
	var ext olmv1.ClusterExtension
	if err := c.Get(w.T.Context(), client.ObjectKey{Name: name}, &ext); err != nil {
		return err
	}
	if ext.Status.Install == nil || ext.Status.Install.Bundle.Version != version || len(ext.Status.ActiveRevisions) != 1 {
		return fmt.Errorf("got the status %+v", ext.Status)
	}

	var sets olmv1.ClusterObjectSetList
	if err := c.List(w.T.Context(), &sets, client.MatchingLabels{olmv1.LabelOwnerName: name}); err != nil {
		return err
	}

	for _, set := range sets.Items {
		for _, condition := range set.Status.Conditions {
			archived := set.Spec.Revision < revision
			if condition.Type == olmv1.TypeProgressing && archived && condition.Reason != olmv1.ReasonArchived {
				return fmt.Errorf("revision %s: got reason %s", set.Name, condition.Reason)
			}
		}
	}

	for _, condition := range ext.Status.Conditions {
		if (condition.Type == olmv1.TypeProgressing && condition.Reason != olmv1.ReasonSucceeded) || (condition.Type == olmv1.TypeAvailable && condition.Status != "True") {
			return fmt.Errorf("%s is %s: %s", condition.Type, condition.Reason, condition.Message)
		}
	}

	return nil
}

// captureState lists all objects of an extension, without UIDs, times and certificates, which
// differ between two runs.
func (w *fixture) captureState(c client.Client, name string) []string {
	w.T.Helper()
	var lines []string
	for _, kind := range []schema.GroupVersionKind{
		olmv1.GroupVersion.WithKind(olmv1.ClusterExtensionKind),
		olmv1.GroupVersion.WithKind(olmv1.ClusterObjectSetKind),
		apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"),
		corev1.SchemeGroupVersion.WithKind("Secret"),
		corev1.SchemeGroupVersion.WithKind("Service"),
		corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
		appsv1.SchemeGroupVersion.WithKind("Deployment"),
		rbacv1.SchemeGroupVersion.WithKind("ClusterRole"),
		rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"),
		{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingWebhookConfiguration"},
	} {
		var list unstructured.UnstructuredList
		list.SetGroupVersionKind(kind)
		w.Must(c.List(w.T.Context(), &list))
		for i := range list.Items {
			object := &list.Items[i]
			if object.GetLabels()[olmv1.LabelOwnerName] != name && (kind.Kind != olmv1.ClusterExtensionKind || object.GetName() != name) {
				continue
			}
			forEachClientConfig(object, func(config map[string]any) { config["caBundle"] = config["caBundle"] != nil })
			lines = append(lines, fmt.Sprintf("%s %s/%s %v %v %v %v", kind.Kind, object.GetNamespace(), object.GetName(), object.GetAnnotations(),
				object.GetFinalizers(), contentWithoutServerFields(object), conditionTexts(object)))
		}
	}

	return lines
}

// contentWithoutServerFields returns an object without the fields that the API server or the
// issuer sets.
func contentWithoutServerFields(object *unstructured.Unstructured) map[string]any {
	result := maps.Clone(object.Object)
	for _, field := range []string{"metadata", "status", "data"} {
		delete(result, field)
	}

	if spec, ok := result["spec"].(map[string]any); ok {
		delete(spec, "clusterIP")
		delete(spec, "clusterIPs")
	}
	return result
}

// conditionTexts returns the conditions of an object, without times.
func conditionTexts(object *unstructured.Unstructured) []string {
	var result []string
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, item := range conditions {
		condition, _ := item.(map[string]any)
		result = append(result, fmt.Sprint(condition["type"], " ", condition["status"], " ", condition["reason"], " ", condition["message"]))
	}

	slices.Sort(result)
	return result
}
