package fbc

import (
	"fmt"
	"io"
	"path"
	"path/filepath"
	"strings"
)

// WriteFiles writes the blobs of an index into files: those of each package into
// PACKAGE/catalog.json, or .yaml, and those of other schemas that belong to no package
// into catalog.json at the root. The caller makes each file, and the folder it is in.
// See Write for the order, for what is given back and for errors.
//
// A package whose name cannot be that of a folder is refused before any file is made.
func WriteFiles(create func(path string) (io.WriteCloser, error), ix *Index, opts WriteOptions) (dropped []Entry, err error) {
	name := "catalog.json"
	if opts.Format == FormatYAML {
		name = "catalog.yaml"
	}

	plan := arrange(ix)
	var batches []batch
	for _, p := range plan.packages {
		if strings.ContainsAny(p.name, `/\`) || p.name == "." || !filepath.IsLocal(p.name) {
			return nil, fmt.Errorf("invalid package name %q: must be a single local path element", p.name)
		}
		batches = appendBatches(batches, path.Join(p.name, name), p.entries)
	}

	batches = appendBatches(batches, name, plan.others)

	files := &fileWriter{create: create}
	err = writeBatches(ix, opts, batches, files.write)
	if closeErr := files.close(); err == nil {
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

func (w *fileWriter) write(path string, text []byte) error {
	if w.file == nil || path != w.path {
		if err := w.close(); err != nil {
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

func (w *fileWriter) close() error {
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
