package updates

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/blang/semver/v4"
	"golang.org/x/net/http/httpproxy"

	"github.com/mainstay-dev/mainstay/internal/cincinnati"
	"github.com/mainstay-dev/mainstay/internal/release"
)

const (
	// fetchTimeout is the timeout of one request to an update service, including name resolution
	// and the body: 2 MiB at 30 kbit/s.
	fetchTimeout = 10 * time.Minute
	// responseHeaderTimeout is the timeout for the response header of an update service.
	responseHeaderTimeout = 2 * time.Minute
	// dialTimeout is the timeout for name resolution and connecting, and for the TLS handshake.
	dialTimeout = 30 * time.Second
	// maxHeaderBytes is the maximum size of a response header.
	maxHeaderBytes = 64 << 10
	// maxRedirects is the maximum number of consecutive redirects.
	maxRedirects = 5
	// maxRetryAfter is the longest delay that an update service can ask for.
	maxRetryAfter = time.Hour
)

// uuidPattern matches UUIDs of version 4 (RFC 4122).
var uuidPattern = regexp.MustCompile(`^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-4[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}$`)

// graphClient queries update services. It must not be used concurrently.
type graphClient struct {
	program      string // the version of this program
	http         *http.Client
	configDigest [sha256.Size]byte // digest of the configuration of http
}

// retrievedUpdates is the result of a query of an update service.
type retrievedUpdates struct {
	current     *cincinnati.Node
	available   []cincinnati.Node
	conditional []cincinnati.ConditionalUpdate
	notes       []string
}

// validQuery is a query that passed validation.
type validQuery struct {
	upstream *url.URL
	version  semver.Version
	arch     string
}

// validateQuery validates a query. It checks the fields in the documented order.
func (q Query) validateQuery() (validQuery, *RetrieveError) {
	valid := validQuery{arch: q.requestArchitecture()}
	if q.Upstream == "" {
		return valid, newRetrieveError(ReasonNoUpstream, "No update service has been configured.")
	}

	var err error
	if valid.upstream, err = url.Parse(q.Upstream); err != nil {
		return valid, newRetrieveError(ReasonInvalidURI, "failed to parse the address of the update service: %w", stripURL(err))
	}
	if scheme := valid.upstream.Scheme; scheme != "https" && scheme != "http" || valid.upstream.Host == "" {
		return valid, newRetrieveError(ReasonInvalidURI, "the address of the update service must begin with https:// or http:// and have a host")
	}

	switch {
	case !uuidPattern.MatchString(q.ClusterID):
		return valid, newRetrieveError(ReasonInvalidID, "the cluster ID must be a UUID of version 4 as RFC 4122 has it")
	case valid.arch == "":
		return valid, newRetrieveError(ReasonNoArchitecture, "The architecture of the cluster is not known.")
	case q.Version == "":
		return valid, newRetrieveError(ReasonNoCurrentVersion, "The cluster version does not have a semantic version assigned and cannot calculate valid upgrades.")
	case q.Channel == "":
		return valid, newRetrieveError(ReasonNoChannel, "The update channel has not been configured.")
	}

	if valid.version, err = semver.Parse(q.Version); err != nil {
		return valid, newRetrieveError(ReasonInvalidCurrentVersion, "The current cluster version is not a valid semantic version: %w", err)
	}

	return valid, nil
}

// requestArchitecture returns the architecture parameter of the request.
func (q Query) requestArchitecture() string {
	if q.WantMulti || q.Architecture == release.ArchitectureMulti {
		return "multi"
	}
	return q.Architecture
}

// movesToMulti reports whether a cluster of one architecture should move to a multi-architecture
// release.
func (q Query) movesToMulti() bool { return q.WantMulti && q.Architecture != release.ArchitectureMulti }

// retrieveUpdates queries an update service for the updates of a cluster.
func (c *graphClient) retrieveUpdates(ctx context.Context, q Query) (*retrievedUpdates, *RetrieveError) {
	valid, retrieveErr := q.validateQuery()
	if retrieveErr != nil {
		return nil, retrieveErr
	}

	data, retrieveErr := c.fetchChannelGraph(ctx, valid, q)
	if retrieveErr != nil {
		return nil, retrieveErr
	}

	graph, err := cincinnati.Parse(data)
	if err != nil {
		return nil, newRetrieveError(ReasonResponseInvalid, "%w", err)
	}

	offered, err := graph.Updates(valid.version)
	if missing := (*cincinnati.NotFoundError)(nil); errors.As(err, &missing) {
		return nil, newRetrieveError(ReasonVersionNotFound, "currently reconciling cluster version %s not found in the %q channel", q.Version, q.Channel)
	}
	if err != nil {
		return nil, newRetrieveError(ReasonResponseInvalid, "%w", err)
	}

	if q.movesToMulti() {
		found := &retrievedUpdates{}
		if node, ok := graph.Multi(valid.version); ok {
			found.available = []cincinnati.Node{node}
		}
		return found, nil
	}

	return &retrievedUpdates{&offered.Current, offered.Available, offered.Conditional, offered.Notes}, nil
}

// fetchChannelGraph reads the graph of a channel.
func (c *graphClient) fetchChannelGraph(ctx context.Context, valid validQuery, q Query) ([]byte, *RetrieveError) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	target := *valid.upstream
	values := target.Query()
	for name, value := range map[string]string{"arch": valid.arch, "channel": q.Channel, "id": q.ClusterID, "version": q.Version} {
		values.Set(name, value)
	}

	target.RawQuery = values.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, newRetrieveError(ReasonInvalidRequest, "%w", stripURL(err))
	}

	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "ClusterVersionOperator/"+c.program)
	connected, err := c.httpClientFor(q)
	if err != nil {
		return nil, newRetrieveError(ReasonInvalidRequest, "%w", err)
	}

	resp, err := connected.Do(req)
	if err != nil {
		return nil, newRetrieveError(ReasonRemoteFailed, "asking %s: %w", target.Host, stripURL(err))
	}
	defer func() { _ = resp.Body.Close() }() // It was only read.
	if resp.StatusCode != http.StatusOK {
		retrieveErr := newRetrieveError(ReasonResponseFailed, "unexpected HTTP status: %s", resp.Status)
		retrieveErr.RetryAfter = parseRetryAfter(resp.Header)
		return nil, retrieveErr
	}

	// The transport has decompressed the body, so this limits its decompressed size.
	data, err := io.ReadAll(io.LimitReader(resp.Body, cincinnati.MaxBytes+1))
	if err != nil {
		return nil, newRetrieveError(ReasonResponseFailed, "reading the answer of %s: %w", target.Host, stripURL(err))
	}

	return data, nil
}

// parseRetryAfter returns the Retry-After header if it is a number of seconds, and 0 otherwise.
func parseRetryAfter(header http.Header) time.Duration {
	seconds, err := strconv.Atoi(strings.TrimSpace(header.Get("Retry-After")))
	if err != nil || seconds < 0 {
		return 0
	}
	return min(time.Duration(min(seconds, int(maxRetryAfter/time.Second)))*time.Second, maxRetryAfter)
}

// httpClientFor returns an HTTP client for the proxy and CA certificates of a query. It is
// reused until these change.
func (c *graphClient) httpClientFor(q Query) (*http.Client, error) {
	configDigest := sha256.Sum256(bytes.Join([][]byte{[]byte(q.Proxy.HTTP), []byte(q.Proxy.HTTPS), []byte(q.Proxy.No), q.Trust}, []byte{0}))
	if c.http != nil && c.configDigest == configDigest {
		return c.http, nil
	}

	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("reading the CA certificates of the system: %w", err)
	}
	if len(bytes.TrimSpace(q.Trust)) > 0 && !roots.AppendCertsFromPEM(q.Trust) {
		return nil, errors.New("the additional CA bundle of the cluster contains no certificate")
	}

	proxy := http.ProxyFromEnvironment
	if q.Proxy != (Proxy{}) {
		proxyFunc := (&httpproxy.Config{HTTPProxy: q.Proxy.HTTP, HTTPSProxy: q.Proxy.HTTPS, NoProxy: q.Proxy.No}).ProxyFunc()
		proxy = func(r *http.Request) (*url.URL, error) { return proxyFunc(r.URL) }
	}
	if c.http != nil {
		c.http.CloseIdleConnections()
	}

	c.configDigest, c.http = configDigest, &http.Client{
		CheckRedirect: checkRedirect,
		Transport: &http.Transport{
			Proxy:                  proxy,
			DialContext:            (&net.Dialer{Timeout: dialTimeout}).DialContext,
			TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:    dialTimeout,
			ResponseHeaderTimeout:  responseHeaderTimeout,
			MaxResponseHeaderBytes: maxHeaderBytes,
			// The next request is sent minutes later.
			DisableKeepAlives: true,
		},
	}

	return c.http, nil
}

// checkRedirect limits the number of redirects and rejects redirects from https to another
// scheme.
func checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return fmt.Errorf("the update service redirects more than %d times", maxRedirects)
	}
	if via[0].URL.Scheme == "https" && req.URL.Scheme != "https" {
		return fmt.Errorf("the update service redirects from https to %s, which is not followed", req.URL.Scheme)
	}
	return nil
}
