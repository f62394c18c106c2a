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

// remote is the repository of one image, at the first place that has what is asked for.
type remote struct {
	named    name
	places   []source
	sessions []*registry.Session

	mu sync.Mutex
	at int // places before it have failed
}

// remote opens the repository of an image. Nothing is connected to yet.
func (c *Client) remote(named name) (*remote, error) {
	sys := c.system()
	places, err := c.sources(sys, named)
	if err != nil {
		return nil, err
	}

	r := &remote{named: named, places: places}
	for i, place := range places {
		session, err := c.session(sys, place, sessionOptions{once: i+1 < len(places)})
		if err != nil {
			r.Close()
			return nil, err
		}
		r.sessions = append(r.sessions, session)
	}

	return r, nil
}

// Close closes the connections.
func (r *remote) Close() {
	for _, session := range r.sessions {
		session.Close()
	}
}

// try asks one place after the other, from the last on that had an answer.
func (r *remote) try(ask func(*registry.Session, name) error) error {
	r.mu.Lock()
	first := r.at
	r.mu.Unlock()
	var failed []string
	for i := first; ; i++ {
		err := ask(r.sessions[i], r.places[i].name)
		if err == nil {
			r.mu.Lock()
			r.at = max(r.at, i)
			r.mu.Unlock()
			return nil
		}
		if i+1 == len(r.places) || errors.Is(err, context.Canceled) {
			return r.explain(i, err, failed)
		}
		failed = append(failed, fmt.Sprintf("%s: %v", r.places[i].name.repository(), err))
	}
}

// explain says where an error happened when that is not where the image is named to be,
// and what happened before.
func (r *remote) explain(i int, err error, failed []string) error {
	if r.places[i].name.repository() != r.named.repository() {
		err = fmt.Errorf("its mirror %s: %w", r.places[i].name.repository(), err)
	}
	if len(failed) > 0 {
		err = fmt.Errorf("%w (before it: %s)", err, strings.Join(failed, "; "))
	}
	return err
}

// skip leaves the current place for the next one, and tells whether there is one.
func (r *remote) skip() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at+1 >= len(r.places) {
		return false
	}
	r.at++
	return true
}

// share bounds what one place may take of the time that all of them have.
func (r *remote) share(ctx context.Context, session *registry.Session) (context.Context, context.CancelFunc) {
	left := len(r.places) - slices.Index(r.sessions, session)
	deadline, ok := ctx.Deadline()
	if !ok || left <= 1 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(deadline)/time.Duration(left))
}

// digest asks which digest the image has now.
func (r *remote) digest(ctx context.Context) (digest.Digest, error) {
	var found digest.Digest
	err := r.try(func(session *registry.Session, there name) error {
		ctx, cancel := r.share(ctx, session)
		defer cancel()
		var err error
		found, err = session.Digest(ctx, there.version())
		if errors.Is(err, registry.ErrNoDigest) {
			var data []byte
			if data, _, err = session.Manifest(ctx, there.version()); err == nil {
				found, err = manifest.Digest(data)
			}
		}

		return err
	})

	return found, err
}

// manifest reads a manifest of the image: that of a digest, or the image's own if the
// digest is empty. It gives the media type, and refuses a manifest that does not have the
// digest by which it was asked for.
func (r *remote) manifest(ctx context.Context, want digest.Digest) ([]byte, string, error) {
	var data []byte
	var mediaType string
	err := r.try(func(session *registry.Session, there name) error {
		ctx, cancel := r.share(ctx, session)
		defer cancel()
		if want != "" {
			there = there.at(want)
		}

		var err error
		data, mediaType, err = session.Manifest(ctx, there.version())
		if err != nil || there.digest == "" {
			return err
		}

		return checkManifest(data, there.digest)
	})
	if err != nil {
		return nil, "", err
	}
	if !slices.Contains(manifest.DefaultRequestedManifestMIMETypes, mediaType) {
		mediaType = manifest.GuessMIMEType(data)
	}

	return data, mediaType, nil
}

func checkManifest(data []byte, want digest.Digest) error {
	matches, err := manifest.MatchesDigest(data, want)
	if err != nil {
		return badContent("compute the digest of the manifest: %w", err)
	}
	if !matches {
		return changedf(KindUnavailable, "the registry sent a manifest that does not have the digest %s", want)
	}
	return nil
}

// blob opens a blob of the image from an offset on.
func (r *remote) blob(ctx context.Context, d digest.Digest, offset int64) (*registry.Blob, error) {
	var opened *registry.Blob
	err := r.try(func(session *registry.Session, _ name) error {
		var err error
		opened, err = session.Blob(ctx, d, offset)
		return err
	})
	return opened, err
}
