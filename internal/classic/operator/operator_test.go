package operator_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	operatorsv2 "github.com/mainstay-dev/mainstay/api/operators/v2"
	"github.com/mainstay-dev/mainstay/internal/classic/crdinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/olmoperator"
	"github.com/mainstay-dev/mainstay/internal/classic/operator"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

var kinds = []func(*runtime.Scheme) error{
	appsv1.AddToScheme, corev1.AddToScheme, rbacv1.AddToScheme, apiextensionsv1.AddToScheme, apiregistrationv1.AddToScheme,
	operatorsv1.AddToScheme, v1alpha1.AddToScheme, operatorsv2.AddToScheme,
}

// fixture holds an API server with the controllers of Operators, and a namespace.
type fixture struct {
	*env.Fixture
	namespace string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{Fixture: env.NewFixture(t, kinds...)}
	f.namespace = f.NewNamespace("operator-")
	options := ctrl.Options{}
	olmoperator.ConfigureOptions(&options)
	f.StartManager(env.Manager{Roles: "config/classic/olm-operator/role.yaml", Options: options, Setup: func(mgr ctrl.Manager) error {
		crds, err := crdinfo.NewCache(mgr)
		if err != nil {
			return err
		}
		return operator.Setup(mgr, crds)
	}})
	return f
}

// eventually waits until a check returns no error.
func (f *fixture) eventually(check func() error) {
	f.T.Helper()
	f.Eventually("what the test waits for", check)
}

// meta returns the metadata of an object in the namespace of the test.
func (f *fixture) meta(name string, labels map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: f.namespace, Name: name, Labels: labels}
}

// createSubscription creates a Subscription for package etcd.
func (f *fixture) createSubscription() *v1alpha1.Subscription {
	f.T.Helper()
	sub := &v1alpha1.Subscription{ObjectMeta: f.meta("sub", nil)}
	sub.Spec.Package, sub.Spec.CatalogSource, sub.Spec.CatalogSourceNamespace = "etcd", "catalog", "olm"
	f.Must(f.Create(f.T.Context(), sub))
	return sub
}

// createCSV creates a ClusterServiceVersion that owns a CRD.
func (f *fixture) createCSV(name, crd string) *v1alpha1.ClusterServiceVersion {
	f.T.Helper()
	csv := builder.CSV(f.namespace, name)
	csv.Spec.CustomResourceDefinitions.Owned = []v1alpha1.CRDDescription{{Name: crd, Version: "v1", Kind: "Etcd"}}
	f.Must(f.Create(f.T.Context(), csv))
	csv.Status.Phase, csv.Status.Reason, csv.Status.Message = v1alpha1.CSVPhaseSucceeded, "InstallSucceeded", "done"
	f.Must(f.Status().Update(f.T.Context(), csv))
	return csv
}

// createPlan creates an InstallPlan with a condition.
func (f *fixture) createPlan(name string) {
	f.T.Helper()
	plan := &v1alpha1.InstallPlan{ObjectMeta: f.meta(name, nil)}
	plan.Spec.Approval, plan.Spec.ClusterServiceVersionNames = v1alpha1.ApprovalAutomatic, []string{"etcd.v1"}
	f.Must(f.Create(f.T.Context(), plan))
	plan.Status = v1alpha1.InstallPlanStatus{Phase: v1alpha1.InstallPlanPhaseComplete, CatalogSources: []string{}, Conditions: []v1alpha1.InstallPlanCondition{
		{Type: v1alpha1.InstallPlanInstalled, Status: corev1.ConditionTrue},
	}}
	f.Must(f.Status().Update(f.T.Context(), plan))
}

// install sets the installed version of a Subscription.
func (f *fixture) install(sub *v1alpha1.Subscription, csv, plan string) {
	f.T.Helper()
	f.eventually(func() error {
		if err := f.Get(f.T.Context(), client.ObjectKeyFromObject(sub), sub); err != nil {
			return err
		}
		sub.Status.InstalledCSV, sub.Status.LastUpdated = csv, metav1.Now()
		sub.Status.InstallPlanRef = &corev1.ObjectReference{Namespace: f.namespace, Name: plan}
		return f.Status().Update(f.T.Context(), sub)
	})
}

// components returns the components in an Operator's status, as KIND NAME, or KIND NAME CONDITIONS.
func (f *fixture) components(name string) ([]string, error) {
	found := &operatorsv1.Operator{}
	if err := f.Get(f.T.Context(), client.ObjectKey{Name: name}, found); err != nil {
		return nil, err
	}
	if found.Status.Components == nil {
		return nil, fmt.Errorf("the status of Operator %s is empty", name)
	}

	var list []string
	for _, ref := range found.Status.Components.Refs {
		words := []string{ref.Kind, strings.TrimSuffix(ref.Name, f.namespace)}
		for _, c := range ref.Conditions {
			words = append(words, fmt.Sprintf("%s=%s", c.Type, c.Status))
		}
		list = append(list, strings.Join(words, " "))
	}

	return list, nil
}

// requireComponents waits until an Operator lists the given components.
func (f *fixture) requireComponents(name string, want ...string) {
	f.T.Helper()
	f.eventually(func() error {
		got, err := f.components(name)
		if diff := cmp.Diff(want, got); err == nil && diff != "" {
			return fmt.Errorf("components (-want +got):\n%s", diff)
		}
		return err
	})
}

// TestAdoption follows an operator from its Subscription to its removal: its objects are
// labelled and listed.
func TestAdoption(t *testing.T) {
	f := newFixture(t)
	name := "etcd." + f.namespace
	sub := f.createSubscription()
	f.requireComponents(name, "Subscription sub")

	crd := builder.CRD(f.namespace+".example.com", "etcds", "Etcd")
	f.Must(f.Create(t.Context(), crd))
	csv := f.createCSV("etcd.v1", crd.Name)
	f.createPlan("install-1")
	owner := []metav1.OwnerReference{csvinfo.OwnerReference(csv)}
	managed := map[string]string{csvinfo.LabelManaged: "true"}
	byLabels := csvinfo.MergeLabels(csvinfo.OwnerLabels(f.namespace, csv.Name), managed)
	owned := func(o client.Object) client.Object { o.SetOwnerReferences(owner); return o }
	selector := map[string]string{"app": "etcd"}
	for _, object := range []client.Object{
		owned(&appsv1.Deployment{ObjectMeta: f.meta("etcd", byLabels), Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: selector},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: selector}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "etcd", Image: "etcd"}}}},
		}}),
		owned(&corev1.Service{ObjectMeta: f.meta("etcd", managed), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}),
		owned(&corev1.Secret{ObjectMeta: f.meta("etcd", managed)}),
		owned(&corev1.ConfigMap{ObjectMeta: f.meta("etcd", managed)}),
		owned(&corev1.ServiceAccount{ObjectMeta: f.meta("etcd", managed)}),
		&rbacv1.Role{ObjectMeta: f.meta("etcd", byLabels), Rules: []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}}},
		&rbacv1.RoleBinding{ObjectMeta: f.meta("etcd", byLabels), RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "etcd", APIGroup: rbacv1.GroupName}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "role-" + f.namespace, Labels: byLabels}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}}}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "binding-" + f.namespace, Labels: byLabels}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "cluster-admin", APIGroup: rbacv1.GroupName}},
		owned(&operatorsv2.OperatorCondition{ObjectMeta: f.meta("etcd.v1", nil)}),
		&apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: "v1." + f.namespace, Labels: byLabels}, Spec: apiregistrationv1.APIServiceSpec{
			Group: f.namespace, Version: "v1", GroupPriorityMinimum: 1, VersionPriority: 1, InsecureSkipTLSVerify: true,
			Service: &apiregistrationv1.ServiceReference{Namespace: f.namespace, Name: "absent"},
		}},
		// These objects do not belong to the operator.
		&corev1.ConfigMap{ObjectMeta: f.meta("other", managed)},
		&corev1.Secret{ObjectMeta: f.meta("other", nil)},
	} {
		f.Must(f.Create(t.Context(), object))
	}
	f.install(sub, csv.Name, "install-1")

	want := []string{
		"APIService v1. Available=False", "ClusterRole role-", "ClusterRoleBinding binding-", "ClusterServiceVersion etcd.v1 Succeeded=True", "ConfigMap etcd",
		"CustomResourceDefinition " + crd.Name + " NamesAccepted=True Established=True", "Deployment etcd", "InstallPlan install-1 Installed=True",
		"OperatorCondition etcd.v1", "Role etcd", "RoleBinding etcd", "Secret etcd", "Service etcd", "ServiceAccount etcd", "Subscription sub",
	}
	f.requireComponents(name, want...)

	// The status follows the conditions of components.
	f.Must(f.Get(t.Context(), client.ObjectKeyFromObject(csv), csv))
	csv.Status.Phase = v1alpha1.CSVPhaseFailed
	f.Must(f.Status().Update(t.Context(), csv))
	want[3] = "ClusterServiceVersion etcd.v1 Failed=True"
	f.requireComponents(name, want...)

	// Another plan replaces the first one.
	f.createPlan("install-2")
	f.install(sub, csv.Name, "install-2")
	want[7] = "InstallPlan install-2 Installed=True"
	f.requireComponents(name, want...)

	// An Operator that a user deletes is created again. A label that a user removes is set again.
	f.Must(f.Delete(t.Context(), &operatorsv1.Operator{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	f.Must(f.Patch(t.Context(), &corev1.ServiceAccount{ObjectMeta: f.meta("etcd", nil)}, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"operators.coreos.com/`+name+`":null}}}`))))
	f.requireComponents(name, want...)

	// An object that is created later is adopted when it belongs to the operator.
	f.Must(f.Create(t.Context(), owned(&corev1.ConfigMap{ObjectMeta: f.meta("later", managed)})))
	f.requireComponents(name, slices.Insert(slices.Clone(want), 5, "ConfigMap later")...)
}

// TestManualAdoption: users label their own objects, and the Operator of a removed Subscription
// remains as long as components do.
func TestManualAdoption(t *testing.T) {
	f := newFixture(t)
	name := "etcd." + f.namespace
	key := "operators.coreos.com/" + name
	f.Must(f.Create(t.Context(), &operatorsv1.Operator{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	f.requireComponents(name)

	secret := &corev1.Secret{ObjectMeta: f.meta("mine", map[string]string{key: ""})}
	f.Must(f.Create(t.Context(), secret))
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.namespace}}
	f.Must(f.Patch(t.Context(), namespace, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"`+key+`":""}}}`))))
	f.requireComponents(name, "Namespace ", "Secret mine")

	isDeleted := &operatorsv1.Operator{ObjectMeta: metav1.ObjectMeta{Name: name}}
	f.Must(f.Delete(t.Context(), isDeleted))
	f.requireComponents(name, "Namespace ", "Secret mine")

	f.Must(f.Delete(t.Context(), secret))
	f.Must(f.Patch(t.Context(), namespace, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"`+key+`":null}}}`))))
	f.requireComponents(name)

	f.Must(f.Delete(t.Context(), isDeleted))
	// Changes are collected for some time. Changes of another Operator's components follow, and are collected for as long.
	later := "later." + f.namespace
	f.Must(f.Create(t.Context(), &operatorsv1.Operator{ObjectMeta: metav1.ObjectMeta{Name: later}}))
	f.Must(f.Create(t.Context(), &corev1.Secret{ObjectMeta: f.meta("later", map[string]string{"operators.coreos.com/" + later: ""})}))
	f.requireComponents(later, "Secret later")
	if err := f.Get(t.Context(), client.ObjectKey{Name: name}, isDeleted); !apierrors.IsNotFound(err) {
		t.Errorf("got %v, want an Operator without components not to be created again", err)
	}
}
