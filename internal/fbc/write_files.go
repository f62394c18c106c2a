package fbc

import (
	"fmt"
	"io"
	"path"
	"path/filepath"
	"strings"
)

// WriteFiles writes the blobs of an index into files. Those of a package go to
// PACKAGE/catalog.json or PACKAGE/catalog.yaml. Blobs of other schemas without a package go to
// the same file name at the root. create makes each file and its folder. See Write for the order,
// the returned blobs and errors.
//
// If a package name is not valid as the name of a folder, WriteFiles returns an error before it
// creates any file.
func WriteFiles(create func(path string) (io.WriteCloser, error), ix *Index, opts WriteOptions) (dropped []Entry, err error) {
	name := "catalog.json"
	if opts.Format == FormatYAML {
		name = "catalog.yaml"
	}

	plan := planCatalogWriting(ix)
	var batches []batch
	for _, p := range plan.packages {
		if strings.ContainsAny(p.name, `/\`) || p.name == "." || !filepath.IsLocal(p.name) {
			return nil, fmt.Errorf("invalid package name %q: must be a single local path element", p.name)
		}
		batches = appendEntryBatches(batches, path.Join(p.name, name), p.entries)
	}

	batches = appendEntryBatches(batches, name, plan.others)

	files := &fileWriter{create: create}
	err = encodeAndWriteBatches(ix, opts, batches, files.writeToFile)
	if closeErr := files.closeCurrentFile(); err == nil {
		err = closeErr
	}

	return plan.dropped, err
}

// fileWriter writes one file after the other.
type fileWriter struct {
	create func(path string) (io.WriteCloser, error)
	path   string
	file   io.WriteCloser
}

func (w *fileWriter) writeToFile(path string, text []byte) error {
	if w.file == nil || path != w.path {
		if err := w.closeCurrentFile(); err != nil {
			return err
		}
		file, err := w.create(path)
		if err != nil {
			return fmt.Errorf("write file %q: %w", path, err)
		}
		w.path, w.file = path, file
	}

	if _, err := w.file.Write(text); err != nil {
		return fmt.Errorf("write file %q: %w", path, err)
	}
	return nil
}

func (w *fileWriter) closeCurrentFile() error {
	if w.file == nil {
		return nil
	}

	err := w.file.Close()
	w.file = nil
	if err != nil {
		return fmt.Errorf("write file %q: %w", w.path, err)
	}

	return nil
}
