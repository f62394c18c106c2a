package serve

import (
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/go-logr/logr"
)

// NewTestServer returns an unstarted server with the settings and the listener of Server.
func NewTestServer(handler http.Handler, limits Limits) *httptest.Server {
	server := httptest.NewUnstartedServer(nil)
	server.Config = (&Server{Handler: handler, Log: logr.Discard()}).newHTTPServer()
	server.Listener = newLimitedListener(server.Listener, limits)
	return server
}

// NewHandlerWithStall is NewHandler with another chunk timeout.
func NewHandlerWithStall(contents contentSource, stall time.Duration) http.Handler {
	return newHandler(contents, Limits{}, logr.Discard(), stall)
}

// Best returns the preferred encoding of a client.
func Best(header http.Header) string { return parseAcceptEncoding(header).preferredEncoding() }
