package indexdb

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// largeDatabase creates a database with as many packages as the largest public indexes,
// with thirteen bundles of 20 KB each.
func largeDatabase(b *testing.B, packages int) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "index.db")
	var bundles []Bundle
	filler := strings.Repeat("A description of several KB. ", 700)
	for p := range packages {
		for v := range 13 {
			g := bundleSpec{pkg: fmt.Sprintf("package-%03d", p), version: fmt.Sprintf("1.%d.0", v), channels: "stable,candidate", defaultChannel: "stable"}
			if v > 0 {
				g.replaces = fmt.Sprintf("%s.v1.%d.0", g.pkg, v-1)
			}

			bundle := g.newBundle(b)
			bundle.Objects = append(bundle.Objects, json.RawMessage(`{"kind":"ConfigMap","data":"`+filler+`"}`))
			for i := range 10 {
				bundle.Properties = append(bundle.Properties, fbc.Property{
					Type: fbc.PropertyGVK, Value: json.RawMessage(fmt.Sprintf(`{"group":"g%d.example","kind":"K","version":"v1"}`, i)),
				})
				bundle.RelatedImages = append(bundle.RelatedImages, fmt.Sprintf("registry.example/image-%d:%s", i, g.version))
			}

			bundles = append(bundles, bundle)
		}
	}

	err := Edit(context.Background(), path, EditOptions{CreateIfMissing: true}, func(e *Editor) error {
		return e.Add(context.Background(), bundles, AddOptions{})
	})
	if err != nil {
		b.Fatal(err)
	}

	return path
}

func BenchmarkMetas(b *testing.B) {
	path := largeDatabase(b, 300)
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}

	b.SetBytes(info.Size())
	b.ReportAllocs()
	for b.Loop() {
		index, err := Open(context.Background(), path, Options{})
		if err != nil {
			b.Fatal(err)
		}

		n := 0
		for _, err := range index.Metas(context.Background()) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}

		if n != 300*(1+2+13) {
			b.Fatalf("%d blobs", n)
		}
		if err := index.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPrune(b *testing.B) {
	path := largeDatabase(b, 100)
	content, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}

	for b.Loop() {
		b.StopTimer()
		if err := os.WriteFile(path, content, 0o600); err != nil {
			b.Fatal(err)
		}

		b.StartTimer()
		err := Edit(context.Background(), path, EditOptions{}, func(e *Editor) error {
			return e.PrunePackages(context.Background(), []string{"package-007"}, false)
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAddOne(b *testing.B) {
	path := largeDatabase(b, 300)
	content, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}

	for b.Loop() {
		b.StopTimer()
		if err := os.WriteFile(path, content, 0o600); err != nil {
			b.Fatal(err)
		}

		b.StartTimer()
		err := Edit(context.Background(), path, EditOptions{}, func(e *Editor) error {
			return e.Add(context.Background(), []Bundle{bundleSpec{pkg: "new", version: "1.0.0", channels: "a"}.newBundle(b)}, AddOptions{})
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}
