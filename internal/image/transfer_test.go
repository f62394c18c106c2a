package image

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func newPlatformImage(t testing.TB, architecture, text string) *Built {
	t.Helper()
	built, err := Build(Spec{Architecture: architecture, Layers: []Layer{
		{Files: []File{{Path: "/shared", Content: []byte("the same everywhere")}}},
		{Files: []File{{Path: "/arch", Content: []byte(text)}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return built
}

// TestCopies checks that copies of an image are identical, with all platforms.
func TestCopies(t *testing.T) {
	from, to := newRegistry(t, nil), newRegistry(t, nil)
	client := NewClient(Options{})
	for name, images := range map[string][]*Built{
		"one":  {newPlatformImage(t, "amd64", "one")},
		"list": {newPlatformImage(t, "amd64", "a"), newPlatformImage(t, "s390x", "b")},
	} {
		t.Run(name, func(t *testing.T) {
			canonical := pushImage(t, from+"/source/"+name+":1", images...)
			_, digest, _ := strings.Cut(canonical, "@")
			copied, err := client.Copy(t.Context(), canonical, to+"/copied/"+name+":1")
			if want := to + "/copied/" + name + "@" + digest; err != nil || copied != want {
				t.Fatalf("copied to %s (%v), want %s", copied, err, want)
			}

			layout, dir := newLayout(t)
			if saved, err := client.Save(t.Context(), from+"/source/"+name+":1", layout, name); err != nil || saved != digest {
				t.Fatalf("saved %s (%v), want %s", saved, err, digest)
			}

			named, err := layout.Images()
			if diff := cmp.Diff(map[string]string{name: digest}, named); err != nil || diff != "" {
				t.Errorf("images (-want +got): %v\n%s", err, diff)
			}

			restored, err := client.Restore(t.Context(), layout, name, to+"/restored/"+name+":1")
			if want := to + "/restored/" + name + "@" + digest; err != nil || restored != want {
				t.Fatalf("restored to %s (%v), want %s", restored, err, want)
			}

			for _, ref := range []string{copied, restored, to + "/restored/" + name + ":1"} {
				got, err := pullAndExtract(t.Context(), t, NewClient(Options{Architecture: "amd64"}), ref, "/")
				if err != nil || got["shared"] != "the same everywhere" {
					t.Errorf("%s: got %v (error %v), want the shared file", ref, got, err)
				}
			}

			left, err := filepath.Glob(filepath.Join(dir, "blobs/sha256/*.part"))
			if err != nil || len(left) > 0 {
				t.Errorf("got leftover files %v (error %v), want none", left, err)
			}
		})
	}
}

func newLayout(t *testing.T) (*Layout, string) {
	t.Helper()
	dir := t.TempDir()
	layout, err := OpenLayout(dir)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = layout.Close() })
	return layout, dir
}

// TestCopyLimitsLayers checks that the limit of layers applies to each way of copying.
func TestCopyLimitsLayers(t *testing.T) {
	host := newRegistry(t, nil)
	layout, _ := newLayout(t)
	from := pushImage(t, host+"/a:1", newPlatformImage(t, "amd64", "x"), newPlatformImage(t, "s390x", "y"))
	if _, err := NewClient(Options{Limits: Limits{Layers: 2}}).Save(t.Context(), from, layout, "saved"); err != nil {
		t.Fatal(err)
	}

	client := NewClient(Options{Limits: Limits{Layers: 1}})
	for name, transfer := range map[string]func() (string, error){
		"Copy":    func() (string, error) { return client.Copy(t.Context(), from, host+"/b:1") },
		"Save":    func() (string, error) { return client.Save(t.Context(), from, layout, "other") },
		"Restore": func() (string, error) { return client.Restore(t.Context(), layout, "saved", host+"/c:1") },
	} {
		t.Run(name, func(t *testing.T) {
			_, err := transfer()
			wantError(t, err, KindContent, "it has 2 layers, at most 1 are read")
		})
	}
}

// TestCopyTwice checks that existing content is not sent again, and that an image can have
// two names.
func TestCopyTwice(t *testing.T) {
	uploads := 0
	from := newRegistry(t, nil)
	to := newRegistry(t, func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost {
			uploads++
		}
		return false
	})

	client := NewClient(Options{})
	canonical := pushImage(t, from+"/a:1", newPlatformImage(t, "amd64", "x"))
	layout, _ := newLayout(t)
	for _, name := range []string{"1", "2", "1"} {
		if _, err := client.Copy(t.Context(), canonical, to+"/b:"+name); err != nil {
			t.Fatal(err)
		}
		if _, err := client.Save(t.Context(), canonical, layout, name); err != nil {
			t.Fatal(err)
		}
	}

	if uploads != 3 {
		t.Errorf("got %d uploaded blobs, want 3", uploads)
	}

	named, err := layout.Images()
	if err != nil || len(named) != 2 {
		t.Errorf("got %v: %v", named, err)
	}

	other := canonical[:strings.Index(canonical, "@")+1] + "sha256:" + strings.Repeat("0", 64)
	if _, err := client.Copy(t.Context(), canonical, to+strings.TrimPrefix(other, from)); err == nil {
		t.Error("got no error of copying an image to the digest of another, want one")
	}
}

// TestCopyChanged checks that content that was changed in the source is not copied.
func TestCopyChanged(t *testing.T) {
	changed := ""
	from := newRegistry(t, func(w http.ResponseWriter, r *http.Request) bool {
		if changed == "" || r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, changed) {
			return false
		}
		_, _ = w.Write([]byte("something else"))
		return true
	})

	to := newRegistry(t, nil)
	client := NewClient(Options{})
	built := newPlatformImage(t, "amd64", "x")
	canonical := pushImage(t, from+"/a:1", built)
	for _, changed = range []string{built.Digest(), built.layers[0].digest.String(), built.config.digest.String()} {
		if _, err := client.Copy(t.Context(), canonical, to+"/b:1"); err == nil {
			t.Errorf("%s is modified: got no error of copying, want one", changed)
		}
	}

	changed = built.Digest()
	if _, err := client.Pull(t.Context(), canonical); !errors.Is(err, ErrDigestMismatch) {
		t.Errorf("got %v, want ErrChanged", err)
	}
}

// TestRestoreChanged checks that content that was changed in a layout is not restored.
func TestRestoreChanged(t *testing.T) {
	host := newRegistry(t, nil)
	client := NewClient(Options{})
	built := newPlatformImage(t, "amd64", "x")
	canonical := pushImage(t, host+"/a:1", built)
	layout, dir := newLayout(t)
	if _, err := client.Save(t.Context(), canonical, layout, "a"); err != nil {
		t.Fatal(err)
	}

	for _, d := range []string{built.manifest.digest.Encoded(), built.layers[1].digest.Encoded()} {
		file := filepath.Join(dir, "blobs", "sha256", d)
		good, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}

		bad := append([]byte{}, good...)
		bad[len(bad)/2] ^= 1
		write(t, file, bad)
		if _, err := client.Restore(t.Context(), layout, "a", newRegistry(t, nil)+"/c:1"); !errors.Is(err, ErrDigestMismatch) {
			t.Errorf("got %v, want ErrChanged", err)
		}

		write(t, file, bad[1:])
		if _, err := client.Restore(t.Context(), layout, "a", newRegistry(t, nil)+"/c:1"); err == nil {
			t.Error("got no error of restoring a truncated file, want one")
		}

		write(t, file, good)
	}

	_, err := client.Restore(t.Context(), layout, "b", host+"/c:1")
	wantError(t, err, KindNotFound, `the folder has no image "b"`)
	write(t, filepath.Join(dir, "index.json"), []byte("{"))
	_, err = client.Restore(t.Context(), layout, "a", host+"/c:1")
	wantError(t, err, KindContent, "read index.json")
}

func write(t *testing.T, file string, data []byte) {
	t.Helper()
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestAttached(t *testing.T) {
	host := newRegistry(t, nil)
	client := NewClient(Options{})
	want := []Attached{
		{MediaType: "application/x", Annotations: map[string]string{"signature": "a"}, Data: []byte("one")},
		{MediaType: "application/y", Data: []byte("two")},
	}
	first, err := client.PushAttached(t.Context(), host+"/a:sig", want)
	if err != nil {
		t.Fatal(err)
	}

	got, err := client.PullAttached(t.Context(), host+"/a:sig")
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("(-want +got): %v\n%s", err, diff)
	}
	if second, err := client.PushAttached(t.Context(), host+"/a:again", want); err != nil || second != first {
		t.Errorf("second push: got %[2]s (error %[3]v), want %[1]s", first, second, err)
	}

	_, err = client.PullAttached(t.Context(), host+"/a:none")
	wantError(t, err, KindNotFound, "pull image "+host+"/a:none")
	if _, err := client.PushAttached(t.Context(), host+"/a:large", []Attached{{MediaType: "x", Data: make([]byte, maxAttachedBytes+1)}}); err != nil {
		t.Fatal(err)
	}

	_, err = client.PullAttached(t.Context(), host+"/a:large")
	wantError(t, err, KindContent, "has more than 65536 bytes")
}

func TestFolders(t *testing.T) {
	host := newRegistry(t, nil)
	built, err := Build(Spec{Layers: []Layer{
		{Files: []File{{Path: "/manifests/a", Content: []byte("1")}, {Path: "/other/x", Content: []byte("2")}, {Path: "/release-manifests/b", Content: []byte("3")}}},
		{Files: []File{{Path: "/manifests/a", Content: []byte("4")}, {Path: "/release-manifests/c", Content: []byte("5")}}},
	}})
	if err != nil {
		t.Fatal(err)
	}

	canonical := pushImage(t, host+"/a:1", built)
	img, err := NewClient(Options{}).Pull(t.Context(), canonical)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = img.Close() }()

	files, err := img.FilesOfFolders(t.Context(), t.TempDir(), "manifests", "release-manifests", "nothing")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = files.Close() }()

	for name, want := range map[string]string{"manifests/a": "4", "release-manifests/b": "3", "release-manifests/c": "5"} {
		if got, err := files.ReadFile(name); string(got) != want {
			t.Errorf("%s: got %q (%v), want %q", name, got, err, want)
		}
	}

	if entries, err := files.ReadDir("."); err != nil || len(entries) != 2 {
		t.Errorf("got %v: %v", entries, err)
	}
	if _, err := img.FilesOfFolders(t.Context(), "", "../x"); err == nil {
		t.Error("got no error for a path as the name of a folder, want one")
	}
}

func TestOrderAndModes(t *testing.T) {
	files := map[string]*layerFile{"a/1": {}, "b/2": {}, "b/z": {first: true}, "b/y": {first: true}, "a": nil, "b": nil}
	if diff := cmp.Diff([]string{"b", "b/y", "b/z", "a", "a/1", "b/2"}, sortArchivePaths(files)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestRealRegistryCopies checks that a real registry accepts copies of indexes and attached
// data, and returns them.
func TestRealRegistryCopies(t *testing.T) {
	r := startRealRegistry(t, realOptions{})
	client := NewClient(r.options(t))
	canonical := pushWith(t, client, r.host+"/org/source:v1", newPlatformImage(t, "amd64", "a"), newPlatformImage(t, "s390x", "b"))
	_, digest, _ := strings.Cut(canonical, "@")
	copied, err := client.Copy(t.Context(), canonical, r.host+"/org/copied:v1")
	if err != nil || copied != r.host+"/org/copied@"+digest {
		t.Fatalf("copying: got %s (error %v), want the digest of %s", copied, err, canonical)
	}

	layout, _ := newLayout(t)
	if _, err := client.Save(t.Context(), canonical, layout, "a"); err != nil {
		t.Fatal(err)
	}
	if restored, err := client.Restore(t.Context(), layout, "a", r.host+"/org/restored:v1"); err != nil || restored != r.host+"/org/restored@"+digest {
		t.Errorf("restoring: got %s (error %v), want the digest of %s", restored, err, canonical)
	}

	want := []Attached{{MediaType: "application/x", Annotations: map[string]string{"signature": "a"}, Data: []byte("one")}}
	if _, err := client.PushAttached(t.Context(), r.host+"/org/source:sig", want); err != nil {
		t.Fatal(err)
	}

	got, err := client.PullAttached(t.Context(), r.host+"/org/source:sig")
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("(-want +got): %v\n%s", err, diff)
	}
}

func pushWith(t *testing.T, client *Client, ref string, images ...*Built) string {
	t.Helper()
	canonical, err := client.Push(t.Context(), ref, nil, images...)
	if err != nil {
		t.Fatal(err)
	}
	return canonical
}
