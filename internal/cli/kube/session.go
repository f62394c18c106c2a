package kube

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/cli/kubeconfig"
)

// Session is what the commands of one command line share.
type Session struct {
	// Now is the clock for ages.
	Now func() time.Time
	// Interactive reports whether a command can ask for confirmation.
	Interactive func(cmd *cobra.Command) bool

	cluster kubeconfig.Flags
}

// AddFlags adds the flags that select a cluster and a user to a command and its subcommands.
func (s *Session) AddFlags(cmd *cobra.Command) { s.cluster.AddFlags(cmd.PersistentFlags()) }

// Config returns the client configuration of the selected cluster.
func (s *Session) Config() (*rest.Config, error) { return s.cluster.Config() }

// NewClient returns a client of the selected cluster. Warnings of the API server are written to w.
func (s *Session) NewClient(w io.Writer) (client.Client, error) {
	config, err := s.Config()
	if err != nil {
		return nil, err
	}

	// A status reads dozens of objects one by one. The default of 5 requests a second would be
	// noticeably slow, and the server protects itself with priority and fairness.
	config.QPS, config.Burst = 50, 100
	config.WarningHandler = rest.NewWarningWriter(w, rest.WarningWriterOptions{Deduplicate: true})
	scheme, err := action.Scheme()
	if err != nil {
		return nil, err
	}

	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, &report.Error{
			Object: "cluster " + config.Host, Err: fmt.Errorf("cannot be reached: %w", err),
			Advice: "check that the cluster is running, or select another one with --context",
		}
	}

	return c, nil
}
