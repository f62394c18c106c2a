// Package account provides the clients that read, watch and write the objects of a
// revision: with the rights of the service account that the revision names, by
// impersonation, or with those of operator-controller itself.
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

// maxClients is how many accounts have cached clients. Clients are small, because they share
// connections.
const maxClients = 128

// Account is the service account that writes a revision's objects. The zero value is
// operator-controller's own account.
type Account types.NamespacedName

// ForRevision returns the account that a revision names.
func ForRevision(set *olmv1.ClusterObjectSet) Account {
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
	// Dynamic writes the objects of a revision without conversion.
	Dynamic dynamic.Interface
	// Metadata watches objects.
	Metadata metadata.Interface
}

// Clients caches the clients of accounts. It is safe for concurrent use.
type Clients struct {
	config  *rest.Config
	options client.Options
	cached  *lru.Cache
}

// NewClients returns clients that impersonate accounts with the rights of the manager's own.
func NewClients(mgr ctrl.Manager) *Clients {
	config := rest.CopyConfig(mgr.GetConfig())
	config.QPS = -1                           // the API server's priority and fairness limits requests
	config.WarningHandler = rest.NoWarnings{} // the same warnings would be logged in every reconciliation
	return &Clients{
		config: config, cached: lru.New(maxClients),
		options: client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()},
	}
}

// For returns the client of an account. An account is impersonated by its user name alone: the API
// server adds the groups of a service account, so no right to impersonate groups is needed.
func (c *Clients) For(as Account) (*Client, error) {
	if cached, ok := c.cached.Get(as); ok {
		return cached.(*Client), nil
	}

	config := rest.CopyConfig(c.config)
	if !as.IsOwn() {
		config.Impersonate = rest.ImpersonationConfig{UserName: fmt.Sprintf("system:serviceaccount:%s:%s", as.Namespace, as.Name)}
	}

	created, err := newClient(config, c.options)
	if err != nil {
		return nil, fmt.Errorf("making a client for ServiceAccount %q: %w", types.NamespacedName(as), err)
	}

	c.cached.Add(as, created)
	return created, nil
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

// ContentReader reads the Secrets that hold the objects of a revision. In the system namespace,
// where operator-controller stores them, it uses operator-controller's rights. In other namespaces
// it uses the rights of the revision's account. So a revision cannot disclose Secrets that its
// account may not read.
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
