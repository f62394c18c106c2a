package catalogoperator_test

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/catalogoperator"
)

// TestAddress: a catalog that runs elsewhere is connected to, is lost, and is found again.
func TestAddress(t *testing.T) {
	address, stop := serve(t, "127.0.0.1:0")
	c := start(t, catalogoperator.Options{})
	catalog := c.catalog("elsewhere", v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeGrpc, Address: address})
	c.state(catalog, "READY")
	status := catalog.Status
	if status.GRPCConnectionState.Address != address || status.GRPCConnectionState.LastConnectTime.IsZero() {
		t.Errorf("the connection is %+v", status.GRPCConnectionState)
	}
	if s := status.RegistryServiceStatus; s.Protocol != "grpc" || s.ServiceName != "" || s.CreatedAt.IsZero() {
		t.Errorf("the Service is %+v", s)
	}
	if status.Message != "" || status.Reason != "" {
		t.Errorf("it says %s: %s", status.Reason, status.Message)
	}

	c.metric("catalogsource_ready", catalog, 1)
	c.count()
	if pods := c.pods("olm.catalogSource", "elsewhere"); len(pods) != 0 {
		t.Errorf("it has pods: %v", pods)
	}

	stop()
	c.state(catalog, "TRANSIENT_FAILURE")
	c.says(catalog, "RegistryServerError", func(m string) bool {
		return strings.HasPrefix(m, "couldn't connect to registry - dial tcp "+address) && strings.Contains(m, "refused")
	})
	c.metric("catalogsource_ready", catalog, 0)

	serve(t, address)
	c.state(catalog, "READY")
	c.says(catalog, "", is(""))

	c.must(c.Delete(t.Context(), catalog))
	c.eventually(func() error { return c.gone(catalog) })
	c.metricGone("catalogsource_ready", catalog)
	c.count()
}

// gone says that an object is still there.
func (c *cluster) gone(object client.Object) error {
	err := c.get(object)
	if err == nil {
		return fmt.Errorf("%T %s is still there", object, object.GetName())
	}
	return client.IgnoreNotFound(err)
}

func TestAnotherAddress(t *testing.T) {
	first, _ := serve(t, "127.0.0.1:0")
	second, _ := serve(t, "127.0.0.1:0")
	c := start(t, catalogoperator.Options{})
	catalog := c.catalog("moves", v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeGrpc, Address: first})
	c.state(catalog, "READY")
	edit(c, catalog, func(s *v1alpha1.CatalogSource) { s.Spec.Address = second })
	c.eventually(func() error {
		c.state(catalog, "READY")
		if catalog.Status.GRPCConnectionState.Address != second {
			return fmt.Errorf("connected to %s", catalog.Status.GRPCConnectionState.Address)
		}
		return nil
	})
}

func TestInvalid(t *testing.T) {
	c := start(t, catalogoperator.Options{})
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
			catalog := c.catalog("wrong-"+name, tc.spec)
			c.says(catalog, "SpecInvalidError", is(tc.want))
			c.metric("catalogsource_ready", catalog, 0)
			edit(c, catalog, func(s *v1alpha1.CatalogSource) {
				s.Spec = v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeGrpc, Address: address}
			})
			c.says(catalog, "", is(""))
			c.state(catalog, "READY")
			edit(c, catalog, func(s *v1alpha1.CatalogSource) { s.Spec.Address = "no port" })
			c.says(catalog, "RegistryServerError", func(m string) bool {
				return strings.HasPrefix(m, `couldn't connect to registry - the address of a catalog is HOST:PORT, not "no port"`)
			})
		})
	}
}
