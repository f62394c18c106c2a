package serve

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	authenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
)

// Access says how the server finds out who asks and whether they may: it asks the cluster. What is
// not set here it reads from the ConfigMap that the cluster publishes for servers like it.
type Access struct {
	// ClientCAFile has the authorities of users' client certificates. Empty: those of the ConfigMap.
	ClientCAFile string
	// RequestHeader says whom to believe that they ask in the name of others: the API servers of the
	// cluster.
	RequestHeader RequestHeader
	// SkipLookup has the ConfigMap not be read.
	SkipLookup bool
	// TolerateLookupFailure has the server start when the ConfigMap cannot be read: all requests that
	// the API servers pass on are then refused.
	TolerateLookupFailure bool
	// TokenTTL, AllowTTL and DenyTTL are how long the answers of the cluster are believed: who a token
	// belongs to, that something is allowed, and that it is not. Zero means 10 s.
	TokenTTL, AllowTTL, DenyTTL time.Duration
}

// RequestHeader are the headers that say in whose name a request is made.
type RequestHeader struct {
	// ClientCAFile has the authorities of the certificates of those who may say so. Empty: all of this
	// is read from the ConfigMap.
	ClientCAFile string
	// AllowedNames are the names in those certificates. None allows all.
	AllowedNames []string
	// UsernameHeaders, GroupHeaders and ExtraHeaderPrefixes are the names of the headers.
	UsernameHeaders, GroupHeaders, ExtraHeaderPrefixes []string
}

const (
	reviewTime    = 10 * time.Second
	defaultAnswer = 10 * time.Second
)

// reviewBackoff is how the cluster is asked again when it did not answer: for about 6 s.
func reviewBackoff() *wait.Backoff {
	return &wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 5}
}

// Delegation finds out who asks and whether they may.
type Delegation struct {
	Authenticator authenticator.Request
	Authorizer    authorizer.Authorizer

	files     []*dynamiccertificates.DynamicFileCAContent
	published *published // nil: the ConfigMap is not read
}

// NeedLeaderElection is false: every replica is asked.
func (*Delegation) NeedLeaderElection() bool { return false }

// Start keeps up with authorities until the context ends.
func (d *Delegation) Start(ctx context.Context) error {
	for _, file := range d.files {
		go file.Run(ctx, 1)
	}

	if d.published != nil {
		return d.published.configMaps.Start(ctx)
	}

	<-ctx.Done()
	return nil
}

// Delegate makes a Delegation, which must be started. One cluster is asked who it is that asks, and one
// what they may do; in most cases they are the same.
func (a Access) Delegate(ctx context.Context, whoAsks, whatIsAllowed *rest.Config) (*Delegation, error) {
	tokens, err1 := authenticationv1.NewForConfig(whoAsks)
	reviews, err2 := authorizationv1.NewForConfig(whatIsAllowed)
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("connecting to the cluster that says who asks: %w", err)
	}

	d := &Delegation{}
	config := authenticatorfactory.DelegatingAuthenticatorConfig{
		TokenAccessReviewClient: tokens, TokenAccessReviewTimeout: reviewTime,
		WebhookRetryBackoff: reviewBackoff(), CacheTTL: or(a.TokenTTL, defaultAnswer),
	}
	if err := a.authorities(ctx, d, &config, whoAsks); err != nil {
		return nil, err
	}

	var err error
	if d.Authenticator, _, err = config.New(); err != nil {
		return nil, fmt.Errorf("setting up authentication: %w", err)
	}

	d.Authorizer, err = authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: reviews, WebhookRetryBackoff: reviewBackoff(),
		AllowCacheTTL: or(a.AllowTTL, defaultAnswer), DenyCacheTTL: or(a.DenyTTL, defaultAnswer),
	}.New()
	if err != nil {
		return nil, fmt.Errorf("setting up authorization: %w", err)
	}

	return d, nil
}

func or(value, other time.Duration) time.Duration {
	if value <= 0 {
		return other
	}
	return value
}

// authorities finds those who vouch for users and for API servers: in files, or else in what the
// cluster publishes.
func (a Access) authorities(ctx context.Context, d *Delegation, config *authenticatorfactory.DelegatingAuthenticatorConfig, cluster *rest.Config) error {
	if !a.SkipLookup && (a.ClientCAFile == "" || a.RequestHeader.ClientCAFile == "") {
		var err error
		if d.published, err = newPublished(ctx, cluster, a.TolerateLookupFailure); err != nil {
			return fmt.Errorf("reading ConfigMap %s, which says how the cluster's API servers pass requests on: %w", publishedKey, err)
		}
		config.ClientCertificateCAContentProvider, config.RequestHeaderConfig = &d.published.clients, d.published.requestHeader()
	}

	if a.ClientCAFile != "" {
		file, err := d.file("client-ca", a.ClientCAFile)
		if err != nil {
			return err
		}
		config.ClientCertificateCAContentProvider = file
	}

	if a.RequestHeader.ClientCAFile != "" {
		file, err := d.file("request-header", a.RequestHeader.ClientCAFile)
		if err != nil {
			return err
		}
		config.RequestHeaderConfig = a.RequestHeader.config(file)
	}

	return nil
}

func (d *Delegation) file(purpose, name string) (*dynamiccertificates.DynamicFileCAContent, error) {
	file, err := dynamiccertificates.NewDynamicCAContentFromFile(purpose, name)
	if err != nil {
		return nil, fmt.Errorf("reading authorities: %w", err)
	}
	d.files = append(d.files, file)
	return file, nil
}
