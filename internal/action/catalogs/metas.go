package catalogs

import (
	"context"
	"iter"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// Metas yields the blobs of a catalog: a folder that exists, or an image. The first error
// ends it.
func Metas(ctx context.Context, registry Registry, ref string) iter.Seq2[fbc.Meta, error] {
	return func(yield func(fbc.Meta, error) bool) {
		s, err := openSource(ctx, registry, ref, catalogDir|catalogImage)
		if err != nil {
			yield(fbc.Meta{}, err)
			return
		}
		defer s.close()
		for meta, err := range fbc.Walk(s.fsys, fbc.Limits{}) {
			if !yield(meta, err) || err != nil {
				return
			}
		}
	}
}
