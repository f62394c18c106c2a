package image

import (
	"bytes"
	"io/fs"
	"os"
	"testing"

	"github.com/mainstay-dev/mainstay/bench/generate"
)

// largeCatalog is the image of a catalog like the large public ones.
func largeCatalog(b *testing.B) Spec {
	b.Helper()
	dir := b.TempDir()
	if _, err := generate.Catalog(dir, generate.Size{Packages: 300, Bundles: 4000}); err != nil {
		b.Fatal(err)
	}
	return CatalogSpec(os.DirFS(dir))
}

func buildBench(b *testing.B, spec Spec) *Built {
	b.Helper()
	built, err := Build(spec)
	if err != nil {
		b.Fatal(err)
	}
	return built
}

// BenchmarkUnpack measures unpacking a catalog image that is read once: on disk, and as
// Files.
func BenchmarkUnpack(b *testing.B) {
	built := buildBench(b, largeCatalog(b))
	layer := built.layers[0].data
	b.Logf("the layer has %d MB", len(layer)/1e6)
	readAll := func(b *testing.B, fsys fs.FS) {
		total := int64(0)
		err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			data, err := fs.ReadFile(fsys, name)
			total += int64(len(data))
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(total)
	}

	b.Run("directory", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			dir, err := os.MkdirTemp(b.TempDir(), "")
			if err != nil {
				b.Fatal(err)
			}

			root, err := os.OpenRoot(dir)
			if err != nil {
				b.Fatal(err)
			}

			unpackBench(b, diskDirectory{root}, layer)
			readAll(b, root.FS())
			if err := root.Close(); err != nil {
				b.Fatal(err)
			}
			if err := os.RemoveAll(dir); err != nil {
				b.Fatal(err)
			}
		}
	})

	b.Run("files", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			files := newSpooledFiles(b.TempDir())
			unpackBench(b, files, layer)
			if err := files.spool.flush(); err != nil {
				b.Fatal(err)
			}

			readAll(b, files)
			if err := files.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})

	b.Run("decompression alone", func(b *testing.B) {
		for b.Loop() {
			plain, release, err := decompressLayer(bytes.NewReader(layer))
			if err != nil {
				b.Fatal(err)
			}

			var used int64
			m := &meteredReader{r: plain, used: &used, limit: gib}
			buffer := make([]byte, 64<<10)
			for err == nil {
				_, err = m.Read(buffer)
			}

			release()
			b.SetBytes(used)
		}
	})
}

func unpackBench(b *testing.B, to destination, layer []byte) {
	b.Helper()
	x, err := newUnpacker(to, "/configs", Limits{})
	if err != nil {
		b.Fatal(err)
	}
	if err := x.applyLayer(bytes.NewReader(layer)); err != nil {
		b.Fatal(err)
	}
	if err := x.checkAppliedLayers(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkBuild builds the image of a large catalog.
func BenchmarkBuild(b *testing.B) {
	spec := largeCatalog(b)
	b.ReportAllocs()
	for b.Loop() {
		buildBench(b, spec)
	}
}
