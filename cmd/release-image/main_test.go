package main

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/internal/platform"
)

var root = filepath.Join("..", "..")

// newBuild builds the mainstay program and returns a build of a release with it.
func newBuild(t *testing.T) platform.Build {
	t.Helper()
	program := filepath.Join(t.TempDir(), "mainstay")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", program, "./cmd/mainstay")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}

	return platform.Build{Root: root, Program: program, Version: "1.0.0"}
}

func TestRelease(t *testing.T) {
	b := newBuild(t)
	t.Run("builds the same images from the same input", func(t *testing.T) {
		folder := filepath.Join(t.TempDir(), "layout")
		var indexes [2][]byte
		for i := range indexes {
			if _, err := buildRelease(t.Context(), b, "", folder); err != nil {
				t.Fatal(err)
			}
			var err error
			if indexes[i], err = os.ReadFile(filepath.Join(folder, "index.json")); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(string(indexes[0]), string(indexes[1])); diff != "" {
			t.Errorf("second layout (-want as the first +got):\n%s", diff)
		}
		for _, tag := range []string{`"1.0.0"`, `"1.0.0-mainstay"`} {
			if !bytes.Contains(indexes[0], []byte(tag)) {
				t.Errorf("got no image %s in the layout:\n%s", tag, indexes[0])
			}
		}
	})
	t.Run("pushes the release and the image of its components", func(t *testing.T) {
		server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
		t.Cleanup(server.Close)
		repository := strings.TrimPrefix(server.URL, "http://") + "/platform/release"
		images, err := buildRelease(t.Context(), b, repository+":1.0.0", "")
		if err != nil {
			t.Fatal(err)
		}
		for tag, want := range map[string]string{"1.0.0": images.Release, "1.0.0-mainstay": images.Component} {
			pushed, err := remote.Head(parseReference(t, repository+":"+tag))
			if err != nil {
				t.Fatal(err)
			}
			if got := repository + "@" + pushed.Digest.String(); got != want {
				t.Errorf("tag %s: got %s, want %s as returned by buildRelease", tag, got, want)
			}
		}
	})
	t.Run("runs its own image as operator", func(t *testing.T) {
		server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
		t.Cleanup(server.Close)
		images, err := buildRelease(t.Context(), b, strings.TrimPrefix(server.URL, "http://")+"/platform/release:1.0.0", "")
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if out, err := exec.CommandContext(t.Context(), b.Program, "release", "render", images.Release, "--output-dir", dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		deployments, err := filepath.Glob(filepath.Join(dir, "manifests", "*_deployment-cluster-version-operator.yaml"))
		if err != nil || len(deployments) != 1 {
			t.Fatalf("got the Deployments %v (error %v), want that of cluster-version-operator", deployments, err)
		}
		if data, err := os.ReadFile(deployments[0]); err != nil || !bytes.Contains(data, []byte("image: "+images.Release)) {
			t.Errorf("got error %v and a Deployment without the image %s:\n%s", err, images.Release, data)
		}
		rendered := readObjectNames(t, filepath.Join(dir, "manifests"))
		for _, want := range []string{"CustomResourceDefinition//clusterversions.config.openshift.io", "Namespace//openshift-cluster-version"} {
			if !rendered[want] {
				t.Errorf("got no object %s, want one", want)
			}
		}
	})
	t.Run("contains the keys and stores for the signatures of its successors", func(t *testing.T) {
		server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
		t.Cleanup(server.Close)
		signed, ref := b, strings.TrimPrefix(server.URL, "http://")+"/platform/release:2.0.0"
		for flag, value := range map[string]string{"--verification-key": writeKeyring(t), "--verification-store": "https://example.com/signatures", "--none": ""} {
			if err := addFlag(&signed, flag)(value); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := buildRelease(t.Context(), signed, ref, ""); err != nil {
			t.Fatal(err)
		}
		found, err := exec.CommandContext(t.Context(), b.Program, "release", "extract", ref, "--file", "0000_05_release-verification_00_keys.yaml").Output()
		for _, want := range []string{"verifier-public-key-releases: |", "BEGIN PGP PUBLIC KEY BLOCK", "store-1: https://example.com/signatures"} {
			if err != nil || !bytes.Contains(found, []byte(want)) {
				t.Errorf("got error %v and no %q in:\n%s", err, want, found)
			}
		}
	})
	t.Run("contains every object of config", func(t *testing.T) {
		dir := t.TempDir()
		if err := b.Manifests(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		released := readObjectNames(t, dir)
		// Nodes are updated last, when the components that run on them are up to date.
		files, err := filepath.Glob(filepath.Join(dir, "release-manifests", "0000_*"))
		if err != nil || len(files) == 0 {
			t.Fatalf("got no manifests (error %v), want some", err)
		}
		if last := filepath.Base(files[len(files)-1]); !strings.HasSuffix(last, "_clusteroperator-machine-config.yaml") {
			t.Errorf("got the last manifest %s, want the ClusterOperator of the nodes", last)
		}
		// An administrator may add these: catalogs without pods, and the community's catalog.
		optional := []string{"Service/olm/catalog-operator-catalogs", "NetworkPolicy/olm/catalog-operator-catalogs", "CatalogSource/olm/operatorhubio-catalog"}
		for _, folder := range []string{"catalogd", "classic", "crd", "machine-config", "operator-controller", "platform", "rbac", "release", "cluster-version-operator"} {
			for object := range readObjectNames(t, filepath.Join(root, "config", folder)) {
				// These require the CRDs of Prometheus.
				if strings.HasPrefix(object, "PrometheusRule/") || strings.HasPrefix(object, "ServiceMonitor/") {
					continue
				}
				if !slices.Contains(optional, object) && !released[object] && !released[releaseNames.Replace(object)] {
					t.Errorf("config/%s: got no %s in the release, want one", folder, object)
				}
			}
		}
	})
	t.Run("keeps the copied CSVs that every user may read", func(t *testing.T) {
		dir := t.TempDir()
		if err := b.Manifests(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		deployments, err := filepath.Glob(filepath.Join(dir, "release-manifests", "*_deployment-olm-operator.yaml"))
		if err != nil || len(deployments) != 1 {
			t.Fatalf("got the Deployments %v (error %v), want that of olm-operator", deployments, err)
		}
		const want = "- --protectedCopiedCSVNamespaces=openshift\n"
		if data, err := os.ReadFile(deployments[0]); err != nil || !bytes.Contains(data, []byte(want)) {
			t.Errorf("got %v and a Deployment without %q:\n%s", err, want, data)
		}
	})
	t.Run("refuses a reference that is not a tag", func(t *testing.T) {
		_, err := buildRelease(t.Context(), b, "not a tag", "")
		if err == nil || !strings.Contains(err.Error(), "where the release goes") {
			t.Errorf("got error %v, want one about the reference of the release", err)
		}
	})
}

// The file for users has the image by digest, with the name that they pull.
func TestImageFile(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0", 64)
	for name, test := range map[string]struct {
		component string
		isPushed  bool
		want      string
	}{
		"in a registry":           {"registry.example.com/platform/release@" + digest, true, "registry.example.com/platform/release@" + digest},
		"in a layout":             {"bin/release:1.0.0-mainstay@" + digest, false, "ghcr.io/mainstay-dev/mainstay@" + digest},
		"in a layout with a sign": {"bin/re@lease:1.0.0-mainstay@" + digest, false, "ghcr.io/mainstay-dev/mainstay@" + digest},
		"only a tag":              {"registry.example.com/platform/release:1.0.0", true, ""},
		"a layout without digest": {"bin/release:1.0.0-mainstay", false, ""},
		"nothing":                 {"", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "image.txt")
			err := writeImageFile(file, test.component, test.isPushed)
			got, readErr := os.ReadFile(file)
			switch {
			case test.want == "" && (err == nil || !strings.Contains(err.Error(), "has no digest") || !errors.Is(readErr, fs.ErrNotExist)):
				t.Errorf("got %q (errors %v, %v), want no file and an error about the digest", got, err, readErr)
			case test.want != "" && (err != nil || string(got) != test.want+"\n"):
				t.Errorf("got %q (error %v), want %q", got, err, test.want+"\n")
			}
		})
	}
}

// releaseNames renames the namespaces of config, and the objects in them, as a release does.
var releaseNames = strings.NewReplacer(
	"/olm/", "/openshift-operator-lifecycle-manager/", "/operators/", "/openshift-operators/",
	"Namespace//olm", "Namespace//openshift-operator-lifecycle-manager", "Namespace//operators", "Namespace//openshift-operators",
)

// writeKeyring writes a file with an OpenPGP public key.
func writeKeyring(t *testing.T) string {
	t.Helper()
	entity, err := openpgp.NewEntity("Releases", "", "releases@example.com", nil)
	if err != nil {
		t.Fatal(err)
	}

	var text bytes.Buffer
	w, err := armor.Encode(&text, openpgp.PublicKeyType, nil)
	if err == nil {
		err = errors.Join(entity.Serialize(w), w.Close())
	}

	file := filepath.Join(t.TempDir(), "releases.asc")
	if err := errors.Join(err, os.WriteFile(file, text.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}

	return file
}

func parseReference(t *testing.T, ref string) name.Reference {
	t.Helper()
	parsed, err := name.ParseReference(ref)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// isOptionalComponent reports whether a folder is an optional component of kustomize.
func isOptionalComponent(dir string) bool {
	data, err := os.ReadFile(filepath.Join(dir, "kustomization.yaml"))
	return err == nil && bytes.Contains(data, []byte("\nkind: Component\n"))
}

// readObjectNames returns the kinds and names of all manifests in a folder.
func readObjectNames(t *testing.T, dir string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && isOptionalComponent(path) {
			return fs.SkipDir
		}
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
