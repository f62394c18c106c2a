package catalogstore_test

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/mainstay-dev/mainstay/internal/catalogstore"
)

// repetitive returns a catalog of 400 KB with a high compression ratio.
func repetitive() string {
	return strings.Repeat(`{"name":"n","schema":"x","text":"`+strings.Repeat("the same again ", 60)+`"}`+"\n", 430)
}

// compressedForm waits for a compressed form and returns it.
func compressedForm(t *testing.T, s *catalogstore.Store, encoding catalogstore.Encoding) []byte {
	t.Helper()
	content, err := s.Content("c")
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	form, ok := content.Compressed(encoding)
	for ; !ok; form, ok = content.Compressed(encoding) {
		if t.Context().Err() != nil {
			t.Fatal("got no compressed form, want one")
		}
	}

	text, err := io.ReadAll(form)
	if err != nil {
		t.Fatal(err)
	}

	return text
}

func decompress(t *testing.T, encoding catalogstore.Encoding, form []byte) string {
	t.Helper()
	var r io.Reader
	var err error
	if encoding == catalogstore.Gzip {
		r, err = gzip.NewReader(strings.NewReader(string(form)))
	} else {
		r, err = zstd.NewReader(strings.NewReader(string(form)))
	}

	if err != nil {
		t.Fatal(err)
	}

	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}

	return string(text)
}

func TestCompressedFormsAreKept(t *testing.T) {
	for _, encoding := range catalogstore.Encodings {
		t.Run(string(encoding), func(t *testing.T) {
			dir := t.TempDir()
			s, _ := open(t, dir)
			unpack(t, s, "c", repetitive())
			path := contentFile(t, s, dir, "c") + "." + string(encoding)
			form := compressedForm(t, s, encoding)
			if got := decompress(t, encoding, form); got != repetitive() {
				t.Errorf("got %d decompressed bytes that differ, want the original content", len(got))
			}

			s.Close()
			made, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}

			// Another process reuses the form.
			again, _ := open(t, dir)
			if got := compressedForm(t, again, encoding); string(got) != string(form) {
				t.Error("got a different compressed form in another process, want the same")
			}
			if now, err := os.Stat(path); err != nil || !os.SameFile(made, now) {
				t.Errorf("the compressed form was created again (error %v), want it to be reused", err)
			}

			// A changed form is created again, whether it is open or not.
			if err := change(path, 20); err != nil {
				t.Fatal(err)
			}
			if got := compressedForm(t, again, encoding); string(got) != string(form) {
				t.Error("got a changed compressed form, want a new one")
			}

			again.Close()
			if err := change(path, -1); err != nil {
				t.Fatal(err)
			}

			third, _ := open(t, dir)
			if got := compressedForm(t, third, encoding); string(got) != string(form) {
				t.Error("got a changed compressed form after a restart, want a new one")
			}

			// The form is removed with its content.
			unpack(t, third, "c", lineA)
			third.Close()
			if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the compressed form of replaced content: got error %v, want ErrNotExist", err)
			}
		})
	}
}

func TestIncompressibleContentIsNotStoredCompressed(t *testing.T) {
	for name, text := range map[string]string{
		"noise": large(1, 300<<10),
		"small": lineA,
	} {
		dir := t.TempDir()
		s, _ := open(t, dir)
		unpack(t, s, "c", text)
		content, err := s.Content("c")
		if err != nil {
			t.Fatal(err)
		}
		defer content.Close()
		for _, encoding := range catalogstore.Encodings {
			content.Compressed(encoding)
		}

		before := tree(t, dir)
		s.Close() // Close waits for compressions that have started.
		for _, encoding := range catalogstore.Encodings {
			if _, ok := content.Compressed(encoding); ok {
				t.Errorf("%s: got a compressed form of encoding %s, want none", name, encoding)
			}
		}

		if after := tree(t, dir); len(after) != 2 {
			t.Errorf("%s: got files %v in the store, want the unchanged %v", name, after, before)
		}
	}
}

// TestReadersKeepACompressedForm replaces and deletes content while it is being read.
func TestReadersKeepACompressedForm(t *testing.T) {
	s, _ := open(t, t.TempDir())
	unpack(t, s, "c", repetitive())
	compressedForm(t, s, catalogstore.Gzip)
	content, err := s.Content("c")
	if err != nil {
		t.Fatal(err)
	}

	form, ok := content.Compressed(catalogstore.Gzip)
	if !ok {
		t.Fatal("got no compressed form, want one")
	}
	if err := s.Delete("c"); err != nil {
		t.Fatal(err)
	}

	text, err := io.ReadAll(form)
	if err != nil || decompress(t, catalogstore.Gzip, text) != repetitive() {
		t.Errorf("got %d bytes (error %v) after the content was deleted, want the compressed form", len(text), err)
	}

	content.Close()
	if _, err := form.ReadAt(make([]byte, 1), 0); !errors.Is(err, os.ErrClosed) {
		t.Errorf("reading closed content: got error %v, want that the file is closed", err)
	}
}
