package version

import (
	"context"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/sets"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/cluster/acceptance"
	"github.com/mainstay-dev/mainstay/internal/cluster/updates"
	"github.com/mainstay-dev/mainstay/internal/cluster/worker"
	"github.com/mainstay-dev/mainstay/internal/release"
)

// fakeServices implements all components of a controller. They accept everything and do nothing.
type fakeServices struct{ updates []worker.Work }

func (o *fakeServices) Status() worker.Status                           { return worker.Status{} }
func (o *fakeServices) Set(updates.Query, []configv1.ConditionalUpdate) {}
func (o *fakeServices) Result() updates.Result                          { return updates.Result{} }
func (o *fakeServices) RetryNow()                                       {}
func (o *fakeServices) Cancel()                                         {}
func (o *fakeServices) StoreSignatures(context.Context) error           { return nil }

// Update ignores work that is equal to that of the last call, as Worker requires.
func (o *fakeServices) Update(w worker.Work) {
	if n := len(o.updates); n == 0 || !reflect.DeepEqual(o.updates[n-1], w) {
		o.updates = append(o.updates, w)
	}
}

func (o *fakeServices) SetRequest(r acceptance.Request) acceptance.State {
	return acceptance.State{Target: r.Target, Accepted: &acceptance.Accepted{
		Release: configv1.Release{Version: "1.0.0", Image: r.Target.Image}, Payload: &release.Payload{},
	}}
}

func (o *fakeServices) Verifier(*release.Payload, release.Cluster, []configv1.SignatureStore, updates.Proxy, []byte) acceptance.Verifier {
	return nil
}

// Feature gates select the manifests that belong to the cluster. When they change, the worker
// receives the release again, and the operator does not restart.
func TestFeatureGates(t *testing.T) {
	controller, cv := newStoredVersion(t)
	o, clock := &fakeServices{}, clocktesting.NewFakeClock(start.Time)
	platform := &fakeConfigReader{has: map[string]string{}}
	controller.Worker, controller.Updates, controller.Acceptor, controller.Trust, controller.Clock = o, o, o, o, clock
	controller.memory.releases.own, controller.observer = configv1.Release{Image: "a"}, &platformObserver{reader: platform, clock: clock}
	reconcile := func() {
		t.Helper()
		if _, err := controller.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(cv)}); err != nil {
			t.Fatal(err)
		}
		clock.Step(minObserveInterval)
	}

	reconcile()
	reconcile()
	platform.has["FeatureGate"] = "{spec: {featureSet: TechPreviewNoUpgrade}, status: {featureGates: [{version: 1.0.0, enabled: [{name: New}]}, {version: 1.1.0, enabled: [{name: Newer}]}]}}"
	reconcile()
	reconcile()
	var clusters []release.Cluster
	for _, work := range o.updates {
		clusters = append(clusters, work.Cluster)
	}

	want := []release.Cluster{{MajorVersion: 1}, {MajorVersion: 1, FeatureSet: "TechPreviewNoUpgrade", FeatureGates: sets.New("New")}}
	if diff := cmp.Diff(want, clusters); diff != "" {
		t.Errorf("clusters in the work of the worker (-want +got):\n%s", diff)
	}
}
