package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/v1/types"
)

// maxManifestBytes is the manifest size that the OCI distribution specification requires a registry to accept at least: 4 MiB.
const maxManifestBytes = 4 << 20

// persistentHandler wraps a registry that holds its manifests in memory, and stores each change on disk.
type persistentHandler struct {
	next      http.Handler
	manifests manifestStore

	// writeMutex serializes changes, so that disk and memory end with the same manifest when two clients push one tag.
	writeMutex sync.Mutex
}

func (h *persistentHandler) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	repository, reference, ok := parseManifestPath(request.URL.Path)
	if !ok || (request.Method != http.MethodPut && request.Method != http.MethodDelete) {
		h.next.ServeHTTP(response, request)
		return
	}

	h.writeMutex.Lock()
	defer h.writeMutex.Unlock()
	body, err := io.ReadAll(http.MaxBytesReader(response, request.Body, maxManifestBytes))
	if err != nil {
		http.Error(response, fmt.Sprintf("read the manifest: %v", err), http.StatusRequestEntityTooLarge)
		return
	}

	request.Body = io.NopCloser(bytes.NewReader(body))
	// The client gets the response only after the change is on disk.
	answer := httptest.NewRecorder()
	h.next.ServeHTTP(answer, request)
	if answer.Code < 300 {
		err := h.persistChange(request.Method, storedManifest{
			Repository: repository, Reference: reference,
			MediaType: request.Header.Get("Content-Type"), Manifest: body,
		}, answer.Header().Get("Docker-Content-Digest"))
		if err != nil {
			http.Error(response, err.Error(), http.StatusInternalServerError)
			return
		}
	}

	for name, values := range answer.Header() {
		response.Header()[name] = values
	}

	response.WriteHeader(answer.Code)
	_, _ = answer.Body.WriteTo(response) // An error means that the client has disconnected.
}

// persistChange writes a change to disk. A pushed tag is stored as two manifests, because the registry also serves it
// by digest.
func (h *persistentHandler) persistChange(method string, manifest storedManifest, digest string) error {
	if method == http.MethodDelete {
		return h.manifests.delete(manifest.Repository, manifest.Reference)
	}
	if err := h.manifests.write(manifest); err != nil {
		return err
	}
	if digest == "" || digest == manifest.Reference {
		return nil
	}

	manifest.Reference = digest
	return h.manifests.write(manifest)
}

// restoreManifests pushes the manifests on disk to the registry. The registry rejects an index whose manifests it does
// not have, and an index may contain indexes. Images are therefore pushed first, and then indexes for as long as one
// more is accepted.
func (h *persistentHandler) restoreManifests(ctx context.Context) error {
	all, err := h.manifests.readAll()
	if err != nil {
		return err
	}

	var images, indexes []storedManifest
	for _, manifest := range all {
		if types.MediaType(manifest.MediaType).IsIndex() {
			indexes = append(indexes, manifest)
		} else {
			images = append(images, manifest)
		}
	}

	rejected, imagesErr := h.replayManifests(ctx, images)
	var indexesErr error
	for len(indexes) > 0 {
		pending := indexes
		indexes, indexesErr = h.replayManifests(ctx, pending)
		if len(indexes) == len(pending) {
			break
		}
	}

	if rejected = append(rejected, indexes...); len(rejected) > 0 {
		return fmt.Errorf("the registry rejects the stored manifest %s of %s: %w; `devcluster reset` deletes it with all state",
			rejected[0].Reference, rejected[0].Repository, errors.Join(imagesErr, indexesErr))
	}

	return nil
}

// replayManifests pushes manifests to the registry. It returns those that the registry rejected, and its reasons as an
// error.
func (h *persistentHandler) replayManifests(ctx context.Context, manifests []storedManifest) (rejected []storedManifest, err error) {
	for _, manifest := range manifests {
		target := url.URL{Path: "/v2/" + manifest.Repository + "/manifests/" + manifest.Reference}
		request := httptest.NewRequestWithContext(ctx, http.MethodPut, target.String(), bytes.NewReader(manifest.Manifest))
		request.Header.Set("Content-Type", manifest.MediaType)
		answer := httptest.NewRecorder()
		h.next.ServeHTTP(answer, request)
		if answer.Code >= 300 {
			rejected = append(rejected, manifest)
			err = errors.Join(err, errors.New(strings.TrimSpace(answer.Body.String())))
		}
	}

	return rejected, err
}

// parseManifestPath parses "/v2/<repository>/manifests/<reference>".
func parseManifestPath(path string) (repository, reference string, ok bool) {
	rest, ok := strings.CutPrefix(path, "/v2/")
	if !ok {
		return "", "", false
	}

	middle := strings.LastIndex(rest, "/manifests/")
	if middle <= 0 {
		return "", "", false
	}

	repository, reference = rest[:middle], rest[middle+len("/manifests/"):]
	return repository, reference, reference != "" && !strings.Contains(reference, "/")
}
