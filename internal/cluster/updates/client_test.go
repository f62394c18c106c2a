package updates

import (
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/cincinnati"
)

const graphOf3 = `{"nodes":[
  {"version":"4.1.0","payload":"registry.example.com/release@sha256:0000","metadata":{"url":"https://example.com/0","io.openshift.upgrades.graph.release.channels":"stable-4.1,fast-4.1"}},
  {"version":"4.1.1","payload":"registry.example.com/release@sha256:1111"},
  {"version":"4.1.2","payload":"registry.example.com/release@sha256:2222"}],
 "edges":[[0,1],[1,2]],
 "conditionalEdges":[{"edges":[{"from":"4.1.0","to":"4.1.2"}],"risks":[{"url":"https://example.com/a","name":"A","message":"a happens.","matchingRules":[{"type":"PromQL","promql":{"promql":"a"}}]}]}]}`

// newQuery returns a valid query.
func newQuery(upstream string) Query {
	return Query{
		Upstream: upstream, Channel: "stable-4.1", ClusterID: "7b8f3a3e-8a0e-4c7c-9a9f-0f2c6a3f1c11",
		Version: "4.1.0", Image: "mirror.example.com/release@sha256:0000", Architecture: "amd64",
	}
}

func TestRequest(t *testing.T) {
	var got *http.Request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		fmt.Fprint(w, graphOf3)
	}))
	defer server.Close()
	c := &graphClient{program: "1.2.3"}
	found, wrong := c.retrieveUpdates(t.Context(), newQuery(server.URL+"/graph?team=a"))
	if wrong != nil {
		t.Fatal(wrong)
	}

	want := url.Values{
		"team": {"a"}, "arch": {"amd64"}, "channel": {"stable-4.1"},
		"id": {"7b8f3a3e-8a0e-4c7c-9a9f-0f2c6a3f1c11"}, "version": {"4.1.0"},
	}
	if diff := cmp.Diff(want, got.URL.Query()); diff != "" {
		t.Errorf("query (-want +got):\n%s", diff)
	}
	if got.Method != http.MethodGet || got.Header.Get("Accept") != "application/json" || got.Header.Get("User-Agent") != "ClusterVersionOperator/1.2.3" {
		t.Errorf("got %s with headers %v, want GET of JSON as ClusterVersionOperator/1.2.3", got.Method, got.Header)
	}
	if found.current.Version != "4.1.0" || len(found.available) != 1 || len(found.conditional) != 1 {
		t.Errorf("got %+v, want the current release 4.1.0 with one available and one conditional update", found)
	}

	for name, q := range map[string]Query{
		"a cluster of several":        func() Query { q := newQuery(server.URL); q.Architecture = "Multi"; return q }(),
		"a cluster that becomes such": func() Query { q := newQuery(server.URL); q.WantMulti = true; return q }(),
	} {
		if _, wrong := c.retrieveUpdates(t.Context(), q); wrong != nil {
			t.Fatal(wrong)
		}
		if arch := got.URL.Query().Get("arch"); arch != "multi" {
			t.Errorf("%s: got requested architecture %q, want multi", name, arch)
		}
	}
}

func TestRetrieveFails(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/500":
			http.Error(w, "broken", http.StatusInternalServerError)
		case "/busy":
			w.Header().Set("Retry-After", "86400")
			http.Error(w, "later", http.StatusTooManyRequests)
		case "/circle":
			fmt.Fprint(w, strings.Replace(graphOf3, "[1,2]", "[1,0]", 1))
		case "/nowhere":
			fmt.Fprint(w, strings.Replace(graphOf3, `"to":"4.1.2"`, `"to":"4.1.9"`, 1))
		case "/megabytes":
			blank := strings.Repeat(" ", 1<<20)
			for range cincinnati.MaxBytes>>20 + 1 {
				fmt.Fprint(w, blank)
			}
		case "/round":
			http.Redirect(w, r, "/round", http.StatusFound)
		case "/cut":
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, "{")
		default:
			fmt.Fprint(w, graphOf3)
		}
	}))

	defer server.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	change := func(f func(q *Query)) Query {
		q := newQuery(server.URL)
		f(&q)
		return q
	}
	for name, c := range map[string]struct {
		query           Query
		reason, message string
	}{
		"no upstream":           {change(func(q *Query) { q.Upstream = "" }), ReasonNoUpstream, "No update service has been configured."},
		"no URL":                {change(func(q *Query) { q.Upstream = "https://user:secret@[::1" }), ReasonInvalidURI, "Unable to retrieve available updates: failed to parse the address of the update service: missing ']' in host"},
		"a file":                {change(func(q *Query) { q.Upstream = "file:///etc/passwd" }), ReasonInvalidURI, "Unable to retrieve available updates: the address of the update service must begin with https:// or http:// and have a host"},
		"no cluster ID":         {change(func(q *Query) { q.ClusterID = "cluster" }), ReasonInvalidID, "Unable to retrieve available updates: the cluster ID must be a UUID of version 4 as RFC 4122 has it"},
		"no architecture":       {change(func(q *Query) { q.Architecture = "" }), ReasonNoArchitecture, "The architecture of the cluster is not known."},
		"no version":            {change(func(q *Query) { q.Version = "" }), ReasonNoCurrentVersion, "The cluster version does not have a semantic version assigned and cannot calculate valid upgrades."},
		"no channel":            {change(func(q *Query) { q.Channel = "" }), ReasonNoChannel, "The update channel has not been configured."},
		"a version of letters":  {change(func(q *Query) { q.Version = "latest" }), ReasonInvalidCurrentVersion, "The current cluster version is not a valid semantic version: No Major.Minor.Patch elements found"},
		"no certificates":       {change(func(q *Query) { q.Trust = []byte("trust me") }), ReasonInvalidRequest, "Unable to retrieve available updates: the additional CA bundle of the cluster contains no certificate"},
		"version not there":     {change(func(q *Query) { q.Version = "4.2.0" }), ReasonVersionNotFound, `Unable to retrieve available updates: currently reconciling cluster version 4.2.0 not found in the "stable-4.1" channel`},
		"connection refused":    {newQuery(gone.URL), ReasonRemoteFailed, "Unable to retrieve available updates: asking " + strings.TrimPrefix(gone.URL, "http://") + ": dial tcp " + strings.TrimPrefix(gone.URL, "http://") + ": connect: connection refused"},
		"redirects in a circle": {newQuery(server.URL + "/round"), ReasonRemoteFailed, "Unable to retrieve available updates: asking " + host + ": the update service redirects more than 5 times"},
		"status 500":            {newQuery(server.URL + "/500"), ReasonResponseFailed, "Unable to retrieve available updates: unexpected HTTP status: 500 Internal Server Error"},
		"status 429":            {newQuery(server.URL + "/busy"), ReasonResponseFailed, "Unable to retrieve available updates: unexpected HTTP status: 429 Too Many Requests"},
		"an answer cut off":     {newQuery(server.URL + "/cut"), ReasonResponseFailed, "Unable to retrieve available updates: reading the answer of " + host + ": unexpected EOF"},
		"a circle":              {newQuery(server.URL + "/circle"), ReasonResponseInvalid, "Unable to retrieve available updates: the update graph: edges: lead in a circle: 4.1.0 → 4.1.1 → 4.1.0"},
		"an edge to nowhere":    {newQuery(server.URL + "/nowhere"), ReasonResponseInvalid, "Unable to retrieve available updates: the update graph: conditionalEdges[0]: no node for conditional update 4.1.9"},
		"megabytes":             {newQuery(server.URL + "/megabytes"), ReasonResponseInvalid, "Unable to retrieve available updates: the update graph has more than the 33554432 bytes that it may have"},
	} {
		t.Run(name, func(t *testing.T) {
			_, wrong := (&graphClient{}).retrieveUpdates(t.Context(), c.query)
			if wrong == nil {
				t.Fatal("got no error, want one")
			}
			if diff := cmp.Diff([]string{c.reason, c.message}, []string{wrong.Reason, wrong.conditionMessage()}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if name == "status 429" && wrong.RetryAfter != maxRetryAfter {
				t.Errorf("got retry interval %s, want %s", wrong.RetryAfter, maxRetryAfter)
			}
		})
	}
}

// Requests use the proxy of the cluster and trust its additional certificates.
func TestProxyAndTrust(t *testing.T) {
	proxied := ""
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proxied = r.URL.Host
		fmt.Fprint(w, graphOf3)
	}))
	defer proxy.Close()
	c := &graphClient{}
	q := newQuery("http://updates.example.com/graph")
	q.Proxy = Proxy{HTTP: proxy.URL, No: "other.example.com"}
	if _, wrong := c.retrieveUpdates(t.Context(), q); wrong != nil {
		t.Fatal(wrong)
	}
	if proxied != "updates.example.com" {
		t.Errorf("the proxy received a request for %q, want updates.example.com", proxied)
	}

	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, graphOf3) }))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	q = newQuery(server.URL)
	if _, wrong := c.retrieveUpdates(t.Context(), q); wrong == nil || wrong.Reason != ReasonRemoteFailed || !strings.Contains(wrong.Error(), "certificate") {
		t.Errorf("an untrusted certificate: got error %v, want %s because of the certificate", wrong, ReasonRemoteFailed)
	}

	q.Trust = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if _, wrong := c.retrieveUpdates(t.Context(), q); wrong != nil {
		t.Errorf("a trusted certificate: got error %v, want none", wrong)
	}
}

func TestMovesToMulti(t *testing.T) {
	body := strings.Replace(graphOf3, `"metadata":{`, `"metadata":{"release.openshift.io/architecture":"multi",`, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }))
	defer server.Close()
	q := newQuery(server.URL)
	q.WantMulti = true
	found, wrong := (&graphClient{}).retrieveUpdates(t.Context(), q)
	if wrong != nil {
		t.Fatal(wrong)
	}
	if len(found.available) != 1 || found.available[0].Version != "4.1.0" || len(found.conditional) != 0 {
		t.Errorf("got %+v, want only the release of the same version", found)
	}
}

func TestUpstream(t *testing.T) {
	for _, c := range []struct{ flag, spec, want string }{
		{"https://flag", "https://spec", "https://flag"}, {"", "https://spec", "https://spec"}, {"", "", DefaultUpstream},
	} {
		if got := Upstream(c.flag, c.spec); got != c.want {
			t.Errorf("Upstream(%q, %q) = %q, want %q", c.flag, c.spec, got, c.want)
		}
	}
}
