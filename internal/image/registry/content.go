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
)

// MaxManifest bounds a manifest, in bytes. It is what registries accept.
const MaxManifest = 4 << 20

// ErrNoDigest says that a registry does not tell the digest of a tag without giving the
// manifest: Manifest gives it.
var ErrNoDigest = errors.New("the registry does not tell the digest")

// Digest asks which digest a tag has, by one request without a body.
func (s *Session) Digest(ctx context.Context, tag string) (digest.Digest, error) {
	resp, err := s.do(ctx, request{
		what: "look up the tag " + tag, method: http.MethodHead, path: s.path("manifests", tag),
		header: acceptManifests(),
		want:   []int{http.StatusOK, http.StatusMethodNotAllowed, http.StatusNotImplemented, http.StatusBadRequest},
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

// Manifest reads a manifest and gives it with its media type, empty when the registry does
// not tell. Whether it has the digest that it was asked for by is for the caller to see.
func (s *Session) Manifest(ctx context.Context, tagOrDigest string) ([]byte, string, error) {
	resp, err := s.do(ctx, request{
		what: "read the manifest " + tagOrDigest, method: http.MethodGet, path: s.path("manifests", tagOrDigest),
		header: acceptManifests(), want: []int{http.StatusOK},
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
	// Body has what follows Offset. The caller closes it.
	Body io.ReadCloser
	// Offset is where Body begins: what was asked for, or zero where the registry gives
	// blobs only as a whole.
	Offset int64
	// Size of the whole blob as the registry tells it, -1 when it does not.
	Size int64
}

// Blob opens a blob from an offset on, or from its start where the registry gives blobs
// only as a whole.
func (s *Session) Blob(ctx context.Context, blob digest.Digest, offset int64) (*Blob, error) {
	r := request{
		what: "read the blob " + blob.String(), method: http.MethodGet, path: s.path("blobs", blob.String()),
		want: []int{http.StatusOK},
	}
	if offset > 0 {
		r.header = http.Header{"Range": {fmt.Sprintf("bytes=%d-", offset)}}
		r.want = append(r.want, http.StatusPartialContent, http.StatusRequestedRangeNotSatisfiable)
	}

	resp, err := s.do(ctx, r)
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

	size, err := continues(resp.Header.Get("Content-Range"), offset)
	if err != nil {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("%s: %w", r.what, err)
	}

	return &Blob{Body: resp.Body, Offset: offset, Size: size}, nil
}

// continues checks that an answer is the rest of a blob from an offset on, and gives the
// size of the whole, -1 when it is not told.
func continues(contentRange string, offset int64) (int64, error) {
	bad := fmt.Errorf("asked for what follows byte %d, the registry gives %q", offset, shorten(contentRange))
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

// path returns the path of an object of the repository. Its parts were checked by whoever
// parsed the reference and the digest, and are escaped all the same.
func (s *Session) path(kind, name string) string {
	repository := (&url.URL{Path: s.opts.Repository}).EscapedPath()
	return "/v2/" + repository + "/" + kind + "/" + url.PathEscape(name)
}

// body is what a request carries.
type body struct {
	size int64
	open func() (io.ReadCloser, error)
	// secret is not carried along where an answer redirects to.
	secret bool
	// sent is told how many bytes were sent. May be nil.
	sent func(n int64)
}

func bytesBody(data []byte) *body {
	return &body{size: int64(len(data)), open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }}
}

func (b *body) attach(req *http.Request) error {
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
