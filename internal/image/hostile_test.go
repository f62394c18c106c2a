package image

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"
	"go.podman.io/image/v5/manifest"

	"github.com/mainstay-dev/mainstay/internal/testing/poll"
)

// expectNoLeftovers calls run and checks that it leaves no temporary file and no goroutine.
func expectNoLeftovers(t *testing.T, run func()) {
	t.Helper()
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	before := runtime.NumGoroutine()
	run()
	left, err := os.ReadDir(temp)
	if err != nil || len(left) != 0 {
		t.Errorf("got leftover temporary files %v (error %v), want none", left, err)
	}

	// Both ends of a closed connection detect this with a short delay.
	poll.EventuallyTrue(t, "all goroutines have ended", func() bool { return runtime.NumGoroutine() <= before }, func() string {
		stacks := make([]byte, 1<<20)
		return fmt.Sprintf("%d goroutines are left of %d:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
	})
}

// incompressibleText returns content that does not compress.
func incompressibleText(n int) string {
	random := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	for b.Len() < n {
		fmt.Fprintf(&b, "%016x", random.Uint64())
	}
	return b.String()[:n]
}

// TestBrokenDownloads checks that interrupted downloads are resumed, a few times.
func TestBrokenDownloads(t *testing.T) {
	content := incompressibleText(300_000)
	built := mustBuild(t, Spec{OS: "linux", Architecture: "amd64", Layers: []Layer{{Files: []File{{Path: "/configs/a", Content: []byte(content)}}}}})
	layer := built.layers[0]
	size := len(layer.data)
	damaged := bytes.Clone(layer.data)
	damaged[size-20] ^= 1
	// part sends a part of the layer in response to a range request.
	part := func(w http.ResponseWriter, r *http.Request, data []byte, ranges bool, length int) {
		from := 0
		if text, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok && ranges {
			from, _ = strconv.Atoi(strings.TrimSuffix(text, "-"))
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, size-1, size))
		}
		w.Header().Set("Content-Length", strconv.Itoa(size-from))
		if from > 0 {
			w.WriteHeader(http.StatusPartialContent)
		}
		_, _ = w.Write(data[from:min(size, from+length)])
		w.(http.Flusher).Flush()
	}
	tests := map[string]struct {
		answer   func(w http.ResponseWriter, r *http.Request, nth int)
		stall    time.Duration
		requests int // 0 accepts any number up to 10
		kind     Kind
		want     []string // empty if the pull succeeds
	}{
		"whole": {requests: 1, answer: func(w http.ResponseWriter, r *http.Request, _ int) { part(w, r, layer.data, true, size) }},
		"cut once": {requests: 2, answer: func(w http.ResponseWriter, r *http.Request, nth int) {
			part(w, r, layer.data, true, size/nth/2*nth+(nth-1)*size)
		}},
		"cut once, no ranges": {requests: 2, answer: func(w http.ResponseWriter, r *http.Request, nth int) {
			part(w, r, layer.data, false, size/3*(nth*nth))
		}},
		"cut four times": {requests: 5, answer: func(w http.ResponseWriter, r *http.Request, nth int) {
			part(w, r, layer.data, true, size/5+nth)
		}},
		"cut at once, always": {requests: 5, kind: KindUnavailable, want: []string{"connection failed after 0 bytes"}, answer: func(w http.ResponseWriter, r *http.Request, _ int) {
			part(w, r, layer.data, true, 0)
		}},
		"cut after each byte": {requests: 5, kind: KindUnavailable, want: []string{"connection failed after 5 bytes"}, answer: func(w http.ResponseWriter, r *http.Request, _ int) {
			part(w, r, layer.data, true, 1)
		}},
		"cut at the same byte, no ranges": {requests: 5, kind: KindUnavailable, want: []string{"connection failed after 1000 bytes"}, answer: func(w http.ResponseWriter, r *http.Request, _ int) {
			part(w, r, layer.data, false, 1000)
		}},
		"cut, and then something else": {requests: 2, kind: KindUnavailable, want: []string{"has the digest sha256:", "changed in transit"}, answer: func(w http.ResponseWriter, r *http.Request, nth int) {
			part(w, r, map[bool][]byte{true: layer.data, false: damaged}[nth == 1], true, size/2+size*(nth-1))
		}},
		"cut, and then gone": {requests: 2, kind: KindNotFound, want: []string{"connection failed after 1000 bytes", "and then", "404"}, answer: func(w http.ResponseWriter, r *http.Request, nth int) {
			if nth > 1 {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			part(w, r, layer.data, true, 1000)
		}},
		"cut, and then a wrong part": {kind: KindUnavailable, want: []string{"connection failed after 1000 bytes"}, answer: func(w http.ResponseWriter, r *http.Request, nth int) {
			if nth > 1 {
				w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-%d/%d", size-1, size))
				w.WriteHeader(http.StatusPartialContent)
				return
			}
			part(w, r, layer.data, true, 1000)
		}},
		"cut, and then another size": {requests: 2, kind: KindContent, want: []string{"in the registry, the manifest says"}, answer: func(w http.ResponseWriter, r *http.Request, nth int) {
			if nth > 1 {
				w.Header().Set("Content-Range", "bytes 1000-1999/2000")
				w.WriteHeader(http.StatusPartialContent)
				return
			}
			part(w, r, layer.data, true, 1000)
		}},
		"it trickles": {requests: 1, stall: time.Minute, answer: func(w http.ResponseWriter, _ *http.Request, _ int) {
			w.Header().Set("Content-Length", strconv.Itoa(size))
			for at := 0; at < size; at += 1000 {
				_, _ = w.Write(layer.data[at:min(size, at+1000)])
				w.(http.Flusher).Flush()
			}
		}},
		"it trickles too slowly": {stall: 30 * time.Millisecond, kind: KindUnavailable, want: []string{"the registry stopped sending for 30ms"}, answer: func(w http.ResponseWriter, r *http.Request, _ int) {
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for at := range size {
				select {
				case <-tick.C:
				case <-r.Context().Done():
					return
				}
				_, _ = w.Write(layer.data[at : at+1])
				w.(http.Flusher).Flush()
			}
		}},
		"it stops, then goes on": {requests: 2, stall: time.Second, answer: func(w http.ResponseWriter, r *http.Request, nth int) {
			part(w, r, layer.data, true, size/2+size*(nth-1))
			if nth == 1 {
				<-r.Context().Done()
			}
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			expectNoLeftovers(t, func() {
				var requests atomic.Int32
				server := newServer(t, func(w http.ResponseWriter, r *http.Request) bool {
					if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, layer.digest.String()) {
						return false
					}
					test.answer(w, r, int(requests.Add(1)))
					return true
				})
				defer server.Close()
				ref := pushImage(t, hostOf(server)+"/org/cat:v1", built)
				client := NewClient(Options{Timeouts: Timeouts{Stall: test.stall, Backoff: time.Microsecond}})
				got, err := pullAndExtract(t.Context(), t, client, ref, "/configs")
				if len(test.want) == 0 && (err != nil || got["a"] != content) {
					t.Errorf("got %d bytes (error %v), want %d", len(got["a"]), err, len(content))
				}
				if len(test.want) > 0 {
					wantError(t, err, test.kind, test.want...)
				}
				if n := int(requests.Load()); n > 10 || test.requests > 0 && n != test.requests {
					t.Errorf("the registry received %d requests, want %d", n, test.requests)
				}
			})
		})
	}
}

// manifestResponse is the response of a registry to every request for a manifest.
type manifestResponse struct {
	mediaType string
	data      []byte
}

func encodeJSON(t testing.TB, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestHostileManifests pulls invalid and malicious manifests.
func TestHostileManifests(t *testing.T) {
	good := catalogImage(t)
	// Each manifest is served by its digest. The tag refers to the last one.
	edit := func(change func(m *imgspecv1.Manifest)) []manifestResponse {
		m := good.newManifest(nil)
		change(&m)
		return []manifestResponse{{imgspecv1.MediaTypeImageManifest, encodeJSON(t, m)}}
	}
	index := func(entries ...imgspecv1.Descriptor) manifestResponse {
		return manifestResponse{imgspecv1.MediaTypeImageIndex, encodeJSON(t, map[string]any{
			"schemaVersion": 2, "mediaType": imgspecv1.MediaTypeImageIndex, "manifests": entries,
		})}
	}
	of := func(s manifestResponse, os, architecture string) imgspecv1.Descriptor {
		d := imgspecv1.Descriptor{MediaType: s.mediaType, Digest: digest.FromBytes(s.data), Size: int64(len(s.data))}
		if os != "" {
			d.Platform = &imgspecv1.Platform{OS: os, Architecture: architecture}
		}
		return d
	}
	image := manifestResponse{imgspecv1.MediaTypeImageManifest, good.manifest.data}
	attestation := of(image, "unknown", "unknown")
	attestation.Annotations = map[string]string{"vnd.docker.reference.type": "attestation-manifest"}
	attestation.Digest = digest.FromString("attestation")
	ofOurs := of(image, "linux", "amd64")
	ofOurs.Annotations, ofOurs.Digest = attestation.Annotations, attestation.Digest
	nested := index(of(image, "linux", "amd64"))
	deep := []manifestResponse{image, nested}
	for range maxIndexes + 1 {
		deep = append(deep, index(of(deep[len(deep)-1], "", "")))
	}
	many := make([]imgspecv1.Descriptor, 10_000)
	for i := range many {
		many[i] = of(image, "windows", fmt.Sprintf("arch%d", i))
	}
	tests := map[string]struct {
		serve []manifestResponse
		kind  Kind
		want  []string // empty if the pull succeeds
	}{
		"good":                 {serve: []manifestResponse{image}},
		"no media type":        {serve: []manifestResponse{{"", image.data}}},
		"a wrong media type":   {serve: []manifestResponse{{"text/html", image.data}}},
		"index as manifest":    {serve: []manifestResponse{image, {imgspecv1.MediaTypeImageManifest, index(of(image, "linux", "amd64")).data}}, kind: KindContent, want: []string{"read the manifest"}},
		"manifest as index":    {serve: []manifestResponse{{imgspecv1.MediaTypeImageIndex, image.data}}, kind: KindContent, want: []string{"read the image index"}},
		"no JSON":              {serve: []manifestResponse{{imgspecv1.MediaTypeImageManifest, []byte("hello")}}, kind: KindContent, want: []string{"manifest"}},
		"nothing":              {serve: []manifestResponse{{imgspecv1.MediaTypeImageManifest, nil}}, kind: KindContent, want: []string{"manifest"}},
		"deep JSON":            {serve: []manifestResponse{{imgspecv1.MediaTypeImageManifest, []byte(strings.Repeat("[", 1_000_000))}}, kind: KindContent, want: []string{"manifest"}},
		"schema 1":             {serve: []manifestResponse{{manifest.DockerV2Schema1MediaType, []byte(`{"schemaVersion":1,"name":"a","tag":"b","architecture":"amd64","fsLayers":[],"history":[]}`)}}, kind: KindContent, want: []string{"manifest"}},
		"an artifact":          {serve: edit(func(m *imgspecv1.Manifest) { m.ArtifactType = "application/vnd.example" })},
		"a bad layer digest":   {serve: edit(func(m *imgspecv1.Manifest) { m.Layers[0].Digest = "sha256:../../x" }), kind: KindContent, want: []string{`layer "sha256:../../x"`}},
		"an unknown algorithm": {serve: edit(func(m *imgspecv1.Manifest) { m.Layers[0].Digest = "whirl:" + digest.Digest(strings.Repeat("0", 64)) }), kind: KindContent, want: []string{"whirl:"}},
		"a bad config digest":  {serve: edit(func(m *imgspecv1.Manifest) { m.Config.Digest = "x" }), kind: KindContent, want: []string{`configuration "x"`}},
		"a config that is not JSON": {serve: edit(func(m *imgspecv1.Manifest) {
			m.Config = m.Layers[0]
			m.Config.MediaType = imgspecv1.MediaTypeImageConfig
		}), kind: KindContent, want: []string{"read its configuration"}},
		"a config too large":       {serve: edit(func(m *imgspecv1.Manifest) { m.Config.Size = 5 << 30 }), kind: KindContent, want: []string{"at most 4294967296 are read"}},
		"a layer declared smaller": {serve: edit(func(m *imgspecv1.Manifest) { m.Layers[0].Size-- }), kind: KindContent, want: []string{"in the registry, the manifest says"}},
		"a layer declared larger":  {serve: edit(func(m *imgspecv1.Manifest) { m.Layers[0].Size++ }), kind: KindContent, want: []string{"in the registry, the manifest says"}},
		"a layer of size -1":       {serve: edit(func(m *imgspecv1.Manifest) { m.Layers[0].Size = -1 })},
		"too many layers": {serve: edit(func(m *imgspecv1.Manifest) {
			for range 600 {
				m.Layers = append(m.Layers, m.Layers[0])
			}
		}), kind: KindContent, want: []string{"it has 601 layers, at most 512 are read"}},
		"layers elsewhere":     {serve: edit(func(m *imgspecv1.Manifest) { m.Layers[0].URLs = []string{"http://169.254.169.254/latest"} })},
		"an index":             {serve: []manifestResponse{image, index(of(image, "linux", "amd64"))}},
		"an index with more":   {serve: []manifestResponse{image, index(attestation, ofOurs, of(image, "linux", "amd64"), attestation)}},
		"attestations only":    {serve: []manifestResponse{image, index(attestation)}, kind: KindContent, want: []string{"it has no platform linux/amd64; it names none"}},
		"an empty index":       {serve: []manifestResponse{index()}, kind: KindContent, want: []string{"it names none"}},
		"another platform":     {serve: []manifestResponse{image, index(of(image, "linux", "s390x"), of(image, "windows", "amd64"))}, kind: KindContent, want: []string{"it has no platform linux/amd64; it has linux/s390x, windows/amd64"}},
		"very many platforms":  {serve: []manifestResponse{image, index(many...)}, kind: KindContent, want: []string{"windows/arch", "and more"}},
		"an index in an index": {serve: []manifestResponse{image, nested, index(of(nested, "", ""))}},
		"and another index":    {serve: []manifestResponse{image, nested, index(of(index(of(image, "linux", "arm")), "linux", "arm")), index(of(nested, "linux", "amd64"))}},
		"indexes without end":  {serve: deep, kind: KindContent, want: []string{"its image index contains more than 8 image indexes"}},
		"an entry missing":     {serve: []manifestResponse{index(of(image, "linux", "amd64"))}, kind: KindNotFound, want: []string{"read the manifest sha256:"}},
		"a wrong entry":        {serve: []manifestResponse{image, index(imgspecv1.Descriptor{MediaType: image.mediaType, Digest: "sha256:x/../y", Platform: &imgspecv1.Platform{OS: "linux", Architecture: "amd64"}})}, kind: KindContent, want: []string{"it names none"}},
		"a Docker list":        {serve: []manifestResponse{image, {manifest.DockerV2ListMediaType, encodeJSON(t, map[string]any{"schemaVersion": 2, "mediaType": manifest.DockerV2ListMediaType, "manifests": []any{of(image, "linux", "amd64")}})}}},
		"one without platform": {serve: []manifestResponse{image, {manifest.DockerV2ListMediaType, encodeJSON(t, map[string]any{"schemaVersion": 2, "mediaType": manifest.DockerV2ListMediaType, "manifests": []any{of(image, "linux", "arm")}})}}, kind: KindContent, want: []string{"it has linux/arm"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			expectNoLeftovers(t, func() {
				server := newServer(t, func(w http.ResponseWriter, r *http.Request) bool {
					_, version, ok := strings.Cut(r.URL.Path, "/manifests/")
					if !ok || r.Method == http.MethodPut {
						return false
					}
					for i, s := range test.serve {
						if i == len(test.serve)-1 && version == "v1" || version == digest.FromBytes(s.data).String() {
							w.Header()["Content-Type"] = []string{s.mediaType}
							_, _ = w.Write(s.data)
							return true
						}
					}
					w.WriteHeader(http.StatusNotFound)
					return true
				})
				defer server.Close()
				ref := hostOf(server) + "/org/cat:v1"
				pushImage(t, ref, good)
				client := NewClient(Options{Architecture: "amd64", Timeouts: Timeouts{Backoff: time.Microsecond}})
				got, err := pullAndExtract(t.Context(), t, client, ref, "/configs")
				if len(test.want) > 0 {
					wantError(t, err, test.kind, test.want...)
					return
				}
				if err != nil || len(got) != 2 {
					t.Errorf("got %v (%v)", got, err)
				}
			})
		})
	}
}

// TestResolveWithWrongDigestHeader checks responses to HEAD with a wrong digest or without
// one.
func TestResolveWithWrongDigestHeader(t *testing.T) {
	var header atomic.Value
	var status atomic.Int32
	host := newRegistry(t, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodHead || !strings.HasSuffix(r.URL.Path, "/manifests/v1") {
			return false
		}
		w.Header().Set("Docker-Content-Digest", header.Load().(string))
		w.WriteHeader(int(status.Load()))
		return true
	})

	canonical := pushImage(t, host+"/org/cat:v1", catalogImage(t))
	client := NewClient(Options{Timeouts: Timeouts{Backoff: time.Microsecond}})
	for _, test := range []struct {
		header string
		status int
	}{{"", 200}, {"sha256:short", 200}, {"md5:d41d8cd98f00b204e9800998ecf8427e", 200}, {"", 405}, {"", 501}} {
		header.Store(test.header)
		status.Store(int32(test.status))
		if got, err := client.Resolve(t.Context(), host+"/org/cat:v1"); err != nil || got != canonical {
			t.Errorf("%q with %d: got %s (error %v), want %s", test.header, test.status, got, err, canonical)
		}
	}

	header.Store(digest.FromString("a lie").String())
	status.Store(200)
	lie, err := client.Resolve(t.Context(), host+"/org/cat:v1")
	if err != nil {
		t.Fatal(err)
	}

	_, err = client.Pull(t.Context(), lie)
	wantError(t, err, KindNotFound)
}

// TestResolveCostsOneRequest checks that resolving a tag sends one request.
func TestResolveCostsOneRequest(t *testing.T) {
	var requests []string
	host := newRegistry(t, func(_ http.ResponseWriter, r *http.Request) bool {
		requests = append(requests, r.Method+" "+r.URL.Path)
		return false
	})
	pushImage(t, host+"/org/cat:v1", catalogImage(t))
	client := NewClient(Options{})
	requests = nil
	for range 2 {
		if _, err := client.Resolve(t.Context(), host+"/org/cat:v1"); err != nil {
			t.Fatal(err)
		}
	}

	if got := strings.Join(requests, ", "); got != "HEAD /v2/org/cat/manifests/v1, HEAD /v2/org/cat/manifests/v1" {
		t.Errorf("the registry received the requests %s, want two HEAD requests of the manifest", got)
	}
}
