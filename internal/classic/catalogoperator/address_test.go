package catalogoperator_test

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/catalogoperator"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// TestAddress: catalog-operator connects to a catalog at an address, and reconnects after the server was stopped.
func TestAddress(t *testing.T) {
	address, stop := serve(t, "127.0.0.1:0")
	f := newFixture(t, catalogoperator.Options{})
	catalog := f.catalog("elsewhere", v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeGrpc, Address: address})
	f.waitForState(catalog, "READY")
	status := catalog.Status
	if status.GRPCConnectionState.Address != address || status.GRPCConnectionState.LastConnectTime.IsZero() {
		t.Errorf("got the connection %+v", status.GRPCConnectionState)
	}
	if s := status.RegistryServiceStatus; s.Protocol != "grpc" || s.ServiceName != "" || s.CreatedAt.IsZero() {
		t.Errorf("got the Service %+v", s)
	}
	if status.Message != "" || status.Reason != "" {
		t.Errorf("got the reason %s and the message %q", status.Reason, status.Message)
	}

	f.waitForMetric("catalogsource_ready", catalog, 1)
	f.waitForCatalogCount()
	if pods := f.pods("olm.catalogSource", "elsewhere"); len(pods) != 0 {
		t.Errorf("got pods %v, want none", pods)
	}

	stop()
	f.waitForState(catalog, "TRANSIENT_FAILURE")
	f.waitForReason(catalog, "RegistryServerError", func(m string) bool {
		return strings.HasPrefix(m, "couldn't connect to registry - dial tcp "+address) && strings.Contains(m, "refused")
	})
	f.waitForMetric("catalogsource_ready", catalog, 0)

	serve(t, address)
	f.waitForState(catalog, "READY")
	f.waitForReason(catalog, "", is(""))

	f.Must(f.Delete(t.Context(), catalog))
	f.eventually(func() error { return f.isDeleted(catalog) })
	f.waitForMetricRemoved("catalogsource_ready", catalog)
	f.waitForCatalogCount()
}

// isDeleted returns an error while an object still exists.
func (f *fixture) isDeleted(object client.Object) error {
	err := f.get(object)
	if err == nil {
		return fmt.Errorf("%T %s still exists", object, object.GetName())
	}
	return client.IgnoreNotFound(err)
}

func TestAddressChange(t *testing.T) {
	first, _ := serve(t, "127.0.0.1:0")
	second, _ := serve(t, "127.0.0.1:0")
	f := newFixture(t, catalogoperator.Options{})
	catalog := f.catalog("moves", v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeGrpc, Address: first})
	f.waitForState(catalog, "READY")
	env.EditObject(f.Fixture, catalog, func(s *v1alpha1.CatalogSource) { s.Spec.Address = second })
	f.eventually(func() error {
		f.waitForState(catalog, "READY")
		if catalog.Status.GRPCConnectionState.Address != second {
			return fmt.Errorf("connected to %s", catalog.Status.GRPCConnectionState.Address)
		}
		return nil
	})
}

func TestInvalid(t *testing.T) {
	f := newFixture(t, catalogoperator.Options{})
	address, _ := serve(t, "127.0.0.1:0")
	for name, tc := range map[string]struct {
		spec v1alpha1.CatalogSourceSpec
		want string
	}{
		"kind":      {v1alpha1.CatalogSourceSpec{SourceType: "ftp"}, "unknown sourcetype: ftp"},
		"nothing":   {v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeGrpc}, "image and address unset: at least one must be set for sourcetype: grpc"},
		"configmap": {v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeConfigmap}, "configmap name unset: must be set for sourcetype: configmap"},
		"internal":  {v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeInternal}, "configmap name unset: must be set for sourcetype: internal"},
	} {
		t.Run(name, func(*testing.T) {
			catalog := f.catalog("wrong-"+name, tc.spec)
			f.waitForReason(catalog, "SpecInvalidError", is(tc.want))
			f.waitForMetric("catalogsource_ready", catalog, 0)
			env.EditObject(f.Fixture, catalog, func(s *v1alpha1.CatalogSource) {
				s.Spec = v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeGrpc, Address: address}
			})
			f.waitForReason(catalog, "", is(""))
			f.waitForState(catalog, "READY")
			env.EditObject(f.Fixture, catalog, func(s *v1alpha1.CatalogSource) { s.Spec.Address = "no port" })
			f.waitForReason(catalog, "RegistryServerError", func(m string) bool {
				return strings.HasPrefix(m, `couldn't connect to registry - the address of a catalog is HOST:PORT, not "no port"`)
			})
		})
	}
}
