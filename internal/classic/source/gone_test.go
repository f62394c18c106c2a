package source

import (
	"context"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/dial"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

// staleReader is a client whose cache does not have the deletion of a catalog yet.
type staleReader struct {
	client.Client
	catalog *v1alpha1.CatalogSource
}

func (b *staleReader) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	if catalog, ok := into.(*v1alpha1.CatalogSource); ok {
		b.catalog.DeepCopyInto(catalog)
		return nil
	}
	return b.Client.Get(ctx, key, into, options...)
}

// The objects of a deleted catalog are garbage collected; they are not recreated, which is
// not an error.
func TestNothingIsCreatedForADeletedCatalog(t *testing.T) {
	c := env.Client(t, corev1.AddToScheme, networkingv1.AddToScheme, v1alpha1.AddToScheme)
	catalog := &v1alpha1.CatalogSource{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "kitchen"},
		Spec:       v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeGrpc, Image: "registry.example.com/kitchen:v1"},
	}
	made := func() []string {
		t.Helper()
		var names []string
		for _, list := range []client.ObjectList{&corev1.PodList{}, &corev1.ServiceAccountList{}, &corev1.ServiceList{}, &networkingv1.NetworkPolicyList{}} {
			if err := c.List(t.Context(), list, client.InNamespace(catalog.Namespace), client.MatchingLabels{"olm.managed": "true"}); err != nil {
				t.Fatal(err)
			}
			switch list := list.(type) {
			case *corev1.PodList:
				for i := range list.Items {
					names = append(names, "Pod "+list.Items[i].GenerateName)
				}
			case *corev1.ServiceAccountList:
				for i := range list.Items {
					names = append(names, "ServiceAccount "+list.Items[i].Name)
				}
			case *corev1.ServiceList:
				for i := range list.Items {
					names = append(names, "Service "+list.Items[i].Name)
				}
			case *networkingv1.NetworkPolicyList:
				for i := range list.Items {
					names = append(names, "NetworkPolicy "+list.Items[i].Name)
				}
			}
		}
		return names
	}
	if err := c.Create(t.Context(), catalog); err != nil {
		t.Fatal(err)
	}

	stale := &staleReader{Client: c, catalog: catalog.DeepCopy()}
	pool := dial.New(dial.Options{})
	defer pool.Close()
	controller, err := newReconciler(stale, c, c, Options{Pool: pool, ServerVersion: func(context.Context) (string, error) { return "v1.36.0", nil }})
	if err != nil {
		t.Fatal(err)
	}

	r := controller.newObjectReconciler()
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(catalog)}
	if err := c.Delete(t.Context(), catalog); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Reconcile(t.Context(), request); err != nil {
		t.Errorf("got error %v", err)
	}
	if names := made(); len(names) > 0 {
		t.Errorf("got the objects %v of a deleted catalog, want none", names)
	}

	// No objects are created for another catalog with the same name until the cache has it.
	another := &v1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Namespace: catalog.Namespace, Name: catalog.Name}, Spec: catalog.Spec}
	if err := c.Create(t.Context(), another); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Reconcile(t.Context(), request); err != nil {
		t.Errorf("got error %v", err)
	}
	if names := made(); len(names) > 0 {
		t.Errorf("got the objects %v of a replaced catalog, want none", names)
	}

	stale.catalog = another
	if _, err := r.Reconcile(t.Context(), request); err != nil {
		t.Errorf("got error %v", err)
	}
	if names := made(); len(names) == 0 {
		t.Error("got no objects of an existing catalog")
	}
}
