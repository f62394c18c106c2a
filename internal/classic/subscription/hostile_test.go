package subscription_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/registrypb"
	"github.com/mainstay-dev/mainstay/internal/classic/snapshot"
)

// silentCatalogs has the catalogs of a namespace accept requests and never answer. Unlike in production, a read of them does not
// time out before the test ends, so that whatever waits for one waits until then.
type silentCatalogs struct {
	snapshot.Catalogs
	namespace string
	// begun counts the reads of these catalogs.
	begun atomic.Int64
	ended <-chan struct{}
}

// Client implements snapshot.Catalogs.
func (s *silentCatalogs) Client(catalog types.NamespacedName) (registrypb.RegistryClient, bool) {
	client, ok := s.Catalogs.Client(catalog)
	if catalog.Namespace == s.namespace {
		client = &silentClient{RegistryClient: client, catalogs: s}
	}
	return client, ok
}

type silentClient struct {
	registrypb.RegistryClient
	catalogs *silentCatalogs
}

// ListBundles implements registrypb.RegistryClient.
func (c *silentClient) ListBundles(context.Context, *registrypb.ListBundlesRequest, ...grpc.CallOption) (grpc.ServerStreamingClient[registrypb.Bundle], error) {
	c.catalogs.begun.Add(1)
	<-c.catalogs.ended
	return nil, errors.New("the test has ended")
}

// TestHostileNamespaceDelaysNoOther resolves the Subscriptions of 199 namespaces while another namespace has catalogs that
// never answer, and many Subscriptions to them.
func TestHostileNamespaceDelaysNoOther(t *testing.T) {
	const others, hostileCatalogs, hostileSubscriptions = 199, 8, 40
	silent := &silentCatalogs{ended: t.Context().Done()}
	c := newFixtureWith(t, func(c *fixture) {
		c.createOthers(others)
		c.wrapCatalogs = func(all snapshot.Catalogs) snapshot.Catalogs {
			silent.Catalogs, silent.namespace = all, c.namespace
			return silent
		}
	})

	good, _ := serveCatalog(t, "", catalogRelease{pkg: "a", version: "1.0.0"})
	var catalogs []*v1alpha1.CatalogSource
	for i := range hostileCatalogs {
		catalogs = append(catalogs, c.createCatalog(c.namespace, fmt.Sprintf("silent-%d", i), good))
	}
	// A pass that knows fewer catalogs than the namespace has slots would wait for these alone.
	c.waitUntilConnected(catalogs...)
	for i := range hostileSubscriptions {
		c.createSubscription(fmt.Sprintf("hostile-%d", i), func(s *v1alpha1.Subscription) {
			s.Spec.CatalogSource, s.Spec.CatalogSourceNamespace = fmt.Sprintf("silent-%d", i%hostileCatalogs), c.namespace
		})
	}
	c.eventually(func() error {
		if got := silent.begun.Load(); got < 3 {
			return fmt.Errorf("%d of its catalogs are read", got)
		}
		return nil
	})

	c.createCatalog(c.global, "c", good)
	var subs []*v1alpha1.Subscription
	for _, namespace := range c.others {
		subs = append(subs, c.createSubscription("a", func(s *v1alpha1.Subscription) { s.Namespace = namespace }))
	}
	for _, sub := range subs {
		c.waitForPlan(sub, "a.v1.0.0")
	}
}

// createOthers creates more namespaces with OperatorGroups.
func (c *fixture) createOthers(count int) {
	c.T.Helper()
	c.others = make([]string, count)
	var creations errgroup.Group
	creations.SetLimit(8)
	for i := range c.others {
		creations.Go(func() error {
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "others-"}}
			err := c.Create(c.T.Context(), namespace)
			c.others[i] = namespace.Name
			return errors.Join(err, c.Create(c.T.Context(), &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "group"}}))
		})
	}
	c.Must(creations.Wait())
}
