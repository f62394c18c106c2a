// Package fetch pulls catalog images and stores their content in the catalog store.
//
// The controllers decide which images are fetched, and when.
package fetch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/mainstay-dev/mainstay/internal/catalog/metrics"
	"github.com/mainstay-dev/mainstay/internal/catalogstore"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/image"
)

// labelDatabase is the image label with the path of the database in a SQLite catalog, the predecessor of
// file-based catalogs.
const labelDatabase = "operators.operatorframework.io.index.database.v1"

// Puller resolves and pulls images. *image.Client implements it.
type Puller interface {
	// Resolve resolves a reference and returns it with the digest.
	Resolve(ctx context.Context, ref string) (string, error)
	// Pull opens an image for reading. The caller closes it.
	Pull(ctx context.Context, ref string) (*image.Image, error)
}

// contentStore is the part of *catalogstore.Store that the fetcher uses.
type contentStore interface {
	Stored(name string) (catalogstore.Info, error)
	Scratch() (string, error)
	image.Space
	Unpack(ctx context.Context, name string, source catalogstore.Source, fsys fs.FS) (catalogstore.Info, error)
}

// Fetcher stores the content of catalog images.
type Fetcher struct {
	images Puller
	store  contentStore
	// walkLock is held while a catalog is read. Images are pulled concurrently, but only one catalog is
	// read at a time, which limits the peak memory.
	walkLock contextLock

	mu sync.Mutex
	// catalogLocks contains a lock for each catalog that is being fetched.
	catalogLocks map[string]*countedLock
}

// contextLock is a mutex that can be acquired with a context.
type contextLock chan struct{}

func newContextLock() contextLock { return make(contextLock, 1) }

func (l contextLock) acquire(ctx context.Context) error {
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l contextLock) release() { <-l }

// countedLock is a lock with the number of its holders and waiters.
type countedLock struct {
	lock  contextLock
	users int
}

// New returns a fetcher that pulls images with images and stores content in contents.
func New(images Puller, contents contentStore) *Fetcher {
	return &Fetcher{images: images, store: contents, walkLock: newContextLock(), catalogLocks: map[string]*countedLock{}}
}

// Fetch pulls the resolved image of a source and stores its catalog under a name. It does nothing if the
// image is stored already, for example by a concurrent call. If Fetch returns an error, the stored content
// is unchanged. IsContentError reports whether the error is permanent for the image.
func (f *Fetcher) Fetch(ctx context.Context, name string, source catalogstore.Source) (catalogstore.Info, error) {
	release, err := f.lockCatalog(ctx, name)
	if err != nil {
		return catalogstore.Info{}, err
	}
	defer release()
	if info, err := f.store.Stored(name); err == nil && info.Resolved == source.Resolved {
		return info, nil
	}

	start := time.Now()
	info, err := f.fetchImage(ctx, name, source)
	metrics.UnpackSeconds.WithLabelValues(outcomeLabel(err)).Observe(time.Since(start).Seconds())
	if err == nil {
		metrics.RecordStored(name, info.Bytes, info.Blobs)
	}

	return info, err
}

// lockCatalog waits until no other call fetches the catalog. The caller must call release.
func (f *Fetcher) lockCatalog(ctx context.Context, name string) (release func(), err error) {
	f.mu.Lock()
	w := f.catalogLocks[name]
	if w == nil {
		w = &countedLock{lock: newContextLock()}
		f.catalogLocks[name] = w
	}

	w.users++
	f.mu.Unlock()
	releaseUser := func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if w.users--; w.users == 0 {
			delete(f.catalogLocks, name)
		}
	}
	if err := w.lock.acquire(ctx); err != nil {
		releaseUser()
		return nil, err
	}

	return func() {
		w.lock.release()
		releaseUser()
	}, nil
}

func (f *Fetcher) fetchImage(ctx context.Context, name string, source catalogstore.Source) (catalogstore.Info, error) {
	pulled, err := f.images.Pull(ctx, source.Resolved)
	if err != nil {
		return catalogstore.Info{}, err
	}
	defer func() { _ = pulled.Close() }() // The image was only read.
	configs, err := findConfigsFolder(pulled.Labels)
	if err != nil {
		return catalogstore.Info{}, fmt.Errorf("image %s: %w", source.Resolved, err)
	}

	dir, err := f.store.Scratch()
	if err != nil {
		return catalogstore.Info{}, err
	}

	// Leftover files are removed at the next start.
	defer func() { _ = os.RemoveAll(dir) }()
	// The files are not extracted one by one, because creating and removing them takes longer than
	// everything else.
	files, _, err := pulled.FilesWithin(ctx, configs, dir, f.store)
	if err != nil {
		return catalogstore.Info{}, err
	}
	defer func() { _ = files.Close() }() // The files were only read.
	if err := f.walkLock.acquire(ctx); err != nil {
		return catalogstore.Info{}, err
	}
	defer f.walkLock.release()
	info, err := f.store.Unpack(ctx, name, source, files)
	if err != nil {
		return catalogstore.Info{}, fmt.Errorf("reading the catalog in image %s: %w", source.Resolved, err)
	}

	return info, nil
}

// notCatalogError is returned for an image without a supported catalog.
type notCatalogError struct{ text string }

func (e *notCatalogError) Error() string { return e.text }

// findConfigsFolder returns the directory of the catalog in an image with the given labels.
func findConfigsFolder(labels map[string]string) (string, error) {
	if folder := labels[image.LabelConfigs]; folder != "" {
		return folder, nil
	}
	if labels[labelDatabase] != "" {
		return "", &notCatalogError{fmt.Sprintf("it contains a SQLite catalog (label %s), which is not supported: convert it to a file-based catalog", labelDatabase)}
	}
	return "", &notCatalogError{fmt.Sprintf("it is not a catalog: the label %s, which specifies the directory of the catalog, is missing", image.LabelConfigs)}
}

// IsContentError reports whether an error is caused by the image, its content or its reference, so that a retry
// cannot succeed.
func IsContentError(err error) bool {
	var broken *fbc.Error
	var none *notCatalogError
	return image.IsTerminal(err) || errors.As(err, &broken) || errors.As(err, &none)
}

// IsNotFound reports whether an error means that the registry does not contain the image.
func IsNotFound(err error) bool {
	var e *image.Error
	return errors.As(err, &e) && e.Kind == image.KindNotFound
}

// outcomeLabel returns the value of the metric label outcome for an error.
func outcomeLabel(err error) string {
	switch {
	case err == nil:
		return "stored"
	case IsContentError(err):
		return "content"
	default:
		return "unavailable"
	}
}
