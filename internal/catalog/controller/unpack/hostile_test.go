package unpack

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/mainstay-dev/mainstay/internal/catalogstore"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/image"
)

const layerGzip = "application/vnd.oci.image.layer.v1.tar+gzip"

// entry is an entry of an archive with an arbitrary header.
type entry struct {
	tar.Header
	text string
}

// regular returns a file below /configs.
func regular(name, text string) entry {
	return entry{tar.Header{Name: "configs/" + name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(text))}, text}
}

// packed returns a compressed archive.
func packed(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for _, e := range entries {
		if err := w.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.text); err != nil {
			t.Fatal(err)
		}
	}

	// An archive can be shorter than its headers state.
	_ = w.Flush()
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}

	return out.Bytes()
}

// zeros returns a compressed stream of megabytes of zeros.
func zeros(t *testing.T, megabytes int) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	for range megabytes {
		if _, err := z.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}

	if err := z.Close(); err != nil {
		t.Fatal(err)
	}

	return out.Bytes()
}

// aliases returns YAML that expands to 10^9 strings.
func aliases() string {
	var b strings.Builder
	b.WriteString("schema: x\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 9; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	return b.String()
}

// TestHostileImages moves the tag of a served catalog to malicious images. Each image is rejected within the limits,
// the condition states the reason, and the previous content is still served.
func TestHostileImages(t *testing.T) {
	// The limits are the defaults, except for counts that would make the test slow.
	limits := image.Limits{StreamBytes: 32 << 20, Files: 500, Entries: 1000}
	walk := fbc.Limits{BlobBytes: 1 << 20}
	labels := map[string]string{labelConfigs: "/configs"}
	link := func(kind byte, name, target string) entry {
		return entry{tar.Header{Name: "configs/" + name, Typeflag: kind, Linkname: target, Mode: 0o644}, ""}
	}
	var many []entry
	for i := range 1200 {
		many = append(many, regular(fmt.Sprintf("%d.json", i), "{}"))
	}

	cut := packed(t, regular("a.json", strings.Repeat(good, 1000)))
	for name, test := range map[string]struct {
		layer []byte
		want  string
	}{
		"truncated gzip":       {cut[:len(cut)/2], "unexpected EOF"},
		"no archive":           {[]byte(strings.Repeat("no archive", 200)), "read the archive"},
		"a bomb":               {zeros(t, 64), "more than 33554432 bytes when decompressed"},
		"ten gigabytes":        {packed(t, entry{tar.Header{Name: "configs/zeros.json", Typeflag: tar.TypeReg, Size: 10 << 30}, ""}), "configs/zeros.json\" has 10737418240 bytes"},
		"absolute path":        {packed(t, entry{tar.Header{Name: "/configs/a.json", Typeflag: tar.TypeReg, Size: 2}, "{}"}), "/configs/a.json"},
		"path upwards":         {packed(t, regular("../../a.json", good)), "configs/../../a.json"},
		"device":               {packed(t, regular("a.json", good), link(tar.TypeChar, "null", "")), "/configs/null"},
		"block device":         {packed(t, regular("a.json", good), link(tar.TypeBlock, "disk", "")), "/configs/disk"},
		"pipe":                 {packed(t, regular("a.json", good), link(tar.TypeFifo, "pipe", "")), "/configs/pipe"},
		"hard link out":        {packed(t, regular("a.json", good), link(tar.TypeLink, "b.json", "etc/passwd")), "/configs/b.json"},
		"hard link upwards":    {packed(t, regular("a.json", good), link(tar.TypeLink, "b.json", "configs/../../etc/passwd")), "b.json"},
		"symbolic link out":    {packed(t, regular("a.json", good), link(tar.TypeSymlink, "b.json", "/etc/passwd")), "/configs/b.json"},
		"a link to itself":     {packed(t, regular("a.json", good), link(tar.TypeSymlink, "b.json", "b.json")), "b.json"},
		"many files":           {packed(t, many...), "more than"},
		"yaml aliases":         {packed(t, regular("a.yaml", aliases())), "a.yaml"},
		"deep json":            {packed(t, regular("a.json", `{"schema":"x","a":`+strings.Repeat("[", 100_000)+strings.Repeat("]", 100_000)+"}")), "a.json: document 1 (line 1, byte"},
		"deep yaml":            {packed(t, regular("a.yaml", "schema: x\na: "+strings.Repeat("[", 100_000))), "a.yaml"},
		"one long string":      {packed(t, regular("a.json", `{"schema":"x","a":"`+strings.Repeat("x", 2<<20)+`"}`)), "a.json: document 1 (line 1, byte 0): is larger than 1048576 bytes"},
		"a string without end": {packed(t, regular("a.json", `{"schema":"x","a":"`+strings.Repeat("x", 4<<20))), "a.json: document 1 (line 1, byte"},
		"binary":               {packed(t, regular("a.json", string([]byte{0x7f, 0x45, 0x4c, 0x46, 0, 1, 2, 3, 0x80}))), "a.json"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.images, w.limits = limits, catalogstore.Limits{Walk: walk}
			w.start()
			w.pushCatalog("v1", good)
			w.create("v1", 10)
			w.mustReconcile()
			w.pushLayer("v1", labels, layerGzip, test.layer)
			w.expectRefused("False/Blocked: " + test.want)
		})
	}
}

// expectRefused reconciles when the next poll is due, and checks that the image is rejected with a reason and that
// the previous content is still served.
func (w *fixture) expectRefused(want string) {
	w.T.Helper()
	w.clock.SetTime(w.clock.Now().Add(12 * time.Minute))
	if _, err := w.reconcile(); (err != nil) != strings.HasPrefix(want, "True/Retrying") {
		w.T.Errorf("reconciling: got error %v, want %s", err, want)
	}

	w.expect("Progressing "+want, served)
	w.rejection = w.get().Status.Conditions[0].Message
	if got := w.content(); got != good {
		w.T.Errorf("%d bytes are served, want what was before", len(got))
	}
	if left, _ := os.ReadDir(filepath.Join(w.dir, ".scratch")); len(left) > 0 {
		w.T.Errorf("of the image is left %v", left)
	}

	// A valid image is stored again.
	w.override.Store(nil)
	w.pushCatalog("v1", better)
	w.clock.SetTime(w.clock.Now().Add(24 * time.Minute))
	w.mustReconcile()
	w.expect(unpacked, served)
	if got := w.content(); got != better {
		w.T.Errorf("%q is served once the image is good", got)
	}
}

// TestInvalidUTF8 unpacks a catalog with invalid UTF-8. JSON decoders replace the bytes, so that the served content
// is valid UTF-8.
func TestInvalidUTF8(t *testing.T) {
	w := newFixture(t)
	w.push("v1", map[string]string{labelConfigs: "/configs"}, file{path: "configs/a.json", text: "{\"name\":\"a\xff\",\"schema\":\"x\"}"})
	w.create("v1", 0)
	_, err := w.reconcile()
	if got := w.content(); !utf8.ValidString(got) || (err == nil) != (got != "") {
		t.Errorf("got content %q (error %v), want valid UTF-8 or an error", got, err)
	}
}

func TestNoMatchingPlatform(t *testing.T) {
	w := newFixture(t)
	w.pushCatalog("v1", good)
	w.create("v1", 10)
	w.mustReconcile()
	const typeIndex = "application/vnd.oci.image.index.v1+json"
	other := w.pushCatalog("other", better)
	_, sum, _ := strings.Cut(other, "@")
	w.pushManifest("v1", typeIndex, map[string]any{
		"schemaVersion": 2, "mediaType": typeIndex,
		"manifests": []any{map[string]any{
			"mediaType": typeManifest, "digest": sum, "size": 500, "platform": map[string]any{"os": "plan9", "architecture": "mips"},
		}},
	})

	w.expectRefused("False/Blocked: ")
	if !strings.Contains(w.rejection, "plan9/mips") {
		t.Errorf("got message %q, want it to list the platform plan9/mips of the image", w.rejection)
	}
}

// TestARegistryWithWrongContent uses a registry that sends other bytes than those that were pushed. They can have been changed
// in transit, so the pull is retried.
func TestARegistryWithWrongContent(t *testing.T) {
	for name, test := range map[string]struct {
		answer func(rw http.ResponseWriter, layer []byte)
		want   string
	}{
		"other bytes": {func(rw http.ResponseWriter, layer []byte) {
			_, _ = rw.Write(bytes.Repeat([]byte{'x'}, len(layer)))
		}, "True/Retrying: "},
		"one bit": {func(rw http.ResponseWriter, layer []byte) {
			layer[len(layer)-1] ^= 1
			_, _ = rw.Write(layer)
		}, "True/Retrying: "},
		"too much": {func(rw http.ResponseWriter, layer []byte) {
			_, _ = rw.Write(append(layer, layer...))
		}, "True/Retrying: "},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.pushCatalog("v1", good)
			w.create("v1", 10)
			w.mustReconcile()
			// The trailing blank changes the digest of the layer.
			layer := packed(t, regular("p/catalog.json", good+" "))
			w.pushLayer("v1", map[string]string{labelConfigs: "/configs"}, layerGzip, layer)
			answer := func(rw http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/blobs/"+digest(layer)) {
					return false
				}
				test.answer(rw, bytes.Clone(layer))
				return true
			}

			w.override.Store(&answer)
			w.expectRefused(test.want)
			if message := w.rejection; !strings.Contains(message, digest(layer)) {
				t.Errorf("got message %q, want the digest of the layer", message)
			}
		})
	}
}

// TestACatalogForWhichThereIsNoSpace uses a store that is nearly full. The image also requires space while it is
// unpacked.
func TestACatalogForWhichThereIsNoSpace(t *testing.T) {
	w := newFixture(t)
	w.images = image.Limits{}
	w.limits.TotalBytes = 5 << 20
	w.start()
	w.pushCatalog("v1", good)
	w.create("v1", 10)
	w.mustReconcile()
	for name, size := range map[string]int{"to unpack it": 6 << 20, "to store it": 3 << 20} {
		w.clock.SetTime(w.clock.Now().Add(time.Hour))
		w.pushCatalog("v1", fmt.Sprintf(`{"name":"a","schema":"x","text":%q}`, strings.Repeat("a", size)))
		if _, err := w.reconcile(); err == nil {
			t.Errorf("no space %s: got no error, want one", name)
		}

		w.expect("Progressing True/Retrying: ", served)
		const advice = "of 5Mi are in use, and this catalog needs more; delete catalogs, or raise --catalogs-size-limit and the size of its volume"
		if message := w.get().Status.Conditions[0].Message; !strings.Contains(message, "the store of catalogs is full: ") || !strings.HasSuffix(message, advice) {
			t.Errorf("no space %s: got message %q, want that the store is full, with advice", name, message)
		}
		if got := w.content(); got != good {
			t.Errorf("no space %s: got content of %d bytes, want the previous content", name, len(got))
		}
	}
}
