package cli_test

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/cluster/updates"
	"github.com/mainstay-dev/mainstay/internal/cluster/updateservice"
	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/release"
	"github.com/mainstay-dev/mainstay/internal/testing/ociregistry"
)

var updateServicePage = filepath.Join("..", "..", "docs", "update-service.md")

// fences returns the code blocks of a page as pairs of the info string and the content.
func fences(t *testing.T, file string) [][2]string {
	t.Helper()
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}

	var found [][2]string
	for _, match := range regexp.MustCompile("(?ms)^```([^\n]+)\n(.*?)^```$").FindAllStringSubmatch(string(page), -1) {
		found = append(found, [2]string{match[1], match[2]})
	}

	return found
}

// The example of the page has the documented output.
func TestUpdateServicePage(t *testing.T) {
	dir, shown := t.TempDir(), ""
	for _, fence := range fences(t, updateServicePage) {
		_, name, named := strings.Cut(fence[0], " ")
		switch {
		case named:
			file := filepath.Join(dir, filepath.FromSlash(name))
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(fence[1]), 0o600); err != nil {
				t.Fatal(err)
			}
		case fence[0] == "console":
			shown = fence[1]
		case fence[0] == "yaml":
			checkManifests(t, fence[1])
		}
	}

	server := ociregistry.Start(t)
	repository := server.Host + "/platform/release"
	pushReleases(t, repository)
	service, err := updateservice.New(updateservice.Options{
		Releases: repository, DataFolder: dir, Images: image.Options{Insecure: true}, Log: logr.Discard(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := service.Scan(t.Context()); err != nil {
		t.Fatal(err)
	}

	graphs := httptest.NewServer(service.Handler())
	defer graphs.Close()
	for _, line := range exampleLines(t, updateServicePage) {
		words := split(line)
		words[3] = strings.Replace(words[3], "http://localhost:8081", graphs.URL, 1)
		_, got, _ := strings.Cut(run(t, command{line: words}), "\n")
		got = strings.ReplaceAll(got, server.Host, "registry.example.com")
		got = regexp.MustCompile(`sha256:[0-9a-f]{64}`).ReplaceAllString(got, "sha256:DIGEST")
		if diff := cmp.Diff(shown, got); diff != "" {
			t.Errorf("%s (-on the page +written):\n%s", line, diff)
		}
	}
}

// The page documents every reason of the cluster.
func TestUpdateServicePageReasons(t *testing.T) {
	page, err := os.ReadFile(updateServicePage)
	if err != nil {
		t.Fatal(err)
	}

	for _, reason := range []string{
		updates.ReasonNoUpstream, updates.ReasonInvalidURI, updates.ReasonInvalidID, updates.ReasonNoArchitecture, updates.ReasonNoCurrentVersion,
		updates.ReasonNoChannel, updates.ReasonInvalidCurrentVersion, updates.ReasonInvalidRequest, updates.ReasonRemoteFailed,
		updates.ReasonResponseFailed, updates.ReasonResponseInvalid, updates.ReasonVersionNotFound,
		updates.ReasonNotExposedToRisks, updates.ReasonAllExposedRisksAccepted, updates.ReasonExposedToRisks, updates.ReasonEvaluationFailed, updates.ReasonMultipleReasons,
	} {
		if !strings.Contains(string(page), "`"+reason+"`") {
			t.Errorf("the page does not name %s", reason)
		}
	}
}

// pushReleases pushes the releases that the page describes.
func pushReleases(t *testing.T, repository string) {
	t.Helper()
	versions := []string{"1.3.7", "1.4.0", "1.4.1", "1.4.2"}
	for i, version := range versions {
		metadata, err := release.Metadata{Kind: release.KindMetadata, Version: version, Previous: versions[:i]}.Encode()
		if err != nil {
			t.Fatal(err)
		}

		images, err := release.ImageReferences{Name: version}.Encode()
		if err != nil {
			t.Fatal(err)
		}

		ociregistry.Push(t, repository+":"+version, image.Spec{OS: "linux", Architecture: "amd64", Layers: []image.Layer{{Files: []image.File{
			{Path: release.FileMetadata, Content: metadata}, {Path: release.FileImages, Content: images},
		}}}})
	}
}

// checkManifests decodes manifests strictly, so that misspelled fields are detected.
func checkManifests(t *testing.T, text string) {
	t.Helper()
	for document := range strings.SplitSeq(text, "---\n") {
		var kind struct{ Kind string }
		if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
			t.Fatal(err)
		}

		object, ok := map[string]any{
			"ClusterVersion": &configv1.ClusterVersion{}, "Deployment": &appsv1.Deployment{}, "Service": &corev1.Service{},
			"PodDisruptionBudget": &policyv1.PodDisruptionBudget{},
		}[kind.Kind]
		if !ok {
			t.Errorf("got a %q on the page, which this test does not check", kind.Kind)
			continue
		}
		if err := yaml.UnmarshalStrict([]byte(document), object); err != nil {
			t.Errorf("%s: %v", kind.Kind, err)
		}
	}
}
