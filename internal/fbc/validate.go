package fbc

import (
	"errors"
	"io/fs"
	"iter"
	"maps"
	"slices"
)

// Validate checks a catalog against the rules of file-based catalogs and says all that
// is wrong with it, in one *TreeError. An error of the walk ends the validation: if it
// is about the catalog's content the tree has it, and what was found before it; any
// other is given as it is.
//
// Every olm.package, olm.channel, olm.bundle and olm.deprecations blob must fit its
// schema. Names are unique where they have to be, and what is referred to is there. Each
// channel has one head from which all its bundles can be reached. Blobs of other schemas
// may be anything.
func Validate(metas iter.Seq2[Meta, error]) error {
	_, err := LoadModel(metas)
	return err
}

// LoadModel returns the model of a catalog. It is not nil unless the catalog could not be
// read to its end. See Validate for the error.
func LoadModel(metas iter.Seq2[Meta, error]) (*Model, error) {
	return build(func(yield func(Summary, error) bool) {
		for meta, err := range metas {
			if err != nil {
				yield(Summary{}, err)
				return
			}
			if !yield(Summarize(meta), nil) {
				return
			}
		}
	})
}

// build makes the model of the blobs that the summaries are of.
func build(summaries iter.Seq2[Summary, error]) (*Model, error) {
	var b Builder
	for s, err := range summaries {
		if err == nil {
			err = b.Add(s)
		}
		if err != nil {
			return nil, b.broken(err)
		}
	}

	return b.Model()
}

// ValidateFS is Validate for the catalog of a file system, read as Walk does, on all
// processors.
func ValidateFS(fsys fs.FS, limits Limits) error {
	_, err := LoadModelFS(fsys, limits)
	return err
}

// LoadModelFS is LoadModel for the catalog of a file system, read as Walk does, on all
// processors.
func LoadModelFS(fsys fs.FS, limits Limits) (*Model, error) {
	return build((&mapping[Summary]{
		fsys: fsys, limits: limits.withDefaults(), size: chunkBytes,
		// A summary keeps nothing of the blob, which therefore need not be copied.
		f: func(m Meta) (Summary, error) { return Summarize(m), nil },
	}).all)
}

// broken adds an error of the walk to what is wrong with the blobs before it. The rules
// that look at more than one blob do not hold where some are not known.
func (b *Builder) broken(err error) error {
	var content *Error
	if !errors.As(err, &content) {
		return err
	}

	root := &TreeError{Message: "invalid index"}
	for _, name := range slices.Sorted(maps.Keys(b.groups)) {
		g := b.groups[name]
		for _, summaries := range [][]Summary{g.packages, g.channels, g.bundles, g.deprecations} {
			for _, s := range summaries {
				root.add(s.faults...)
			}
		}
	}

	root.add(&TreeError{
		Message: err.Error(), Err: err, alone: true,
		At: Place{File: content.File, Document: content.Document, Line: content.Line, Offset: content.Offset},
	})
	return root.whole()
}
