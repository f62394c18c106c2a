package image

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTags(t *testing.T) {
	pages := map[string]string{
		"n=1000":               `{"tags":["b","a"]}`,
		"n=1000&last=a":        `{"tags":["c"]}`,
		"n=1000&last=c&x=loop": `{"tags":["d"]}`,
	}
	next := map[string]string{
		"n=1000":               `</v2/org/release/tags/list?n=1000&last=a>; rel="next"`,
		"n=1000&last=a":        `<https://elsewhere.example.com/v2/?n=1000&last=c&x=loop>; rel=next`,
		"n=1000&last=c&x=loop": `</v2/org/release/tags/list?n=1000&last=c&x=loop>; rel="next"`,
	}
	host := newRegistry(t, func(w http.ResponseWriter, r *http.Request) bool {
		switch r.URL.Path {
		case "/v2/org/release/tags/list":
			w.Header().Set("Link", next[r.URL.RawQuery])
			fmt.Fprint(w, pages[r.URL.RawQuery])
		case "/v2/org/broken/tags/list":
			fmt.Fprint(w, "<html>")
		default:
			return false
		}
		return true
	})

	c := NewClient(Options{Insecure: true})
	tags, err := c.Tags(t.Context(), host+"/org/release")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"b", "a", "c", "d"}, tags); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	for repository, want := range map[string]string{
		host + "/org/broken": "the answer cannot be read", host + "/org/none": "404 Not Found", "A B": "invalid reference format",
	} {
		if _, err := c.Tags(t.Context(), repository); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", repository, err, want)
		}
	}
}

func TestFind(t *testing.T) {
	const a, b = "dir/a", "dir/b"
	for name, c := range map[string]struct {
		layers [][]entry // the last layer is the uppermost one
		want   map[string][]byte
		fails  string
	}{
		"the uppermost layer wins": {
			layers: [][]entry{{{name: a, data: "old"}, {name: b, data: "old"}}, {{name: "./dir/a", data: "new"}}},
			want:   map[string][]byte{a: []byte("new"), b: []byte("old")},
		},
		"the last of a layer wins": {layers: [][]entry{{{name: a, data: "1"}, {name: a, data: "2"}}}, want: map[string][]byte{a: []byte("2")}},
		"missing":                  {layers: [][]entry{{{name: "a", data: "1"}}}, want: map[string][]byte{}},
		"hidden by a whiteout": {
			layers: [][]entry{{{name: a, data: "1"}, {name: b, data: "1"}}, {{name: "dir/.wh.a"}}}, want: map[string][]byte{b: []byte("1")},
		},
		"hidden with its directory": {layers: [][]entry{{{name: a, data: "1"}}, {{name: ".wh.dir"}}}, want: map[string][]byte{}},
		"hidden by an opaque directory": {
			layers: [][]entry{{{name: a, data: "1"}, {name: b, data: "1"}}, {{name: b, data: "2"}, {name: "dir/.wh..wh..opq"}}},
			want:   map[string][]byte{b: []byte("2")},
		},
		"hidden by a file":          {layers: [][]entry{{{name: a, data: "1"}}, {{name: "dir", data: "x"}}}, want: map[string][]byte{}},
		"a directory hides nothing": {layers: [][]entry{{{name: a, data: "1"}}, {{name: "dir/"}}}, want: map[string][]byte{a: []byte("1")}},
		"no regular file":           {layers: [][]entry{{{name: a, kind: '2', link: "b"}}}, fails: "/dir/a is not a regular file"},
		"too large":                 {layers: [][]entry{{{name: a, data: strings.Repeat("x", 101)}}}, fails: "/dir/a has 101 bytes, at most 100 are read"},
		"lower layers are not read": {layers: [][]entry{{{name: a, kind: '2', link: "b"}}, {{name: a, data: "1"}, {name: b, data: "1"}}}, want: map[string][]byte{a: []byte("1"), b: []byte("1")}},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fileFinder{maxBytes: 100, limits: Limits{}.withDefaults(), found: map[string][]byte{}, pending: []string{a, b}}
			var err error
			for _, layer := range slices.Backward(c.layers) {
				if err == nil && len(f.pending) > 0 {
					err = f.searchLayer(strings.NewReader(string(gzipped(t, tarball(t, layer...)))))
				}
			}

			if c.fails != "" {
				if err == nil || err.Error() != c.fails || !isContentError(err) {
					t.Errorf("got %v, want %q", err, c.fails)
				}
				return
			}

			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, f.found); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}

	if err := (&fileFinder{limits: Limits{StreamBytes: 10}.withDefaults(), pending: []string{a}}).searchLayer(strings.NewReader(string(tarball(t, entry{name: "x"})))); err == nil {
		t.Error("got no error for a layer above the limit, want one")
	}
}

// TestFindReadsFewLayers checks that Find works with a registry that lacks the lower
// layers.
func TestFindReadsFewLayers(t *testing.T) {
	var requests []string
	host := newRegistry(t, func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
			requests = append(requests, r.URL.Path)
		}
		return false
	})

	c := NewClient(Options{Insecure: true})
	built, err := Build(Spec{OS: "linux", Architecture: "amd64", Layers: []Layer{
		{Files: []File{{Path: "/base", Content: []byte("large")}}}, {Files: []File{{Path: "/dir/a", Content: []byte("content")}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Push(t.Context(), host+"/some/image:v1", nil, built); err != nil {
		t.Fatal(err)
	}

	img, err := c.Pull(t.Context(), host+"/some/image:v1")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = img.Close() }() // The image was only read.

	requests = nil
	found, err := img.ReadFiles(t.Context(), 100, "dir/a")
	if err != nil || string(found["dir/a"]) != "content" {
		t.Fatalf("got %q (error %v), want content", found, err)
	}
	if len(requests) != 1 {
		t.Errorf("got requests of %d blobs, want 1: %v", len(requests), requests)
	}

	var imageError *Error
	if _, err := img.ReadFiles(t.Context(), 100, "/dir/a"); !errors.As(err, &imageError) || imageError.Kind != KindInvalid {
		t.Errorf("a path with a leading slash: got error %v, want %s", err, KindInvalid)
	}
}

// TestRealRegistryTags lists tags of the distribution registry, page by page and with a
// login.
func TestRealRegistryTags(t *testing.T) {
	r := startRealRegistry(t, realOptions{})
	client := NewClient(r.options(t))
	built := catalogImage(t)
	var want []string
	for i := range 7 {
		tag := fmt.Sprint("v", i)
		if _, err := client.Push(t.Context(), r.host+"/org/release:"+tag, nil, built); err != nil {
			t.Fatal(err)
		}
		want = append(want, tag)
	}

	tags, err := client.Tags(t.Context(), r.host+"/org/release")
	if err != nil {
		t.Fatal(err)
	}

	slices.Sort(tags)
	if diff := cmp.Diff(want, tags); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	var missing *Error
	if _, err := client.Tags(t.Context(), r.host+"/org/none"); !errors.As(err, &missing) || missing.Kind != KindNotFound {
		t.Errorf("a repository that does not exist: got error %v, want %s", err, KindNotFound)
	}
	if _, err := NewClient(Options{RegistriesConf: r.options(t).RegistriesConf, CADir: r.options(t).CADir}).Tags(t.Context(), r.host+"/org/release"); err == nil {
		t.Error("got no error without a login, want one")
	}
}
