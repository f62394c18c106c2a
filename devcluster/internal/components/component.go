// Package components says how each part of a cluster is started: its program, its arguments and the question that tells
// that it is ready. It is a description; package supervise starts what it describes and package cluster says in which order.
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
	// Program is the name that devcluster's own executable is called by to be this component.
	Program string
	// Executable is another program's path, for what devcluster does not carry. "" is devcluster's own.
	Executable string
	Args       []string
	Env        []string
	// Address is where it answers, for people.
	Address string
	// StopGrace is how long it may take to end by itself. 0 kills it at once.
	StopGrace time.Duration
	// InNode puts it into the namespaces of the real node.
	InNode bool
	// Ready returns no error once the component serves. Nil: it is ready as soon as it runs.
	Ready func(context.Context) error
}

// Config is what the components of one cluster have in common.
type Config struct {
	Dir       state.Dir
	Addresses state.Addresses
	PKI       *pki.Cluster
	// Kubeconfig returns the file by which a component logs in to the API server.
	Kubeconfig func(component string) string
	// Audit makes the API server write an audit log.
	Audit bool
}

// stopGrace is enough for a component that finishes its requests; one that takes longer is killed.
const stopGrace = 10 * time.Second

// answersOK returns the question whether a GET of url is answered with 200.
func answersOK(url string, authority *pki.Authority, client *pki.Pair) func(context.Context) error {
	config := &tls.Config{RootCAs: authority.CertPool(), MinVersion: tls.VersionTLS12}
	if client != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			certificate, err := tls.LoadX509KeyPair(client.CertFile, client.KeyFile)
			return &certificate, err
		}
	}

	return answers(url, config)
}

// Answers returns the question whether a GET of a plain HTTP url is answered with 200.
func Answers(url string) func(context.Context) error { return answers(url, nil) }

func answers(url string, config *tls.Config) func(context.Context) error {
	// One connection a question: a component that restarts its listener must not look ready by an old connection.
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
		body, _ := io.ReadAll(io.LimitReader(response.Body, 4<<10)) // The beginning says enough.
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("GET %s: %s: %s", url, response.Status, body)
		}

		return nil
	}
}

// selfSignedOK is answersOK for a component that makes its own serving certificate at each start. It proves that the
// component serves; nothing that it says is used.
func selfSignedOK(url string) func(context.Context) error {
	return answers(url, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // see above
}

func local(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

func localURL(port int) string { return "https://" + local(port) }
