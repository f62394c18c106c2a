package env

import (
	"context"
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/mainstay-dev/mainstay/internal/testing/poll"
)

// CheckStates checks each state of an existing object until stop is called. The test fails at the first error, and if
// the object is deleted.
func CheckStates[T client.Object](f *Fixture, object T, check func(T) error) (stop func()) {
	f.T.Helper()
	connection := Start(f.T)
	connection.QPS = -1
	c, err := client.NewWithWatch(connection, client.Options{Scheme: f.Scheme()})
	f.Must(err)
	kind, err := apiutil.GVKForObject(object, f.Scheme())
	f.Must(err)

	ctx, cancel := context.WithCancel(f.T.Context())
	var checking sync.WaitGroup
	checking.Go(func() {
		for ; ctx.Err() == nil; sleepFor(ctx, poll.Interval) { // The API server may be down.
			if err := checkWatched(ctx, c, kind, object, check); err != nil {
				f.T.Errorf("%s %s: %v", kind.Kind, client.ObjectKeyFromObject(object), err)
				return
			}
		}
	})

	return func() {
		cancel()
		checking.Wait()
	}
}

// checkWatched checks each state of an object until the watch ends, and returns the first error of a check.
func checkWatched[T client.Object](ctx context.Context, c client.WithWatch, kind schema.GroupVersionKind, object T, check func(T) error) error {
	list, err := c.Scheme().New(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err != nil {
		return err
	}
	watcher, err := c.Watch(ctx, list.(client.ObjectList), client.InNamespace(object.GetNamespace()), client.MatchingFields{"metadata.name": object.GetName()})
	if err != nil {
		return nil // The caller tries again.
	}

	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		state, isObject := event.Object.(T)
		switch {
		case event.Type == watch.Deleted:
			return errors.New("it was deleted")
		case !isObject: // The watch has failed.
		default:
			if err := check(state); err != nil {
				return err
			}
		}
	}

	return nil
}
