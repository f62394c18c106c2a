package rollout

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/utils/lru"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// maxAccounts is how many clients are kept, one for each account. A client is small:
// connections are shared.
const maxAccounts = 128

// account is the ServiceAccount that a revision's objects are written as. The zero
// value is the controller's own account.
type account types.NamespacedName

// accountOf gives the account that a revision names.
func accountOf(set *olmv1.ClusterObjectSet) account {
	return account{
		Namespace: set.Annotations[olmv1.AnnotationServiceAccountNamespace],
		Name:      set.Annotations[olmv1.AnnotationServiceAccountName],
	}
}

func (a account) isOwn() bool { return a == account{} }

// accounts gives clients that write as an account.
type accounts struct {
	config  *rest.Config
	clients *lru.Cache
}

func newAccounts(config *rest.Config) *accounts {
	return &accounts{config: config, clients: lru.New(maxAccounts)}
}

// client gives the client of an account. An account is impersonated by its user name
// alone: the API server adds the groups that a ServiceAccount is in, so that the
// controller needs no right to impersonate groups.
func (a *accounts) client(of account) (dynamic.Interface, error) {
	if cached, ok := a.clients.Get(of); ok {
		return cached.(dynamic.Interface), nil
	}
	config := rest.CopyConfig(a.config)
	if !of.isOwn() {
		config.Impersonate = rest.ImpersonationConfig{
			UserName: fmt.Sprintf("system:serviceaccount:%s:%s", of.Namespace, of.Name),
		}
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for ServiceAccount %q: %w", types.NamespacedName(of), err)
	}
	a.clients.Add(of, client)
	return client, nil
}
