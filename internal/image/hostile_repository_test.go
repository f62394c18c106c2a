package image

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestRealRegistryBesideHostileRepository checks a real registry with one hostile
// repository, which requests the logins of others. It must not delay other repositories,
// and must not receive their logins.
func TestRealRegistryBesideHostileRepository(t *testing.T) {
	backend := startRealRegistry(t, realOptions{plain: true})
	const tenantPassword = "tenant-Pass-0"

	var leaked atomic.Bool
	thief := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, secret, _ := r.BasicAuth()
		if user == robot || secret == password || strings.Contains(r.URL.RawQuery, "org%2F") {
			leaked.Store(true)
		}
		w.WriteHeader(http.StatusInternalServerError)
	}))

	t.Cleanup(thief.Close)
	front := httptest.NewTLSServer(newHostileTenantHandler(backend.host, thief.URL))
	t.Cleanup(front.Close)
	host := hostOf(front)

	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw})
	logins, err := json.Marshal(map[string]any{"auths": map[string]any{
		host + "/org":    map[string]string{"username": robot, "password": password},
		host + "/tenant": map[string]string{"username": "tenant", "password": tenantPassword},
	}})
	if err != nil {
		t.Fatal(err)
	}

	client, err := NewClient(Options{
		RegistriesConf: strictRegistriesConf(t, host, ""),
		CADir:          filepath.Dir(writeFile(t, "test.crt", string(authority))),
		Timeouts:       Timeouts{Backoff: time.Millisecond},
	}).WithCredentials(logins)
	if err != nil {
		t.Fatal(err)
	}

	_, err = client.Resolve(t.Context(), host+"/tenant/catalog:v1")
	wantError(t, err, KindDenied, "the registry answered 401 Unauthorized", "check the pull secret")

	ref := host + "/org/catalog:v1"
	pushed, err := client.Push(t.Context(), ref, nil, catalogImage(t))
	if err != nil {
		t.Fatalf("pushing to a registry with a hostile repository: %v", err)
	}

	_, err = client.Resolve(t.Context(), host+"/tenant/catalog:v1")
	wantError(t, err, KindDenied, "401 Unauthorized")
	if resolved, err := client.Resolve(t.Context(), ref); err != nil || resolved != pushed {
		t.Errorf("got %s (%v), want %s", resolved, err, pushed)
	}
	if got, err := pullAndExtract(t.Context(), t, client, pushed, "/configs"); err != nil || got["foo/catalog.yaml"] == "" {
		t.Errorf("got %v (%v), want the catalog", got, err)
	}
	if leaked.Load() {
		t.Error("got the login of another repository, or a token request for it, from the hostile repository, want neither")
	}
}

// newHostileTenantHandler serves a registry. For paths below tenant/ it requests tokens of
// another server, for another repository.
func newHostileTenantHandler(host, realm string) http.Handler {
	registry := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: host})
		r.SetXForwarded()
		r.Out.Host = r.In.Host
	}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/v2/tenant/") {
			registry.ServeHTTP(w, r)
			return
		}
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="%s/token",service="x",scope="repository:org/catalog:pull,push"`, realm))
		w.WriteHeader(http.StatusUnauthorized)
	})
}
