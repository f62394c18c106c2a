package fbc

import (
	"errors"
	"io/fs"
	"iter"
	"maps"
	"slices"
)

// Validate checks a catalog against the rules of file-based catalogs. It returns a *TreeError
// with all faults. An error of the iterator ends the validation. If it is about the catalog's
// content, the tree has it together with the faults found before it. Any other error is returned
// unchanged.
//
// Every olm.package, olm.channel, olm.bundle and olm.deprecations blob must fit its schema. Names
// must be unique, and references must resolve. Each channel must have one head from which all its
// bundles can be reached. Blobs of other schemas are not checked.
func Validate(metas iter.Seq2[Meta, error]) error {
	_, err := LoadModel(metas)
	return err
}

// LoadModel returns the model of a catalog. It is nil only if the catalog could not be read to
// its end. LoadModel returns the errors of Validate.
func LoadModel(metas iter.Seq2[Meta, error]) (*Model, error) {
	return buildModelOfSummaries(func(yield func(Summary, error) bool) {
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

func buildModelOfSummaries(summaries iter.Seq2[Summary, error]) (*Model, error) {
	var b Builder
	for s, err := range summaries {
		if err == nil {
			err = b.Add(s)
		}
		if err != nil {
			return nil, b.addWalkError(err)
		}
	}

	return b.Model()
}

// ValidateFS validates the catalog of a file system. It reads files as Walk does, on all
// processors.
func ValidateFS(fsys fs.FS, limits Limits) error {
	_, err := LoadModelFS(fsys, limits)
	return err
}

// LoadModelFS loads the model of the catalog of a file system. It reads files as Walk does, on
// all processors.
func LoadModelFS(fsys fs.FS, limits Limits) (*Model, error) {
	return buildModelOfSummaries((&blobMapper[Summary]{
		fsys: fsys, limits: limits.withDefaults(), readSize: chunkBytes,
		// A summary does not share memory with the blob, so the blob is not cloned.
		mapBlob: func(m Meta) (Summary, error) { return Summarize(m), nil },
	}).yieldAllResults)
}

// addWalkError returns an error with a walk's error and the faults of the blobs before it. The
// faults exclude rules about several blobs, which need all blobs.
func (b *Builder) addWalkError(err error) error {
	var content *Error
	if !errors.As(err, &content) {
		return err
	}

	root := &TreeError{Message: "invalid index"}
	for _, name := range slices.Sorted(maps.Keys(b.groups)) {
		g := b.groups[name]
		for _, summaries := range [][]Summary{g.packages, g.channels, g.bundles, g.deprecations} {
			for _, s := range summaries {
				root.addCauses(s.faults...)
			}
		}
	}

	root.addCauses(&TreeError{
		Message: err.Error(), Err: err, standalone: true,
		At: Place{File: content.File, Document: content.Document, Line: content.Line, Offset: content.Offset},
	})
	return root.errorOrNil()
}
