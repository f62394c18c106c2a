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
	resp, err := s.sendExpecting(ctx, request{
		operation: "look up the blob " + blob.String(), method: http.MethodHead, path: s.objectPath("blobs", blob.String()),
		expectedStatuses: []int{http.StatusOK, http.StatusNotFound},
	})
	if err != nil {
		return false, err
	}

	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK, nil
}

// PutBlob uploads a blob. Each call of open returns its content from the start. The
// function sent may be nil. It is called with the number of bytes sent so far, which begins
// at zero again when the upload is retried.
func (s *Session) PutBlob(ctx context.Context, blob digest.Digest, size int64, open func() (io.ReadCloser, error), sent func(n int64)) error {
	what := "upload the blob " + blob.String()
	resp, err := s.sendExpecting(ctx, request{
		operation: what, method: http.MethodPost, path: s.objectPath("blobs", "uploads") + "/",
		expectedStatuses: []int{http.StatusAccepted},
	})
	if err != nil {
		return err
	}

	_ = resp.Body.Close()
	target, err := s.uploadTarget(resp, blob)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}

	resp, err = s.sendExpecting(ctx, request{
		operation: what, method: http.MethodPut, target: target,
		header: http.Header{"Content-Type": {"application/octet-stream"}},
		body:   &requestBody{size: size, open: open, sent: sent}, expectedStatuses: []int{http.StatusCreated},
	})
	if err != nil {
		return err
	}

	return resp.Body.Close()
}

// uploadTarget returns the URL to which the registry wants a blob to be uploaded.
func (s *Session) uploadTarget(started *http.Response, blob digest.Digest) (*url.URL, error) {
	location, err := started.Location()
	if err != nil {
		return nil, errors.New("the registry does not say where to send it")
	}
	if location.Host == s.opts.registryAddress() {
		// A registry behind a proxy may not know that clients reach it over TLS.
		location.Scheme = started.Request.URL.Scheme
	}
	if location.Scheme != "https" && (location.Scheme != "http" || !s.opts.Insecure) {
		return nil, &LoginError{fmt.Sprintf("the registry wants it to be sent over %s:, which is not encrypted", location.Scheme)}
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
	resp, err := s.sendExpecting(ctx, request{
		operation: "upload the manifest " + tagOrDigest, method: http.MethodPut, path: s.objectPath("manifests", tagOrDigest),
		header: http.Header{"Content-Type": {mediaType}},
		body:   newBytesBody(data), expectedStatuses: []int{http.StatusCreated, http.StatusOK, http.StatusAccepted},
	})
	if err != nil {
		return err
	}
	return resp.Body.Close()
}
