package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// unpack applies layers in a directory and as Files, and checks that both have the same
// result.
func unpack(t testing.TB, prefix string, limits Limits, layers ...[]byte) (string, Stats, error) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "target")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}

	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()

	stats, err := unpackTo(diskDirectory{root}, prefix, limits, layers)

	files := newSpooledFiles(t.TempDir())
	defer func() { _ = files.Close() }()
	other, otherErr := unpackTo(files, prefix, limits, layers)
	if diff := cmp.Diff(redactedErrorText(err), redactedErrorText(otherErr)); diff != "" {
		t.Errorf("errors (-directory +files):\n%s", diff)
	}
	if err != nil {
		return dir, stats, err
	}
	if diff := cmp.Diff(stats, other); diff != "" {
		t.Errorf("counted (-directory +files):\n%s", diff)
	}
	if diff := cmp.Diff(readTree(t, dir), readAllFiles(t, files)); diff != "" {
		t.Errorf("files (-directory +files):\n%s", diff)
	}

	return dir, stats, nil
}

func unpackTo(to destination, prefix string, limits Limits, layers [][]byte) (Stats, error) {
	x, err := newUnpacker(to, prefix, limits)
	if err != nil {
		return Stats{}, err
	}

	for _, layer := range layers {
		if err := x.applyLayer(bytes.NewReader(layer)); err != nil {
			return x.stats, err
		}
	}
	return x.stats, x.checkAppliedLayers()
}

// redactedErrorText returns the text of an error without the parts that depend on the file system.
func redactedErrorText(err error) string {
	if err == nil {
		return ""
	}
	text, _, _ := strings.Cut(err.Error(), "cannot be followed")
	return text
}

func TestUnpack(t *testing.T) {
	base := []entry{{name: "configs/"}, {name: "configs/a/"}, {name: "configs/a/x", data: "1"}, {name: "configs/a/y", data: "2"}, {name: "configs/b", data: "3"}}
	tests := map[string]struct {
		prefix string
		layers [][]entry
		want   map[string]string
	}{
		"only files below the prefix": {
			layers: [][]entry{{{name: "etc/passwd", data: "no"}, {name: "configs-not/x", data: "no"}, {name: "configs/x", data: "yes"}}},
			want:   map[string]string{"x": "yes"},
		},
		"all of a bundle": {
			prefix: "/",
			layers: [][]entry{{{name: "./manifests/csv.yaml", data: "c"}}, {{name: "metadata/annotations.yaml", data: "a"}}},
			want:   map[string]string{"manifests/": "", "manifests/csv.yaml": "c", "metadata/": "", "metadata/annotations.yaml": "a"},
		},
		"an image without files": {prefix: "/", want: map[string]string{}},
		"an empty prefix directory": {
			layers: [][]entry{{{name: "configs/"}}}, want: map[string]string{},
		},
		"later layers win": {
			layers: [][]entry{base, {{name: "configs/b", data: "new"}}},
			want:   map[string]string{"a/": "", "a/x": "1", "a/y": "2", "b": "new"},
		},
		"a whiteout hides a file": {
			layers: [][]entry{base, {{name: "configs/a/.wh.x"}}},
			want:   map[string]string{"a/": "", "a/y": "2", "b": "3"},
		},
		"a whiteout hides a directory": {
			layers: [][]entry{base, {{name: "configs/.wh.a"}}},
			want:   map[string]string{"b": "3"},
		},
		"a whiteout does not hide files of its own layer": {
			layers: [][]entry{base, {{name: "configs/a/z", data: "own"}, {name: "configs/.wh.a"}}},
			want:   map[string]string{"a/": "", "a/z": "own", "b": "3"},
		},
		"an opaque directory hides lower layers": {
			layers: [][]entry{base, {{name: "configs/a/z", data: "own"}, {name: "configs/a/.wh..wh..opq"}}},
			want:   map[string]string{"a/": "", "a/z": "own", "b": "3"},
		},
		"an opaque prefix": {
			layers: [][]entry{base, {{name: "configs/.wh..wh..opq"}}},
			want:   map[string]string{},
		},
		"an opaque parent of the prefix": {
			prefix: "/a/configs",
			layers: [][]entry{{{name: "a/configs/old", data: "1"}}, {{name: "a/.wh..wh..opq"}, {name: "a/configs/new", data: "2"}}},
			want:   map[string]string{"new": "2"},
		},
		"a hidden parent that is created again": {
			layers: [][]entry{base, {{name: ".wh.configs"}}, {{name: "configs/n", data: "n"}}},
			want:   map[string]string{"n": "n"},
		},
		"whiteouts of missing files": {
			layers: [][]entry{base[4:], {{name: "configs/.wh.q"}, {name: "configs/q/.wh..wh..opq"}, {name: "configs/b/.wh.x"}, {name: ".wh..wh.plnk"}}},
			want:   map[string]string{"b": "3"},
		},
		"a file replaces a directory": {
			layers: [][]entry{base, {{name: "configs/a", data: "file"}}},
			want:   map[string]string{"a": "file", "b": "3"},
		},
		"a directory replaces a file": {
			layers: [][]entry{base[4:], {{name: "configs/b/"}, {name: "configs/b/c", data: "4"}}},
			want:   map[string]string{"b/": "", "b/c": "4"},
		},
		"a file's implied parent replaces a file": {
			layers: [][]entry{base[4:], {{name: "configs/b/c", data: "4"}}},
			want:   map[string]string{"b/": "", "b/c": "4"},
		},
		"the prefix as a file, then as a directory": {
			layers: [][]entry{base, {{name: "configs", data: "file"}}, {{name: "configs/n", data: "n"}}},
			want:   map[string]string{"n": "n"},
		},
		"links inside are kept, relative": {
			layers: [][]entry{base, {
				{name: "configs/abs", kind: tar.TypeSymlink, link: "/configs/a/x"},
				{name: "configs/a/rel", kind: tar.TypeSymlink, link: "../../configs/b"},
				{name: "configs/top", kind: tar.TypeSymlink, link: "/configs"},
				{name: "configs/dangling", kind: tar.TypeSymlink, link: "none"},
			}},
			want: map[string]string{
				"a/": "", "a/x": "1", "a/y": "2", "b": "3", "abs": "-> a/x", "a/rel": "-> ../b", "top": "-> .", "dangling": "-> none",
			},
		},
		"writing through a link inside": {
			layers: [][]entry{base, {{name: "configs/l", kind: tar.TypeSymlink, link: "a"}, {name: "configs/l/z", data: "z"}}},
			want:   map[string]string{"a/": "", "a/x": "1", "a/y": "2", "a/z": "z", "b": "3", "l": "-> a"},
		},
		"a file below a link to its own directory": {
			layers: [][]entry{{{name: "configs/l", kind: tar.TypeSymlink, link: "/configs"}, {name: "configs/l/l", data: "1"}}},
			want:   map[string]string{"l/": "", "l/l": "1"},
		},
		"a link is replaced, not followed, by a file": {
			layers: [][]entry{base, {{name: "configs/l", kind: tar.TypeSymlink, link: "b"}}, {{name: "configs/l", data: "own"}}},
			want:   map[string]string{"a/": "", "a/x": "1", "a/y": "2", "b": "3", "l": "own"},
		},
		"a hard link, whose replacement does not change the other name": {
			layers: [][]entry{base[4:], {{name: "configs/h", kind: tar.TypeLink, link: "configs/b"}}, {{name: "configs/h", data: "new"}}},
			want:   map[string]string{"b": "3", "h": "new"},
		},
		"a hard link with an absolute name, and one to itself": {
			layers: [][]entry{base[4:], {{name: "configs/h", kind: tar.TypeLink, link: "/configs/b"}, {name: "configs/b", kind: tar.TypeLink, link: "configs/b"}}},
			want:   map[string]string{"b": "3", "h": "3"},
		},
		"devices elsewhere are skipped": {
			layers: [][]entry{{{name: "/", kind: tar.TypeDir}, {name: "dev/null", kind: tar.TypeChar}, {name: "configs/a", data: "1"}}},
			want:   map[string]string{"a": "1"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var layers [][]byte
			for _, entries := range test.layers {
				layers = append(layers, tarball(t, entries...))
			}
			prefix := test.prefix
			if prefix == "" {
				prefix = "/configs"
			}
			dir, _, err := unpack(t, prefix, Limits{}, layers...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, readTree(t, dir)); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnpackRefuses(t *testing.T) {
	deep := strings.Repeat("d/", 70) + "x"
	chain := []entry{{name: "configs/9", data: "x"}}
	for i := range 9 {
		chain = append(chain, entry{name: fmt.Sprintf("configs/%d", i), kind: tar.TypeSymlink, link: strconv.Itoa(i + 1)})
	}

	tests := map[string]struct {
		prefix  string
		limits  Limits
		entries []entry
		want    string
	}{
		"traversal":                     {entries: []entry{{name: "configs/../../x", data: "1"}}, want: `the path "configs/../../x" leads upwards`},
		"traversal outside of prefix":   {entries: []entry{{name: "../x", data: "1"}}, want: `the path "../x" leads upwards`},
		"absolute path":                 {entries: []entry{{name: "/etc/passwd", data: "1"}}, want: `the path "/etc/passwd" is not relative`},
		"symbolic link out":             {entries: []entry{{name: "configs/l", kind: tar.TypeSymlink, link: "../etc/passwd"}}, want: `the symbolic link "/configs/l" points to "../etc/passwd", outside of /configs`},
		"symbolic link far out":         {prefix: "/", entries: []entry{{name: "l", kind: tar.TypeSymlink, link: "../../etc/passwd"}}, want: `the symbolic link "/l" points to "../../etc/passwd"`},
		"absolute symbolic link out":    {entries: []entry{{name: "configs/l", kind: tar.TypeSymlink, link: "/etc/passwd"}}, want: `points to "/etc/passwd", outside of /configs`},
		"symbolic link to nothing":      {entries: []entry{{name: "configs/l", kind: tar.TypeSymlink}}, want: `the symbolic link "/configs/l" has no usable target`},
		"hard link out":                 {entries: []entry{{name: "etc/passwd", data: "1"}, {name: "configs/l", kind: tar.TypeLink, link: "etc/passwd"}}, want: `the hard link "/configs/l" points to "etc/passwd", outside of /configs`},
		"hard link upwards":             {entries: []entry{{name: "configs/l", kind: tar.TypeLink, link: "../x"}}, want: `leads upwards`},
		"hard link to nothing":          {entries: []entry{{name: "configs/l", kind: tar.TypeLink, link: "configs/n"}}, want: `not a file before it`},
		"hard link to a symbolic link":  {entries: []entry{{name: "configs/s", kind: tar.TypeSymlink, link: "x"}, {name: "configs/l", kind: tar.TypeLink, link: "configs/s"}}, want: `not a file before it`},
		"hard link to a directory":      {entries: []entry{{name: "configs/d/"}, {name: "configs/l", kind: tar.TypeLink, link: "configs/d"}}, want: `not a file before it`},
		"hard link below its target":    {entries: []entry{{name: "configs/f", data: "1"}, {name: "configs/f/l", kind: tar.TypeLink, link: "configs/f"}}, want: `replaces what it points to`},
		"hard link over its own parent": {entries: []entry{{name: "configs/d/f", data: "1"}, {name: "configs/d", kind: tar.TypeLink, link: "configs/d/f"}}, want: `replaces what it points to`},
		"a chain of links out":          {prefix: "/", entries: []entry{{name: "d/e/up", kind: tar.TypeSymlink, link: ".."}, {name: "d/e/up/out", kind: tar.TypeSymlink, link: "../../x"}}, want: `the symbolic link "/d/out" cannot be followed inside`},
		"a long chain of links":         {entries: chain, want: `cannot be followed`},
		"a loop of links":               {entries: []entry{{name: "configs/a", kind: tar.TypeSymlink, link: "b"}, {name: "configs/b", kind: tar.TypeSymlink, link: "a"}}, want: `cannot be followed`},
		"character device":              {entries: []entry{{name: "configs/null", kind: tar.TypeChar}}, want: `"/configs/null" is neither a file, a directory nor a link`},
		"block device":                  {entries: []entry{{name: "configs/sda", kind: tar.TypeBlock}}, want: `neither a file`},
		"pipe":                          {entries: []entry{{name: "configs/pipe", kind: tar.TypeFifo}}, want: `neither a file`},
		"whiteout of the parent":        {entries: []entry{{name: "configs/.wh..."}}, want: `names nothing that could be hidden`},
		"whiteout of nothing":           {entries: []entry{{name: "configs/.wh."}}, want: `names nothing that could be hidden`},
		"no prefix":                     {entries: []entry{{name: "etc/passwd"}}, want: `no directory /configs`},
		"prefix hidden":                 {entries: []entry{{name: "configs", data: "x"}}, want: `/configs is not a directory but a file or a link`},
		"prefix is a link":              {entries: []entry{{name: "configs", kind: tar.TypeSymlink, link: "data"}}, want: `/configs is not a directory`},
		"too deep":                      {entries: []entry{{name: deep}}, want: `elements, at most 64`},
		"path too long":                 {limits: Limits{PathBytes: 100}, entries: []entry{{name: strings.Repeat("p", 101)}}, want: `at most 100`},
		"path element too long":         {entries: []entry{{name: strings.Repeat("p", 256)}}, want: `at most 255`},
		"too many files":                {limits: Limits{Files: 2}, entries: []entry{{name: "configs/a"}, {name: "configs/b"}, {name: "configs/c"}}, want: `more than 2 files in /configs`},
		"too many entries elsewhere":    {limits: Limits{Entries: 2}, entries: []entry{{name: "a"}, {name: "b"}, {name: "c"}}, want: `more than 2 entries`},
		"a file too large":              {limits: Limits{FileBytes: 3}, entries: []entry{{name: "configs/a", data: "1234"}}, want: `the file "/configs/a" has 4 bytes, at most 3`},
		"files too large together":      {limits: Limits{Bytes: 5}, entries: []entry{{name: "configs/a", data: "123"}, {name: "configs/b", data: "456"}}, want: `the files in /configs have more than 5 bytes`},
		"a bomb outside of the prefix":  {limits: Limits{StreamBytes: 1 << 20}, entries: []entry{{name: "bomb", data: strings.Repeat("0", 2<<20)}, {name: "configs/a"}}, want: `more than 1048576 bytes when decompressed`},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			prefix := test.prefix
			if prefix == "" {
				prefix = "/configs"
			}

			dir, _, err := unpack(t, prefix, test.limits, gzipped(t, tarball(t, test.entries...)))
			wantError(t, wrapOperationError("extract", "example.com/x:1", err), KindContent, test.want)
			assertContained(t, dir)
		})
	}
}

func TestUnpackBrokenArchives(t *testing.T) {
	plain := tarball(t, entry{name: "configs/a", data: strings.Repeat("data", 1000)})
	packed := gzipped(t, plain)
	tests := map[string]struct {
		layer []byte
		want  string
	}{
		"cut within a file":           {plain[:1000], `is truncated in the file "/configs/a"`},
		"cut within a header":         {plain[:300], "unexpected EOF"},
		"cut gzip":                    {packed[:len(packed)-30], "unexpected EOF"},
		"cut gzip checksum":           {packed[:len(packed)-4], "unexpected EOF"},
		"not an archive":              {bytes.Repeat([]byte("no archive"), 100), "invalid tar header"},
		"xz":                          {[]byte("\xfd7zXZ\x00data"), "only gzip, zstd and plain archives"},
		"broken zstd":                 {[]byte("\x28\xb5\x2f\xfd\xff\xff\xff\xff"), "read the archive"},
		"gzip followed by other data": {append(bytes.Clone(packed), "trailing"...), "read the archive"},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, _, err := unpack(t, "/configs", Limits{}, test.layer)
			wantError(t, wrapOperationError("extract", "example.com/x:1", err), KindContent, test.want)
		})
	}
}

func TestUnpackStatsAndModes(t *testing.T) {
	dir, stats, err := unpack(t, "configs", Limits{}, tarball(t,
		entry{name: "configs/", mode: 0o700}, entry{name: "configs/run", data: "12", mode: 0o4755}, entry{name: "configs/read", data: "345", mode: 0o400}))
	if err != nil {
		t.Fatal(err)
	}
	if want := (Stats{Files: 3, Bytes: 5}); stats != want {
		t.Errorf("got %+v, want %+v", stats, want)
	}

	for name, want := range map[string]fs.FileMode{"run": 0o755, "read": 0o644} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != want {
			t.Errorf("%s has mode %v, want %v", name, info.Mode(), want)
		}
	}
}

func TestUnpackerRefusesPrefix(t *testing.T) {
	for _, prefix := range []string{"", "..", "/../x", "a//b/../../.."} {
		_, err := newUnpacker(nil, prefix, Limits{})
		wantError(t, wrapOperationError("extract", "x", err), KindInvalid, "not a path inside of an image")
	}
}

// assertContained fails the test if the parent of the target has other files, or if a link
// of the target leads outside.
func assertContained(t testing.TB, dir string) {
	t.Helper()
	siblings, err := os.ReadDir(filepath.Dir(dir))
	if err != nil {
		t.Fatal(err)
	}
	if len(siblings) != 1 {
		t.Fatalf("got files %v next to the target, want only the target", siblings)
	}
}

var fuzzLimits = Limits{Bytes: 1 << 20, FileBytes: 1 << 18, StreamBytes: 1 << 22, Files: 200, Entries: 1000}

func fuzzLayers(t *testing.T, layers ...[]byte) {
	for _, prefix := range []string{"/", "/c"} {
		dir, stats, err := unpack(t, prefix, fuzzLimits, layers...)
		assertContained(t, dir)
		if err != nil {
			if !isContentError(err) {
				t.Fatalf("got error %v, want a content error", err)
			}
			continue
		}

		if stats.Bytes > fuzzLimits.Bytes || stats.Files > fuzzLimits.Files {
			t.Fatalf("got %+v, want it within the limits", stats)
		}

		assertLinksInside(t, dir)
	}
}

// FuzzUnpackBytes unpacks two layers of arbitrary bytes.
func FuzzUnpackBytes(f *testing.F) {
	f.Add(tarball(f, entry{name: "c/a", data: "1"}), tarball(f, entry{name: "c/.wh.a"}))
	f.Add(tarball(f, entry{name: "c/h", kind: tar.TypeLink, link: "c/a"}), gzipped(f, tarball(f, entry{name: "../x"})))
	f.Add([]byte("\x28\xb5\x2f\xfd"), []byte{})
	f.Fuzz(func(t *testing.T, lower, upper []byte) { fuzzLayers(t, lower, upper) })
}

// FuzzUnpackEntries unpacks well-formed archives with arbitrary entries. Each line of the
// script is an entry (its kind, its name, "|" and its target or content) or "=", which
// begins another layer.
func FuzzUnpackEntries(f *testing.F) {
	f.Add("5c/|\n0c/a|1\n=\n0c/.wh.a|\n0c/b|2")
	f.Add("2c/l|/c/a\n0c/l/x|1\n=\n0c/l|2")
	f.Add("5c/d/e/|\n2c/d/e/up|..\n2c/d/e/up/o|../x\n0c/o/y|1")
	f.Add("0c/a|1\n1c/h|c/a\n=\n0c/.wh..wh..opq|\n1c/a|c/h")
	f.Add("0c|\n1c/0|c")
	f.Add("2c/l|/c\n0c/l/l")
	f.Add("2c/d/l|../..\n2c/s|d/l/..\n0c/s/evil|1\n3c/dev|\n0../x|")
	f.Fuzz(func(t *testing.T, script string) {
		var layers [][]byte
		var entries []entry
		for line := range strings.Lines(script) {
			line = strings.TrimSuffix(line, "\n")
			if line == "=" {
				layers, entries = append(layers, tarball(t, entries...)), nil
				continue
			}

			name, rest, _ := strings.Cut(line, "|")
			if len(name) < 2 || strings.ContainsRune(line, 0) || !utf8.ValidString(line) {
				continue
			}

			e := entry{name: name[1:], link: rest}
			if name[0] != tar.TypeDir {
				e.name = strings.TrimRight(e.name, "/")
			}

			switch name[0] {
			case tar.TypeReg:
				e.link, e.data = "", rest
			case tar.TypeDir, tar.TypeSymlink, tar.TypeLink, tar.TypeChar, tar.TypeFifo:
				e.kind = name[0]
			default:
				continue
			}

			entries = append(entries, e)
		}
		fuzzLayers(t, append(layers, tarball(t, entries...))...)
	})
}

// assertLinksInside follows every link as a reader without os.Root would do.
func assertLinksInside(t testing.TB, dir string) {
	t.Helper()
	inside, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}

	err = filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type() != fs.ModeSymlink {
			return err
		}

		target, err := filepath.EvalSymlinks(file)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || (target != inside && !strings.HasPrefix(target, inside+"/")) {
			t.Errorf("link %s: got target %q (error %v), want one inside", file, target, err)
		}

		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
