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

// maxManifestBytes is what the OCI distribution specification asks a registry to accept at least: 4 MiB.
const maxManifestBytes = 4 << 20

// keeper stands before a registry that holds its manifests in memory, and keeps those on disk.
type keeper struct {
	next  http.Handler
	files manifestFiles

	// writes lets one change through at a time, so that the disk ends with the same manifest as the memory does when two
	// clients push one tag.
	writes sync.Mutex
}

func (k *keeper) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	repository, reference, ok := manifestPath(request.URL.Path)
	if !ok || (request.Method != http.MethodPut && request.Method != http.MethodDelete) {
		k.next.ServeHTTP(response, request)
		return
	}

	k.writes.Lock()
	defer k.writes.Unlock()
	body, err := io.ReadAll(http.MaxBytesReader(response, request.Body, maxManifestBytes))
	if err != nil {
		http.Error(response, fmt.Sprintf("read the manifest: %v", err), http.StatusRequestEntityTooLarge)
		return
	}

	request.Body = io.NopCloser(bytes.NewReader(body))
	// The client learns of its success when the change is on disk.
	answer := httptest.NewRecorder()
	k.next.ServeHTTP(answer, request)
	if answer.Code < 300 {
		err := k.keep(request.Method, kept{
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
	_, _ = answer.Body.WriteTo(response) // The client is gone; nobody is left to tell.
}

// keep writes a change to disk. A pushed tag is kept as two manifests, because the registry answers to its digest as well.
func (k *keeper) keep(method string, manifest kept, digest string) error {
	if method == http.MethodDelete {
		return k.files.delete(manifest.Repository, manifest.Reference)
	}
	if err := k.files.write(manifest); err != nil {
		return err
	}
	if digest == "" || digest == manifest.Reference {
		return nil
	}

	manifest.Reference = digest
	return k.files.write(manifest)
}

// restore returns the registry the manifests on disk. The registry refuses an index whose manifests it does not have, and
// indexes may hold indexes: images go first, and then indexes for as long as one more is accepted.
func (k *keeper) restore(ctx context.Context) error {
	all, err := k.files.readAll()
	if err != nil {
		return err
	}

	var images, indexes []kept
	for _, manifest := range all {
		if types.MediaType(manifest.MediaType).IsIndex() {
			indexes = append(indexes, manifest)
		} else {
			images = append(images, manifest)
		}
	}

	refused, err := k.put(ctx, images)
	for len(indexes) > 0 && err == nil {
		waiting := indexes
		indexes, err = k.put(ctx, waiting)
		if len(indexes) == len(waiting) {
			break
		}
	}

	if refused = append(refused, indexes...); len(refused) > 0 {
		return fmt.Errorf("the registry's %s of %s was kept but is refused now: %w; `devcluster reset` starts anew",
			refused[0].Reference, refused[0].Repository, err)
	}

	return nil
}

// put returns manifests to the registry and returns those that it refused, with its reasons.
func (k *keeper) put(ctx context.Context, manifests []kept) (refused []kept, err error) {
	for _, manifest := range manifests {
		target := url.URL{Path: "/v2/" + manifest.Repository + "/manifests/" + manifest.Reference}
		request := httptest.NewRequestWithContext(ctx, http.MethodPut, target.String(), bytes.NewReader(manifest.Manifest))
		request.Header.Set("Content-Type", manifest.MediaType)
		answer := httptest.NewRecorder()
		k.next.ServeHTTP(answer, request)
		if answer.Code >= 300 {
			refused = append(refused, manifest)
			err = errors.Join(err, errors.New(strings.TrimSpace(answer.Body.String())))
		}
	}

	return refused, err
}

// manifestPath takes apart "/v2/<repository>/manifests/<reference>".
func manifestPath(path string) (repository, reference string, ok bool) {
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
