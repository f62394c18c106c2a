package content

import (
	"errors"
	"iter"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/mainstay-dev/mainstay/internal/classic/registry/registrypb"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// storedSource returns the blobs of the sample catalog as a Stored source, and whether its blobs were listed.
func storedSource(t *testing.T) (source Stored, wasListed func() bool) {
	t.Helper()
	root, err := sampleSource(t).openRoot()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }() // it was only read
	var blobs []fbc.Meta
	for meta, err := range fbc.Walk(root.FS(), fbc.Limits{}) {
		if err != nil {
			t.Fatal(err)
		}
		meta.Blob = slices.Clone(meta.Blob)
		blobs = append(blobs, meta)
	}

	listed := false
	source = Stored{
		Name: "stored", Sum: "1",
		All: iter.Seq2[fbc.Meta, error](func(yield func(fbc.Meta, error) bool) {
			listed = true
			for _, meta := range blobs {
				if !yield(meta, nil) {
					return
				}
			}
		}),
		Read: func(number uint32) ([]byte, error) { return blobs[number].Blob, nil },
	}

	return source, func() bool { return listed }
}

// listBundles returns all bundles as clients receive them.
func listBundles(t *testing.T, c *Content) []*registrypb.Bundle {
	t.Helper()
	var bundles []*registrypb.Bundle
	for place := range c.Places() {
		sent, err := c.Bundle(place)
		if err != nil {
			t.Fatal(err)
		}
		encoded, err := proto.Marshal(sent)
		if err != nil {
			t.Fatal(err)
		}
		received := &registrypb.Bundle{}
		if err := proto.Unmarshal(encoded, received); err != nil {
			t.Fatal(err)
		}
		bundles = append(bundles, received)
	}

	return bundles
}

// TestStoredSourceHasTheSameBundles compares a Stored source with the folder that it was read from.
func TestStoredSourceHasTheSameBundles(t *testing.T) {
	want := listBundles(t, mustOpen(t, quiet(""), sampleSource(t)))
	dir := t.TempDir()
	cache := with(quiet(dir), func(c *Cache) { c.Integrity = IgnoreIntegrity })
	source, _ := storedSource(t)
	equal := cmp.Comparer(func(a, b *registrypb.Bundle) bool { return proto.Equal(a, b) })
	if diff := cmp.Diff(want, listBundles(t, mustOpen(t, cache, source)), equal); diff != "" {
		t.Errorf("bundles (-folder +stored):\n%s", diff)
	}

	again, wasListed := storedSource(t)
	if diff := cmp.Diff(want, listBundles(t, mustOpen(t, cache, again)), equal); diff != "" {
		t.Errorf("bundles of the cache (-folder +stored):\n%s", diff)
	}
	if wasListed() {
		t.Error("the content was built again, want that of the cache")
	}

	other, wasListed := storedSource(t)
	other.Sum = "2"
	mustOpen(t, cache, other)
	if !wasListed() {
		t.Error("the content of another source was used")
	}
}

// TestStoredSourceFails reads blobs of a source that can no longer be read.
func TestStoredSourceFails(t *testing.T) {
	source, _ := storedSource(t)
	gone := errors.New("gone")
	source.Read = func(uint32) ([]byte, error) { return nil, gone }
	content := mustOpen(t, quiet(""), source)
	for place := range content.Places() {
		var read *ReadError
		if _, err := content.Bundle(place); !errors.As(err, &read) || !errors.Is(err, gone) {
			t.Errorf("bundle %s: %v, want a ReadError", place.Entry.Name, err)
		}
	}
}
