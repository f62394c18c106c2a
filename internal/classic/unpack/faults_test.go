package unpack_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/unpack"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
	"github.com/mainstay-dev/mainstay/internal/testing/mortal"
	"github.com/mainstay-dev/mainstay/internal/testing/ociregistry"
)

// pushArchive pushes an image with one layer of tar headers, each with its content, at the path of the bundle.
func (f *inlineFixture) pushArchive(headers []tar.Header, content string) {
	f.T.Helper()
	var plain, packed bytes.Buffer
	archive, zipped := tar.NewWriter(&plain), gzip.NewWriter(&packed)
	for _, header := range headers {
		text := content
		if header.Typeflag != tar.TypeReg {
			text = ""
		}
		header.Size, header.Mode = int64(len(text)), 0o644
		f.Must(archive.WriteHeader(&header))
		_, err := archive.Write([]byte(text))
		f.Must(err)
	}
	f.Must(archive.Close())
	_, err := zipped.Write(plain.Bytes())
	f.Must(err)
	f.Must(zipped.Close())

	config := fmt.Appendf(nil, `{"os":"linux","architecture":"amd64","rootfs":{"type":"layers","diff_ids":[%q]}}`, digestOf(plain.Bytes()))
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config": map[string]any{"mediaType": "application/vnd.oci.image.config.v1+json", "digest": digestOf(config), "size": len(config)},
		"layers": []any{map[string]any{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": digestOf(packed.Bytes()), "size": packed.Len()}},
	})
	f.Must(err)

	repository := "http://" + f.host + "/v2/" + f.namespace + "/hostile"
	for _, blob := range [][]byte{config, packed.Bytes()} {
		f.sendToRegistry(http.MethodPost, repository+"/blobs/uploads/?digest="+digestOf(blob), "application/octet-stream", blob)
	}
	f.sendToRegistry(http.MethodPut, repository+"/manifests/v1", "application/vnd.oci.image.manifest.v1+json", manifest)
	f.lookup.Path = f.host + "/" + f.namespace + "/hostile@" + digestOf(manifest)
}

func (f *inlineFixture) sendToRegistry(method, url, kind string, body []byte) {
	f.T.Helper()
	request, err := http.NewRequestWithContext(f.T.Context(), method, url, bytes.NewReader(body))
	f.Must(err)
	request.Header.Set("Content-Type", kind)
	response, err := http.DefaultClient.Do(request)
	f.Must(err)
	_ = response.Body.Close() // It was not read.
	if response.StatusCode != http.StatusCreated {
		f.T.Fatalf("%s %s: got %s, want 201", method, url, response.Status)
	}
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// A malformed bundle and a hostile archive fail with a clear reason, their content is not stored, and the unpack recovers
// when the image is replaced.
func TestInlineMalformed(t *testing.T) {
	annotations := newBundleTree("")
	for name, test := range map[string]struct {
		tree    fstest.MapFS
		archive []tar.Header
		want    string
	}{
		"no metadata": {tree: fstest.MapFS{"manifests/csv.yaml": {Data: []byte(csv)}}, want: "reading the bundle: metadata: file does not exist"},
		"too large a file": {
			tree: fstest.MapFS{"metadata/annotations.yaml": annotations["metadata/annotations.yaml"], "manifests/csv.yaml": {Data: make([]byte, 17<<20)}},
			want: "16777216",
		},
		"too large a bundle": {
			tree: fstest.MapFS{"metadata/annotations.yaml": annotations["metadata/annotations.yaml"], "manifests/csv.yaml": {Data: randomBytes(3 << 20)}},
			want: "limit",
		},
		"a link to another file": {
			archive: []tar.Header{{Name: "metadata/annotations.yaml", Typeflag: tar.TypeReg}, {Name: "manifests/csv.yaml", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}},
			want:    "symbolic link",
		},
		"a link to another folder": {
			archive: []tar.Header{{Name: "metadata/annotations.yaml", Typeflag: tar.TypeReg}, {Name: "manifests", Typeflag: tar.TypeSymlink, Linkname: "/etc"}},
			want:    "symbolic link",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newInlineFixture(t)
			if test.archive != nil {
				f.pushArchive(test.archive, string(annotations["metadata/annotations.yaml"].Data))
			} else {
				f.push(test.tree)
			}
			f.until("it failed", func(r unpack.Result) bool { return unpack.Condition(&r.Lookup, v1alpha1.BundleLookupFailed) != nil })
			c := unpack.Condition(&f.lookup, v1alpha1.BundleLookupFailed)
			if c.Reason != "BackoffLimitExceeded" || !strings.HasPrefix(c.Message, "Job has reached the specified backoff limit: ") || !strings.Contains(c.Message, test.want) {
				t.Errorf("got the condition %s: %s, want %q in it", c.Reason, c.Message, test.want)
			}

			var stored corev1.ConfigMapList
			f.Must(f.List(t.Context(), &stored, client.InNamespace("default"), client.MatchingLabels{unpack.LabelCatalogNamespace: f.namespace}))
			if len(stored.Items) > 0 {
				t.Errorf("got %d ConfigMaps, want none", len(stored.Items))
			}

			f.push(newBundleTree(csv))
			f.until("it is unpacked", isDone)
		})
	}
}

// randomBytes returns content that does not compress.
func randomBytes(n int) []byte {
	var out []byte
	for sum := sha256.Sum256(nil); len(out) < n; sum = sha256.Sum256(sum[:]) {
		out = append(out, sum[:]...)
	}
	return out
}

// gate is a registry that does not answer until it is opened.
type gate struct {
	next   http.Handler
	opened chan struct{}

	mu      sync.Mutex
	waiting int
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	g.waiting++
	g.mu.Unlock()
	select {
	case <-g.opened:
		g.next.ServeHTTP(w, r)
	case <-r.Context().Done():
	}
}

func (g *gate) hasWaiting() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waiting > 0
}

// A registry that does not answer delays neither the caller nor bundles of other registries, also of the same catalog.
// When it answers, its bundles are unpacked.
func TestInlineRegistryDoesNotAnswer(t *testing.T) {
	f := newInlineFixture(t)
	f.Trust = f.trust()
	f.push(newBundleTree(csv))
	good := f.lookup
	g := &gate{next: ociregistry.NewHandler(), opened: make(chan struct{})}
	open := sync.OnceFunc(func() { close(g.opened) })
	t.Cleanup(open) // The server ends only after its requests.
	host := ociregistry.Serve(t, g).Host

	dead := make([]v1alpha1.BundleLookup, 8)
	for i := range dead {
		dead[i] = *good.DeepCopy()
		dead[i].Path = fmt.Sprintf("%s/%s/kettle:v%d", host, f.namespace, i)
		f.lookup = dead[i]
		f.unpack(unpack.Limits{})
		f.expect(v1alpha1.BundleLookupPending, "JobIncomplete", "unpack job not completed")
		dead[i] = f.lookup
	}

	f.eventually("a request waits", g.hasWaiting)
	f.lookup = good
	f.until("the bundle of the other registry is unpacked", isDone)

	open()
	f.host = host
	for i := range dead {
		built := f.build(newBundleTree(csv))
		_, err := f.puller.Push(t.Context(), dead[i].Path, nil, built)
		f.Must(err)
	}
	for i := range dead {
		f.lookup = dead[i]
		f.until("the bundle is unpacked", isDone)
	}
}

// A program that stops before or after it writes the content of a bundle is followed by one that finishes.
func TestInlineKilledAtEachWrite(t *testing.T) {
	f := newInlineFixture(t)
	f.push(newBundleTree(csv))
	lookup := f.lookup
	for _, writes := range []int64{0, 1} {
		// The program with no writes left fails to write, the other one stops after its write.
		failed := make(chan struct{})
		life := mortal.Start(t.Context(), env.Start(t), writes, func(ctx context.Context, connection *rest.Config) {
			defer close(failed)
			c, err := client.New(connection, client.Options{Scheme: f.Scheme()})
			if err != nil {
				return
			}
			inline := unpack.NewInline(unpack.InlineOptions{Client: c, Reader: c, Namespace: "default", Registries: f.registries})
			u := &unpack.Unpacker{Catalogs: c, Trust: unpack.Trust{Operator: "default"}, Inline: inline}
			for own := lookup; ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
				result, err := u.Unpack(ctx, f.namespace, own, tenMinutes)
				if own = result.Lookup; err != nil || result.Done || strings.Contains(own.Conditions[len(own.Conditions)-1].Message, mortal.ErrDead.Error()) {
					return
				}
			}
		})
		<-failed
		life.Kill()
		var stored corev1.ConfigMapList
		f.Must(f.List(t.Context(), &stored, client.InNamespace("default"), client.MatchingLabels{unpack.LabelCatalogNamespace: f.namespace}))
		if int64(len(stored.Items)) != writes {
			t.Fatalf("after %d writes: got %d ConfigMaps", writes, len(stored.Items))
		}
	}

	f.lookup = lookup
	result := f.until("it is unpacked", isDone)
	if got := result.Steps[0].Resource.Name; got != "kettle.v1" {
		t.Errorf("got a step that installs %s, want kettle.v1", got)
	}
}
