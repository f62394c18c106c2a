package fetch_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/mainstay-dev/mainstay/internal/catalog/fetch"
	"github.com/mainstay-dev/mainstay/internal/catalogstore"
	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/testing/ociregistry"
)

const text = `{"name":"a","schema":"olm.package"}` + "\n"

// fixture is a registry, a store, and a fetcher that connects them.
type fixture struct {
	host, dir string
	store     *catalogstore.Store
	fetcher   *fetch.Fetcher
	puller    *counted
	// blobs counts the requests for parts of images.
	blobs atomic.Int32
}

// counted is a puller that counts the pulls and can block them.
type counted struct {
	fetch.Puller
	pulls atomic.Int32
	// The first channel receives each pull, which then waits for the second one. Both can be nil.
	entered, proceed chan struct{}
}

func (c *counted) Pull(ctx context.Context, ref string) (*image.Image, error) {
	c.pulls.Add(1)
	if c.entered != nil {
		c.entered <- struct{}{}
		<-c.proceed
	}
	return c.Puller.Pull(ctx, ref)
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	s := &fixture{dir: t.TempDir()}
	content := ociregistry.NewHandler()
	s.host = ociregistry.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
			s.blobs.Add(1)
		}
		content.ServeHTTP(w, r)
	})).Host
	var err error
	if s.store, err = catalogstore.Open(s.dir, catalogstore.Limits{}); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(s.store.Close)
	s.puller = &counted{Puller: image.NewClient(image.Options{})}
	s.fetcher = fetch.New(s.puller, s.store)

	return s
}

// push pushes an image and returns its source.
func (s *fixture) push(t *testing.T, spec image.Spec) catalogstore.Source {
	t.Helper()
	ref := s.host + "/test/catalog:v1"
	return catalogstore.Source{Ref: ref, Resolved: ociregistry.Push(t, ref, spec)}
}

func catalogOf(text string) image.Spec {
	return image.CatalogSpec(fstest.MapFS{"p/catalog.json": {Data: []byte(text)}})
}

// served returns the content that is stored under a name.
func (s *fixture) served(t *testing.T, name string) string {
	t.Helper()
	content, err := s.store.Content(name)
	if errors.Is(err, catalogstore.ErrNotFound) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	text, err := io.ReadAll(content.All().Reader())
	if err != nil {
		t.Fatal(err)
	}

	return string(text)
}

// scratch lists the leftover files of unpacked images.
func (s *fixture) scratch(t *testing.T) []os.DirEntry {
	t.Helper()
	left, err := os.ReadDir(filepath.Join(s.dir, ".scratch"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return left
}

func TestFetchStoresACatalogOnce(t *testing.T) {
	s := newFixture(t)
	source := s.push(t, catalogOf(text))
	for range 2 {
		info, err := s.fetcher.Fetch(t.Context(), "c", source)
		if err != nil {
			t.Fatal(err)
		}
		if info.Source != source || info.Blobs != 1 || s.served(t, "c") != text {
			t.Errorf("got stored %+v with %q, want source %+v with one blob", info, s.served(t, "c"), source)
		}
	}

	if pulls := s.puller.pulls.Load(); pulls != 1 {
		t.Errorf("the image was pulled %d times, want once", pulls)
	}

	// Only the stored content remains, and no files of the image.
	files := 0
	err := filepath.WalkDir(s.dir, func(_ string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files++
		}
		return err
	})
	if err != nil || files != 2 || len(s.scratch(t)) > 0 {
		t.Errorf("the store has %d files (%v), want the content and its source", files, err)
	}

	// Another image replaces it.
	source = s.push(t, catalogOf(text+text))
	if info, err := s.fetcher.Fetch(t.Context(), "c", source); err != nil || info.Blobs != 2 {
		t.Errorf("got stored %+v (error %v), want 2 blobs", info, err)
	}
}

// TestConcurrentFetchesPullOnce fetches one catalog twice and another one once, concurrently.
func TestConcurrentFetchesPullOnce(t *testing.T) {
	s := newFixture(t)
	source := s.push(t, catalogOf(text))
	s.puller.entered, s.puller.proceed = make(chan struct{}), make(chan struct{})
	done := make(chan error)
	get := func(name string) { _, err := s.fetcher.Fetch(t.Context(), name, source); done <- err }
	go get("c")
	<-s.puller.entered
	go get("c")
	// Another catalog is pulled concurrently.
	go get("other")
	<-s.puller.entered
	// A call whose context is done does not wait for the others.
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.fetcher.Fetch(canceled, "c", source); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting with a canceled context: got error %v, want context.Canceled", err)
	}

	close(s.puller.proceed)
	for range 3 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}

	if pulls := s.puller.pulls.Load(); pulls != 2 {
		t.Errorf("images were pulled %d times, want once for each catalog", pulls)
	}
}

func TestFetchFailures(t *testing.T) {
	labelled := func(labels map[string]string) image.Spec {
		spec := catalogOf(text)
		spec.Labels = labels
		return spec
	}
	for name, test := range map[string]struct {
		spec    image.Spec
		ref     string
		content bool
		missing bool
		want    string
	}{
		"broken catalog":  {spec: catalogOf(text + "{"), content: true, want: "p/catalog.json: document 2"},
		"no label":        {spec: labelled(nil), content: true, want: "the label operators.operatorframework.io.index.configs.v1, which specifies the directory of the catalog, is missing"},
		"sqlite":          {spec: labelled(map[string]string{"operators.operatorframework.io.index.database.v1": "/db"}), content: true, want: "it contains a SQLite catalog"},
		"no folder":       {spec: labelled(map[string]string{image.LabelConfigs: "/elsewhere"}), content: true, want: "/elsewhere"},
		"image is gone":   {spec: catalogOf(text), ref: "@sha256:" + strings.Repeat("0", 64), missing: true, want: "0000"},
		"not a reference": {spec: catalogOf(text), ref: "!", content: true, want: "!"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t)
			before := s.push(t, catalogOf(text))
			if _, err := s.fetcher.Fetch(t.Context(), "c", before); err != nil {
				t.Fatal(err)
			}

			source := s.push(t, test.spec)
			if test.ref != "" {
				source.Resolved = s.host + "/test/catalog" + test.ref
			}

			_, err := s.fetcher.Fetch(t.Context(), "c", source)
			if err == nil || !strings.Contains(err.Error(), test.want) || fetch.IsContentError(err) != test.content || fetch.IsNotFound(err) != test.missing {
				t.Errorf("got error %v, content error %v, not found %v; want %q, %v, %v", err, fetch.IsContentError(err), fetch.IsNotFound(err), test.want, test.content, test.missing)
			}
			if info, err := s.store.Stored("c"); err != nil || info.Source != before || s.served(t, "c") != text {
				t.Errorf("got stored %+v (error %v), want the previous source %+v", info, err, before)
			}
			if left := s.scratch(t); len(left) > 0 {
				t.Errorf("got leftover files %v of the image, want none", left)
			}
		})
	}
}

// TestAFailureOfTheDiskIsNotOneOfTheImage uses a store whose directory was replaced by a file.
func TestAFailureOfTheDiskIsNotOneOfTheImage(t *testing.T) {
	s := newFixture(t)
	source := s.push(t, catalogOf(text))
	if err := errors.Join(os.RemoveAll(s.dir), os.WriteFile(s.dir, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.fetcher.Fetch(t.Context(), "c", source); err == nil || fetch.IsContentError(err) {
		t.Errorf("got error %v, want one that is not a content error", err)
	}
	if err := os.Remove(s.dir); err != nil {
		t.Fatal(err)
	}
	if _, err := s.fetcher.Fetch(t.Context(), "c", source); err != nil || s.served(t, "c") != text {
		t.Errorf("got error %v after the folder can be created, want none", err)
	}
}
