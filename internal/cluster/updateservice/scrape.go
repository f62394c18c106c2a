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
	"github.com/mainstay-dev/mainstay/internal/image/registry"
	"github.com/mainstay-dev/mainstay/internal/release"
)

const (
	// maxParallelImages is how many images are inspected in parallel.
	maxParallelImages = 16
	// maxFileBytes is the maximum size of each of the two files that are read from a release.
	maxFileBytes = 1 << 20
	// scanTimeout is the timeout of one scan of the repository.
	scanTimeout = 30 * time.Minute
)

// Verifier verifies that the image with a digest is signed by a trusted key.
type Verifier interface {
	Verify(ctx context.Context, digest string) error
}

// scraper finds releases in a repository. It caches them by digest, because the content of a
// digest never changes.
type scraper struct {
	images     func(architecture string) *image.Client
	repository string
	verifier   Verifier // nil: signatures are not verified
	log        logr.Logger
	cache      *cache // nil: there is no cache on disk

	mu          sync.Mutex
	states      map[string]imageState // by digest
	digestByTag map[string]string     // by tag, as of the last scan
	signed      map[string]bool       // by digest; false: the missing signature was logged
	isDirty     bool                  // states has changed since it was saved
}

// imageState is what is known of an image.
type imageState struct {
	release graphdata.Release
	// isList is true if the image is an image index with several platforms.
	isList bool
	// fault is the reason why the image is not a release.
	fault string
}

func newScraper(o Options) *scraper {
	s := &scraper{
		images: newClientPool(o.Images), repository: o.Releases, verifier: o.Verifier, log: o.Log, cache: newImageCache(o.CacheDir, o.Releases),
		digestByTag: map[string]string{}, signed: map[string]bool{},
	}
	var err error
	if s.states, err = s.cache.load(); err != nil {
		s.log.Info("Failed to load the image cache; images are read again", "error", err.Error())
	}
	return s
}

// saveCache writes the states of images to disk if they changed.
func (s *scraper) saveCache() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isDirty {
		return
	}
	if err := s.cache.save(s.states); err != nil {
		s.log.Info("Failed to save the image cache", "error", err.Error())
		return
	}

	s.isDirty = false
}

// newClientPool returns a function that creates one client per architecture, on demand.
func newClientPool(options image.Options) func(string) *image.Client {
	var mu sync.Mutex
	pool := map[string]*image.Client{}
	return func(architecture string) *image.Client {
		mu.Lock()
		defer mu.Unlock()
		if pool[architecture] == nil {
			options := options
			options.Architecture = architecture
			pool[architecture] = image.NewClient(options)
		}
		return pool[architecture]
	}
}

// scanRepository returns the releases in the repository, only signed ones if there is a
// verifier, and the number of refused images. It returns an error if the repository cannot be
// listed. Images that are no releases are left out, and so are images that cannot be read now
// and never were.
func (s *scraper) scanRepository(ctx context.Context) (releases []graphdata.Release, refused int, err error) {
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
	work.SetLimit(maxParallelImages)
	for i, tag := range tags {
		work.Go(func() error {
			digests[i] = s.resolveTagDigest(ctx, tag)
			return nil
		})
	}

	_ = work.Wait() // The functions log their own errors.
	s.forgetRemovedTags(tags)
	slices.Sort(digests)
	digests = slices.DeleteFunc(slices.Compact(digests), func(digest string) bool { return digest == "" })
	states := make([]*imageState, len(digests))
	for i, digest := range digests {
		work.Go(func() error {
			states[i] = s.inspectImage(ctx, digest)
			return nil
		})
	}

	_ = work.Wait() // The functions log their own errors.
	s.saveCache()
	if err := ctx.Err(); err != nil {
		return nil, 0, fmt.Errorf("inspecting the %d images of %s: %w", len(digests), s.repository, err)
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

	// A few unreadable images are left out. If most images are unreadable, the registry has a
	// problem, and a partial graph would tell clusters that their version does not exist.
	if unread*2 > len(states) {
		return nil, 0, fmt.Errorf("%d of the %d images of %s cannot be read now: see the log", unread, len(states), s.repository)
	}

	return dropListMembers(states), refused + unread, nil
}

// dropListMembers returns the releases of the images. The single-architecture members of an
// index may also have tags; they are no releases of their own. Without the index, as in a mirror
// of one architecture, such an image represents the release.
func dropListMembers(states []*imageState) []graphdata.Release {
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

// resolveTagDigest returns the digest of a tag. If the registry cannot resolve it now, it returns the
// last known digest.
func (s *scraper) resolveTagDigest(ctx context.Context, tag string) string {
	canonical, err := s.images("").Resolve(ctx, s.repository+":"+tag)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		if imageErrorKind(err) == image.KindNotFound {
			delete(s.digestByTag, tag)
			return ""
		}
		s.log.Info("Failed to resolve a tag", "tag", tag, "error", err.Error())
		return s.digestByTag[tag]
	}

	_, digest, _ := strings.Cut(canonical, "@")
	s.digestByTag[tag] = digest
	return digest
}

// forgetRemovedTags removes tags and digests that are no longer in the repository.
func (s *scraper) forgetRemovedTags(tags []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	present, used := map[string]bool{}, map[string]bool{}
	for _, tag := range tags {
		present[tag] = true
	}

	for tag, digest := range s.digestByTag {
		if !present[tag] {
			delete(s.digestByTag, tag)
			continue
		}
		used[digest] = true
	}

	for digest := range s.states {
		if !used[digest] {
			delete(s.states, digest)
			delete(s.signed, digest)
			s.isDirty = true
		}
	}
}

// inspectImage returns the state of an image; nil if it cannot be read now.
func (s *scraper) inspectImage(ctx context.Context, digest string) *imageState {
	s.mu.Lock()
	state, known := s.states[digest]
	s.mu.Unlock()
	if !known {
		read, err := s.readImageMetadata(ctx, digest)
		switch {
		case err == nil:
			state = read
		case isContentFault(err):
			state = imageState{fault: err.Error()}
		default:
			s.log.Info("Failed to read an image", "digest", digest, "error", err.Error())
			return nil
		}

		if state.fault != "" {
			s.log.Info("Skipped an image that is not a release", "digest", digest, "error", state.fault)
		}

		s.mu.Lock()
		s.states[digest] = state
		s.isDirty = true
		s.mu.Unlock()
	}

	if state.fault == "" && !s.verifySignature(ctx, digest) {
		state.fault = "it is not signed" // it may be signed later, so this is not cached
	}

	return &state
}

// verifySignature reports whether an image may be served, and remembers valid signatures. Others
// are verified again in the next scan.
func (s *scraper) verifySignature(ctx context.Context, digest string) bool {
	if s.verifier == nil {
		return true
	}

	s.mu.Lock()
	signed, isLogged := s.signed[digest]
	s.mu.Unlock()
	if signed {
		return true
	}

	err := s.verifier.Verify(ctx, digest)
	if err != nil && !isLogged {
		s.log.Info("Skipped a release without a valid signature", "digest", digest, "error", err.Error())
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	s.signed[digest] = err == nil

	return err == nil
}

// readImageMetadata reads the metadata of an image.
func (s *scraper) readImageMetadata(ctx context.Context, digest string) (imageState, error) {
	ref := s.repository + "@" + digest
	platforms, err := s.images("").Platforms(ctx, ref)
	if err != nil {
		return imageState{}, err
	}
	if len(platforms) == 0 {
		return imageState{fault: "it is not an image for any platform"}, nil
	}

	img, err := s.images(platforms[0].Architecture).Pull(ctx, ref)
	if err != nil {
		return imageState{}, err
	}
	defer func() { _ = img.Close() }() // It was only read.
	files, err := img.ReadFiles(ctx, maxFileBytes, release.FileMetadata, release.FileImages)
	if err != nil {
		return imageState{}, err
	}

	for _, name := range []string{release.FileMetadata, release.FileImages} {
		if files[name] == nil {
			return imageState{fault: "it has no file /" + name}, nil
		}
	}

	metadata, err := release.ParseMetadata(files[release.FileMetadata])
	if err != nil {
		return imageState{fault: fmt.Sprintf("/%s: %v", release.FileMetadata, err)}, nil
	}

	state := imageState{isList: len(platforms) > 1, release: graphdata.Release{
		Version: metadata.Version, Architecture: platforms[0].Architecture, Payload: ref,
		Previous: metadata.Previous, Next: metadata.Next, Metadata: metadata.Metadata,
	}}
	if state.isList || metadata.Metadata[release.MetadataArchitecture] == graphdata.Multi {
		state.release.Architecture = graphdata.Multi
	}

	return state, nil
}

// isContentFault reports whether an error means that an image is invalid. Content of another size than its manifest says, and a
// manifest that is too large, were not verified by their digest. They can be the response of a proxy, and are read again later.
func isContentFault(err error) bool {
	var tooLarge *registry.TooLargeError
	return imageErrorKind(err) == image.KindContent && !errors.Is(err, image.ErrDigestMismatch) && !errors.As(err, &tooLarge)
}

// imageErrorKind returns the kind of an error of package image.
func imageErrorKind(err error) image.Kind {
	if imageErr := (*image.Error)(nil); errors.As(err, &imageErr) {
		return imageErr.Kind
	}
	return image.KindUnavailable
}
