// Package components defines how each component of a cluster is started: its program, its arguments and its readiness
// check. It only describes components. Package supervise starts them, and package cluster decides the order.
package components

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/mainstay-dev/mainstay/devcluster/internal/pki"
	"github.com/mainstay-dev/mainstay/devcluster/internal/state"
)

// Component is one process of a cluster.
type Component struct {
	Name string
	// Program is the name by which devcluster's own executable is called to run this component.
	Program string
	// Executable is the path of a program that devcluster does not contain. If empty, devcluster's own executable is
	// used.
	Executable string
	Args       []string
	Env        []string
	// Address is the address that the component serves on. It is for display only.
	Address string
	// StopGrace is how long the component may take to stop after SIGTERM. If 0, it is killed at once.
	StopGrace time.Duration
	// InNode starts the component in the namespaces of the real node.
	InNode bool
	// Ready returns nil once the component serves. If nil, the component is ready as soon as it runs.
	Ready func(context.Context) error
}

// Config is what all components of one cluster share.
type Config struct {
	Dir       state.Dir
	Addresses state.Addresses
	PKI       *pki.Cluster
	// Kubeconfig returns the path of the kubeconfig file that a component uses to connect to the API server.
	Kubeconfig func(component string) string
	// Audit enables the API server's audit log.
	Audit bool
}

// stopGracePeriod lets a component finish its requests. A component that takes longer is killed.
const stopGracePeriod = 10 * time.Second

// newHTTPSReadinessCheck returns a check that succeeds if a GET of url returns status 200. authority must have signed
// the serving certificate. client is the client certificate, or nil for none.
func newHTTPSReadinessCheck(url string, authority *pki.Authority, client *pki.Pair) func(context.Context) error {
	config := &tls.Config{RootCAs: authority.CertPool(), MinVersion: tls.VersionTLS12}
	if client != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			certificate, err := tls.LoadX509KeyPair(client.CertFile, client.KeyFile)
			return &certificate, err
		}
	}

	return newReadinessCheck(url, config)
}

// Answers returns a check that succeeds if a GET of a plain HTTP url returns status 200.
func Answers(url string) func(context.Context) error { return newReadinessCheck(url, nil) }

func newReadinessCheck(url string, config *tls.Config) func(context.Context) error {
	// Each check opens a new connection: an old one would hide that the component restarts its listener.
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return err
		}

		response, err := transport.RoundTrip(request)
		if err != nil {
			return fmt.Errorf("GET %s: %w", url, err)
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(io.LimitReader(response.Body, 4<<10)) // The beginning is enough for an error message.
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("GET %s: %s: %s", url, response.Status, body)
		}

		return nil
	}
}

// newSelfSignedReadinessCheck is newHTTPSReadinessCheck for a component that creates its own serving certificate at
// each start. The check does not verify that certificate. It only needs to know that the component serves, and does not
// use the response.
func newSelfSignedReadinessCheck(url string) func(context.Context) error {
	return newReadinessCheck(url, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // see above
}

func loopbackAddress(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

func loopbackURL(port int) string { return "https://" + loopbackAddress(port) }
