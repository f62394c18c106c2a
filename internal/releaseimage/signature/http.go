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
)

// requestTimeout bounds one request of a store: a signature has one KiB, and nobody should
// wait for a server that sends a byte each minute.
const requestTimeout = 30 * time.Second

// HTTPStore is a folder of a web server that holds <algorithm>=<hex>/signature-<number>.
type HTTPStore struct {
	base   *url.URL
	client *http.Client
}

// NewHTTPStore makes a store of a folder's URL, http or https. The client knows which
// proxies and certificates to use; nil means that of the machine.
func NewHTTPStore(base *url.URL, client *http.Client) (*HTTPStore, error) {
	if base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, errors.New("it must be a URL with http: or https: and a host")
	}
	if client == nil {
		client = http.DefaultClient
	}
	return &HTTPStore{base: base, client: client}, nil
}

// String returns the URL without its credentials.
func (s *HTTPStore) String() string {
	shown := url.URL{Scheme: s.base.Scheme, Host: s.base.Host, Path: s.base.Path}
	return shown.String()
}

// Signatures asks for one signature after the other, until the server knows no more.
func (s *HTTPStore) Signatures(ctx context.Context, digest Digest) iter.Seq2[[]byte, error] {
	return numbered(ctx, s.String(), digest, func(name string) ([]byte, error) { return s.read(ctx, name) })
}

func (s *HTTPStore) read(ctx context.Context, name string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base.JoinPath(name).String(), nil)
	if err != nil {
		return nil, withoutURL(err)
	}

	response, err := s.client.Do(request)
	if err != nil {
		return nil, withoutURL(err)
	}

	defer func() { _ = response.Body.Close() }() // It was only read.
	switch response.StatusCode {
	case http.StatusOK:
		return readSignature(response.Body)
	case http.StatusNotFound:
		_, _ = io.CopyN(io.Discard, response.Body, MaxSignatureBytes) // The connection is used again.
		return nil, fs.ErrNotExist
	default:
		return nil, fmt.Errorf("the server answered %s", shorten(response.Status))
	}
}

// withoutURL takes the URL out of an error: it may hold credentials.
func withoutURL(err error) error {
	if requestError := (*url.Error)(nil); errors.As(err, &requestError) {
		return requestError.Err
	}
	return err
}
