package inline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/catalogstore"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/content"
	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/pull"
)

// ImageLimits are the limits of catalog images. The largest public catalog has 250 MiB.
var ImageLimits = image.Limits{}

const (
	// retrievalPurpose is the purpose of all retrievals: a catalog has one image.
	retrievalPurpose = "catalog"
	// retrievalTimeout limits a retrieval, because its slot is needed.
	retrievalTimeout = 15 * time.Minute
	// labelDatabase is the label of the images of SQLite catalogs.
	labelDatabase = "operators.operatorframework.io.index.database.v1"
)

// retrieved is the result of a retrieval.
type retrieved struct {
	info catalogstore.Info
	// polled is when the registry was contacted. It is zero if the content was stored.
	polled time.Time
}

// startRetrieval starts to retrieve the content of a catalog. With isRefresh set, the registry is contacted even if
// there is content for the image.
func (s *Server) startRetrieval(ctx context.Context, c Catalog, isRefresh bool) {
	s.retrievals.Start(ctx, pull.Retrieval[retrieved]{
		Name: c.String(), Purpose: retrievalPurpose, Request: c.requestID(), Reference: c.Image,
		Run: func(ctx context.Context) (retrieved, error) {
			ctx, cancel := context.WithTimeout(ctx, retrievalTimeout)
			defer cancel()
			return s.retrieveContent(ctx, c, isRefresh)
		},
	})
}

// retrieveContent stores the content of a catalog and builds its index.
func (s *Server) retrieveContent(ctx context.Context, c Catalog, isRefresh bool) (retrieved, error) {
	var result retrieved
	var err error
	result.info, err = s.options.Store.Stored(string(c.UID))
	if isRefresh || err != nil || result.info.Ref != c.Image {
		result.polled = s.options.Clock.Now()
		if result.info, err = s.fetchContent(ctx, c, result.info); err != nil {
			return result, err
		}
	}

	built, err := s.openContent(ctx, c, true)
	if err != nil {
		return result, fmt.Errorf("reading the catalog in image %s: %w", result.info.Resolved, err)
	}

	return result, built.Close()
}

// fetchContent stores the content of the image that the reference of a catalog points to now. It pulls nothing if that
// is stored.
func (s *Server) fetchContent(ctx context.Context, c Catalog, stored catalogstore.Info) (catalogstore.Info, error) {
	secrets := make([]client.ObjectKey, 0, len(c.Secrets))
	for _, name := range c.Secrets {
		secrets = append(secrets, client.ObjectKey{Namespace: c.Namespace, Name: name})
	}

	registries, err := s.options.Registries(ctx, secrets...)
	if err != nil {
		return stored, err
	}
	resolved, err := registries.Resolve(ctx, c.Image)
	if err != nil {
		return stored, err
	}
	if stored.Resolved == resolved {
		return s.options.Store.Confirm(string(c.UID), c.Image, s.options.Clock.Now())
	}

	pulled, err := registries.Pull(ctx, resolved)
	if err != nil {
		return stored, err
	}
	defer func() { _ = pulled.Close() }() // It was only read.
	folder, err := catalogFolder(c, pulled.Labels)
	if err != nil {
		return stored, fmt.Errorf("image %s: %w", resolved, err)
	}

	dir, err := s.options.Store.Scratch()
	if err != nil {
		return stored, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // Leftover files are removed at the next start.
	files, _, err := pulled.FilesWithin(ctx, folder, dir, s.options.Store)
	if err != nil {
		return stored, err
	}
	defer func() { _ = files.Close() }() // They were only read.

	release, err := s.readers.acquire(ctx)
	if err != nil {
		return stored, err
	}
	defer release()
	info, err := s.options.Store.Unpack(ctx, string(c.UID), catalogstore.Source{Ref: c.Image, Resolved: resolved}, files)
	if err != nil {
		return stored, fmt.Errorf("reading the catalog in image %s: %w", resolved, err)
	}

	return info, nil
}

// readerSlots limit the images that are read at the same time.
type readerSlots chan struct{}

// acquire waits for a slot. The returned function releases it.
func (r readerSlots) acquire(ctx context.Context) (release func(), err error) {
	select {
	case r <- struct{}{}:
		return func() { <-r }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// catalogFolder returns the folder of a catalog in an image with the given labels.
func catalogFolder(c Catalog, labels map[string]string) (string, error) {
	switch {
	case c.Folder != "":
		return c.Folder, nil
	case labels[image.LabelConfigs] != "":
		return labels[image.LabelConfigs], nil
	case labels[labelDatabase] != "":
		return "", fmt.Errorf("it contains a SQLite catalog (label %s), which is only served by pods: convert it to a file-based catalog with 'opm migrate', or run catalog-operator with --catalog-serving=pods", labelDatabase)
	}

	return "", fmt.Errorf("it is not a catalog: the label %s, which specifies the directory of the catalog, is missing", image.LabelConfigs)
}

// openContent opens the stored content of a catalog with its index, and builds the index if necessary. With buildOnly
// set, the content is not served.
func (s *Server) openContent(ctx context.Context, c Catalog, buildOnly bool) (*content.Content, error) {
	stored, err := s.options.Store.Content(string(c.UID))
	if err != nil {
		return nil, err
	}

	if buildOnly {
		release, err := s.readers.acquire(ctx)
		if err != nil {
			stored.Close()
			return nil, err
		}
		defer release()
	}

	cache := content.Cache{
		Dir: s.indexDir(string(c.UID)), BuildOnly: buildOnly, Integrity: content.IgnoreIntegrity, Log: slog.New(slog.DiscardHandler),
	}
	opened, err := cache.Open(ctx, content.Stored{
		Name: c.Image, Sum: stored.Info().Sum, All: stored.Scan(catalogstore.Query{}),
		Read: func(number uint32) ([]byte, error) {
			meta, err := stored.Blob(catalogstore.Ref(number))
			return meta.Blob, err
		},
		Close: stored.Close,
	})
	if err != nil {
		stored.Close()
		return nil, err
	}

	return opened, nil
}

// serveResult serves the content of a successful retrieval. It reports whether the content has changed.
func (s *Server) serveResult(ctx context.Context, st *catalogState, result retrieved, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	if st.served.Sum == result.info.Sum && st.served.Unpacked.Equal(result.info.Unpacked) {
		st.served = result.info
		return false, nil
	}

	opened, err := s.openContent(ctx, st.catalog, false)
	if err != nil {
		return false, errors.Join(errors.New("opening the stored catalog"), err)
	}

	s.catalogs.Set(st.catalog.Service, st.catalog.Namespace, opened)
	changed := st.served.Sum != result.info.Sum
	st.served = result.info
	if changed {
		st.since = result.info.Unpacked
	}

	return changed, nil
}
