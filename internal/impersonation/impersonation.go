// Package impersonation provides clients that act as service accounts. A client exists only for an account that
// exists: the API server also lets a program act as a deleted account, whose name may still have rights.
package impersonation

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maxCachedClients limits the cached clients, one for each account. Clients are small, because they share
// connections.
const maxCachedClients = 128

// ErrMissingAccount is the error for a service account that does not exist. Users and scripts match the start of its
// message.
var ErrMissingAccount = errors.New("installation cannot proceed due to missing ServiceAccount")

// Account is a service account. The zero value is the program's own account.
type Account struct {
	Namespace, Name string
	// UID, if it is not empty, is that of the account: one that was deleted and created again is another account.
	UID types.UID
}

// AccountOf returns the account of a reference. No reference means the program's own account.
func AccountOf(ref *corev1.ObjectReference) Account {
	if ref == nil {
		return Account{}
	}
	return Account{Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID}
}

// IsOwn reports whether the account is the program's own.
func (a Account) IsOwn() bool { return a == Account{} }

// String returns namespace/name, and a description of the program's own account.
func (a Account) String() string {
	if a.IsOwn() {
		return "the program's own account"
	}
	return a.objectKey().String()
}

func (a Account) objectKey() types.NamespacedName {
	return types.NamespacedName{Namespace: a.Namespace, Name: a.Name}
}

// Client has the rights of one account.
type Client struct {
	// Client reads from the API server, without a cache.
	client.Client
	// Dynamic reads and writes objects without conversion.
	Dynamic dynamic.Interface
	// Metadata watches objects.
	Metadata metadata.Interface
}

// Options are the options of clients.
type Options struct {
	// Warnings handles the warnings of the API server. Nil means that they are logged.
	Warnings rest.WarningHandlerWithContext
	// GrantRight obtains the right to impersonate an account that exists. Nil means that the program has it.
	GrantRight func(context.Context, types.NamespacedName) error
}

// Clients caches the clients of accounts. It is safe for concurrent use.
type Clients struct {
	config  *rest.Config
	options client.Options
	// reader reads from the API server, because a cache may still have an account that was deleted.
	reader     client.Reader
	grantRight func(context.Context, types.NamespacedName) error
	own        *Client
	cached     *lru.Cache
}

// NewClients returns the clients of a program, which impersonates accounts with the rights of the manager.
func NewClients(mgr ctrl.Manager, o Options) (*Clients, error) {
	c := &Clients{
		config: rest.CopyConfig(mgr.GetConfig()), options: client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()},
		reader: mgr.GetAPIReader(), grantRight: o.GrantRight, cached: lru.New(maxCachedClients),
	}
	c.config.QPS = -1 // the API server's priority and fairness limits requests
	if o.Warnings != nil {
		c.config.WarningHandler, c.config.WarningHandlerWithContext = nil, o.Warnings
	}

	var err error
	if c.own, err = newClient(c.config, c.options); err != nil {
		return nil, fmt.Errorf("creating the client of the program's own account: %w", err)
	}
	return c, nil
}

// Own returns the client of the program's own account.
func (c *Clients) Own() *Client { return c.own }

// For returns the client of an account. It reads the account each time. The error wraps ErrMissingAccount if the
// account does not exist, or has another UID than the named one.
//
// An account is impersonated by its user name alone: the API server adds the groups of a service account, so no
// right to impersonate groups is needed.
func (c *Clients) For(ctx context.Context, account Account) (*Client, error) {
	if account.IsOwn() {
		return c.own, nil
	}

	var err error
	if account.UID, err = readAccountUID(ctx, c.reader, account); err != nil {
		return nil, err
	}
	if c.grantRight != nil {
		if err := c.grantRight(ctx, account.objectKey()); err != nil {
			return nil, err
		}
	}

	if cached, ok := c.cached.Get(account); ok {
		return cached.(*Client), nil
	}

	config := rest.CopyConfig(c.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: fmt.Sprintf("system:serviceaccount:%s:%s", account.Namespace, account.Name)}
	created, err := newClient(config, c.options)
	if err != nil {
		return nil, fmt.Errorf("creating a client for ServiceAccount %q: %w", account, err)
	}

	c.cached.Add(account, created)
	return created, nil
}

// CheckAccount returns an error if an account does not exist, or has another UID than the named one. The error wraps
// ErrMissingAccount, unless the account could not be read.
func CheckAccount(ctx context.Context, reader client.Reader, account Account) error {
	_, err := readAccountUID(ctx, reader, account)
	return err
}

func readAccountUID(ctx context.Context, reader client.Reader, account Account) (types.UID, error) {
	var found metav1.PartialObjectMetadata
	found.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ServiceAccount"))
	err := reader.Get(ctx, account.objectKey(), &found)
	switch {
	case apierrors.IsNotFound(err):
		return "", fmt.Errorf("%w: create ServiceAccount %q in namespace %q", ErrMissingAccount, account.Name, account.Namespace)
	case err != nil:
		return "", fmt.Errorf("reading ServiceAccount %q: %w", account, err)
	case account.UID != "" && account.UID != found.UID:
		return "", fmt.Errorf("%w: ServiceAccount %q with UID %s was deleted, and one with UID %s was created in its place", ErrMissingAccount, account, account.UID, found.UID)
	default:
		return found.UID, nil
	}
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
