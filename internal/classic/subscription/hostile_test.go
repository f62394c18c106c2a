package subscription_test

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/registrypb"
)

// silentCatalog is a catalog that accepts requests and never answers.
type silentCatalog struct {
	registrypb.UnimplementedRegistryServer
	// begun and ended count the reads.
	begun, ended atomic.Int64
}

// ListBundles implements registrypb.RegistryServer.
func (s *silentCatalog) ListBundles(_ *registrypb.ListBundlesRequest, stream grpc.ServerStreamingServer[registrypb.Bundle]) error {
	s.begun.Add(1)
	<-stream.Context().Done()
	s.ended.Add(1)
	return stream.Context().Err()
}

// serve serves the catalog until the test ends, and returns the address.
func (s *silentCatalog) serve(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, ended := grpc.NewServer(), make(chan error, 1)
	registrypb.RegisterRegistryServer(server, s)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

// TestHostileNamespaceDelaysNoOther resolves the Subscriptions of 199 namespaces while another namespace has catalogs that
// never answer, and many Subscriptions to them.
func TestHostileNamespaceDelaysNoOther(t *testing.T) {
	const others, hostileCatalogs, hostileSubscriptions = 199, 8, 40
	c := newFixtureWith(t, func(c *fixture) { c.createOthers(others) })
	silent := &silentCatalog{}
	address := silent.serve(t)
	for i := range hostileCatalogs {
		c.createCatalog(c.namespace, fmt.Sprintf("silent-%d", i), address)
	}
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

	good, _ := serveCatalog(t, "", catalogRelease{pkg: "a", version: "1.0.0"})
	c.createCatalog(c.global, "c", good)
	first := c.createSubscription("a", func(s *v1alpha1.Subscription) { s.Namespace = c.others[0] })
	c.waitForPlan(first, "a.v1.0.0")
	if got := silent.ended.Load(); got > 0 {
		t.Errorf("got the first InstallPlan of another namespace after %d reads of silent catalogs had ended, want it before", got)
	}

	subs := []*v1alpha1.Subscription{first}
	for _, namespace := range c.others[1:] {
		subs = append(subs, c.createSubscription("a", func(s *v1alpha1.Subscription) { s.Namespace = namespace }))
	}
	for _, sub := range subs {
		c.waitForPlan(sub, "a.v1.0.0")
	}
	if silent.begun.Load() == silent.ended.Load() {
		t.Error("got no read of a silent catalog at the end, want one that goes on")
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
