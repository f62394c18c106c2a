package updateservice

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mainstay-dev/mainstay/internal/cincinnati"
	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/testing/poll"
	"github.com/mainstay-dev/mainstay/internal/testing/rawhttp"
)

// changeResponse returns a fault that passes requests on to the registry and changes the bodies of manifests or blobs.
func changeResponse(kind string, write func(w http.ResponseWriter, status int, body []byte)) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		recorded := httptest.NewRecorder()
		next.ServeHTTP(recorded, r)
		for name, values := range recorded.Header() {
			w.Header()[name] = values
		}

		body := recorded.Body.Bytes()
		if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/"+kind+"/") || len(body) == 0 {
			w.WriteHeader(recorded.Code)
			_, _ = w.Write(body)
			return
		}

		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		write(w, recorded.Code, body)
	}
}

// writeEndlessly writes until the client disconnects.
func writeEndlessly(w http.ResponseWriter) {
	for chunk := make([]byte, 64<<10); ; {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}

// TestRegistryFaults has the registry fail after a new release was pushed. A running service continues to serve the known releases. A
// service that starts meanwhile is not ready. After the fault, both serve all releases: they remember nothing that the faulty
// registry has sent.
func TestRegistryFaults(t *testing.T) {
	faults := map[string]func(http.ResponseWriter, *http.Request, http.Handler){
		"connections are reset": func(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) },
		"everything is missing": answerNotFound,
		"errors of the server": func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			w.WriteHeader(http.StatusInternalServerError)
		},
		"too many requests": func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			w.WriteHeader(http.StatusTooManyRequests)
		},
		"a login is required": func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { w.WriteHeader(http.StatusUnauthorized) },
		"a page of a proxy": func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<html>Log in to the network</html>")
		},
		"endless responses": func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { writeEndlessly(w) },
	}
	for _, kind := range []string{"manifests", "blobs"} {
		faults["a page of a proxy instead of "+kind] = changeResponse(kind, func(w http.ResponseWriter, _ int, _ []byte) {
			const page = "<html>Log in to the network</html>"
			w.Header().Set("Content-Length", strconv.Itoa(len(page)))
			_, _ = io.WriteString(w, page)
		})
		faults["halves of "+kind] = changeResponse(kind, func(w http.ResponseWriter, status int, body []byte) {
			w.WriteHeader(status)
			_, _ = w.Write(body[:len(body)/2])
			panic(http.ErrAbortHandler)
		})
		faults["changed "+kind] = changeResponse(kind, func(w http.ResponseWriter, status int, body []byte) {
			w.WriteHeader(status)
			body[len(body)/2] ^= 0xff
			_, _ = w.Write(body)
		})
		faults["longer "+kind] = changeResponse(kind, func(w http.ResponseWriter, status int, body []byte) {
			w.Header().Set("Content-Length", strconv.Itoa(len(body)+1))
			w.WriteHeader(status)
			_, _ = w.Write(append(body, ' '))
		})
		faults["endless "+kind] = changeResponse(kind, func(w http.ResponseWriter, status int, _ []byte) {
			w.Header().Del("Content-Length")
			w.WriteHeader(status)
			writeEndlessly(w)
		})
	}

	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newTestRegistry(t)
			i.pushRelease("4.1.0")
			i.pushRelease("4.1.1", "4.1.0")
			options := Options{
				Releases: i.repository, DataFolder: newDataFolder(t, map[string]string{"channels/stable.yaml": stable}), CacheDir: t.TempDir(),
				Images: image.Options{Timeouts: image.Timeouts{Backoff: time.Millisecond}},
			}
			running := newScannedService(t, options)
			i.pushRelease("4.1.2", "4.1.1")
			options.CacheDir = t.TempDir()
			started := newService(t, options)

			i.setFault(fault)
			_ = running.Scan(t.Context()) // If only the new release cannot be read, the scan succeeds without it.
			if got, want := describeGraph(t, running, "channel=stable-4.1"), "4.1.0 4.1.1 4.1.0>4.1.1"; got != want {
				t.Errorf("during the fault: got the graph %q, want %q", got, want)
			}
			if err := started.Scan(t.Context()); err == nil {
				t.Error("got no error of a scan by a service that starts during the fault, want one")
			}
			if err := started.Ready(); err == nil {
				t.Error("a service that starts during the fault is ready, want it not to be")
			}

			i.setFault(nil)
			restarted := newService(t, options)
			for name, s := range map[string]*Service{"the service": running, "the service that started during the fault": started, "a restarted one": restarted} {
				if err := s.Scan(t.Context()); err != nil {
					t.Errorf("%s, after the fault: got error %v, want none", name, err)
					continue
				}
				if got, want := describeGraph(t, s, "channel=stable-4.1"), "4.1.0 4.1.1 4.1.2 4.1.0>4.1.1 4.1.1>4.1.2"; got != want {
					t.Errorf("%s, after the fault: got the graph %q, want %q", name, got, want)
				}
			}
		})
	}
}

// TestRestartDuringFault stops a service whose registry does not respond, and starts it again. It becomes ready when the registry
// responds.
func TestRestartDuringFault(t *testing.T) {
	i := newTestRegistry(t)
	i.pushRelease("4.1.0")
	options := Options{
		Releases: i.repository, CacheDir: t.TempDir(), Interval: time.Millisecond, Address: "127.0.0.1:0",
		DataFolder: newDataFolder(t, map[string]string{"channels/stable.yaml": stable}),
	}
	received := make(chan struct{}, 1)
	i.setFault(func(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
		select {
		case received <- struct{}{}:
		default:
		}
		<-r.Context().Done()
	})

	for range 2 {
		s := newService(t, options)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx, nil) }()
		<-received
		if err := s.Ready(); err == nil {
			t.Error("the service is ready before the registry has responded, want it not to be")
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the service ended with error %v, want none", err)
		}
	}

	i.setFault(nil)
	s := newService(t, options)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, nil) }()
	poll.Eventually(t, "the service is ready", s.Ready)
	if got, want := describeGraph(t, s, "channel=stable-4.1"), "4.1.0"; got != want {
		t.Errorf("got the graph %q, want %q", got, want)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the service ended with error %v, want none", err)
	}
}

// TestUnreadableGraphData has graph-data folders that cannot be read. The last graph is served, and the folder is read again when
// it is repaired.
func TestUnreadableGraphData(t *testing.T) {
	i := newTestRegistry(t)
	i.pushRelease("4.1.0")
	for name, test := range map[string]struct {
		damage func(dir string) error
		want   string // a part of the error
	}{
		"a folder instead of a file": {func(dir string) error { return os.Mkdir(filepath.Join(dir, "channels", "a.yaml"), 0o755) }, ""},
		"a link out of the folder":   {func(dir string) error { return os.Symlink("/etc/hostname", filepath.Join(dir, "channels", "a.yaml")) }, "channels/a.yaml"},
		"a link to nothing":          {func(dir string) error { return os.Symlink("none", filepath.Join(dir, "channels", "a.yaml")) }, "channels/a.yaml"},
		"links in a circle":          {func(dir string) error { return os.Symlink("a.yaml", filepath.Join(dir, "channels", "a.yaml")) }, "channels/a.yaml"},
		"a named pipe":               {func(dir string) error { return syscall.Mkfifo(filepath.Join(dir, "channels", "a.yaml"), 0o644) }, "channels/a.yaml"},
		"a huge file":                {func(dir string) error { return os.Truncate(filepath.Join(dir, "channels", "stable.yaml"), 1<<40) }, "channels/stable.yaml"},
		"a file that is no YAML": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "channels", "a.yaml"), []byte("\x00{"), 0o644)
		}, "channels/a.yaml"},
		"a file instead of the channels": {func(dir string) error {
			return errors.Join(os.RemoveAll(filepath.Join(dir, "channels")), os.WriteFile(filepath.Join(dir, "channels"), nil, 0o644))
		}, "channels"},
		"a folder that does not exist": {os.RemoveAll, "graph-data"},
		"a file instead of the folder": {func(dir string) error { return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o644)) }, "graph-data"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			writeData(t, dir, map[string]string{"version": "1.1.0", "channels/stable.yaml": stable})
			s := newScannedService(t, Options{Releases: i.repository, DataFolder: dir})
			if err := test.damage(dir); err != nil {
				t.Fatal(err)
			}
			if err := s.Scan(t.Context()); test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want an error about %s", err, test.want)
			}
			if got, want := describeGraph(t, s, "channel=stable-4.1"), "4.1.0"; got != want {
				t.Errorf("got the graph %q, want %q", got, want)
			}

			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			writeData(t, dir, map[string]string{"version": "1.1.0", "channels/fast.yaml": strings.Replace(stable, "stable", "fast", 1)})
			if err := s.Scan(t.Context()); err != nil {
				t.Errorf("after the repair: got error %v, want none", err)
			}
			if got, want := describeGraph(t, s, "channel=fast-4.1"), "4.1.0"; got != want {
				t.Errorf("after the repair: got the graph %q, want %q", got, want)
			}
		})
	}
}

// TestHostileRequests sends bytes that no cluster sends. Each connection gets the response that the table names, and another
// client is served afterwards.
func TestHostileRequests(t *testing.T) {
	s, address := startLimitedService(t, requestLimits)
	poll.Eventually(t, "the service is ready", s.Ready)
	const path, host = "/api/upgrades_info/graph?channel=stable-4.1", " HTTP/1.1\r\nHost: x\r\n"
	for name, test := range map[string]struct {
		request string
		status  int
	}{
		"no request":               {"\r\n\r\n", 400},
		"bytes that are no text":   {"\x00\xff\xfe\r\n\r\n", 400},
		"a TLS handshake":          {"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\r\n\r\n", 400},
		"no host":                  {"GET " + path + " HTTP/1.1\r\n\r\n", 400},
		"a long query":             {"GET " + path + strings.Repeat("a", 64<<10) + host + "\r\n", 431},
		"a long channel":           {"GET " + path + strings.Repeat("a", 8<<10) + host + "\r\n", 400},
		"a long header":            {"GET " + path + host + "Accept: " + strings.Repeat("a", 64<<10) + "\r\n\r\n", 431},
		"many media types":         {"GET " + path + host + "Accept: " + strings.Repeat("a/b;q=0.1,", 1000) + "*/*\r\n\r\n", 200},
		"many tags":                {"GET " + path + host + "If-None-Match: " + strings.Repeat(`"a",`, 3000) + "\r\n\r\n", 200},
		"many parameters":          {"GET " + path + strings.Repeat("&channel=b", 1000) + host + "\r\n", 200},
		"an invalid weight":        {"GET " + path + host + "Accept-Encoding: gzip;q=NaN\r\nAccept: application/json;q=1e999\r\n\r\n", 200},
		"an invalid escape":        {"GET /api/upgrades_info/graph?channel=%zz" + host + "\r\n", 400},
		"a path with text for log": {"GET /%0a%1b[31m" + host + "\r\n", 404},
		"an endless body":          {"GET " + path + host + "Content-Length: 9000000000000000000\r\n\r\n" + strings.Repeat("a", 64<<10), 200},
		"two lengths":              {"GET " + path + host + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400},
		"an unknown method":        {"BREW " + path + host + "\r\n", 405},
		"a tunnel":                 {"CONNECT internal:443 HTTP/1.1\r\nHost: internal:443\r\n\r\n", 405},
		"a proxy request":          {"GET http://internal" + path + host + "\r\n", 200},
	} {
		t.Run(name, func(t *testing.T) {
			rawhttp.ExpectResponse(t, address, test.request, test.status)

			other, err := http.Get("http://" + address + path)
			if err != nil {
				t.Fatal(err)
			}
			defer other.Body.Close()
			if other.StatusCode != http.StatusOK {
				t.Errorf("another client: got status %d, want 200", other.StatusCode)
			}
		})
	}
}

// The server closes the connections of clients that are too slow. The clock is that of the test: a connection that the
// server leaves open is a deadlock, which fails the test.
func TestSlowClients(t *testing.T) {
	i := newTestRegistry(t)
	i.pushImages("4.1.0", i.buildImage("amd64", newReleaseFiles("4.1.0", map[string]string{cincinnati.MetadataChannels: "stable-4.1"})))
	s := newScannedService(t, Options{Releases: i.repository})
	const request = "GET /api/upgrades_info/graph?channel=stable-4.1 HTTP/1.1\r\nHost: x\r\n"
	for name, test := range map[string]struct {
		send string
		read int // the number of bytes that the client reads
	}{
		"a client that sends nothing":         {},
		"a client that sends half a line":     {send: "GET /api"},
		"a client that sends half a header":   {send: request + "Accept: a"},
		"a client that does not read":         {send: request + "\r\n"},
		"a client that reads a part":          {send: request + "\r\n", read: 10},
		"a client whose body is not complete": {send: request + "Content-Length: 10\r\n\r\na", read: 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := rawhttp.NewListener()
				defer rawhttp.Serve(t, newHTTPServer(s.Handler()), l, shutdownTimeout)()
				l.ExpectDisconnect(t, test.send, test.read)
			})
		})
	}
}
