// Package httpserver runs an HTTP server until it is told to stop, lets requests finish, and
// bounds the connections and requests of each client and of all.
//
// What a server answers, and how large its bounds are, is its owner's business.
package httpserver

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// Run serves until the context ends: over TLS when the server has a TLSConfig. Requests under way
// then have the grace to finish; what is left of them is cut off. The listener is closed. It is
// no error that the context ends.
func Run(ctx context.Context, server *http.Server, listener net.Listener, grace time.Duration) error {
	// A server that fails by itself leaves nobody behind who waits for the context.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		err := server.Shutdown(within)
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
