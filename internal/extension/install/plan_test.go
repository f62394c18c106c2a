package install_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/crdsafety"
	"github.com/mainstay-dev/mainstay/internal/extension/install"
	"github.com/mainstay-dev/mainstay/internal/extension/preflight"
	"github.com/mainstay-dev/mainstay/internal/rbac"
	"github.com/mainstay-dev/mainstay/internal/testing/golden"
)

// newPlanController returns a controller that reconciles only when the test calls it.
func (w *fixture) newPlanController(checks ...preflight.Check) *install.Controller {
	return &install.Controller{
		Client: w.Client, Reader: w.Client, Catalogs: w, Bundles: w, SystemNamespace: "default", Program: "test", Preflight: preflight.Checks(checks),
	}
}

// reconcile fails if the error is not also in the status.
func (w *fixture) reconcile(c *install.Controller, name string) {
	w.T.Helper()
	// The conditions contain the failure.
	_, _ = c.Reconcile(w.T.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: name}})
}

// getPlan returns the plan of an extension, or nil.
func (w *fixture) getPlan(name string) *corev1.ConfigMap {
	w.T.Helper()
	written := &corev1.ConfigMap{}
	err := w.Get(w.T.Context(), client.ObjectKey{Namespace: "default", Name: "plan-" + name}, written)
	if apierrors.IsNotFound(err) {
		return nil
	}
	w.Must(err)

	return written
}

// mustGetPlan returns the plan of an extension in both forms. It fails if there is none.
func (w *fixture) mustGetPlan(name string) (written *corev1.ConfigMap, fields planFields) {
	w.T.Helper()
	written = w.getPlan(name)
	if written == nil {
		w.T.Fatalf("got no plan of %s", name)
	}

	w.T.Cleanup(func() {
		if err := client.IgnoreNotFound(w.Delete(context.Background(), written)); err != nil {
			w.T.Error(err)
		}
	})
	w.Must(json.Unmarshal([]byte(written.Data[olmv1.PlanJSON]), &fields))

	return written, fields
}

type planFields struct {
	Action   string
	Bundle   struct{ Name string }
	Problems []struct{ Check, Message string }
	Created  []struct{ Name string } `json:"createdExtensions"`
	Missing  []string                `json:"missingDependencies"`
	Objects  *struct{ Added, Changed, Removed, Unchanged int }

	CRDUpgradeSafety string
}

func (p planFields) failedChecks() []string {
	var checks []string
	for _, problem := range p.Problems {
		checks = append(checks, problem.Check)
	}
	return checks
}

// revisionNames returns the names of the revisions of an extension.
func (w *fixture) revisionNames(name string) []string {
	w.T.Helper()
	var sets olmv1.ClusterObjectSetList
	w.Must(w.List(w.T.Context(), &sets, client.MatchingLabels{olmv1.LabelOwnerName: name}))

	names := []string{}
	for i := range sets.Items {
		names = append(names, sets.Items[i].Name+" "+string(sets.Items[i].Spec.LifecycleState))
	}

	return names
}

func (w *fixture) annotatePlan(name, value string) {
	w.T.Helper()
	ext := w.getExtension(name)
	w.PatchObject(ext, func() {
		if value == "" {
			delete(ext.Annotations, olmv1.AnnotationPlan)
		} else {
			metav1.SetMetaDataAnnotation(&ext.ObjectMeta, olmv1.AnnotationPlan, value)
		}
	})
}

// TestPlanOnly plans a new extension, again when the catalog changes, and installs it when
// the annotation is removed.
func TestPlanOnly(t *testing.T) {
	w := newFixtureWithoutController(t)
	c := w.newPlanController(preflight.NewCRDChecker(w.Client).Check)
	w.createNamespace("plan-new")
	catalog := w.createCatalog("plan-new", "1.0.0")
	ext := newExtension("plan-new", "plan-new")
	ext.Annotations = map[string]string{olmv1.AnnotationPlan: olmv1.PlanOnly}
	w.CreateForTest(ext)

	w.reconcile(c, "plan-new")
	w.expectCondition("plan-new", olmv1.TypeProgressing, "True Succeeded Planned only: see ConfigMap default/plan-plan-new")
	w.expectCondition("plan-new", olmv1.TypeInstalled, "False Failed No bundle installed")
	first, fields := w.mustGetPlan("plan-new")
	golden.Check(t, "plan/new.txt", []byte(first.Data[olmv1.PlanText]))
	golden.Check(t, "plan/new.json", []byte(first.Data[olmv1.PlanJSON]))
	if fields.Action != "install" || len(fields.Problems) != 0 {
		t.Errorf("got the plan %+v", fields)
	}
	if got := first.Annotations[olmv1.AnnotationPlanFor]; got != "1 only" || !metav1.IsControlledBy(first, w.getExtension("plan-new")) {
		t.Errorf("got a plan for %q, owned by %v", got, first.OwnerReferences)
	}

	w.reconcile(c, "plan-new")
	if again, _ := w.mustGetPlan("plan-new"); again.ResourceVersion != first.ResourceVersion {
		t.Error("a plan that did not change was written again")
	}

	w.setCatalogVersions(catalog, "1.0.0", "1.1.0")
	w.reconcile(c, "plan-new")
	if _, fields := w.mustGetPlan("plan-new"); fields.Bundle.Name != "hello-operator.v1.1.0" {
		t.Errorf("got a plan to install %s", fields.Bundle.Name)
	}
	if diff := cmp.Diff([]string{}, w.revisionNames("plan-new")); diff != "" {
		t.Errorf("revisions (-want +got):\n%s", diff)
	}

	// A controller that is started later finds the plan.
	w.annotatePlan("plan-new", "")
	w.reconcile(w.newPlanController(), "plan-new")
	if w.getPlan("plan-new") != nil {
		t.Error("the plan still exists")
	}
	if diff := cmp.Diff([]string{"plan-new-1 Active"}, w.revisionNames("plan-new")); diff != "" {
		t.Errorf("revisions (-want +got):\n%s", diff)
	}
}

// TestPlanBeside plans another version of an installed extension, which otherwise follows its
// spec.
func TestPlanBeside(t *testing.T) {
	w := newFixtureWithoutController(t)
	c := w.newPlanController(preflight.NewCRDChecker(w.Client).Check)
	w.createNamespace("plan-update")
	catalog := w.createCatalog("plan-update", "1.0.0")
	ext := newExtension("plan-update", "plan-update")
	ext.Spec.Source.Catalog.Version = "1.0.0"
	w.CreateForTest(ext)
	w.reconcile(c, "plan-update")
	w.markSucceeded(w.waitForRevision("plan-update-1"))
	w.setCatalogVersions(catalog, "1.0.0", "1.1.0")

	w.annotatePlan("plan-update", `{"id":"7","version":"1.1.0"}`)
	w.reconcile(c, "plan-update")
	w.expectCondition("plan-update", olmv1.TypeProgressing, "True Succeeded desired state reached")
	written, fields := w.mustGetPlan("plan-update")
	golden.Check(t, "plan/update.txt", []byte(written.Data[olmv1.PlanText]))
	if got, want := written.Annotations[olmv1.AnnotationPlanFor], `1 {"id":"7","version":"1.1.0"}`; got != want {
		t.Errorf("got a plan for %q, want %q", got, want)
	}
	if fields.Action != "update" || fields.Objects.Changed == 0 || fields.Objects.Unchanged == 0 {
		t.Errorf("got the plan %+v", fields)
	}

	w.annotatePlan("plan-update", `{}`)
	w.reconcile(c, "plan-update")
	if _, fields := w.mustGetPlan("plan-update"); fields.Action != "none" || fields.Bundle.Name != "hello-operator.v1.0.0" {
		t.Errorf("for the spec: got the plan %+v", fields)
	}

	w.annotatePlan("plan-update", `{"config":{"deploymentConfig":{"nodeSelector":{"zone":"a"}}}}`)
	w.reconcile(c, "plan-update")
	if _, fields := w.mustGetPlan("plan-update"); fields.Action != "change" || fields.Objects.Changed != 1 {
		t.Errorf("with another configuration: got the plan %+v, want that the Deployment changes", fields)
	}
	w.annotatePlan("plan-update", `{"config":{"other":1}}`)
	w.reconcile(c, "plan-update")
	if _, fields := w.mustGetPlan("plan-update"); len(fields.Problems) != 1 || !strings.Contains(fields.Problems[0].Message, `unknown field "other"`) {
		t.Errorf("with a wrong configuration: got the plan %+v, want the unknown field", fields)
	}

	// With only a plan, the installed bundle stays, even if the spec changes.
	ext = w.getExtension("plan-update")
	w.PatchObject(ext, func() {
		ext.Annotations[olmv1.AnnotationPlan] = olmv1.PlanOnly
		ext.Spec.Source.Catalog.Version = "1.1.0"
	})
	w.reconcile(c, "plan-update")
	w.expectCondition("plan-update", olmv1.TypeProgressing, "True Succeeded Planned only")
	w.expectCondition("plan-update", olmv1.TypeInstalled, "True Succeeded Installed bundle quay.io/example/hello:1.0.0")
	if _, fields := w.mustGetPlan("plan-update"); fields.Action != "update" {
		t.Errorf("got the plan %+v", fields)
	}
	if diff := cmp.Diff([]string{"plan-update-1 Active"}, w.revisionNames("plan-update")); diff != "" {
		t.Errorf("revisions (-want +got):\n%s", diff)
	}

	w.annotatePlan("plan-update", "")
	w.reconcile(c, "plan-update")
	if w.getPlan("plan-update") != nil {
		t.Error("the plan still exists")
	}

	w.waitForRevision("plan-update-2")

	// While the update is in progress, the replaced revision is still active.
	w.annotatePlan("plan-update", `{"version":"1.0.0"}`)
	w.reconcile(c, "plan-update")
	if _, fields := w.mustGetPlan("plan-update"); fields.Action != "go back" || fields.Objects.Changed != 0 {
		t.Errorf("got the plan %+v", fields)
	}
	if diff := cmp.Diff([]string{"plan-update-1 Active", "plan-update-2 Active"}, w.revisionNames("plan-update")); diff != "" {
		t.Errorf("revisions (-want +got):\n%s", diff)
	}
}

// TestPlanTellsAll: all problems are reported at once, and do not hide other parts of the plan.
func TestPlanTellsAll(t *testing.T) {
	w := newFixtureWithoutController(t)
	lacking := &rbac.MissingError{Gaps: []rbac.Gap{{Namespace: "plan-absent", Rule: rbacv1.PolicyRule{
		APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"create"},
	}}}}
	unsafe := &crdsafety.UnsafeError{Name: greetings, Violations: []crdsafety.Violation{{Validator: "NoExistingFieldRemoved"}}}
	says := func(err error) preflight.Check {
		return func(context.Context, *olmv1.ClusterExtension, preflight.Change) error { return err }
	}
	c := w.newPlanController(says(lacking), says(errors.Join(unsafe, errors.New("the server does not answer"))))
	w.createCatalog("plan-all", "1.0.0")
	ext := newExtension("plan-all", "plan-absent")
	ext.Annotations = map[string]string{olmv1.AnnotationPlan: olmv1.PlanOnly}
	w.CreateForTest(ext)
	w.reconcile(c, "plan-all")
	written, fields := w.mustGetPlan("plan-all")
	if diff := cmp.Diff([]string{"place", "permissions", "crdUpgradeSafety", "preflight"}, fields.failedChecks()); diff != "" {
		t.Errorf("problems (-want +got):\n%s\n%s", diff, written.Data[olmv1.PlanText])
	}
	if fields.Objects == nil || fields.Objects.Added == 0 {
		t.Errorf("the objects are not in the plan: %+v", fields)
	}

	w.annotatePlan("plan-all", `{"crdUpgradeSafety":"None"}`)
	w.reconcile(c, "plan-all")
	if _, fields = w.mustGetPlan("plan-all"); fields.CRDUpgradeSafety != "off" {
		t.Errorf("with crdUpgradeSafety None: got %q for the CRDs, want off", fields.CRDUpgradeSafety)
	}
}

// TestPlanDependencies plans extensions for dependencies, and creates none.
func TestPlanDependencies(t *testing.T) {
	w := newFixtureWithoutController(t)
	c := w.newPlanController()
	w.createNamespace("plan-deps")
	catalog := w.createCatalog("plan-deps")
	w.addPackageVersion(catalog, "plan-provider", "1.0.0", "Lathe")
	w.addPackageVersion(catalog, "plan-user", "1.0.0", "", needsAPI("Lathe"))
	ext := newPackageExtension("plan-user", "plan-deps")
	ext.Annotations = map[string]string{olmv1.AnnotationPlan: olmv1.PlanOnly}
	w.CreateForTest(ext)
	w.reconcile(c, "plan-user")
	if _, fields := w.mustGetPlan("plan-user"); len(fields.Missing) != 1 || len(fields.Created) != 0 || !cmp.Equal(fields.failedChecks(), []string{"dependencies"}) {
		t.Errorf("without consent: got the plan %+v", fields)
	}

	ext = w.getExtension("plan-user")
	w.PatchObject(ext, func() {
		ext.Spec.Install = &olmv1.ClusterExtensionInstallConfig{Dependencies: &olmv1.DependenciesConfig{Policy: olmv1.DependencyPolicyInstall}}
	})
	w.reconcile(c, "plan-user")
	written, fields := w.mustGetPlan("plan-user")
	if len(fields.Created) != 1 || fields.Created[0].Name != "plan-provider" || len(fields.Problems) != 0 {
		t.Errorf("with consent: got the plan %+v", fields)
	}

	golden.Check(t, "plan/dependencies.txt", []byte(written.Data[olmv1.PlanText]))
	var all olmv1.ClusterExtensionList
	if err := w.List(t.Context(), &all); err != nil || len(all.Items) != 1 {
		t.Errorf("got %d extensions, error %v", len(all.Items), err)
	}

	w.CreateForTest(newExtension("plan-provider", "plan-deps"))
	w.reconcile(c, "plan-user")
	if _, fields := w.mustGetPlan("plan-user"); len(fields.Created) != 0 || !cmp.Equal(fields.failedChecks(), []string{"dependencies"}) {
		t.Errorf("with a name in use: got the plan %+v", fields)
	}
}

// TestPlanAsked rejects an unknown value of the annotation: continuing would install what a user
// may only have wanted to plan.
func TestPlanAsked(t *testing.T) {
	w := newFixtureWithoutController(t)
	c := w.newPlanController()
	w.createNamespace("plan-asked")
	w.createCatalog("plan-asked", "1.0.0")
	ext := newExtension("plan-asked", "plan-asked")
	w.CreateForTest(ext)
	const must = `False Blocked annotation mainstay.dev/plan: it must be "only", or a JSON object with some of version, channels, selector, upgradeConstraintPolicy, crdUpgradeSafety and config`
	for _, value := range []string{"yes", "null", "[]", `{"package":"other"}`, `{} {}`, `{"version":1}`} {
		w.annotatePlan("plan-asked", value)
		w.reconcile(c, "plan-asked")
		w.expectCondition("plan-asked", olmv1.TypeProgressing, must)
	}

	w.annotatePlan("plan-asked", `{"upgradeConstraintPolicy":"Any"}`)
	w.reconcile(c, "plan-asked")
	w.expectCondition("plan-asked", olmv1.TypeProgressing, `False Blocked annotation mainstay.dev/plan: upgradeConstraintPolicy "Any": it is CatalogProvided or SelfCertified`)
	w.annotatePlan("plan-asked", `{"crdUpgradeSafety":"Maybe"}`)
	w.reconcile(c, "plan-asked")
	w.expectCondition("plan-asked", olmv1.TypeProgressing, `False Blocked annotation mainstay.dev/plan: crdUpgradeSafety "Maybe": it is None or Strict`)

	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "plan-plan-asked"}}
	w.CreateForTest(foreign)
	w.annotatePlan("plan-asked", olmv1.PlanOnly)
	w.reconcile(c, "plan-asked")
	w.expectCondition("plan-asked", olmv1.TypeProgressing, `False Blocked the plan cannot be written, as ConfigMap "plan-plan-asked" in namespace "default" has another owner`)
	if diff := cmp.Diff([]string{}, w.revisionNames("plan-asked")); diff != "" {
		t.Errorf("revisions (-want +got):\n%s", diff)
	}
}
