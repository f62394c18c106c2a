package image

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	"go.podman.io/image/v5/manifest"

	"github.com/mainstay-dev/mainstay/internal/image/registry"
)

// remoteRepository reads one image from the first of its pull sources that has the
// requested content.
type remoteRepository struct {
	named    imageReference
	sources  []pullSource
	sessions []*registry.Session

	mu      sync.Mutex
	current int // index of the source to ask; those before it have failed
}

// openRepository returns the repository of an image, with a session for each pull source.
// It does not connect yet.
func (c *connector) openRepository(named imageReference) (*remoteRepository, error) {
	sys := c.systemContext()
	places, err := c.findPullSources(sys, named)
	if err != nil {
		return nil, err
	}

	r := &remoteRepository{named: named, sources: places}
	for i, place := range places {
		session, err := c.newSession(sys, place, sessionOptions{singleAttempt: i+1 < len(places)})
		if err != nil {
			r.Close()
			return nil, err
		}
		r.sessions = append(r.sessions, session)
	}

	return r, nil
}

// Close closes the connections.
func (r *remoteRepository) Close() {
	for _, session := range r.sessions {
		session.Close()
	}
}

// tryPullSources calls ask for each source until one succeeds, beginning with the source
// that succeeded last.
func (r *remoteRepository) tryPullSources(ask func(*registry.Session, imageReference) error) error {
	r.mu.Lock()
	first := r.current
	r.mu.Unlock()
	var failed []string
	for i := first; ; i++ {
		err := ask(r.sessions[i], r.sources[i].name)
		if err == nil {
			r.mu.Lock()
			r.current = max(r.current, i)
			r.mu.Unlock()
			return nil
		}
		if i+1 == len(r.sources) || errors.Is(err, context.Canceled) {
			return r.describeFailure(i, err, failed)
		}
		failed = append(failed, fmt.Sprintf("%s: %v", r.sources[i].name.repository(), err))
	}
}

// describeFailure adds to err the mirror that it is from, and the errors of the sources
// that failed before it.
func (r *remoteRepository) describeFailure(i int, err error, failed []string) error {
	if r.sources[i].name.repository() != r.named.repository() {
		err = fmt.Errorf("its mirror %s: %w", r.sources[i].name.repository(), err)
	}
	if len(failed) > 0 {
		err = fmt.Errorf("%w (before it: %s)", err, strings.Join(failed, "; "))
	}
	return err
}

// skipToNextSource makes the next source the current one, and reports whether there is one.
func (r *remoteRepository) skipToNextSource() bool {
	r.mu.Lock()
	defer r.mu.Unlock()

	if r.current+1 >= len(r.sources) {
		return false
	}
	r.current++
	return true
}

// withSourceTimeout limits one source to its part of the time that is left for all sources.
func (r *remoteRepository) withSourceTimeout(ctx context.Context, session *registry.Session) (context.Context, context.CancelFunc) {
	left := len(r.sources) - slices.Index(r.sessions, session)
	deadline, ok := ctx.Deadline()
	if !ok || left <= 1 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(deadline)/time.Duration(left))
}

// fetchDigest returns the current digest of the image.
func (r *remoteRepository) fetchDigest(ctx context.Context) (digest.Digest, error) {
	var found digest.Digest
	err := r.tryPullSources(func(session *registry.Session, ref imageReference) error {
		ctx, cancel := r.withSourceTimeout(ctx, session)
		defer cancel()

		var err error
		found, err = session.Digest(ctx, ref.tagOrDigest())
		if errors.Is(err, registry.ErrNoDigest) {
			var data []byte
			if data, _, err = session.Manifest(ctx, ref.tagOrDigest()); err == nil {
				found, err = manifest.Digest(data)
			}
		}

		return err
	})

	return found, err
}

// fetchManifest reads a manifest and returns it with its media type. An empty digest means
// the manifest of the image itself. It returns an error for a manifest that does not have
// the requested digest.
func (r *remoteRepository) fetchManifest(ctx context.Context, want digest.Digest) ([]byte, string, error) {
	var data []byte
	var mediaType string
	err := r.tryPullSources(func(session *registry.Session, ref imageReference) error {
		ctx, cancel := r.withSourceTimeout(ctx, session)
		defer cancel()

		if want != "" {
			ref = ref.withDigest(want)
		}

		var err error
		data, mediaType, err = session.Manifest(ctx, ref.tagOrDigest())
		if err != nil || ref.digest == "" {
			return err
		}

		return checkManifestDigest(data, ref.digest)
	})
	if err != nil {
		return nil, "", err
	}
	if !slices.Contains(manifest.DefaultRequestedManifestMIMETypes, mediaType) {
		mediaType = manifest.GuessMIMEType(data)
	}

	return data, mediaType, nil
}

// checkManifestDigest returns an error if a manifest does not have the digest want.
func checkManifestDigest(data []byte, want digest.Digest) error {
	matches, err := manifest.MatchesDigest(data, want)
	if err != nil {
		return contentErrorf("compute the digest of the manifest: %w", err)
	}
	if !matches {
		return digestMismatchf(KindUnavailable, "the registry sent a manifest that does not have the digest %s", want)
	}
	return nil
}

// openBlobAt opens a blob of the image at an offset.
func (r *remoteRepository) openBlobAt(ctx context.Context, d digest.Digest, offset int64) (*registry.Blob, error) {
	var opened *registry.Blob
	err := r.tryPullSources(func(session *registry.Session, _ imageReference) error {
		var err error
		opened, err = session.Blob(ctx, d, offset)
		return err
	})
	return opened, err
}
