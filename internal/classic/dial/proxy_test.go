package dial_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/connectivity"

	"github.com/mainstay-dev/mainstay/internal/classic/dial"
	"github.com/mainstay-dev/mainstay/internal/testing/catalogserver"
)

// proxy is an HTTP proxy for CONNECT. Every address connects to one catalog.
type proxy struct {
	to string

	mu    sync.Mutex
	asked []string
	login string
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.asked = append(p.asked, r.Method+" "+r.Host)
	p.login = r.Header.Get("Proxy-Authorization")
	p.mu.Unlock()
	if p.to == "" {
		http.Error(w, "no", http.StatusForbidden)
		return
	}

	catalogserver.ServeTunnel(w, p.to)
}

func TestProxyConnection(t *testing.T) {
	address, _ := serve(t, "127.0.0.1:0")
	through := &proxy{to: address}
	server := httptest.NewServer(through)
	t.Cleanup(server.Close)
	url := strings.Replace(server.URL, "http://", "http://me:secret@", 1)
	p, changed := pool(t, dial.Options{Proxy: dial.Proxy{URL: url, Except: ".example.org"}})
	set(t, p, "catalog.olm.svc:50051")
	await(t, p, changed, connectivity.Ready)
	if _, err := packages(t, p); err != nil {
		t.Error(err)
	}

	p.Close()
	through.mu.Lock()
	defer through.mu.Unlock()
	if got := through.asked[0]; got != "CONNECT catalog.olm.svc:50051" || through.login != "Basic bWU6c2VjcmV0" {
		t.Errorf("the proxy received %q with the login %q", got, through.login)
	}
}

func TestProxyErrors(t *testing.T) {
	server := httptest.NewServer(&proxy{})
	t.Cleanup(server.Close)
	p, changed := pool(t, dial.Options{Proxy: dial.Proxy{URL: strings.Replace(server.URL, "http://", "http://me:secret@", 1)}})
	set(t, p, "catalog.olm.svc:50051")
	state := await(t, p, changed, connectivity.TransientFailure)
	if text := state.Err.Error(); !strings.Contains(text, "403 Forbidden") || strings.Contains(text, "secret") {
		t.Errorf("got error %q", text)
	}
}

func TestProxyExceptions(t *testing.T) {
	address, _ := serve(t, "127.0.0.1:0")
	_, port, _ := net.SplitHostPort(address)
	refuses := httptest.NewServer(&proxy{})
	t.Cleanup(refuses.Close)
	for _, except := range []string{"*", "127.0.0.0/8", "127.0.0.1"} {
		p, changed := pool(t, dial.Options{Proxy: dial.Proxy{URL: refuses.URL, Except: except}})
		set(t, p, "127.0.0.1:"+port)
		await(t, p, changed, connectivity.Ready)
		p.Close()
	}
}

func TestInvalidProxies(t *testing.T) {
	for _, url := range []string{"socks5://me:secret@127.0.0.1:1", "http://me:secret@[127.0.0.1:1"} {
		p, changed := pool(t, dial.Options{Proxy: dial.Proxy{URL: url}})
		set(t, p, "catalog.olm.svc:50051")
		state := await(t, p, changed, connectivity.TransientFailure)
		if text := state.Err.Error(); !strings.Contains(text, "GRPC_PROXY") || strings.Contains(text, "secret") {
			t.Errorf("%q: got error %q", url, text)
		}

		p.Close()
	}
}

func TestProxyFromEnvironment(t *testing.T) {
	for _, tc := range []struct {
		environment map[string]string
		want        dial.Proxy
	}{
		{nil, dial.Proxy{}},
		{map[string]string{"HTTPS_PROXY": "http://a", "NO_PROXY": "b"}, dial.Proxy{Except: "b"}},
		{map[string]string{"GRPC_PROXY": "http://a", "NO_PROXY": "b"}, dial.Proxy{URL: "http://a", Except: "b"}},
		{map[string]string{"grpc_proxy": "http://a", "no_proxy": "b"}, dial.Proxy{URL: "http://a", Except: "b"}},
	} {
		if got := dial.ProxyFromEnvironment(func(name string) string { return tc.environment[name] }); got != tc.want {
			t.Errorf("for %v got %+v, want %+v", tc.environment, got, tc.want)
		}
	}
}
