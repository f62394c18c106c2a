package updateservice

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"

	"github.com/mainstay-dev/mainstay/internal/cincinnati/graphdata"
	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/release"
)

const (
	// parallel is how many images are looked at at a time.
	parallel = 16
	// maxFile bounds the two files that are read of a release, in bytes.
	maxFile = 1 << 20
	// scanTimeout bounds one look at a repository.
	scanTimeout = 30 * time.Minute
)

// Verifier reports whether the image of a digest was signed by those who make releases.
type Verifier interface {
	Verify(ctx context.Context, digest string) error
}

// scraper finds releases in a repository. It remembers them by digest: content that has
// one never changes.
type scraper struct {
	images     func(architecture string) *image.Client
	repository string
	verifier   Verifier // nil: signatures are not looked for
	log        logr.Logger
	cache      *cache // nil: nothing is kept on disk

	mu     sync.Mutex
	known  map[string]found  // by digest
	digest map[string]string // of tags, as they were last seen
	signed map[string]bool   // digests; false: that it is not was told
	news   bool              // known has changed since it was kept
}

// found is what is known of an image.
type found struct {
	release graphdata.Release
	// isList says that the image is a list of several.
	isList bool
	// fault says why it is no release.
	fault string
}

func newScraper(o Options) *scraper {
	s := &scraper{
		images: clients(o.Images), repository: o.Releases, verifier: o.Verifier, log: o.Log, cache: newCache(o.CacheDir, o.Releases),
		digest: map[string]string{}, signed: map[string]bool{},
	}
	var err error
	if s.known, err = s.cache.load(); err != nil {
		s.log.Info("What was known of images cannot be used: they are read again", "error", err.Error())
	}
	return s
}

// keep writes what is known to disk, when it has changed.
func (s *scraper) keep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.news {
		return
	}
	if err := s.cache.save(s.known); err != nil {
		s.log.Info("What is known of images cannot be kept", "error", err.Error())
		return
	}

	s.news = false
}

// clients makes a client for each architecture, the first time that one is asked for.
func clients(options image.Options) func(string) *image.Client {
	var mu sync.Mutex
	made := map[string]*image.Client{}
	return func(architecture string) *image.Client {
		mu.Lock()
		defer mu.Unlock()
		if made[architecture] == nil {
			options := options
			options.Architecture = architecture
			made[architecture] = image.NewClient(options)
		}
		return made[architecture]
	}
}

// scan looks at the repository and gives its releases, those that are signed when there is
// somebody to verify it. It fails when the repository cannot be listed. An image that is no
// release is left out, and so is one that cannot be read at the moment and never was.
func (s *scraper) scan(ctx context.Context) (releases []graphdata.Release, refused int, err error) {
	ctx, cancel := context.WithTimeout(ctx, scanTimeout)
	defer cancel()
	tags, err := s.images("").Tags(ctx, s.repository)
	if err != nil {
		return nil, 0, err
	}

	tags = slices.DeleteFunc(tags, func(tag string) bool {
		return strings.HasSuffix(tag, ".sig") || strings.HasSuffix(tag, ".att") || strings.HasSuffix(tag, ".sbom")
	})
	digests := make([]string, len(tags))
	var work errgroup.Group
	work.SetLimit(parallel)
	for i, tag := range tags {
		work.Go(func() error {
			digests[i] = s.resolve(ctx, tag)
			return nil
		})
	}

	_ = work.Wait() // Each tells of its own failures.
	s.forget(tags)
	slices.Sort(digests)
	digests = slices.DeleteFunc(slices.Compact(digests), func(digest string) bool { return digest == "" })
	states := make([]*found, len(digests))
	for i, digest := range digests {
		work.Go(func() error {
			states[i] = s.look(ctx, digest)
			return nil
		})
	}

	_ = work.Wait() // Each tells of its own failures.
	s.keep()
	if err := ctx.Err(); err != nil {
		return nil, 0, fmt.Errorf("looking at the %d images of %s: %w", len(digests), s.repository, err)
	}

	unread := 0
	for _, state := range states {
		switch {
		case state == nil:
			unread++
		case state.fault != "":
			refused++
		}
	}

	// A few images that cannot be read are left out. When most of them are, the registry is
	// at fault, and half a graph would tell clusters that their version does not exist.
	if unread*2 > len(states) {
		return nil, 0, fmt.Errorf("%d of the %d images of %s cannot be read at the moment: see the log", unread, len(states), s.repository)
	}

	return withoutMembers(states), refused + unread, nil
}

// withoutMembers returns the releases. The images that a list consists of, of one
// architecture each, may have tags, too: they are no releases of their own. Where there is
// no list, as in a mirror that keeps one architecture, such an image stands for it.
func withoutMembers(states []*found) []graphdata.Release {
	lists := map[string]bool{}
	for _, state := range states {
		if state != nil && state.fault == "" && state.isList {
			lists[state.release.Version] = true
		}
	}

	var releases []graphdata.Release
	for _, state := range states {
		if state == nil || state.fault != "" || !state.isList && state.release.Architecture == graphdata.Multi && lists[state.release.Version] {
			continue
		}
		releases = append(releases, state.release)
	}

	return releases
}

// resolve returns the digest of a tag: the one that it had when the registry cannot tell.
func (s *scraper) resolve(ctx context.Context, tag string) string {
	canonical, err := s.images("").Resolve(ctx, s.repository+":"+tag)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		if kindOf(err) == image.KindNotFound {
			delete(s.digest, tag)
			return ""
		}
		s.log.Info("A tag cannot be looked up", "tag", tag, "error", err.Error())
		return s.digest[tag]
	}

	_, digest, _ := strings.Cut(canonical, "@")
	s.digest[tag] = digest
	return digest
}

// forget drops what the repository does not have any more.
func (s *scraper) forget(tags []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	present, used := map[string]bool{}, map[string]bool{}
	for _, tag := range tags {
		present[tag] = true
	}

	for tag, digest := range s.digest {
		if !present[tag] {
			delete(s.digest, tag)
			continue
		}
		used[digest] = true
	}

	for digest := range s.known {
		if !used[digest] {
			delete(s.known, digest)
			delete(s.signed, digest)
			s.news = true
		}
	}
}

// look returns what is known of an image, nil when it cannot be known now.
func (s *scraper) look(ctx context.Context, digest string) *found {
	s.mu.Lock()
	state, known := s.known[digest]
	s.mu.Unlock()
	if !known {
		read, err := s.read(ctx, digest)
		switch {
		case err == nil:
			state = read
		case kindOf(err) == image.KindContent:
			state = found{fault: err.Error()}
		default:
			s.log.Info("An image cannot be read", "digest", digest, "error", err.Error())
			return nil
		}

		if state.fault != "" {
			s.log.Info("An image is no release and is left out", "digest", digest, "error", state.fault)
		}

		s.mu.Lock()
		s.known[digest], s.news = state, true
		s.mu.Unlock()
	}

	if state.fault == "" && !s.isSigned(ctx, digest) {
		state.fault = "it is not signed" // yet: this is not remembered
	}

	return &state
}

// isSigned reports whether an image may be served. One that was not signed may be later.
func (s *scraper) isSigned(ctx context.Context, digest string) bool {
	if s.verifier == nil {
		return true
	}

	s.mu.Lock()
	signed, told := s.signed[digest]
	s.mu.Unlock()
	if signed {
		return true
	}

	err := s.verifier.Verify(ctx, digest)
	if err != nil && !told {
		s.log.Info("A release is not signed and is left out until it is", "digest", digest, "error", err.Error())
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	s.signed[digest] = err == nil

	return err == nil
}

// read reads what an image says of itself.
func (s *scraper) read(ctx context.Context, digest string) (found, error) {
	ref := s.repository + "@" + digest
	platforms, err := s.images("").Platforms(ctx, ref)
	if err != nil {
		return found{}, err
	}
	if len(platforms) == 0 {
		return found{fault: "it is no image for any platform"}, nil
	}

	img, err := s.images(platforms[0].Architecture).Pull(ctx, ref)
	if err != nil {
		return found{}, err
	}

	defer func() { _ = img.Close() }() // It was only read.
	files, err := img.Find(ctx, maxFile, release.FileMetadata, release.FileImages)
	if err != nil {
		return found{}, err
	}

	for _, name := range []string{release.FileMetadata, release.FileImages} {
		if files[name] == nil {
			return found{fault: "it has no file /" + name}, nil
		}
	}

	metadata, err := release.ParseMetadata(files[release.FileMetadata])
	if err != nil {
		return found{fault: fmt.Sprintf("/%s: %v", release.FileMetadata, err)}, nil
	}

	state := found{isList: len(platforms) > 1, release: graphdata.Release{
		Version: metadata.Version, Architecture: platforms[0].Architecture, Payload: ref,
		Previous: metadata.Previous, Next: metadata.Next, Metadata: metadata.Metadata,
	}}
	if state.isList || metadata.Metadata[release.MetadataArchitecture] == graphdata.Multi {
		state.release.Architecture = graphdata.Multi
	}

	return state, nil
}

// kindOf returns the kind of an error of package image.
func kindOf(err error) image.Kind {
	if of := (*image.Error)(nil); errors.As(err, &of) {
		return of.Kind
	}
	return image.KindUnavailable
}
