package image

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// TestHostileLayers pulls malicious layers from a registry.
func TestHostileLayers(t *testing.T) {
	plain := tarball(t, entry{name: "configs/a", data: strings.Repeat("x", 1000)})
	packed := gzipped(t, plain)
	wrongSum := bytes.Clone(packed)
	wrongSum[len(wrongSum)-8] ^= 1
	tests := map[string]struct {
		layer func(w *tar.Writer) error
		raw   []byte
		limit Limits
		want  string
	}{
		"truncated gzip":       {raw: packed[:len(packed)-12], want: "unexpected EOF"},
		"a wrong checksum":     {raw: wrongSum, want: "invalid checksum"},
		"gzip of nothing":      {raw: packed[:3], want: "decompress the archive"},
		"truncated archive":    {raw: gzipped(t, plain[:700]), want: "unexpected EOF"},
		"10 GB of zeros":       {layer: zeros("configs/zeros", 10_000_000_000), want: `the file "/configs/zeros" has 10000000000 bytes, at most 536870912 are accepted`},
		"many files of zeros":  {layer: manyZeros(3, 4<<20), limit: Limits{Bytes: 10 << 20}, want: "the files in /configs have more than 10485760 bytes"},
		"a bomb elsewhere":     {layer: zeros("usr/zeros", 1<<30), limit: Limits{StreamBytes: 1 << 20}, want: "its layers have more than 1048576 bytes when decompressed"},
		"very many files":      {layer: manyFiles(500), limit: Limits{Files: 400}, want: "it has more than 400 files in /configs"},
		"a million files":      {layer: manyElsewhere(20_001), limit: Limits{Entries: 20_000}, want: "its layers have more than 20000 entries"},
		"very long names":      {layer: longNames(200), limit: Limits{NameBytes: 100_000}, want: "the paths in /configs have more than 100000 bytes"},
		"a name without end":   {raw: endlessName(t), want: "header field too long"},
		"a device":             {layer: header(tar.Header{Name: "configs/dev", Typeflag: tar.TypeBlock, Devmajor: 8}), want: "neither a file, a directory nor a link"},
		"a whiteout far away":  {layer: header(tar.Header{Name: "configs/../../.wh.x", Typeflag: tar.TypeReg}), want: "leads upwards"},
		"a link out of itself": {layer: header(tar.Header{Name: "configs/l", Typeflag: tar.TypeLink, Linkname: "../../etc/shadow"}), want: "leads upwards"},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			expectNoLeftovers(t, func() {
				raw := test.raw
				if raw == nil {
					raw = writeLayer(t, test.layer)
				}

				server := newServer(t, nil)
				defer server.Close()
				ref := pushImage(t, hostOf(server)+"/org/cat:v1", imageOf(t, imgspecv1.MediaTypeImageLayerGzip, raw))
				client := NewClient(Options{Limits: test.limit})
				img, err := client.Pull(t.Context(), ref)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = img.Close() }()

				dir := t.TempDir()
				_, err = img.Extract(t.Context(), "/configs", dir)
				wantError(t, err, KindContent, test.want)
				if err := os.RemoveAll(dir); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// endlessName returns an archive whose first entry declares a name of two MiB.
func endlessName(t *testing.T) []byte {
	t.Helper()
	long := tarball(t, entry{name: "pax", data: strings.Repeat("x", 2<<20)})
	long[156] = tar.TypeXHeader
	copy(long[148:156], "        ")
	sum := 0
	for _, b := range long[:512] {
		sum += int(b)
	}

	copy(long[148:156], fmt.Sprintf("%06o\x00 ", sum))
	return gzipped(t, long)
}

func writeLayer(t *testing.T, write func(*tar.Writer) error) []byte {
	t.Helper()
	var out bytes.Buffer
	packed, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}

	w := tar.NewWriter(packed)
	if err := write(w); err != nil {
		t.Fatal(err)
	}

	// The archive can be incomplete, because another fault is rejected before.
	_ = w.Close()
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}

	return out.Bytes()
}

func header(h tar.Header) func(*tar.Writer) error {
	return func(w *tar.Writer) error { return w.WriteHeader(&h) }
}

// zeros starts a file of zeros, of which at most 2 MiB follow.
func zeros(name string, size int64) func(*tar.Writer) error {
	return func(w *tar.Writer) error {
		if err := w.WriteHeader(&tar.Header{Name: name, Size: size}); err != nil {
			return err
		}
		_, err := io.CopyN(w, zeroReader{}, min(size, 2<<20))
		return err
	}
}

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func manyZeros(count int, size int64) func(*tar.Writer) error {
	return func(w *tar.Writer) error {
		for i := range count {
			if err := w.WriteHeader(&tar.Header{Name: fmt.Sprintf("configs/%d", i), Size: size}); err != nil {
				return err
			}
			if _, err := io.CopyN(w, zeroReader{}, size); err != nil {
				return err
			}
		}
		return nil
	}
}

func manyFiles(count int) func(*tar.Writer) error {
	return func(w *tar.Writer) error {
		for i := range count {
			if err := w.WriteHeader(&tar.Header{Name: fmt.Sprintf("configs/%d/%d", i%1000, i)}); err != nil {
				return err
			}
		}
		return nil
	}
}

func manyElsewhere(count int) func(*tar.Writer) error {
	return func(w *tar.Writer) error {
		for i := range count {
			if err := w.WriteHeader(&tar.Header{Name: fmt.Sprintf("usr/%d", i)}); err != nil {
				return err
			}
		}
		return nil
	}
}

func longNames(count int) func(*tar.Writer) error {
	long := strings.Repeat(strings.Repeat("n", 200)+"/", 4)
	return func(w *tar.Writer) error {
		for i := range count {
			if err := w.WriteHeader(&tar.Header{Name: fmt.Sprintf("configs/%s%d", long, i)}); err != nil {
				return err
			}
		}
		return nil
	}
}
