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
	// fetchTimeout bounds one question to an update service, from looking up its name to
	// the last byte: 2 MiB at 30 kbit/s.
	fetchTimeout = 10 * time.Minute
	// answerTimeout is how long an update service may think.
	answerTimeout = 2 * time.Minute
	// dialTimeout bounds finding the service, connecting, and the handshake.
	dialTimeout = 30 * time.Second
	// maxHeader bounds the head of an answer, in bytes.
	maxHeader = 64 << 10
	// maxRedirects is how many redirects in a row are followed.
	maxRedirects = 5
	// maxPause bounds how long an update service may ask to be left alone.
	maxPause = time.Hour
)

// uuidPattern is a UUID of version 4, as RFC 4122 has it.
var uuidPattern = regexp.MustCompile(`^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-4[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}$`)

// client asks update services. It is used by one goroutine at a time.
type client struct {
	program string // the version of this program
	http    *http.Client
	of      [sha256.Size]byte // what http was made of
}

// retrieved is what an update service tells of a cluster's updates.
type retrieved struct {
	current     *cincinnati.Node
	available   []cincinnati.Node
	conditional []cincinnati.ConditionalUpdate
	notes       []string
}

// question is a query that can be asked.
type question struct {
	upstream *url.URL
	version  semver.Version
	arch     string
}

// question checks a query, in the documented order of what may be wrong with it.
func (q Query) question() (question, *RetrieveError) {
	asked := question{arch: q.requestArchitecture()}
	if q.Upstream == "" {
		return asked, failf(ReasonNoUpstream, "No update service has been configured.")
	}

	var err error
	if asked.upstream, err = url.Parse(q.Upstream); err != nil {
		return asked, failf(ReasonInvalidURI, "failed to parse the address of the update service: %w", bare(err))
	}
	if scheme := asked.upstream.Scheme; scheme != "https" && scheme != "http" || asked.upstream.Host == "" {
		return asked, failf(ReasonInvalidURI, "the address of the update service must begin with https:// or http:// and have a host")
	}

	switch {
	case !uuidPattern.MatchString(q.ClusterID):
		return asked, failf(ReasonInvalidID, "the cluster ID must be a UUID of version 4 as RFC 4122 has it")
	case asked.arch == "":
		return asked, failf(ReasonNoArchitecture, "The architecture of the cluster is not known.")
	case q.Version == "":
		return asked, failf(ReasonNoCurrentVersion, "The cluster version does not have a semantic version assigned and cannot calculate valid upgrades.")
	case q.Channel == "":
		return asked, failf(ReasonNoChannel, "The update channel has not been configured.")
	}

	if asked.version, err = semver.Parse(q.Version); err != nil {
		return asked, failf(ReasonInvalidCurrentVersion, "The current cluster version is not a valid semantic version: %w", err)
	}

	return asked, nil
}

// requestArchitecture is what the update service is asked for.
func (q Query) requestArchitecture() string {
	if q.WantMulti || q.Architecture == release.ArchitectureMulti {
		return "multi"
	}
	return q.Architecture
}

// movesToMulti reports whether a cluster of one architecture is to become one of several.
func (q Query) movesToMulti() bool { return q.WantMulti && q.Architecture != release.ArchitectureMulti }

// retrieve asks an update service what it offers to a cluster.
func (c *client) retrieve(ctx context.Context, q Query) (*retrieved, *RetrieveError) {
	asked, wrong := q.question()
	if wrong != nil {
		return nil, wrong
	}

	data, wrong := c.fetch(ctx, asked, q)
	if wrong != nil {
		return nil, wrong
	}

	graph, err := cincinnati.Parse(data)
	if err != nil {
		return nil, failf(ReasonResponseInvalid, "%w", err)
	}

	offered, err := graph.Updates(asked.version)
	if missing := (*cincinnati.NotFoundError)(nil); errors.As(err, &missing) {
		return nil, failf(ReasonVersionNotFound, "currently reconciling cluster version %s not found in the %q channel", q.Version, q.Channel)
	}
	if err != nil {
		return nil, failf(ReasonResponseInvalid, "%w", err)
	}

	if q.movesToMulti() {
		found := &retrieved{}
		if node, ok := graph.Multi(asked.version); ok {
			found.available = []cincinnati.Node{node}
		}
		return found, nil
	}

	return &retrieved{&offered.Current, offered.Available, offered.Conditional, offered.Notes}, nil
}

// fetch reads the graph of a channel.
func (c *client) fetch(ctx context.Context, asked question, q Query) ([]byte, *RetrieveError) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	target := *asked.upstream
	values := target.Query()
	for name, value := range map[string]string{"arch": asked.arch, "channel": q.Channel, "id": q.ClusterID, "version": q.Version} {
		values.Set(name, value)
	}

	target.RawQuery = values.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, failf(ReasonInvalidRequest, "%w", bare(err))
	}

	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "ClusterVersionOperator/"+c.program)
	connected, err := c.connected(q)
	if err != nil {
		return nil, failf(ReasonInvalidRequest, "%w", err)
	}

	resp, err := connected.Do(req)
	if err != nil {
		return nil, failf(ReasonRemoteFailed, "asking %s: %w", target.Host, bare(err))
	}

	defer func() { _ = resp.Body.Close() }() // It was only read.
	if resp.StatusCode != http.StatusOK {
		wrong := failf(ReasonResponseFailed, "unexpected HTTP status: %s", resp.Status)
		wrong.Pause = pauseOf(resp.Header)
		return nil, wrong
	}

	// The transport has decompressed the answer: this bounds what it decompresses to.
	data, err := io.ReadAll(io.LimitReader(resp.Body, cincinnati.MaxBytes+1))
	if err != nil {
		return nil, failf(ReasonResponseFailed, "reading the answer of %s: %w", target.Host, bare(err))
	}

	return data, nil
}

// pauseOf reads Retry-After in seconds.
func pauseOf(header http.Header) time.Duration {
	seconds, err := strconv.Atoi(strings.TrimSpace(header.Get("Retry-After")))
	if err != nil || seconds < 0 {
		return 0
	}
	return min(time.Duration(min(seconds, int(maxPause/time.Second)))*time.Second, maxPause)
}

// connected returns a client for the proxy and the trust of a query. It is kept until these
// change.
func (c *client) connected(q Query) (*http.Client, error) {
	of := sha256.Sum256(bytes.Join([][]byte{[]byte(q.Proxy.HTTP), []byte(q.Proxy.HTTPS), []byte(q.Proxy.No), q.Trust}, []byte{0}))
	if c.http != nil && c.of == of {
		return c.http, nil
	}

	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("reading the certificate authorities of the system: %w", err)
	}
	if len(bytes.TrimSpace(q.Trust)) > 0 && !roots.AppendCertsFromPEM(q.Trust) {
		return nil, errors.New("the additional certificate authorities of the cluster hold no certificate")
	}

	proxy := http.ProxyFromEnvironment
	if q.Proxy != (Proxy{}) {
		of := (&httpproxy.Config{HTTPProxy: q.Proxy.HTTP, HTTPSProxy: q.Proxy.HTTPS, NoProxy: q.Proxy.No}).ProxyFunc()
		proxy = func(r *http.Request) (*url.URL, error) { return of(r.URL) }
	}
	if c.http != nil {
		c.http.CloseIdleConnections()
	}

	c.of, c.http = of, &http.Client{
		CheckRedirect: checkRedirect,
		Transport: &http.Transport{
			Proxy:                  proxy,
			DialContext:            (&net.Dialer{Timeout: dialTimeout}).DialContext,
			TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:    dialTimeout,
			ResponseHeaderTimeout:  answerTimeout,
			MaxResponseHeaderBytes: maxHeader,
			// The next question comes after minutes.
			DisableKeepAlives: true,
		},
	}

	return c.http, nil
}

// checkRedirect follows an update service elsewhere, but not from TLS to none.
func checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return fmt.Errorf("the update service redirects more than %d times", maxRedirects)
	}
	if via[0].URL.Scheme == "https" && req.URL.Scheme != "https" {
		return fmt.Errorf("the update service redirects from https to %s, which is not followed", req.URL.Scheme)
	}
	return nil
}
