package csv

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/keymutex"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/crdinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// newCSVFixture has a controller and a new ClusterServiceVersion whose CRD does not exist.
type newCSVFixture struct {
	client.Client

	t        *testing.T
	csv      *v1alpha1.ClusterServiceVersion
	clock    *clocktesting.FakePassiveClock
	recorder *events.FakeRecorder
	// outdated, if not nil, are the OperatorGroups in the cache.
	outdated *operatorsv1.OperatorGroupList
	// groupPatches counts the patches of OperatorGroups, liveReads the reads from the API server.
	groupPatches, liveReads int
	reconcile               func() ctrl.Result
	controller              *csvController
}

func newCSVFixtureWith(t *testing.T, listedAPIs string, accounts ...string) *newCSVFixture {
	t.Helper()
	f := &newCSVFixture{
		t: t, clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0)), recorder: events.NewFakeRecorder(10),
		csv: &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{
			Namespace: "home", Name: "op.v1", Finalizers: []string{csvinfo.Finalizer}, CreationTimestamp: metav1.Unix(1000, 0),
			Annotations: map[string]string{csvinfo.AnnotationOperatorGroup: "group", csvinfo.AnnotationOperatorNamespace: "home", csvinfo.AnnotationTargetNamespaces: "home"},
		}},
	}
	f.csv.Spec.InstallModes = []v1alpha1.InstallMode{{Type: v1alpha1.InstallModeTypeOwnNamespace, Supported: true}}
	f.csv.Spec.InstallStrategy.StrategyName = v1alpha1.InstallStrategyDeployment
	f.csv.Spec.CustomResourceDefinitions.Owned = []v1alpha1.CRDDescription{{Name: "things.example.com", Version: "v1", Kind: "Thing"}}
	for _, account := range accounts {
		f.csv.Spec.InstallStrategy.StrategySpec.Permissions = append(f.csv.Spec.InstallStrategy.StrategySpec.Permissions, v1alpha1.StrategyDeploymentPermissions{ServiceAccountName: account})
	}
	f.csv.Labels, _, _ = withAPILabels(f.csv)
	group := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{
		Namespace: "home", Name: "group", Annotations: map[string]string{operatorsv1.OperatorGroupProvidedAPIsAnnotation: listedAPIs},
	}}
	group.Spec.TargetNamespaces, group.Status.Namespaces = []string{"home"}, []string{"home"}

	scheme := env.Scheme(t, v1alpha1.AddToScheme, operatorsv1.AddToScheme, corev1.AddToScheme, rbacv1.AddToScheme, crdinfo.AddToScheme)
	f.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(f.csv, group).WithStatusSubresource(f.csv).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if groups, ok := list.(*operatorsv1.OperatorGroupList); ok && f.outdated != nil {
				f.outdated.DeepCopyInto(groups)
				return nil
			}
			return c.List(ctx, list, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if _, ok := object.(*operatorsv1.OperatorGroup); ok {
				f.groupPatches++
			}
			return c.Patch(ctx, object, patch, options...)
		},
	}).Build()
	live := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			f.liveReads++
			return c.Get(ctx, key, object, options...)
		},
	}).Build()

	f.controller = &csvController{
		client: f, shared: &sharedRights{}, events: f.recorder, clock: f.clock, groupWrites: keymutex.NewHashed(1),
		facts: &factReader{
			client: f, live: live, clock: f.clock,
			requirements: &requirementReader{cached: f, crds: f, marked: f, live: live, shared: &sharedRights{}, clock: f.clock},
		},
	}
	reconciler := f.controller.newReconciler()
	f.reconcile = func() ctrl.Result {
		t.Helper()
		result, err := reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(f.csv)})
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	return f
}

// status returns the status of the ClusterServiceVersion.
func (f *newCSVFixture) status() v1alpha1.ClusterServiceVersionStatus {
	f.t.Helper()
	found := &v1alpha1.ClusterServiceVersion{}
	if err := f.Get(f.t.Context(), client.ObjectKeyFromObject(f.csv), found); err != nil {
		f.t.Fatal(err)
	}
	return found.Status
}

// The status of a new ClusterServiceVersion reports requirements that are not met half a second later, because its
// InstallPlan is probably creating them. Neither pass asks the API server for a CRD that is not in the cache.
func TestUnmetRequirementsOfNewCSVAreDelayed(t *testing.T) {
	f := newCSVFixtureWith(t, "Thing.v1.example.com")
	if result := f.reconcile(); result.RequeueAfter <= 0 || result.RequeueAfter > time.Second {
		t.Errorf("requeued after %s, want less than a second", result.RequeueAfter)
	}
	if status := f.status(); status.Phase != v1alpha1.CSVPhaseNone || len(f.recorder.Events) > 0 {
		t.Errorf("got status %+v and %d events at once, want none", status, len(f.recorder.Events))
	}

	f.clock.SetTime(f.clock.Now().Add(time.Second))
	f.reconcile()
	if status := f.status(); status.Reason != v1alpha1.CSVReasonRequirementsNotMet || len(status.RequirementStatus) == 0 || len(f.recorder.Events) != 2 {
		t.Errorf("got status %+v and %d events after the delay, want one for each phase", status, len(f.recorder.Events))
	}
	if f.liveReads > 0 {
		t.Errorf("got %d reads from the API server, want none", f.liveReads)
	}
}

// The requirements of a new ClusterServiceVersion are checked once its service account exists, or after two seconds.
func TestNewCSVWaitsForServiceAccount(t *testing.T) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "home", Name: "operator"}}
	for name, proceed := range map[string]func(*newCSVFixture) error{
		"the service account is created": func(f *newCSVFixture) error { return f.Create(t.Context(), account.DeepCopy()) },
		"the service account is missing": func(f *newCSVFixture) error {
			f.clock.SetTime(f.clock.Now().Add(2 * time.Second))
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newCSVFixtureWith(t, "Thing.v1.example.com", account.Name)
			if err := f.Create(t.Context(), &crdinfo.Definition{ObjectMeta: metav1.ObjectMeta{Name: "things.example.com"}}); err != nil {
				t.Fatal(err)
			}
			if result := f.reconcile(); result.RequeueAfter != 2*time.Second {
				t.Errorf("requeued after %s, want 2s without a check", result.RequeueAfter)
			}

			if err := proceed(f); err != nil {
				t.Fatal(err)
			}
			if result := f.reconcile(); result.RequeueAfter <= 0 || result.RequeueAfter > time.Second {
				t.Errorf("requeued after %s, want less than a second until unmet requirements are reported", result.RequeueAfter)
			}
			if f.liveReads > 0 {
				t.Errorf("got %d reads from the API server, want none", f.liveReads)
			}
		})
	}
}

// A pass with an OperatorGroup that is older than the last write does not write it again.
func TestOutdatedGroupIsNotWrittenAgain(t *testing.T) {
	f := newCSVFixtureWith(t, "")
	before := &operatorsv1.OperatorGroupList{}
	if err := f.List(t.Context(), before); err != nil {
		t.Fatal(err)
	}

	f.outdated = before
	f.reconcile()
	result := f.reconcile()
	if f.groupPatches != 1 || result.RequeueAfter <= 0 {
		t.Errorf("got %d writes of the group, requeued after %s; want 1, requeued", f.groupPatches, result.RequeueAfter)
	}

	f.outdated = nil
	f.reconcile()
	f.clock.SetTime(f.clock.Now().Add(time.Second))
	f.reconcile()
	if status := f.status(); status.Reason != v1alpha1.CSVReasonRequirementsNotMet || f.groupPatches != 1 {
		t.Errorf("got status %+v and %d writes with the group in the cache, want a check of the requirements", status, f.groupPatches)
	}
}

// Of several passes that list APIs in the same OperatorGroup, one writes it. The others wait for its event, without a
// conflict.
func TestGroupIsWrittenByOneOfSeveralPasses(t *testing.T) {
	f := newCSVFixtureWith(t, "")
	var groups operatorsv1.OperatorGroupList
	if err := f.List(t.Context(), &groups); err != nil {
		t.Fatal(err)
	}

	const passes = 8
	results := make(chan error, passes)
	for range passes {
		go func() {
			results <- f.controller.setProvidedAPIs(t.Context(), f.csv, &groups.Items[0], "Thing.v1.example.com")
		}()
	}
	waiting := 0
	for range passes {
		switch err := <-results; {
		case errors.Is(err, reconcile.ErrOutdatedCache):
			waiting++
		case err != nil:
			t.Error(err)
		}
	}
	if f.groupPatches != 1 || waiting != passes-1 {
		t.Errorf("got %d writes and %d passes that wait, want 1 and %d", f.groupPatches, waiting, passes-1)
	}
}
