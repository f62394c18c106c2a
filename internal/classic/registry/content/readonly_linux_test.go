package content

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// asNobody runs a function with the file permissions of a user who owns nothing. Tests often run as root, for which file modes
// do not apply.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	if os.Getuid() == 0 {
		const nobody = 65534
		// The thread of the goroutine changes its user. It ends with the goroutine.
		done := make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread()
			if err := syscall.Setfsuid(nobody); err != nil {
				t.Error(err)
				return
			}
			f()
		}()

		<-done

		return
	}

	f()
}

// shut makes a folder and its content read-only until the test ends.
func shut(t *testing.T, dir string) {
	t.Helper()
	set := func(folder, file fs.FileMode) {
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if entry.IsDir() {
				return os.Chmod(path, folder)
			}
			return os.Chmod(path, file)
		})
		if err != nil {
			t.Fatal(err)
		}
	}

	set(0o555, 0o444)
	t.Cleanup(func() { set(0o755, 0o644) })
}

func TestReadOnlyCache(t *testing.T) {
	for _, test := range []struct {
		name  string
		spoil func(t *testing.T, dir string, source Folder)
		// temporary means that a temporary folder is used.
		temporary bool
		cache     Cache
		// denied means that opening fails.
		denied bool
	}{
		{name: "valid"},
		{name: "invalid", spoil: func(t *testing.T, dir string, _ Folder) { flip(t, dir, 0) }, cache: Cache{Integrity: IgnoreIntegrity}, temporary: true},
		{name: "empty", spoil: func(t *testing.T, dir string, _ Folder) { remove(t, filepath.Join(dir, Format)) }, cache: Cache{Integrity: IgnoreIntegrity}, temporary: true},
		{name: "of the established opm", spoil: func(t *testing.T, dir string, _ Folder) {
			remove(t, filepath.Join(dir, Format))
			if err := os.MkdirAll(filepath.Join(dir, "pogreb.v1/db"), 0o755); err != nil {
				t.Fatal(err)
			}
		}, temporary: true},
		{name: "to be filled", spoil: func(t *testing.T, dir string, _ Folder) { flip(t, dir, 0) }, cache: Cache{BuildOnly: true}, denied: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			tmp := t.TempDir()
			if err := os.Chmod(tmp, 0o777|fs.ModeSticky); err != nil {
				t.Fatal(err)
			}

			t.Setenv("TMPDIR", tmp)
			source, dir := sampleSource(t), t.TempDir()
			// The parent of all folders of a test is private.
			if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
				t.Fatal(err)
			}

			fill(t, dir, source)
			if test.spoil != nil {
				test.spoil(t, dir, source)
			}

			shut(t, dir)
			var log bytes.Buffer
			asNobody(t, func() {
				c := test.cache
				c.Dir, c.Log = dir, slog.New(slog.NewTextHandler(&log, nil))
				content, err := c.Open(t.Context(), source)
				if test.denied {
					if !errors.Is(err, fs.ErrPermission) {
						t.Errorf("got error %v", err)
					}
					return
				}

				if err != nil {
					t.Error(err)
					return
				}
				if n := len(content.packages); n != 2 {
					t.Errorf("got %d packages", n)
				}
				if isTemporary := content.temporaryDir != ""; isTemporary != test.temporary {
					t.Errorf("got a temporary folder: %t", isTemporary)
				}
				if err := content.Close(); err != nil {
					t.Error(err)
				}
			})
			if warned := strings.Contains(log.String(), `level=WARN msg="cache directory cannot be written, using a temporary one"`); warned != test.temporary {
				t.Errorf("got a warning: %t, the log\n%s", warned, &log)
			}
			if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
				t.Errorf("got remaining files %v, error %v", left, err)
			}
		})
	}
}
