package follow_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/catalog/controller/follow"
	"github.com/mainstay-dev/mainstay/internal/catalogstore"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/pull"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

// fixture is a replica that is not the leader: an API server, a store, and images of catalogs with one blob each.
type fixture struct {
	*env.Fixture
	store    *catalogstore.Store
	leads    chan struct{}
	follower *follow.Reconciler
	name     string
	// fetched lists the images that were fetched. fail is the error of the next fetch.
	fetched []string
	fail    error
}

func newFixture(t *testing.T, name string) *fixture {
	t.Helper()
	s := &fixture{Fixture: env.NewFixture(t, olmv1.AddToScheme), leads: make(chan struct{}), name: name}
	var err error
	if s.store, err = catalogstore.Open(t.TempDir(), catalogstore.Limits{}); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(s.store.Close)
	s.follower = &follow.Reconciler{
		Client: s.Client, Store: s.store, Fetcher: s, Retrievals: &pull.Retrievals[catalogstore.Info]{}, Elected: s.leads,
	}
	catalog := &olmv1.ClusterCatalog{
		ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{"example.com/held"}},
		Spec: olmv1.ClusterCatalogSpec{Source: olmv1.CatalogSource{
			Type: olmv1.SourceTypeImage, Image: &olmv1.ImageSource{Ref: "registry.example/catalog:v1"},
		}},
	}
	if err := s.Create(t.Context(), catalog); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		_ = s.Delete(context.Background(), catalog)
		_ = s.Patch(context.Background(), catalog, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))
	})
	return s
}

// Fetch stores an image.
func (s *fixture) Fetch(ctx context.Context, name string, source catalogstore.Source) (catalogstore.Info, error) {
	if s.fail != nil {
		return catalogstore.Info{}, s.fail
	}
	s.fetched = append(s.fetched, source.Resolved)
	blob := fmt.Sprintf(`{"name":%q,"schema":"x"}`, source.Resolved)
	return s.store.Unpack(ctx, name, source, fstest.MapFS{"c.json": {Data: []byte(blob)}})
}

func (s *fixture) get() *olmv1.ClusterCatalog {
	s.T.Helper()
	catalog := &olmv1.ClusterCatalog{}
	s.Must(s.Get(s.T.Context(), client.ObjectKey{Name: s.name}, catalog))
	return catalog
}

// unpackedAt is the time at which the leader has unpacked every image.
var unpackedAt = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))

func imageOf(digit string) string {
	return "registry.example/catalog@sha256:" + strings.Repeat(digit, 64)
}

// setResolvedImage sets the resolved image in the status, as the leader does.
func (s *fixture) setResolvedImage(image string) {
	s.T.Helper()
	catalog := s.get()
	catalog.Status.ResolvedSource = nil
	if image != "" {
		catalog.Status.ResolvedSource = &olmv1.ResolvedCatalogSource{Type: olmv1.SourceTypeImage, Image: &olmv1.ResolvedImageSource{Ref: image}}
		catalog.Status.LastUnpacked = &unpackedAt
	}
	s.Must(s.Status().Update(s.T.Context(), catalog))
}

func (s *fixture) reconcile() error {
	s.T.Helper()
	before := s.get()
	ended := make(chan struct{}, 1)
	s.follower.Retrievals.OnEnd(func(string) {
		select {
		case ended <- struct{}{}:
		default:
		}
	})

	req := ctrl.Request{NamespacedName: client.ObjectKey{Name: s.name}}
	result, err := s.follower.Reconcile(s.T.Context(), req)
	for s.follower.Retrievals.IsPending(s.name) {
		select {
		case <-ended:
		case <-s.T.Context().Done():
			s.T.Fatal(s.T.Context().Err())
		}
		result, err = s.follower.Reconcile(s.T.Context(), req)
	}

	if result != (ctrl.Result{}) {
		s.T.Errorf("the result is %+v", result)
	}
	if diff := cmp.Diff(before, s.get()); diff != "" {
		s.T.Errorf("a follower has written the catalog (-before +after):\n%s", diff)
	}

	return err
}

// expect checks the images that were fetched since the last call, and the stored content.
func (s *fixture) expect(what, stored string, fetched ...string) {
	s.T.Helper()
	if diff := cmp.Diff(fetched, s.fetched); diff != "" {
		s.T.Errorf("%s: fetched (-want +got):\n%s", what, diff)
	}

	s.fetched = nil
	info, err := s.store.Stored(s.name)
	switch {
	case stored == "" && !errors.Is(err, catalogstore.ErrNotFound):
		s.T.Errorf("%s: stored is %+v (%v), want nothing", what, info, err)
	case stored != "" && (err != nil || info.Resolved != stored):
		s.T.Errorf("%s: stored is %+v (%v), want %s", what, info, err, stored)
	case stored != "" && info.Ref != "":
		s.T.Errorf("%s: got stored reference %s, want that of the status", what, info.Ref)
	}
}

func (s *fixture) mustReconcile() {
	s.T.Helper()
	s.Must(s.reconcile())
}

func TestTheLeaderIsFollowed(t *testing.T) {
	s := newFixture(t, "followed")
	s.mustReconcile()
	s.expect("before the leader has resolved the image", "")
	s.setResolvedImage(imageOf("1"))
	s.mustReconcile()
	s.expect("after the leader has resolved the image", imageOf("1"), imageOf("1"))
	if info, err := s.store.Stored(s.name); err != nil || !info.Modified.Equal(unpackedAt.Time) {
		t.Errorf("got modification time %v (error %v), want %v from the status", info.Modified, err, unpackedAt)
	}

	s.mustReconcile()
	s.expect("a second reconciliation", imageOf("1"))
	s.setResolvedImage(imageOf("2"))
	s.mustReconcile()
	s.expect("another image", imageOf("2"), imageOf("2"))
	s.setResolvedImage("")
	s.mustReconcile()
	s.expect("without a resolved image in the status", imageOf("2"))
	s.setResolvedImage(imageOf("2"))
	close(s.leads)
	s.setResolvedImage(imageOf("3"))
	s.mustReconcile()
	s.expect("on the leader", imageOf("2"))
}

func TestLostContentIsFetchedAgain(t *testing.T) {
	s := newFixture(t, "lost")
	s.setResolvedImage(imageOf("1"))
	s.mustReconcile()
	s.expect("first fetch", imageOf("1"), imageOf("1"))
	if err := s.store.Delete(s.name); err != nil {
		t.Fatal(err)
	}

	s.mustReconcile()
	s.expect("after the content was lost", imageOf("1"), imageOf("1"))
}

func TestContentOfUnavailableCatalogsIsRemoved(t *testing.T) {
	for name, change := range map[string]func(*fixture, *olmv1.ClusterCatalog) error{
		"unavailable": func(s *fixture, c *olmv1.ClusterCatalog) error {
			c.Spec.AvailabilityMode = olmv1.AvailabilityModeUnavailable
			return s.Update(s.T.Context(), c)
		},
		"deleted": func(s *fixture, c *olmv1.ClusterCatalog) error { return s.Delete(s.T.Context(), c) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, name)
			s.setResolvedImage(imageOf("1"))
			s.mustReconcile()
			s.expect("first fetch", imageOf("1"), imageOf("1"))
			if err := change(s, s.get()); err != nil {
				t.Fatal(err)
			}

			s.mustReconcile()
			s.expect(name, "")
		})
	}

	t.Run("gone", func(t *testing.T) {
		s := newFixture(t, "other")
		if _, err := s.store.Unpack(t.Context(), "no-such-catalog", catalogstore.Source{}, fstest.MapFS{}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.follower.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "no-such-catalog"}}); err != nil {
			t.Fatal(err)
		}
		if names := s.store.Names(); len(names) > 0 {
			t.Errorf("got stored catalogs %v, want none", names)
		}
	})
}

// TestFailuresAreRetried includes invalid content. The leader has validated it, so it was changed in transit
// and is retried.
func TestFailuresAreRetried(t *testing.T) {
	s := newFixture(t, "failing")
	s.setResolvedImage(imageOf("1"))
	s.mustReconcile()
	s.expect("first fetch", imageOf("1"), imageOf("1"))
	s.setResolvedImage(imageOf("2"))
	for _, failure := range []error{errors.New("no answer"), &fbc.Error{File: "x", Err: errors.New("is wrong")}} {
		s.fail = failure
		err := s.reconcile()
		if !errors.Is(err, failure) || errors.Is(err, ctrlreconcile.TerminalError(nil)) {
			t.Errorf("got error %v, want %v as an error that is retried", err, failure)
		}
		s.expect("after a failure", imageOf("1"))
	}

	s.fail = nil
	s.mustReconcile()
	s.expect("after a successful retry", imageOf("2"), imageOf("2"))
}
