package content

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

var compareIndexes = cmp.AllowUnexported(index{}, Package{}, Channel{}, Entry{}, bundle{}, span{}, apiProviders{}, customBlob{})

// sample is an index with a value in every field.
func sample() *index {
	return &index{
		packages: []Package{
			{
				Name: "a", DefaultChannel: "stable", Deprecation: "gone", blob: span{0, 10}, firstBundle: 0, endBundle: 2,
				Channels: []Channel{
					{Name: "beta", head: -1, Entries: []Entry{}},
					{Name: "stable", Deprecation: "old", head: 1, Entries: []Entry{
						{Name: "a.v1", bundle: 0},
						{Name: "a.v2", Replaces: "a.v1", Skips: []string{"a.v0", "a.v1"}, SkipRange: "<2.0.0", bundle: 1},
					}},
				},
			},
			{Name: "b", firstBundle: 2, endBundle: 2, Channels: []Channel{}},
			{Name: "c", firstBundle: 2, endBundle: 3, Channels: []Channel{{Name: "x", Entries: []Entry{{Name: "c.v1", bundle: 2}}}}},
		},
		bundles: []bundle{
			{blob: span{10, 20}, summary: span{70, 10}, hasImage: true},
			{deprecation: "bad", blob: span{30, 20}, summary: span{80, 10}},
			{blob: span{50, 20}, summary: span{90, 10}},
		},
		providedAPIs: []apiProviders{
			{gvk: fbc.GVK{Group: "g", Kind: "A", Version: "v1"}, bundles: []uint32{0, 1, 2}},
			{gvk: fbc.GVK{Group: "g", Kind: "B", Version: "v1"}, bundles: []uint32{2}},
		},
		customBlobs: []customBlob{{schema: "s", blob: span{1, 2}}, {schema: "s", pkg: "a", blob: span{3, 4}}, {schema: "s", pkg: "a", blob: span{0, 4}}},
	}
}

func TestIndexRoundTrip(t *testing.T) {
	for name, want := range map[string]*index{
		"full":  sample(),
		"empty": {packages: []Package{}, bundles: []bundle{}, providedAPIs: []apiProviders{}, customBlobs: []customBlob{}},
	} {
		got, err := decodeIndex(want.encode(), 100)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got, compareIndexes); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestInvalidIndexesAreRefused(t *testing.T) {
	for name, spoil := range map[string]func(*index){
		"packages out of order":    func(ix *index) { ix.packages[0].Name = "z" },
		"a package twice":          func(ix *index) { ix.packages[1].Name = "a" },
		"channels out of order":    func(ix *index) { ix.packages[0].Channels[0].Name = "z" },
		"entries out of order":     func(ix *index) { ix.packages[0].Channels[1].Entries[0].Name = "z" },
		"a missing head":           func(ix *index) { ix.packages[0].Channels[0].head = 0 },
		"another package's bundle": func(ix *index) { ix.packages[0].Channels[1].Entries[0].bundle = 2 },
		"too few bundles":          func(ix *index) { ix.bundles = ix.bundles[:2] },
		"too many bundles":         func(ix *index) { ix.bundles = append(ix.bundles, bundle{}) },
		"a span after the data":    func(ix *index) { ix.bundles[0].blob = span{90, 11} },
		"an offset after the data": func(ix *index) { ix.customBlobs[0].blob = span{101, 0} },
		"APIs out of order":        func(ix *index) { slices.Reverse(ix.providedAPIs) },
		"providers out of order":   func(ix *index) { ix.providedAPIs[0].bundles = []uint32{1, 0} },
		"a provider twice":         func(ix *index) { ix.providedAPIs[0].bundles = []uint32{1, 1} },
		"a missing provider":       func(ix *index) { ix.providedAPIs[0].bundles = []uint32{3} },
		"customs out of order":     func(ix *index) { slices.Reverse(ix.customBlobs) },
	} {
		ix := sample()
		spoil(ix)
		if _, err := decodeIndex(ix.encode(), 100); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}

	whole := sample().encode()
	for n := range whole {
		if _, err := decodeIndex(whole[:n], 100); err == nil {
			t.Errorf("the first %d of %d bytes are accepted", n, len(whole))
		}
	}

	if _, err := decodeIndex(append(slices.Clip(whole), 0), 100); err == nil {
		t.Error("a byte too many is accepted")
	}
}

func FuzzDecodeIndex(f *testing.F) {
	f.Add(sample().encode(), uint64(100))
	f.Add((&index{}).encode(), uint64(0))
	f.Fuzz(func(t *testing.T, text []byte, data uint64) {
		ix, err := decodeIndex(text, data)
		if err != nil {
			return
		}

		again, err := decodeIndex(ix.encode(), data)
		if err != nil {
			t.Fatalf("an accepted index is rejected when it is encoded again: %v", err)
		}
		if diff := cmp.Diff(ix, again, compareIndexes); diff != "" {
			t.Fatalf("the encoded index differs (-first +second):\n%s", diff)
		}

		// All queries of an accepted index return without a panic.
		for place := range ix.Places() {
			if ix.Package(place.Package.Name) != place.Package || place.Package.Channel(place.Channel.Name) != place.Channel ||
				place.Channel.Entry(place.Entry.Name) != place.Entry {
				t.Fatalf("%s, %s, %s is not found", place.Package.Name, place.Channel.Name, place.Entry.Name)
			}
			_ = place.Channel.Head()
			_ = ix.bundles[place.Entry.bundle]
		}

		for _, a := range ix.providedAPIs {
			for place := range ix.Providers(a.gvk) {
				if !slices.Contains(a.bundles, place.Entry.bundle) {
					t.Fatalf("%s does not provide %v", place.Entry.Name, a.gvk)
				}
			}
		}

		for _, c := range ix.customBlobs {
			if len(ix.findCustomBlobs(c.schema, c.pkg)) == 0 {
				t.Fatalf("no blobs of the schema %q and the package %q", c.schema, c.pkg)
			}
		}
	})
}

func FuzzDecodeTrailer(f *testing.F) {
	f.Add(trailer{dataLength: 100, sourceSum: 1, fileSum: 2}.encodeTrailer(), int64(1000))
	f.Fuzz(func(t *testing.T, text []byte, size int64) {
		if size < int64(trailerSize) {
			return
		}

		decoded, err := decodeTrailer(text, size)
		if err != nil {
			return
		}
		if !bytes.Equal(decoded.encodeTrailer(), text) {
			t.Error("the encoded trailer differs")
		}
		if index := size - int64(trailerSize) - int64(decoded.dataLength); index < 0 || index > maxIndexBytes {
			t.Errorf("an index of %d bytes is accepted", index)
		}
	})
}

func TestTrailerSizeLimits(t *testing.T) {
	const rest = 1000
	for _, test := range []struct {
		data, size uint64
		ok         bool
	}{
		{0, rest, true}, {rest, rest, true}, {rest + 1, rest, false}, {math.MaxUint64, rest, false}, {1 << 63, rest, false},
		{rest, rest + maxIndexBytes, true}, {rest, rest + maxIndexBytes + 1, false},
	} {
		_, err := decodeTrailer(trailer{dataLength: test.data}.encodeTrailer(), int64(test.size)+int64(trailerSize))
		if ok := err == nil; ok != test.ok {
			t.Errorf("got %d bytes of data in a file of %d: %v", test.data, test.size, err)
		}
	}
}

func TestQueries(t *testing.T) {
	ix := sample()
	names := func(places func(func(Place) bool)) (found []string) {
		for p := range places {
			found = append(found, p.Package.Name+"/"+p.Channel.Name+"/"+p.Entry.Name)
		}
		return found
	}

	for _, test := range []struct {
		name   string
		places func(func(Place) bool)
		want   []string
	}{
		{"all", ix.Places(), []string{"a/stable/a.v1", "a/stable/a.v2", "c/x/c.v1"}},
		{"of an API of two packages", ix.Providers(fbc.GVK{Group: "g", Kind: "A", Version: "v1"}), []string{"a/stable/a.v1", "a/stable/a.v2", "c/x/c.v1"}},
		{"of an API of one", ix.Providers(fbc.GVK{Group: "g", Kind: "B", Version: "v1"}), []string{"c/x/c.v1"}},
		{"of an unknown API", ix.Providers(fbc.GVK{Group: "g", Kind: "B", Version: "v2"}), nil},
	} {
		if diff := cmp.Diff(test.want, names(test.places)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
		for range test.places {
			break // The consumer may want no more.
		}
	}

	if head := ix.packages[0].Channels[0].Head(); head != nil {
		t.Errorf("got the head %v of a channel without entries", head)
	}
	if ix.Package("d") != nil || ix.packages[0].Channel("d") != nil || ix.packages[0].Channels[1].Entry("d") != nil {
		t.Error("a missing package, channel or entry is found")
	}
	if n := len(ix.findCustomBlobs("s", "a")); n != 2 {
		t.Errorf("got %d blobs, want 2", n)
	}
	if n := len(ix.findCustomBlobs("s", "")); n != 1 {
		t.Errorf("got %d blobs without a package, want 1", n)
	}
}

func TestBundlesAreListedByChannelFirst(t *testing.T) {
	ix := sample()
	ix.packages[2].Channels[0].Name = "a-channel"
	var got []string
	for p := range ix.PlacesByChannel() {
		got = append(got, p.Channel.Name+"/"+p.Package.Name+"/"+p.Entry.Name)
	}

	want := []string{"a-channel/c/c.v1", "stable/a/a.v1", "stable/a/a.v2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
