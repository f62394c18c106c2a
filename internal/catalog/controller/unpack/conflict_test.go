package unpack

import (
	"context"
	"errors"
	"net/http"
	"strings"
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
	"github.com/mainstay-dev/mainstay/internal/pull"
)

// newSecondReconciler returns another controller of the same catalogs with its own store, as it can exist for a short
// time when the leader changes.
func (w *fixture) newSecondReconciler() *Reconciler {
	w.T.Helper()
	store, err := catalogstore.Open(w.T.TempDir(), catalogstore.Limits{})
	w.Must(err)

	w.T.Cleanup(store.Close)
	images := image.NewClient(image.Options{Limits: w.images})
	return &Reconciler{
		Client: w.Client, Store: store, Fetcher: fetch.New(images, store), Resolver: images,
		Retrievals: &pull.Retrievals[catalogstore.Info]{}, BaseURL: w.reconciler.BaseURL, Clock: w.clock,
	}
}

// TestTwoControllersDoNotFight runs two controllers on one catalog while its spec changes. Conflicting writes are
// retried on the latest version.
func TestTwoControllersDoNotFight(t *testing.T) {
	w := newFixture(t)
	w.pushCatalog("v1", good)
	w.pushCatalog("v2", better)
	w.create("v1", 10)
	controllers := []*Reconciler{w.reconciler, w.newSecondReconciler()}
	var work sync.WaitGroup
	for _, r := range controllers {
		work.Go(func() {
			for range 20 {
				if _, err := reconcileToEnd(t.Context(), r, w.name); err != nil && !isConflict(err) {
					t.Errorf("got error %v while another controller reconciles the catalog, want none or a conflict", err)
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
			if _, err := reconcileToEnd(t.Context(), r, w.name); err != nil && !isConflict(err) {
				t.Fatal(err)
			}
		}
	}

	w.expect(unpacked, served)
	catalog := w.get()
	for i, r := range controllers {
		info, err := r.Store.Stored(w.name)
		if err != nil || info.Ref != w.ref("v2") || info.Resolved != catalog.Status.ResolvedSource.Image.Ref {
			t.Errorf("controller %d: got stored %+v (error %v), want the resolved source %+v of the status", i, info, err, catalog.Status.ResolvedSource)
		}
	}

	if len(catalog.Finalizers) != 1 || catalog.Labels["olm.operatorframework.io/metadata.name"] != w.name {
		t.Errorf("got finalizers %v and labels %v, want one finalizer and the label with the name", catalog.Finalizers, catalog.Labels)
	}

	// Each controller reports the unpack time of its own store. Once there is only one controller, the
	// status does not change anymore.
	w.mustReconcile()
	settled := w.get()
	w.mustReconcile()
	if again := w.get(); again.ResourceVersion != settled.ResourceVersion {
		t.Error("got a write of the unchanged catalog, want none")
	}
}

// isConflict reports whether an error is a conflict, after which the reconciliation is retried.
func isConflict(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && apierrors.IsConflict(err)
}

// TestAChangeThatWasNotSeenIsNotOverwritten changes the catalog while its status is computed.
func TestAChangeThatWasNotSeenIsNotOverwritten(t *testing.T) {
	w := newFixture(t)
	w.pushCatalog("v1", good)
	w.create("v1", 0)
	baseURL := w.reconciler.BaseURL
	w.reconciler.BaseURL = func(name string) string {
		w.change(func(c *olmv1.ClusterCatalog) { c.Spec.AvailabilityMode = olmv1.AvailabilityModeUnavailable })
		return baseURL(name)
	}
	result := w.mustReconcile()
	if result.RequeueAfter <= 0 || result.RequeueAfter > time.Minute {
		t.Errorf("got result %+v, want a requeue within a minute", result)
	}
	if conditions := w.get().Status.Conditions; len(conditions) > 0 {
		t.Errorf("got conditions %+v for a previous spec, want none", conditions)
	}

	w.reconciler.BaseURL = baseURL
	w.mustReconcile()
	w.expectUnavailable()
}

// TestAChangeDuringARetrievalIsNotOverwritten makes the catalog unavailable while its image is fetched.
func TestAChangeDuringARetrievalIsNotOverwritten(t *testing.T) {
	w := newFixture(t)
	w.pushCatalog("v1", good)
	w.create("v1", 0)
	w.reconciler.Fetcher = meanwhile{w.reconciler.Fetcher, func() {
		w.change(func(c *olmv1.ClusterCatalog) { c.Spec.AvailabilityMode = olmv1.AvailabilityModeUnavailable })
	}}
	w.mustReconcile()
	w.expectUnavailable()
}

func (w *fixture) expectUnavailable() {
	w.T.Helper()
	const message = "Catalog availability mode is set to Unavailable"
	w.expect("Progressing True/Succeeded: "+message, "Serving False/UserSpecifiedUnavailable: "+message)
	if w.store.Serves(w.name) {
		w.T.Error("content is served")
	}
}

// meanwhile is a fetcher that calls a function during the fetch.
type meanwhile struct {
	fetcher
	do func()
}

func (m meanwhile) Fetch(ctx context.Context, name string, source catalogstore.Source) (catalogstore.Info, error) {
	info, err := m.fetcher.Fetch(ctx, name, source)
	m.do()
	return info, err
}

// TestARetrievalEndsWithItsRequest uses a registry that does not respond while the catalog is deleted, made
// unavailable, or changed to another image.
func TestARetrievalEndsWithItsRequest(t *testing.T) {
	for name, change := range map[string]func(*fixture){
		"deleted": func(w *fixture) {
			w.Must(w.Delete(w.T.Context(), w.get()))
		},
		"unavailable": func(w *fixture) {
			w.change(func(c *olmv1.ClusterCatalog) { c.Spec.AvailabilityMode = olmv1.AvailabilityModeUnavailable })
		},
		"another image": func(w *fixture) {
			w.change(func(c *olmv1.ClusterCatalog) { c.Spec.Source.Image.Ref = w.ref("v2") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.pushCatalog("v2", better)
			received, left := make(chan struct{}, 10), make(chan struct{}, 10)
			silent := func(_ http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, "/v1") {
					return false
				}

				received <- struct{}{}
				<-r.Context().Done()
				left <- struct{}{}

				return true
			}

			w.override.Store(&silent)
			w.create("v1", 0)

			// The reconciliation returns although the registry does not respond.
			req := ctrl.Request{NamespacedName: client.ObjectKey{Name: w.name}}
			if _, err := w.reconciler.newObjectReconciler().Reconcile(t.Context(), req); err != nil {
				t.Fatal(err)
			}

			<-received
			if conditions := w.get().Status.Conditions; len(conditions) > 0 {
				t.Errorf("got conditions %+v while the retrieval runs, want none", conditions)
			}

			change(w)
			w.mustReconcile()
			<-left
			switch name {
			case "another image":
				w.expect(unpacked, served)
			case "unavailable":
				w.expectUnavailable()
			default:
				err := w.Get(t.Context(), client.ObjectKey{Name: w.name}, &olmv1.ClusterCatalog{})
				if !apierrors.IsNotFound(err) {
					t.Errorf("getting the deleted catalog: got error %v, want NotFound", err)
				}
			}
		})
	}
}
