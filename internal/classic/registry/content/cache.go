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

// Format is the version of the cache format, and the name of its folder in the cache directory.
const Format = "mainstay.v1"

// Integrity says how Open treats a cache directory that does not match the source.
type Integrity int

const (
	// DeriveIntegrity means EnforceIntegrity if there is a cache directory and the content is
	// to be served, and IgnoreIntegrity otherwise. A directory that holds only caches of
	// upstream opm is rebuilt, so that images built with upstream opm can be served.
	DeriveIntegrity Integrity = iota
	// EnforceIntegrity makes Open fail.
	EnforceIntegrity
	// IgnoreIntegrity makes Open rebuild the cache.
	IgnoreIntegrity
)

// Cache configures where content is cached between two runs.
//
// The directory may be read-only: if its content matches the source it is served from there.
// Otherwise content is built in a temporary folder, unless Only is set. Several processes may
// use the same directory at once.
//
// The folder mainstay.v1 belongs to this package. Caches of upstream opm (pogreb.v1, or cache
// and digest) may exist next to it; they are neither read nor changed. A directory that holds
// only other files is refused, because it is probably used for something else.
type Cache struct {
	// Dir is the cache directory. It is created if it does not exist. If it is empty, content
	// is built in a temporary folder, which Content.Close removes.
	Dir string
	// BuildOnly is set if the directory is to be filled and its content is not served.
	BuildOnly bool
	// Integrity says what to do if the directory does not match the source.
	Integrity Integrity
	// Log receives progress and warnings. It must not be nil.
	Log *slog.Logger
}

// Open returns the content of a source. It uses the cached content if that matches the source,
// and rebuilds it otherwise. The caller must close the content.
func (c Cache) Open(ctx context.Context, source Source) (*Content, error) {
	if c.Dir == "" {
		if c.Integrity == EnforceIntegrity {
			return nil, errors.New("--cache-dir must be specified with --cache-enforce-integrity")
		}
		content, err := c.buildInTemporaryDirectory(ctx, source, 0)
		return content, wrapRebuildError(err)
	}

	state, err := inspectCacheDirectory(c.Dir)
	if err != nil {
		return nil, err
	}

	c.Log.Info(state.String())
	if c.enforcesIntegrity(state) {
		content, _, err := c.loadCachedContent(ctx, source)
		if err != nil {
			return nil, fmt.Errorf("integrity check failed: %w", err)
		}
		return content, nil
	}

	content, sum, err := c.loadCachedContent(ctx, source)
	if err == nil {
		return content, nil
	}
	if state == directoryOwn {
		c.Log.Info("cache does not fit", "reason", err)
	}

	c.Log.Info("building cache")
	content, err = c.rebuildCache(ctx, source, sum)
	return content, wrapRebuildError(err)
}

// wrapRebuildError describes an error of a rebuild and adds a hint if the volume is full.
func wrapRebuildError(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		err = fmt.Errorf("the volume of the cache directory is full, free space on it or make it larger: %w", err)
	}
	return fmt.Errorf("failed to load or rebuild cache: failed to rebuild cache: %w", err)
}

// enforcesIntegrity reports whether a cache that does not match the source is an error.
func (c Cache) enforcesIntegrity(state directoryState) bool {
	switch c.Integrity {
	case EnforceIntegrity:
		return true
	case IgnoreIntegrity:
		return false
	}
	return !c.BuildOnly && state != directoryForeign
}

// directoryState is what a cache directory contains.
type directoryState int

const (
	// directoryEmpty means that the directory is empty or does not exist.
	directoryEmpty directoryState = iota
	// directoryOwn means that the directory has content in this package's format.
	directoryOwn
	// directoryForeign means that the directory has only caches of upstream opm.
	directoryForeign
)

// String returns the message that upstream opm logs for the state.
func (s directoryState) String() string {
	switch s {
	case directoryOwn:
		return "found existing cache contents"
	case directoryForeign:
		return "found existing cache contents of another opm, building beside them"
	}
	return "cache directory is empty, using preferred backend"
}

// inspectCacheDirectory returns what a cache directory contains. It returns an error if the
// directory holds only unknown files.
func inspectCacheDirectory(dir string) (directoryState, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return directoryEmpty, nil
	}
	if err != nil {
		return directoryEmpty, fmt.Errorf("reading the cache directory: %w", err)
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
		return directoryOwn, nil
	case folders["pogreb.v1"], folders["cache"] && files["digest"]:
		return directoryForeign, nil
	case len(names) == 0:
		return directoryEmpty, nil
	}

	return directoryEmpty, fmt.Errorf("cache directory has unexpected contents: %s", strings.Join(names, ","))
}

// loadCachedContent opens the content of the cache directory. It checks the file's checksum and that
// it was built from the source as it is now. It also returns the checksum of the source.
func (c Cache) loadCachedContent(ctx context.Context, source Source) (*Content, uint64, error) {
	// The checksum of the source is always computed: a rebuild needs it.
	type sourceResult struct {
		sum uint64
		err error
	}
	sums := make(chan sourceResult, 1)
	go func() {
		sum, err := source.computeChecksum(ctx)
		sums <- sourceResult{sum, err}
	}()
	file, err := os.Open(filepath.Join(c.Dir, Format, fileName))
	var stored, computed trailer
	var size int64
	if err == nil {
		if stored, size, err = readTrailer(file); err == nil {
			computed.fileSum, err = checksumFile(ctx, file, size-int64(trailerSize))
		}
	}

	computedSource := <-sums
	computed.sourceSum = computedSource.sum
	var ix *index
	switch {
	case computedSource.err != nil:
		err = computedSource.err
	case err != nil:
		err = fmt.Errorf("read existing cache digest: %w", err)
	case stored.fileSum != computed.fileSum || stored.sourceSum != computed.sourceSum:
		err = fmt.Errorf("cache requires rebuild: cache reports digest as %q, but computed digest is %q", stored.displayDigest(), computed.displayDigest())
	default:
		ix, err = readIndex(file, stored, size)
	}

	if err != nil {
		_ = file.Close() // It was only read, or is nil.
		return nil, computedSource.sum, err
	}

	keeper, _ := source.(Stored)
	return &Content{index: ix, file: file, readStored: keeper.Read, closeStored: keeper.Close}, computedSource.sum, nil
}

// checksumFile returns the checksum of the first size bytes of a file.
func checksumFile(ctx context.Context, file *os.File, size int64) (uint64, error) {
	hasher := newParallelHasher(ctx)
	sums := hasher.hashFileInPieces(size, func() (io.ReaderAt, func() error, error) {
		return file, func() error { return nil }, nil
	})
	if err := hasher.waitForPieces(); err != nil {
		return 0, err
	}
	return combineChecksums(sums), nil
}

// rebuildCache builds content in the cache directory, or in a temporary folder if the directory
// is not writable.
func (c Cache) rebuildCache(ctx context.Context, source Source, sum uint64) (*Content, error) {
	out, err := c.newCacheWriter()
	if err == nil {
		return buildContent(ctx, out, source, sum)
	}
	if !c.BuildOnly && (errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)) {
		c.Log.Warn("cache directory cannot be written, using a temporary one", "error", err)
		return c.buildInTemporaryDirectory(ctx, source, sum)
	}
	return nil, err
}

// newCacheWriter creates a content file in the cache directory.
func (c Cache) newCacheWriter() (*contentWriter, error) {
	dir := filepath.Join(c.Dir, Format)
	for _, dir := range []string{c.Dir, dir} {
		if err := ensureSharedDirectory(dir); err != nil {
			return nil, err
		}
	}
	return newContentWriter(dir)
}

// ensureSharedDirectory creates a folder that other users can read, regardless of the umask.
func ensureSharedDirectory(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, folderMode); err != nil {
		return err
	}
	return os.Chmod(dir, folderMode)
}

// buildInTemporaryDirectory builds content in a temporary folder, which Content.Close removes.
func (c Cache) buildInTemporaryDirectory(ctx context.Context, source Source, sum uint64) (*Content, error) {
	dir, err := os.MkdirTemp("", "opm-serve-cache-*")
	if err != nil {
		return nil, err
	}

	var content *Content
	out, err := newContentWriter(dir)
	if err == nil {
		content, err = buildContent(ctx, out, source, sum)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}

	content.temporaryDir = dir
	return content, nil
}
