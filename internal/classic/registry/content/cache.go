package content

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Format names the form in which a cache directory keeps content. It is the name of the
// folder in there.
const Format = "mainstay.v1"

// Integrity says what to do about a cache directory whose content is not that of the
// source.
type Integrity int

const (
	// DeriveIntegrity stands for EnforceIntegrity when there is a cache directory and the
	// content is to be served, else for IgnoreIntegrity. A directory that has only caches
	// of the field's own opm is built again: an image that was made by that serves.
	DeriveIntegrity Integrity = iota
	// EnforceIntegrity refuses it.
	EnforceIntegrity
	// IgnoreIntegrity builds it again.
	IgnoreIntegrity
)

// Cache says where content is kept between two runs, and what may be done there.
//
// The directory may be read-only: content that is there and fits is served from there,
// and else content is built in a temporary folder, but for Only. Several processes may
// use one directory at a time.
//
// The folder mainstay.v1 is ours. Beside it may lie what the field's opm keeps (pogreb.v1,
// or cache and digest), which is neither read nor changed. A directory that has none of
// these but other things is refused: it is likely to be meant for something else.
type Cache struct {
	// Dir is the cache directory, which is made when it is missing. Without one, content
	// is built in a temporary folder, which Content.Close removes.
	Dir string
	// Only says that the directory is to be filled for others, not served from.
	Only bool
	// Integrity says what to do when the directory does not fit.
	Integrity Integrity
	// Log is told what is done. Not nil.
	Log *slog.Logger
}

// Open returns the content of a source: what is cached when that is still right, or else
// built anew. The caller closes it.
func (c Cache) Open(ctx context.Context, source Source) (*Content, error) {
	if c.Dir == "" {
		if c.Integrity == EnforceIntegrity {
			return nil, errors.New("--cache-dir must be specified with --cache-enforce-integrity")
		}
		content, err := c.buildTemporary(ctx, source, 0)
		return content, rebuildError(err)
	}

	state, err := look(c.Dir)
	if err != nil {
		return nil, err
	}

	c.Log.Info(state.String())
	if c.enforces(state) {
		content, _, err := c.load(ctx, source)
		if err != nil {
			return nil, fmt.Errorf("integrity check failed: %w", err)
		}
		return content, nil
	}

	content, sum, err := c.load(ctx, source)
	if err == nil {
		return content, nil
	}
	if state == own {
		c.Log.Info("cache does not fit", "reason", err)
	}

	c.Log.Info("building cache")
	content, err = c.buildAnew(ctx, source, sum)
	return content, rebuildError(err)
}

func rebuildError(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		err = fmt.Errorf("the volume of the cache directory is full, free space on it or make it larger: %w", err)
	}
	return fmt.Errorf("failed to load or rebuild cache: failed to rebuild cache: %w", err)
}

func (c Cache) enforces(state state) bool {
	switch c.Integrity {
	case EnforceIntegrity:
		return true
	case IgnoreIntegrity:
		return false
	}
	return !c.Only && state != foreign
}

// state is what a cache directory has.
type state int

const (
	// empty has nothing, or is not there.
	empty state = iota
	// own has our content.
	own
	// foreign has only the caches of the field's opm.
	foreign
)

// String says it in the words of the field's log.
func (s state) String() string {
	switch s {
	case own:
		return "found existing cache contents"
	case foreign:
		return "found existing cache contents of another opm, building beside them"
	}
	return "cache directory is empty, using preferred backend"
}

// look finds out what a cache directory has.
func look(dir string) (state, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return empty, nil
	}
	if err != nil {
		return empty, fmt.Errorf("reading the cache directory: %w", err)
	}

	folders, files := map[string]bool{}, map[string]bool{}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
		folders[entry.Name()] = entry.IsDir()
		files[entry.Name()] = !entry.IsDir()
	}

	switch {
	case folders[Format]:
		return own, nil
	case folders["pogreb.v1"], folders["cache"] && files["digest"]:
		return foreign, nil
	case len(names) == 0:
		return empty, nil
	}

	return empty, fmt.Errorf("cache directory has unexpected contents: %s", strings.Join(names, ","))
}

// load opens the content of the cache directory and checks that it is what was built,
// and of the source as it is now. It gives the sum of the source as well.
func (c Cache) load(ctx context.Context, source Source) (*Content, uint64, error) {
	// The source is summed in any case, for whoever builds.
	type summed struct {
		sum uint64
		err error
	}
	sums := make(chan summed, 1)
	go func() {
		sum, err := source.sum(ctx)
		sums <- summed{sum, err}
	}()
	file, err := os.Open(filepath.Join(c.Dir, Format, fileName))
	var stored, computed trailer
	var size int64
	if err == nil {
		if stored, size, err = readTrailer(file); err == nil {
			computed.own, err = sumFile(ctx, file, size-int64(trailerSize))
		}
	}

	of := <-sums
	computed.source = of.sum
	var ix *index
	switch {
	case of.err != nil:
		err = of.err
	case err != nil:
		err = fmt.Errorf("read existing cache digest: %w", err)
	case stored.own != computed.own || stored.source != computed.source:
		err = fmt.Errorf("cache requires rebuild: cache reports digest as %q, but computed digest is %q", stored.digest(), computed.digest())
	default:
		ix, err = readIndex(file, stored, size)
	}

	if err != nil {
		_ = file.Close() // It was only read, or is nil.
		return nil, of.sum, err
	}

	return &Content{index: ix, file: file}, of.sum, nil
}

// sumFile sums the start of a file.
func sumFile(ctx context.Context, file *os.File, size int64) (uint64, error) {
	pieces := newSummer(ctx)
	sums := pieces.file(size, func() (io.ReaderAt, func() error, error) {
		return file, func() error { return nil }, nil
	})
	if err := pieces.wait(); err != nil {
		return 0, err
	}
	return sumOf(sums), nil
}

// buildAnew builds content in the cache directory, or in a temporary folder when nothing
// can be written there.
func (c Cache) buildAnew(ctx context.Context, source Source, sum uint64) (*Content, error) {
	out, err := c.newWriter()
	if err == nil {
		return build(ctx, out, source, sum)
	}
	if !c.Only && (errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)) {
		c.Log.Warn("cache directory cannot be written, using a temporary one", "error", err)
		return c.buildTemporary(ctx, source, sum)
	}
	return nil, err
}

// newWriter begins a file in the cache directory.
func (c Cache) newWriter() (*writer, error) {
	dir := filepath.Join(c.Dir, Format)
	for _, dir := range []string{c.Dir, dir} {
		if err := makeFolder(dir); err != nil {
			return nil, err
		}
	}
	return newWriter(dir)
}

// makeFolder makes a folder that others may read, whatever the process's mask.
func makeFolder(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, folderMode); err != nil {
		return err
	}
	return os.Chmod(dir, folderMode)
}

// buildTemporary builds content in a folder that goes with it.
func (c Cache) buildTemporary(ctx context.Context, source Source, sum uint64) (*Content, error) {
	dir, err := os.MkdirTemp("", "opm-serve-cache-*")
	if err != nil {
		return nil, err
	}

	var content *Content
	out, err := newWriter(dir)
	if err == nil {
		content, err = build(ctx, out, source, sum)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}

	content.remove = dir
	return content, nil
}
