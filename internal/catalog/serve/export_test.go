package serve

import (
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/go-logr/logr"
)

// NewTestServer makes a server, not started yet, that has the settings and the connections
// of the real one.
func NewTestServer(handler http.Handler, limits Limits) *httptest.Server {
	server := httptest.NewUnstartedServer(nil)
	server.Config = (&Server{Handler: handler, Log: logr.Discard()}).newHTTPServer()
	server.Listener = newLimitedListener(server.Listener, limits)
	return server
}

// NewHandlerWithStall is NewHandler with another time that a client may take for a chunk.
func NewHandlerWithStall(contents contentSource, stall time.Duration) http.Handler {
	return newHandler(contents, Limits{}, logr.Discard(), stall)
}

// Best is the encoding that a client likes best.
func Best(header http.Header) string { return parseAcceptEncoding(header).preferredEncoding() }
