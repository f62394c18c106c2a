package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/opencontainers/go-digest"
)

// HasBlob reports whether the repository has a blob.
func (s *Session) HasBlob(ctx context.Context, blob digest.Digest) (bool, error) {
	resp, err := s.do(ctx, request{
		what: "look up the blob " + blob.String(), method: http.MethodHead, path: s.path("blobs", blob.String()),
		want: []int{http.StatusOK, http.StatusNotFound},
	})
	if err != nil {
		return false, err
	}

	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK, nil
}

// PutBlob uploads a blob of a size, whose content open gives, from its start, each time that
// it is called. The function sent may be nil; it is told how many bytes were sent so far,
// which begins again when the upload does.
func (s *Session) PutBlob(ctx context.Context, blob digest.Digest, size int64, open func() (io.ReadCloser, error), sent func(n int64)) error {
	what := "upload the blob " + blob.String()
	resp, err := s.do(ctx, request{
		what: what, method: http.MethodPost, path: s.path("blobs", "uploads") + "/",
		want: []int{http.StatusAccepted},
	})
	if err != nil {
		return err
	}

	_ = resp.Body.Close()
	target, err := s.uploadTarget(resp, blob)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}

	resp, err = s.do(ctx, request{
		what: what, method: http.MethodPut, target: target,
		header: http.Header{"Content-Type": {"application/octet-stream"}},
		body:   &body{size: size, open: open, sent: sent}, want: []int{http.StatusCreated},
	})
	if err != nil {
		return err
	}

	return resp.Body.Close()
}

// uploadTarget returns where a registry wants a blob to be sent to.
func (s *Session) uploadTarget(started *http.Response, blob digest.Digest) (*url.URL, error) {
	location, err := started.Location()
	if err != nil {
		return nil, errors.New("the registry does not say where to send it")
	}
	if location.Host == s.address() {
		// A registry behind a proxy may not know that it is reached over TLS.
		location.Scheme = started.Request.URL.Scheme
	}
	if location.Scheme != "https" && (location.Scheme != "http" || !s.opts.Insecure) {
		return nil, &LoginError{fmt.Sprintf("the registry wants it to be sent over %s:, which is open to all", location.Scheme)}
	}
	if location.RawQuery != "" {
		location.RawQuery += "&"
	}

	location.RawQuery += "digest=" + url.QueryEscape(blob.String())
	location.User = nil
	return location, nil
}

// PutManifest uploads a manifest under a tag or its digest.
func (s *Session) PutManifest(ctx context.Context, tagOrDigest, mediaType string, data []byte) error {
	resp, err := s.do(ctx, request{
		what: "upload the manifest " + tagOrDigest, method: http.MethodPut, path: s.path("manifests", tagOrDigest),
		header: http.Header{"Content-Type": {mediaType}},
		body:   bytesBody(data), want: []int{http.StatusCreated, http.StatusOK, http.StatusAccepted},
	})
	if err != nil {
		return err
	}
	return resp.Body.Close()
}
