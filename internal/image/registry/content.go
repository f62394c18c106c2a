package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/opencontainers/go-digest"
	"go.podman.io/image/v5/manifest"

	"github.com/mainstay-dev/mainstay/internal/excerpt"
)

// MaxManifest bounds a manifest, in bytes. It is the limit of registries.
const MaxManifest = 4 << 20

// ErrNoDigest is returned when a registry does not return the digest of a tag without the
// manifest. Manifest reads the manifest itself.
var ErrNoDigest = errors.New("the registry does not return the digest")

// Digest returns the digest of a tag. It sends a HEAD request. It returns ErrNoDigest if
// the response has no digest.
func (s *Session) Digest(ctx context.Context, tag string) (digest.Digest, error) {
	resp, err := s.sendExpecting(ctx, request{
		operation: "look up the tag " + tag, method: http.MethodHead, path: s.objectPath("manifests", tag),
		header:           acceptManifests(),
		expectedStatuses: []int{http.StatusOK, http.StatusMethodNotAllowed, http.StatusNotImplemented, http.StatusBadRequest},
	})
	if err != nil {
		return "", err
	}

	_ = resp.Body.Close()
	found, err := digest.Parse(resp.Header.Get("Docker-Content-Digest"))
	if err != nil || resp.StatusCode != http.StatusOK {
		return "", ErrNoDigest
	}

	return found, nil
}

// Manifest reads a manifest. It returns it with its media type, which is empty when the
// registry does not specify one. The caller verifies the digest.
func (s *Session) Manifest(ctx context.Context, tagOrDigest string) ([]byte, string, error) {
	resp, err := s.sendExpecting(ctx, request{
		operation: "read the manifest " + tagOrDigest, method: http.MethodGet, path: s.objectPath("manifests", tagOrDigest),
		header: acceptManifests(), expectedStatuses: []int{http.StatusOK},
	})
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = resp.Body.Close() }() // It was only read.

	data, err := readAtMost(resp.Body, MaxManifest, "the manifest "+tagOrDigest)
	if err != nil {
		return nil, "", fmt.Errorf("read the manifest %s: %w", tagOrDigest, err)
	}

	mediaType, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		mediaType = ""
	}

	return data, mediaType, nil
}

func acceptManifests() http.Header {
	return http.Header{"Accept": manifest.DefaultRequestedManifestMIMETypes}
}

// Blob is an open blob.
type Blob struct {
	// Body is the content from Offset on. The caller closes it.
	Body io.ReadCloser
	// Offset is where Body begins: the requested offset, or zero if the registry does not
	// support range requests.
	Offset int64
	// Size is the size of the whole blob, or -1 if the registry does not specify it.
	Size int64
}

// Blob opens a blob at an offset, or at its start if the registry does not support range
// requests.
func (s *Session) Blob(ctx context.Context, blob digest.Digest, offset int64) (*Blob, error) {
	r := request{
		operation: "read the blob " + blob.String(), method: http.MethodGet, path: s.objectPath("blobs", blob.String()),
		expectedStatuses: []int{http.StatusOK},
	}
	if offset > 0 {
		r.header = http.Header{"Range": {fmt.Sprintf("bytes=%d-", offset)}}
		r.expectedStatuses = append(r.expectedStatuses, http.StatusPartialContent, http.StatusRequestedRangeNotSatisfiable)
	}

	resp, err := s.sendExpecting(ctx, r)
	if err != nil {
		return nil, err
	}

	switch resp.StatusCode {
	case http.StatusOK:
		return &Blob{Body: resp.Body, Size: resp.ContentLength}, nil
	case http.StatusRequestedRangeNotSatisfiable:
		_ = resp.Body.Close()
		return s.Blob(ctx, blob, 0)
	}

	size, err := parseContentRange(resp.Header.Get("Content-Range"), offset)
	if err != nil {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("%s: %w", r.operation, err)
	}

	return &Blob{Body: resp.Body, Offset: offset, Size: size}, nil
}

// parseContentRange checks that a partial response begins at offset and ends at the end of
// the blob. It returns the size of the whole blob, or -1 when the response does not have
// it.
func parseContentRange(contentRange string, offset int64) (int64, error) {
	bad := fmt.Errorf("asked for what follows byte %d, the registry gives %q", offset, excerpt.Line(contentRange, maxErrorTextBytes))
	text, ok := strings.CutPrefix(contentRange, "bytes ")
	span, whole, ok2 := strings.Cut(text, "/")
	first, last, ok3 := strings.Cut(span, "-")
	if !ok || !ok2 || !ok3 || first != strconv.FormatInt(offset, 10) {
		return 0, bad
	}
	if whole == "*" {
		return -1, nil
	}

	size, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || last != strconv.FormatInt(size-1, 10) {
		return 0, bad
	}

	return size, nil
}

// objectPath returns the URL path of a manifest or blob of the repository. Both parts are
// escaped, although the parser of the reference has checked them.
func (s *Session) objectPath(kind, name string) string {
	return repositoryPath(s.opts.Repository) + kind + "/" + url.PathEscape(name)
}

// repositoryPath returns the start of the URL paths of a repository.
func repositoryPath(repository string) string {
	return "/v2/" + (&url.URL{Path: repository}).EscapedPath() + "/"
}

// requestBody is the body of a request.
type requestBody struct {
	size int64
	open func() (io.ReadCloser, error)
	// secret bodies are not sent again to the target of a redirect.
	secret bool
	// sent is called with the number of bytes sent so far. It may be nil.
	sent func(n int64)
}

func newBytesBody(data []byte) *requestBody {
	return &requestBody{size: int64(len(data)), open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }}
}

// attachToRequest sets the body of an HTTP request.
func (b *requestBody) attachToRequest(req *http.Request) error {
	if b.size == 0 {
		return nil
	}

	open := func() (io.ReadCloser, error) {
		r, err := b.open()
		return &countingReader{ReadCloser: r, sent: b.sent}, err
	}
	req.ContentLength = b.size
	if !b.secret {
		req.GetBody = open
	}

	var err error
	req.Body, err = open()
	return err
}

type countingReader struct {
	io.ReadCloser
	count int64
	sent  func(int64)
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	if c.count += int64(n); n > 0 && c.sent != nil {
		c.sent(c.count)
	}
	return n, err
}
