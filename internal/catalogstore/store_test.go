package catalogstore_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/catalogstore"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

const (
	lineA = `{"name":"a","schema":"olm.package"}` + "\n"
	lineB = `{"name":"a.v1","package":"a","schema":"olm.bundle"}` + "\n"
	lineC = `{"name":"b.v1","package":"b","schema":"olm.bundle"}` + "\n"
)

func files(text string) fstest.MapFS {
	return fstest.MapFS{"catalog.json": {Data: []byte(text)}}
}

// losses are the names of catalogs that a store has reported as lost.
type losses struct {
	mu       sync.Mutex
	names    []string
	reported chan struct{}
}

func (l *losses) add(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.names = append(l.names, name)
	select {
	case l.reported <- struct{}{}:
	default:
	}
}

// all returns the names that were reported so far.
func (l *losses) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.names)
}

// open opens a store that collects the names of lost catalogs.
func open(t *testing.T, dir string) (*catalogstore.Store, *losses) {
	t.Helper()
	s, err := catalogstore.Open(dir, catalogstore.Limits{})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(s.Close)
	lost := &losses{reported: make(chan struct{}, 1)}
	s.OnLost(lost.add)

	return s, lost
}

// contentFile returns the path of the content file of a catalog.
func contentFile(t *testing.T, s *catalogstore.Store, dir, name string) string {
	t.Helper()
	info, err := s.Stored(name)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "content", info.Sum)
}

// tree lists the files of a store.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			rel, _ := filepath.Rel(dir, path)
			list = append(list, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	return list
}

func unpack(t *testing.T, s *catalogstore.Store, name, text string) catalogstore.Info {
	t.Helper()
	info, err := s.Unpack(t.Context(), name, catalogstore.Source{Ref: "r:v1", Resolved: "r@sha256:1"}, files(text))
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// read returns the blobs that a query selects.
func read(t *testing.T, s *catalogstore.Store, name string, q catalogstore.Query) string {
	t.Helper()
	content, err := s.Content(name)
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	return readAll(t, content.Select(q))
}

func readAll(t *testing.T, selection catalogstore.Selection) string {
	t.Helper()
	text, err := io.ReadAll(selection.Reader())
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(text)) != selection.Bytes {
		t.Errorf("got a selection of %d bytes, want %d", selection.Bytes, len(text))
	}

	return string(text)
}

func TestSelectReturnsMatchingBlobs(t *testing.T) {
	s, _ := open(t, t.TempDir())
	unpack(t, s, "c", lineA+lineB+lineC)
	for name, test := range map[string]struct {
		query catalogstore.Query
		want  string
	}{
		"all":               {catalogstore.Query{}, lineA + lineB + lineC},
		"schema":            {catalogstore.Query{Schema: "olm.bundle"}, lineB + lineC},
		"package":           {catalogstore.Query{Package: "a"}, lineB},
		"name":              {catalogstore.Query{Name: "b.v1"}, lineC},
		"package by name":   {catalogstore.Query{Schema: "olm.package", Name: "a"}, lineA},
		"all three":         {catalogstore.Query{Schema: "olm.bundle", Package: "b", Name: "b.v1"}, lineC},
		"nothing matches":   {catalogstore.Query{Schema: "olm.package", Package: "a"}, ""},
		"unknown name":      {catalogstore.Query{Name: "x"}, ""},
		"name of another":   {catalogstore.Query{Package: "olm.bundle"}, ""},
		"apart in the file": {catalogstore.Query{Name: "a.v1", Schema: "olm.bundle"}, lineB},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, read(t, s, "c", test.query)); diff != "" {
				t.Errorf("blobs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSumsNameTheSelectedBytes(t *testing.T) {
	s, _ := open(t, t.TempDir())
	sum := func(q catalogstore.Query) string {
		content, err := s.Content("c")
		if err != nil {
			t.Fatal(err)
		}
		defer content.Close()
		if q == (catalogstore.Query{}) {
			return content.All().Sum
		}

		return content.Select(q).Sum
	}

	unpack(t, s, "c", lineA+lineB)
	all, a, b := sum(catalogstore.Query{}), sum(catalogstore.Query{Package: "a"}), sum(catalogstore.Query{Package: "b"})
	unpack(t, s, "c", lineA+lineB+lineC)
	if sum(catalogstore.Query{}) == all {
		t.Error("got the same sum of all blobs after one was added, want another")
	}
	if sum(catalogstore.Query{Package: "a"}) != a {
		t.Error("got another sum of package a without a change of its blobs, want the same")
	}
	if sum(catalogstore.Query{Package: "b"}) == b {
		t.Error("got the same sum of package b after a blob was added to it, want another")
	}
}

func TestModifiedGrowsWhenTheContentChanges(t *testing.T) {
	s, _ := open(t, t.TempDir())
	first := unpack(t, s, "c", lineA)
	same := unpack(t, s, "c", lineA)
	other := unpack(t, s, "c", lineB)
	if !same.Modified.Equal(first.Modified) {
		t.Errorf("modified at %v, want %v as the content is the same", same.Modified, first.Modified)
	}
	if !other.Modified.Truncate(time.Second).After(first.Modified) {
		t.Errorf("modified at %v, want a later second than %v", other.Modified, first.Modified)
	}
}

func TestModifiedIsThatOfTheReplicaThatSawIt(t *testing.T) {
	s, _ := open(t, t.TempDir())
	since := time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC)
	source := catalogstore.Source{Resolved: "r@sha256:1", Since: since}
	info, err := s.Unpack(t.Context(), "c", source, files(lineA))
	if err != nil || !info.Modified.Equal(since.Truncate(time.Second)) || info.Unpacked.Before(since) {
		t.Errorf("modified at %v and unpacked at %v (%v), want it to be modified at %v", info.Modified, info.Unpacked, err, since)
	}
	// Modified still increases.
	if info, err = s.Unpack(t.Context(), "c", source, files(lineB)); err != nil || !info.Modified.Equal(since.Truncate(time.Second).Add(time.Second)) {
		t.Errorf("modified at %v (%v), want a second later", info.Modified, err)
	}
}

func TestContentOutlivesTheProcess(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, dir)
	want := unpack(t, s, "c", lineA+lineB)
	confirmed := want.Unpacked.Add(time.Hour).Truncate(time.Second)
	if _, err := s.Confirm("c", "r:v1", confirmed); err != nil {
		t.Fatal(err)
	}

	s.Close()
	again, lost := open(t, dir)
	got, err := again.Stored("c")
	if err != nil {
		t.Fatal(err)
	}

	want.Confirmed = confirmed
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("info (-want +got):\n%s", diff)
	}
	if text := read(t, again, "c", catalogstore.Query{}); text != lineA+lineB {
		t.Errorf("got content %q, want %q", text, lineA+lineB)
	}
	if len(lost.all()) > 0 {
		t.Errorf("lost %v, want nothing", lost.all())
	}
}

func TestAReaderKeepsItsContent(t *testing.T) {
	s, _ := open(t, t.TempDir())
	unpack(t, s, "c", lineA)
	content, err := s.Content("c")
	if err != nil {
		t.Fatal(err)
	}

	unpack(t, s, "c", lineB)
	if err := s.Delete("c"); err != nil {
		t.Fatal(err)
	}
	if text := readAll(t, content.All()); text != lineA {
		t.Errorf("got content %q, want %q from when it was opened", text, lineA)
	}

	content.Close()
	content.Close()
	if _, err := content.All().Reader().Read(make([]byte, 1)); !errors.Is(err, os.ErrClosed) {
		t.Errorf("reading closed content: %v, want the file to be closed", err)
	}
}

func TestAFailedUnpackChangesNothing(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, dir)
	unpack(t, s, "c", lineA)
	before := tree(t, dir)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]struct {
		ctx    context.Context
		text   string
		isBad  bool
		reason string
	}{
		"broken JSON": {t.Context(), lineB + "{", true, "catalog.json: document 2"},
		"no schema":   {t.Context(), lineB + `{"name":"x"}`, true, "schema"},
		"canceled":    {canceled, lineB, false, "context canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.Unpack(test.ctx, "c", catalogstore.Source{}, files(test.text))
			var content *fbc.Error
			if err == nil || !strings.Contains(err.Error(), test.reason) || errors.As(err, &content) != test.isBad {
				t.Errorf("error is %v, want %q", err, test.reason)
			}
			if got := read(t, s, "c", catalogstore.Query{}); got != lineA {
				t.Errorf("got content %q, want the previous %q", got, lineA)
			}
			if now := tree(t, dir); !slices.Equal(now, before) {
				t.Errorf("the store has %v, want %v", now, before)
			}
		})
	}
}

func TestUnpackKeepsItsLimits(t *testing.T) {
	for name, test := range map[string]struct {
		limits catalogstore.Limits
		want   string
	}{
		"bytes": {catalogstore.Limits{Bytes: 50}, "the catalog is larger than 50 bytes"},
		"blobs": {catalogstore.Limits{Blobs: 1}, "the catalog has more than 1 blobs"},
		"names": {catalogstore.Limits{Names: 4}, "the catalog has more than 4 different schemas, packages and names after 2 blobs"},
		"index": {catalogstore.Limits{IndexMemory: 1000}, "the index of the catalog requires more than 1000 bytes of memory after 2 blobs"},
		"walk":  {catalogstore.Limits{Walk: fbc.Limits{BlobBytes: 20}}, "is larger than 20 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := catalogstore.Open(t.TempDir(), test.limits)
			if err != nil {
				t.Fatal(err)
			}

			_, err = s.Unpack(t.Context(), "c", catalogstore.Source{}, files(lineA+lineB))
			var content *fbc.Error
			if !errors.As(err, &content) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v (%T), want an *fbc.Error with %q", err, err, test.want)
			}
		})
	}
}

func TestOpenRemovesUnfinishedWork(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, dir)
	unpack(t, s, "c", lineA)
	want := tree(t, dir)
	scratch, err := s.Scratch()
	if err != nil {
		t.Fatal(err)
	}

	for _, leftover := range []string{
		filepath.Join(scratch, "layer"), filepath.Join(dir, "content", ".new-1"), filepath.Join(dir, "catalogs", ".new-1"),
		filepath.Join(dir, "content", strings.Repeat("0", 32)), filepath.Join(dir, "content", strings.Repeat("0", 32)+".gzip"),
	} {
		if err := os.WriteFile(leftover, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	again, _ := open(t, dir)
	if diff := cmp.Diff(want, tree(t, dir)); diff != "" {
		t.Errorf("the store (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"c"}, again.Names()); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func TestNamesDoNotLeaveTheStore(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, filepath.Join(dir, "store"))
	for _, name := range []string{"", ".", "..", "../x", "a/b", ".scratch", "A", "a..b", strings.Repeat("a", 254)} {
		if _, err := s.Unpack(t.Context(), name, catalogstore.Source{}, files(lineA)); err == nil {
			t.Errorf("unpacking as %q: got no error, want one", name)
		}
		if _, err := s.Content(name); !errors.Is(err, catalogstore.ErrNotFound) {
			t.Errorf("content of %q: %v, want ErrNotFound", name, err)
		}
		if err := s.Delete(name); err != nil {
			t.Errorf("deleting %q: %v", name, err)
		}
	}

	if _, err := os.Stat(filepath.Join(dir, "store")); err != nil {
		t.Errorf("the store does not exist anymore: %v", err)
	}
}

func TestDeleteRemovesTheContent(t *testing.T) {
	dir := t.TempDir()
	s, lost := open(t, dir)
	unpack(t, s, "c", lineA)
	if err := s.Delete("c"); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete("c"); err != nil {
		t.Errorf("deleting a catalog that does not exist: got error %v, want none", err)
	}
	if _, err := s.Content("c"); !errors.Is(err, catalogstore.ErrNotFound) {
		t.Errorf("content: %v, want ErrNotFound", err)
	}
	if left := tree(t, dir); len(left) > 0 {
		t.Errorf("the store has %v, want nothing", left)
	}
	if len(lost.all()) > 0 {
		t.Errorf("lost %v, want nothing", lost.all())
	}
}
