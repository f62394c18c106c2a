package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/catalog/store"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

const (
	lineA = `{"schema":"olm.package","name":"a"}` + "\n"
	lineB = `{"schema":"olm.bundle","package":"a","name":"a.v1"}` + "\n"
	lineC = `{"schema":"olm.bundle","package":"b","name":"b.v1"}` + "\n"
)

func files(text string) fstest.MapFS {
	return fstest.MapFS{"catalog.json": {Data: []byte(text)}}
}

// open opens a store that collects the names of lost catalogs.
func open(t *testing.T, dir string) (*store.Store, *[]string) {
	t.Helper()
	s, err := store.Open(dir, store.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	lost := &[]string{}
	s.OnLost(func(name string) { *lost = append(*lost, name) })
	return s, lost
}

func unpack(t *testing.T, s *store.Store, name, text string) store.Info {
	t.Helper()
	info, err := s.Unpack(t.Context(), name, store.Source{Ref: "r:v1", Resolved: "r@sha256:1"}, files(text))
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// read gives what a query selects.
func read(t *testing.T, s *store.Store, name string, q store.Query) string {
	t.Helper()
	content, err := s.Content(name)
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	return readAll(t, content.Select(q))
}

func readAll(t *testing.T, selection store.Selection) string {
	t.Helper()
	text, err := io.ReadAll(selection.Reader())
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(text)) != selection.Bytes {
		t.Errorf("selection says %d bytes and has %d", selection.Bytes, len(text))
	}
	return string(text)
}

func TestSelectGivesTheBlobsThatMatch(t *testing.T) {
	s, _ := open(t, t.TempDir())
	unpack(t, s, "c", lineA+lineB+lineC)
	for name, test := range map[string]struct {
		query store.Query
		want  string
	}{
		"all":               {store.Query{}, lineA + lineB + lineC},
		"schema":            {store.Query{Schema: "olm.bundle"}, lineB + lineC},
		"package":           {store.Query{Package: "a"}, lineB},
		"name":              {store.Query{Name: "b.v1"}, lineC},
		"package by name":   {store.Query{Schema: "olm.package", Name: "a"}, lineA},
		"all three":         {store.Query{Schema: "olm.bundle", Package: "b", Name: "b.v1"}, lineC},
		"nothing matches":   {store.Query{Schema: "olm.package", Package: "a"}, ""},
		"nothing is so":     {store.Query{Name: "x"}, ""},
		"name of another":   {store.Query{Package: "olm.bundle"}, ""},
		"apart in the file": {store.Query{Name: "a.v1", Schema: "olm.bundle"}, lineB},
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
	sum := func(q store.Query) string {
		content, err := s.Content("c")
		if err != nil {
			t.Fatal(err)
		}
		defer content.Close()
		if q == (store.Query{}) {
			return content.All().Sum
		}
		return content.Select(q).Sum
	}
	unpack(t, s, "c", lineA+lineB)
	all, a, b := sum(store.Query{}), sum(store.Query{Package: "a"}), sum(store.Query{Package: "b"})
	unpack(t, s, "c", lineA+lineB+lineC)
	if sum(store.Query{}) == all {
		t.Error("the sum of all blobs is the same after one was added")
	}
	if sum(store.Query{Package: "a"}) != a {
		t.Error("the sum of package a differs though its blobs do not")
	}
	if sum(store.Query{Package: "b"}) == b {
		t.Error("the sum of package b is the same after a blob was added to it")
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
	if text := read(t, again, "c", store.Query{}); text != lineA+lineB {
		t.Errorf("content is %q", text)
	}
	if len(*lost) > 0 {
		t.Errorf("lost %v, want nothing", *lost)
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
		t.Errorf("content is %q, want what it was when it was opened", text)
	}
	content.Close()
	content.Close()
	if _, err := content.All().Reader().Read(make([]byte, 1)); !errors.Is(err, os.ErrClosed) {
		t.Errorf("reading closed content: %v, want the file to be closed", err)
	}
}

func TestDamageIsNoticedAndHealed(t *testing.T) {
	const text = lineA + lineB
	for name, test := range map[string]struct {
		damage func(dir, file string) error
		// served is what readers get until the content is stored again.
		served string
	}{
		"folder deleted": {func(dir, _ string) error { return os.RemoveAll(dir) }, text},
		"store deleted":  {func(dir, _ string) error { return os.RemoveAll(filepath.Dir(dir)) }, text},
		"file deleted":   {func(_, file string) error { return os.Remove(file) }, text},
		"file replaced": {func(_, file string) error {
			return errors.Join(os.Remove(file), os.WriteFile(file, []byte("x"), 0o600))
		}, text},
		"file cut off":  {func(_, file string) error { return os.Truncate(file, 20) }, ""},
		"file emptied":  {func(_, file string) error { return os.Truncate(file, 0) }, ""},
		"blobs changed": {func(_, file string) error { return change(file, 12) }, ""},
		"index changed": {func(_, file string) error { return change(file, int64(len(text))+30) }, ""},
		"trailer changed": {func(_, file string) error {
			info, err := os.Stat(file)
			if err != nil {
				return err
			}
			return change(file, info.Size()-10)
		}, ""},
		"other version": {func(_, file string) error {
			info, err := os.Stat(file)
			if err != nil {
				return err
			}
			return change(file, info.Size()-85)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			s, lost := open(t, dir)
			unpack(t, s, "c", text)
			if err := test.damage(filepath.Join(dir, "c"), filepath.Join(dir, "c", "content")); err != nil {
				t.Fatal(err)
			}
			s.Check()
			s.Check()
			if diff := cmp.Diff([]string{"c"}, *lost); diff != "" {
				t.Errorf("lost (-want +got):\n%s", diff)
			}
			var damaged *store.DamagedError
			if _, err := s.Stored("c"); !errors.As(err, &damaged) {
				t.Errorf("stored: %v, want a *store.DamagedError", err)
			}
			if got := s.Serves("c"); got != (test.served != "") {
				t.Errorf("serves is %v", got)
			}
			if test.served != "" {
				if got := read(t, s, "c", store.Query{}); got != test.served {
					t.Errorf("served %q, want %q", got, test.served)
				}
			}
			unpack(t, s, "c", text)
			if _, err := s.Stored("c"); err != nil {
				t.Errorf("stored after it was unpacked again: %v", err)
			}
			if got := read(t, s, "c", store.Query{}); got != text {
				t.Errorf("served %q after it was unpacked again", got)
			}
		})
	}
}

// change flips a bit of a file in place.
func change(file string, offset int64) error {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, offset); err != nil {
		return err
	}
	b[0] ^= 1
	if _, err := f.WriteAt(b, offset); err != nil {
		return err
	}
	// The clock of a file system may be too coarse to show a change right after.
	return os.Chtimes(file, time.Time{}, time.Now().Add(time.Minute))
}

func TestAFailedUnpackChangesNothing(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, dir)
	unpack(t, s, "c", lineA)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]struct {
		ctx    context.Context
		text   string
		isBad  bool
		reason string
	}{
		"broken JSON": {t.Context(), lineB + "{", true, "catalog.json: document 2"},
		"no schema":   {t.Context(), lineB + `{"name":"x"}`, true, "has no schema"},
		"canceled":    {canceled, lineB, false, "context canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.Unpack(test.ctx, "c", store.Source{}, files(test.text))
			var content *fbc.Error
			if err == nil || !strings.Contains(err.Error(), test.reason) || errors.As(err, &content) != test.isBad {
				t.Errorf("error is %v, want %q", err, test.reason)
			}
			if got := read(t, s, "c", store.Query{}); got != lineA {
				t.Errorf("content is %q, want what it was", got)
			}
			entries, err := os.ReadDir(filepath.Join(dir, "c"))
			if err != nil || len(entries) != 1 {
				t.Errorf("the folder has %v (%v), want the content file alone", entries, err)
			}
		})
	}
}

func TestUnpackKeepsItsLimits(t *testing.T) {
	for name, test := range map[string]struct {
		limits store.Limits
		want   string
	}{
		"bytes": {store.Limits{Bytes: 50}, "the catalog is larger than 50 bytes"},
		"index": {store.Limits{IndexBytes: 90}, "the index of the catalog is larger than 90 bytes after 2 blobs"},
		"walk":  {store.Limits{Walk: fbc.Limits{BlobBytes: 20}}, "is larger than 20 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := store.Open(t.TempDir(), test.limits)
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.Unpack(t.Context(), "c", store.Source{}, files(lineA+lineB))
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
	scratch, err := s.Scratch()
	if err != nil {
		t.Fatal(err)
	}
	leftover := filepath.Join(dir, "c", ".new-1")
	if err := os.WriteFile(leftover, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	again, _ := open(t, dir)
	for _, path := range []string{scratch, leftover} {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v, want it to be gone", path, err)
		}
	}
	names, err := again.Names()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"c"}, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func TestNamesDoNotLeaveTheStore(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, filepath.Join(dir, "store"))
	for _, name := range []string{"", ".", "..", "../x", "a/b", ".scratch", "A", "a..b", strings.Repeat("a", 254)} {
		if _, err := s.Unpack(t.Context(), name, store.Source{}, files(lineA)); err == nil {
			t.Errorf("unpacking as %q: no error", name)
		}
		if _, err := s.Content(name); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("content of %q: %v, want ErrNotFound", name, err)
		}
		if err := s.Delete(name); err != nil {
			t.Errorf("deleting %q: %v", name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "store")); err != nil {
		t.Errorf("the store is gone: %v", err)
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
		t.Errorf("deleting what is not there: %v", err)
	}
	if _, err := s.Content("c"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("content: %v, want ErrNotFound", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("the store has %v (%v), want nothing", entries, err)
	}
	if len(*lost) > 0 {
		t.Errorf("lost %v, want nothing", *lost)
	}
}

// FuzzOpen looks for content files that break the reader.
func FuzzOpen(f *testing.F) {
	dir := f.TempDir()
	s, err := store.Open(dir, store.Limits{})
	if err != nil {
		f.Fatal(err)
	}
	if _, err := s.Unpack(f.Context(), "c", store.Source{}, files(lineA+lineB)); err != nil {
		f.Fatal(err)
	}
	good, err := os.ReadFile(filepath.Join(dir, "c", "content"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte("MAINCAT1"))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		if err := errors.Join(os.Mkdir(filepath.Join(dir, "c"), 0o700), os.WriteFile(filepath.Join(dir, "c", "content"), text, 0o600)); err != nil {
			t.Fatal(err)
		}
		s, err := store.Open(dir, store.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		info, err := s.Stored("c")
		var damaged *store.DamagedError
		if err != nil && !errors.As(err, &damaged) {
			t.Fatalf("error is %v (%T), want a *store.DamagedError", err, err)
		}
		if err == nil && !bytes.Equal(text, good) && info.Blobs == 0 && info.Bytes > 0 {
			t.Errorf("content without an index was taken: %+v", info)
		}
	})
}

// BenchmarkUnpack reads a catalog of about 20 MB and stores it.
func BenchmarkUnpack(b *testing.B) {
	fsys := fstest.MapFS{}
	total := 0
	for p := range 100 {
		var text bytes.Buffer
		fmt.Fprintf(&text, "{\"schema\":\"olm.package\",\"name\":\"p%d\",\"defaultChannel\":\"stable\"}\n", p)
		for v := range 40 {
			fmt.Fprintf(&text, "{\"schema\":\"olm.bundle\",\"package\":\"p%d\",\"name\":\"p%d.v%d\",\"properties\":[{\"type\":\"olm.csv.metadata\",\"value\":{\"description\":\"%s\"}}]}\n",
				p, p, v, strings.Repeat(`some \"quoted\" text with a line break\n`, 120))
		}
		fsys[fmt.Sprintf("p%d/catalog.json", p)] = &fstest.MapFile{Data: text.Bytes()}
		total += text.Len()
	}
	s, err := store.Open(b.TempDir(), store.Limits{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	b.SetBytes(int64(total))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Unpack(b.Context(), "c", store.Source{}, fsys); err != nil {
			b.Fatal(err)
		}
	}
}
