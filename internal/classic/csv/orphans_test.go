package csv_test

import (
	"context"
	"fmt"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// createOutsideObjects creates an object of each kind that operators have outside of their namespace. The objects are
// deleted when the test ends.
func (c *fixture) createOutsideObjects(prefix string, labels map[string]string) []client.Object {
	c.T.Helper()
	meta := metav1.ObjectMeta{Name: c.namespace + "-" + prefix, Labels: labels}
	local := *meta.DeepCopy()
	local.Namespace = "kube-system"
	ref := func(kind, name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
	}
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: c.namespace, Name: "operator"}}
	group := prefix + "." + c.namespace + ".example.com"
	api := &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: "v1." + group, Labels: labels}}
	api.Spec = apiregistrationv1.APIServiceSpec{
		Group: group, Version: "v1", GroupPriorityMinimum: 1, VersionPriority: 1,
		Service: &apiregistrationv1.ServiceReference{Namespace: c.namespace, Name: "none"}, InsecureSkipTLSVerify: true,
	}

	objects := []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref("ClusterRole", meta.Name), Subjects: subjects},
		&rbacv1.RoleBinding{ObjectMeta: local, RoleRef: ref("Role", "extension-apiserver-authentication-reader"), Subjects: subjects},
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: meta},
		&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: meta},
		&schedulingv1.PriorityClass{ObjectMeta: meta, Value: 7},
		api,
	}
	for _, object := range objects {
		c.CreateAll(object)
		c.T.Cleanup(func() {
			if err := c.Delete(context.Background(), object); client.IgnoreNotFound(err) != nil {
				c.T.Error(err)
			}
		})
	}

	return objects
}

func (c *fixture) waitUntilAllGone(objects []client.Object) {
	c.T.Helper()
	for _, object := range objects {
		c.waitUntilGone(object)
	}
}

// removeFinalizers removes the finalizers of a ClusterServiceVersion, if it exists, and returns it.
func (c *fixture) removeFinalizers(ctx context.Context, name string) *v1alpha1.ClusterServiceVersion {
	c.T.Helper()
	csv := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name}}
	if err := c.Patch(ctx, csv, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))); client.IgnoreNotFound(err) != nil {
		c.T.Error(err)
	}
	return csv
}

// The objects of a ClusterServiceVersion outside of its namespace are deleted once it does not exist: when the
// program starts, when it is deleted without finalizer, and when an object is created too late. Objects of others stay.
func TestObjectsWithoutOwner(t *testing.T) {
	c := newFixture(t)
	c.stop()
	const gone, living, copied = "gone.v1.0.0", "living.v1.0.0", "copied.v1.0.0"
	// A copied CSV is not in the cache. Without a source it is deleted, for which its finalizer waits.
	c.CreateAll(c.newCSV(living), c.newCSV(copied, func(csv *v1alpha1.ClusterServiceVersion) {
		csv.Labels, csv.Finalizers = map[string]string{csvinfo.LabelCopiedFrom: "elsewhere"}, []string{"example.com/wait"}
	}))
	ofGroup := csvinfo.MergeLabels(csvinfo.OwnerLabels(c.namespace, gone), map[string]string{csvinfo.LabelOwnerKind: operatorsv1.OperatorGroupKind})
	kept := map[string][]client.Object{}
	for name, labels := range map[string]map[string]string{
		"living": csvinfo.OwnerLabels(c.namespace, living), "copied": csvinfo.OwnerLabels(c.namespace, copied),
		"managed": {csvinfo.LabelManaged: "true"}, "incomplete": {csvinfo.LabelOwner: gone, csvinfo.LabelOwnerKind: v1alpha1.ClusterServiceVersionKind},
	} {
		kept[name] = c.createOutsideObjects(name, labels)
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: c.namespace + "-group", Labels: ofGroup}}
	c.CreateForTest(role)
	kept["group"] = []client.Object{role}

	left := c.createOutsideObjects("left", csvinfo.OwnerLabels(c.namespace, gone))
	c.startManager()
	t.Cleanup(func() { c.removeFinalizers(context.Background(), copied) })
	c.waitUntilAllGone(left)

	c.waitUntilAllGone(c.createOutsideObjects("late", csvinfo.OwnerLabels(c.namespace, gone)))
	for name, objects := range kept {
		for _, object := range objects {
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
				t.Errorf("%s: %T was deleted: %v", name, object, err)
			}
		}
	}

	// The test is faster than the finalizer, or removes it again.
	c.eventually("the ClusterServiceVersion is gone", func() bool {
		return apierrors.IsNotFound(c.Delete(t.Context(), c.removeFinalizers(t.Context(), living)))
	})
	c.waitUntilAllGone(kept["living"])
}

// A ClusterServiceVersion that is deleted before olm-operator has seen it leaves no rights behind, regardless of
// whether its InstallPlan has set the finalizer.
func TestEarlyDeletion(t *testing.T) {
	for _, finalizers := range [][]string{nil, {csvinfo.Finalizer}} {
		t.Run(fmt.Sprint(len(finalizers), " finalizers"), func(t *testing.T) {
			c := newFixture(t)
			c.stop()
			csv := c.newCSV("etcd.v1.0.0", func(csv *v1alpha1.ClusterServiceVersion) { csv.Finalizers = finalizers })
			c.CreateAll(csv)
			objects := c.createOutsideObjects("early", csvinfo.OwnerLabels(c.namespace, csv.Name))
			c.Must(c.Delete(t.Context(), csv))
			c.startManager()
			c.waitUntilAllGone(objects)
			c.waitUntilGone(csv)
		})
	}
}
