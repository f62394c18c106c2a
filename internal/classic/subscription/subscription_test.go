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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// A Subscription leads to an InstallPlan with all objects of its bundle. Once the operator is installed, an InstallPlan
// for the next version follows, and then no more.
func TestInstallationAndUpdate(t *testing.T) {
	c := newFixture(t)
	address, _ := serveCatalog(t, "", catalogRelease{pkg: "a", version: "1.0.0"}, catalogRelease{pkg: "a", version: "1.1.0", replaces: "a.v1.0.0"})
	c.createCatalog(c.global, "c", address)
	sub := c.createSubscription("a", startingAt("a.v1.0.0"))

	plan := c.waitForPlan(sub, "a.v1.0.0")
	want := []string{"ClusterServiceVersion a.v1.0.0", "ConfigMap extra", "ServiceAccount worker", "Role a.v1.0.0", "RoleBinding a.v1.0.0"}
	if diff := cmp.Diff(want, steps(plan)); diff != "" {
		t.Errorf("steps (-want +got)\n%s", diff)
	}
	if s := plan.Spec; s.Approval != v1alpha1.ApprovalAutomatic || !s.Approved || s.Generation != 1 || !cmp.Equal(s.ClusterServiceVersionNames, []string{"a.v1.0.0"}) {
		t.Errorf("got the spec %+v of the plan", s)
	}
	if !strings.HasPrefix(plan.Name, "install-") || plan.Status.Phase != v1alpha1.InstallPlanPhaseInstalling {
		t.Errorf("got plan %s in phase %s", plan.Name, plan.Status.Phase)
	}
	if o := plan.OwnerReferences; len(o) != 1 || o[0].UID != sub.UID || *o[0].BlockOwnerDeletion {
		t.Errorf("got the owners %+v of the plan", o)
	}
	if sub.Status.State != v1alpha1.SubscriptionStateUpgradePending || sub.Status.InstallPlanRef.UID != plan.UID || sub.Status.Install.UID != plan.UID || sub.Status.InstallPlanGeneration != 1 {
		t.Errorf("status: %+v", sub.Status)
	}

	var csv v1alpha1.ClusterServiceVersion
	c.Must(json.Unmarshal([]byte(plan.Status.Plan[0].Resource.Manifest), &csv))
	if csv.Spec.Replaces != "" || csv.Namespace != c.namespace || !strings.HasPrefix(csv.Annotations["operatorframework.io/properties"], `{"properties":[{"type":"olm.package"`) {
		t.Errorf("got a ClusterServiceVersion that replaces %q, is in %q and has the annotations %v", csv.Spec.Replaces, csv.Namespace, csv.Annotations)
	}

	c.waitForStatus(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		return condition(s, v1alpha1.SubscriptionInstallPlanPending).Reason == "Installing"
	})

	c.executePlan(plan)
	next := c.waitForPlan(sub, "a.v1.1.0")
	c.Must(json.Unmarshal([]byte(next.Status.Plan[0].Resource.Manifest), &csv))
	if csv.Spec.Replaces != "a.v1.0.0" || next.Spec.Generation != 2 || sub.Status.InstalledCSV != "a.v1.0.0" {
		t.Errorf("got an update that replaces %q, has generation %d, and was created when %q was installed", csv.Spec.Replaces, next.Spec.Generation, sub.Status.InstalledCSV)
	}

	c.executePlan(next)
	c.waitForStatus(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		health := condition(s, v1alpha1.SubscriptionCatalogSourcesUnhealthy)
		return s.State == v1alpha1.SubscriptionStateAtLatest && s.InstalledCSV == "a.v1.1.0" && len(s.Conditions) == 1 &&
			health.Status == corev1.ConditionFalse && health.Reason == v1alpha1.AllCatalogSourcesHealthy && health.Message == "all available catalogsources are healthy"
	})
	if n := len(c.listPlans()); n != 2 {
		t.Errorf("got %d plans", n)
	}
}

// If one Subscription requires manual approval, the InstallPlan waits for it.
func TestApproval(t *testing.T) {
	c := newFixture(t)
	address, _ := serveCatalog(t, "", catalogRelease{pkg: "a", version: "1.0.0"})
	c.createCatalog(c.global, "c", address)
	sub := c.createSubscription("a", func(s *v1alpha1.Subscription) { s.Spec.InstallPlanApproval = v1alpha1.ApprovalManual })
	plan := c.waitForPlan(sub, "a.v1.0.0")
	if plan.Spec.Approval != v1alpha1.ApprovalManual || plan.Spec.Approved || plan.Status.Phase != v1alpha1.InstallPlanPhaseRequiresApproval {
		t.Errorf("got the plan %+v in phase %s", plan.Spec, plan.Status.Phase)
	}

	c.waitForStatus(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		return condition(s, v1alpha1.SubscriptionInstallPlanPending).Reason == "RequiresApproval"
	})
	// A deleted InstallPlan is recreated.
	c.Must(c.Delete(t.Context(), plan))
	c.waitForStatus(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		return s.InstallPlanRef != nil && s.InstallPlanRef.UID != plan.UID
	})
	again := c.waitForPlan(sub, "a.v1.0.0")
	env.EditObject(c.Fixture, again, func(p *v1alpha1.InstallPlan) { p.Spec.Approved = true })
	// A failed InstallPlan is reported with the cause.
	before := again.DeepCopy()
	again.Status.Phase = v1alpha1.InstallPlanPhaseFailed
	again.Status.Conditions = []v1alpha1.InstallPlanCondition{{Type: v1alpha1.InstallPlanInstalled, Status: corev1.ConditionFalse, Reason: "InstallComponentFailed", Message: "no"}}
	c.Must(c.Status().Patch(t.Context(), again, client.MergeFrom(before)))
	c.waitForStatus(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		failed := condition(s, v1alpha1.SubscriptionInstallPlanFailed)
		return failed.Reason == "InstallComponentFailed" && strings.HasPrefix(failed.Message, "no. ") && condition(s, v1alpha1.SubscriptionInstallPlanPending).Type == ""
	})
}

// A dependency is installed from another catalog, with a Subscription of its own.
func TestDependencyFromAnotherCatalog(t *testing.T) {
	c := newFixture(t)
	first, _ := serveCatalog(t, "", catalogRelease{pkg: "a", version: "1.0.0", properties: []string{requires("B")}})
	second, _ := serveCatalog(t, "", catalogRelease{pkg: "b", version: "2.0.0", properties: []string{provides("B")}})
	c.createCatalog(c.global, "c", first)
	c.createCatalog(c.namespace, "d", second)
	sub := c.createSubscription("a")
	plan := c.waitForPlan(sub, "a.v1.0.0")
	name := "b-stable-d-" + c.namespace
	if all := steps(plan); !has(all, "ClusterServiceVersion b.v2.0.0") || !has(all, "Subscription "+name) {
		t.Fatalf("steps: %v", all)
	}
	if diff := cmp.Diff([]string{"a.v1.0.0", "b.v2.0.0"}, plan.Spec.ClusterServiceVersionNames); diff != "" {
		t.Errorf("names (-want +got)\n%s", diff)
	}

	c.executePlan(plan)
	made := &v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name}}
	c.waitForStatus(made, func(s *v1alpha1.SubscriptionStatus) bool {
		return s.InstalledCSV == "b.v2.0.0" && s.State == v1alpha1.SubscriptionStateAtLatest && s.InstallPlanRef != nil && s.InstallPlanRef.Name == plan.Name
	})
	want := v1alpha1.SubscriptionSpec{
		CatalogSource: "d", CatalogSourceNamespace: c.namespace, Package: "b", Channel: stable, StartingCSV: "b.v2.0.0", InstallPlanApproval: v1alpha1.ApprovalAutomatic,
	}
	if diff := cmp.Diff(want, made.Spec); diff != "" {
		t.Errorf("the Subscription to the dependency (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"operators.coreos.com/b." + c.namespace: ""}, made.Labels); diff != "" {
		t.Errorf("labels of the Subscription to the dependency (-want +got)\n%s", diff)
	}

	c.waitForStatus(sub, func(s *v1alpha1.SubscriptionStatus) bool { return s.State == v1alpha1.SubscriptionStateAtLatest })
}

// A failed resolution is explained, and succeeds once it is possible.
func TestResolutionFailed(t *testing.T) {
	c := newFixture(t)
	failures, successes := c.countResolutions("failed"), c.countResolutions("succeeded")
	address, stop := serveCatalog(t, "", catalogRelease{pkg: "a", version: "1.0.0", properties: []string{requires("B")}})
	c.createCatalog(c.global, "c", address)
	sub := c.createSubscription("a")
	reason := fmt.Sprintf("constraints not satisfiable: bundle a.v1.0.0 requires an operator providing an API with group: example.com, version: v1, kind: B, "+
		"subscription a exists, subscription a requires c/%s/stable/a.v1.0.0", c.global)
	c.waitForStatus(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		failed := condition(s, v1alpha1.SubscriptionResolutionFailed)
		return failed.Status == corev1.ConditionTrue && failed.Reason == v1alpha1.ConstraintsNotSatisfiable &&
			strings.HasPrefix(failed.Message, reason+`. Subscription "a" cannot be satisfied. No catalog available to this namespace provides what "a.v1.0.0" requires: add such a catalog`)
	})
	c.waitForEvent("ResolutionFailed", c.namespace, reason+`. Subscription "a"`)
	c.waitForEvent("ResolutionFailed", sub.Name, reason+`. Subscription "a"`)
	// Another message results in another event.
	env.EditObject(c.Fixture, sub, func(s *v1alpha1.Subscription) { s.Spec.Channel = "none" })
	const other = "constraints not satisfiable: no operators found in channel none of package a in the catalog referenced by subscription a, subscription a exists. " +
		`Subscription "a": package "a" has the channels stable; correct spec.channel`
	c.waitForEvent("ResolutionFailed", c.namespace, other)
	c.waitForEvent("ResolutionFailed", sub.Name, other)
	env.EditObject(c.Fixture, sub, func(s *v1alpha1.Subscription) { s.Spec.Channel = stable })
	// The catalog is served again with the required bundle.
	stop()
	serveCatalog(t, address, catalogRelease{pkg: "a", version: "1.0.0", properties: []string{requires("B")}}, catalogRelease{pkg: "b", version: "1.0.0", properties: []string{provides("B")}})
	c.waitForPlan(sub, "a.v1.0.0")
	if failed := condition(&sub.Status, v1alpha1.SubscriptionResolutionFailed); failed.Type != "" {
		t.Errorf("got the condition %+v, want none", failed)
	}
	if failed, succeeded := c.countResolutions("failed")-failures, c.countResolutions("succeeded")-successes; failed == 0 || succeeded == 0 {
		t.Errorf("olm_resolution_duration_seconds has %d failed and %d succeeded resolutions, want both", failed, succeeded)
	}
}

// countResolutions returns the number of resolutions of the process with an outcome, from the metric.
func (c *fixture) countResolutions(outcome string) uint64 {
	c.T.Helper()
	families, err := metrics.Registry.Gather()
	c.Must(err)
	for _, family := range families {
		if family.GetName() != "olm_resolution_duration_seconds" {
			continue
		}
		for _, m := range family.GetMetric() {
			if m.GetLabel()[0].GetValue() == outcome {
				return m.GetSummary().GetSampleCount()
			}
		}
	}
	return 0
}

// A Subscription reports that its catalog is missing, and continues when it is created.
func TestMissingCatalog(t *testing.T) {
	c := newFixture(t)
	sub := c.createSubscription("a")
	c.waitForStatus(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		health, failed := condition(s, v1alpha1.SubscriptionCatalogSourcesUnhealthy), condition(s, v1alpha1.SubscriptionResolutionFailed)
		return health.Status == corev1.ConditionTrue && health.Reason == v1alpha1.NoCatalogSourcesFound && health.Message == "dependency resolution requires at least one catalogsource" &&
			strings.HasPrefix(failed.Message, "constraints not satisfiable: no operators found from catalog c in namespace "+c.global+" referenced by subscription a, subscription a exists. ")
	})
	address, _ := serveCatalog(t, "", catalogRelease{pkg: "a", version: "1.0.0", deprecated: "the bundle is old"})
	catalog := c.createCatalog(c.global, "c", address)
	plan := c.waitForPlan(sub, "a.v1.0.0")
	c.executePlan(plan)
	// Deprecations of the catalog are reported.
	c.waitForStatus(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		return condition(s, v1alpha1.SubscriptionPackageDeprecated).Message == "olm.package/a: the package is old" &&
			condition(s, v1alpha1.SubscriptionChannelDeprecated).Message == "olm.channel/stable: the channel is old" &&
			condition(s, v1alpha1.SubscriptionBundleDeprecated).Message == "olm.bundle/a.v1.0.0: the bundle is old" &&
			condition(s, v1alpha1.SubscriptionDeprecated).Message == "olm.package/a: the package is old; olm.channel/stable: the channel is old; olm.bundle/a.v1.0.0: the bundle is old"
	})

	// A deleted catalog is reported as missing.
	c.Must(c.Delete(t.Context(), catalog))
	c.waitForStatus(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		health := condition(s, v1alpha1.SubscriptionCatalogSourcesUnhealthy)
		return health.Status == corev1.ConditionTrue && len(s.CatalogHealth) == 0 && condition(s, v1alpha1.SubscriptionResolutionFailed).Reason == v1alpha1.ConstraintsNotSatisfiable
	})
}

// A namespace without exactly one OperatorGroup is not resolved.
func TestOperatorGroups(t *testing.T) {
	c := newFixture(t)
	address, _ := serveCatalog(t, "", catalogRelease{pkg: "a", version: "1.0.0"})
	c.createCatalog(c.global, "c", address)
	second := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "second"}}
	c.Must(c.Create(t.Context(), second))
	sub := c.createSubscription("a")
	c.waitForStatus(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		failed := condition(s, v1alpha1.SubscriptionResolutionFailed)
		return failed.Reason == v1alpha1.ErrorPreventedResolution &&
			failed.Message == "found 2 operatorGroups, expected 1. Delete all but one of the OperatorGroups group, second in namespace "+c.namespace+"."
	})
	c.Must(c.Delete(t.Context(), second))
	c.waitForPlan(sub, "a.v1.0.0")
}

// An InstallPlan that the API server rejects is reported, and created once it is accepted.
func TestRejectedInstallPlan(t *testing.T) {
	c := newFixture(t)
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
	c.Must(c.Create(t.Context(), policy))
	c.Must(c.Create(t.Context(), binding))
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

	address, _ := serveCatalog(t, "", catalogRelease{pkg: "a", version: "1.0.0"})
	c.createCatalog(c.global, "c", address)
	sub := c.createSubscription("a")
	c.waitForStatus(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		failed := condition(s, v1alpha1.SubscriptionBundleUnpackFailed)
		return failed.Reason == v1alpha1.EnsureInstallPlanFailed && strings.HasPrefix(failed.Message, "error ensuring InstallPlan: ") && strings.Contains(failed.Message, "not today")
	})
	c.Must(c.Delete(t.Context(), binding))
	c.waitForPlan(sub, "a.v1.0.0")
	if failed := condition(&sub.Status, v1alpha1.SubscriptionBundleUnpackFailed); failed.Type != "" {
		t.Errorf("got the condition %+v, want none", failed)
	}
}
