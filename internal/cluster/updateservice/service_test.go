package updateservice

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/mainstay-dev/mainstay/internal/cincinnati"
	"github.com/mainstay-dev/mainstay/internal/cincinnati/graphdata"
	"github.com/mainstay-dev/mainstay/internal/httpserver"
	"github.com/mainstay-dev/mainstay/internal/release"
	"github.com/mainstay-dev/mainstay/internal/testing/golden"
	"github.com/mainstay-dev/mainstay/internal/testing/poll"
	"github.com/mainstay-dev/mainstay/internal/testing/protocol"
	"github.com/mainstay-dev/mainstay/internal/testing/rawhttp"
)

// Entries of a release that are not versions do not change the rest of the graph. They are logged with the release and the
// field. A wildcard is a valid entry.
func TestLoggedWarnings(t *testing.T) {
	i := newTestRegistry(t)
	const prefix = "io.openshift.upgrades.graph."
	for version, metadata := range map[string]map[string]string{
		"4.1.0": {prefix + "next.add": "4.1.3,newest", prefix + "next.remove": "4.1.2,last"},
		"4.1.1": {prefix + "previous.add": "4.1.0,v4.1.0", prefix + "previous.remove": "4.1,4.0.9"},
		"4.1.2": {prefix + "previous.add": "4.1.0,4.1.1", prefix + "previous.remove": "*"},
		"4.1.3": {prefix + "previous.add": "4.1.1", prefix + "previous.remove": "4.1.1"},
	} {
		i.pushImages(version, i.buildImage("amd64", newReleaseFiles(version, metadata)))
	}

	var logged []string
	s := newService(t, Options{Releases: i.repository, DataFolder: newDataFolder(t, map[string]string{
		"channels/stable.yaml": "name: stable-4.1\nversions: [4.1.0, 4.1.1, 4.1.2, 4.1.3]\n",
	})})
	s.options.Log = funcr.New(func(_, text string) {
		if _, quoted, ok := strings.Cut(text, `"warning"=`); ok {
			warning, err := strconv.Unquote(quoted)
			if err != nil {
				t.Errorf("parsing the log message %s: %v", text, err)
			}
			logged = append(logged, warning)
		}
	}, funcr.Options{})
	if err := s.Scan(t.Context()); err != nil {
		t.Fatal(err)
	}

	if got, want := describeGraph(t, s, "channel=stable-4.1"), "4.1.0 4.1.1 4.1.2 4.1.3 4.1.0>4.1.1 4.1.0>4.1.3"; got != want {
		t.Errorf("got the graph %q, want %q", got, want)
	}
	want := []string{
		`entries of metadata io.openshift.upgrades.graph.next.add of 4.1.0+amd64 are left out, because they are not semantic versions: "newest"`,
		`entries of metadata io.openshift.upgrades.graph.next.remove of 4.1.0+amd64 are left out, because they are not semantic versions: "last"`,
		`entries of metadata io.openshift.upgrades.graph.previous.add of 4.1.1+amd64 are left out, because they are not semantic versions: "v4.1.0"`,
		`entries of metadata io.openshift.upgrades.graph.previous.remove of 4.1.1+amd64 are left out, because they are not semantic versions: "4.1"`,
	}
	slices.Sort(logged)
	if diff := cmp.Diff(want, logged); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestScrape(t *testing.T) {
	i := newTestRegistry(t)
	i.pushRelease("4.1.0")
	i.pushRelease("4.1.1", "4.1.0")
	i.pushRelease("4.1.2", "4.1.0", "4.1.1")
	several := newReleaseFiles("4.1.1", map[string]string{release.MetadataArchitecture: "multi"}, "4.1.0")
	amd64, arm64 := i.buildImage("amd64", several), i.buildImage("arm64", several)
	i.pushImages("4.1.1-multi", amd64, arm64)
	i.pushImages("4.1.1-multi-x86_64", amd64)
	i.pushImages("4.1.0-multi-x86_64", i.buildImage("amd64", newReleaseFiles("4.1.0", map[string]string{release.MetadataArchitecture: "multi"})))
	i.pushImages("4.1.0-s390x", i.buildImage("s390x", newReleaseFiles("4.1.0", nil)))
	// Broken images and tags do not fail the scan.
	i.pushImages("no-release", i.buildImage("amd64", map[string]string{"/etc/passwd": "x"}))
	i.pushImages("broken", i.buildImage("amd64", map[string]string{"/" + release.FileMetadata: "{", "/" + release.FileImages: "{}"}))
	i.pushImages("sha256-1234.sig", i.buildImage("amd64", nil))
	s := newScannedService(t, Options{Releases: i.repository, DataFolder: newDataFolder(t, map[string]string{"channels/stable.yaml": stable, "blocked-edges/a.yaml": issue})})
	for query, want := range map[string]string{
		"channel=stable-4.1":            "4.1.0 4.1.1 4.1.2 4.1.0>4.1.1 4.1.1>4.1.2 4.1.0?4.1.2:A",
		"channel=stable-4.1&arch=amd64": "4.1.0 4.1.1 4.1.2 4.1.0>4.1.1 4.1.1>4.1.2 4.1.0?4.1.2:A",
		"channel=stable-4.1&arch=multi": "4.1.0 4.1.1 4.1.0>4.1.1",
		"channel=stable-4.1&arch=s390x": "4.1.0",
		"channel=stable-4.1&arch=arm64": "",
		"channel=fast-4.1":              "",
	} {
		if got := describeGraph(t, s, query); got != want {
			t.Errorf("%s: got %q, want %q", query, got, want)
		}
	}

	// The same content is not read again. Only tags are resolved.
	before := i.requestCount()
	if err := s.Scan(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := i.requestCount(); after != before {
		t.Errorf("got %d requests of manifests and blobs by the second scan, want none", after-before)
	}

	text := scrapeMetrics(t, s)
	for _, want := range []string{
		"mainstay_update_service_releases 6", "mainstay_update_service_refused_images 2", `mainstay_update_service_source_failing{source="releases"} 0`,
		`mainstay_update_service_scans_total{result="success"} 2`, "graph_incoming_requests_total", "graph_serve_duration_seconds_count",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("got metrics without %q", want)
		}
	}
}

func scrapeMetrics(t *testing.T, s *Service) string {
	t.Helper()
	w := httptest.NewRecorder()
	s.StatusHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

// After a failure, the last valid graph is served.
func TestLastGoodGraph(t *testing.T) {
	i := newTestRegistry(t)
	i.pushRelease("4.1.0")
	i.pushRelease("4.1.1", "4.1.0")
	dir := newDataFolder(t, map[string]string{"channels/stable.yaml": stable})
	s := newService(t, Options{Releases: i.repository, DataFolder: dir})
	i.setFault(answerNotFound)
	if err := s.Scan(t.Context()); err == nil {
		t.Fatal("got no error of a scan without a registry, want one")
	}

	status := func(path string) int {
		w := httptest.NewRecorder()
		s.StatusHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code
	}
	if w := getPath(s, "/graph?channel=stable-4.1"); w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), kindNotYet) {
		t.Errorf("before the first graph: got %d %s, want 500 with %s", w.Code, w.Body, kindNotYet)
	}
	if status("/readyz") != http.StatusServiceUnavailable || status("/livez") != http.StatusOK {
		t.Error("want the service to be alive and not ready before the first graph")
	}

	i.setFault(nil)
	if err := s.Scan(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status("/readyz") != http.StatusOK || status("/readiness") != http.StatusOK {
		t.Error("want the service to be ready after the first graph")
	}

	const good = "4.1.0 4.1.1 4.1.0>4.1.1"
	for _, c := range []struct {
		what   string
		change func()
		fails  string
		want   string
	}{
		{"the registry is down", func() { i.setFault(answerNotFound) }, "releases", good},
		{"it responds, with one more release", func() { i.setFault(nil); i.pushRelease("4.1.2", "4.1.1") }, "", good[:12] + "4.1.2 4.1.0>4.1.1 4.1.1>4.1.2"},
		{"half a file", func() { writeData(t, dir, map[string]string{"blocked-edges/a.yaml": issue[:60]}) }, "graph-data", "4.1.0 4.1.1 4.1.2 4.1.0>4.1.1 4.1.1>4.1.2"},
		{"a later schema", func() {
			writeData(t, dir, map[string]string{"blocked-edges/a.yaml": "to: 4.1.2\nfrom: .*", "version": "1.9.0"})
		}, "graph-data", "4.1.0 4.1.1 4.1.2 4.1.0>4.1.1 4.1.1>4.1.2"},
		{"the whole file", func() { writeData(t, dir, map[string]string{"version": "1.2.0"}) }, "", "4.1.0 4.1.1 4.1.2 4.1.0>4.1.1"},
		{"no folder", func() { _ = os.RemoveAll(dir) }, "graph-data", "4.1.0 4.1.1 4.1.2 4.1.0>4.1.1"},
	} {
		c.change()
		err := s.Scan(t.Context())
		if (err != nil) != (c.fails != "") {
			t.Errorf("%s: got error %v, want failing source %q", c.what, err, c.fails)
		}
		if got := describeGraph(t, s, "channel=stable-4.1"); got != c.want {
			t.Errorf("%s: got the graph %q, want %q", c.what, got, c.want)
		}
		if c.fails != "" && !strings.Contains(scrapeMetrics(t, s), fmt.Sprintf(`mainstay_update_service_source_failing{source=%q} 1`, c.fails)) {
			t.Errorf("%s: got metrics without the failing source %s", c.what, c.fails)
		}
	}
}

// fakeVerifier accepts some digests.
type fakeVerifier map[string]bool

func (v fakeVerifier) Verify(_ context.Context, digest string) error {
	if v[digest] {
		return nil
	}
	return errors.New("unable to verify " + digest)
}

func TestSignatures(t *testing.T) {
	i := newTestRegistry(t)
	signed, unsigned := i.pushRelease("4.1.0"), i.pushRelease("4.1.1", "4.1.0")
	trusted := fakeVerifier{signed: true}
	s := newScannedService(t, Options{Releases: i.repository, Verifier: trusted, DataFolder: newDataFolder(t, map[string]string{"channels/stable.yaml": stable})})
	if got := describeGraph(t, s, "channel=stable-4.1"); got != "4.1.0" {
		t.Errorf("got the graph %q, want only the signed release 4.1.0", got)
	}

	trusted[unsigned] = true
	if err := s.Scan(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := describeGraph(t, s, "channel=stable-4.1"); got != "4.1.0 4.1.1 4.1.0>4.1.1" {
		t.Errorf("after the second release is signed: got the graph %q, want both releases", got)
	}
}

func TestDataImage(t *testing.T) {
	i := newTestRegistry(t)
	i.pushRelease("4.1.0")
	i.pushRelease("4.1.1", "4.1.0")
	ref := strings.Replace(i.repository, "release", "data", 1) + ":latest"
	push := func(files map[string]string) string {
		located := map[string]string{}
		for name, text := range files {
			located[DataPath+"/"+name] = text
		}

		digest, err := i.client.Push(t.Context(), ref, nil, i.buildImage("amd64", located))
		if err != nil {
			t.Fatal(err)
		}

		return digest
	}

	push(map[string]string{"version": "1.0.0", "channels/stable.yaml": stable})
	s := newScannedService(t, Options{Releases: i.repository, DataImage: ref})
	if got := describeGraph(t, s, "channel=stable-4.1"); got != "4.1.0 4.1.1 4.1.0>4.1.1" {
		t.Errorf("got the graph %q, want both releases with an edge", got)
	}

	push(map[string]string{"version": "1.0.0", "channels/stable.yaml": stable, "blocked-edges/a.yaml": "to: 4.1.1\nfrom: .*"})
	if err := s.Scan(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := describeGraph(t, s, "channel=stable-4.1"); got != "4.1.0 4.1.1" {
		t.Errorf("with a new image: got the graph %q, want both releases without an edge", got)
	}
	if _, err := New(Options{Releases: "r", DataImage: ref, DataFolder: "/data"}); err == nil {
		t.Error("got no error for both a folder and an image, want one")
	}

	for _, repository := range []string{"", "registry.example.com:5000/release:v1", "registry.example.com/release@sha256:1"} {
		if _, err := New(Options{Releases: repository}); err == nil {
			t.Errorf("repository %q: got no error, want one", repository)
		}
	}

	unsigned := newService(t, Options{Releases: i.repository, DataImage: ref, DataVerifier: fakeVerifier{}})
	if err := unsigned.Scan(t.Context()); err == nil || !strings.Contains(err.Error(), "is not signed") {
		t.Errorf("an unsigned image: got error %v, want that it is not signed", err)
	}
}

func TestProtocol(t *testing.T) {
	i := newTestRegistry(t)
	i.pushImages("4.1.0", i.buildImage("amd64", newReleaseFiles("4.1.0", map[string]string{cincinnati.MetadataChannels: "stable-4.1"})))
	s := newScannedService(t, Options{Releases: i.repository})
	for name, c := range map[string]struct {
		path   string
		header []string
		code   int
		body   string
	}{
		"no channel":          {"/graph", nil, 400, `{"kind":"missing_params","value":"mandatory client parameters missing: channel"}`},
		"upper case":          {"/graph?channel=Stable", nil, 400, `{"kind":"invalid_params","value":"invalid client parameters: channel 'Stable' does not match regex '^[0-9a-z\\-\\.]+$'"}`},
		"a slash":             {"/graph?channel=a/b", nil, 400, `{"kind":"invalid_params","value":"invalid client parameters: channel 'a/b' does not match regex '^[0-9a-z\\-\\.]+$'"}`},
		"an empty channel":    {"/graph?channel=", nil, 400, `{"kind":"invalid_params","value":"invalid client parameters: channel '' does not match regex '^[0-9a-z\\-\\.]+$'"}`},
		"no architecture":     {"/graph?channel=a&arch=x-y", nil, 400, `{"kind":"invalid_params","value":"invalid client parameters: arch 'x-y' does not match regex '^[0-9a-z]+$'"}`},
		"no query":            {"/graph?channel=%zz", nil, 400, `{"kind":"invalid_params","value":"invalid client parameters: they cannot be read"}`},
		"HTML":                {"/graph?channel=a", []string{"Accept", "text/html"}, 406, `{"kind":"invalid_content_type","value":"invalid Content-Type requested: graphs are application/json or application/vnd.redhat.cincinnati.v1+json"}`},
		"JSON not wanted":     {"/graph?channel=a", []string{"Accept", "application/json;q=0"}, 406, `{"kind":"invalid_content_type","value":"invalid Content-Type requested: graphs are application/json or application/vnd.redhat.cincinnati.v1+json"}`},
		"unknown path":        {"/v2/graph?channel=a", nil, 404, `{"kind":"does_not_exist","value":"/api/upgrades_info/v2/graph does not exist"}`},
		"unknown channel":     {"/v1/graph?channel=a&version=1.0.0&id=x&more=1", nil, 200, `{"version":1,"nodes":[],"edges":[],"conditionalEdges":[]}`},
		"everything accepted": {"/graph?channel=a", []string{"Accept", "text/html, */*;q=0.1"}, 200, `{"version":1,"nodes":[],"edges":[],"conditionalEdges":[]}`},
		"any application":     {"/graph?channel=a", []string{"Accept", "application/*"}, 200, `{"version":1,"nodes":[],"edges":[],"conditionalEdges":[]}`},
		"its own type":        {"/graph?channel=a", []string{"Accept", typeGraph}, 200, `{"version":1,"nodes":[],"edges":[],"conditionalEdges":[]}`},
	} {
		t.Run(name, func(t *testing.T) {
			w := getPath(s, c.path, c.header...)
			if diff := cmp.Diff(c.body, w.Body.String()); w.Code != c.code || diff != "" {
				t.Errorf("got status %d, want %d; body (-want +got):\n%s", w.Code, c.code, diff)
			}
			want := typeJSON
			if name == "its own type" {
				want = typeGraph
			}
			if got := w.Header(); got.Get("Content-Type") != want || got.Get("Access-Control-Allow-Origin") != "*" {
				t.Errorf("got headers %v, want type %s for any origin", got, want)
			}
		})
	}

	if text := scrapeMetrics(t, s); !strings.Contains(text, `graph_response_errors_total{code="400",kind="missing_params"} 1`) {
		t.Error("got metrics without the error of the missing parameter")
	}

	plain := getPath(s, "/graph?channel=stable-4.1")
	packed := getPath(s, "/graph?channel=stable-4.1", "Accept-Encoding", "br, gzip;q=0.5")
	r, err := gzip.NewReader(packed.Body)
	if err != nil {
		t.Fatal(err)
	}

	unpacked, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(unpacked, plain.Body.Bytes()) || packed.Header().Get("Content-Encoding") != "gzip" {
		t.Errorf("got a different body with gzip (error %v), want the same", err)
	}
	if w := getPath(s, "/graph?channel=stable-4.1", "Accept-Encoding", "gzip;q=0"); w.Header().Get("Content-Encoding") != "" {
		t.Error("got a compressed response although the client excludes gzip")
	}

	for _, tag := range []string{plain.Header().Get("ETag"), packed.Header().Get("ETag"), "W/" + plain.Header().Get("ETag"), `"x", ` + plain.Header().Get("ETag")} {
		if w := getPath(s, "/graph?channel=stable-4.1", "If-None-Match", tag); w.Code != http.StatusNotModified || w.Body.Len() > 0 {
			t.Errorf("with the tag %s: got status %d, want 304 without a body", tag, w.Code)
		}
	}

	if w := getPath(s, "/graph?channel=stable-4.1", "If-None-Match", `"x"`); w.Code != http.StatusOK {
		t.Errorf("with another tag: got status %d, want 200", w.Code)
	}

	for method, code := range map[string]int{http.MethodHead: 200, http.MethodPost: 405} {
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequest(method, "/api/upgrades_info/graph?channel=a", nil))
		if w.Code != code || method == http.MethodHead && w.Body.Len() > 0 {
			t.Errorf("%s: got %d %s, want status %d", method, w.Code, w.Body, code)
		}
	}
	var described bytes.Buffer
	if err := json.Indent(&described, getPath(s, "/openapi").Body.Bytes(), "", "  "); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "openapi.json", append(described.Bytes(), '\n'))
}

func TestRun(t *testing.T) {
	i := newTestRegistry(t)
	i.pushImages("4.1.0", i.buildImage("amd64", newReleaseFiles("4.1.0", map[string]string{cincinnati.MetadataChannels: "stable-4.1"})))
	authority := httptest.NewTLSServer(nil) // The server is only used for its certificate.
	defer authority.Close()
	s := newService(t, Options{
		Releases: i.repository, Address: "127.0.0.1:0", StatusAddress: "127.0.0.1:0",
		Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &authority.TLS.Certificates[0], nil },
	})
	ctx, cancel := context.WithCancel(t.Context())
	addresses := map[string]string{}
	listening := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- s.Run(ctx, func(name string, address net.Addr) {
			if addresses[name] = address.String(); len(addresses) == 2 {
				close(listening)
			}
		})
	}()

	<-listening
	if got := protocol.Negotiate(t, addresses["graphs"]); got != "" {
		t.Errorf("the server chose the protocol %q, want none, which is HTTP/1.1", got)
	}

	get := func(url string) int {
		resp, err := authority.Client().Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}

	for get("http://"+addresses["status"]+"/readyz") != http.StatusOK { // polls for a state
	}
	if code := get("https://" + addresses["graphs"] + "/api/upgrades_info/graph?channel=stable-4.1"); code != http.StatusOK {
		t.Errorf("got status %d, want 200", code)
	}
	if err := newService(t, Options{Releases: i.repository, Address: addresses["graphs"]}).Run(t.Context(), nil); err == nil {
		t.Error("got no error of a second service with the same address, want one")
	}

	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// startLimitedService runs a service of one release with limits until the test ends, and returns it with its address.
func startLimitedService(t *testing.T, limits httpserver.Limits) (*Service, string) {
	t.Helper()
	before := requestLimits
	requestLimits = limits
	t.Cleanup(func() { requestLimits = before })
	i := newTestRegistry(t)
	i.pushImages("4.1.0", i.buildImage("amd64", newReleaseFiles("4.1.0", map[string]string{cincinnati.MetadataChannels: "stable-4.1"})))
	s := newService(t, Options{Releases: i.repository, Address: "127.0.0.1:0"})

	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	listening, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- s.Run(ctx, func(_ string, address net.Addr) { listening <- address.String() }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})

	select {
	case address := <-listening:
		return s, address
	case err := <-ended:
		ended <- err
		t.Fatalf("the service ended before it listened: %v", err)
		return nil, ""
	}
}

// A client opens more connections than it may.
func TestClientLimits(t *testing.T) {
	s, address := startLimitedService(t, httpserver.Limits{Connections: 10, ClientConnections: 2, Requests: 10, ClientRequests: 2})
	rawhttp.ExpectConnectionLimit(t, address, "/api/upgrades_info/openapi", requestLimits.ClientConnections)
	if want := `mainstay_update_service_refused_requests_total{limit="client-connections"} 1`; !strings.Contains(scrapeMetrics(t, s), want) {
		t.Errorf("got metrics without %q", want)
	}
}

// The requests of a client wait for a graph that is being encoded, and the client sends one more.
func TestClientRequestLimits(t *testing.T) {
	s, address := startLimitedService(t, httpserver.Limits{Connections: 10, ClientConnections: 10, Requests: 10, ClientRequests: 2})
	poll.EventuallyTrue(t, "the service has a graph", func() bool { return s.current.Load() != nil }, nil)
	encoding := s.current.Load().responses[graphdata.Query{Channel: "stable-4.1", Architecture: "amd64"}]
	encoding.mu.Lock()
	type answer struct {
		status     int
		retryAfter string
	}
	get := func() answer {
		resp, err := http.Get("http://" + address + "/api/upgrades_info/graph?channel=stable-4.1")
		if err != nil {
			t.Error(err)
			return answer{}
		}
		defer resp.Body.Close()
		return answer{resp.StatusCode, resp.Header.Get("Retry-After")}
	}
	countServed := func() float64 {
		return testutil.ToFloat64(s.metrics.requests.WithLabelValues("/api/upgrades_info/graph"))
	}

	answers, beyond := make(chan answer, 2), make(chan answer, 1)
	for range requestLimits.ClientRequests {
		go func() { answers <- get() }()
	}
	poll.EventuallyTrue(t, "the requests wait", func() bool { return countServed() == 2 }, nil)

	go func() { beyond <- get() }()
	poll.EventuallyTrue(t, "one more request is rejected or served", func() bool { return len(beyond) > 0 || countServed() > 2 }, nil)
	if countServed() > 2 {
		t.Error("a request beyond the limit is served, want it rejected")
	} else if got, want := <-beyond, (answer{http.StatusTooManyRequests, httpserver.RetryAfterSeconds}); got != want {
		t.Errorf("beyond the limit: got %+v, want %+v", got, want)
	}
	if want := `mainstay_update_service_refused_requests_total{limit="client-requests"} 1`; !strings.Contains(scrapeMetrics(t, s), want) {
		t.Errorf("got metrics without %q", want)
	}

	encoding.mu.Unlock()
	for range requestLimits.ClientRequests {
		if got, want := <-answers, (answer{status: http.StatusOK}); got != want {
			t.Errorf("within the limit: got %+v, want %+v", got, want)
		}
	}
}

// Responses for a channel of 500 releases are served from the cache.
func BenchmarkServe(b *testing.B) {
	s := &Service{options: Options{Prefix: "/api/upgrades_info", Log: logr.Discard()}, metrics: newMetrics()}
	made, err := newSnapshot(manyReleases(500), nil)
	if err != nil {
		b.Fatal(err)
	}

	s.current.Store(made)
	handler := s.Handler()
	r := httptest.NewRequest(http.MethodGet, "/api/upgrades_info/graph?channel=stable&arch=amd64&id=7b8f3a3e-8a0e-4c7c-9a9f-0f2c6a3f1c11&version=4.1.0", nil)
	r.Header.Set("Accept", "application/json")
	r.Header.Set("Accept-Encoding", "gzip")
	b.ReportAllocs()
	for b.Loop() {
		w := httptest.NewRecorder()
		if handler.ServeHTTP(w, r); w.Code != http.StatusOK {
			b.Fatal(w.Code)
		}
	}
}

func manyReleases(count int) *graphdata.Graph {
	var all []graphdata.Release
	for i := range count {
		r := graphdata.Release{
			Version: fmt.Sprintf("4.1.%d", i), Architecture: "amd64", Payload: fmt.Sprintf("r@sha256:%064x", i),
			Metadata: map[string]string{cincinnati.MetadataChannels: "stable"},
		}
		for j := max(0, i-12); j < i; j++ {
			r.Previous = append(r.Previous, fmt.Sprintf("4.1.%d", j))
		}
		all = append(all, r)
	}

	made, _ := graphdata.Build(all, nil)
	return made
}

// A restarted service uses its cache.
func TestCache(t *testing.T) {
	i := newTestRegistry(t)
	i.pushRelease("4.1.0")
	i.pushRelease("4.1.1", "4.1.0")
	i.pushImages("no-release", i.buildImage("amd64", map[string]string{"/etc/passwd": "x"}))
	dir := t.TempDir()
	o := Options{Releases: i.repository, CacheDir: dir, DataFolder: newDataFolder(t, map[string]string{"channels/stable.yaml": stable})}
	const want = "4.1.0 4.1.1 4.1.0>4.1.1"
	blobs := func(what string, reads bool) {
		t.Helper()
		before := i.requestCount()
		if got := describeGraph(t, newScannedService(t, o), "channel=stable-4.1"); got != want {
			t.Errorf("%s: got the graph %q, want %q", what, got, want)
		}
		if read := i.requestCount() > before; read != reads {
			t.Errorf("%s: got requests of images %v, want %v", what, read, reads)
		}
	}

	blobs("at first", true)
	blobs("after a restart", false)
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}

	for what, text := range map[string]string{"half a file": `{"version":1,"images":{"sha256`, "another version": `{"version":99,"images":{}}`} {
		if err := os.WriteFile(files[0], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		blobs(what, true)
		blobs("after "+what, false)
	}

	o.CacheDir = filepath.Join(files[0], "not-a-folder")
	blobs("a folder that cannot be made", true)
}
