// Package fetch moves the content of a catalog image into the catalog store.
//
// It decides nothing: which image, and when, is the controllers' work.
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

// labelDatabase names the SQLite file of a catalog image of the kind that came before
// file-based catalogs.
const labelDatabase = "operators.operatorframework.io.index.database.v1"

// Puller opens images. *image.Client is one.
type Puller interface {
	// Resolve returns the reference with the digest that a reference has now.
	Resolve(ctx context.Context, ref string) (string, error)
	// Pull opens an image for reading. The caller closes it.
	Pull(ctx context.Context, ref string) (*image.Image, error)
}

// unpacker is where content goes: a *catalogstore.Store.
type unpacker interface {
	Stored(name string) (catalogstore.Info, error)
	Scratch() (string, error)
	image.Space
	Unpack(ctx context.Context, name string, source catalogstore.Source, fsys fs.FS) (catalogstore.Info, error)
}

// Fetcher moves images into a store.
type Fetcher struct {
	images Puller
	store  unpacker
	// walking is held while a catalog is read. Images may be pulled side by side, but one
	// catalog read at a time keeps the peak of memory that of one.
	walking lock

	mu sync.Mutex
	// fetching has a lock for each catalog that is being fetched.
	fetching map[string]*waiting
}

// lock is a mutex that waiting for ends with a context.
type lock chan struct{}

func newLock() lock { return make(lock, 1) }

func (l lock) acquire(ctx context.Context) error {
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l lock) release() { <-l }

// waiting is a lock and the number of those that have it or wait for it.
type waiting struct {
	lock  lock
	users int
}

// New makes a fetcher.
func New(images Puller, contents unpacker) *Fetcher {
	return &Fetcher{images: images, store: contents, walking: newLock(), fetching: map[string]*waiting{}}
}

// Fetch pulls the source's resolved image and stores its catalog under a name, unless it
// is stored already, perhaps by a call that this one has waited for. On an error nothing
// has changed: IsContent tells whether only another image can help.
func (f *Fetcher) Fetch(ctx context.Context, name string, source catalogstore.Source) (catalogstore.Info, error) {
	release, err := f.alone(ctx, name)
	if err != nil {
		return catalogstore.Info{}, err
	}

	defer release()
	if info, err := f.store.Stored(name); err == nil && info.Resolved == source.Resolved {
		return info, nil
	}

	start := time.Now()
	info, err := f.fetch(ctx, name, source)
	metrics.UnpackSeconds.WithLabelValues(outcome(err)).Observe(time.Since(start).Seconds())
	if err == nil {
		metrics.Stored(name, info.Bytes, info.Blobs)
	}

	return info, err
}

// alone waits until no other call fetches for the catalog.
func (f *Fetcher) alone(ctx context.Context, name string) (release func(), err error) {
	f.mu.Lock()
	w := f.fetching[name]
	if w == nil {
		w = &waiting{lock: newLock()}
		f.fetching[name] = w
	}

	w.users++
	f.mu.Unlock()
	leave := func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if w.users--; w.users == 0 {
			delete(f.fetching, name)
		}
	}
	if err := w.lock.acquire(ctx); err != nil {
		leave()
		return nil, err
	}

	return func() {
		w.lock.release()
		leave()
	}, nil
}

func (f *Fetcher) fetch(ctx context.Context, name string, source catalogstore.Source) (catalogstore.Info, error) {
	pulled, err := f.images.Pull(ctx, source.Resolved)
	if err != nil {
		return catalogstore.Info{}, err
	}

	defer func() { _ = pulled.Close() }() // It was only read.
	configs, err := configsFolder(pulled.Labels)
	if err != nil {
		return catalogstore.Info{}, fmt.Errorf("image %s: %w", source.Resolved, err)
	}

	dir, err := f.store.Scratch()
	if err != nil {
		return catalogstore.Info{}, err
	}

	// What is left is removed at the next start.
	defer func() { _ = os.RemoveAll(dir) }()
	// Not one file on disk for each file of the catalog: making and removing them takes
	// longer than all else.
	files, _, err := pulled.FilesWithin(ctx, configs, dir, f.store)
	if err != nil {
		return catalogstore.Info{}, err
	}

	defer func() { _ = files.Close() }() // They were only read.
	if err := f.walking.acquire(ctx); err != nil {
		return catalogstore.Info{}, err
	}

	defer f.walking.release()
	info, err := f.store.Unpack(ctx, name, source, files)
	if err != nil {
		return catalogstore.Info{}, fmt.Errorf("reading the catalog in image %s: %w", source.Resolved, err)
	}

	return info, nil
}

// notCatalogError says that an image has no catalog that can be read.
type notCatalogError struct{ text string }

func (e *notCatalogError) Error() string { return e.text }

// configsFolder returns the folder of the catalog in an image with these labels.
func configsFolder(labels map[string]string) (string, error) {
	if folder := labels[image.LabelConfigs]; folder != "" {
		return folder, nil
	}
	if labels[labelDatabase] != "" {
		return "", &notCatalogError{fmt.Sprintf("it holds a SQLite catalog (label %s), which is not read: convert it to a file-based catalog", labelDatabase)}
	}
	return "", &notCatalogError{fmt.Sprintf("it is not a catalog: the label %s, which names the folder of the catalog, is missing", image.LabelConfigs)}
}

// IsContent reports whether an error says that the image, its content or its reference is
// wrong, so that trying the same again cannot help.
func IsContent(err error) bool {
	var broken *fbc.Error
	var none *notCatalogError
	return image.IsTerminal(err) || errors.As(err, &broken) || errors.As(err, &none)
}

// IsNotFound reports whether an error says that the registry does not have the image.
func IsNotFound(err error) bool {
	var e *image.Error
	return errors.As(err, &e) && e.Kind == image.KindNotFound
}

func outcome(err error) string {
	switch {
	case err == nil:
		return "stored"
	case IsContent(err):
		return "content"
	default:
		return "unavailable"
	}
}
