package env

import (
	"context"
	"errors"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/testing/builder"
	"github.com/mainstay-dev/mainstay/internal/testing/poll"
)

// RunOnChanges runs a step that replaces a controller of a real cluster, until the test ends: once at the start, after
// each change of the objects of some kinds, and when again is called. A step that returns an error is retried.
func (f *Fixture) RunOnChanges(step func(context.Context) error, kinds ...schema.GroupVersionKind) (again func()) {
	f.T.Helper()
	connection := Start(f.T)
	connection.QPS = -1
	c, err := client.NewWithWatch(connection, client.Options{Scheme: f.Scheme()})
	f.Must(err)

	ctx, cancel := context.WithCancel(context.Background())
	changed := make(chan struct{}, 1)
	again = func() {
		select {
		case changed <- struct{}{}:
		default: // The step will run after this change.
		}
	}

	var running sync.WaitGroup
	for _, kind := range kinds {
		running.Go(func() {
			for ; ctx.Err() == nil; sleepFor(ctx, poll.Interval) { // The API server may be down.
				watchKind(ctx, c, kind, again)
			}
		})
	}
	running.Go(func() {
		for ctx.Err() == nil {
			if step(ctx) != nil {
				sleepFor(ctx, poll.Interval)
				continue
			}

			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
	})
	f.T.Cleanup(func() {
		cancel()
		running.Wait()
	})

	again()
	return again
}

// watchKind calls a function for each object of a kind that exists, and after each change, until the watch ends.
func watchKind(ctx context.Context, c client.WithWatch, kind schema.GroupVersionKind, notify func()) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	watcher, err := c.Watch(ctx, list)
	if err != nil {
		return
	}

	defer watcher.Stop()
	for range watcher.ResultChan() {
		notify()
	}
}

// sleepFor waits for a time, or until the context ends.
func sleepFor(ctx context.Context, duration time.Duration) {
	select {
	case <-time.After(duration):
	case <-ctx.Done():
	}
}

// MakeDeploymentsAvailable sets the status of Deployments as if all of their pods were available.
func (f *Fixture) MakeDeploymentsAvailable(ctx context.Context, options ...client.ListOption) error {
	var list appsv1.DeploymentList
	if err := f.List(ctx, &list, options...); err != nil {
		return err
	}

	var errs []error
	for i := range list.Items {
		d := &list.Items[i]
		before := d.DeepCopy()
		d.Status = builder.AvailableStatus(d)
		if !equality.Semantic.DeepEqual(before.Status, d.Status) {
			errs = append(errs, f.Status().Patch(ctx, d, client.MergeFrom(before)))
		}
	}

	return errors.Join(errs...)
}
