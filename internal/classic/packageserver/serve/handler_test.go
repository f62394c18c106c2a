package serve_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	clocktesting "k8s.io/utils/clock/testing"

	packagesv1 "github.com/mainstay-dev/mainstay/api/packages/v1"
	"github.com/mainstay-dev/mainstay/internal/classic/packageserver/index"
	"github.com/mainstay-dev/mainstay/internal/classic/packageserver/serve"
	"github.com/mainstay-dev/mainstay/internal/testing/golden"
)

const base = "/apis/packages.operators.coreos.com/v1"

// writeTimeout bounds every wait of a test: an event that has not arrived by then never will.
const writeTimeout = 30 * time.Second

var made = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// server serves an index to every user in the header X-User except "nobody".
func server(t testing.TB, i *index.Index, change ...func(*serve.Handler)) *httptest.Server {
	t.Helper()
	h := &serve.Handler{
		Index: i, Global: "global", Log: logr.Discard(), AlwaysAllow: []string{"/healthz", "/readyz", "/open/*"},
		Clock: clocktesting.NewFakePassiveClock(made.Add(49 * time.Hour)),
		Authenticator: authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
			name := r.Header.Get("X-User")
			switch name {
			case "none":
				return nil, false, nil
			case "broken":
				return nil, false, errors.New("the token is broken")
			}
			return &authenticator.Response{User: &user.DefaultInfo{Name: name}}, true, nil
		}),
		Authorizer: authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
			switch a.GetUser().GetName() {
			case "nobody":
				return authorizer.DecisionNoOpinion, "no rule", nil
			case "unlucky":
				return authorizer.DecisionNoOpinion, "", errors.New("the cluster does not answer")
			}
			return authorizer.DecisionAllow, "", nil
		}),
	}

	for _, f := range change {
		f(h)
	}

	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func catalog(namespace, name string) index.Catalog {
	return index.Catalog{Key: types.NamespacedName{Namespace: namespace, Name: name}, DisplayName: "The " + name, Created: made}
}

func pack(t testing.TB, name string, icon index.Icon) *index.Package {
	t.Helper()
	icon.ETag = index.ETag(name, "stable", name+".v1")
	p, err := index.NewPacker().Pack(&packagesv1.PackageStatus{
		PackageName: name, DefaultChannel: "stable",
		Channels: []packagesv1.PackageChannel{{Name: "stable", CurrentCSV: name + ".v1", Entries: []packagesv1.ChannelEntry{{Name: name + ".v1", Version: "1.0.0"}}}},
	}, map[string]string{"provider": "Someone"}, icon)
	if err != nil {
		t.Fatal(err)
	}

	return p
}

// fruits is an index with two catalogs.
func fruits(t testing.TB) *index.Index {
	t.Helper()
	i := index.New()
	i.Set(catalog("ns", "mine"), []*index.Package{pack(t, "apple", index.Icon{MediaType: "image/svg+xml", Data: []byte("<svg/>")}), pack(t, "pear", index.Icon{})})
	i.Set(catalog("global", "all"), []*index.Package{pack(t, "apple", index.Icon{})})
	return i
}

// ask sends a request with headers in the form NAME: VALUE.
func ask(t testing.TB, s *httptest.Server, method, path string, headers ...string) (*http.Response, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(context.Background(), method, s.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}

	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		request.Header.Set(name, value)
	}

	answer, err := (&http.Transport{DisableCompression: true}).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}

	return answer, string(body)
}

const (
	table    = "Accept: application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
	metadata = "Accept: application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
)

// The exact responses to clients.
func TestAnswers(t *testing.T) {
	s := server(t, fruits(t))
	snapshot, _ := fruits(t).Snapshot()
	for name, of := range map[string]struct {
		path    string
		headers []string
	}{
		"list":               {path: base + "/namespaces/ns/packagemanifests"},
		"list of all":        {path: base + "/packagemanifests?limit=1"},
		"list of none":       {path: base + "/namespaces/none/packagemanifests?labelSelector=catalog%3Dmine"},
		"table":              {path: base + "/namespaces/ns/packagemanifests", headers: []string{table}},
		"table with objects": {path: base + "/namespaces/global/packagemanifests?includeObject=Object", headers: []string{table}},
		"table, rows alone":  {path: base + "/namespaces/ns/packagemanifests?includeObject=None", headers: []string{table}},
		"metadata":           {path: base + "/namespaces/global/packagemanifests", headers: []string{metadata}},
		"get":                {path: base + "/namespaces/ns/packagemanifests/apple"},
		"get as a table":     {path: base + "/namespaces/ns/packagemanifests/apple", headers: []string{table}},
		"get the metadata":   {path: base + "/namespaces/ns/packagemanifests/apple", headers: []string{"Accept: application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}},
		"groups":             {path: "/apis"},
		"group":              {path: "/apis/packages.operators.coreos.com"},
		"resources":          {path: base},
	} {
		answer, body := ask(t, s, http.MethodGet, of.path, of.headers...)
		if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %s", name, answer.StatusCode, answer.Header.Get("Content-Type"))
		}

		var content any
		if err := json.Unmarshal([]byte(body), &content); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, body)
		}

		text, err := json.MarshalIndent(content, "", "  ")
		if err != nil {
			t.Fatal(err)
		}

		golden.Check(t, strings.NewReplacer(" ", "-", ",", "").Replace(name)+".json", []byte(strings.ReplaceAll(string(text), snapshot.Version(), "VERSION")+"\n"))
	}
}

func TestErrors(t *testing.T) {
	ready := errors.New("catalog ns/mine has not been read yet")
	s := server(t, fruits(t), func(h *serve.Handler) { h.Ready = func() error { return ready } })
	for name, of := range map[string]struct {
		method, path string
		headers      []string
		code         int
		want         string
	}{
		"no such package":        {path: base + "/namespaces/ns/packagemanifests/fig", code: 404, want: `packagemanifests.packages.operators.coreos.com "fig" not found`},
		"no such resource":       {path: base + "/namespaces/ns/figs", code: 404, want: "could not find the requested resource"},
		"no such version":        {path: "/apis/packages.operators.coreos.com/v2/packagemanifests", code: 404, want: "could not find"},
		"no such subresource":    {path: base + "/namespaces/ns/packagemanifests/apple/status", code: 404, want: "could not find"},
		"below the icon":         {path: base + "/namespaces/ns/packagemanifests/apple/icon/x", code: 404, want: "could not find"},
		"without a namespace":    {path: base + "/packagemanifests/apple", code: 404, want: "could not find"},
		"icon of no package":     {path: base + "/namespaces/ns/packagemanifests/fig/icon", code: 404, want: `"fig" not found`},
		"a field":                {path: base + "/packagemanifests?fieldSelector=spec.x%3Dy", code: 400, want: "field label not supported: spec.x"},
		"an invalid field":       {path: base + "/packagemanifests?fieldSelector=x", code: 400, want: "invalid selector"},
		"an invalid label":       {path: base + "/packagemanifests?labelSelector=%3D%3D", code: 400, want: "found '=='"},
		"an old watch":           {path: base + "/packagemanifests?watch=1&resourceVersion=17", code: 410, want: "list again"},
		"an unsupported watch":   {path: base + "/packagemanifests?watch=1&sendInitialEvents=true", code: 400, want: "resourceVersionMatch"},
		"a create":               {method: http.MethodPost, path: base + "/namespaces/ns/packagemanifests", code: 405, want: "create is not supported"},
		"a delete":               {method: http.MethodDelete, path: base + "/namespaces/ns/packagemanifests/apple", code: 405, want: "delete is not supported"},
		"a post to another path": {method: http.MethodPost, path: "/openapi/v2", code: 405, want: "only GET"},
		"another form":           {path: base + "/packagemanifests", headers: []string{"Accept: application/vnd.kubernetes.protobuf"}, code: 406, want: "application/json"},
		"an invalid table":       {path: base + "/packagemanifests?includeObject=Most", code: 400, want: "includeObject"},
		"a path":                 {path: "/metrics", code: 404, want: "could not find"},
		"an unknown user":        {path: base, headers: []string{"X-User: none"}, code: 401, want: "Unauthorized"},
		"an invalid token":       {path: base, headers: []string{"X-User: broken"}, code: 401, want: "Unauthorized"},
		"not permitted":          {path: base + "/namespaces/ns/packagemanifests/apple/icon", headers: []string{"X-User: nobody"}, code: 403, want: `User "nobody" cannot get resource "packagemanifests/icon" in API group "packages.operators.coreos.com" in the namespace "ns": no rule`},
		"a path, not permitted":  {path: "/apis", headers: []string{"X-User: nobody"}, code: 403, want: `User "nobody" cannot get path "/apis"`},
		"no authentication":      {path: base, headers: []string{"X-User: unlucky"}, code: 500, want: "the cluster does not answer"},
		"it is not ready":        {path: "/readyz", headers: []string{"X-User: none"}, code: 503, want: "not been read yet"},
		"health":                 {path: "/healthz", headers: []string{"X-User: none"}, code: 200, want: "ok"},
		"a similar path":         {path: "/open/door", headers: []string{"X-User: none"}, code: 404, want: "could not find"},
	} {
		method := of.method
		if method == "" {
			method = http.MethodGet
		}

		answer, body := ask(t, s, method, of.path, of.headers...)
		if answer.StatusCode != of.code || !strings.Contains(body, strings.Trim(fmt.Sprintf("%q", of.want), `"`)) {
			t.Errorf("%s: %d %s", name, answer.StatusCode, body)
		}
		if of.code == 200 {
			continue
		}

		var s metav1.Status
		if err := json.Unmarshal([]byte(body), &s); err != nil || s.Kind != "Status" || s.Code != int32(of.code) || s.Reason == "" {
			t.Errorf("%s: %v %+v", name, err, s)
		}
	}

	ready = nil
	if answer, body := ask(t, s, http.MethodGet, "/readyz"); answer.StatusCode != http.StatusOK {
		t.Errorf("once it is ready: got %d %s", answer.StatusCode, body)
	}
}

func TestIcon(t *testing.T) {
	i := fruits(t)
	i.Set(catalog("ns", "odd"), []*index.Package{
		pack(t, "page", index.Icon{MediaType: "text/html", Data: []byte("<html><script>alert(1)</script>")}),
		pack(t, "png", index.Icon{MediaType: "base64", Data: []byte("\x89PNG\r\n\x1a\n")}),
	})
	s := server(t, i)
	path := base + "/namespaces/ns/packagemanifests/"
	for name, of := range map[string]struct {
		path    string
		headers []string
		code    int
		media   string
		body    string
	}{
		"a picture":                    {"apple/icon", nil, 200, "image/svg+xml", "<svg/>"},
		"none":                         {"pear/icon", nil, 200, "image/svg+xml", "viewBox"},
		"not an image":                 {"page/icon", nil, 200, "image/svg+xml", "viewBox"},
		"another type":                 {"png/icon", nil, 200, "image/png", "PNG"},
		"a matching ETag":              {"apple/icon?resourceVersion=7", []string{`If-None-Match: "apple.stable.apple.v1"`}, 304, "", ""},
		"a matching ETag among others": {"apple/icon?resourceVersion=7", []string{`If-None-Match: "x", "apple.stable.apple.v1"`}, 304, "", ""},
		"a matching ETag, no version":  {"apple/icon", []string{`If-None-Match: "apple.stable.apple.v1"`}, 200, "image/svg+xml", "<svg/>"},
		"another ETag":                 {"apple/icon?resourceVersion=7", []string{`If-None-Match: "apple.stable.apple.v0"`}, 200, "image/svg+xml", "<svg/>"},
	} {
		answer, body := ask(t, s, http.MethodGet, path+of.path, of.headers...)
		if answer.StatusCode != of.code || answer.Header.Get("Content-Type") != of.media || !strings.Contains(body, of.body) {
			t.Errorf("%s: %d %s %q", name, answer.StatusCode, answer.Header.Get("Content-Type"), body)
		}
		if !strings.Contains(answer.Header.Get("Content-Security-Policy"), "sandbox") || answer.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: got the headers %v, with which a browser runs scripts", name, answer.Header)
		}
	}

	answer, _ := ask(t, s, http.MethodGet, path+"apple/icon")
	if got := answer.Header.Get("Etag"); got != `"apple.stable.apple.v1"` {
		t.Errorf("got the ETag %s", got)
	}
}

// A long response is compressed for clients that accept it.
func TestCompression(t *testing.T) {
	i := index.New()
	var many []*index.Package
	for n := range 400 {
		many = append(many, pack(t, fmt.Sprintf("p%03d", n), index.Icon{}))
	}

	i.Set(catalog("ns", "mine"), many)
	s := server(t, i)
	path := base + "/packagemanifests"
	_, plain := ask(t, s, http.MethodGet, path, "Accept-Encoding: gzip;q=0")
	answer, packed := ask(t, s, http.MethodGet, path, "Accept-Encoding: gzip")
	if answer.Header.Get("Content-Encoding") != "gzip" || len(packed) > len(plain)/4 {
		t.Fatalf("got %d bytes in encoding %q of %d", len(packed), answer.Header.Get("Content-Encoding"), len(plain))
	}

	reader, err := gzip.NewReader(strings.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}

	unpacked, err := io.ReadAll(reader)
	if err != nil || string(unpacked) != plain {
		t.Errorf("got another text in compressed form: %v", err)
	}

	var list packagesv1.PackageManifestList
	if err := json.Unmarshal(unpacked, &list); err != nil || len(list.Items) != 400 {
		t.Errorf("%d items: %v", len(list.Items), err)
	}
	if answer, _ := ask(t, s, http.MethodGet, path+"?fieldSelector=metadata.name%3Dp001", "Accept-Encoding: gzip"); answer.Header.Get("Content-Encoding") != "" {
		t.Error("a short response is compressed")
	}
}

func TestOpenAPI(t *testing.T) {
	s := server(t, index.New())
	_, discovered := ask(t, s, http.MethodGet, "/openapi/v3")
	var paths struct {
		Paths map[string]struct {
			ServerRelativeURL string `json:"serverRelativeURL"`
		} `json:"paths"`
	}
	if err := json.Unmarshal([]byte(discovered), &paths); err != nil {
		t.Fatal(err)
	}

	for name, path := range map[string]string{"2": "/openapi/v2", "3": paths.Paths["apis/packages.operators.coreos.com/v1"].ServerRelativeURL} {
		answer, body := ask(t, s, http.MethodGet, path)
		for _, want := range []string{base + "/namespaces/{namespace}/packagemanifests", "x-kubernetes-group-version-kind", "currentCSVDesc", "channels of the package, sorted by name"} {
			if !strings.Contains(body, want) {
				t.Errorf("version %s of %s: got no %q", name, path, want)
			}
		}
		if again, _ := ask(t, s, http.MethodGet, path, "If-None-Match: "+answer.Header.Get("Etag")); again.StatusCode != http.StatusNotModified {
			t.Errorf("version %s: got status %d for the same version, want 304", name, again.StatusCode)
		}
	}
}

// watcher reads the events of a watch.
type watcher struct {
	t     *testing.T
	lines chan string
}

func watch(t *testing.T, s *httptest.Server, query string, headers ...string) *watcher {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+base+"/namespaces/ns/packagemanifests?watch=true&"+query, nil)
	if err != nil {
		t.Fatal(err)
	}

	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		request.Header.Set(name, value)
	}

	answer, err := s.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("got the status %s for the watch", answer.Status)
	}

	w := &watcher{t: t, lines: make(chan string)}
	go func() {
		defer close(w.lines)
		defer answer.Body.Close()
		lines := bufio.NewScanner(answer.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			select {
			case w.lines <- lines.Text():
			case <-t.Context().Done():
				return
			}
		}
	}()

	return w
}

// next reads an event, as TYPE CATALOG/NAME VERSION.
func (w *watcher) next() string {
	w.t.Helper()
	select {
	case line, ok := <-w.lines:
		if !ok {
			return "end"
		}
		var event struct {
			Type   string `json:"type"`
			Object struct {
				Kind     string            `json:"kind"`
				Metadata metav1.ObjectMeta `json:"metadata"`
				Rows     []struct {
					Object metav1.PartialObjectMetadata `json:"object"`
				} `json:"rows"`
			} `json:"object"`
		}
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			w.t.Fatalf("%v: %s", err, line)
		}
		object := event.Object.Metadata
		if event.Object.Kind == "Table" {
			object = event.Object.Rows[0].Object.ObjectMeta
		}
		if event.Type == "BOOKMARK" {
			return strings.TrimSpace("BOOKMARK " + object.ResourceVersion + " " + object.Annotations[metav1.InitialEventsAnnotationKey])
		}
		return event.Type + " " + object.Labels["catalog"] + "/" + object.Name + " " + object.ResourceVersion
	case <-time.After(writeTimeout):
		w.t.Fatal("timed out waiting for an event")
		return ""
	}
}

func (w *watcher) want(events ...string) {
	w.t.Helper()
	var got []string
	for range events {
		got = append(got, w.next())
	}

	if diff := cmp.Diff(events, got); diff != "" {
		w.t.Errorf("events (-want +got):\n%s", diff)
	}
}

func version(i *index.Index) string {
	s, _ := i.Snapshot()
	return s.Version()
}

// A watch begins after its list, or with all packages. Of changes that occur together only
// the last has the new version: a client that reconnects with an earlier one lists again.
func TestWatch(t *testing.T) {
	i := fruits(t)
	s := server(t, i)
	first := version(i)
	from := watch(t, s, "resourceVersion="+first)
	whole := watch(t, s, "resourceVersion=0&fieldSelector=metadata.name%3Dapple", table)
	whole.want("ADDED mine/apple "+first, "ADDED all/apple "+first)
	streamed := watch(t, s, "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&labelSelector=catalog%3Dall")
	streamed.want("ADDED all/apple "+first, "BOOKMARK "+first+" true")

	i.Set(catalog("ns", "mine"), []*index.Package{pack(t, "fig", index.Icon{}), pack(t, "pear", index.Icon{Data: []byte("new")})})
	second := version(i)
	from.want("DELETED mine/apple "+first, "ADDED mine/fig "+first, "MODIFIED mine/pear "+second)
	whole.want("DELETED mine/apple " + second)
	streamed.want("BOOKMARK " + second)

	i.Set(catalog("elsewhere", "other"), []*index.Package{pack(t, "kiwi", index.Icon{})})
	i.Remove(types.NamespacedName{Namespace: "global", Name: "all"})
	from.want("DELETED all/apple " + version(i))
	whole.want("DELETED all/apple " + version(i))
}

// A watch ends after the requested timeout.
func TestWatchTimeout(t *testing.T) {
	i := fruits(t)
	s := server(t, i)
	watch(t, s, "timeoutSeconds=1&resourceVersion="+version(i)).want("end")
}
