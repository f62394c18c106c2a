package image

import (
	"archive/tar"
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
	"testing/fstest"

	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// readAllFiles returns files in the format of readTree.
func readAllFiles(t testing.TB, files *Files) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		switch entry.Type() {
		case fs.ModeDir:
			got[name+"/"] = ""
		case fs.ModeSymlink:
			target, err := files.ReadLink(name)
			got[name] = "-> " + target
			return err
		default:
			data, err := fs.ReadFile(files, name)
			got[name] = string(data)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	return got
}

// TestFiles checks that Files is a valid file system, in memory and on disk.
func TestFiles(t *testing.T) {
	for name, size := range map[string]int{"small": 10, "large": maxSpoolMemory} {
		t.Run(name, func(t *testing.T) {
			expectNoLeftovers(t, func() {
				content := incompressibleText(size)
				host := newServer(t, nil)
				defer host.Close()
				layer := tarball(t,
					entry{name: "configs/a/x", data: content, mode: 0o755}, entry{name: "configs/a/y", data: "2"},
					entry{name: "configs/z", data: content}, entry{name: "configs/empty"}, entry{name: "configs/none/"},
					entry{name: "configs/link", kind: tar.TypeSymlink, link: "a"},
					entry{name: "configs/hard", kind: tar.TypeLink, link: "configs/z"},
				)

				ref := pushImage(t, hostOf(host)+"/org/cat:v1", imageOf(t, imgspecv1.MediaTypeImageLayerGzip, gzipped(t, layer)))
				img, err := NewClient(Options{}).Pull(t.Context(), ref)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = img.Close() }()

				files, stats, err := img.Files(t.Context(), "/configs", "")
				if err != nil {
					t.Fatal(err)
				}
				if want := int64(2*size + 1); stats.Bytes != want || stats.Files != 7 {
					t.Errorf("counted %+v, want 7 files with %d bytes", stats, want)
				}

				if size < maxSpoolMemory { // The check reads each file byte by byte.
					if err := fstest.TestFS(files, "a/x", "a/y", "z", "empty", "none", "link", "hard"); err != nil {
						t.Error(err)
					}
				}

				if data, err := fs.ReadFile(files, "hard"); err != nil || string(data) != content {
					t.Errorf("the last file: got %d bytes (error %v), want %d", len(data), err, len(content))
				}
				if data, err := fs.ReadFile(files, "link/x"); err != nil || string(data) != content {
					t.Errorf("through the link: got %d bytes (error %v), want %d", len(data), err, len(content))
				}

				info, err := fs.Stat(files, "a/x")
				if err != nil || info.Mode() != 0o755 {
					t.Errorf("got file info %v (error %v), want mode 755", info, err)
				}
				if err := files.Close(); err != nil {
					t.Error(err)
				}
				if _, err := fs.ReadFile(files, "z"); !errors.Is(err, fs.ErrClosed) {
					t.Errorf("after closing: got error %v, want %v", err, fs.ErrClosed)
				}
			})
		})
	}
}

func TestFilesWithoutSpace(t *testing.T) {
	host := newRegistry(t, nil)
	layer := tarball(t, entry{name: "configs/a", data: incompressibleText(2 * maxSpoolMemory)})
	ref := pushImage(t, host+"/org/cat:v1", imageOf(t, imgspecv1.MediaTypeImageLayer, layer))
	img, err := NewClient(Options{}).Pull(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = img.Close() }()

	_, _, err = img.Files(t.Context(), "/configs", filepath.Join(t.TempDir(), "none"))
	wantError(t, err, KindUnavailable, "write /configs/a", "no such file or directory")
}
