package image

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
)

// indexOf returns an image index of images or indexes, each with its platform.
func indexOf(t *testing.T, entries ...mutate.IndexAddendum) v1.ImageIndex {
	t.Helper()
	return mutate.AppendManifests(empty.Index, entries...)
}

// pushIndex pushes an index with its nested indexes. Its images must be in the repository
// already.
func pushIndex(t *testing.T, repository, version string, index v1.ImageIndex) {
	t.Helper()
	described, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}

	for _, entry := range described.Manifests {
		if entry.MediaType.IsIndex() {
			nested, err := index.ImageIndex(entry.Digest)
			if err != nil {
				t.Fatal(err)
			}
			pushIndex(t, repository, entry.Digest.String(), nested)
		}
	}

	data, err := index.RawManifest()
	if err != nil {
		t.Fatal(err)
	}

	host, path, _ := strings.Cut(repository, "/")
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+host+"/v2/"+path+"/manifests/"+version, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}

	request.Header.Set("Content-Type", string(described.MediaType))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()

	if response.StatusCode != http.StatusCreated {
		t.Fatal(response.Status)
	}
}

func TestPlatformsOfImages(t *testing.T) {
	host := newRegistry(t, nil)
	one, err := random.Image(10, 1)
	if err != nil {
		t.Fatal(err)
	}

	entry := func(os, architecture string) mutate.IndexAddendum {
		return mutate.IndexAddendum{Add: one, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: os, Architecture: architecture}}}
	}
	built := func(architecture string) *Built {
		image, err := Build(Spec{OS: "linux", Architecture: architecture})
		if err != nil {
			t.Fatal(err)
		}
		return image
	}

	for _, repository := range []string{"mixed", "nested", "deep"} {
		pushForeign(t, host+"/"+repository+":one", one)
	}

	pushImage(t, host+"/one:v1", built("s390x"))
	pushImage(t, host+"/two:v1", built("arm64"), built("amd64"))
	pushIndex(t, host+"/mixed", "v1", indexOf(t, entry("windows", "amd64"), entry("linux", "arm64"), entry("linux", "amd64"),
		entry("linux", "amd64"), entry("unknown", "unknown"), mutate.IndexAddendum{Add: one}))
	pushIndex(t, host+"/nested", "v1", indexOf(t, entry("linux", "amd64"), mutate.IndexAddendum{Add: indexOf(t, entry("linux", "ppc64le"))}))
	deep := indexOf(t, entry("linux", "amd64"))
	for range maxIndexes + 1 {
		deep = indexOf(t, mutate.IndexAddendum{Add: deep})
	}

	pushIndex(t, host+"/deep", "v1", deep)
	client := NewClient(Options{Architecture: "amd64"})
	// The entries have an artifact type, as crane writes it. They are images nevertheless.
	img, err := client.Pull(t.Context(), host+"/mixed:v1")
	if err != nil {
		t.Fatal(err)
	}
	if err := img.Close(); err != nil {
		t.Error(err)
	}

	for ref, want := range map[string][]Platform{
		"one":    {{"linux", "s390x"}},
		"two":    {{"linux", "amd64"}, {"linux", "arm64"}},
		"mixed":  {{"linux", "amd64"}, {"linux", "arm64"}, {"windows", "amd64"}},
		"nested": {{"linux", "amd64"}, {"linux", "ppc64le"}},
	} {
		got, err := client.Platforms(t.Context(), host+"/"+ref+":v1")
		if err != nil {
			t.Errorf("%s: %v", ref, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", ref, diff)
		}
	}

	for ref, want := range map[string]string{
		host + "/lost:v1": "check the name and the tag", host + "/deep:v1": "contains more than 8 image indexes", "UPPER": "",
	} {
		if got, err := client.Platforms(t.Context(), ref); err == nil || !strings.HasPrefix(err.Error(), "inspect image ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", ref, got, err)
		}
	}
}
