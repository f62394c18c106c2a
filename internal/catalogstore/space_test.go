package catalogstore_test

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/mainstay-dev/mainstay/internal/catalogstore"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// blobs yields n small blobs with distinct names.
func blobs(n int) iter.Seq2[fbc.Meta, error] {
	return func(yield func(fbc.Meta, error) bool) {
		for i := range n {
			name := fmt.Sprint("n", i)
			blob := fmt.Appendf(nil, `{"schema":"x","name":%q}`, name)
			if !yield(fbc.Meta{Schema: "x", Name: name, Blob: blob}, nil) {
				return
			}
		}
	}
}

// TestCatalogsOfSmallBlobsAreBounded stores catalogs that are small on disk and large in memory.
func TestCatalogsOfSmallBlobsAreBounded(t *testing.T) {
	s, _ := open(t, t.TempDir())
	const most = 299_000
	if info, err := s.Put(t.Context(), "large", catalogstore.Source{}, blobs(most)); err != nil || info.Blobs != most {
		t.Errorf("got %d stored blobs (error %v), want %d", info.Blobs, err, most)
	}

	_, err := s.Put(t.Context(), "too-large", catalogstore.Source{}, blobs(1_000_000))
	var content *fbc.Error
	if want := "has more than 300000 "; !errors.As(err, &content) || !strings.Contains(err.Error(), want) {
		t.Errorf("storing a million blobs: error is %v, want an *fbc.Error with %q", err, want)
	}
}

// TestAllCatalogsHaveOneBound stores catalogs that fit individually, but not together.
func TestAllCatalogsHaveOneBound(t *testing.T) {
	const limit = 8 << 20
	s, err := catalogstore.Open(t.TempDir(), catalogstore.Limits{TotalBytes: limit})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(s.Close)
	large := func(text string) string {
		return fmt.Sprintf(`{"name":"%s","schema":"x","text":%q}`+"\n", text, strings.Repeat(text, 3<<20))
	}
	store := func(name, text string) error {
		_, err := s.Unpack(t.Context(), name, catalogstore.Source{}, files(text))
		return err
	}
	mustBeFull := func(what string, err error) {
		t.Helper()
		var full *catalogstore.FullError
		var content *fbc.Error
		const advice = "of 8Mi are in use, and this catalog needs more; delete catalogs, or raise --catalogs-size-limit and the size of its volume"
		if !errors.As(err, &full) || errors.As(err, &content) || full.Limit != limit || !strings.Contains(err.Error(), advice) {
			t.Errorf("%s: error is %v, want a *FullError that advises %q", what, err, advice)
		}
	}
	if err := errors.Join(store("first", large("a")), store("second", large("b"))); err != nil {
		t.Fatal(err)
	}

	mustBeFull("a third catalog", store("third", large("c")))
	mustBeFull("a larger second catalog", store("second", large("d")))
	if got := read(t, s, "second", catalogstore.Query{}); got != large("b") {
		t.Errorf("got %d other bytes of the second catalog after an update without space, want the previous content", len(got))
	}

	// Deleted content frees space. Content that is being unpacked uses space.
	if err := s.Delete("first"); err != nil {
		t.Fatal(err)
	}
	if err := s.Reserve(4 << 20); err != nil {
		t.Fatal(err)
	}

	mustBeFull("a third catalog while another is unpacked", store("third", large("c")))
	mustBeFull("more of what is unpacked", s.Reserve(4<<20))
	s.Release(4 << 20)
	if err := store("third", large("c")); err != nil {
		t.Errorf("after another was deleted: got error %v, want none", err)
	}
}

// TestOtherCatalogsAreServedWhileOneIsIndexed stores a catalog whose blobs do not end.
func TestOtherCatalogsAreServedWhileOneIsIndexed(t *testing.T) {
	s, _ := open(t, t.TempDir())
	unpack(t, s, "other", lineA)
	reading, release, done := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		_, err := s.Put(t.Context(), "slow", catalogstore.Source{}, func(yield func(fbc.Meta, error) bool) {
			close(reading)
			<-release
			blobs(1)(yield)
		})
		done <- err
	}()

	<-reading
	if got := read(t, s, "other", catalogstore.Query{}); got != lineA {
		t.Errorf("the other catalog has %q, want %q", got, lineA)
	}

	unpack(t, s, "other", lineB)
	if got := read(t, s, "other", catalogstore.Query{}); got != lineB {
		t.Errorf("the other catalog has %q after an update, want %q", got, lineB)
	}

	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
