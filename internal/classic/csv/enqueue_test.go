package csv

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// A change of a role or binding enqueues the ClusterServiceVersions that it can affect, and no other succeeded ones.
func TestEnqueueCSVsForRights(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}

	of := func(name string, phase v1alpha1.ClusterServiceVersionPhase, reason string) *v1alpha1.ClusterServiceVersion {
		csv := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		csv.Status.Phase, csv.Status.Reason = phase, reason
		return csv
	}
	e := &enqueuer{shared: &sharedRights{}, client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		of("borrower", v1alpha1.CSVPhaseSucceeded, v1alpha1.CSVReasonInstallSuccessful),
		of("returned", v1alpha1.CSVPhaseSucceeded, v1alpha1.CSVReasonInstallSuccessful),
		of("own", v1alpha1.CSVPhaseSucceeded, v1alpha1.CSVReasonInstallSuccessful),
		of("lacks", v1alpha1.CSVPhasePending, v1alpha1.CSVReasonRequirementsNotMet),
		of("new", v1alpha1.CSVPhaseNone, ""),
	).Build()}

	for _, name := range []string{"borrower", "returned"} {
		e.shared.set(types.NamespacedName{Namespace: "ns", Name: name}, true)
	}

	e.shared.set(types.NamespacedName{Namespace: "ns", Name: "returned"}, false)
	labels := csvinfo.OwnerLabels("ns", "own")
	tests := map[string]struct {
		object client.Object
		want   []string
	}{
		"of the cluster, without labels":       {&rbacv1.ClusterRole{}, []string{"borrower", "lacks", "new"}},
		"of the cluster, with an owner":        {&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Labels: labels}}, []string{"borrower", "lacks", "new", "own"}},
		"of the namespace":                     {&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}}, []string{"borrower", "lacks", "new", "own", "returned"}},
		"of another namespace, with an owner":  {&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Labels: labels}}, []string{"own"}},
		"of another namespace, without labels": {&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system"}}, nil},
	}

	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, request := range e.enqueueCSVsForRights(t.Context(), tt.object) {
				got = append(got, request.Name)
			}
			slices.Sort(got)
			if diff := cmp.Diff(tt.want, slices.Compact(got)); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}
