// Package account is whose rights the objects of a revision are read, watched and written with: those of
// the service account that the revision names, by impersonation, or of operator-controller itself.
package account

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// maxClients is how many accounts have their clients kept. Clients are small: connections are shared.
const maxClients = 128

// Account is the ServiceAccount that a revision's objects are written as. The zero value is
// operator-controller's own account.
type Account types.NamespacedName

// Of returns the account that a revision names.
func Of(set *olmv1.ClusterObjectSet) Account {
	return Account{
		Namespace: set.Annotations[olmv1.AnnotationServiceAccountNamespace],
		Name:      set.Annotations[olmv1.AnnotationServiceAccountName],
	}
}

// IsOwn reports whether the account is operator-controller's own.
func (a Account) IsOwn() bool { return a == Account{} }

// String returns namespace/name, and for operator-controller's own account its description.
func (a Account) String() string {
	if a.IsOwn() {
		return "operator-controller's own account"
	}
	return types.NamespacedName(a).String()
}

// Client has the rights of one account.
type Client struct {
	// Client reads from the API server, without a cache.
	client.Client
	// Dynamic writes objects as they stand in a revision.
	Dynamic dynamic.Interface
	// Metadata watches.
	Metadata metadata.Interface
}

// Clients are the clients of accounts. It is safe for concurrent use.
type Clients struct {
	config  *rest.Config
	options client.Options
	cached  *lru.Cache
}

// NewClients returns clients that impersonate accounts with the manager's own.
func NewClients(mgr ctrl.Manager) *Clients {
	config := rest.CopyConfig(mgr.GetConfig())
	config.QPS = -1                           // the API server's priority and fairness sees to it
	config.WarningHandler = rest.NoWarnings{} // the same warnings would be logged at every pass
	return &Clients{
		config: config, cached: lru.New(maxClients),
		options: client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()},
	}
}

// For returns the client of an account. An account is impersonated by its user name alone: the API server
// adds the groups that a ServiceAccount is in, so that no right to impersonate groups is needed.
func (c *Clients) For(as Account) (*Client, error) {
	if cached, ok := c.cached.Get(as); ok {
		return cached.(*Client), nil
	}

	config := rest.CopyConfig(c.config)
	if !as.IsOwn() {
		config.Impersonate = rest.ImpersonationConfig{UserName: fmt.Sprintf("system:serviceaccount:%s:%s", as.Namespace, as.Name)}
	}

	made, err := newClient(config, c.options)
	if err != nil {
		return nil, fmt.Errorf("making a client for ServiceAccount %q: %w", types.NamespacedName(as), err)
	}

	c.cached.Add(as, made)
	return made, nil
}

func newClient(config *rest.Config, options client.Options) (*Client, error) {
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}

	options.HTTPClient = httpClient
	c := &Client{}
	if c.Client, err = client.New(config, options); err != nil {
		return nil, err
	}
	if c.Dynamic, err = dynamic.NewForConfigAndClient(config, httpClient); err != nil {
		return nil, err
	}

	c.Metadata, err = metadata.NewForConfigAndClient(metadata.ConfigFor(config), httpClient)
	return c, err
}

// ContentReader reads the Secrets that hold the objects of a revision: those of the system namespace, where
// operator-controller keeps them, with its own rights, all others with the rights of the revision's
// account. So a revision carries nothing out of a namespace that its account may not read.
type ContentReader struct {
	// Reader has the rights of the account.
	client.Reader
	// Own has the rights of operator-controller.
	Own client.Reader
	// SystemNamespace is the namespace of operator-controller.
	SystemNamespace string
}

// Get reads one object.
func (r *ContentReader) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if key.Namespace == r.SystemNamespace {
		return r.Own.Get(ctx, key, object, options...)
	}
	return r.Reader.Get(ctx, key, object, options...)
}
