package env

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
	"github.com/mainstay-dev/mainstay/internal/testing/poll"
)

// borrow borrows an API server, and returns it with a client and a function that ends the loan.
func borrow(t *testing.T, root, socket string) (*borrowedServer, client.Client, func()) {
	t.Helper()
	borrowed, err := borrowServer(root, socket)
	if err != nil {
		t.Fatal(err)
	}

	c, err := client.New(&rest.Config{Host: borrowed.loan.Host, TLSClientConfig: borrowed.loan.TLS}, client.Options{Scheme: Scheme(t, corev1.AddToScheme, apiextensionsv1.AddToScheme)})
	if err != nil {
		t.Fatal(err)
	}
	return borrowed, c, func() { borrowed.connection.Close() }
}

// A borrower must find the state of a new API server, regardless of the objects and faults that the previous one has left.
func TestServersRestoreState(t *testing.T) {
	Start(t) // It skips the test if the programs are missing.
	root, err := checkout.Root()
	if err != nil {
		t.Fatal(err)
	}

	socket := filepath.Join(t.TempDir(), "socket")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}

	servers, ended := &Servers{Root: root}, make(chan error, 1)
	go func() { ended <- servers.Serve(listener) }()
	first, c, giveBack := borrow(t, root, socket)

	crd, namespace := &apiextensionsv1.CustomResourceDefinition{}, &corev1.Namespace{}
	crdKey, namespaceKey := client.ObjectKey{Name: "clusterextensions.olm.operatorframework.io"}, client.ObjectKey{Name: "default"}
	added := []func() client.Object{
		func() client.Object { return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "added"}} },
		func() client.Object {
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "added"}}
		},
		func() client.Object {
			return &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "added"}, InvolvedObject: corev1.ObjectReference{Namespace: "default"}}
		},
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}

	must(c.Get(t.Context(), namespaceKey, namespace))
	namespace.Labels["changed"] = "yes"
	must(c.Update(t.Context(), namespace))
	must(c.Get(t.Context(), crdKey, crd))
	must(c.Delete(t.Context(), crd))
	for _, build := range added {
		must(c.Create(t.Context(), build()))
	}

	must(first.causeFault(killServer))
	if err := c.Get(t.Context(), namespaceKey, namespace); err == nil {
		t.Error("got a running API server after it was killed, want none")
	}
	must(first.causeFault(startServer))
	must(c.Get(t.Context(), namespaceKey, namespace))
	must(first.causeFault(fillEtcd))
	must(first.causeFault(killServer))
	if err := first.causeFault("flood the machine"); err == nil || !strings.Contains(err.Error(), "unknown fault") {
		t.Errorf("got error %v, want one about an unknown fault", err)
	}

	giveBack()
	poll.EventuallyTrue(t, "the state is restored", func() bool {
		servers.mu.Lock()
		defer servers.mu.Unlock()
		return len(servers.idle) == 1
	}, nil)

	second, c, giveBack := borrow(t, root, socket)
	if second.loan.Host != first.loan.Host {
		t.Errorf("got the API server at %s, want that at %s again", second.loan.Host, first.loan.Host)
	}
	for _, build := range added {
		object := build()
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
			t.Errorf("%T: got error %v, want that it does not exist", object, err)
		}
		must(c.Create(t.Context(), build()))
	}

	must(c.Get(t.Context(), namespaceKey, namespace))
	if _, isChanged := namespace.Labels["changed"]; isChanged {
		t.Errorf("got the labels %v, want those of a new API server", namespace.Labels)
	}
	must(c.Get(t.Context(), crdKey, crd))

	giveBack()
	listener.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := c.Get(t.Context(), namespaceKey, namespace); err == nil {
		t.Error("got a running API server after Serve returned, want none")
	}
}

// Without a lender of API servers, borrowing must fail with an error.
func TestBorrowFromNobody(t *testing.T) {
	Start(t)
	root, err := checkout.Root()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := borrowServer(root, filepath.Join(t.TempDir(), "socket")); err == nil {
		t.Error("got no error, want one")
	}
}
