package registry_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"github.com/mainstay-dev/mainstay/internal/classic/registry"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/content"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/registrypb"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// lines is a log that can be read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *lines) logger(level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: level}))
}

func TestHealth(t *testing.T) {
	c := grpc_health_v1.NewHealthClient(catalog(t))
	for _, service := range []string{"", "api.Registry", "anything"} {
		got, err := c.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: service})
		if err != nil || got.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("%q: %v, %v", service, got, err)
		}
	}

	watch, err := c.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	_, err = receive(t, watch, err)
	wantError(t, err, codes.Unimplemented, "method Watch not implemented")
}

func TestUnknownCallIsUnimplemented(t *testing.T) {
	err := catalog(t).Invoke(t.Context(), "/api.Registry/Nothing", &registrypb.ListPackageRequest{}, &registrypb.Package{})
	wantError(t, err, codes.Unimplemented, "unknown method Nothing for service api.Registry")
}

func TestTooLargeRequestIsRefused(t *testing.T) {
	_, err := client(t).GetPackage(t.Context(), &registrypb.GetPackageRequest{Name: strings.Repeat("x", 64<<10)})
	wantError(t, err, codes.ResourceExhausted, "grpc: received message larger than max (65540 vs. 65536)")
}

// A response has no size limit: it is as large as its bundle.
func TestLargeAnswer(t *testing.T) {
	description := strings.Repeat("long ", 2<<20)
	dir := write(t, map[string]string{"c.json": `{"schema":"olm.package","name":"a","defaultChannel":"x"}
{"schema":"olm.channel","package":"a","name":"x","entries":[{"name":"a.v1"}]}
{"schema":"olm.bundle","package":"a","name":"a.v1","image":"registry.example.com/a","properties":[
{"type":"olm.package","value":{"packageName":"a","version":"1.0.0"}},{"type":"olm.csv.metadata","value":{"description":"` + description + `"}}]}`})
	c := registrypb.NewRegistryClient(dial(t, start(t, &registry.Server{Source: content.Folder{Dir: dir}})))
	got, err := c.GetBundle(t.Context(), &registrypb.GetBundleRequest{PkgName: "a", ChannelName: "x", CsvName: "a.v1"}, largeAnswers)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(got.GetCsvJson()); n < len(description) {
		t.Errorf("got a CSV of %d bytes", n)
	}
}

func TestCallsAreLoggedWithoutSecrets(t *testing.T) {
	log := &lines{}
	c := registrypb.NewRegistryClient(dial(t, start(t, &registry.Server{Source: content.Folder{Dir: "testdata/catalog"}, Log: log.logger(slog.LevelDebug)})))
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer secret", "x-token", "secret")
	if _, err := c.GetPackage(ctx, &registrypb.GetPackageRequest{Name: "etcd"}); err != nil {
		t.Fatal(err)
	}

	stream, err := c.GetChannelEntriesThatReplace(ctx, &registrypb.GetAllReplacementsRequest{CsvName: "nats.v1"})
	if _, err = receive(t, stream, err); err == nil {
		t.Fatal("no error")
	}

	text := log.String()
	for _, want := range []string{
		`msg="started call" grpc.service=api.Registry grpc.method=GetPackage peer.address=127.0.0.1:`,
		`msg="finished call" grpc.service=api.Registry grpc.method=GetPackage peer.address=127.0.0.1:`,
		`grpc.code=OK grpc.time_ms=`,
		`msg="started call" grpc.service=api.Registry grpc.method=GetChannelEntriesThatReplace`,
		`grpc.code=Unknown`,
		`grpc.error="no channel entries found that replace nats.v1"`,
		`msg="serving registry" backend=mainstay.v1 cache="" configs=testdata/catalog port=`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("got no %s in the log:\n%s", want, text)
		}
	}

	if strings.Contains(text, "secret") {
		t.Errorf("got a secret in the log:\n%s", text)
	}
}

// TestCallsDoNotFillTheLog has a client that sends the same call many times.
func TestCallsDoNotFillTheLog(t *testing.T) {
	log := &lines{}
	c := registrypb.NewRegistryClient(dial(t, start(t, &registry.Server{Source: content.Folder{Dir: "testdata/catalog"}, Log: log.logger(slog.LevelInfo)})))
	before := strings.Count(log.String(), "\n")
	for range 20 {
		if _, err := c.GetPackage(t.Context(), &registrypb.GetPackageRequest{Name: "no-such-package"}); err == nil {
			t.Fatal("no error")
		}
	}

	if after := strings.Count(log.String(), "\n"); after != before {
		t.Errorf("20 calls wrote %d lines, want none:\n%s", after-before, log.String())
	}
}

func TestTerminationLogHasStartError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "termination-log")
	if err := os.WriteFile(path, []byte("before\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	s := &registry.Server{Source: content.Folder{Dir: "testdata/missing"}, TerminationLog: path}
	err := s.Run(t.Context())
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got error %v", err)
	}

	text, readErr := os.ReadFile(path)
	if readErr != nil {
		t.Fatal(readErr)
	}

	want := "before\nfailed to load or rebuild cache: failed to rebuild cache: stat testdata/missing: no such file or directory\n"
	if string(text) != want {
		t.Errorf("got the termination log %q, want %q", text, want)
	}
}

func TestUnwritableTerminationLogIsAWarning(t *testing.T) {
	log := &lines{}
	s := &registry.Server{Source: content.Folder{Dir: "testdata/catalog"}, CacheOnly: true, TerminationLog: t.TempDir(), Log: log.logger(slog.LevelInfo)}
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), `level=WARN msg="unable to set termination log path"`) {
		t.Errorf("got the log\n%s", log)
	}
}

func TestSourceIsNotAFolder(t *testing.T) {
	err := (&registry.Server{Source: content.Folder{Dir: "serve_test.go"}}).Run(t.Context())
	if err == nil || err.Error() != "failed to load or rebuild cache: failed to rebuild cache: stat serve_test.go: not a directory" {
		t.Errorf("got error %v", err)
	}
}

func TestAddressInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	address := taken.Addr().String()
	err = (&registry.Server{Source: content.Folder{Dir: "testdata/catalog"}, Address: address}).Run(t.Context())
	if err == nil || err.Error() != "failed to listen: listen tcp "+address+": bind: address already in use" {
		t.Errorf("got error %v", err)
	}

	err = (&registry.Server{Source: content.Folder{Dir: "testdata/catalog"}, PprofAddress: address}).Run(t.Context())
	if err == nil || err.Error() != "could not start pprof endpoint: listen tcp "+address+": bind: address already in use" {
		t.Errorf("got error %v", err)
	}

	// Profiles are not needed to fill a cache.
	err = (&registry.Server{Source: content.Folder{Dir: "testdata/catalog"}, PprofAddress: address, CacheOnly: true}).Run(t.Context())
	if err != nil {
		t.Errorf("got error %v", err)
	}
}

func TestEmptyCatalogIsServed(t *testing.T) {
	c := registrypb.NewRegistryClient(dial(t, start(t, &registry.Server{Source: content.Folder{Dir: t.TempDir()}})))
	stream, err := c.ListPackages(t.Context(), &registrypb.ListPackageRequest{})
	if got, err := receive(t, stream, err); len(got) > 0 || err != nil {
		t.Errorf("got packages %v, error %v", got, err)
	}

	bundles, err := c.ListBundles(t.Context(), &registrypb.ListBundlesRequest{})
	if got, err := receive(t, bundles, err); len(got) > 0 || err != nil {
		t.Errorf("got bundles %v, error %v", got, err)
	}
}

func TestProfiles(t *testing.T) {
	for _, capture := range []bool{true, false} {
		func() {
			ctx, cancel := context.WithCancel(t.Context())
			log := &lines{}
			_, ended := run(ctx, t, &registry.Server{
				Source: content.Folder{Dir: "testdata/catalog"}, PprofAddress: "127.0.0.1:0", PprofCaptureProfiles: capture, Log: log.logger(slog.LevelInfo),
			})
			defer func() {
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}()

			address := profilesAddress(t, log)
			for path, want := range map[string]int{
				"/debug/pprof/": 200, "/debug/pprof/cmdline": 200, "/debug/pprof/symbol": 200, "/debug/pprof/heap": 200,
				"/debug/pprof/startup/cpu": 200, "/": 404, "/metrics": 404,
				"/debug/pprof/goroutine?debug=2": 200, "/debug/pprof/heap?gc=1": 200, "/debug/pprof/nothing": 404,
				"/debug/pprof/trace?seconds=0.01": 200, "/debug/pprof/profile?seconds=1": 200,
			} {
				code, body := get(t, "http://"+address+path)
				if code != want {
					t.Errorf("%s: got status %d, want %d", path, code, want)
				}
				if path == "/debug/pprof/startup/cpu" && capture != (len(body) > 0) {
					t.Errorf("captured %t: got a profile of %d bytes", capture, len(body))
				}
			}
		}()
	}
}

// The profile of the start does not exist before the start has ended, which this catalog
// prevents.
func TestStartupProfileIsNotReadyDuringStart(t *testing.T) {
	log := &lines{}
	reached, goOn := make(chan struct{}), make(chan struct{})
	s := &registry.Server{
		Source: content.Stream{Name: "slow", All: func(func(fbc.Meta, error) bool) {
			close(reached)
			<-goOn
		}},
		Address: "127.0.0.1:0", PprofAddress: "127.0.0.1:0", Log: log.logger(slog.LevelInfo),
	}

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	<-reached
	address := profilesAddress(t, log)
	if code, body := get(t, "http://"+address+"/debug/pprof/startup/cpu"); code != 503 || body != "cpu profile cache is not yet ready\n" {
		t.Errorf("got %d %q", code, body)
	}

	cancel()
	close(goOn)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

var profilesLine = regexp.MustCompile(`msg="serving profiles" address=(\S+)`)

// profilesAddress finds where profiles are served in the log.
func profilesAddress(t *testing.T, log *lines) string {
	t.Helper()
	found := profilesLine.FindStringSubmatch(log.String())
	if found == nil {
		t.Fatalf("got no address of the profiles in the log:\n%s", log)
	}
	return found[1]
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}

	return answer.StatusCode, string(body)
}

// Running calls can finish when the server stops, and new ones are not
// accepted.
func TestStopWaitsForCalls(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	address, ended := run(ctx, t, &registry.Server{Source: content.Folder{Dir: "testdata/catalog"}})
	held := newHeldCall(t, dial(t, address))
	cancel()
	held.finish(t)
	if err := <-ended; err != nil {
		t.Errorf("the server ended with %v", err)
	}
	if _, err := net.Dial("tcp", address); err == nil {
		t.Error("the server still listens")
	}
}

// A call that does not end is ended.
func TestStopEndsCallsAfterTimeout(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	address, ended := run(ctx, t, &registry.Server{Source: content.Folder{Dir: "testdata/catalog"}, ShutdownTimeout: time.Nanosecond})
	held := newHeldCall(t, dial(t, address))
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the server ended with %v", err)
	}
	if _, err := held.stream.Recv(); err == nil {
		t.Error("the call has not ended")
	}
}

func TestStopDuringStartIsNoError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (&registry.Server{Source: content.Folder{Dir: "testdata/catalog"}, Address: "127.0.0.1:0"}).Run(ctx); err != nil {
		t.Error(err)
	}
}

func TestTemporaryCacheIsRemoved(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	ctx, cancel := context.WithCancel(t.Context())
	_, ended := run(ctx, t, &registry.Server{Source: content.Folder{Dir: "testdata/catalog"}})
	if found, _ := filepath.Glob(filepath.Join(tmp, "opm-serve-cache-*", "catalog")); len(found) != 1 {
		t.Errorf("got temporary caches %v", found)
	}

	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(tmp); len(left) > 0 {
		t.Errorf("got remaining files %v", left)
	}
	if err := (&registry.Server{Source: content.Folder{Dir: "testdata/missing"}}).Run(t.Context()); err == nil {
		t.Error("no error")
	}
	if left, _ := os.ReadDir(tmp); len(left) > 0 {
		t.Errorf("got remaining files %v after a failure", left)
	}
}

// Later changes of the folder do not change the served content.
func TestServesAfterSourceAndCacheAreDeleted(t *testing.T) {
	source, cache := t.TempDir(), t.TempDir()
	if err := os.CopyFS(source, os.DirFS("testdata/catalog")); err != nil {
		t.Fatal(err)
	}

	c := registrypb.NewRegistryClient(dial(t, start(t, &registry.Server{
		Source: content.Folder{Dir: source}, CacheDir: cache, Integrity: content.IgnoreIntegrity,
	})))
	if err := errors.Join(os.RemoveAll(source), os.RemoveAll(cache)); err != nil {
		t.Fatal(err)
	}

	got, err := c.GetBundle(t.Context(), &registrypb.GetBundleRequest{PkgName: "etcd", ChannelName: "alpha", CsvName: "etcdoperator.v0.9.2"})
	if err != nil || !strings.Contains(got.GetCsvJson(), "A key-value store") {
		t.Errorf("got %v, %v", got, err)
	}
}

// A disk failure fails the call, and the server reports that it is unhealthy.
func TestUnreadableContentIsUnhealthy(t *testing.T) {
	for name, log := range map[string]*slog.Logger{"logged": (&lines{}).logger(slog.LevelInfo), "not logged": nil} {
		t.Run(name, func(t *testing.T) { testLostContent(t, log) })
	}
}

func testLostContent(t *testing.T, log *slog.Logger) {
	cache := t.TempDir()
	connection := dial(t, start(t, &registry.Server{
		Source: content.Folder{Dir: "testdata/catalog"}, CacheDir: cache, Integrity: content.IgnoreIntegrity, Log: log,
	}))
	if err := os.Truncate(filepath.Join(cache, "mainstay.v1", "catalog"), 0); err != nil {
		t.Fatal(err)
	}

	stream, err := registrypb.NewRegistryClient(connection).ListBundles(t.Context(), &registrypb.ListBundlesRequest{})
	_, err = receive(t, stream, err)
	wantError(t, err, codes.Unknown, "reading the cached catalog: unexpected EOF")
	got, err := grpc_health_v1.NewHealthClient(connection).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil || got.GetStatus() != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("got health %v, error %v", got, err)
	}
}
