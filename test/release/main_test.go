package main

import (
	"bytes"
	"io"
	"io/fs"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/test/payload"
)

var root = filepath.Join("..", "..")

// build makes the program of a release.
func build(t *testing.T) payload.Build {
	t.Helper()
	program := filepath.Join(t.TempDir(), "mainstay")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/mainstay")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return payload.Build{Root: root, Program: program, Version: "1.0.0"}
}

func TestRelease(t *testing.T) {
	b := build(t)
	t.Run("the same input makes the same images", func(t *testing.T) {
		folder := filepath.Join(t.TempDir(), "layout")
		var indexes [2][]byte
		for i := range indexes {
			if _, err := run(t.Context(), b, "", folder); err != nil {
				t.Fatal(err)
			}
			var err error
			if indexes[i], err = os.ReadFile(filepath.Join(folder, "index.json")); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(string(indexes[0]), string(indexes[1])); diff != "" {
			t.Errorf("the layouts differ (-first +second):\n%s", diff)
		}
		for _, tag := range []string{`"1.0.0"`, `"1.0.0-mainstay"`} {
			if !bytes.Contains(indexes[0], []byte(tag)) {
				t.Errorf("the layout has no image %s:\n%s", tag, indexes[0])
			}
		}
	})
	t.Run("it is pushed beside the image of its components", func(t *testing.T) {
		server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
		t.Cleanup(server.Close)
		repository := strings.TrimPrefix(server.URL, "http://") + "/platform/release"
		images, err := run(t.Context(), b, repository+":1.0.0", "")
		if err != nil {
			t.Fatal(err)
		}
		for tag, want := range map[string]string{"1.0.0": images.Release, "1.0.0-mainstay": images.Component} {
			pushed, err := remote.Head(must(t, repository+":"+tag))
			if err != nil {
				t.Fatal(err)
			}
			if got := repository + "@" + pushed.Digest.String(); got != want {
				t.Errorf("tag %s is %s, and %s was told", tag, got, want)
			}
		}
	})
	t.Run("nothing is forgotten", func(t *testing.T) {
		dir := t.TempDir()
		if err := b.Manifests(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		released := objects(t, dir)
		for _, folder := range []string{"catalogd", "crd", "operator-controller", "platform", "rbac", "release", "cluster-version-operator"} {
			for object := range objects(t, filepath.Join(root, "config", folder)) {
				// These are for clusters with Prometheus and its kinds.
				if strings.HasPrefix(object, "PrometheusRule/") || strings.HasPrefix(object, "ServiceMonitor/") {
					continue
				}
				if !released[object] {
					t.Errorf("config/%s has %s, the release has not", folder, object)
				}
			}
		}
	})
	t.Run("what is not a tag is refused", func(t *testing.T) {
		_, err := run(t.Context(), b, "not a tag", "")
		if err == nil || !strings.Contains(err.Error(), "where the release goes") {
			t.Errorf("got %v", err)
		}
	})
}

func must(t *testing.T, ref string) name.Reference {
	t.Helper()
	parsed, err := name.ParseReference(ref)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// objects are the kinds and names of all manifests in a folder.
func objects(t *testing.T, dir string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".yaml" || d.Name() == "kustomization.yaml" {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for document := range bytes.SplitSeq(append([]byte("\n"), data...), []byte("\n---\n")) {
			var object struct {
				Kind     string
				Metadata struct{ Namespace, Name string }
			}
			if err := yaml.Unmarshal(document, &object); err != nil {
				t.Errorf("%s: %v", path, err)
			}
			if object.Kind != "" {
				found[object.Kind+"/"+object.Metadata.Namespace+"/"+object.Metadata.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Fatalf("%s has no manifests", dir)
	}
	return found
}
