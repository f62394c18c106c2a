// Package inline serves catalogs from within the process, without pods. It pulls their images, keeps the
// content in the catalog store, and answers the calls of all catalogs with one gRPC server
// (internal/classic/registry).
//
// The controller in package source decides which catalogs are served, and when they are polled. Nothing
// here waits in a worker: images are retrieved in the background (internal/pull).
package inline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/catalogstore"
	"github.com/mainstay-dev/mainstay/internal/classic/registry"
	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/pull"
)

// Options configure a Server. Store, IndexDir, Registries and ListUIDs are required.
type Options struct {
	// Store has the content of the catalogs, by UID.
	Store *catalogstore.Partition
	// IndexDir is the directory of the indexes of the catalogs. It can be deleted at any time.
	IndexDir string
	// Registries returns a registry client that uses only the credentials of the given Secrets.
	Registries func(ctx context.Context, secrets ...client.ObjectKey) (*image.Client, error)
	// ListUIDs returns the UIDs of all catalogs. The content of others is deleted at the start.
	ListUIDs func(ctx context.Context) ([]types.UID, error)
	// BindAddress is the listen address for other processes. If it is empty, only this process
	// reads the catalogs.
	BindAddress string
	// OnListening is called with the address when the server listens. It may be nil.
	OnListening func(net.Addr)
	// Clock is the clock. If it is nil, the real time is used.
	Clock clock.PassiveClock
}

// Catalog is what the server needs to know of a CatalogSource.
type Catalog struct {
	types.NamespacedName

	UID types.UID
	// Service is the name of its Service.
	Service string
	// Image is the reference of its image.
	Image string
	// Folder is the folder of the catalog in the image. If it is empty, a label of the image names it.
	Folder string
	// Secrets are the names of the Secrets with registry credentials, in its namespace.
	Secrets []string
	// PollInterval is the interval at which the image is requested from its registry again. Zero means never.
	PollInterval time.Duration
	// LastPoll is when the image was requested before the program has started, or when the catalog was created.
	LastPoll time.Time
}

// requestID identifies what is retrieved for a catalog.
func (c *Catalog) requestID() string {
	return strings.Join(append([]string{string(c.UID), c.Image, c.Folder}, c.Secrets...), "\n")
}

// State is the state of a catalog.
type State struct {
	// Since is when the content that is served was first served. It is zero if nothing is served.
	Since time.Time
	// Changed is set if the content has changed with this call.
	Changed bool
	// Polled is when the image was last requested from its registry, or zero.
	Polled time.Time
	// Err is why the latest retrieval failed. Older content may be served.
	Err error
	// RetryAfter is the time until a failed retrieval is retried, or zero.
	RetryAfter time.Duration
}

// Server serves catalogs. It is safe for concurrent use.
type Server struct {
	options    Options
	catalogs   *registry.Catalogs
	retrievals pull.Retrievals[retrieved]
	// readers limits the images that are read at the same time, and with it the memory.
	readers readerSlots

	mu     sync.Mutex
	states map[types.NamespacedName]*catalogState
}

// catalogState is what is known of a catalog.
type catalogState struct {
	catalog Catalog
	// served is the content that is served. Its Sum is empty if there is none.
	served catalogstore.Info
	since  time.Time
	polled time.Time

	err      error
	failures int
	retryAt  time.Time
}

// New returns a server without catalogs.
func New(o Options) *Server {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Server{
		options: o, catalogs: registry.NewCatalogs(slog.New(slog.DiscardHandler)), readers: make(readerSlots, 1),
		states: map[types.NamespacedName]*catalogState{},
	}
}

// OnEnd adds a function that is called with the name of a catalog when its image has been retrieved, so that
// Ensure is called again. It must neither block nor call the server.
func (s *Server) OnEnd(f func(types.NamespacedName)) {
	s.retrievals.OnEnd(func(name string) {
		namespace, name, _ := strings.Cut(name, string(types.Separator))
		f(types.NamespacedName{Namespace: namespace, Name: name})
	})
}

// Ensure serves a catalog. It retrieves the image in the background if there is no content for it, or if a poll is
// due.
func (s *Server) Ensure(ctx context.Context, c Catalog) State {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.states[c.NamespacedName]
	if st == nil || st.catalog.UID != c.UID || st.catalog.Service != c.Service {
		s.stopServing(st)
		st = &catalogState{}
		s.states[c.NamespacedName] = st
	}
	if st.catalog.requestID() != c.requestID() {
		st.err, st.failures = nil, 0 // They belong to another image.
	}

	st.catalog = c
	result, progress, err := s.retrievals.Take(c.String(), retrievalPurpose, c.requestID())
	changed, now := false, s.options.Clock.Now()
	if progress == pull.Ended {
		changed, err = s.serveResult(ctx, st, result, err)
		st.recordResult(result, err, now)
	}

	isDue := st.isPollDue(now)
	if progress != pull.Running && s.needsRetrieval(st, isDue, now) {
		s.startRetrieval(ctx, c, isDue || st.failures > 0)
	}

	return State{Since: st.since, Changed: changed, Polled: st.polled, Err: st.err, RetryAfter: st.retryAfter(now)}
}

// isPollDue reports whether the image has to be requested from its registry again.
func (st *catalogState) isPollDue(now time.Time) bool {
	last := st.polled
	if st.catalog.LastPoll.After(last) {
		last = st.catalog.LastPoll
	}
	return st.catalog.PollInterval > 0 && now.Sub(last) >= st.catalog.PollInterval
}

// recordResult records the result of a retrieval.
func (st *catalogState) recordResult(result retrieved, err error, now time.Time) {
	if !result.polled.IsZero() {
		st.polled = result.polled
	}

	st.err = err
	if err == nil {
		st.failures = 0
		return
	}
	st.failures++
	st.retryAt = now.Add(retryInterval(st.failures))
}

// Retry intervals after failed retrievals, which double. They are those of kubelet for images.
const (
	minRetryInterval = 2 * time.Second
	maxRetryInterval = 5 * time.Minute
)

// retryInterval returns the interval until a retrieval is retried that has failed a number of times.
func retryInterval(failures int) time.Duration {
	return min(minRetryInterval<<min(failures-1, 10), maxRetryInterval)
}

// retryAfter returns the time until a failed retrieval is retried, or zero.
func (st *catalogState) retryAfter(now time.Time) time.Duration {
	if st.failures == 0 {
		return 0
	}
	return max(st.retryAt.Sub(now), time.Millisecond)
}

// needsRetrieval reports whether the content of a catalog has to be retrieved now.
func (s *Server) needsRetrieval(st *catalogState, isDue bool, now time.Time) bool {
	switch {
	case st.failures > 0:
		return !now.Before(st.retryAt)
	case st.served.Sum == "" || st.served.Ref != st.catalog.Image || isDue:
		return true
	}

	_, err := s.options.Store.Stored(string(st.catalog.UID)) // Files can be deleted at any time.
	return err != nil
}

// stopServing stops serving the content of a catalog, which may be nil.
func (s *Server) stopServing(st *catalogState) {
	if st != nil {
		s.catalogs.Remove(st.catalog.Service, st.catalog.Namespace)
	}
}

// Remove removes a catalog that is not served any more, and its content. A retrieval that is still running calls the
// OnEnd functions when it has ended: the catalog must be removed again then.
func (s *Server) Remove(name types.NamespacedName) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	isIdle := s.retrievals.Cancel(name.String())
	st := s.states[name]
	s.stopServing(st)
	if st == nil || !isIdle {
		return nil
	}

	delete(s.states, name)
	return s.deleteContent(string(st.catalog.UID))
}

// deleteContent deletes the content and the index of a catalog.
func (s *Server) deleteContent(uid string) error {
	return errors.Join(s.options.Store.Delete(uid), os.RemoveAll(s.indexDir(uid)))
}

func (s *Server) indexDir(uid string) string { return filepath.Join(s.options.IndexDir, uid) }

// Dialer returns a function that connects to a catalog within the process. It fails while the catalog has no
// content.
func (s *Server) Dialer(name types.NamespacedName) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		s.mu.Lock()
		st := s.states[name]
		var err error
		switch {
		case st == nil || (st.served.Sum == "" && st.err == nil):
			err = pull.ErrRetrieving
		case st.served.Sum == "":
			err = st.err
		}

		s.mu.Unlock()
		if err != nil {
			return nil, err
		}
		return s.catalogs.Dial(ctx)
	}
}

// Start serves other processes until the context ends, and removes the content of catalogs that were deleted
// while the program did not run.
func (s *Server) Start(ctx context.Context) error {
	defer s.catalogs.Stop()
	if err := s.removeOrphans(ctx); err != nil {
		return fmt.Errorf("removing the content of deleted catalogs: %w", err)
	}

	if s.options.BindAddress != "" {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.options.BindAddress)
		if err != nil {
			return fmt.Errorf("serving catalogs: %w", err)
		}
		if s.options.OnListening != nil {
			s.options.OnListening(listener.Addr())
		}
		go func() { _ = s.catalogs.Serve(listener) }() // It ends when the server is stopped.
	}

	return s.retrievals.Runnable().Start(ctx)
}

// removeOrphans deletes the content of catalogs that do not exist.
func (s *Server) removeOrphans(ctx context.Context) error {
	stored := s.options.Store.Names() // These are listed first, so that new catalogs are not among them.
	if len(stored) == 0 {
		return nil
	}

	uids, err := s.options.ListUIDs(ctx)
	if err != nil {
		return err
	}
	for _, name := range stored {
		if slices.Contains(uids, types.UID(name)) {
			continue
		}
		if err := s.deleteContent(name); err != nil {
			return err
		}
	}

	return nil
}
