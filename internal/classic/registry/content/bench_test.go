package content

import (
	"testing"

	"github.com/mainstay-dev/mainstay/bench/generate"
)

func generated(b *testing.B) (Folder, int64) {
	b.Helper()
	source := Folder{Dir: b.TempDir()}
	size, err := generate.Catalog(source.Dir, generate.MB10)
	if err != nil {
		b.Fatal(err)
	}
	return source, size
}

func BenchmarkBuild(b *testing.B) {
	source, size := generated(b)
	b.SetBytes(size)
	for b.Loop() {
		content, err := quiet("").Open(b.Context(), source)
		if err != nil {
			b.Fatal(err)
		}
		if err := content.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// The check of a cache reads the whole cache and its whole source.
func BenchmarkLoad(b *testing.B) {
	source, size := generated(b)
	dir := b.TempDir()
	fill(b, dir, source)
	b.SetBytes(size)
	for b.Loop() {
		content, err := quiet(dir).Open(b.Context(), source)
		if err != nil {
			b.Fatal(err)
		}
		if err := content.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
