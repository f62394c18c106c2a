package catalogclient

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/url"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// Bundles yields every bundle of a catalog, reduced to the fields in Options.Fields. Use it for
// queries that are not about one package, for example which bundles provide an API. The bundles
// of a large catalog have about 10 MB. The first error ends the iteration; Content lists the
// kinds of errors. Nothing is cached.
func (c *Client) Bundles(ctx context.Context, baseURL string) iter.Seq2[*fbc.Bundle, error] {
	return func(yield func(*fbc.Bundle, error) bool) {
		target, resp, err := c.requestBundles(ctx, baseURL)
		if err != nil {
			yield(nil, err)
			return
		}
		defer resp.body.Close()
		for meta, err := range fbc.Read(resp.body, "", c.opts.Limits) {
			var b *fbc.Bundle
			if err == nil && c.opts.Fields != nil {
				meta.Blob = c.opts.Fields.Append(nil, meta.Blob) // This has no effect if the server did it.
			}
			if err == nil {
				b, err = fbc.DecodeBundle(meta)
			}
			if err != nil {
				yield(nil, classifyError(target, err))
				return
			}
			if !yield(b, nil) {
				return
			}
		}
	}
}

// requestBundles requests all bundles, with the parameter fields if the server supports it.
func (c *Client) requestBundles(ctx context.Context, baseURL string) (target string, resp response, err error) {
	query := url.Values{"schema": {fbc.SchemaBundle}}
	if c.opts.Fields != nil && c.supportsFieldsParameter(baseURL) {
		query.Set("fields", c.opts.Fields.String())
	}

	target = buildMetasURL(baseURL, query)
	err = c.callWithRetries(ctx, func() (err error) {
		resp, err = c.sendGetRequest(ctx, target, packageResponse{})
		return err
	})
	var unavailable *UnavailableError
	if query.Has("fields") && errors.As(err, &unavailable) && unavailable.Status == http.StatusBadRequest {
		c.markFieldsUnsupported(baseURL)
		return c.requestBundles(ctx, baseURL)
	}

	return target, resp, err
}
