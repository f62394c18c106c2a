package updates_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mainstay-dev/mainstay/internal/action/update/updates"
	"github.com/mainstay-dev/mainstay/internal/cincinnati"
)

// Errors contain only the scheme, host and path of a URL.
func TestGraphSecrets(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/round" {
			http.Redirect(w, r, r.URL.String(), http.StatusFound)
			return
		}
		http.Error(w, "no", http.StatusForbidden)
	}))

	defer server.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	for _, address := range []string{server.URL, server.URL + "/round", gone.URL, "http://[::1"} {
		source := strings.Replace(address, "http://", "http://user:secret@", 1) + "?token=hidden"
		_, err := updates.Graph{Source: source, Channel: "stable"}.Run(t.Context())
		if err == nil || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: got %v", address, err)
		}
	}
}

func TestGraphRequest(t *testing.T) {
	var got *http.Request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		_, _ = w.Write([]byte(`{"nodes":[{"version":"1.0.0"},{"version":"1.0.1"}],"edges":[[0,1]]}`))
	}))
	defer server.Close()
	g, err := updates.Graph{Source: server.URL + "/graph?team=a&channel=old", Channel: "stable", Architecture: "arm64", From: "1.0.1", Program: "1"}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(g.Nodes) != 1 || g.Nodes[0].Version != "1.0.1" {
		t.Errorf("got %v", g.Nodes)
	}
	if query := got.URL.Query().Encode(); query != "arch=arm64&channel=stable&team=a" || got.Header.Get("User-Agent") != "mainstay/1" {
		t.Errorf("got the query %q of the client %q", query, got.Header.Get("User-Agent"))
	}
}

func TestGraphFromFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "graph.json")
	if err := os.WriteFile(file, make([]byte, cincinnati.MaxBytes+10), 0o600); err != nil {
		t.Fatal(err)
	}

	_, err := updates.Graph{Source: file}.Run(t.Context())
	var wrong *cincinnati.Error
	if !errors.As(err, &wrong) || !strings.Contains(err.Error(), "has more than") {
		t.Errorf("got %v", err)
	}
}

// TestStalledResponse uses update services that send nothing, or stop sending.
func TestStalledResponse(t *testing.T) {
	for name, part := range map[string]string{"nothing": "", "half of it": `{"nodes":[`} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if part != "" {
					_, _ = w.Write([]byte(part))
					_ = http.NewResponseController(w).Flush()
				}
				<-r.Context().Done()
			}))

			defer server.Close()
			const timeout = 100 * time.Millisecond
			_, err := updates.Graph{Source: server.URL, Channel: "a", StallTimeout: timeout}.Run(t.Context())
			if want := "the update service sent nothing for 100ms"; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got error %v, want %q", err, want)
			}
		})
	}
}

// TestSlowResponse uses an update service whose response takes longer than the stall
// timeout but does not stall.
func TestSlowResponse(t *testing.T) {
	const timeout = 2 * time.Second
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		text := `{"nodes":[{"version":"1.0.0","payload":"example.com/a@sha256:1"}],"edges":[]}`
		tick := time.NewTicker(timeout * 3 / 2 / time.Duration(len(text)))
		defer tick.Stop()
		for i := range text {
			<-tick.C
			_, _ = w.Write([]byte(text[i : i+1]))
			_ = http.NewResponseController(w).Flush()
		}
	}))

	defer server.Close()
	if _, err := (updates.Graph{Source: server.URL, Channel: "a", StallTimeout: timeout}).Run(t.Context()); err != nil {
		t.Error(err)
	}
}
