package reconcile_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestWrittenIsCalledOnceForEachChange(t *testing.T) {
	c := env.Client(t, olmv1.AddToScheme)
	catalog := create(t, c, "written")
	reason := "First"
	var written []string
	r := &reconcile.ObjectReconciler[*olmv1.ClusterCatalog, struct{}, string]{
		Client: c, New: func() *olmv1.ClusterCatalog { return &olmv1.ClusterCatalog{} },
		Decide: func(*olmv1.ClusterCatalog, struct{}) string { return reason },
		Report: func(obj *olmv1.ClusterCatalog, _ struct{}, reason string, _ error) []reconcile.Event {
			order.Set(&obj.Status.Conditions, obj.Generation, metav1.Condition{Type: olmv1.TypeServing, Status: metav1.ConditionTrue, Reason: reason})
			return nil
		},
		Written: func(obj, before *olmv1.ClusterCatalog) {
			if len(before.Status.Conditions) > 0 && before.Status.Conditions[0].Reason == obj.Status.Conditions[0].Reason {
				t.Error("the object before the change has its result")
			}
			written = append(written, obj.Status.Conditions[0].Reason)
		},
	}
	for _, next := range []string{"First", "First", "Second"} {
		reason = next
		if _, err := r.Reconcile(t.Context(), request(catalog)); err != nil {
			t.Fatal(err)
		}
	}

	if len(written) != 2 || written[0] != "First" || written[1] != "Second" {
		t.Errorf("called for %q, want First and Second", written)
	}
}
