package rollout_test

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// BenchmarkRollOut rolls out a revision of 24 objects in 8 phases from its creation to
// its success. Its deployment is made available as soon as it exists.
func BenchmarkRollOut(b *testing.B) {
	c := newFixture(b)
	ns := c.NewNamespace("rollout-")
	c.startController()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	watcher, err := client.NewWithWatch(env.Start(b), client.Options{Scheme: c.Scheme()})
	if err != nil {
		b.Fatal(err)
	}

	go makeAllDeploymentsAvailable(ctx, watcher, ns)
	for i := 0; b.Loop(); i++ {
		extension := fmt.Sprintf("bench-%d", i)
		events, err := watcher.Watch(ctx, &olmv1.ClusterObjectSetList{})
		if err != nil {
			b.Fatal(err)
		}

		c.CreateAll(newRevision(extension, 1, benchmarkPhases(ns, extension)...))
		for event := range events.ResultChan() {
			set, ok := event.Object.(*olmv1.ClusterObjectSet)
			if ok && set.Name == extension+"-1" && meta.IsStatusConditionTrue(set.Status.Conditions, olmv1.TypeSucceeded) {
				break
			}
		}

		events.Stop()
	}
}

func benchmarkPhases(namespace, extension string) []olmv1.ClusterObjectSetPhase {
	var phases []olmv1.ClusterObjectSetPhase
	for _, name := range []string{"identity", "configuration", "roles", "bindings", "infrastructure", "publish", "admission"} {
		p := olmv1.ClusterObjectSetPhase{Name: name}
		for i := range 3 {
			manifest := configMapManifest(namespace, fmt.Sprintf("%s-%s-%d", extension, name, i), "x")
			p.Objects = append(p.Objects, newPhase("", manifest).Objects...)
		}
		phases = append(phases, p)
	}

	return append(phases, newPhase("deploy",
		deploymentManifest(namespace, extension), configMapManifest(namespace, extension+"-a", "x"), configMapManifest(namespace, extension+"-b", "x")))
}

// makeAllDeploymentsAvailable makes every Deployment of a namespace available.
func makeAllDeploymentsAvailable(ctx context.Context, c client.WithWatch, namespace string) {
	events, err := c.Watch(ctx, &appsv1.DeploymentList{}, client.InNamespace(namespace))
	if err != nil {
		return
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		d, ok := event.Object.(*appsv1.Deployment)
		if !ok || d.Status.ObservedGeneration >= d.Generation {
			continue
		}

		d.Status = builder.AvailableStatus(d)
		_ = c.Status().Update(ctx, d) // a conflict is followed by another event
	}
}
