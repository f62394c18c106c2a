package catalogclient

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/url"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// Bundles yields every bundle of a catalog, with the parts that are read. It is for
// questions that no package's name answers, such as who provides an API: all bundles of a
// large catalog are some 10 MB. The first error, of the same kinds as those of Content,
// ends it. Nothing is kept.
func (c *Client) Bundles(ctx context.Context, baseURL string) iter.Seq2[*fbc.Bundle, error] {
	return func(yield func(*fbc.Bundle, error) bool) {
		target, a, err := c.askBundles(ctx, baseURL)
		if err != nil {
			yield(nil, err)
			return
		}
		defer a.body.Close()
		for meta, err := range fbc.Read(a.body, "", c.opts.Limits) {
			var b *fbc.Bundle
			if err == nil && c.opts.Fields != nil {
				meta.Blob = c.opts.Fields.Append(nil, meta.Blob) // Nothing is left to do where the server did it.
			}
			if err == nil {
				b, err = fbc.DecodeBundle(meta)
			}
			if err != nil {
				yield(nil, classify(target, err))
				return
			}
			if !yield(b, nil) {
				return
			}
		}
	}
}

// askBundles sends the request for all bundles, with the parameter fields to servers that
// know it.
func (c *Client) askBundles(ctx context.Context, baseURL string) (target string, a answer, err error) {
	query := url.Values{"schema": {fbc.SchemaBundle}}
	if c.opts.Fields != nil && c.knowsFields(baseURL) {
		query.Set("fields", c.opts.Fields.String())
	}

	target = metasURL(baseURL, query)
	err = c.retrying(ctx, func() (err error) {
		a, err = c.ask(ctx, target, part{})
		return err
	})
	var unavailable *UnavailableError
	if query.Has("fields") && errors.As(err, &unavailable) && unavailable.Status == http.StatusBadRequest {
		c.learn(baseURL)
		return c.askBundles(ctx, baseURL)
	}

	return target, a, err
}
