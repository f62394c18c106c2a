package subscription_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// A Subscription leads to a plan with all that its bundle consists of; once the operator is there, the next version
// follows, and then nothing more.
func TestInstallationAndUpdate(t *testing.T) {
	c := start(t)
	address, _ := serve(t, "", release{pkg: "a", version: "1.0.0"}, release{pkg: "a", version: "1.1.0", replaces: "a.v1.0.0"})
	c.catalog(c.global, "c", address)
	sub := c.subscribe("a", startingAt("a.v1.0.0"))

	plan := c.planned(sub, "a.v1.0.0")
	want := []string{"ClusterServiceVersion a.v1.0.0", "ConfigMap extra", "ServiceAccount worker", "Role a.v1.0.0", "RoleBinding a.v1.0.0"}
	if diff := cmp.Diff(want, steps(plan)); diff != "" {
		t.Errorf("steps (-want +got)\n%s", diff)
	}
	if s := plan.Spec; s.Approval != v1alpha1.ApprovalAutomatic || !s.Approved || s.Generation != 1 || !cmp.Equal(s.ClusterServiceVersionNames, []string{"a.v1.0.0"}) {
		t.Errorf("spec of the plan: %+v", s)
	}
	if !strings.HasPrefix(plan.Name, "install-") || plan.Status.Phase != v1alpha1.InstallPlanPhaseInstalling {
		t.Errorf("plan %s in phase %s", plan.Name, plan.Status.Phase)
	}
	if o := plan.OwnerReferences; len(o) != 1 || o[0].UID != sub.UID || *o[0].BlockOwnerDeletion {
		t.Errorf("owners of the plan: %+v", o)
	}
	if sub.Status.State != v1alpha1.SubscriptionStateUpgradePending || sub.Status.InstallPlanRef.UID != plan.UID || sub.Status.Install.UID != plan.UID || sub.Status.InstallPlanGeneration != 1 {
		t.Errorf("status: %+v", sub.Status)
	}

	var csv v1alpha1.ClusterServiceVersion
	c.must(json.Unmarshal([]byte(plan.Status.Plan[0].Resource.Manifest), &csv))
	if csv.Spec.Replaces != "" || csv.Namespace != c.namespace || !strings.HasPrefix(csv.Annotations["operatorframework.io/properties"], `{"properties":[{"type":"olm.package"`) {
		t.Errorf("the ClusterServiceVersion of the plan replaces %q, is in %q and has the annotations %v", csv.Spec.Replaces, csv.Namespace, csv.Annotations)
	}

	c.until(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		return condition(s, v1alpha1.SubscriptionInstallPlanPending).Reason == "Installing"
	})

	c.execute(plan)
	next := c.planned(sub, "a.v1.1.0")
	c.must(json.Unmarshal([]byte(next.Status.Plan[0].Resource.Manifest), &csv))
	if csv.Spec.Replaces != "a.v1.0.0" || next.Spec.Generation != 2 || sub.Status.InstalledCSV != "a.v1.0.0" {
		t.Errorf("the update replaces %q, is number %d, and is made when %q is installed", csv.Spec.Replaces, next.Spec.Generation, sub.Status.InstalledCSV)
	}

	c.execute(next)
	c.until(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		health := condition(s, v1alpha1.SubscriptionCatalogSourcesUnhealthy)
		return s.State == v1alpha1.SubscriptionStateAtLatest && s.InstalledCSV == "a.v1.1.0" && len(s.Conditions) == 1 &&
			health.Status == corev1.ConditionFalse && health.Reason == v1alpha1.AllCatalogSourcesHealthy && health.Message == "all available catalogsources are healthy"
	})
	if n := len(c.plans()); n != 2 {
		t.Errorf("there are %d plans", n)
	}
}

// One Subscription that wants a person's approval makes the plan wait for it.
func TestApproval(t *testing.T) {
	c := start(t)
	address, _ := serve(t, "", release{pkg: "a", version: "1.0.0"})
	c.catalog(c.global, "c", address)
	sub := c.subscribe("a", func(s *v1alpha1.Subscription) { s.Spec.InstallPlanApproval = v1alpha1.ApprovalManual })
	plan := c.planned(sub, "a.v1.0.0")
	if plan.Spec.Approval != v1alpha1.ApprovalManual || plan.Spec.Approved || plan.Status.Phase != v1alpha1.InstallPlanPhaseRequiresApproval {
		t.Errorf("plan: %+v, phase %s", plan.Spec, plan.Status.Phase)
	}

	c.until(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		return condition(s, v1alpha1.SubscriptionInstallPlanPending).Reason == "RequiresApproval"
	})
	// A plan that is deleted is made anew.
	c.must(c.Delete(t.Context(), plan))
	c.until(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		return s.InstallPlanRef != nil && s.InstallPlanRef.UID != plan.UID
	})
	again := c.planned(sub, "a.v1.0.0")
	edit(c, again, func(p *v1alpha1.InstallPlan) { p.Spec.Approved = true })
	// One that fails says why.
	before := again.DeepCopy()
	again.Status.Phase = v1alpha1.InstallPlanPhaseFailed
	again.Status.Conditions = []v1alpha1.InstallPlanCondition{{Type: v1alpha1.InstallPlanInstalled, Status: corev1.ConditionFalse, Reason: "InstallComponentFailed", Message: "no"}}
	c.must(c.Status().Patch(t.Context(), again, client.MergeFrom(before)))
	c.until(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		failed := condition(s, v1alpha1.SubscriptionInstallPlanFailed)
		return failed.Reason == "InstallComponentFailed" && failed.Message == "no" && condition(s, v1alpha1.SubscriptionInstallPlanPending).Type == ""
	})
}

// What an operator needs comes from another catalog, with a Subscription of its own.
func TestDependencyFromAnotherCatalog(t *testing.T) {
	c := start(t)
	first, _ := serve(t, "", release{pkg: "a", version: "1.0.0", properties: []string{requires("B")}})
	second, _ := serve(t, "", release{pkg: "b", version: "2.0.0", properties: []string{provides("B")}})
	c.catalog(c.global, "c", first)
	c.catalog(c.namespace, "d", second)
	sub := c.subscribe("a")
	plan := c.planned(sub, "a.v1.0.0")
	name := "b-stable-d-" + c.namespace
	if all := steps(plan); !has(all, "ClusterServiceVersion b.v2.0.0") || !has(all, "Subscription "+name) {
		t.Fatalf("steps: %v", all)
	}
	if diff := cmp.Diff([]string{"a.v1.0.0", "b.v2.0.0"}, plan.Spec.ClusterServiceVersionNames); diff != "" {
		t.Errorf("names (-want +got)\n%s", diff)
	}

	c.execute(plan)
	made := &v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name}}
	c.until(made, func(s *v1alpha1.SubscriptionStatus) bool {
		return s.InstalledCSV == "b.v2.0.0" && s.State == v1alpha1.SubscriptionStateAtLatest && s.InstallPlanRef != nil && s.InstallPlanRef.Name == plan.Name
	})
	want := v1alpha1.SubscriptionSpec{
		CatalogSource: "d", CatalogSourceNamespace: c.namespace, Package: "b", Channel: stable, StartingCSV: "b.v2.0.0", InstallPlanApproval: v1alpha1.ApprovalAutomatic,
	}
	if diff := cmp.Diff(want, made.Spec); diff != "" {
		t.Errorf("the Subscription to the dependency (-want +got)\n%s", diff)
	}

	c.until(sub, func(s *v1alpha1.SubscriptionStatus) bool { return s.State == v1alpha1.SubscriptionStateAtLatest })
}

// What cannot be chosen is explained, and chosen once it can be.
func TestResolutionFailed(t *testing.T) {
	c := start(t)
	address, stop := serve(t, "", release{pkg: "a", version: "1.0.0", properties: []string{requires("B")}})
	c.catalog(c.global, "c", address)
	sub := c.subscribe("a")
	reason := fmt.Sprintf("constraints not satisfiable: bundle a.v1.0.0 requires an operator providing an API with group: example.com, version: v1, kind: B, "+
		"subscription a exists, subscription a requires c/%s/stable/a.v1.0.0", c.global)
	c.until(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		failed := condition(s, v1alpha1.SubscriptionResolutionFailed)
		return failed.Status == corev1.ConditionTrue && failed.Reason == v1alpha1.ConstraintsNotSatisfiable && failed.Message == reason
	})
	c.eventually(func() error {
		return c.event(func(e *eventsv1.Event) bool {
			return e.Reason == "ResolutionFailed" && e.Regarding.Name == c.namespace && strings.HasPrefix(e.Note, reason+". No catalog") && e.Type == corev1.EventTypeWarning
		})
	})
	// The catalog comes back with what is needed.
	stop()
	serve(t, address, release{pkg: "a", version: "1.0.0", properties: []string{requires("B")}}, release{pkg: "b", version: "1.0.0", properties: []string{provides("B")}})
	c.planned(sub, "a.v1.0.0")
	if failed := condition(&sub.Status, v1alpha1.SubscriptionResolutionFailed); failed.Type != "" {
		t.Errorf("it still says %+v", failed)
	}
}

// A Subscription whose catalog is not there says so, and goes on when it comes.
func TestCatalogThatIsNotThere(t *testing.T) {
	c := start(t)
	sub := c.subscribe("a")
	c.until(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		health, failed := condition(s, v1alpha1.SubscriptionCatalogSourcesUnhealthy), condition(s, v1alpha1.SubscriptionResolutionFailed)
		return health.Status == corev1.ConditionTrue && health.Reason == v1alpha1.NoCatalogSourcesFound && health.Message == "dependency resolution requires at least one catalogsource" &&
			failed.Message == "constraints not satisfiable: no operators found from catalog c in namespace "+c.global+" referenced by subscription a, subscription a exists"
	})
	address, _ := serve(t, "", release{pkg: "a", version: "1.0.0", deprecated: "the bundle is old"})
	catalog := c.catalog(c.global, "c", address)
	plan := c.planned(sub, "a.v1.0.0")
	c.execute(plan)
	// What the catalog deprecates is told of.
	c.until(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		return condition(s, v1alpha1.SubscriptionPackageDeprecated).Message == "olm.package/a: the package is old" &&
			condition(s, v1alpha1.SubscriptionChannelDeprecated).Message == "olm.channel/stable: the channel is old" &&
			condition(s, v1alpha1.SubscriptionBundleDeprecated).Message == "olm.bundle/a.v1.0.0: the bundle is old" &&
			condition(s, v1alpha1.SubscriptionDeprecated).Message == "olm.package/a: the package is old; olm.channel/stable: the channel is old; olm.bundle/a.v1.0.0: the bundle is old"
	})

	// A catalog that goes is missed.
	c.must(c.Delete(t.Context(), catalog))
	c.until(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		health := condition(s, v1alpha1.SubscriptionCatalogSourcesUnhealthy)
		return health.Status == corev1.ConditionTrue && len(s.CatalogHealth) == 0 && condition(s, v1alpha1.SubscriptionResolutionFailed).Reason == v1alpha1.ConstraintsNotSatisfiable
	})
}

// A catalog that cannot be reached stops every choice, and is named.
func TestCatalogThatCannotBeReached(t *testing.T) {
	c := start(t)
	address, _ := serve(t, "", release{pkg: "a", version: "1.0.0"})
	c.catalog(c.global, "c", address)
	gone, stop := serve(t, "")
	stop()
	c.catalog(c.global, "d", gone)
	sub := c.subscribe("a")
	c.until(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		failed, health := condition(s, v1alpha1.SubscriptionResolutionFailed), condition(s, v1alpha1.SubscriptionCatalogSourcesUnhealthy)
		return failed.Reason == v1alpha1.ErrorPreventedResolution && strings.HasPrefix(failed.Message, "error using catalogsource "+c.global+"/d: failed to list bundles: ") &&
			health.Status == corev1.ConditionTrue
	})
	// Global catalogs can be left out.
	group := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "group"}}
	edit(c, group, func(g *operatorsv1.OperatorGroup) {
		g.Annotations = map[string]string{operatorsv1.ExcludeGlobalNamespaceResolutionAnnotation: "true"}
	})
	c.until(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		return strings.HasPrefix(condition(s, v1alpha1.SubscriptionResolutionFailed).Message, "constraints not satisfiable: no operators found from catalog c ")
	})
}

// A namespace has one OperatorGroup, or nothing is chosen.
func TestOperatorGroups(t *testing.T) {
	c := start(t)
	address, _ := serve(t, "", release{pkg: "a", version: "1.0.0"})
	c.catalog(c.global, "c", address)
	second := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "second"}}
	c.must(c.Create(t.Context(), second))
	sub := c.subscribe("a")
	c.until(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		failed := condition(s, v1alpha1.SubscriptionResolutionFailed)
		return failed.Reason == v1alpha1.ErrorPreventedResolution && failed.Message == "found 2 operatorGroups, expected 1"
	})
	c.must(c.Delete(t.Context(), second))
	c.planned(sub, "a.v1.0.0")
}

// A plan that cannot be made is told of, and made once it can be.
func TestPlanThatIsRefused(t *testing.T) {
	c := start(t)
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: c.namespace},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{v1alpha1.GroupVersion.Group}, APIVersions: []string{"*"}, Resources: []string{"installplans"}},
			}}}},
			Validations: []admissionv1.Validation{{Expression: fmt.Sprintf("object.metadata.namespace != %q", c.namespace), Message: "not today"}},
		},
	}

	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: c.namespace},
		Spec:       admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: policy.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
	}
	c.must(c.Create(t.Context(), policy))
	c.must(c.Create(t.Context(), binding))
	t.Cleanup(func() {
		_ = c.Delete(context.Background(), binding)
		_ = c.Delete(context.Background(), policy)
	})
	c.eventually(func() error {
		plan := &v1alpha1.InstallPlan{
			ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "probe"},
			Spec:       v1alpha1.InstallPlanSpec{Approval: v1alpha1.ApprovalManual, ClusterServiceVersionNames: []string{}},
		}
		if err := c.Create(t.Context(), plan, client.DryRunAll); err == nil || !strings.Contains(err.Error(), "not today") {
			return fmt.Errorf("the policy does not hold yet: %w", err)
		}
		return nil
	})

	address, _ := serve(t, "", release{pkg: "a", version: "1.0.0"})
	c.catalog(c.global, "c", address)
	sub := c.subscribe("a")
	c.until(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		failed := condition(s, v1alpha1.SubscriptionBundleUnpackFailed)
		return failed.Reason == v1alpha1.EnsureInstallPlanFailed && strings.HasPrefix(failed.Message, "error ensuring InstallPlan: ") && strings.Contains(failed.Message, "not today")
	})
	c.must(c.Delete(t.Context(), binding))
	c.planned(sub, "a.v1.0.0")
	if failed := condition(&sub.Status, v1alpha1.SubscriptionBundleUnpackFailed); failed.Type != "" {
		t.Errorf("it still says %+v", failed)
	}
}
