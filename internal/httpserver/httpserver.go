// Package httpserver runs HTTP servers with graceful shutdown, and limits the concurrent connections and
// requests of each client and of all clients.
//
// The caller provides the handler and the limits.
package httpserver

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// Run serves until the context is done, over TLS if the server has a TLSConfig. Requests in progress can then
// complete within the grace period; after that, their connections are closed. Run closes the listener. It
// returns nil if it was stopped by the context.
func Run(ctx context.Context, server *http.Server, listener net.Listener, grace time.Duration) error {
	// If the server fails, the goroutine below ends because of the cancellation.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		shutdownCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		err := server.Shutdown(shutdownCtx)
		if errors.Is(err, context.DeadlineExceeded) {
			err = server.Close()
		}

		stopped <- err
	}()

	serve := server.Serve
	if server.TLSConfig != nil {
		serve = func(l net.Listener) error { return server.ServeTLS(l, "", "") }
	}
	if err := serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}

	return <-stopped
}
