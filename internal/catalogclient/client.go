// Package catalogclient reads catalogs over their HTTP contract: what a catalog says of
// one package, or all of it.
//
// Answers are streamed, bounded, and remembered with their entity tags, so that asking
// again costs a request without a body as long as the package has not changed. It chooses
// nothing from a catalog, and does not know where catalogs are: that stands in the status
// of a ClusterCatalog.
package catalogclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// Options configure a Client. A zero field means its default.
type Options struct {
	// RootCAs gives the authorities that servers are trusted by. It is asked for every new
	// connection, so that a renewed authority needs no restart. Nil means the system's.
	RootCAs func(ctx context.Context) (*x509.CertPool, error)
	// Timeout is how long one request may take, until the last byte of its answer.
	// Default two minutes: 75 MB at 5 Mbit/s.
	Timeout time.Duration
	// MaxBytes is the size of one answer once it is decompressed. Default 1 GiB: ten times
	// the largest public catalog.
	MaxBytes int64
	// CacheBytes is how much of the packages last asked for is kept in memory. Default
	// 32 MiB: about 300 packages without the properties that can be dropped.
	CacheBytes int64
	// DropProperties are the types of bundle properties that are not kept, such as
	// olm.bundle.object, which make up most of a catalog and say nothing about what to
	// choose.
	DropProperties []string
	// Limits bound single blobs.
	Limits fbc.Limits
}

const (
	defaultTimeout    = 2 * time.Minute
	defaultMaxBytes   = 1 << 30
	defaultCacheBytes = 32 << 20
	// dialTimeout is how long a connection may take to come about.
	dialTimeout = 10 * time.Second
	// idleTimeout is below the two minutes after which the server ends idle connections.
	idleTimeout = 90 * time.Second
	// errorBytes is how much of an answer that is an error is shown.
	errorBytes = 512
	// attempts is how often a package is read whose catalog changes meanwhile.
	attempts = 3
)

// Client reads catalogs. It is safe for concurrent use.
type Client struct {
	opts  Options
	http  *http.Client
	cache *cache
}

// New makes a client.
func New(opts Options) *Client {
	setDefault(&opts.Timeout, defaultTimeout)
	setDefault(&opts.MaxBytes, defaultMaxBytes)
	setDefault(&opts.CacheBytes, defaultCacheBytes)
	c := &Client{opts: opts, cache: newCache(opts.CacheBytes)}
	c.http = &http.Client{
		Timeout: opts.Timeout,
		// There is no proxy between two services of one cluster.
		Transport: &http.Transport{
			DialContext:            (&net.Dialer{Timeout: dialTimeout}).DialContext,
			DialTLSContext:         c.dialTLS,
			IdleConnTimeout:        idleTimeout,
			ResponseHeaderTimeout:  opts.Timeout,
			MaxResponseHeaderBytes: 64 << 10,
			MaxIdleConnsPerHost:    4,
		},
		// The contract knows none, and one could lead anywhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

func setDefault[T time.Duration | int64](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}

// dialTLS connects with the authorities of the moment.
func (c *Client) dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.opts.RootCAs != nil {
		roots, err := c.opts.RootCAs(ctx)
		if err != nil {
			return nil, fmt.Errorf("reading the trusted authorities: %w", err)
		}
		config.RootCAs = roots
	}
	dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: dialTimeout}, Config: config}
	return dialer.DialContext(ctx, network, address)
}

// UnavailableError says that a catalog could not be read: it does not answer, or not as
// a catalog does. Trying again may help.
type UnavailableError struct {
	// URL is what was asked for.
	URL string
	// Status is the code of the answer, 0 without one.
	Status int
	// Err is what happened.
	Err error
}

// Error names the URL and what happened.
func (e *UnavailableError) Error() string {
	return fmt.Sprintf("reading %s: %v", e.URL, e.Err)
}

// Unwrap gives what happened.
func (e *UnavailableError) Unwrap() error { return e.Err }

// ContentError says that what a catalog answered is wrong. Only another catalog helps.
type ContentError struct {
	// URL is what was asked for.
	URL string
	// Err is what is wrong.
	Err error
}

// Error names the URL and what is wrong.
func (e *ContentError) Error() string {
	return fmt.Sprintf("the content of %s is wrong: %v", e.URL, e.Err)
}

// Unwrap gives what is wrong.
func (e *ContentError) Unwrap() error { return e.Err }

// Content gives what the catalog at a base URL, as in the status of a ClusterCatalog, says
// of a package. It is empty, without a Package, when the catalog does not have it.
//
// The content is shared with other callers and must not be changed. Errors are an
// *UnavailableError or a *ContentError.
func (c *Client) Content(ctx context.Context, baseURL, pkg string) (*fbc.Content, error) {
	key := cacheKey{base: baseURL, pkg: pkg}
	ofPackage := metasURL(baseURL, url.Values{"package": {pkg}})
	itself := metasURL(baseURL, url.Values{"schema": {fbc.SchemaPackage}, "name": {pkg}})
	var entry cacheEntry
	for range attempts {
		known := c.cache.get(key)
		rest, err := c.part(ctx, ofPackage, pkg, known.rest)
		if err != nil {
			return nil, err
		}
		own, err := c.part(ctx, itself, pkg, known.own)
		if err != nil {
			return nil, err
		}
		entry = join(rest, own)
		c.cache.put(key, entry)
		// Both answers are of one catalog only if it was not replaced in between.
		if rest.modified == own.modified {
			break
		}
	}
	return entry.content, nil
}

// join puts the two answers about a package together.
func join(rest, own part) cacheEntry {
	content := *rest.content
	content.Package = own.content.Package
	return cacheEntry{rest: rest, own: own, content: &content}
}

// All yields every blob of a catalog. The first error, of the same kinds as those of
// Content, ends it. Nothing is kept.
func (c *Client) All(ctx context.Context, baseURL string) iter.Seq2[fbc.Meta, error] {
	return func(yield func(fbc.Meta, error) bool) {
		target := strings.TrimSuffix(baseURL, "/") + "/api/v1/all"
		resp, err := c.ask(ctx, target, "")
		if err != nil {
			yield(fbc.Meta{}, err)
			return
		}
		defer resp.Body.Close()
		for meta, err := range fbc.Read(c.bounded(resp.Body), "", c.opts.Limits) {
			if err != nil {
				yield(fbc.Meta{}, classify(target, err))
				return
			}
			if !yield(meta, nil) {
				return
			}
		}
	}
}

// part is one answer about a package.
type part struct {
	tag      string
	modified string
	content  *fbc.Content
	bytes    int64
}

// part asks for blobs of a package, unless they are as known.
func (c *Client) part(ctx context.Context, target, pkg string, known part) (part, error) {
	resp, err := c.ask(ctx, target, known.tag)
	if err != nil {
		return part{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotModified {
		known.modified = resp.Header.Get("Last-Modified")
		return known, nil
	}
	p := part{tag: resp.Header.Get("ETag"), modified: resp.Header.Get("Last-Modified")}
	metas := fbc.Read(c.bounded(resp.Body), "", c.opts.Limits)
	if p.content, err = fbc.LoadContent(pkg, counted(metas, &p.bytes)); err != nil {
		return part{}, classify(target, err)
	}
	p.bytes -= c.drop(p.content)
	return p, nil
}

// counted adds up the sizes of blobs as they pass.
func counted(metas iter.Seq2[fbc.Meta, error], bytes *int64) iter.Seq2[fbc.Meta, error] {
	return func(yield func(fbc.Meta, error) bool) {
		for meta, err := range metas {
			*bytes += int64(len(meta.Blob))
			if !yield(meta, err) {
				return
			}
		}
	}
}

// drop removes the properties that are not wanted, and gives their size.
func (c *Client) drop(content *fbc.Content) int64 {
	dropped := int64(0)
	for i := range content.Bundles {
		bundle := &content.Bundles[i]
		bundle.Properties = slices.DeleteFunc(bundle.Properties, func(p fbc.Property) bool {
			unwanted := slices.Contains(c.opts.DropProperties, p.Type)
			if unwanted {
				dropped += int64(len(p.Value))
			}
			return unwanted
		})
	}
	return dropped
}

// ask sends a request. The answer is 200, or 304 when a tag is given and is still right.
func (c *Client) ask(ctx context.Context, target, tag string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, &UnavailableError{URL: target, Err: err}
	}
	if tag != "" {
		req.Header.Set("If-None-Match", tag)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			// It repeats the URL.
			err = wrapped.Err
		}
		return nil, &UnavailableError{URL: target, Err: err}
	}
	if resp.StatusCode == http.StatusOK || (tag != "" && resp.StatusCode == http.StatusNotModified) {
		return resp, nil
	}
	defer resp.Body.Close()
	// What can be read of it helps, and the status alone will do.
	text, _ := io.ReadAll(io.LimitReader(resp.Body, errorBytes))
	line, _, _ := strings.Cut(strings.ToValidUTF8(string(text), ""), "\n")
	return nil, &UnavailableError{URL: target, Status: resp.StatusCode, Err: fmt.Errorf("the answer is %s: %s", resp.Status, line)}
}

// classify tells an answer that is wrong from one that could not be read.
func classify(target string, err error) error {
	var content *fbc.Error
	var large *tooLargeError
	if errors.As(err, &content) || errors.As(err, &large) {
		return &ContentError{URL: target, Err: err}
	}
	return &UnavailableError{URL: target, Err: err}
}

func metasURL(baseURL string, query url.Values) string {
	return strings.TrimSuffix(baseURL, "/") + "/api/v1/metas?" + query.Encode()
}

// tooLargeError says that an answer is longer than what is read.
type tooLargeError struct{ limit int64 }

func (e *tooLargeError) Error() string { return fmt.Sprintf("it is larger than %d bytes", e.limit) }

// bounded limits what is read of an answer.
func (c *Client) bounded(r io.Reader) io.Reader {
	return &boundedReader{r: r, left: c.opts.MaxBytes, limit: c.opts.MaxBytes}
}

type boundedReader struct {
	r           io.Reader
	left, limit int64
}

func (b *boundedReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, &tooLargeError{limit: b.limit}
	}
	return n, err
}
