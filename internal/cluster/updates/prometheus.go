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
	// queryTimeout bounds one query.
	queryTimeout = 5 * time.Minute
	// maxSamples bounds the answer to a query, in bytes: one sample is expected.
	maxSamples = 1 << 20
	// maxTold bounds how much of an answer an error repeats, in bytes.
	maxTold = 300
)

// Prometheus asks the HTTP API of a Prometheus, or of a Thanos querier. Files are read
// anew for each query, so that tokens and certificates may be renewed.
type Prometheus struct {
	// URL of the API, before /api/v1. Required.
	URL string
	// TokenFile has the bearer token to send. Empty: none.
	TokenFile string
	// CAFile has the certificate authorities (PEM) to trust instead of the system's. Empty:
	// the system's.
	CAFile string
	// Dial returns host and port to connect to instead of those of the URL, for clusters
	// whose operators cannot use the cluster's DNS. The certificate is still checked
	// against the name in the URL. Nil: those of the URL.
	Dial func(ctx context.Context) (string, error)
	// HostedClusterID is set where one Prometheus watches many clusters: the label _id="" in
	// queries then becomes that of the cluster.
	HostedClusterID string
}

// Match implements [Querier].
func (p *Prometheus) Match(ctx context.Context, query string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	data, err := p.ask(ctx, query)
	if err != nil {
		return false, err
	}
	return parseSample(data)
}

// ask sends a query, and gives the body of the answer.
func (p *Prometheus) ask(ctx context.Context, query string) ([]byte, error) {
	if strings.TrimSpace(query) == "" {
		return nil, errors.New("the query is empty")
	}
	if p.HostedClusterID != "" {
		query = strings.ReplaceAll(query, `_id=""`, fmt.Sprintf("_id=%q", p.HostedClusterID))
	}

	target, err := url.Parse(p.URL)
	if err != nil {
		return nil, fmt.Errorf("the address of Prometheus is no URL: %w", bare(err))
	}

	target = target.JoinPath("api", "v1", "query")
	target.RawQuery = url.Values{"query": {query}, "timeout": {queryTimeout.String()}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, bare(err)
	}

	req.Header.Set("Accept", "application/json")
	if p.TokenFile != "" {
		token, err := os.ReadFile(p.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("reading the token for Prometheus: %w", err)
		}
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}

	transport, err := p.transport()
	if err != nil {
		return nil, err
	}

	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return errors.New("it redirects elsewhere, which is not followed: it would be given the token")
	}}
	resp, err := client.Do(req)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("the query took longer than %s", queryTimeout)
	}
	if err != nil {
		return nil, fmt.Errorf("asking Prometheus at %s: %w", target.Host, bare(err))
	}

	defer func() { _ = resp.Body.Close() }() // It was only read.
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxSamples+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the answer of Prometheus: %w", bare(err))
	case len(data) > maxSamples:
		return nil, fmt.Errorf("the answer of Prometheus has more than %d bytes", maxSamples)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("prometheus answered %s%s", resp.Status, told(data))
	}

	return data, nil
}

func (p *Prometheus) transport() (*http.Transport, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if p.CAFile != "" {
		pem, err := os.ReadFile(p.CAFile)
		if err != nil {
			return nil, fmt.Errorf("reading the certificate authorities of Prometheus: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate to trust Prometheus by", p.CAFile)
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
		MaxResponseHeaderBytes: maxHeader,
	}, nil
}

// answer is what Prometheus answers.
type answer struct {
	Status string `json:"status"`
	Error  string `json:"error"`
	Data   struct {
		ResultType string          `json:"resultType"`
		Result     json.RawMessage `json:"result"`
	} `json:"data"`
}

// told is what an answer says of a failure.
func told(data []byte) string {
	var a answer
	if json.Unmarshal(data, &a) != nil || a.Error == "" {
		return ""
	}

	text := strings.Join(strings.Fields(strings.ToValidUTF8(a.Error, "")), " ")
	if len(text) > maxTold {
		text = strings.ToValidUTF8(text[:maxTold], "") + "…"
	}

	return ": " + text
}

// parseSample reads an answer, which must be one sample of value 0 or 1.
func parseSample(data []byte) (bool, error) {
	var a answer
	if err := json.Unmarshal(data, &a); err != nil {
		return false, fmt.Errorf("the answer of Prometheus cannot be read: %w", err)
	}
	if a.Status != "success" {
		return false, fmt.Errorf("prometheus answered with status %q%s", a.Status, told(data))
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
