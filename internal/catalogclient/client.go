// Package catalogclient is a client for the HTTP API of catalogs. It reads one package of a
// catalog, or all of it.
//
// Responses are streamed, bounded, and cached with their entity tags. Requesting an unchanged
// package again only costs a request without a response body. Servers that support it omit fields
// that are not needed. The package does not select bundles and does not locate catalogs: the
// status of a ClusterCatalog has the URL.
package catalogclient

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/mainstay-dev/mainstay/internal/catalogclient/fields"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// Options configures a Client. A zero field means its default.
type Options struct {
	// RootCAs returns the certificate authorities for servers. It is called for every new
	// connection, so that a renewed authority needs no restart. Nil means the authorities of the
	// system.
	RootCAs func(ctx context.Context) (*x509.CertPool, error)
	// Proxy returns the proxy for a request, or nil. The default follows HTTP_PROXY, HTTPS_PROXY
	// and NO_PROXY.
	Proxy func(*http.Request) (*url.URL, error)
	// Timeout is the maximum duration of one request, including its response body. Default two
	// minutes: 75 MB at 5 Mbit/s.
	Timeout time.Duration
	// MaxBytes is the maximum size of one decompressed response. Default 1 GiB: ten times the
	// largest public catalog.
	MaxBytes int64
	// CacheBytes is the maximum memory of cached packages. Default 32 MiB: about 300 packages
	// without the properties that can be omitted.
	CacheBytes int64
	// Fields selects the fields of a package's blobs, see package fields; nil means all. Servers
	// that support it only send these fields. All ignores this option.
	Fields *fields.Fields
	// Limits bounds single blobs.
	Limits fbc.Limits
}

const (
	defaultTimeout    = 2 * time.Minute
	defaultMaxBytes   = 1 << 30
	defaultCacheBytes = 32 << 20
	// maxErrorBytes is the maximum length of an error response in an error.
	maxErrorBytes = 512
	// maxAttempts bounds the attempts to read a package while its catalog changes.
	maxAttempts = 3
	// fieldsRetryInterval is the time after which the parameter fields is sent again to a server
	// that did not support it, as the server may have been updated.
	fieldsRetryInterval = 10 * time.Minute
)

// Client reads catalogs. It is safe for concurrent use.
type Client struct {
	opts  Options
	http  *http.Client
	cache *cache
	now   func() time.Time
	sleep func(context.Context, time.Duration) error

	mu sync.Mutex
	// fieldsUnsupported are the base URLs of servers that do not support the parameter fields, with
	// the time at which it is sent again.
	fieldsUnsupported map[string]time.Time
}

// New returns a client.
func New(opts Options) *Client {
	setDefaultIfZero(&opts.Timeout, defaultTimeout)
	setDefaultIfZero(&opts.MaxBytes, defaultMaxBytes)
	setDefaultIfZero(&opts.CacheBytes, defaultCacheBytes)
	return &Client{
		opts: opts, cache: newCache(opts.CacheBytes), now: time.Now, sleep: sleepWithContext, fieldsUnsupported: map[string]time.Time{},
		http: &http.Client{
			Timeout: opts.Timeout, Transport: newTransport(opts),
			// The API has no redirects, and a redirect could lead to any server.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

func setDefaultIfZero[T time.Duration | int64](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}

// UnavailableError is returned if a catalog cannot be read because its server does not respond,
// or does not respond like a catalog. A retry may help.
type UnavailableError struct {
	// URL is the requested URL.
	URL string
	// Status is the HTTP status code, 0 without a response.
	Status int
	// Err is the cause.
	Err error

	// retryAfter is the delay that the server asks for, 0 if it does not.
	retryAfter time.Duration
}

// Error returns the URL and the cause.
func (e *UnavailableError) Error() string {
	return fmt.Sprintf("reading %s: %v", e.URL, e.Err)
}

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }

// ContentError is returned if the content of a catalog is invalid. A retry only helps after the
// catalog has changed.
type ContentError struct {
	// URL is the requested URL.
	URL string
	// Err is the fault.
	Err error
}

// Error returns the URL and the fault.
func (e *ContentError) Error() string {
	return fmt.Sprintf("the content of %s is invalid: %v", e.URL, e.Err)
}

// Unwrap returns the fault.
func (e *ContentError) Unwrap() error { return e.Err }

// Content returns the content of a package in the catalog at a base URL, which is that in the
// status of a ClusterCatalog. If the catalog does not have the package, the content is empty and
// has no Package.
//
// The content is shared with other callers and must not be modified. Errors are an
// *UnavailableError or a *ContentError.
func (c *Client) Content(ctx context.Context, baseURL, pkg string) (*fbc.Content, error) {
	key := cacheKey{base: baseURL, pkg: pkg}
	var entry cacheEntry
	for range maxAttempts {
		known := c.cache.get(key)
		blobs, err := c.fetchPackageBlobs(ctx, baseURL, pkg, url.Values{"package": {pkg}}, known.blobsResponse)
		if err != nil {
			return nil, err
		}

		packageBlob, err := c.fetchPackageBlobs(ctx, baseURL, pkg, url.Values{"schema": {fbc.SchemaPackage}, "name": {pkg}}, known.packageResponse)
		if err != nil {
			return nil, err
		}

		entry = mergeResponses(blobs, packageBlob)
		c.cache.put(key, entry)
		// Both responses are from the same catalog only if it was not replaced in between.
		if blobs.modified == packageBlob.modified {
			break
		}
	}

	return entry.content, nil
}

// mergeResponses merges the two responses about a package.
func mergeResponses(blobs, packageBlob packageResponse) cacheEntry {
	content := *blobs.content
	content.Package = packageBlob.content.Package
	return cacheEntry{blobsResponse: blobs, packageResponse: packageBlob, content: &content}
}

// All yields every blob of a catalog. The first error ends the iteration; Content lists the kinds
// of errors. Nothing is cached.
func (c *Client) All(ctx context.Context, baseURL string) iter.Seq2[fbc.Meta, error] {
	return func(yield func(fbc.Meta, error) bool) {
		target := strings.TrimSuffix(baseURL, "/") + "/api/v1/all"
		var resp response
		err := c.callWithRetries(ctx, func() (err error) {
			resp, err = c.sendGetRequest(ctx, target, packageResponse{})
			return err
		})
		if err != nil {
			yield(fbc.Meta{}, err)
			return
		}
		defer resp.body.Close()
		for meta, err := range fbc.Read(resp.body, "", c.opts.Limits) {
			if err != nil {
				yield(fbc.Meta{}, classifyError(target, err))
				return
			}
			if !yield(meta, nil) {
				return
			}
		}
	}
}

// packageResponse is one response about a package.
type packageResponse struct {
	// tag and since are sent with the next request, so that the server only responds with a
	// body if the package has changed. since is empty if tag is set.
	tag, since string
	modified   string
	content    *fbc.Content
	blobBytes  int64
}

// fetchPackageBlobs requests blobs of a package. It returns known if they have not changed.
func (c *Client) fetchPackageBlobs(ctx context.Context, baseURL, pkg string, query url.Values, known packageResponse) (p packageResponse, err error) {
	if c.opts.Fields != nil && c.supportsFieldsParameter(baseURL) {
		query.Set("fields", c.opts.Fields.String())
	}

	err = c.callWithRetries(ctx, func() error {
		p, err = c.fetchPackageBlobsOnce(ctx, buildMetasURL(baseURL, query), pkg, known, !query.Has("fields"))
		return err
	})
	var unavailable *UnavailableError
	if !query.Has("fields") || !errors.As(err, &unavailable) || unavailable.Status != http.StatusBadRequest {
		return p, err
	}

	c.markFieldsUnsupported(baseURL)
	query.Del("fields")
	return c.fetchPackageBlobs(ctx, baseURL, pkg, query, packageResponse{})
}

// supportsFieldsParameter reports whether the parameter fields can be sent to a server.
func (c *Client) supportsFieldsParameter(baseURL string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.now().Before(c.fieldsUnsupported[baseURL])
}

// markFieldsUnsupported records that a server does not support the parameter fields.
func (c *Client) markFieldsUnsupported(baseURL string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	maps.DeleteFunc(c.fieldsUnsupported, func(_ string, until time.Time) bool { return !now.Before(until) })
	c.fieldsUnsupported[baseURL] = now.Add(fieldsRetryInterval)
}

// fetchPackageBlobsOnce sends one request. If whole is set, the request does not let the server omit
// fields, and they are removed here.
func (c *Client) fetchPackageBlobsOnce(ctx context.Context, target, pkg string, known packageResponse, whole bool) (packageResponse, error) {
	resp, err := c.sendGetRequest(ctx, target, known)
	if err != nil {
		return packageResponse{}, err
	}
	if resp.body == nil {
		known.modified = resp.header.Get("Last-Modified")
		return known, nil
	}
	defer resp.body.Close()
	p := packageResponse{tag: resp.header.Get("ETag"), modified: resp.header.Get("Last-Modified")}
	if p.tag == "" {
		p.since = ifModifiedSince(resp.header)
	}

	metas := c.removeUnwantedFields(fbc.Read(resp.body, "", c.opts.Limits), whole, &p.blobBytes)
	if p.content, err = fbc.LoadContent(pkg, metas); err != nil {
		return packageResponse{}, classifyError(target, err)
	}

	return p, nil
}

// ifModifiedSince returns the value of the header If-Modified-Since for the next request. It is
// empty if the response may still change within the same second, which is the resolution of the
// header.
func ifModifiedSince(header http.Header) string {
	modified, err := http.ParseTime(header.Get("Last-Modified"))
	sent, sentErr := http.ParseTime(header.Get("Date"))
	if err != nil || sentErr != nil || sent.Sub(modified) < time.Second {
		return ""
	}
	return header.Get("Last-Modified")
}

// removeUnwantedFields removes unwanted fields from whole blobs, and adds the size of the results
// to bytes.
func (c *Client) removeUnwantedFields(metas iter.Seq2[fbc.Meta, error], whole bool, bytes *int64) iter.Seq2[fbc.Meta, error] {
	return func(yield func(fbc.Meta, error) bool) {
		for meta, err := range metas {
			if whole && c.opts.Fields != nil && err == nil {
				meta.Blob = c.opts.Fields.Append(nil, meta.Blob)
			}
			*bytes += int64(len(meta.Blob))
			if !yield(meta, err) {
				return
			}
		}
	}
}

// response is the response of a server.
type response struct {
	header http.Header
	// body must be closed. It is nil if the known content has not changed.
	body io.ReadCloser
}

// sendGetRequest sends a request.
func (c *Client) sendGetRequest(ctx context.Context, target string, known packageResponse) (response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return response{}, &UnavailableError{URL: target, Err: err}
	}

	req.Header.Set("Accept-Encoding", acceptEncoding)
	switch {
	case known.tag != "":
		req.Header.Set("If-None-Match", known.tag)
	case known.since != "":
		req.Header.Set("If-Modified-Since", known.since)
	}

	resp, err := c.http.Do(req)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			// The wrapping error repeats the URL.
			err = wrapped.Err
		}
		return response{}, &UnavailableError{URL: target, Err: err}
	}

	switch {
	case resp.StatusCode == http.StatusNotModified && (known.tag != "" || known.since != ""):
		_ = resp.Body.Close() // It is empty.
		return response{header: resp.Header}, nil
	case resp.StatusCode != http.StatusOK:
		return response{}, newStatusError(target, resp, c.now())
	}

	body, err := c.decompressBody(resp)
	if err != nil {
		_ = resp.Body.Close() // The first error is returned.
		return response{}, classifyError(target, err)
	}

	return response{header: resp.Header, body: body}, nil
}

// newStatusError returns the error for an unexpected status code.
func newStatusError(target string, resp *http.Response, now time.Time) error {
	defer resp.Body.Close()
	// The text is optional, so an error while reading it is ignored.
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBytes))
	line, _, _ := strings.Cut(strings.ToValidUTF8(string(text), ""), "\n")
	return &UnavailableError{
		URL: target, Status: resp.StatusCode, retryAfter: parseRetryAfter(resp.Header, now),
		Err: fmt.Errorf("the response is %s: %s", resp.Status, line),
	}
}

// classifyError returns a ContentError for invalid content and an UnavailableError for any other
// error.
func classifyError(target string, err error) error {
	var content *fbc.Error
	var large *tooLargeError
	var cut *connectionError
	if !errors.As(err, &cut) && (errors.As(err, &content) || errors.As(err, &large)) {
		return &ContentError{URL: target, Err: err}
	}
	return &UnavailableError{URL: target, Err: err}
}

func buildMetasURL(baseURL string, query url.Values) string {
	return strings.TrimSuffix(baseURL, "/") + "/api/v1/metas?" + query.Encode()
}
