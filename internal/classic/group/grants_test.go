package group_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// The rights of an operator that watches all namespaces hold in all of them.
func TestGrants(t *testing.T) {
	c := newFixture(t)
	at := uniqueName("grants")
	c.createNamespace(at)
	g := c.createGroup(at, targets(at))
	const rule = "get core pods"
	csv := c.createCSVWithPermissions(at, builder.Permissions("a", rule))
	c.setFinalizers(csv, csvinfo.Finalizer)
	labels := csvinfo.OwnerLabels(at, at)
	// With this label Kubernetes would aggregate the rules to the ClusterRole view.
	meta := metav1.ObjectMeta{Namespace: at, Name: at, Labels: csvinfo.MergeLabels(labels, map[string]string{"rbac.authorization.k8s.io/aggregate-to-view": "true"})}
	own, bound := builder.Role(meta, builder.Rules(rule), builder.ServiceAccountSubject(at, "a"))
	c.Must(c.Create(t.Context(), own))
	c.Must(c.Create(t.Context(), bound))
	c.EventuallyTrue("the operator is a member", func() bool {
		c.Find(csv, at, at)
		return csv.Annotations["olm.targetNamespaces"] == at
	}, nil)
	role, binding := &rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}
	if c.Find(role, "", at) {
		t.Fatal("an operator that watches one namespace has rights in all")
	}

	env.EditObject(c.Fixture, g, func(g *operatorsv1.OperatorGroup) { g.Spec.TargetNamespaces = nil })
	c.EventuallyTrue("the rights", func() bool { return c.Find(role, "", at) && c.Find(binding, "", at) }, nil)
	c.removeAtEnd(role, binding)
	rules := builder.Rules(rule, "get,list,watch core namespaces")
	labels["olm.managed"] = "true"
	want := []any{labels, rules, labels, bound.Subjects, "ClusterRole", at}
	if diff := cmp.Diff(want, []any{role.Labels, role.Rules, binding.Labels, binding.Subjects, binding.RoleRef.Kind, binding.RoleRef.Name}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// An operator has no cluster-wide rights before it has the finalizer that deletes them, and gets none while it is deleted.
func TestNoGrantsWithoutCleanup(t *testing.T) {
	c := newFixture(t)
	const rule = "get core pods"
	early, deleted, ready := uniqueName("early"), uniqueName("deleted"), uniqueName("ready")
	for _, at := range []string{early, deleted, ready} {
		c.createNamespace(at)
		c.createGroup(at)
		csv := c.createCSVWithPermissions(at, builder.Permissions("a", rule))
		switch at {
		case deleted:
			c.setFinalizers(csv, csvinfo.Finalizer)
			c.Must(c.Delete(t.Context(), csv))
		case ready:
			c.setFinalizers(csv, csvinfo.Finalizer)
		}

		c.EventuallyTrue("the operator is a member", func() bool {
			c.Find(csv, at, at)
			return csv.Annotations["olm.operatorGroup"] != ""
		}, nil)
		role, binding := builder.Role(metav1.ObjectMeta{Namespace: at, Name: at, Labels: csvinfo.OwnerLabels(at, at)}, builder.Rules(rule), builder.ServiceAccountSubject(at, "a"))
		c.Must(c.Create(t.Context(), role))
		c.Must(c.Create(t.Context(), binding))
		meta := metav1.ObjectMeta{Name: at}
		c.removeAtEnd(&rbacv1.ClusterRole{ObjectMeta: meta}, &rbacv1.ClusterRoleBinding{ObjectMeta: meta})
	}

	// The last one has been reconciled after the others.
	c.EventuallyTrue("the rights of the operator with the finalizer", func() bool { return c.Find(&rbacv1.ClusterRoleBinding{}, "", ready) }, nil)
	for _, at := range []string{early, deleted} {
		if c.Find(&rbacv1.ClusterRole{}, "", at) || c.Find(&rbacv1.ClusterRoleBinding{}, "", at) {
			t.Errorf("operator %s has rights in all namespaces", at)
		}
	}

	csv := &v1alpha1.ClusterServiceVersion{}
	c.Find(csv, early, early)
	c.setFinalizers(csv, csvinfo.Finalizer)
	c.EventuallyTrue("the rights once there is a finalizer", func() bool { return c.Find(&rbacv1.ClusterRoleBinding{}, "", early) }, nil)
}

// Forged roles of the operator's namespace grant no cluster-wide rights, and existing ClusterRoles are not changed.
func TestForgedGrants(t *testing.T) {
	c := newFixture(t)
	at := uniqueName("forged")
	c.createNamespace(at)
	c.createGroup(at)
	csv := c.createCSVWithPermissions(at, builder.Permissions("a", "get core pods"))
	c.setFinalizers(csv, csvinfo.Finalizer)
	labels := csvinfo.OwnerLabels(at, at)
	metaOf := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: at, Name: at + name, Labels: labels, OwnerReferences: []metav1.OwnerReference{csvinfo.OwnerReference(csv)}}
	}
	// One ClusterRole with the name of a Role belongs to another owner, one is the copy of a Role that granted more.
	var there []*rbacv1.ClusterRole
	for name, labels := range map[string]map[string]string{"-named": nil, "-former": csvinfo.MergeLabels(labels, map[string]string{"olm.managed": "true"})} {
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: at + name, Labels: labels}, Rules: builder.Rules("* * *")}
		c.Must(c.Create(t.Context(), role))
		c.removeAtEnd(role)
		there = append(there, role)
	}

	for name, rule := range map[string]string{"-wide": "* * *", "-person": "get core pods", "-named": "get core pods", "-former": "get core pods"} {
		subject := builder.ServiceAccountSubject(at, "a")
		if name == "-person" {
			subject = rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: "eve"}
		}

		role, binding := builder.Role(metaOf(name), builder.Rules(rule), subject)
		c.Must(c.Create(t.Context(), role))
		c.Must(c.Create(t.Context(), binding))
	}

	admin := &rbacv1.RoleBinding{ObjectMeta: metaOf("-admin"), Subjects: []rbacv1.Subject{builder.ServiceAccountSubject(at, "a")}}
	admin.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}
	c.Must(c.Create(t.Context(), admin))
	// The last created object shows that the others were checked: all are granted in one reconcile.
	own, bound := builder.Role(metaOf("-own"), builder.Rules("get core pods"), builder.ServiceAccountSubject(at, "a"))
	c.Must(c.Create(t.Context(), own))
	c.Must(c.Create(t.Context(), bound))
	c.EventuallyTrue("the operator's own rights", func() bool { return c.Find(&rbacv1.ClusterRoleBinding{}, "", at+"-own") }, nil)

	// The next reconcile does not grant them either: a change of the permissions shows when it has ended.
	env.EditObject(c.Fixture, csv, func(csv *v1alpha1.ClusterServiceVersion) {
		permissions := &csv.Spec.InstallStrategy.StrategySpec.Permissions
		*permissions = append(*permissions, builder.Permissions("b", "list core pods"))
	})
	later, bound := builder.Role(metaOf("-later"), builder.Rules("list core pods"), builder.ServiceAccountSubject(at, "b"))
	c.Must(c.Create(t.Context(), later))
	c.Must(c.Create(t.Context(), bound))
	c.EventuallyTrue("permissions that are requested later", func() bool { return c.Find(&rbacv1.ClusterRoleBinding{}, "", at+"-later") }, nil)
	c.removeAtEnd(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: at + "-person"}})
	for _, name := range []string{"-own", "-later"} {
		meta := metav1.ObjectMeta{Name: at + name}
		c.removeAtEnd(&rbacv1.ClusterRole{ObjectMeta: meta}, &rbacv1.ClusterRoleBinding{ObjectMeta: meta})
	}

	if c.Find(&rbacv1.ClusterRole{}, "", at+"-wide") {
		t.Error("a Role that grants what the operator does not request applies in the whole cluster")
	}

	for _, name := range []string{"-wide", "-person", "-named", "-former", "-admin"} {
		if c.Find(&rbacv1.ClusterRoleBinding{}, "", at+name) {
			t.Errorf("the RoleBinding %s applies in the whole cluster", name)
		}
	}

	for _, before := range there {
		now := &rbacv1.ClusterRole{}
		if !c.Find(now, "", before.Name) || now.ResourceVersion != before.ResourceVersion {
			t.Errorf("ClusterRole %s was changed", before.Name)
		}
	}
}

// createCSVWithPermissions creates a ClusterServiceVersion with the name of its namespace that requests permissions.
func (c *fixture) createCSVWithPermissions(namespace string, permissions ...v1alpha1.StrategyDeploymentPermissions) *v1alpha1.ClusterServiceVersion {
	c.T.Helper()
	csv := c.newCSV(namespace, namespace)
	csv.Spec.InstallStrategy.StrategySpec.Permissions = permissions
	c.Must(c.Create(c.T.Context(), csv))
	c.setPhase(csv, v1alpha1.CSVPhasePending)
	return csv
}

// setFinalizers sets the finalizers of a ClusterServiceVersion, and removes them when the test ends.
func (c *fixture) setFinalizers(csv *v1alpha1.ClusterServiceVersion, finalizers ...string) {
	c.T.Helper()
	env.EditObject(c.Fixture, csv, func(csv *v1alpha1.ClusterServiceVersion) { csv.Finalizers = finalizers })
	c.T.Cleanup(func() {
		none := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		if err := c.Patch(context.Background(), csv, none); client.IgnoreNotFound(err) != nil {
			c.T.Error(err)
		}
	})
}

func (c *fixture) removeAtEnd(objects ...client.Object) {
	c.T.Cleanup(func() {
		for _, object := range objects {
			if err := c.Delete(context.Background(), object); client.IgnoreNotFound(err) != nil {
				c.T.Error(err)
			}
		}
	})
}
