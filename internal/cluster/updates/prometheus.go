package updates

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
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
	data, err := p.sendQuery(ctx, query)
	if err != nil {
		return false, err
	}
	return parseSample(data)
}

// sendQuery sends a query and returns the body of the response.
func (p *Prometheus) sendQuery(ctx context.Context, query string) ([]byte, error) {
	if strings.TrimSpace(query) == "" {
		return nil, errors.New("the query is empty")
	}
	if p.HostedClusterID != "" {
		query = strings.ReplaceAll(query, `_id=""`, fmt.Sprintf("_id=%q", p.HostedClusterID))
	}

	target, err := url.Parse(p.URL)
	if err != nil {
		return nil, fmt.Errorf("the address of Prometheus is not a URL: %w", stripURL(err))
	}

	target = target.JoinPath("api", "v1", "query")
	target.RawQuery = url.Values{"query": {query}, "timeout": {queryTimeout.String()}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, stripURL(err)
	}

	req.Header.Set("Accept", "application/json")
	if p.TokenFile != "" {
		token, err := os.ReadFile(p.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("reading the token for Prometheus: %w", err)
		}
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}

	transport, err := p.newTransport()
	if err != nil {
		return nil, err
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return errors.New("it redirects, which is not followed because it would forward the token")
	}}
	resp, err := client.Do(req)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("the query took longer than %s", queryTimeout)
	}
	if err != nil {
		return nil, fmt.Errorf("querying Prometheus at %s: %w", target.Host, stripURL(err))
	}
	defer func() { _ = resp.Body.Close() }() // It was only read.
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxResponseBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the answer of Prometheus: %w", stripURL(err))
	case len(data) > maxResponseBytes:
		return nil, fmt.Errorf("the answer of Prometheus has more than %d bytes", maxResponseBytes)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("prometheus answered %s%s", resp.Status, responseErrorText(data))
	}

	return data, nil
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

// queryResponse is the body of a response of Prometheus.
type queryResponse struct {
	Status string `json:"status"`
	Error  string `json:"error"`
	Data   struct {
		ResultType string          `json:"resultType"`
		Result     json.RawMessage `json:"result"`
	} `json:"data"`
}

// responseErrorText returns the error text of a response with a leading colon; "" if there is
// none.
func responseErrorText(data []byte) string {
	var a queryResponse
	if json.Unmarshal(data, &a) != nil || a.Error == "" {
		return ""
	}

	text := strings.Join(strings.Fields(strings.ToValidUTF8(a.Error, "")), " ")
	if len(text) > maxErrorTextBytes {
		text = strings.ToValidUTF8(text[:maxErrorTextBytes], "") + "…"
	}

	return ": " + text
}

// parseSample parses a response, which must contain one sample with the value 0 or 1.
func parseSample(data []byte) (bool, error) {
	var a queryResponse
	if err := json.Unmarshal(data, &a); err != nil {
		return false, fmt.Errorf("the answer of Prometheus cannot be read: %w", err)
	}
	if a.Status != "success" {
		return false, fmt.Errorf("prometheus answered with status %q%s", a.Status, responseErrorText(data))
	}
	if a.Data.ResultType != "vector" {
		return false, fmt.Errorf("the query must result in an instant vector, not a %s", a.Data.ResultType)
	}

	var samples []struct {
		Value [2]any `json:"value"`
	}
	if err := json.Unmarshal(a.Data.Result, &samples); err != nil {
		return false, fmt.Errorf("the answer of Prometheus cannot be read: %w", err)
	}
	if len(samples) != 1 {
		return false, fmt.Errorf("the query must result in one sample, not in %d", len(samples))
	}

	switch value := samples[0].Value[1]; value {
	case "0":
		return false, nil
	case "1":
		return true, nil
	default:
		return false, fmt.Errorf("the query must result in 0 or 1, not in %v", value)
	}
}
