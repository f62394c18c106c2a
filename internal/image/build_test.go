package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

func programSpec(modTime time.Time, mode uint32) Spec {
	return Spec{
		OS: "linux", Architecture: "arm64", Variant: "v8",
		Labels: map[string]string{"a": "1", "b": "2"}, Annotations: map[string]string{"c": "3"},
		Entrypoint: []string{"/usr/bin/mainstay"}, Cmd: []string{"run"}, User: "65532:65532",
		Env: []string{"HOME=/tmp"}, WorkingDir: "/srv", ExposedPorts: []string{"8443/tcp", "8080/tcp"},
		Layers: []Layer{
			{
				Tree: fstest.MapFS{
					"run.sh":    {Data: []byte("#!/bin/sh\n"), Mode: 0o700, ModTime: modTime},
					"sub/x-y":   {Data: []byte("1"), ModTime: modTime},
					"sub/x/z":   {Data: []byte("2"), ModTime: modTime},
					"sub/empty": {Mode: os.ModeDir | 0o700, ModTime: modTime},
				},
				Target: "opt",
				Files:  []File{{Path: "/etc/passwd", Content: []byte("nobody:x:65532:65532::/:\n")}},
			},
			{Files: []File{{Path: "/usr/bin/mainstay", Executable: mode&0o100 != 0, Content: []byte("binary")}}, UID: 7, GID: 8},
		},
	}
}

func mustBuild(t *testing.T, spec Spec) *Built {
	t.Helper()
	built, err := Build(spec)
	if err != nil {
		t.Fatal(err)
	}
	return built
}

func TestBuildIsReproducible(t *testing.T) {
	one := mustBuild(t, programSpec(time.Unix(1, 0), 0o755))
	two := mustBuild(t, programSpec(time.Unix(1e9, 0), 0o711))
	if one.Digest() != two.Digest() {
		t.Errorf("digests differ: %s and %s", one.Digest(), two.Digest())
	}
	if other := mustBuild(t, programSpec(time.Unix(1, 0), 0o644)); other.Digest() == one.Digest() {
		t.Error("another mode gives the same digest")
	}
}

func TestLayerArchive(t *testing.T) {
	spec := programSpec(time.Now(), 0o755)
	type header struct {
		Name     string
		Mode     int64
		UID, GID int
	}
	var got []header
	for _, layer := range spec.Layers {
		data, err := layer.archive()
		if err != nil {
			t.Fatal(err)
		}
		for r := tar.NewReader(bytes.NewReader(data)); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if !h.ModTime.Equal(time.Unix(0, 0)) {
				t.Errorf("%s has the time %s", h.Name, h.ModTime)
			}
			got = append(got, header{h.Name, h.Mode, h.Uid, h.Gid})
		}
	}
	want := []header{
		{"etc/", 0o755, 0, 0}, {"etc/passwd", 0o644, 0, 0},
		{"opt/", 0o755, 0, 0}, {"opt/run.sh", 0o755, 0, 0}, {"opt/sub/", 0o755, 0, 0}, {"opt/sub/empty/", 0o755, 0, 0},
		{"opt/sub/x/", 0o755, 0, 0}, {"opt/sub/x-y", 0o644, 0, 0}, {"opt/sub/x/z", 0o644, 0, 0},
		{"usr/", 0o755, 7, 8}, {"usr/bin/", 0o755, 7, 8}, {"usr/bin/mainstay", 0o755, 7, 8},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

func TestBuildRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		layer Layer
		want  string
	}{
		"a link":                 {Layer{Tree: fstest.MapFS{"l": {Mode: os.ModeSymlink, Data: []byte("x")}}}, "l is neither a file nor a directory"},
		"a file twice":           {Layer{Files: []File{{Path: "/a"}, {Path: "a"}}}, "given twice"},
		"tree and file":          {Layer{Files: []File{{Path: "/a"}}, Tree: fstest.MapFS{"a": {}}}, "/a is given twice"},
		"a file and a directory": {Layer{Files: []File{{Path: "/a"}, {Path: "/a/b"}}}, "/a is both a file and a directory"},
		"no path":                {Layer{Files: []File{{}}}, "empty or given twice"},
		"a tree that is missing": {Layer{Tree: os.DirFS(filepath.Join(t.TempDir(), "none"))}, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Build(Spec{Layers: []Layer{test.layer}})
			wantError(t, err, KindInvalid, "layer 1", test.want)
		})
	}
}

func TestBundleSpecRefuses(t *testing.T) {
	for want, fsys := range map[string]fstest.MapFS{
		"the bundle's manifests/": {"metadata/annotations.yaml": {}},
		"the bundle's metadata/":  {"manifests/csv.yaml": {}},
		"is not a directory":      {"manifests/csv.yaml": {}, "metadata": {}},
	} {
		_, err := BundleSpec(fsys, nil)
		wantError(t, err, KindInvalid, want)
	}
}

func TestPushProgressAndReuse(t *testing.T) {
	host := newRegistry(t, nil)
	built := mustBuild(t, programSpec(time.Unix(1, 0), 0o755))
	run := func() (done int, exists int, sent int64) {
		_, err := NewClient(Options{}).Push(t.Context(), host+"/x:1", func(p Progress) {
			if p.Sent > p.Size {
				t.Errorf("%+v", p)
			}
			if !p.Done {
				return
			}
			done, sent = done+1, sent+p.Sent
			if p.Exists {
				exists++
			}
		}, built)
		if err != nil {
			t.Fatal(err)
		}
		return done, exists, sent
	}
	size := int64(len(built.config.data) + len(built.layers[0].data) + len(built.layers[1].data))
	if done, exists, sent := run(); done != 3 || exists != 0 || sent != size {
		t.Errorf("first: %d parts, %d existed, %d bytes of %d", done, exists, sent, size)
	}
	if done, exists, sent := run(); done != 3 || exists != 3 || sent != 0 {
		t.Errorf("second: %d parts, %d existed, %d bytes", done, exists, sent)
	}
}

func TestPushRefuses(t *testing.T) {
	built := catalogImage(t)
	client := NewClient(Options{})
	_, err := client.Push(t.Context(), "localhost:1/x@"+built.Digest(), nil, built)
	wantError(t, err, KindInvalid, "pushed to a tag")
	_, err = client.Push(t.Context(), "localhost:1/x", nil)
	wantError(t, err, KindInvalid, "no image")
	_, err = client.Push(t.Context(), "localhost:1/x", nil, built, built)
	wantError(t, err, KindInvalid, "two images are for the platform")
	_, err = client.Push(t.Context(), "localhost:1/x", nil, built)
	wantError(t, err, KindUnavailable, "push image localhost:1/x", "connection refused")
}

func TestWriteArchive(t *testing.T) {
	one, two := catalogImage(t), mustBuild(t, programSpec(time.Unix(1, 0), 0o755))
	var out, again bytes.Buffer
	if err := WriteArchive(&out, "example.com/mainstay:v1", one, two); err != nil {
		t.Fatal(err)
	}
	if err := WriteArchive(&again, "example.com/mainstay:v1", one, two); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out.Bytes(), again.Bytes()) {
		t.Error("the archive is not reproducible")
	}
	dir := t.TempDir()
	for r := tar.NewReader(&out); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, header.Name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"io.containerd.image.name": "example.com/mainstay:v1", "org.opencontainers.image.ref.name": "v1"}
	if diff := cmp.Diff(want, manifest.Manifests[0].Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	err = WriteArchive(io.Discard, "Bad Reference", one)
	wantError(t, err, KindInvalid, "invalid reference format")
}
