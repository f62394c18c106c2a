// Package console has the command `mainstay console`, which serves the web console to the person at this machine.
package console

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"runtime"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/catalog/catalogs"
	"github.com/mainstay-dev/mainstay/internal/cli/kube"
	"github.com/mainstay-dev/mainstay/internal/cli/opm"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
	"github.com/mainstay-dev/mainstay/internal/console"
	"github.com/mainstay-dev/mainstay/web"
)

// NewCommand returns the command `console`.
func NewCommand(session *kube.Session) *cobra.Command {
	f := &flags{}
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Open the web console in a browser",
		Long: `console serves the web console on this machine, for the user and the cluster of the kubeconfig, and opens
it in a browser. It answers only on the loopback interface. The address contains a secret that signs in
once. Ctrl+C ends the console and its sessions.`,
		Example: `  mainstay console

  # Print the address without opening a browser
  mainstay console --no-browser --port 8090`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.serveConsole(cmd, session) },
	}

	session.AddFlags(cmd)
	opm.AddRegistryFlags(cmd, &f.registry)
	cmd.Flags().Uint16Var(&f.port, "port", 0, "port on the loopback interface (default: a free one)")
	cmd.Flags().BoolVar(&f.noBrowser, "no-browser", false, "print the address and open no browser")

	return cmd
}

type flags struct {
	port      uint16
	noBrowser bool
	// registry pulls the bundles whose least rights are generated.
	registry catalogs.Registry
}

// serveConsole serves the console until the context of the command ends.
func (f *flags) serveConsole(cmd *cobra.Command, session *kube.Session) error {
	config, err := session.Config()
	if err != nil {
		return err
	}

	listener, err := (&net.ListenConfig{}).Listen(cmd.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(f.port))))
	if err != nil {
		return fmt.Errorf("serving the console: %w", err)
	}

	host := listener.Addr().String()
	secret := rand.Text()
	server, err := console.New(console.Options{
		Assets: web.Assets(), Config: config, Secret: secret, Hosts: []string{host}, Insecure: true,
		Version: terminal.Version(), Log: newLog(cmd), Registry: f.registry,
	})
	if err != nil {
		return err
	}

	address := "http://" + host + "/#secret=" + secret
	fmt.Fprintf(cmd.OutOrStdout(), "The console is open at %s\nThe address signs in once. Press Ctrl+C to end.\n", address)
	if !f.noBrowser {
		openBrowser(cmd.Context(), address)
	}
	return serveUntilDone(cmd.Context(), listener, server)
}

// newLog returns a log of writes on standard error.
func newLog(cmd *cobra.Command) logr.Logger {
	return funcr.New(func(_, args string) { fmt.Fprintln(cmd.ErrOrStderr(), args) }, funcr.Options{LogTimestamp: true})
}

// serveUntilDone serves until the context ends.
func serveUntilDone(ctx context.Context, listener net.Listener, server *console.Server) error {
	web := &http.Server{Handler: server, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() {
		server.Close()
		_ = web.Close() // the program ends
	})
	defer stop()
	if err := web.Serve(listener); ctx.Err() == nil {
		return err
	}
	return nil
}

// openBrowser opens an address in the browser of the user, if there is one.
func openBrowser(ctx context.Context, address string) {
	program := "xdg-open"
	if runtime.GOOS == "darwin" {
		program = "open"
	}
	_ = exec.CommandContext(ctx, program, address).Start() //nolint:gosec // the program is one of two, and the address is ours; it is printed, too
}
