package operatorstatus

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// newMapper returns a REST mapper with the kinds that the API server serves now.
func newMapper(t *testing.T) (meta.RESTMapper, error) {
	t.Helper()
	connection := env.Start(t)
	c, err := rest.HTTPClientFor(connection)
	if err != nil {
		return nil, err
	}
	return apiutil.NewDynamicRESTMapper(connection, c)
}
