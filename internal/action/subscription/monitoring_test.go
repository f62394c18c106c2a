package subscription

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	packagesv1 "github.com/mainstay-dev/mainstay/api/packages/v1"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestDecideMonitoring(t *testing.T) {
	newAnnotations := func(more map[string]string) map[string]string {
		all := map[string]string{"operatorframework.io/cluster-monitoring": "true", "operatorframework.io/suggested-namespace": "openshift-kettles"}
		for key, value := range more {
			all[key] = value
		}
		return all
	}
	for _, tc := range []struct {
		name        string
		annotations map[string]string
		namespace   string
		exists      bool
		// want and advice are part of the refusal. Empty means that monitoring can be enabled.
		want, advice string
	}{
		{name: "everything is as required", annotations: newAnnotations(nil), namespace: "openshift-kettles"},
		{
			name:        "the template names the namespace",
			annotations: newAnnotations(map[string]string{"operatorframework.io/suggested-namespace-template": `{"metadata":{"name":"openshift-pots"}}`}), namespace: "openshift-pots",
		},
		{
			name: "a malformed template is ignored", annotations: newAnnotations(map[string]string{"operatorframework.io/suggested-namespace-template": `{"metadata":{"name":"openshift-pots"`}),
			namespace: "openshift-kettles",
		},
		{
			name: "no annotation", annotations: map[string]string{"operatorframework.io/suggested-namespace": "openshift-kettles"}, namespace: "openshift-kettles",
			want: "kettle.v1.1.0 does not ask for cluster monitoring", advice: "without --cluster-monitoring",
		},
		{
			name: "another value", annotations: newAnnotations(map[string]string{"operatorframework.io/cluster-monitoring": "yes"}), namespace: "openshift-kettles",
			want: "does not ask for cluster monitoring", advice: "without --cluster-monitoring",
		},
		{
			name: "no recommended namespace", annotations: map[string]string{"operatorframework.io/cluster-monitoring": "true"}, namespace: "openshift-kettles",
			want: "kettle.v1.1.0 names none", advice: "without --cluster-monitoring",
		},
		{
			name: "another prefix", annotations: newAnnotations(map[string]string{"operatorframework.io/suggested-namespace": "kettles"}), namespace: "kettles",
			want: "only for namespaces that begin with openshift-, but kettle.v1.1.0 recommends kettles", advice: "without --cluster-monitoring",
		},
		{
			name: "another namespace", annotations: newAnnotations(nil), namespace: "openshift-elsewhere",
			want: "requires the recommended namespace openshift-kettles", advice: "--namespace openshift-kettles",
		},
		{
			name: "an existing namespace", annotations: newAnnotations(nil), namespace: "openshift-kettles", exists: true,
			want: "but openshift-kettles exists", advice: "kubectl label namespace openshift-kettles openshift.io/cluster-monitoring=true",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			channel := &packagesv1.PackageChannel{Name: "stable", CurrentCSV: "kettle.v1.1.0", CurrentCSVDesc: packagesv1.CSVDescription{Annotations: tc.annotations}}
			got := decideMonitoring(channel, tc.namespace, tc.exists)
			if (got.reason == "") != (tc.want == "") || !strings.Contains(got.reason, tc.want) || !strings.Contains(got.advice, tc.advice) {
				t.Errorf("got %+v, want reason %q and advice %q", got, tc.want, tc.advice)
			}
		})
	}
}

// newMonitored returns a fixture whose package requests cluster monitoring. Its namespace is the recommended one, and does not
// exist.
func newMonitored(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t)
	f.Must(configv1.AddToScheme(f.Scheme()))
	f.namespace = f.NewNamespace("openshift-kettles-")
	p := newPackage(f.namespace)
	p.Status.Channels[1].CurrentCSVDesc.Annotations = map[string]string{
		"operatorframework.io/cluster-monitoring":           "true",
		"console.openshift.io/operator-monitoring-default":  "true",
		"operatorframework.io/suggested-namespace-template": `{"metadata":{"name":"` + f.namespace + `","labels":{"team":"teas","openshift.io/cluster-monitoring":"true"},"annotations":{"note":"hot"}}}`,
	}
	f.Must(f.Create(t.Context(), p))

	// The packages of a namespace that does not exist are served, too. Nothing deletes them with the namespace here.
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.namespace}}
	f.Must(f.Delete(t.Context(), namespace))
	f.Must(f.Get(t.Context(), client.ObjectKeyFromObject(namespace), namespace))
	namespace.Spec.Finalizers = nil
	f.Must(f.SubResource("finalize").Update(t.Context(), namespace))
	return f
}

// newMonitoredInstall returns an installation with cluster monitoring.
func (f *fixture) newMonitoredInstall() *Install {
	return &Install{Client: f.Client, Package: "kettle", Namespace: f.namespace, CreateNamespace: true, ClusterMonitoring: true}
}

// readNamespace returns the namespace, or nil if it does not exist or is being deleted.
func (f *fixture) readNamespace() *corev1.Namespace {
	f.T.Helper()
	namespace := &corev1.Namespace{}
	err := f.Get(f.T.Context(), client.ObjectKey{Name: f.namespace}, namespace)
	f.Must(client.IgnoreNotFound(err))
	if err != nil || !namespace.DeletionTimestamp.IsZero() {
		return nil
	}
	return namespace
}

func TestInstallWithClusterMonitoring(t *testing.T) {
	f := newMonitored(t)
	a := f.newMonitoredInstall()
	preview, err := a.Preview(t.Context())
	f.Must(err)
	var kinds []string
	for _, object := range preview.Objects {
		kinds = append(kinds, object.GetObjectKind().GroupVersionKind().Kind)
	}
	if got, want := strings.Join(kinds, " "), "Namespace Role RoleBinding OperatorGroup Subscription"; got != want {
		t.Errorf("got the objects %s, want %s", got, want)
	}
	if f.readNamespace() != nil {
		t.Error("the preview created the namespace")
	}

	_, err = a.Run(t.Context())
	f.Must(err)
	namespace := f.readNamespace()
	if namespace == nil || namespace.Labels["openshift.io/cluster-monitoring"] != "true" || namespace.Labels["team"] != "teas" || namespace.Annotations["note"] != "hot" {
		t.Errorf("got the namespace %+v, want the label of cluster monitoring and the content of the template", namespace)
	}

	key := client.ObjectKey{Namespace: f.namespace, Name: f.namespace + "-prometheus"}
	role, binding := &rbacv1.Role{}, &rbacv1.RoleBinding{}
	f.Must(errors.Join(f.Get(t.Context(), key, role), f.Get(t.Context(), key, binding)))
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"services", "endpoints", "pods"}, Verbs: []string{"get", "list", "watch"}}}
	if diff := cmp.Diff(rules, role.Rules); diff != "" {
		t.Errorf("the rules of the Role differ (-want +got):\n%s", diff)
	}
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "openshift-monitoring", Name: "prometheus-k8s"}}
	if diff := cmp.Diff(subjects, binding.Subjects); diff != "" || binding.RoleRef.Kind != "Role" || binding.RoleRef.Name != role.Name {
		t.Errorf("got a binding to %+v, whose subjects differ (-want +got):\n%s", binding.RoleRef, diff)
	}

	again := f.newMonitoredInstall()
	again.Name = "pot"
	if _, err := again.Run(t.Context()); err == nil || !strings.Contains(err.Error(), f.namespace+" exists") {
		t.Errorf("got %v, want that the namespace exists", err)
	}
}

func TestInstallWithoutClusterMonitoring(t *testing.T) {
	f := newMonitored(t)
	a := f.newMonitoredInstall()
	a.ClusterMonitoring = false
	_, err := a.Run(t.Context())
	f.Must(err)

	namespace := f.readNamespace()
	if _, isLabeled := namespace.Labels["openshift.io/cluster-monitoring"]; isLabeled || namespace.Labels["team"] != "teas" {
		t.Errorf("got the labels %v, want those of the template without cluster monitoring", namespace.Labels)
	}
	var roles rbacv1.RoleList
	var bindings rbacv1.RoleBindingList
	f.Must(errors.Join(f.List(t.Context(), &roles, client.InNamespace(f.namespace)), f.List(t.Context(), &bindings, client.InNamespace(f.namespace))))
	if len(roles.Items)+len(bindings.Items) > 0 {
		t.Errorf("got %d Roles and %d RoleBindings, want none", len(roles.Items), len(bindings.Items))
	}
}

// A user who may not create the roles installs nothing, and the objects that were created before the refusal are deleted.
func TestClusterMonitoringNeedsTheRightsOfTheUser(t *testing.T) {
	rule := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	subscriber := []rbacv1.PolicyRule{
		rule("operators.coreos.com", "*", "get", "list", "create"), rule("packages.operators.coreos.com", "*", "get", "list"),
		rule("", "namespaces", "get", "create", "delete"),
	}
	creator := append(slices.Clone(subscriber), rule(rbacv1.GroupName, "roles", "create"), rule(rbacv1.GroupName, "rolebindings", "create"))
	for _, tc := range []struct {
		name, want string
		rules      []rbacv1.PolicyRule
		// isPreviewed reports whether only the creation is refused.
		isPreviewed bool
	}{
		{name: "no roles", rules: subscriber, want: "roles.rbac.authorization.k8s.io is forbidden"},
		{name: "no right that the role grants", rules: creator, want: "attempting to grant RBAC permissions not currently held", isPreviewed: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newMonitored(t)
			home := f.NewNamespace("users-")
			account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "user"}}
			role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: home}, Rules: tc.rules}
			f.CreateAll(account, role, &rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: home}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
				Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: home, Name: "user"}},
			})
			user, err := client.New(env.ConnectAs(t, home, "user"), client.Options{Scheme: f.Scheme()})
			f.Must(err)

			a := f.newMonitoredInstall()
			a.Client = user
			if _, err := a.Preview(t.Context()); (err == nil) != tc.isPreviewed || err != nil && !apierrors.IsForbidden(err) {
				t.Errorf("got the error %v of the preview, want one: %t", err, !tc.isPreviewed)
			}
			_, err = a.Run(t.Context())
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), tc.want) || !strings.Contains(report.AdviceOf(err), "ask an administrator") {
				t.Errorf("got %v, want %q with advice", err, tc.want)
			}
			if namespace := f.readNamespace(); namespace != nil {
				t.Errorf("got the namespace %s, want that it is deleted", namespace.Name)
			}
		})
	}
}

// Cluster monitoring is the default if the author requests it in a default catalog.
func TestOfferOfClusterMonitoring(t *testing.T) {
	f := newMonitored(t)
	offer := func() *MonitoringOffer {
		t.Helper()
		offer, err := f.newMonitoredInstall().Offer(t.Context())
		f.Must(err)
		if offer.Details[0].ClusterMonitoring != nil {
			t.Errorf("got %+v for channel beta, want no offer, because it does not request monitoring", offer.Details[0].ClusterMonitoring)
		}
		return offer.Details[1].ClusterMonitoring
	}
	expect := func(what string, want bool) {
		t.Helper()
		if got := offer(); got == nil || got.Default != want {
			t.Errorf("%s: got %+v, want the default %t", what, got, want)
		}
	}
	expect("a cluster without an OperatorHub", false)

	hub := &configv1.OperatorHub{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	f.CreateAll(hub)
	t.Cleanup(func() {
		f.Must(f.Delete(context.Background(), &configv1.OperatorHub{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}))
	})
	hub.Status.Sources = []configv1.HubSourceStatus{{Name: "home"}}
	f.Must(f.Status().Update(t.Context(), hub))
	f.createCatalog()
	expect("a catalog with the name of a default one", false)

	catalog := &v1alpha1.CatalogSource{}
	f.Must(f.Get(t.Context(), client.ObjectKey{Namespace: "olm", Name: "home"}, catalog))
	catalog.Annotations = map[string]string{"operatorframework.io/managed-by": "marketplace-operator"}
	f.Must(f.Update(t.Context(), catalog))
	t.Cleanup(func() {
		catalog.Annotations = nil
		f.Must(f.Update(context.Background(), catalog))
	})
	expect("an enabled default catalog", true)

	hub.Status.Sources[0].Disabled = true
	f.Must(f.Status().Update(t.Context(), hub))
	expect("a disabled default catalog", false)

	f.EnsureNamespace(f.namespace)
	if got := offer(); got != nil {
		t.Errorf("got %+v, want no offer for an existing namespace", got)
	}
}
