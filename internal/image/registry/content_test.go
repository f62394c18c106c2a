package registry

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// proxy is the proxy in the environment of all tests. It forwards every request to the
// registry of the test that uses it.
var proxy struct {
	connects atomic.Pointer[[]string]
	target   atomic.Pointer[string]
}

// TestMain sets a proxy, because net/http reads the environment only once. The proxy is not
// used for this machine's addresses, so that it affects only one test.
func TestMain(m *testing.M) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen := append(*proxy.connects.Load(), r.Method+" "+r.Host+" "+r.Header.Get("Proxy-Authorization"))
		proxy.connects.Store(&seen)
		target, err := net.Dial("tcp", *proxy.target.Load())
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}

		conn, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			_ = target.Close()
			return
		}

		fmt.Fprint(conn, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(target, buffered); _ = target.Close() }()
		go func() { _, _ = io.Copy(conn, target); _ = conn.Close() }()
	}))

	for name, value := range map[string]string{
		"HTTPS_PROXY": strings.Replace(server.URL, "//", "//user:pr0xy@", 1), "HTTP_PROXY": server.URL,
		"NO_PROXY": "direct.invalid",
	} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}

	code := m.Run()
	server.Close()
	os.Exit(code)
}

func TestProxy(t *testing.T) {
	server := serve(t, true, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Docker-Content-Digest", someDigest.String())
	})
	address := strings.TrimPrefix(server.URL, "https://")
	proxy.target.Store(&address)
	proxy.connects.Store(&[]string{})
	ask := func(host string) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()

		_, err := sessionTo(t, server, func(o *Options) { o.Host, o.SingleAttempt = host, true }).Digest(ctx, "v1")
		return err
	}
	if err := ask("example.com"); err != nil {
		t.Errorf("through the proxy: got error %v, want none", err)
	}
	if err := ask("direct.invalid"); err == nil {
		t.Error("got no error for a registry that does not exist, want one")
	}
	if err := ask(address); err != nil {
		t.Errorf("this machine: got error %v, want none", err)
	}

	want := []string{"CONNECT example.com:443 Basic dXNlcjpwcjB4eQ=="}
	if diff := cmp.Diff(want, *proxy.connects.Load()); diff != "" {
		t.Errorf("requests to the proxy (-want +got):\n%s", diff)
	}
}

func TestManifest(t *testing.T) {
	const ok = http.StatusOK
	long := strings.Repeat(" ", MaxManifest)
	tests := map[string]struct {
		answer    http.HandlerFunc
		want      string
		mediaType string
		err       []string
	}{
		"good":               {answer: respondWith(ok, imgspecv1.MediaTypeImageManifest, "{}"), want: "{}", mediaType: imgspecv1.MediaTypeImageManifest},
		"a type with more":   {answer: respondWith(ok, imgspecv1.MediaTypeImageManifest+"; charset=utf-8", "{}"), want: "{}", mediaType: imgspecv1.MediaTypeImageManifest},
		"no type":            {answer: respondWith(ok, "", "{}"), want: "{}"},
		"an invalid type":    {answer: respondWith(ok, "//;;", "{}"), want: "{}"},
		"the maximum length": {answer: respondWith(ok, "", long), want: long},
		"longer":             {answer: respondWith(ok, "", long+" "), err: []string{"read the manifest v1: the manifest v1 has more than 4194304 bytes"}},
		"endless":            {answer: serveEndlessly(ok), err: []string{"has more than 4194304 bytes"}},
		"cut off":            {answer: respondTruncated(100, "half"), err: []string{"read the manifest v1", "unexpected EOF"}},
		"endless error":      {answer: serveEndlessly(http.StatusNotFound), err: []string{"404 Not Found"}},
		"endless head": {answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", maxResponseHeaderBytes+4096))
		}, err: []string{"server response headers exceeded"}},
		"an error of the protocol": {
			answer: respondWith(http.StatusNotFound, "application/json", `{"errors":[{"code":"MANIFEST_UNKNOWN","message":"no such\ntag"},{"code":"OTHER"}]}`),
			err:    []string{"404 Not Found (MANIFEST_UNKNOWN: no such tag)"},
		},
		"an error of another form": {answer: respondWith(http.StatusTooManyRequests, "application/json", `{"details":"slow down"}`), err: []string{"429 Too Many Requests (slow down)"}},
		"a long error":             {answer: respondWith(http.StatusForbidden, "", `{"errors":[{"code":"DENIED","message":"`+strings.Repeat("é", 4096)+`"}]}`), err: []string{"é…)"}},
		"a page":                   {answer: respondWith(http.StatusForbidden, "text/html", "<html>secret"), err: []string{"read the manifest v1: the registry answered 403 Forbidden"}},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			session := sessionTo(t, serve(t, true, test.answer), nil)
			data, mediaType, err := session.Manifest(t.Context(), "v1")
			if test.err != nil {
				wantText(t, err, test.err...)
				if len(err.Error()) > 1024 || strings.Contains(err.Error(), "secret") {
					t.Errorf("got error %v, want a short one without the secret", err)
				}
				return
			}
			if err != nil || string(data) != test.want || mediaType != test.mediaType {
				t.Errorf("got %d bytes of type %q (error %v), want %d of %q", len(data), mediaType, err, len(test.want), test.mediaType)
			}
		})
	}
}

func respondWith(status int, mediaType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = []string{mediaType}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

// respondTruncated sends less than its Content-Length.
func respondTruncated(said int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(said))
		fmt.Fprint(w, body)
	}
}

func TestDigest(t *testing.T) {
	for header, want := range map[string]error{someDigest.String(): nil, "": ErrNoDigest, "sha256:12": ErrNoDigest, "../x": ErrNoDigest} {
		server := serve(t, true, func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodHead || r.URL.Path != "/v2/org/name/manifests/v1" || len(r.Header["Accept"]) < 4 {
				t.Errorf("got request %s %s for %v, want HEAD of the manifest with at least 4 types", r.Method, r.URL, r.Header["Accept"])
			}
			w.Header().Set("Docker-Content-Digest", header)
		})
		if _, err := sessionTo(t, server, nil).Digest(t.Context(), "v1"); !errors.Is(err, want) {
			t.Errorf("%q: got %v, want %v", header, err, want)
		}
	}
}

func TestBlob(t *testing.T) {
	const content = "0123456789"
	tests := map[string]struct {
		offset     int64
		answer     http.HandlerFunc
		want       string
		wantOffset int64
		wantSize   int64
		err        string
	}{
		"whole":                {answer: respondWith(200, "", content), want: content, wantSize: 10},
		"rest":                 {offset: 4, answer: respondPartially("bytes 4-9/10", content[4:]), want: content[4:], wantOffset: 4, wantSize: 10},
		"rest, unknown size":   {offset: 4, answer: respondPartially("bytes 4-9/*", content[4:]), want: content[4:], wantOffset: 4, wantSize: -1},
		"ranges not supported": {offset: 4, answer: respondWith(200, "", content), want: content, wantSize: 10},
		"the wrong rest":       {offset: 4, answer: respondPartially("bytes 3-9/10", content[3:]), err: `asked for what follows byte 4, the registry gives "bytes 3-9/10"`},
		"not all of the rest":  {offset: 4, answer: respondPartially("bytes 4-8/10", content[4:9]), err: "asked for what follows byte 4"},
		"an unrequested range": {answer: respondPartially("bytes 0-9/10", content), err: "206"},
		"range rejected": {offset: 4, want: content, wantSize: 10, answer: func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Range") != "" {
				w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
				return
			}
			respondWith(200, "", content)(w, r)
		}},
		"always refused":      {offset: 4, answer: respondWith(http.StatusRequestedRangeNotSatisfiable, "", ""), err: "416"},
		"missing":             {answer: respondWith(404, "", `{"errors":[{"code":"BLOB_UNKNOWN"}]}`), err: "404 Not Found (BLOB_UNKNOWN)"},
		"an endless response": {answer: serveEndlessly(404), err: "404"},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			session := sessionTo(t, serve(t, true, test.answer), nil)
			blob, err := session.Blob(t.Context(), someDigest, test.offset)
			if test.err != "" {
				wantText(t, err, "read the blob "+someDigest.String(), test.err)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = blob.Body.Close() }()

			data, err := io.ReadAll(blob.Body)
			if err != nil || string(data) != test.want || blob.Offset != test.wantOffset || blob.Size != test.wantSize {
				t.Errorf("got %q at %d of %d (error %v), want %q at %d of %d", data, blob.Offset, blob.Size, err, test.want, test.wantOffset, test.wantSize)
			}
		})
	}
}

func respondPartially(contentRange, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Range", contentRange)
		w.WriteHeader(http.StatusPartialContent)
		fmt.Fprint(w, body)
	}
}

// TestNothingIsDecompressed checks that a compressed response is not decompressed. It could
// be a decompression bomb, and its digest would differ.
func TestNothingIsDecompressed(t *testing.T) {
	server := serve(t, true, func(w http.ResponseWriter, r *http.Request) {
		if accepted := r.Header.Get("Accept-Encoding"); accepted != "" {
			t.Errorf("got Accept-Encoding %q, want none", accepted)
		}
		w.Header().Set("Content-Encoding", "gzip")
		fmt.Fprint(w, "as it is")
	})

	data, _, err := sessionTo(t, server, nil).Manifest(t.Context(), "v1")
	if err != nil || string(data) != "as it is" {
		t.Errorf("got %q (%v)", data, err)
	}
}

// TestResponseTimeout checks that a registry may be slow to respond, but not without limit.
func TestResponseTimeout(t *testing.T) {
	for _, secure := range []bool{true, false} {
		server := serve(t, secure, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		session := sessionTo(t, server, func(o *Options) { o.ResponseTimeout = 20 * time.Millisecond; o.SingleAttempt = true })
		_, _, err := session.Manifest(t.Context(), "v1")
		wantText(t, err, "timeout awaiting response headers")
	}
}

// TestNoHTTP checks that a response that is not HTTP, or ends at once, is a transient
// network error.
func TestNoHTTP(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for i := 0; ; i++ {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if i%2 == 0 {
				fmt.Fprint(conn, "SSH-2.0-OpenSSH\r\n")
				_, _ = bufio.NewReader(conn).ReadString('\n')
			}
			_ = conn.Close()
		}
	}()

	shared, clock := newTestShared()
	session := NewSession(Options{Host: listener.Addr().String(), Repository: repository, Insecure: true, Shared: shared})
	defer session.Close()
	if _, _, err := session.Manifest(t.Context(), "v1"); err == nil {
		t.Error("got no error for a server without HTTP, want one")
	}
	if len(clock.slept) > maxAttempts {
		t.Errorf("got %d retries, want at most %d", len(clock.slept), maxAttempts)
	}
}

func TestIPv6(t *testing.T) {
	listener, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skipf("this machine has no IPv6: %v", err)
	}

	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Docker-Content-Digest", someDigest.String())
	}))
	_ = server.Listener.Close()
	server.Listener = listener
	server.StartTLS()
	t.Cleanup(server.Close)
	if found, err := sessionTo(t, server, nil).Digest(t.Context(), "v1"); err != nil || found != someDigest {
		t.Errorf("got %s (error %v), want %s", found, err, someDigest)
	}
}

func TestUpload(t *testing.T) {
	const content = "content"
	tests := map[string]struct {
		location func(registry, storage string) string
		login    string // the login that arrives with the content; empty for none
		err      string
	}{
		"a path":              {location: func(string, string) string { return "/v2/org/name/blobs/uploads/1?_state=a%2Bb%3D%3D" }, login: "robot"},
		"an address":          {location: func(registry, _ string) string { return registry + "/v2/org/name/blobs/uploads/1" }, login: "robot"},
		"without its TLS":     {location: func(registry, _ string) string { return strings.Replace(registry, "https:", "http:", 1) + "/v2/1" }, login: "robot"},
		"a storage elsewhere": {location: func(_, storage string) string { return storage + "/bucket?signature=x" }},
		"a storage with none": {location: func(_, storage string) string { return strings.Replace(storage, "https:", "http:", 1) }, err: "over http:, which is not encrypted"},
		"nothing":             {location: func(string, string) string { return "" }, err: "does not say where to send it"},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var query atomic.Pointer[url.Values]
			receive := func(w http.ResponseWriter, r *http.Request) {
				user, _, _ := r.BasicAuth()
				data, err := io.ReadAll(r.Body)
				if err != nil || string(data) != content || user != test.login {
					t.Errorf("got content %q of user %q (error %v), want %q of %q", data, user, err, content, test.login)
				}

				values := r.URL.Query()
				query.Store(&values)
				w.WriteHeader(http.StatusCreated)
			}

			storage := serve(t, true, receive)
			var server *httptest.Server
			server = serve(t, true, func(w http.ResponseWriter, r *http.Request) {
				if user, _, _ := r.BasicAuth(); user == "" {
					w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
					w.WriteHeader(http.StatusUnauthorized)
					return
				}
				if r.Method == http.MethodPost {
					w.Header().Set("Location", test.location(server.URL, storage.URL))
					w.WriteHeader(http.StatusAccepted)
					return
				}
				receive(w, r)
			})

			session := sessionTo(t, server, func(o *Options) { o.Login, o.Push = robot, true })
			var sent []int64
			open := func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(content)), nil }
			err := session.PutBlob(t.Context(), someDigest, int64(len(content)), open, func(n int64) { sent = append(sent, n) })
			if test.err != "" {
				wantText(t, err, test.err)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := query.Load().Get("digest"); got != someDigest.String() {
				t.Errorf("got digest %q in the request, want %s", got, someDigest)
			}
			if name == "a path" && query.Load().Get("_state") != "a+b==" {
				t.Errorf("got state %q in the request, want a+b==", query.Load().Get("_state"))
			}
			if diff := cmp.Diff([]int64{int64(len(content))}, sent); diff != "" {
				t.Errorf("reported bytes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUploadIsRetried checks that a failed upload is sent again from the start.
func TestUploadIsRetried(t *testing.T) {
	var failed atomic.Bool
	server := serve(t, true, func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		switch {
		case r.Method == http.MethodPut && failed.CompareAndSwap(false, true):
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.Method == http.MethodPut && string(data) != "content":
			t.Errorf("got content %q in the retry, want all of it", data)
		default:
			w.WriteHeader(http.StatusCreated)
		}
	})

	session := sessionTo(t, server, nil)
	if err := session.PutManifest(t.Context(), "v1", imgspecv1.MediaTypeImageManifest, []byte("content")); err != nil {
		t.Error(err)
	}
}

func FuzzAnswers(f *testing.F) {
	f.Add("bytes 4-9/10", `Bearer realm="https://a/b",scope="x"`, `{"errors":[{"code":"X"}]}`, "120")
	f.Add("bytes */10", `Basic`, `<html>`, "Fri, 02 Jan 2026 03:05:05 GMT")
	f.Fuzz(func(t *testing.T, contentRange, challenge, body, retry string) {
		if size, err := parseContentRange(contentRange, 4); err == nil && size >= 0 && size < 5 {
			t.Errorf("range %q: got size %d for a rest from byte 4, want at least 5", contentRange, size)
		}

		session := NewSession(Options{Host: "example.com", Repository: repository})
		resp := &http.Response{
			StatusCode: http.StatusUnauthorized, Body: io.NopCloser(strings.NewReader(body)),
			Header: http.Header{"Www-Authenticate": {challenge}, "Retry-After": {retry}},
		}
		if c, err := session.auth.parseChallenge(resp); err == nil && c != nil && !c.basic {
			if realm, err := url.Parse(c.realm); err != nil || realm.Scheme != "https" || realm.Host == "" {
				t.Errorf("got realm %q, want an https URL", c.realm)
			}
		}

		answer := newStatusError(resp, "test", time.Now())
		if answer.Pause < 0 || answer.Pause > 24*time.Hour || len(answer.Error()) > 1024 || strings.ContainsAny(answer.Error(), "\n\r") {
			t.Errorf("got error %q with pause %s, want a single short line and at most a day", answer.Error(), answer.Pause)
		}
	})
}
