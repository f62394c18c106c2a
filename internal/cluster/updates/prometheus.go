package updates

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	prometheusv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/mainstay-dev/mainstay/internal/excerpt"
)

const (
	// queryTimeout is the timeout of one query.
	queryTimeout = 5 * time.Minute
	// maxResponseBytes is the maximum size of a response. One sample is expected.
	maxResponseBytes = 1 << 20
	// maxErrorTextBytes is the maximum length of a response text in an error.
	maxErrorTextBytes = 300
)

// Prometheus queries the HTTP API of a Prometheus or of a Thanos querier. It reads its files
// again for each query, so that tokens and certificates may be rotated.
type Prometheus struct {
	// URL is the base URL of the API, without /api/v1. Required.
	URL string
	// TokenFile contains the bearer token. If empty, no token is sent.
	TokenFile string
	// CAFile contains the CA certificates (PEM) to trust instead of those of the system. If
	// empty, those of the system are trusted.
	CAFile string
	// Dial returns the host and port to connect to instead of those of the URL, for operators
	// that cannot use the cluster's DNS. The certificate is still checked against the host of the
	// URL. If nil, the host of the URL is used.
	Dial func(ctx context.Context) (string, error)
	// HostedClusterID is set if one Prometheus monitors many clusters: it replaces the empty
	// value of the label _id="" in queries.
	HostedClusterID string
}

// Match implements [Querier].
func (p *Prometheus) Match(ctx context.Context, query string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	result, err := p.sendQuery(ctx, query)
	if err != nil {
		return false, err
	}
	return matchSample(result)
}

// sendQuery sends a query and returns its result.
func (p *Prometheus) sendQuery(ctx context.Context, query string) (model.Value, error) {
	if strings.TrimSpace(query) == "" {
		return nil, errors.New("the query is empty")
	}
	if p.HostedClusterID != "" {
		query = strings.ReplaceAll(query, `_id=""`, fmt.Sprintf("_id=%q", p.HostedClusterID))
	}

	transport, err := p.newTransport()
	if err != nil {
		return nil, err
	}
	defer transport.CloseIdleConnections()

	token, err := p.readToken()
	if err != nil {
		return nil, err
	}

	client, err := api.NewClient(api.Config{Address: p.URL, Client: &http.Client{
		Transport: &limitedTransport{next: transport, token: token},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("it redirects, which is not followed because it would forward the token")
		},
	}})
	if err != nil {
		return nil, fmt.Errorf("the address of Prometheus is not a URL: %w", stripURL(err))
	}

	result, _, _, err := prometheusv1.NewAPI(client).Query(ctx, query, time.Time{}, prometheusv1.WithTimeout(queryTimeout))
	if err != nil {
		return nil, queryError(client.URL("", nil).Host, err)
	}

	return result, nil
}

// readToken returns the bearer token; "" if none is sent.
func (p *Prometheus) readToken() (string, error) {
	if p.TokenFile == "" {
		return "", nil
	}

	token, err := os.ReadFile(p.TokenFile)
	if err != nil {
		return "", fmt.Errorf("reading the token for Prometheus: %w", err)
	}
	return strings.TrimSpace(string(token)), nil
}

// queryError returns the error of a query to a host, without its URL.
func queryError(host string, err error) error {
	var answered *prometheusv1.Error
	var tooLarge *http.MaxBytesError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the query took longer than %s", queryTimeout)
	case errors.As(err, &tooLarge):
		return fmt.Errorf("the answer of Prometheus has more than %d bytes", maxResponseBytes)
	case errors.As(err, &answered) && answered.Type == prometheusv1.ErrBadResponse:
		return fmt.Errorf("the answer of Prometheus cannot be read: %s", excerpt.Line(answered.Msg, maxErrorTextBytes))
	case errors.As(err, &answered):
		return fmt.Errorf("prometheus answered with an error: %s", excerpt.Line(answered.Msg, maxErrorTextBytes))
	default:
		return fmt.Errorf("querying Prometheus at %s: %w", host, stripURL(err))
	}
}

// limitedTransport adds a token to requests, and limits the size of responses.
type limitedTransport struct {
	next  http.RoundTripper
	token string
}

// RoundTrip implements http.RoundTripper.
func (t *limitedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Accept", "application/json")
	if t.token != "" {
		req.Header.Set("Authorization", "Bearer "+t.token)
	}

	resp, err := t.next.RoundTrip(req)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, maxResponseBytes)
	}

	return resp, err
}

func (p *Prometheus) newTransport() (*http.Transport, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if p.CAFile != "" {
		pem, err := os.ReadFile(p.CAFile)
		if err != nil {
			return nil, fmt.Errorf("reading the certificate authorities of Prometheus: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s contains no CA certificate for Prometheus", p.CAFile)
		}
	}

	dialer := &net.Dialer{Timeout: dialTimeout}
	return &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if p.Dial != nil {
				var err error
				if address, err = p.Dial(ctx); err != nil {
					return nil, err
				}
			}
			return dialer.DialContext(ctx, network, address)
		},
		TLSClientConfig:        config,
		TLSHandshakeTimeout:    dialTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
	}, nil
}

// matchSample returns whether a result matches. It must be one sample with the value 0 or 1.
func matchSample(result model.Value) (bool, error) {
	if result == nil {
		return false, errors.New("the answer of Prometheus has no result")
	}

	samples, ok := result.(model.Vector)
	if !ok {
		return false, fmt.Errorf("the query must result in an instant vector, not a %s", result.Type())
	}
	if len(samples) != 1 {
		return false, fmt.Errorf("the query must result in one sample, not in %d", len(samples))
	}

	// A sample of an answer may be null, or a histogram.
	if sample := samples[0]; sample == nil || sample.Histogram != nil {
		return false, errors.New("the query must result in a sample with a value")
	}

	switch value := samples[0].Value; value {
	case 0:
		return false, nil
	case 1:
		return true, nil
	default:
		return false, fmt.Errorf("the query must result in 0 or 1, not in %v", value)
	}
}
