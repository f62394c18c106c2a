package impersonation

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// The number of cached clients is limited, regardless of the accounts in the objects of users.
func TestCacheIsBounded(t *testing.T) {
	f := env.NewFixture(t, corev1.AddToScheme)
	namespace := f.NewNamespace("impersonation-")
	var clients *Clients
	f.StartManager(env.Manager{Setup: func(mgr ctrl.Manager) error {
		var err error
		clients, err = NewClients(mgr, Options{})
		return err
	}})

	for i := range maxCachedClients + 2 {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("account-", i)}}
		f.CreateAll(account)
		_, err := clients.For(t.Context(), Account{Namespace: namespace, Name: account.Name})
		f.Must(err)
	}
	if got := clients.cached.Len(); got != maxCachedClients {
		t.Errorf("got %d cached clients, want %d", got, maxCachedClients)
	}
}
