package subscription

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// A catalog that could not be read is reconciled again: its event would be lost otherwise.
func TestUnreadableCatalog(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}

	cause := errors.New("no answer")
	c := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return cause
		},
	}).Build()
	r := &catalogUsers{client: c}
	if _, err := r.enqueueNamespaces(t.Context(), types.NamespacedName{Namespace: "shop", Name: "catalog"}); !errors.Is(err, cause) {
		t.Errorf("error %v, want %v", err, cause)
	}
}
