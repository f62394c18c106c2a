// Package catalogclient reads catalogs over their HTTP contract: what a catalog says of
// one package, or all of it.
//
// Answers are streamed, bounded, and remembered with their entity tags, so that asking
// again costs a request without a body as long as the package has not changed. Parts that
// are not needed are not even sent, by servers that can leave them out. It chooses nothing
// from a catalog, and does not know where catalogs are: that stands in the status of a
// ClusterCatalog.
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

// Options configure a Client. A zero field means its default.
type Options struct {
	// RootCAs returns the authorities that servers are trusted by. It is asked for every new
	// connection, so that a renewed authority needs no restart. Nil means the system's.
	RootCAs func(ctx context.Context) (*x509.CertPool, error)
	// Proxy returns the proxy for a request, nil for none. Default is what HTTP_PROXY,
	// HTTPS_PROXY and NO_PROXY say.
	Proxy func(*http.Request) (*url.URL, error)
	// Timeout is how long one request may take, until the last byte of its answer.
	// Default two minutes: 75 MB at 5 Mbit/s.
	Timeout time.Duration
	// MaxBytes is the size of one answer once it is decompressed. Default 1 GiB: ten times
	// the largest public catalog.
	MaxBytes int64
	// CacheBytes is how much of the packages last asked for is kept in memory. Default
	// 32 MiB: about 300 packages without the properties that can be left out.
	CacheBytes int64
	// Fields says which parts of the blobs of a package are read, see package fields; nil
	// means all. A server that knows them sends no others. Of the blobs of All every part
	// is read.
	Fields *fields.Fields
	// Limits bound single blobs.
	Limits fbc.Limits
}

const (
	defaultTimeout    = 2 * time.Minute
	defaultMaxBytes   = 1 << 30
	defaultCacheBytes = 32 << 20
	// errorBytes is how much of an answer that is an error is shown.
	errorBytes = 512
	// attempts is how often a package is read whose catalog changes meanwhile.
	attempts = 3
	// learnAgain is how long a server is taken for one that does not know fields: it may be
	// updated.
	learnAgain = 10 * time.Minute
)

// Client reads catalogs. It is safe for concurrent use.
type Client struct {
	opts  Options
	http  *http.Client
	cache *cache
	now   func() time.Time
	pause func(context.Context, time.Duration) error

	mu sync.Mutex
	// plain has the base URLs of servers that do not know fields, and until when that is
	// believed.
	plain map[string]time.Time
}

// New makes a client.
func New(opts Options) *Client {
	setDefault(&opts.Timeout, defaultTimeout)
	setDefault(&opts.MaxBytes, defaultMaxBytes)
	setDefault(&opts.CacheBytes, defaultCacheBytes)
	return &Client{
		opts: opts, cache: newCache(opts.CacheBytes), now: time.Now, pause: pause, plain: map[string]time.Time{},
		http: &http.Client{
			Timeout: opts.Timeout, Transport: newTransport(opts),
			// The contract knows none, and one could lead anywhere.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

func setDefault[T time.Duration | int64](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
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

	// retryAfter is the pause that the server asks for, 0 without one.
	retryAfter time.Duration
}

// Error names the URL and what happened.
func (e *UnavailableError) Error() string {
	return fmt.Sprintf("reading %s: %v", e.URL, e.Err)
}

// Unwrap returns what happened.
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

// Unwrap returns what is wrong.
func (e *ContentError) Unwrap() error { return e.Err }

// Content returns what the catalog at a base URL, as in the status of a ClusterCatalog, says
// of a package. It is empty, without a Package, when the catalog does not have it.
//
// The content is shared with other callers and must not be changed. Errors are an
// *UnavailableError or a *ContentError.
func (c *Client) Content(ctx context.Context, baseURL, pkg string) (*fbc.Content, error) {
	key := cacheKey{base: baseURL, pkg: pkg}
	var entry cacheEntry
	for range attempts {
		known := c.cache.get(key)
		rest, err := c.part(ctx, baseURL, pkg, url.Values{"package": {pkg}}, known.rest)
		if err != nil {
			return nil, err
		}

		own, err := c.part(ctx, baseURL, pkg, url.Values{"schema": {fbc.SchemaPackage}, "name": {pkg}}, known.own)
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
		var a answer
		err := c.retrying(ctx, func() (err error) {
			a, err = c.ask(ctx, target, part{})
			return err
		})
		if err != nil {
			yield(fbc.Meta{}, err)
			return
		}

		defer a.body.Close()
		for meta, err := range fbc.Read(a.body, "", c.opts.Limits) {
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
	// tag and since are what the server is told of it, to be asked whether it has changed.
	// since is empty where tag is not.
	tag, since string
	modified   string
	content    *fbc.Content
	bytes      int64
}

// part asks for blobs of a package, unless they are as known.
func (c *Client) part(ctx context.Context, baseURL, pkg string, query url.Values, known part) (p part, err error) {
	if c.opts.Fields != nil && c.knowsFields(baseURL) {
		query.Set("fields", c.opts.Fields.String())
	}

	err = c.retrying(ctx, func() error {
		p, err = c.partOnce(ctx, metasURL(baseURL, query), pkg, known, !query.Has("fields"))
		return err
	})
	var unavailable *UnavailableError
	if !query.Has("fields") || !errors.As(err, &unavailable) || unavailable.Status != http.StatusBadRequest {
		return p, err
	}

	c.learn(baseURL)
	query.Del("fields")
	return c.part(ctx, baseURL, pkg, query, part{})
}

// knowsFields reports whether a server is not known to refuse the parameter fields.
func (c *Client) knowsFields(baseURL string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.now().Before(c.plain[baseURL])
}

// learn notes that a server refuses the parameter fields.
func (c *Client) learn(baseURL string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	maps.DeleteFunc(c.plain, func(_ string, until time.Time) bool { return !now.Before(until) })
	c.plain[baseURL] = now.Add(learnAgain)
}

// partOnce asks once. The blobs are whole, and what is not to be read is left out here, if
// the server was not asked to do so.
func (c *Client) partOnce(ctx context.Context, target, pkg string, known part, whole bool) (part, error) {
	a, err := c.ask(ctx, target, known)
	if err != nil {
		return part{}, err
	}
	if a.body == nil {
		known.modified = a.header.Get("Last-Modified")
		return known, nil
	}

	defer a.body.Close()
	p := part{tag: a.header.Get("ETag"), modified: a.header.Get("Last-Modified")}
	if p.tag == "" {
		p.since = validTime(a.header)
	}

	metas := c.reduced(fbc.Read(a.body, "", c.opts.Limits), whole, &p.bytes)
	if p.content, err = fbc.LoadContent(pkg, metas); err != nil {
		return part{}, classify(target, err)
	}

	return p, nil
}

// validTime returns the time of an answer by which the server can be asked whether it has
// changed. It is empty when the answer may change within the same second, which is as
// exact as the time is.
func validTime(header http.Header) string {
	modified, err := http.ParseTime(header.Get("Last-Modified"))
	sent, sentErr := http.ParseTime(header.Get("Date"))
	if err != nil || sentErr != nil || sent.Sub(modified) < time.Second {
		return ""
	}
	return header.Get("Last-Modified")
}

// reduced leaves out what is not to be read of whole blobs, and adds up what remains.
func (c *Client) reduced(metas iter.Seq2[fbc.Meta, error], whole bool, bytes *int64) iter.Seq2[fbc.Meta, error] {
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

// answer is that of a server.
type answer struct {
	header http.Header
	// body is to be closed. It is nil when what is known is still right.
	body io.ReadCloser
}

// ask sends a request.
func (c *Client) ask(ctx context.Context, target string, known part) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return answer{}, &UnavailableError{URL: target, Err: err}
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
			// It repeats the URL.
			err = wrapped.Err
		}
		return answer{}, &UnavailableError{URL: target, Err: err}
	}

	switch {
	case resp.StatusCode == http.StatusNotModified && (known.tag != "" || known.since != ""):
		_ = resp.Body.Close() // It is empty.
		return answer{header: resp.Header}, nil
	case resp.StatusCode != http.StatusOK:
		return answer{}, refusal(target, resp, c.now())
	}

	body, err := c.decoded(resp)
	if err != nil {
		_ = resp.Body.Close() // What is wrong with it is known.
		return answer{}, classify(target, err)
	}

	return answer{header: resp.Header, body: body}, nil
}

// refusal makes an error of an answer that is one.
func refusal(target string, resp *http.Response, now time.Time) error {
	defer resp.Body.Close()
	// What can be read of it helps, and the status alone will do.
	text, _ := io.ReadAll(io.LimitReader(resp.Body, errorBytes))
	line, _, _ := strings.Cut(strings.ToValidUTF8(string(text), ""), "\n")
	return &UnavailableError{
		URL: target, Status: resp.StatusCode, retryAfter: retryAfter(resp.Header, now),
		Err: fmt.Errorf("the answer is %s: %s", resp.Status, line),
	}
}

// classify tells an answer that is wrong from one that could not be read.
func classify(target string, err error) error {
	var content *fbc.Error
	var large *tooLargeError
	var cut *cutOffError
	if !errors.As(err, &cut) && (errors.As(err, &content) || errors.As(err, &large)) {
		return &ContentError{URL: target, Err: err}
	}
	return &UnavailableError{URL: target, Err: err}
}

func metasURL(baseURL string, query url.Values) string {
	return strings.TrimSuffix(baseURL, "/") + "/api/v1/metas?" + query.Encode()
}
