package registry

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// startRegistry runs a new registry on dir and returns its host. Each call simulates a restart of the process.
func startRegistry(t *testing.T, dir string) string {
	t.Helper()
	handler, err := NewHandler(t.Context(), dir, io.Discard)
	if err != nil {
		t.Fatal(err)
	}

	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	address, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}

	return address.Host
}

func parseReference(t *testing.T, text string) name.Reference {
	t.Helper()
	parsed, err := name.ParseReference(text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func digestOf(t *testing.T, thing interface{ Digest() (v1.Hash, error) }) string {
	t.Helper()
	digest, err := thing.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest.String()
}

func TestRestartKeepsImages(t *testing.T) {
	dir := t.TempDir()
	image, err := random.Image(1000, 3)
	if err != nil {
		t.Fatal(err)
	}

	index, err := random.Index(1000, 2, 2)
	if err != nil {
		t.Fatal(err)
	}

	host := startRegistry(t, dir)
	if err := remote.Write(parseReference(t, host+"/team/app:v1"), image); err != nil {
		t.Fatal(err)
	}
	if err := remote.WriteIndex(parseReference(t, host+"/team/catalog:latest"), index); err != nil {
		t.Fatal(err)
	}

	host = startRegistry(t, dir)
	for _, text := range []string{"/team/app:v1", "/team/app@" + digestOf(t, image)} {
		got, err := remote.Image(parseReference(t, host+text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if err := validate.Image(got); err != nil || digestOf(t, got) != digestOf(t, image) {
			t.Errorf("%s: %v", text, err)
		}
	}

	got, err := remote.Index(parseReference(t, host+"/team/catalog:latest"))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(got); err != nil || digestOf(t, got) != digestOf(t, index) {
		t.Errorf("reading the index: got error %v, want none", err)
	}

	repositories, err := remote.Catalog(t.Context(), parseReference(t, host+"/x").Context().Registry)
	slices.Sort(repositories) // The registry may list them in any order.
	if err != nil || !slices.Equal(repositories, []string{"team/app", "team/catalog"}) {
		t.Errorf("got repositories %q and error %v", repositories, err)
	}
}

// The registry reads manifests in the order of their hashes, so it reads some indexes before the ones that they contain.
func TestRestartKeepsNestedIndexes(t *testing.T) {
	const levels = 8
	dir := t.TempDir()
	var index v1.ImageIndex = empty.Index
	for range levels {
		index = mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: index})
	}
	if err := remote.WriteIndex(parseReference(t, startRegistry(t, dir)+"/nested:latest"), index); err != nil {
		t.Fatal(err)
	}

	got, err := remote.Index(parseReference(t, startRegistry(t, dir)+"/nested:latest"))
	for range levels {
		if err != nil {
			t.Fatal(err)
		}

		manifest, manifestErr := got.IndexManifest()
		if manifestErr != nil {
			t.Fatal(manifestErr)
		}

		got, err = got.ImageIndex(manifest.Manifests[0].Digest)
	}

	if err != nil || digestOf(t, got) != digestOf(t, empty.Index) {
		t.Errorf("got error %v, want the innermost index", err)
	}
}

func TestRestartKeepsMovedAndDeletedTags(t *testing.T) {
	dir := t.TempDir()
	host := startRegistry(t, dir)
	var latest v1.Image
	for range 2 {
		var err error
		if latest, err = random.Image(100, 1); err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(parseReference(t, host+"/app:latest"), latest); err != nil {
			t.Fatal(err)
		}
	}

	if err := remote.Tag(parseReference(t, host+"/app:gone").(name.Tag), latest); err != nil {
		t.Fatal(err)
	}
	if err := remote.Delete(parseReference(t, host+"/app:gone")); err != nil {
		t.Fatal(err)
	}

	host = startRegistry(t, dir)
	head, err := remote.Head(parseReference(t, host+"/app:latest"))
	if err != nil || head.Digest.String() != digestOf(t, latest) {
		t.Errorf("moved tag: got %+v and error %v, want the latest image", head, err)
	}
	if _, err := remote.Head(parseReference(t, host+"/app:gone")); err == nil {
		t.Error("got the deleted tag, want an error")
	}
}

func TestRejectedManifestsAreNotStored(t *testing.T) {
	dir := t.TempDir()
	handler, err := NewHandler(t.Context(), dir, io.Discard)
	if err != nil {
		t.Fatal(err)
	}

	for _, test := range []struct {
		name, mediaType string
		body            []byte
		code            int
	}{
		{
			"an index of a missing manifest", "application/vnd.oci.image.index.v1+json",
			[]byte(`{"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:` +
				strings.Repeat("0", 64) + `"}]}`), http.StatusNotFound,
		},
		{
			"too large", "application/vnd.oci.image.manifest.v1+json",
			bytes.Repeat([]byte(" "), maxManifestBytes+1), http.StatusRequestEntityTooLarge,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			request := httptest.NewRequest(http.MethodPut, "/v2/app/manifests/v1", bytes.NewReader(test.body))
			request.Header.Set("Content-Type", test.mediaType)
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, request)
			if answer.Code != test.code {
				t.Errorf("got status %d, want %d: %s", answer.Code, test.code, answer.Body)
			}
		})
	}

	kept, err := filepath.Glob(filepath.Join(dir, manifestsDir, "*"))
	if err != nil || len(kept) != 0 {
		t.Errorf("got stored manifests %v and error %v, want none", kept, err)
	}
}

func TestUnfinishedUploadsAreRemoved(t *testing.T) {
	dir := t.TempDir()
	startRegistry(t, dir)
	upload := filepath.Join(dir, blobsDir, "upload-123")
	if err := os.WriteFile(upload, nil, 0o600); err != nil {
		t.Fatal(err)
	}

	startRegistry(t, dir)
	if _, err := os.Stat(upload); !os.IsNotExist(err) {
		t.Errorf("got error %v for the unfinished upload, want that it does not exist", err)
	}
}

func TestParseManifestPath(t *testing.T) {
	for _, test := range []struct {
		path, repository, reference string
		ok                          bool
	}{
		{"/v2/app/manifests/v1", "app", "v1", true},
		{"/v2/team/app/manifests/sha256:00", "team/app", "sha256:00", true},
		{"/v2/team/manifests/app/manifests/v1", "team/manifests/app", "v1", true},
		{"/v2/app/manifests/", "", "", false},
		{"/v2/manifests/v1", "", "", false},
		{"/v2/app/blobs/sha256:00", "", "", false},
		{"/v2/", "", "", false},
		{"/elsewhere/app/manifests/v1", "", "", false},
	} {
		t.Run(test.path, func(t *testing.T) {
			repository, reference, ok := parseManifestPath(test.path)
			if ok != test.ok || ok && (repository != test.repository || reference != test.reference) {
				t.Errorf("got %q, %q, %t, want %q, %q, %t", repository, reference, ok, test.repository, test.reference, test.ok)
			}
		})
	}
}
