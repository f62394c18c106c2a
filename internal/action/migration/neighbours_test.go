package migration_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/action/migration"
	"github.com/mainstay-dev/mainstay/internal/action/migration/plan"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// TestNeighbours migrates one of two operators in a namespace. The objects that both
// share stay, and those of only the migrated operator in OLM Classic are deleted.
func TestNeighbours(t *testing.T) {
	f := newFixture(t, "pear", nil, "1.0.0")
	f.installWithClassic(nil, "1.0.0")
	f.createNeighbour()
	sentinel := f.createSentinel()
	csv := f.name + ".v1.0.0"
	f.waitForOperator(f.name + "." + f.namespace)
	classic := f.listClassicRoles(csv)
	if len(classic) < 4 {
		t.Fatalf("got the roles %q of OLM Classic, want those of the operator and of its condition", classic)
	}
	shared := f.sharedIdentities()

	stop := f.watchNeighbour()
	recorder := &deletionRecorder{Client: f.Client}
	m := f.newMigration(plan.Options{})
	m.Client = recorder
	f.Must(m.Run(t.Context()))
	recorder.expectOrder(t, f, csv)
	f.expectMigrated("1.0.0")
	for _, kind := range []string{"Role", "RoleBinding"} {
		f.expectNotInRevisions(kind, csv)
	}
	if left := f.listExisting(classic); len(left) > 0 {
		t.Errorf("got the roles %q of OLM Classic, want none", left)
	}

	f.Must((&migration.Confirm{Operation: f.newOperation()}).Run(t.Context()))
	stop()
	if got := f.sharedIdentities(); fmt.Sprint(got) != fmt.Sprint(shared) {
		t.Errorf("got %v, want %v", got, shared)
	}
	f.expectNoOperator(sentinel)
}

// createNeighbour creates another operator in the namespace, and waits until it works.
func (f *fixture) createNeighbour() {
	f.T.Helper()
	labels := map[string]string{"app": "neighbour"}
	csv := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "neighbour.v1.0.0"}}
	csv.Spec.InstallModes = []v1alpha1.InstallMode{{Type: v1alpha1.InstallModeTypeAllNamespaces, Supported: true}}
	csv.Spec.InstallStrategy.StrategyName = "deployment"
	csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = []v1alpha1.StrategyDeploymentSpec{{
		Name: "neighbour",
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "quay.io/example/neighbour"}}},
		}},
	}}
	f.create(csv)
	f.Eventually("the neighbour works", func() error {
		if get(f, csv, csv.Name); csv.Status.Phase != v1alpha1.CSVPhaseSucceeded {
			return fmt.Errorf("got phase %q: %s", csv.Status.Phase, csv.Status.Message)
		}
		return nil
	})
}

// watchNeighbour checks each state of the neighbour until stop is called. The test fails if it ever does not work.
func (f *fixture) watchNeighbour() (stop func()) {
	f.T.Helper()
	csv := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "neighbour.v1.0.0"}}
	return env.CheckStates(f.Fixture, csv, func(csv *v1alpha1.ClusterServiceVersion) error {
		if csv.Status.Phase != v1alpha1.CSVPhaseSucceeded {
			return fmt.Errorf("got the phase %q, want Succeeded: %s", csv.Status.Phase, csv.Status.Message)
		}
		return nil
	})
}

// sharedIdentities returns the identities of the objects that the operators of the namespace share.
func (f *fixture) sharedIdentities() map[string]types.UID {
	f.T.Helper()
	return map[string]types.UID{
		"OperatorGroup": f.uidOf(&operatorsv1.OperatorGroup{}, "group"),
		"CatalogSource": f.uidOf(&v1alpha1.CatalogSource{}, "fruit"),
		"Deployment":    f.uidOf(&appsv1.Deployment{}, "neighbour"),
	}
}

// listClassicRoles returns the roles and bindings that OLM Classic created for a CSV and for its
// OperatorCondition, as kind/name.
func (f *fixture) listClassicRoles(csv string) []string {
	f.T.Helper()
	var names []string
	for _, kind := range []string{"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind(kind + "List"))
		f.Must(f.List(f.T.Context(), list))
		for i := range list.Items {
			object := &list.Items[i]
			byLabels := object.Labels[csvinfo.LabelOwner] == csv && object.Labels[csvinfo.LabelOwnerNamespace] == f.namespace
			byReference := object.Namespace == f.namespace && slices.ContainsFunc(object.OwnerReferences, func(r metav1.OwnerReference) bool { return r.Name == csv })
			if byLabels || byReference {
				names = append(names, kind+"/"+object.Name)
			}
		}
	}
	return names
}

// listExisting returns those of the roles and bindings that exist.
func (f *fixture) listExisting(roles []string) []string {
	f.T.Helper()
	return slices.DeleteFunc(slices.Clone(roles), func(role string) bool {
		kind, name, _ := strings.Cut(role, "/")
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind(kind))
		key := client.ObjectKey{Name: name}
		if !strings.HasPrefix(kind, "Cluster") {
			key.Namespace = f.namespace
		}
		err := f.Get(f.T.Context(), key, object)
		f.Must(client.IgnoreNotFound(err))
		return err != nil
	})
}

// createSentinel creates a Subscription in another namespace, and returns the name of its Operator.
func (f *fixture) createSentinel() string {
	f.T.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "sentinel-"}}
	f.create(namespace)
	sub := &v1alpha1.Subscription{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "sentinel"},
		Spec:       v1alpha1.SubscriptionSpec{CatalogSource: "none", CatalogSourceNamespace: namespace.Name, Package: "sentinel"},
	}
	f.create(sub)
	name := "sentinel." + namespace.Name
	f.waitForOperator(name)
	return name
}

func (f *fixture) waitForOperator(name string) {
	f.T.Helper()
	f.Eventually("Operator "+name+" exists", func() error {
		return f.Get(f.T.Context(), client.ObjectKey{Name: name}, &operatorsv1.Operator{})
	})
}

// expectNoOperator checks that the Operator of the migrated operator is not recreated: neither when its
// former components change, nor until another Operator that was deleted later is recreated.
func (f *fixture) expectNoOperator(sentinel string) {
	f.T.Helper()
	for _, object := range []client.Object{&appsv1.Deployment{}, &corev1.ServiceAccount{}, &corev1.Service{}} {
		f.Must(f.Get(f.T.Context(), f.keyOf(object, f.name), object))
		before := object.DeepCopyObject().(client.Object)
		object.SetAnnotations(map[string]string{"example.com/touched": "true"})
		f.Must(f.Patch(f.T.Context(), object, client.MergeFrom(before)))
	}

	for range 2 {
		other := &operatorsv1.Operator{}
		other.Name = sentinel
		f.Must(f.Delete(f.T.Context(), other))
		f.waitForOperator(sentinel)
	}
	operator := &operatorsv1.Operator{}
	if err := f.Get(f.T.Context(), client.ObjectKey{Name: f.name + "." + f.namespace}, operator); !apierrors.IsNotFound(err) {
		f.T.Errorf("got %v and the Operator %+v, want none", err, operator.Status.Components)
	}
}

// deletionRecorder records the deletions of a client.
type deletionRecorder struct {
	client.Client
	deletions []deletion
}

// deletion is a deletion with its options.
type deletion struct {
	object  string
	uid     types.UID
	options client.DeleteOptions
	// subscribed reports whether the Subscription existed.
	subscribed bool
}

// Delete implements client.Client.
func (r *deletionRecorder) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	d := deletion{object: fmt.Sprintf("%T %s", object, object.GetName()), uid: object.GetUID()}
	d.options.ApplyOptions(options)
	// A repeated deletion must not be delayed: it is in a race with olm-operator, which adds its finalizer again.
	if !slices.ContainsFunc(r.deletions, func(earlier deletion) bool { return earlier.object == d.object }) {
		var subs v1alpha1.SubscriptionList
		if err := r.List(ctx, &subs, client.InNamespace(object.GetNamespace())); err != nil {
			return err
		}
		d.subscribed = len(subs.Items) > 0
	}
	r.deletions = append(r.deletions, d)
	return r.Client.Delete(ctx, object, options...)
}

// expectOrder checks that the Subscription was deleted before the CSV was deleted, and that both were
// deleted as orphans, with their UIDs as the preconditions.
func (r *deletionRecorder) expectOrder(t *testing.T, f *fixture, csv string) {
	t.Helper()
	find := func(what string) (deletion, error) {
		at := slices.IndexFunc(r.deletions, func(d deletion) bool { return d.object == what })
		if at < 0 {
			return deletion{}, errors.New("it was not deleted")
		}
		return r.deletions[at], nil
	}

	for _, what := range []string{"*v1alpha1.Subscription " + f.name, "*v1alpha1.ClusterServiceVersion " + csv} {
		d, err := find(what)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		if p := d.options.Preconditions; p == nil || p.UID == nil || *p.UID != d.uid {
			t.Errorf("%s: got the preconditions %+v, want the UID %s", what, p, d.uid)
		}
		if p := d.options.PropagationPolicy; p == nil || *p != metav1.DeletePropagationOrphan {
			t.Errorf("%s: got the propagation %v, want Orphan", what, p)
		}
		if isCSV := strings.Contains(what, "ClusterServiceVersion"); isCSV && d.subscribed {
			t.Errorf("%s was deleted while the Subscription existed", what)
		}
	}
}
