package registry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/pflag"
)

// Program is the name by which the executable is called to run the registry.
const Program = "devcluster-registry"

// Main runs the registry until it gets an interrupt or SIGTERM. It returns the exit code.
func Main(args []string) int {
	var options options
	flags := pflag.NewFlagSet(Program, pflag.ContinueOnError)
	flags.StringVar(&options.dir, "dir", "", "directory of blobs and manifests")
	flags.StringVar(&options.cert, "cert", "", "TLS certificate file")
	flags.StringVar(&options.key, "key", "", "private key file of the certificate")
	flags.StringSliceVar(&options.listen, "listen", nil, "addresses to listen on, host:port")
	if err := flags.Parse(args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", Program, err)
		return 2
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serveRegistry(ctx, options); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", Program, err)
		return 1
	}

	return 0
}

type options struct {
	dir, cert, key string
	listen         []string
}

func serveRegistry(ctx context.Context, options options) error {
	certificate, err := tls.LoadX509KeyPair(options.cert, options.key)
	if err != nil {
		return fmt.Errorf("load the TLS certificate: %w", err)
	}

	handler, err := NewHandler(ctx, options.dir, os.Stderr)
	if err != nil {
		return err
	}

	// HTTP/1.1 only: http.Server enables HTTP/2 only on a TLS listener that it creates itself.
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: sniffTimeout}
	ended := make(chan error, len(options.listen))
	for _, address := range options.listen {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp4", address)
		if err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		go func() { ended <- server.Serve(newSniffer(listener, config)) }()
	}

	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}

	// Pushes in flight may finish. Connections that are still open after that are not waited for.
	shutdown, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(shutdown); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}

	return nil
}
