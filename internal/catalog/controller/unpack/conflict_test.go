package unpack

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/catalog/fetch"
	"github.com/mainstay-dev/mainstay/internal/catalogstore"
	"github.com/mainstay-dev/mainstay/internal/image"
)

// second makes another controller of the same catalogs, with a store of its own, as it is
// there for a moment when the leader changes.
func (w *world) second() *Reconciler {
	w.t.Helper()
	store, err := catalogstore.Open(w.t.TempDir(), catalogstore.Limits{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(store.Close)
	images := image.NewClient(image.Options{Limits: w.images})
	return &Reconciler{
		Client: w.client, Store: store, Fetcher: fetch.New(images, store), Resolver: images,
		BaseURL: w.reconcil.BaseURL, Clock: w.clock,
	}
}

// TestTwoControllersDoNotFight lets two work on one catalog while its spec changes. What
// they write collides, and is worked out again from what the other has written.
func TestTwoControllersDoNotFight(t *testing.T) {
	w := newWorld(t)
	w.pushCatalog("v1", good)
	w.pushCatalog("v2", better)
	w.create("v1", 10)
	controllers := []*Reconciler{w.reconcil, w.second()}
	req := ctrl.Request{NamespacedName: client.ObjectKey{Name: w.name}}
	var work sync.WaitGroup
	for _, r := range controllers {
		work.Go(func() {
			for range 20 {
				if _, err := r.lifecycle().Reconcile(t.Context(), req); err != nil && !isConflict(err) {
					t.Errorf("reconciling beside another: %v", err)
				}
			}
		})
	}
	for i := range 10 {
		w.change(func(c *olmv1.ClusterCatalog) {
			c.Spec.Priority = int32(i)
			c.Spec.Source.Image.Ref = w.ref([]string{"v1", "v2"}[i%2])
			c.Spec.Source.Image.PollIntervalMinutes = ptr.To(int32(i + 1))
		})
	}
	work.Wait()
	for range 2 {
		for _, r := range controllers {
			if _, err := r.lifecycle().Reconcile(t.Context(), req); err != nil && !isConflict(err) {
				t.Fatal(err)
			}
		}
	}
	w.expect(unpacked, served)
	catalog := w.get()
	for i, r := range controllers {
		info, err := r.Store.Stored(w.name)
		if err != nil || info.Ref != w.ref("v2") || info.Resolved != catalog.Status.ResolvedSource.Image.Ref {
			t.Errorf("controller %d has stored %+v (%v), the status says %+v", i, info, err, catalog.Status.ResolvedSource)
		}
	}
	if len(catalog.Finalizers) != 1 || catalog.Labels["olm.operatorframework.io/metadata.name"] != w.name {
		t.Errorf("finalizers are %v and labels %v", catalog.Finalizers, catalog.Labels)
	}
	// Each says when it was last unpacked from what it has stored itself; once there is only
	// one, nothing changes any more.
	w.mustReconcile()
	settled := w.get()
	w.mustReconcile()
	if again := w.get(); again.ResourceVersion != settled.ResourceVersion {
		t.Error("the catalog is written though nothing has changed")
	}
}

// isConflict tells whether an error only says that an object was changed meanwhile: the
// reconciliation is run again.
func isConflict(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && apierrors.IsConflict(err)
}

// TestAChangeThatWasNotSeenIsNotOverwritten has the catalog change while it is unpacked.
func TestAChangeThatWasNotSeenIsNotOverwritten(t *testing.T) {
	w := newWorld(t)
	w.pushCatalog("v1", good)
	w.create("v1", 0)
	inner := w.reconcil.Fetcher
	w.reconcil.Fetcher = meanwhile{inner, func() {
		w.change(func(c *olmv1.ClusterCatalog) { c.Spec.AvailabilityMode = olmv1.AvailabilityModeUnavailable })
	}}
	result := w.mustReconcile()
	if result.RequeueAfter <= 0 || result.RequeueAfter > time.Minute {
		t.Errorf("the result is %+v, want to be run again soon", result)
	}
	if conditions := w.get().Status.Conditions; len(conditions) > 0 {
		t.Errorf("the status tells of a spec that is no more: %+v", conditions)
	}
	w.reconcil.Fetcher = inner
	w.mustReconcile()
	const message = "Catalog availability mode is set to Unavailable"
	w.expect("Progressing True/Succeeded: "+message, "Serving False/UserSpecifiedUnavailable: "+message)
	if w.store.Serves(w.name) {
		t.Error("content is served")
	}
}

// meanwhile does something while a catalog is fetched.
type meanwhile struct {
	fetcher
	do func()
}

func (m meanwhile) Fetch(ctx context.Context, name string, source catalogstore.Source) (catalogstore.Info, error) {
	info, err := m.fetcher.Fetch(ctx, name, source)
	m.do()
	return info, err
}
