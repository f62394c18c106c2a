package group_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/membership"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// A group determines its targets, records them in its operators and namespaces, and follows changes.
func TestTargetsOfGroup(t *testing.T) {
	c := newFixture(t)
	at := uniqueName("targets")
	for _, name := range []string{at + "-home", at + "-a"} {
		c.createNamespace(name, at+"=yes")
	}

	c.createNamespace(at + "-b")
	g := c.createGroup(at+"-home", targets(at+"-b", at+"-a", at+"-missing"))
	csv := c.createCSV(at+"-home", "targets", v1alpha1.CSVPhaseSucceeded)
	has := func(wanted ...string) func() bool {
		return func() bool {
			now := c.getGroup(at + "-home")
			c.Find(csv, at+"-home", "targets")
			return slices.Equal(now.Status.Namespaces, wanted) && now.Status.LastUpdated != nil &&
				csv.Annotations["olm.targetNamespaces"] == strings.Join(wanted, ",") &&
				csv.Annotations["olm.operatorGroup"] == "og" && csv.Annotations["olm.operatorNamespace"] == at+"-home"
		}
	}

	label := "olm.operatorgroup.uid/" + string(g.UID)
	labelled := func(names ...string) func() bool {
		return func() bool {
			for _, name := range []string{at + "-home", at + "-a", at + "-b", at + "-later"} {
				if slices.Contains(c.listGroupLabels(name), label) != slices.Contains(names, name) {
					return false
				}
			}
			return true
		}
	}

	c.EventuallyTrue("the list", has(at+"-a", at+"-b", at+"-missing"), nil)
	c.EventuallyTrue("the labels", labelled(at+"-a", at+"-b"), nil)

	env.EditObject(c.Fixture, g, func(g *operatorsv1.OperatorGroup) {
		g.Spec.TargetNamespaces, g.Spec.Selector = nil, &metav1.LabelSelector{MatchLabels: map[string]string{at: "yes"}}
	})
	c.EventuallyTrue("the selector", has(at+"-a", at+"-home"), nil)
	c.EventuallyTrue("the labels", labelled(at+"-a", at+"-home"), nil)
	c.createNamespace(at+"-later", at+"=yes")
	c.EventuallyTrue("a namespace that is created later", has(at+"-a", at+"-home", at+"-later"), nil)
	env.EditObject(c.Fixture, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: at + "-a"}}, func(n *corev1.Namespace) { delete(n.Labels, at) })
	c.EventuallyTrue("a namespace that loses its label", has(at+"-home", at+"-later"), nil)
	c.EventuallyTrue("the labels", labelled(at+"-home", at+"-later"), nil)
	// Manual changes of the labels are reverted.
	env.EditObject(c.Fixture, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: at + "-later"}}, func(n *corev1.Namespace) {
		delete(n.Labels, label)
		n.Labels["olm.operatorgroup.uid/none"] = ""
	})
	c.EventuallyTrue("the labels are restored", func() bool { return slices.Equal(c.listGroupLabels(at+"-later"), []string{label}) }, nil)

	env.EditObject(c.Fixture, g, func(g *operatorsv1.OperatorGroup) { g.Spec.Selector = nil })
	c.EventuallyTrue("all namespaces", has(""), nil)
	c.EventuallyTrue("no labels", labelled(), nil)
	env.EditObject(c.Fixture, g, targets(at+"-b"))
	c.EventuallyTrue("one", labelled(at+"-b"), nil)
	c.Must(c.Delete(t.Context(), g))
	c.EventuallyTrue("no labels after the deletion", labelled(), nil)
}

// Copied CSVs are not annotated.
func TestCopiesAreNoMembers(t *testing.T) {
	c := newFixture(t)
	at := uniqueName("nomembers")
	c.createNamespace(at)
	copied := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{
		Namespace: at, Name: "copy", Annotations: map[string]string{"olm.operatorNamespace": "elsewhere", "olm.operatorGroup": "other"},
	}}
	copied.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = []v1alpha1.StrategyDeploymentSpec{}
	c.Must(c.Create(t.Context(), copied))
	c.createGroup(at)
	own := c.createCSV(at, "own", v1alpha1.CSVPhaseSucceeded)
	c.EventuallyTrue("the other is a member", func() bool {
		c.Find(own, at, "own")
		return own.Annotations["olm.operatorGroup"] == "og"
	}, nil)
	c.Find(copied, at, "copy")
	if copied.Annotations["olm.operatorGroup"] != "other" {
		t.Errorf("the copy has the annotations %v", copied.Annotations)
	}
}

// Multiple groups in a namespace all have the condition, and none applies.
func TestMultipleGroups(t *testing.T) {
	c := newFixture(t)
	at := uniqueName("several")
	c.createNamespace(at)
	c.createGroup(at)
	c.EventuallyTrue("the first", func() bool { return c.getGroup(at).Status.LastUpdated != nil }, nil)
	second := c.createGroup(at, func(g *operatorsv1.OperatorGroup) { g.Name = "second" }, targets(at))
	several := func(name string) bool {
		g := &operatorsv1.OperatorGroup{}
		c.Find(g, at, name)
		condition := meta.FindStatusCondition(g.Status.Conditions, "MultipleOperatorGroup")
		return condition != nil && condition.Status == metav1.ConditionTrue && condition.Reason == "MultipleOperatorGroupsFound" &&
			condition.Message == "Multiple OperatorGroup found in the same namespace"
	}

	c.EventuallyTrue("both report it", func() bool { return several("og") && several("second") }, nil)
	if _, err := membership.OnlyGroupOf(t.Context(), c, at); err == nil || !strings.Contains(err.Error(), "more than one OperatorGroup") {
		t.Errorf("got error %v", err)
	}

	c.Must(c.Delete(t.Context(), second))
	c.EventuallyTrue("the remaining one has no condition", func() bool { return len(c.getGroup(at).Status.Conditions) == 0 }, nil)
	if g, err := membership.OnlyGroupOf(t.Context(), c, at); err != nil || g.Name != "og" {
		t.Errorf("got group %v, error %v", g, err)
	}
	if _, err := membership.OnlyGroupOf(t.Context(), c, "default"); err == nil || !strings.Contains(err.Error(), "no OperatorGroup") {
		t.Errorf("got error %v", err)
	}
}

// The ServiceAccount of a group.
func TestServiceAccount(t *testing.T) {
	c := newFixture(t)
	at := uniqueName("account")
	c.createNamespace(at)
	g := c.createGroup(at, targets(at), func(g *operatorsv1.OperatorGroup) { g.Spec.ServiceAccountName = "installer" })
	c.EventuallyTrue("the account is missing", func() bool {
		condition := meta.FindStatusCondition(c.getGroup(at).Status.Conditions, "OperatorGroupServiceAccount")
		return condition != nil && condition.Status == metav1.ConditionTrue && condition.Reason == "ServiceAccountNotFound" &&
			condition.Message == "ServiceAccount installer not found" && c.getGroup(at).Status.ServiceAccountRef == nil
	}, nil)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: at, Name: "installer"}}
	c.Must(c.Create(t.Context(), account))
	want := &corev1.ObjectReference{APIVersion: "v1", Kind: "ServiceAccount", Namespace: at, Name: "installer", UID: account.UID}
	c.EventuallyTrue("the account exists", func() bool {
		now := c.getGroup(at)
		c.Find(account, at, "installer")
		return cmp.Equal(want, now.Status.ServiceAccountRef) && len(now.Status.Conditions) == 0 && account.Labels["olm.managed"] == "true"
	}, nil)
	c.Must(c.Delete(t.Context(), account))
	c.EventuallyTrue("the account is no longer referenced", func() bool { return c.getGroup(at).Status.ServiceAccountRef == nil }, nil)
	env.EditObject(c.Fixture, g, func(g *operatorsv1.OperatorGroup) { g.Spec.ServiceAccountName = "" })
	c.EventuallyTrue("no account is configured", func() bool { return len(c.getGroup(at).Status.Conditions) == 0 }, nil)
}

// A group has ClusterRoles that aggregate the access to its APIs.
func TestGroupRoles(t *testing.T) {
	c := newFixture(t)
	at := uniqueName("groles")
	c.createNamespace(at)
	g := c.createGroup(at, targets(at), func(g *operatorsv1.OperatorGroup) {
		g.Annotations = map[string]string{"olm.providedAPIs": "Listed.v1.example.com"}
		g.Spec.StaticProvidedAPIs = true
	})
	csv := c.createCSV(at, "groles", v1alpha1.CSVPhasePending, "Owned")
	roles := func() map[string]rbacv1.ClusterRole {
		var list rbacv1.ClusterRoleList
		c.Must(c.List(t.Context(), &list, client.MatchingLabels{
			"olm.owner": "og", "olm.owner.namespace": at, "olm.owner.kind": "OperatorGroup", "olm.managed": "true",
		}))
		byName := map[string]rbacv1.ClusterRole{}
		for _, role := range list.Items {
			byName[role.Name] = role
		}

		return byName
	}

	// fnv64a of Listed.v1.example.com and Owned.v1.groles.example.com; hash62 of NAMESPACE/og/<suffix>.
	gathers := func(suffix string, apis ...string) func() bool {
		name := "olm.og.og." + suffix + "-" + csvinfo.TextHash(at+"/og/"+suffix)
		return func() bool {
			role, ok := roles()[name]
			var keys []string
			if ok && role.AggregationRule != nil {
				for _, s := range role.AggregationRule.ClusterRoleSelectors {
					for key, value := range s.MatchLabels {
						keys = append(keys, key+"="+value)
					}
				}
			}

			var want []string
			for api := range csvinfo.ParseAPIs(strings.Join(apis, ",")) {
				want = append(want, "olm.opgroup.permissions/aggregate-to-"+csvinfo.APIHash(api)+"-"+suffix+"=true")
			}

			slices.Sort(want)
			return ok && slices.Equal(keys, want)
		}
	}

	for _, suffix := range []string{"admin", "edit", "view"} {
		c.EventuallyTrue(suffix, gathers(suffix, "Listed.v1.example.com", "Owned.v1.groles.example.com"), nil)
	}

	if n := len(roles()); n != 3 {
		t.Errorf("got %d roles", n)
	}

	for name := range roles() {
		c.Must(c.Delete(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}}))
		break
	}

	c.EventuallyTrue("the deleted role is recreated", func() bool { return len(roles()) == 3 }, nil)
	c.Must(c.Delete(t.Context(), csv))
	env.EditObject(c.Fixture, g, func(g *operatorsv1.OperatorGroup) { delete(g.Annotations, "olm.providedAPIs") })
	c.EventuallyTrue("no rules are aggregated", gathers("view"), nil)
	// The ClusterRoles of a group that is deleted while no controller runs are deleted too.
	c.stop()
	c.Must(c.Delete(t.Context(), g))
	c.startControllers()
	c.EventuallyTrue("the roles are deleted", func() bool { return len(roles()) == 0 }, nil)
}

// APIs that no operator provides any more are removed from the list.
func TestProvidedAPIs(t *testing.T) {
	c := newFixture(t)
	at := uniqueName("provided")
	c.createNamespace(at)
	c.createGroup(at, func(g *operatorsv1.OperatorGroup) {
		g.Annotations = map[string]string{"olm.providedAPIs": "A.v1.provided.example.com,B.v1.provided.example.com"}
	})
	csv := c.createCSV(at, "provided", v1alpha1.CSVPhaseSucceeded, "A")
	list := func(want string) func() bool {
		return func() bool { return c.getGroup(at).Annotations["olm.providedAPIs"] == want }
	}
	c.EventuallyTrue("an API without provider is removed", list("A.v1.provided.example.com"), nil)
	c.Must(c.Delete(t.Context(), csv))
	c.EventuallyTrue("the API of the deleted operator is removed", list(""), nil)
}

// The access to the APIs of an operator that is installed.
func TestAPIRoles(t *testing.T) {
	c := newFixture(t)
	at := uniqueName("apis")
	c.createNamespace(at)
	c.createGroup(at)
	crd := c.createCRD("things."+at+".example.com", "Thing")
	c.createAPIService("v1beta1", "served."+at+".example.com")
	csv := c.createCSV(at, at, v1alpha1.CSVPhasePending, "Thing")
	env.EditObject(c.Fixture, csv, func(csv *v1alpha1.ClusterServiceVersion) {
		csv.Spec.APIServiceDefinitions.Owned = []v1alpha1.APIServiceDescription{{Name: at + "dishes", Group: "served." + at + ".example.com", Version: "v1beta1", Kind: "Dish"}}
	})
	role := func(name string) *rbacv1.ClusterRole {
		r := &rbacv1.ClusterRole{}
		if !c.Find(r, "", name) {
			return nil
		}
		return r
	}

	c.setPhase(csv, v1alpha1.CSVPhaseSucceeded)
	all := []string{
		"things." + at + ".example.com-v1-admin", "things." + at + ".example.com-v1-edit", "things." + at + ".example.com-v1-view", "things." + at + ".example.com-v1-crdview",
		at + "dishes-v1beta1-admin", at + "dishes-v1beta1-edit", at + "dishes-v1beta1-view",
	}
	for _, name := range all {
		c.EventuallyTrue(name, func() bool { return role(name) != nil }, nil)
	}

	if role(at+"dishes-v1beta1-crdview") != nil {
		t.Error("an APIService has a crdview")
	}

	hash := csvinfo.APIHash(csvinfo.ParseAPIs("Thing.v1." + at + ".example.com").UnsortedList()[0])
	owner := []metav1.OwnerReference{{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition", Name: crd.Name, UID: crd.UID}}
	for suffix, rule := range map[string]rbacv1.PolicyRule{
		"admin":   {Verbs: []string{"*"}, APIGroups: []string{at + ".example.com"}, Resources: []string{"things"}},
		"edit":    {Verbs: []string{"create", "update", "patch", "delete"}, APIGroups: []string{at + ".example.com"}, Resources: []string{"things"}},
		"view":    {Verbs: []string{"get", "list", "watch"}, APIGroups: []string{at + ".example.com"}, Resources: []string{"things"}},
		"crdview": {Verbs: []string{"get"}, APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, ResourceNames: []string{crd.Name}},
	} {
		r := role("things." + at + ".example.com-v1-" + suffix)
		of := strings.TrimPrefix(suffix, "crd")
		labels := map[string]string{
			"rbac.authorization.k8s.io/aggregate-to-" + of:            "true",
			"olm.opgroup.permissions/aggregate-to-" + hash + "-" + of: "true", "olm.managed": "true",
		}
		if diff := cmp.Diff([]any{labels, owner, []rbacv1.PolicyRule{rule}}, []any{r.Labels, r.OwnerReferences, r.Rules}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", suffix, diff)
		}
	}

	// Manual changes of the ClusterRoles are reverted.
	c.Must(c.Delete(t.Context(), role(all[0])))
	env.EditObject(c.Fixture, role(all[1]), func(r *rbacv1.ClusterRole) { r.Rules = nil })
	c.EventuallyTrue("the roles are restored", func() bool { return role(all[0]) != nil && len(role(all[1]).Rules) == 1 }, nil)
	env.EditObject(c.Fixture, role(all[4]), func(r *rbacv1.ClusterRole) { r.Rules[0].Verbs = []string{"get"} })
	c.EventuallyTrue("the role of the APIService is restored", func() bool { return role(all[4]).Rules[0].Verbs[0] == "*" }, nil)
}

// A failed operator gets no ClusterRoles for its APIs.
func TestNoRolesBeforeSuccess(t *testing.T) {
	c := newFixture(t)
	at := uniqueName("norole")
	early, late := at+"-early", at+"-late"
	c.createNamespace(at)
	c.createGroup(at)
	c.createCRD("earlys."+early+".example.com", "Early")
	c.createCRD("lates."+late+".example.com", "Late")
	c.createCSV(at, early, v1alpha1.CSVPhaseFailed, "Early")
	c.createCSV(at, late, v1alpha1.CSVPhaseSucceeded, "Late")
	c.EventuallyTrue("the role of the other operator", func() bool { return c.Find(&rbacv1.ClusterRole{}, "", "lates."+late+".example.com-v1-view") }, nil)
	if c.Find(&rbacv1.ClusterRole{}, "", "earlys."+early+".example.com-v1-view") {
		t.Error("a failed operator has ClusterRoles for its APIs")
	}
}

// The controllers do not write to an unchanged cluster, not even after a restart.
func TestUnchangedClusterIsNotWritten(t *testing.T) {
	c := newFixture(t)
	at := uniqueName("quiet")
	c.createNamespace(at+"-a", at+"=yes")
	c.createNamespace(at+"-b", at+"=yes")
	c.Must(c.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: at + "-a", Name: "installer"}}))
	c.createGroup(at+"-a", func(g *operatorsv1.OperatorGroup) {
		g.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{at: "yes"}}
		g.Spec.ServiceAccountName = "installer"
		g.Annotations = map[string]string{"olm.providedAPIs": "Quiet.v1." + at + ".example.com"}
	})
	c.createCRD("quiets."+at+".example.com", "Quiet")
	csv := c.createCSV(at+"-a", at, v1alpha1.CSVPhaseSucceeded, "Quiet")
	// The view roles are the last ones that are written for an API and for a group.
	settled := func() bool {
		c.Find(csv, at+"-a", at)
		return c.Find(&rbacv1.ClusterRole{}, "", "quiets."+at+".example.com-v1-view") && len(c.listGroupLabels(at+"-b")) == 1 &&
			csv.Annotations["olm.targetNamespaces"] == at+"-a,"+at+"-b" && c.getGroup(at+"-a").Status.ServiceAccountRef != nil &&
			c.Find(&rbacv1.ClusterRole{}, "", "olm.og.og.view-"+csvinfo.TextHash(at+"-a/og/view"))
	}

	c.EventuallyTrue("all is reconciled", settled, nil)
	c.stop()
	c.writes.Clear()
	c.startControllers()
	// A relevant change shows that the controllers have reconciled.
	c.createNamespace(at+"-marker", at+"=yes")
	c.EventuallyTrue("the change is reconciled", func() bool {
		c.Find(csv, at+"-a", at)
		return csv.Annotations["olm.targetNamespaces"] == at+"-a,"+at+"-b,"+at+"-marker" && len(c.listGroupLabels(at+"-marker")) == 1
	}, nil)
	hash := func(suffix string) string { return csvinfo.TextHash(at + "-a/og/" + suffix) }
	var writes []string
	c.writes.Range(func(write, _ any) bool {
		// The controllers may still reconcile objects of other tests.
		text := fmt.Sprint(write)
		if strings.Contains(text, at) || slices.ContainsFunc([]string{" og", " installer", hash("admin"), hash("edit"), hash("view")}, func(name string) bool {
			return strings.HasSuffix(text, name)
		}) {
			writes = append(writes, text)
		}
		return true
	})

	slices.Sort(writes)
	want := []string{
		"patch *v1.PartialObjectMetadata " + at + "-marker", "patch *v1alpha1.ClusterServiceVersion " + at, "status *v1.OperatorGroup og",
	}
	if diff := cmp.Diff(want, writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}
