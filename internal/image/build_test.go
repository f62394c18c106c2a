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
	ggcrname "github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	dockerarchive "github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/opencontainers/go-digest"
	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"
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
		t.Errorf("got digests %s and %s of the same spec, want the same", one.Digest(), two.Digest())
	}
	if other := mustBuild(t, programSpec(time.Unix(1, 0), 0o644)); other.Digest() == one.Digest() {
		t.Error("got the same digest with another mode, want a different one")
	}
}

func TestLayerArchive(t *testing.T) {
	spec := programSpec(time.Now(), 0o755)
	spec.Layers = append(spec.Layers, Layer{Temporary: []string{"/tmp", "var/tmp/"}, Files: []File{{Path: "/bin/tool", Link: "/usr/bin/program"}}})
	type header struct {
		Name     string
		Link     string
		Mode     int64
		UID, GID int
	}

	var got []header
	for _, layer := range spec.Layers {
		packed, diffID, err := layer.packArchive()
		if err != nil {
			t.Fatal(err)
		}

		data := gunzip(t, packed)
		if want := digest.FromBytes(data); diffID != want {
			t.Errorf("got digest %s of the archive, want %s", diffID, want)
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
				t.Errorf("%s: got time %s, want the epoch", h.Name, h.ModTime)
			}

			got = append(got, header{h.Name, h.Linkname, h.Mode, h.Uid, h.Gid})
		}
	}

	want := []header{
		{"etc/", "", 0o755, 0, 0}, {"etc/passwd", "", 0o644, 0, 0},
		{"opt/", "", 0o755, 0, 0}, {"opt/run.sh", "", 0o755, 0, 0}, {"opt/sub/", "", 0o755, 0, 0}, {"opt/sub/empty/", "", 0o755, 0, 0},
		{"opt/sub/x/", "", 0o755, 0, 0}, {"opt/sub/x-y", "", 0o644, 0, 0}, {"opt/sub/x/z", "", 0o644, 0, 0},
		{"usr/", "", 0o755, 7, 8}, {"usr/bin/", "", 0o755, 7, 8}, {"usr/bin/mainstay", "", 0o755, 7, 8},
		{"bin/", "", 0o755, 0, 0}, {"bin/tool", "/usr/bin/program", 0o777, 0, 0},
		{"tmp/", "", 0o1777, 0, 0}, {"var/", "", 0o755, 0, 0}, {"var/tmp/", "", 0o1777, 0, 0},
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
				t.Errorf("got progress %+v, want at most the size sent", p)
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
		t.Errorf("first push: got %d parts, %d existing and %d bytes sent, want 3, 0 and %d", done, exists, sent, size)
	}
	if done, exists, sent := run(); done != 3 || exists != 3 || sent != 0 {
		t.Errorf("second push: got %d parts, %d existing and %d bytes sent, want 3, 3 and 0", done, exists, sent)
	}
}

func TestPushRefuses(t *testing.T) {
	built := catalogImage(t)
	client := NewClient(Options{Timeouts: Timeouts{Backoff: time.Millisecond}})
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
		t.Error("got different archives of the same image, want the same bytes")
	}

	dir := t.TempDir()
	for r := tar.NewReader(bytes.NewReader(out.Bytes())); ; {
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

func TestWriteLayout(t *testing.T) {
	one, two := catalogImage(t), mustBuild(t, programSpec(time.Unix(1, 0), 0o755))
	parent := t.TempDir()
	dir := filepath.Join(parent, "made", "when-needed")
	if err := WriteLayout(dir, "example.com/mainstay:v1", one, two); err != nil {
		t.Fatal(err)
	}

	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}

	err = WriteLayout(dir, "example.com/mainstay:v1", one)
	wantError(t, err, KindInvalid, "is not empty")
	left := readTree(t, parent)

	lost := mustBuild(t, Spec{Base: &Base{layers: []builtBlob{{digest: digest.FromString("x"), file: filepath.Join(parent, "lost")}}}})
	for _, name := range []string{"made/new", ""} {
		target := filepath.Join(parent, name)
		if name == "" {
			target = t.TempDir()
		}
		wantError(t, WriteLayout(target, "example.com/mainstay:v1", lost), KindUnavailable, "no such file")
		if entries, err := os.ReadDir(target); err == nil && len(entries) > 0 {
			t.Errorf("got leftover files %v, want none", entries)
		}
	}

	if diff := cmp.Diff(left, readTree(t, parent)); diff != "" {
		t.Errorf("files after errors (-want +got):\n%s", diff)
	}
}

// TestDockerLoadsArchives checks the manifest.json with which every version of docker loads
// an archive of one image.
func TestDockerLoadsArchives(t *testing.T) {
	built := mustBuild(t, programSpec(time.Unix(1, 0), 0o755))
	file := filepath.Join(t.TempDir(), "image.tar")
	var out bytes.Buffer
	if err := WriteArchive(&out, "example.com/mainstay:v1", built); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}

	tag, err := ggcrname.NewTag("example.com/mainstay:v1")
	if err != nil {
		t.Fatal(err)
	}

	loaded, err := dockerarchive.ImageFromPath(file, &tag)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(loaded); err != nil {
		t.Error(err)
	}

	config, err := loaded.ConfigFile()
	if err != nil || config.Architecture != "arm64" || config.Config.User != "65532:65532" {
		t.Errorf("got configuration %+v (error %v), want arm64 and user 65532:65532", config, err)
	}
}

// pushForeign pushes an image that was built by another tool.
func pushForeign(t *testing.T, ref string, foreign v1.Image) {
	t.Helper()
	manifest, err := foreign.RawManifest()
	if err != nil {
		t.Fatal(err)
	}

	mediaType, err := foreign.MediaType()
	if err != nil {
		t.Fatal(err)
	}

	config, err := foreign.RawConfigFile()
	if err != nil {
		t.Fatal(err)
	}

	layers, err := foreign.Layers()
	if err != nil {
		t.Fatal(err)
	}

	built := &Built{manifest: newBuiltBlob(string(mediaType), manifest), config: newBuiltBlob("", config)}
	for _, layer := range layers {
		content, err := layer.Compressed()
		if err != nil {
			t.Fatal(err)
		}

		data, err := io.ReadAll(content)
		if err != nil {
			t.Fatal(err)
		}

		built.layers = append(built.layers, newBuiltBlob("", data))
	}

	pushImage(t, ref, built)
}

// TestBase builds on a base image in Docker's format, with its own configuration.
func TestBase(t *testing.T) {
	host := newRegistry(t, nil)
	base, err := random.Image(1000, 3)
	if err != nil {
		t.Fatal(err)
	}

	base, err = mutate.Config(base, v1.Config{
		User: "1001", Env: []string{"PATH=/bin"}, Entrypoint: []string{"/bin/opm"}, Cmd: []string{"registry"},
		Labels: map[string]string{"vendor": "base", "a": "0"}, ExposedPorts: map[string]struct{}{"50051/tcp": {}},
	})
	if err != nil {
		t.Fatal(err)
	}

	ref := host + "/base/opm:latest"
	pushForeign(t, ref, base)
	client := NewClient(Options{})
	img, err := client.Pull(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = img.Close() }()
	files, err := img.Base(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	spec := Spec{
		Base: files, Labels: map[string]string{"a": "1"}, Env: []string{"X=y"}, Cmd: []string{"serve", "/configs"},
		Layers: []Layer{{Tree: fstest.MapFS{"foo/catalog.json": {Data: []byte("{}")}}, Target: "/configs"}},
	}
	built := mustBuild(t, spec)
	if again := mustBuild(t, spec); again.Digest() != built.Digest() {
		t.Error("got a different digest of the same spec, want the same")
	}
	if bytes.Contains(built.manifest.data, []byte("docker")) {
		t.Errorf("got manifest %s, want only OCI media types", built.manifest.data)
	}
	canonical := pushImage(t, host+"/new/cat:v1", built)
	dir := t.TempDir()
	if err := WriteLayout(dir, canonical, built); err != nil {
		t.Fatal(err)
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	hash, err := v1.NewHash(built.Digest())
	if err != nil {
		t.Fatal(err)
	}
	result, err := index.Image(hash)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(result); err != nil {
		t.Error(err)
	}
	config, err := result.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	want := v1.Config{
		User: "1001", Env: []string{"PATH=/bin", "X=y"}, Entrypoint: []string{"/bin/opm"}, Cmd: []string{"serve", "/configs"},
		Labels: map[string]string{"vendor": "base", "a": "1"}, ExposedPorts: map[string]struct{}{"50051/tcp": {}},
	}
	if diff := cmp.Diff(want, config.Config); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
	if len(config.RootFS.DiffIDs) != 4 || len(config.History) != 4 {
		t.Errorf("%d layers and %d entries of history, want 4 of each", len(config.RootFS.DiffIDs), len(config.History))
	}
	got, err := pullAndExtract(t.Context(), t, client, canonical, "/configs")
	if err != nil || got["foo/catalog.json"] != "{}" {
		t.Errorf("got %v (%v)", got, err)
	}
	spec.Entrypoint, spec.Cmd = []string{"/bin/other"}, nil
	if config := mustBuild(t, spec).config; bytes.Contains(config.data, []byte(`"registry"`)) {
		t.Errorf("got configuration %s, want no arguments of the base image with another entrypoint", config.data)
	}
}

func TestBaseRefuses(t *testing.T) {
	host := newRegistry(t, nil)
	for name, image := range map[string]*Built{
		"not a container image": imageOf(t, imgspecv1.MediaTypeImageLayerGzip, gzipped(t, tarball(t))),
	} {
		img, err := NewClient(Options{}).Pull(t.Context(), pushImage(t, host+"/x:1", image))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = img.Close() }()

		_, err = img.Base(t.Context(), t.TempDir())
		wantError(t, err, KindContent, name)
	}
}
