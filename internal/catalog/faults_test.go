package catalog_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/catalog"
	"github.com/mainstay-dev/mainstay/internal/catalogclient"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// TestServerRestarts kills the API server while a catalog is unpacked and while it is served. Clients are served
// in the meantime, and later changes are reconciled.
func TestServerRestarts(t *testing.T) {
	c := env.Client(t, olmv1.AddToScheme, corev1.AddToScheme)
	namespace, made := createCatalog(t, c)
	key := client.ObjectKeyFromObject(made)
	r := start(t, namespace, nil)
	env.RestartServer(t)
	env.Eventually(t, "the catalog is served", func() error {
		if err := c.Get(t.Context(), key, made); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(made.Status.Conditions, olmv1.TypeServing) {
			return errors.New("it is not Serving")
		}
		return nil
	})

	// The certificate authority is published independently of the catalog, and the restart may have delayed it.
	var authority *x509.CertPool
	env.Eventually(t, "the certificate authority is published", func() (err error) {
		authority, err = publishedAuthority(c, namespace)(t.Context())
		return err
	})

	reader := catalogclient.New(catalogclient.Options{RootCAs: func(context.Context) (*x509.CertPool, error) { return authority, nil }})
	base := "https://" + r.address + "/catalogs/" + made.Name
	env.RestartServer(t, func() {
		if err := c.Get(t.Context(), key, made); err == nil {
			t.Error("got a response of the stopped API server, want an error")
		}
		if err := readCatalog(t, reader, base); err != nil {
			t.Errorf("got error %v while the API server is down, want the catalog to be served", err)
		}
	})

	env.Eventually(t, "the catalog is set to unavailable", func() error {
		if err := c.Get(t.Context(), key, made); err != nil {
			return err
		}
		made.Spec.AvailabilityMode = olmv1.AvailabilityModeUnavailable
		return c.Update(t.Context(), made)
	})

	env.Eventually(t, "the catalog is not served anymore", func() error {
		if err := c.Get(t.Context(), key, made); err != nil {
			return err
		}
		if len(made.Finalizers) > 0 || made.Status.URLs != nil {
			return fmt.Errorf("the catalog is %+v", made)
		}
		return nil
	})
}

// TestEtcdWithoutSpace has etcd refuse writes while the program starts and unpacks a catalog, and while the catalog is
// served. The program retries until there is space, and clients are served without space.
func TestEtcdWithoutSpace(t *testing.T) {
	c := env.Client(t, olmv1.AddToScheme, corev1.AddToScheme)
	namespace, made := createCatalog(t, c)
	free := env.FillEtcd(t)
	excess := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "one-too-many"}}
	if err := c.Create(t.Context(), excess); err == nil || !strings.Contains(err.Error(), "database space exceeded") {
		t.Fatalf("a write without space: got error %v, want that the database space is exceeded", err)
	}

	r, opts := newReplica(t, namespace, nil)
	program := (&env.Fixture{Client: c, T: t}).StartReplica(env.Manager{Setup: func(mgr ctrl.Manager) error { return catalog.Setup(mgr, opts) }}, "")
	env.EventuallyTrue(t, "the program retries", func() bool { return program.Refused() >= 3 }, nil)
	free()
	reader := catalogclient.New(catalogclient.Options{RootCAs: publishedAuthority(c, namespace)})
	base := "https://" + r.address + "/catalogs/" + made.Name
	env.Eventually(t, "the catalog is served", func() error { return readCatalog(t, reader, base) })
	env.Eventually(t, "the status reports that the catalog is served", func() error {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(made), made); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(made.Status.Conditions, olmv1.TypeServing) {
			return fmt.Errorf("the conditions are %+v", made.Status.Conditions)
		}
		return nil
	})

	free = env.FillEtcd(t)
	if err := readCatalog(t, reader, base); err != nil {
		t.Errorf("got error %v while etcd has no space, want the catalog to be served", err)
	}
	free()
	if err := c.Delete(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, "the catalog is removed", func() error {
		err := c.Get(t.Context(), client.ObjectKeyFromObject(made), made)
		if err == nil {
			return errors.New("the catalog still exists")
		}
		return client.IgnoreNotFound(err)
	})
	program.CheckRunning()
}
