package catalogs

import (
	"context"
	"iter"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// Metas yields the blobs of a catalog: an existing folder, a SQLite file, or an image of
// either. It stops at the first error.
func Metas(ctx context.Context, registry Registry, ref string) iter.Seq2[fbc.Meta, error] {
	return func(yield func(fbc.Meta, error) bool) {
		s, err := openReference(ctx, registry, nil, ref, anyCatalog)
		if err != nil {
			yield(fbc.Meta{}, err)
			return
		}
		defer s.close()
		s.readCatalogBlobs(ctx, nil)(yield)
	}
}
