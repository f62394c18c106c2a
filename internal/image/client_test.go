package image

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"
)

func TestRoundTrip(t *testing.T) {
	host := newRegistry(t, nil)
	bundle := fstest.MapFS{
		"manifests/csv.yaml":        {Data: []byte("kind: ClusterServiceVersion\n")},
		"metadata/annotations.yaml": {Data: []byte("annotations: {}\n")},
		"tests/scorecard/config":    {Data: []byte("x")},
		"README.md":                 {Data: []byte("not part of the bundle")},
	}

	spec, err := BundleSpec(bundle, map[string]string{"operators.operatorframework.io.bundle.package.v1": "foo"})
	if err != nil {
		t.Fatal(err)
	}

	built, err := Build(spec)
	if err != nil {
		t.Fatal(err)
	}

	ref := host + "/org/foo-bundle:v1"
	client := NewClient(Options{})
	canonical, err := client.Push(t.Context(), ref, nil, built)
	if err != nil {
		t.Fatal(err)
	}
	if want := host + "/org/foo-bundle@" + built.Digest(); canonical != want {
		t.Errorf("pushing: got %s, want %s", canonical, want)
	}

	resolved, err := client.Resolve(t.Context(), ref)
	if err != nil || resolved != canonical {
		t.Errorf("resolved to %q (%v), want %s", resolved, err, canonical)
	}

	for _, name := range []string{ref, canonical, host + "/org/foo-bundle:other@" + built.Digest()} {
		img, err := client.Pull(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = img.Close() }()

		if img.Canonical != canonical {
			t.Errorf("pulling %s: got %s, want %s", name, img.Canonical, canonical)
		}

		wantLabels := map[string]string{
			LabelBundleMediaType: "registry+v1", LabelBundleManifests: "manifests/", LabelBundleMetadata: "metadata/",
			"operators.operatorframework.io.bundle.package.v1": "foo",
		}
		if diff := cmp.Diff(wantLabels, img.Labels); diff != "" {
			t.Errorf("labels (-want +got):\n%s", diff)
		}

		dir := t.TempDir()
		if _, err := img.Extract(t.Context(), "/", dir); err != nil {
			t.Fatal(err)
		}

		want := map[string]string{
			"manifests/": "", "manifests/csv.yaml": "kind: ClusterServiceVersion\n",
			"metadata/": "", "metadata/annotations.yaml": "annotations: {}\n",
			"tests/": "", "tests/scorecard/": "", "tests/scorecard/config": "x",
		}
		if diff := cmp.Diff(want, readTree(t, dir)); diff != "" {
			t.Errorf("files (-want +got):\n%s", diff)
		}
	}
}

func TestCompressions(t *testing.T) {
	host := newRegistry(t, nil)
	archive := tarball(t, entry{name: "configs/a", data: "1"})
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}

	half := len(archive) / 2
	for _, layer := range []struct {
		name, mediaType string
		data            []byte
	}{
		{"plain", imgspecv1.MediaTypeImageLayer, archive},
		{"gzip", imgspecv1.MediaTypeImageLayerGzip, gzipped(t, archive)},
		{"zstd", imgspecv1.MediaTypeImageLayerZstd, encoder.EncodeAll(archive, nil)},
		{"estargz, several gzip members", imgspecv1.MediaTypeImageLayerGzip, append(gzipped(t, archive[:half]), gzipped(t, archive[half:])...)},
		{"chunked zstd with skippable frames", imgspecv1.MediaTypeImageLayerZstd, slices.Concat(
			encoder.EncodeAll(archive[:half], nil), []byte("\x50\x2a\x4d\x18\x04\x00\x00\x00note"), encoder.EncodeAll(archive[half:], nil))},
		{"a wrong media type, detected by content", "application/vnd.docker.image.rootfs.diff.tar.gzip", archive},
	} {
		ref := pushImage(t, host+"/c:1", imageOf(t, layer.mediaType, layer.data))
		got, err := pullAndExtract(t.Context(), t, NewClient(Options{}), ref, "/configs")
		if err != nil {
			t.Fatalf("%s: %v", layer.name, err)
		}
		if diff := cmp.Diff(map[string]string{"a": "1"}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", layer.name, diff)
		}
	}

	for _, mediaType := range []string{"application/vnd.cncf.helm.chart", "application/vnd.oci.image.layer.v1.tar+gzip+encrypted", "application/vnd.oci.image.layer.nondistributable.v1.tar"} {
		ref := pushImage(t, host+"/c:2", imageOf(t, mediaType, archive))
		_, err := pullAndExtract(t.Context(), t, NewClient(Options{}), ref, "/configs")
		wantError(t, err, KindContent, "extract image "+ref)
	}
}

func TestPlatforms(t *testing.T) {
	host := newRegistry(t, nil)
	var images []*Built
	for _, arch := range []string{"amd64", "s390x"} {
		built, err := Build(Spec{OS: "linux", Architecture: arch, Layers: []Layer{{Files: []File{{Path: "/configs/arch", Content: []byte(arch)}}}}})
		if err != nil {
			t.Fatal(err)
		}
		images = append(images, built)
	}

	canonical := pushImage(t, host+"/multi:1", images...)
	for _, arch := range []string{"amd64", "s390x"} {
		client := NewClient(Options{Architecture: arch})
		img, err := client.Pull(t.Context(), host+"/multi:1")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = img.Close() }()

		if img.Canonical != canonical {
			t.Errorf("%s: got %s, want the index %s", arch, img.Canonical, canonical)
		}

		got, err := pullAndExtract(t.Context(), t, client, canonical, "/configs")
		if err != nil || got["arch"] != arch {
			t.Errorf("%s: got %v (error %v), want the image of the architecture", arch, got, err)
		}
	}

	_, err := NewClient(Options{Architecture: "riscv64"}).Pull(t.Context(), host+"/multi:1")
	wantError(t, err, KindContent, "it has no platform linux/riscv64; it has linux/amd64, linux/s390x")

	// An image of a single platform is accepted for every platform, because catalogs and bundles contain no programs.
	single := pushImage(t, host+"/single:1", images[0])
	if _, err := pullAndExtract(t.Context(), t, NewClient(Options{Architecture: "riscv64"}), single, "/configs"); err != nil {
		t.Error(err)
	}
}

func TestRegistryFailures(t *testing.T) {
	var wrap atomic.Pointer[middleware]
	host := newRegistry(t, func(w http.ResponseWriter, r *http.Request) bool {
		m := wrap.Load()
		return m != nil && (*m)(w, r)
	})
	ref := host + "/org/cat:v1"
	built := catalogImage(t)
	pushImage(t, ref, built)
	layer := built.layers[0]
	onManifest := func(answer http.HandlerFunc) middleware {
		return func(w http.ResponseWriter, r *http.Request) bool {
			hit := strings.Contains(r.URL.Path, "/manifests/")
			if hit {
				answer(w, r)
			}
			return hit
		}
	}
	onLayer := func(answer http.HandlerFunc) middleware {
		return func(w http.ResponseWriter, r *http.Request) bool {
			hit := strings.HasSuffix(r.URL.Path, layer.digest.String())
			if hit {
				answer(w, r)
			}
			return hit
		}
	}
	status := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(code)
			fmt.Fprint(w, body)
		}
	}
	changed := append([]byte{}, layer.data...)
	changed[len(changed)-1] ^= 1
	tests := map[string]struct {
		wrap  middleware
		opts  Options
		kind  Kind
		wants []string
	}{
		"no such tag":              {wrap: onManifest(status(404, `{"errors":[{"code":"MANIFEST_UNKNOWN","message":"no such tag"}]}`)), kind: KindNotFound, wants: []string{"pull image " + ref, "no such tag", "check the name and the tag"}},
		"not found, not in JSON":   {wrap: onManifest(status(404, "<html>nothing here")), kind: KindNotFound},
		"unauthorized":             {wrap: onManifest(status(401, `{"errors":[{"code":"UNAUTHORIZED"}]}`)), kind: KindDenied, wants: []string{"check the pull secret"}},
		"forbidden":                {wrap: onManifest(status(403, `{"errors":[{"code":"DENIED"}]}`)), kind: KindDenied},
		"forbidden, not in JSON":   {wrap: onManifest(status(403, "go away")), kind: KindDenied},
		"server error":             {wrap: onManifest(status(500, "oops")), kind: KindUnavailable, wants: []string{"500"}},
		"gateway":                  {wrap: onManifest(status(503, "<html>")), kind: KindUnavailable},
		"always too many requests": {wrap: onManifest(status(429, `{"errors":[{"code":"TOOMANYREQUESTS","message":"slow down"}]}`)), kind: KindUnavailable, wants: []string{"429 Too Many Requests (TOOMANYREQUESTS: slow down)"}},
		"an endless error":         {wrap: onManifest(serveEndlessly(404)), kind: KindNotFound},
		"an endless manifest":      {wrap: onManifest(serveEndlessly(200)), kind: KindContent, wants: []string{"has more than 4194304 bytes"}},
		"an invalid manifest":      {wrap: onManifest(status(200, "<html>welcome")), kind: KindContent},
		"never answers":            {wrap: onManifest(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), opts: Options{Timeouts: Timeouts{Open: 50 * time.Millisecond}}, kind: KindUnavailable, wants: []string{"deadline"}},
		"requests a pause too long": {wrap: onManifest(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusTooManyRequests)
		}), kind: KindUnavailable, wants: []string{"asks for a pause of 1h0m0s"}},
		"layer missing":              {wrap: onLayer(status(404, `{"errors":[{"code":"BLOB_UNKNOWN"}]}`)), kind: KindNotFound, wants: []string{layer.digest.String()}},
		"layer fails":                {wrap: onLayer(status(502, "")), kind: KindUnavailable},
		"layer with another content": {wrap: onLayer(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(changed) }), kind: KindUnavailable, wants: []string{"what the registry sent as the blob " + layer.digest.String() + " has the digest sha256:"}},
		"layer with another size":    {wrap: onLayer(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(append(layer.data, "more"...)) }), kind: KindContent, wants: []string{"in the registry, the manifest says"}},
		"layer too long, size unknown": {wrap: onLayer(func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			_, _ = w.Write(append(layer.data, "more"...))
		}), kind: KindContent, wants: []string{"is longer than"}},
		"layer too short, size unknown": {wrap: onLayer(func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			_, _ = w.Write(layer.data[:50])
		}), kind: KindUnavailable, wants: []string{"connection failed after 50 bytes: the registry ended it too early"}},
		"layer endless, size unknown": {wrap: onLayer(serveEndlessly(200)), kind: KindContent, wants: []string{"is longer than"}},
		"layer is an endless error":   {wrap: onLayer(serveEndlessly(500)), kind: KindUnavailable, wants: []string{"500"}},
		"connection cut": {wrap: onLayer(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(len(layer.data)))
			_, _ = w.Write(layer.data[:50])
		}), kind: KindUnavailable, wants: []string{"connection failed after 50 bytes"}},
		"connection stalls": {wrap: onLayer(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(len(layer.data)))
			_, _ = w.Write(layer.data[:50])
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}), opts: Options{Timeouts: Timeouts{Stall: 50 * time.Millisecond}}, kind: KindUnavailable, wants: []string{"the registry stopped sending for 50ms"}},
		"layer over the limit": {wrap: onLayer(status(500, "")), opts: Options{Limits: Limits{BlobBytes: 10}}, kind: KindContent, wants: []string{"at most 10 are read"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			wrap.Store(&test.wrap)
			defer wrap.Store(nil)
			test.opts.Timeouts.Backoff = time.Millisecond
			_, err := pullAndExtract(t.Context(), t, NewClient(test.opts), ref, "/configs")
			wantError(t, err, test.kind, test.wants...)
		})
	}
}

func TestManifestDigestIsVerified(t *testing.T) {
	lie := false
	host := newRegistry(t, func(w http.ResponseWriter, r *http.Request) bool {
		if !lie || !strings.Contains(r.URL.Path, "/manifests/") {
			return false
		}
		w.Header().Set("Content-Type", imgspecv1.MediaTypeImageManifest)
		_, _ = w.Write(imageOf(t, imgspecv1.MediaTypeImageLayerGzip, []byte("evil")).manifest.data)
		return true
	})

	canonical := pushImage(t, host+"/cat:v1", catalogImage(t))
	lie = true
	_, err := NewClient(Options{}).Pull(t.Context(), canonical)
	wantError(t, err, KindUnavailable, "sent a manifest that does not have the digest sha256:")
}

// A proxy responds to requests for blobs with its login page. The error is not terminal, and a retry succeeds later.
func TestPageOfAProxyIsNotTerminal(t *testing.T) {
	isFaulty := false
	host := newRegistry(t, func(w http.ResponseWriter, r *http.Request) bool {
		if !isFaulty || !strings.Contains(r.URL.Path, "/blobs/") {
			return false
		}
		fmt.Fprint(w, "<html>Log in to the network</html>")
		return true
	})

	ref := pushImage(t, host+"/cat:v1", catalogImage(t))
	isFaulty = true
	_, err := pullAndExtract(t.Context(), t, NewClient(Options{}), ref, "/configs")
	if wantError(t, err, KindContent, "in the registry, the manifest says"); IsTerminal(err) {
		t.Errorf("got terminal error %v, want one that is retried", err)
	}

	isFaulty = false
	if _, err := pullAndExtract(t.Context(), t, NewClient(Options{}), ref, "/configs"); err != nil {
		t.Errorf("after the fault: got error %v, want none", err)
	}
}

func TestTooManyRequestsIsRetried(t *testing.T) {
	var refused atomic.Int32
	host := newRegistry(t, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/manifests/") || refused.Add(1) > 2 {
			return false
		}
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	})

	want := pushImage(t, host+"/cat:v1", catalogImage(t))
	got, err := NewClient(Options{}).Resolve(t.Context(), host+"/cat:v1")
	if err != nil || got != want {
		t.Errorf("got %q (%v), want %s", got, err, want)
	}
}

func TestCancelledPull(t *testing.T) {
	host := newRegistry(t, nil)
	ref := pushImage(t, host+"/cat:v1", catalogImage(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := NewClient(Options{}).Pull(ctx, ref)
	wantError(t, err, KindUnavailable)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want context.Canceled", err)
	}
}

// serveEndlessly sends a response without end, until the client closes the connection.
func serveEndlessly(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		part := make([]byte, 64<<10)
		for {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	}
}

// tlsRegistry starts a registry with an untrusted certificate, and returns its host and the
// certificate. It also returns a registries.conf with the host, because otherwise a registry of
// this machine needs no valid certificate.
func tlsRegistry(t *testing.T) (host string, certificate []byte, strict string) {
	t.Helper()
	server := httptest.NewTLSServer(registryHandler(nil))
	t.Cleanup(server.Close)
	host = strings.TrimPrefix(server.URL, "https://")
	certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return host, certificate, writeFile(t, "registries.conf", fmt.Sprintf("[[registry]]\nlocation = %q\n", host))
}

func TestTLS(t *testing.T) {
	host, certificate, strict := tlsRegistry(t)
	ref := host + "/cat:v1"
	pushImage(t, ref, catalogImage(t)) // on the loopback interface, any certificate is accepted

	_, err := NewClient(Options{RegistriesConf: strict}).Resolve(t.Context(), ref)
	wantError(t, err, KindUnavailable, "certificate", "add the registry's certificate authority")

	caDir := t.TempDir()
	if err := os.WriteFile(filepath.Join(caDir, "ca.pem"), certificate, 0o600); err != nil {
		t.Fatal(err)
	}

	certsDir := t.TempDir()
	if err := os.Mkdir(filepath.Join(certsDir, host), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(certsDir, host, "ca.crt"), certificate, 0o600); err != nil {
		t.Fatal(err)
	}

	for name, opts := range map[string]Options{
		"CADir":               {RegistriesConf: strict, CADir: caDir},
		"CertsDir":            {RegistriesConf: strict, CertsDir: certsDir},
		"CertsDir alone":      {CertsDir: certsDir},
		"and a missing CADir": {RegistriesConf: strict, CertsDir: certsDir, CADir: filepath.Join(caDir, "none")},
	} {
		if _, err := NewClient(opts).Resolve(t.Context(), ref); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}

	// If certificates are configured for it, a registry of this machine is verified like any other.
	if err := os.WriteFile(filepath.Join(certsDir, host, "ca.crt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}

	_, err = NewClient(Options{CertsDir: certsDir}).Resolve(t.Context(), ref)
	wantError(t, err, KindUnavailable, "certificate")

	if err := os.WriteFile(filepath.Join(caDir, "broken.crt"), []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}

	_, err = NewClient(Options{CADir: caDir}).Resolve(t.Context(), ref)
	wantError(t, err, KindUnavailable, "broken.crt holds no PEM certificate")
}

func TestMirrors(t *testing.T) {
	mirror := newRegistry(t, nil)
	canonical := pushImage(t, mirror+"/copy/cat:v1", catalogImage(t))
	_, digest, _ := strings.Cut(canonical, "@")
	conf := writeFile(t, "registries.conf", fmt.Sprintf(`
[[registry]]
prefix = "upstream.invalid/org"
location = "upstream.invalid/org"
[[registry.mirror]]
location = %q
insecure = true
[[registry]]
location = "blocked.invalid"
blocked = true
`, mirror+"/copy"))

	client := NewClient(Options{RegistriesConf: conf})
	got, err := client.Resolve(t.Context(), "upstream.invalid/org/cat:v1")
	if want := "upstream.invalid/org/cat@" + digest; err != nil || got != want {
		t.Fatalf("resolved to %q (%v), want %s", got, err, want)
	}

	img, err := client.Pull(t.Context(), got)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = img.Close() }()

	if img.Canonical != got {
		t.Errorf("pulling: got %s, want %s", img.Canonical, got)
	}
	if _, err := img.Extract(t.Context(), "/configs", t.TempDir()); err != nil {
		t.Error(err)
	}

	_, err = client.Resolve(t.Context(), "blocked.invalid/cat:v1")
	wantError(t, err, KindDenied, "the registry blocked.invalid is blocked")

	// A change of the file takes effect immediately.
	if err := os.WriteFile(conf, []byte("[[registry]]\nlocation=\"upstream.invalid\"\nblocked=true\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	_, err = client.Resolve(t.Context(), "upstream.invalid/org/cat:v1")
	wantError(t, err, KindDenied, "blocked")
	_, err = NewClient(Options{RegistriesConf: conf + "-missing"}).Resolve(t.Context(), "upstream.invalid/org/cat:v1")
	wantError(t, err, KindDenied, "read the registries configuration")
}

func TestPolicy(t *testing.T) {
	host := newRegistry(t, nil)
	ref := pushImage(t, host+"/org/cat:v1", catalogImage(t))
	multi := pushImage(t, host+"/org/multi:v1", catalogImage(t), imageForArch(t, "s390x"))
	accept, reject := `[{"type":"insecureAcceptAnything"}]`, `[{"type":"reject"}]`
	tests := map[string]struct {
		policy string
		want   string // empty if the image is accepted
	}{
		"accept":                {policy: `{"default":` + accept + `}`},
		"reject":                {policy: `{"default":` + reject + `}`, want: "the signature policy does not accept it"},
		"accept the repository": {policy: fmt.Sprintf(`{"default":%s,"transports":{"docker":{%q:%s}}}`, reject, host+"/org", accept)},
		"reject the host":       {policy: fmt.Sprintf(`{"default":%s,"transports":{"docker":{%q:%s}}}`, accept, host, reject), want: "does not accept"},
		"another transport":     {policy: fmt.Sprintf(`{"default":%s,"transports":{"atomic":{"":%s}}}`, reject, accept), want: "does not accept"},
		"all of the transport":  {policy: fmt.Sprintf(`{"default":%s,"transports":{"docker":{"":%s}}}`, reject, accept)},
		"one of two rejects":    {policy: `{"default":[{"type":"insecureAcceptAnything"},{"type":"reject"}]}`, want: "does not accept"},
		"no rules":              {policy: `{"default":[]}`, want: "policy"},
		"a misspelt key":        {policy: `{"default":` + accept + `,"transport":{"docker":{"":` + reject + `}}}`, want: "policy"},
		"no JSON":               {policy: `default`, want: "read the signature policy"},
		"signature required":    {policy: `{"default":[{"type":"sigstoreSigned","keyData":"` + base64.StdEncoding.EncodeToString([]byte(testPublicKey)) + `"}]}`, want: "signature"},
		"unknown rule":          {policy: `{"default":[{"type":"trustMe"}]}`, want: "policy"},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			client := NewClient(Options{PolicyFile: writeFile(t, "policy.json", test.policy), Architecture: "amd64"})
			for _, ref := range []string{ref, multi} {
				_, err := pullAndExtract(t.Context(), t, client, ref, "/configs")
				if test.want == "" && err != nil {
					t.Error(err)
				}
				if test.want != "" {
					wantError(t, err, KindUntrusted, test.want)
				}
			}
		})
	}

	_, err := NewClient(Options{PolicyFile: "/nonexistent/policy.json"}).Pull(t.Context(), ref)
	wantError(t, err, KindUntrusted, "read the signature policy")
}

const testPublicKey = `-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEUpSDO7FNuR8hhPUzsS1p7N9Wk4Sd
5v0CzzPTaFhMDT7yQ0hNw1JZPPzO6PdKQQvmFhXnTBHS4mjy5JQm3hM1WA==
-----END PUBLIC KEY-----
`

func imageForArch(t *testing.T, arch string) *Built {
	t.Helper()
	built, err := Build(Spec{OS: "linux", Architecture: arch})
	if err != nil {
		t.Fatal(err)
	}
	return built
}

func TestScrub(t *testing.T) {
	for text, want := range map[string]string{
		`Get "https://cdn.example.com/blob?X-Amz-Signature=abc&sig=1": EOF`:                        `Get "https://cdn.example.com/blob": EOF`,
		"proxy http://user:pw@proxy:3128: refused":                                                 "proxy http://proxy:3128: refused",
		`decoding bearer token (last URL "https://a/t?account=x", body start "{\"token\":\"ey"): `: `decoding bearer token (last URL "https://a/t", body start "<redacted>"): `,
		"one\ntwo":                 "one; two",
		"my hidden value":          "my <redacted> value",
		"https://a/%zz?secret=1 x": "<redacted URL> x",
	} {
		if got := redactText(text, []string{"hidden"}); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}

	if got := redactText(strings.Repeat("é", maxMessageBytes), nil); len(got) > maxMessageBytes+4 {
		t.Errorf("got a text of %d bytes, want at most %d", len(got), maxMessageBytes+4)
	}
}

func TestIsLoopback(t *testing.T) {
	for domain, want := range map[string]bool{
		"localhost": true, "localhost:5000": true, "127.0.0.1:1": true, "127.9.9.9": true, "[::1]:5000": true, "[::1]": true,
		"quay.io": false, "10.0.0.1:5000": false, "localhost.example.com": false, "127.0.0.1.example.com:443": false,
	} {
		if got := isLoopbackHost(domain); got != want {
			t.Errorf("isLoopback(%s) = %[2]v, want %v", domain, got, !got)
		}
	}
}
