package catalog

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/catalog/serve"
	"github.com/mainstay-dev/mainstay/internal/catalogstore"
)

// listed is a reader that returns the given catalogs or an error.
type listed struct {
	client.Reader
	catalogs []olmv1.ClusterCatalog
	err      error
}

func (l *listed) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*olmv1.ClusterCatalogList).Items = l.catalogs
	return l.err
}

// Get returns the first catalog.
func (l *listed) Get(_ context.Context, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	if len(l.catalogs) > 0 {
		l.catalogs[0].DeepCopyInto(object.(*olmv1.ClusterCatalog))
	}
	return l.err
}

func TestReplicaStore(t *testing.T) {
	store, err := catalogstore.Open(t.TempDir(), catalogstore.Limits{})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(store.Close)
	if _, err := store.Unpack(t.Context(), "here", catalogstore.Source{}, fstest.MapFS{}); err != nil {
		t.Fatal(err)
	}

	offered := olmv1.ClusterCatalog{Status: olmv1.ClusterCatalogStatus{ResolvedSource: &olmv1.ResolvedCatalogSource{}}}
	for name, test := range map[string]struct {
		catalog string
		reader  listed
		want    error
	}{
		"stored":            {"here", listed{}, nil},
		"not available yet": {"new", listed{catalogs: []olmv1.ClusterCatalog{offered}}, serve.ErrContentPending},
		"not decided yet":   {"new", listed{catalogs: make([]olmv1.ClusterCatalog, 1)}, catalogstore.ErrNotFound},
		"unknown":           {"new", listed{err: errors.New("not found")}, catalogstore.ErrNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			content, err := (&replicaStore{store: store, reader: &test.reader}).Content(test.catalog)
			if !errors.Is(err, test.want) || (content == nil) == (err == nil) {
				t.Errorf("content %v, error %v, want %v", content, err, test.want)
			}
			if content != nil {
				content.Close()
			}
		})
	}
}

func TestContentReadiness(t *testing.T) {
	catalog := func(change func(*olmv1.ClusterCatalog)) olmv1.ClusterCatalog {
		c := olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{Name: "c"}}
		c.Status.ResolvedSource = &olmv1.ResolvedCatalogSource{}
		change(&c)
		return c
	}

	as := func(*olmv1.ClusterCatalog) {}
	for name, test := range map[string]struct {
		catalogs []olmv1.ClusterCatalog
		err      error
		serves   bool
		want     string
	}{
		"no catalogs":     {},
		"not here yet":    {catalogs: []olmv1.ClusterCatalog{catalog(as)}, want: `the content of catalog "c" is not available on this replica yet`},
		"here":            {catalogs: []olmv1.ClusterCatalog{catalog(as)}, serves: true},
		"nowhere":         {catalogs: []olmv1.ClusterCatalog{catalog(func(c *olmv1.ClusterCatalog) { c.Status.ResolvedSource = nil })}},
		"unavailable":     {catalogs: []olmv1.ClusterCatalog{catalog(func(c *olmv1.ClusterCatalog) { c.Spec.AvailabilityMode = olmv1.AvailabilityModeUnavailable })}},
		"being deleted":   {catalogs: []olmv1.ClusterCatalog{catalog(func(c *olmv1.ClusterCatalog) { c.DeletionTimestamp = &metav1.Time{Time: time.Now()} })}},
		"not known (yet)": {err: errors.New("the cache has not started"), want: "listing the catalogs: the cache has not started"},
	} {
		t.Run(name, func(t *testing.T) {
			clock := testclock.NewFakePassiveClock(time.Now())
			reader := &listed{catalogs: test.catalogs, err: test.err}
			serves := test.serves
			a := &contentReadiness{reader: reader, serves: func(string) bool { return serves }, clock: clock}
			request := httptest.NewRequest(http.MethodGet, "/readyz", nil)
			err := a.checkContent(request)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want %q", err, test.want)
			}

			// After the grace period the check passes, and content that is lost later does not affect it.
			clock.SetTime(clock.Now().Add(contentGracePeriod - time.Second))
			if again := a.checkContent(request); (again == nil) != (err == nil) {
				t.Errorf("got error %v within the grace period, want the first result %v", again, err)
			}

			clock.SetTime(clock.Now().Add(time.Second))
			if err := a.checkContent(request); err != nil {
				t.Errorf("got error %v after the grace period, want none", err)
			}

			serves, reader.err = false, errors.New("gone")
			if err := a.checkContent(request); err != nil {
				t.Errorf("got error %v after the check has passed once, want none", err)
			}
		})
	}
}
