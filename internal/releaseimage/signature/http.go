package signature

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/mainstay-dev/mainstay/internal/excerpt"
)

// requestTimeout is the timeout of one request. A signature has about 1 KiB.
const requestTimeout = 30 * time.Second

// HTTPStore is a directory of a web server with files <algorithm>=<hex>/signature-<number>.
type HTTPStore struct {
	base   *url.URL
	client *http.Client
}

// NewHTTPStore returns a store for an http or https URL. The client determines proxies and
// certificates; nil means http.DefaultClient.
func NewHTTPStore(base *url.URL, client *http.Client) (*HTTPStore, error) {
	if base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, errors.New("it must be a URL with http: or https: and a host")
	}
	if client == nil {
		client = http.DefaultClient
	}
	return &HTTPStore{base: base, client: client}, nil
}

// String returns the URL without credentials.
func (s *HTTPStore) String() string {
	shown := url.URL{Scheme: s.base.Scheme, Host: s.base.Host, Path: s.base.Path}
	return shown.String()
}

// Signatures requests one signature after the other, until one does not exist.
func (s *HTTPStore) Signatures(ctx context.Context, digest Digest) iter.Seq2[[]byte, error] {
	return readNumberedSignatures(ctx, s.String(), digest, func(name string) ([]byte, error) { return s.fetchSignature(ctx, name) })
}

func (s *HTTPStore) fetchSignature(ctx context.Context, name string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base.JoinPath(name).String(), nil)
	if err != nil {
		return nil, stripURL(err)
	}

	response, err := s.client.Do(request)
	if err != nil {
		return nil, stripURL(err)
	}
	defer func() { _ = response.Body.Close() }() // It was only read.
	switch response.StatusCode {
	case http.StatusOK:
		return readSignature(response.Body)
	case http.StatusNotFound:
		_, _ = io.CopyN(io.Discard, response.Body, MaxSignatureBytes) // Drain the body to reuse the connection.
		return nil, fs.ErrNotExist
	default:
		return nil, fmt.Errorf("the server answered %s", excerpt.Line(response.Status, maxTextBytes))
	}
}

// stripURL removes the URL from an error, because it may contain credentials.
func stripURL(err error) error {
	if requestError := (*url.Error)(nil); errors.As(err, &requestError) {
		return requestError.Err
	}
	return err
}
