package version

import (
	"context"
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

// others are all those that a controller works with: they accept everything, and do nothing.
type others struct{ given []worker.Work }

func (o *others) Update(w worker.Work)                            { o.given = append(o.given, w) }
func (o *others) Status() worker.Status                           { return worker.Status{} }
func (o *others) Set(updates.Query, []configv1.ConditionalUpdate) {}
func (o *others) Result() updates.Result                          { return updates.Result{} }
func (o *others) Again()                                          {}
func (o *others) Forget()                                         {}
func (o *others) Keep(context.Context) error                      { return nil }

func (o *others) Want(r acceptance.Request) acceptance.State {
	return acceptance.State{Target: r.Target, Accepted: &acceptance.Accepted{
		Release: configv1.Release{Version: "1.0.0", Image: r.Target.Image}, Payload: &release.Payload{},
	}}
}

func (o *others) Verifier(*release.Payload, release.Cluster, []configv1.SignatureStore, updates.Proxy, []byte) acceptance.Verifier {
	return nil
}

// What the platform is configured for by now decides which manifests belong to the cluster:
// the worker gets the release once more, and the operator need not begin anew.
func TestFeatureGates(t *testing.T) {
	controller, cv := stored(t)
	o, clock := &others{}, clocktesting.NewFakeClock(start.Time)
	platform := &configuration{has: map[string]string{}}
	controller.Worker, controller.Updates, controller.Acceptor, controller.Trust, controller.Clock = o, o, o, o, clock
	controller.own, controller.observer = configv1.Release{Image: "a"}, &observer{reader: platform, clock: clock}
	reconcile := func() {
		t.Helper()
		if _, err := controller.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(cv)}); err != nil {
			t.Fatal(err)
		}
		clock.Step(observeEvery)
	}

	reconcile()
	reconcile()
	platform.has["FeatureGate"] = "{spec: {featureSet: TechPreviewNoUpgrade}, status: {featureGates: [{version: 1.0.0, enabled: [{name: New}]}, {version: 1.1.0, enabled: [{name: Newer}]}]}}"
	reconcile()
	reconcile()
	var clusters []release.Cluster
	for _, work := range o.given {
		clusters = append(clusters, work.Cluster)
	}

	want := []release.Cluster{{MajorVersion: 1}, {MajorVersion: 1, FeatureSet: "TechPreviewNoUpgrade", FeatureGates: sets.New("New")}}
	if diff := cmp.Diff(want, clusters); diff != "" {
		t.Errorf("the worker was given a release for clusters (-want +got):\n%s", diff)
	}
}
