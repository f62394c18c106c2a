// Package ociregistry serves images from memory, as a registry without logins.
//
// It is only for tests. No package of the product imports it.
package ociregistry

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/mainstay-dev/mainstay/internal/image"
)

// NewHandler returns the handler of an empty registry. It does not log.
func NewHandler() http.Handler { return registry.New(registry.Logger(log.New(io.Discard, "", 0))) }

// Server is a registry that serves over HTTP until the test ends. Close makes it unreachable earlier.
type Server struct {
	*httptest.Server
	// Host is the host and the port of the registry.
	Host string
}

// Start starts an empty registry.
func Start(t testing.TB) *Server {
	t.Helper()
	return Serve(t, NewHandler())
}

// Serve starts a registry with a handler, such as one that calls that of NewHandler and causes faults.
func Serve(t testing.TB, handler http.Handler) *Server {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return &Server{Server: server, Host: strings.TrimPrefix(server.URL, "http://")}
}

// Push builds an image for each spec and pushes them under a reference, as one image of several platforms if there is more
// than one. It returns the reference by digest.
func Push(t testing.TB, reference string, specs ...image.Spec) string {
	t.Helper()
	images := make([]*image.Built, 0, len(specs))
	for _, spec := range specs {
		built, err := image.Build(spec)
		if err != nil {
			t.Fatalf("building %s: %v", reference, err)
		}
		images = append(images, built)
	}

	canonical, err := image.NewClient(image.Options{}).Push(t.Context(), reference, nil, images...)
	if err != nil {
		t.Fatalf("pushing %s: %v", reference, err)
	}

	return canonical
}
