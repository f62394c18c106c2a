package render

import (
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

// TestServerAcceptsRenderedObjects applies the rendered objects to a real API server in a
// dry run. The server must accept every object of a bundle that this package accepts.
func TestServerAcceptsRenderedObjects(t *testing.T) {
	cluster := env.Client(t, corev1.AddToScheme)
	for _, name := range []string{"install", "watched"} {
		if err := cluster.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			t.Fatal(err)
		}
	}

	apply := func(t *testing.T, b *bundle.Bundle) {
		t.Helper()
		for mode, opts := range installations(b) {
			objects, err := Render(b, opts)
			if err != nil {
				t.Fatal(err)
			}
			for _, object := range objects {
				err := cluster.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(&object), client.FieldOwner("mainstay"), client.DryRunAll)
				if err != nil {
					t.Errorf("%s in mode %s: %s %s: %v", b.Name(), mode, object.GetKind(), object.GetName(), err)
				}
			}
		}
	}

	t.Run("synthetic", func(t *testing.T) {
		apply(t, testBundle(t, "foo"))
		apply(t, testBundle(t, "hooks"))
	})
	t.Run("real", func(t *testing.T) {
		for _, dir := range checkout.RealBundles(t) {
			b, err := bundle.Load(os.DirFS(dir))
			if err != nil {
				t.Fatal(err)
			}
			if Validate(b) == nil {
				apply(t, b)
			}
		}
	})
}
