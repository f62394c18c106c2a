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

// Access configures authentication and authorization of clients, which the server delegates to
// the cluster. Settings that are not set here are read from the ConfigMap that the cluster
// publishes for extension API servers.
type Access struct {
	// ClientCAFile is the CA bundle for client certificates of users. If it is empty, the
	// bundle of the ConfigMap is used.
	ClientCAFile string
	// RequestHeader configures the proxies that may act for users: the API servers of the
	// cluster.
	RequestHeader RequestHeader
	// SkipLookup disables reading the ConfigMap.
	SkipLookup bool
	// TolerateLookupFailure lets the server start if the ConfigMap cannot be read. Requests
	// that API servers forward are then refused.
	TolerateLookupFailure bool
	// TokenTTL, AllowTTL and DenyTTL are how long answers of the cluster are cached: the user
	// of a token, and decisions to allow and to deny. Zero means 10 s.
	TokenTTL, AllowTTL, DenyTTL time.Duration
}

// RequestHeader configures the proxies that may act for users, and the headers with the user.
type RequestHeader struct {
	// ClientCAFile is the CA bundle for client certificates of proxies. If it is empty, all of
	// this is read from the ConfigMap.
	ClientCAFile string
	// AllowedNames are the common names that proxies may have. If it is empty, all are allowed.
	AllowedNames []string
	// UsernameHeaders, GroupHeaders and ExtraHeaderPrefixes are the names of the headers.
	UsernameHeaders, GroupHeaders, ExtraHeaderPrefixes []string
}

const (
	reviewTimeout         = 10 * time.Second
	defaultReviewCacheTTL = 10 * time.Second
)

// newReviewBackoff returns the backoff of failed requests to the cluster, which lasts about 6
// s.
func newReviewBackoff() *wait.Backoff {
	return &wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 5}
}

// Delegation authenticates and authorizes requests by asking the cluster. It is a Runnable of a
// manager.
type Delegation struct {
	Authenticator authenticator.Request
	Authorizer    authorizer.Authorizer

	caFiles    []*dynamiccertificates.DynamicFileCAContent
	authConfig *authConfigMap // nil if the ConfigMap is not read
}

// NeedLeaderElection returns false: every replica answers requests.
func (*Delegation) NeedLeaderElection() bool { return false }

// Start watches the CA files and the ConfigMap until the context ends.
func (d *Delegation) Start(ctx context.Context) error {
	for _, file := range d.caFiles {
		go file.Run(ctx, 1)
	}

	if d.authConfig != nil {
		return d.authConfig.configMaps.Start(ctx)
	}

	<-ctx.Done()
	return nil
}

// Delegate returns a Delegation, which must be started. Tokens are reviewed by one cluster, and
// access by another; in most cases they are the same.
func (a Access) Delegate(ctx context.Context, authentication, authorization *rest.Config) (*Delegation, error) {
	tokens, err1 := authenticationv1.NewForConfig(authentication)
	reviews, err2 := authorizationv1.NewForConfig(authorization)
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("creating clients for authentication and authorization: %w", err)
	}

	d := &Delegation{}
	config := authenticatorfactory.DelegatingAuthenticatorConfig{
		TokenAccessReviewClient: tokens, TokenAccessReviewTimeout: reviewTimeout,
		WebhookRetryBackoff: newReviewBackoff(), CacheTTL: durationOrDefault(a.TokenTTL, defaultReviewCacheTTL),
	}
	if err := a.configureAuthorities(ctx, d, &config, authentication); err != nil {
		return nil, err
	}

	var err error
	if d.Authenticator, _, err = config.New(); err != nil {
		return nil, fmt.Errorf("setting up authentication: %w", err)
	}

	d.Authorizer, err = authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: reviews, WebhookRetryBackoff: newReviewBackoff(),
		AllowCacheTTL: durationOrDefault(a.AllowTTL, defaultReviewCacheTTL), DenyCacheTTL: durationOrDefault(a.DenyTTL, defaultReviewCacheTTL),
	}.New()
	if err != nil {
		return nil, fmt.Errorf("setting up authorization: %w", err)
	}

	return d, nil
}

// durationOrDefault returns value if it is positive, and other otherwise.
func durationOrDefault(value, other time.Duration) time.Duration {
	if value <= 0 {
		return other
	}
	return value
}

// configureAuthorities sets the CA bundles for users and proxies, from files or from the
// ConfigMap.
func (a Access) configureAuthorities(ctx context.Context, d *Delegation, config *authenticatorfactory.DelegatingAuthenticatorConfig, cluster *rest.Config) error {
	if !a.SkipLookup && (a.ClientCAFile == "" || a.RequestHeader.ClientCAFile == "") {
		var err error
		if d.authConfig, err = newAuthConfigMap(ctx, cluster, a.TolerateLookupFailure); err != nil {
			return fmt.Errorf("reading ConfigMap %s, which configures how API servers forward requests: %w", authConfigMapKey, err)
		}
		config.ClientCertificateCAContentProvider, config.RequestHeaderConfig = &d.authConfig.clientCA, d.authConfig.requestHeaderConfig()
	}

	if a.ClientCAFile != "" {
		file, err := d.loadCAFile("client-ca", a.ClientCAFile)
		if err != nil {
			return err
		}
		config.ClientCertificateCAContentProvider = file
	}

	if a.RequestHeader.ClientCAFile != "" {
		file, err := d.loadCAFile("request-header", a.RequestHeader.ClientCAFile)
		if err != nil {
			return err
		}
		config.RequestHeaderConfig = a.RequestHeader.staticConfig(file)
	}

	return nil
}

// loadCAFile reads a CA bundle and adds it to the files that Start watches.
func (d *Delegation) loadCAFile(purpose, name string) (*dynamiccertificates.DynamicFileCAContent, error) {
	file, err := dynamiccertificates.NewDynamicCAContentFromFile(purpose, name)
	if err != nil {
		return nil, fmt.Errorf("reading authorities: %w", err)
	}
	d.caFiles = append(d.caFiles, file)
	return file, nil
}
