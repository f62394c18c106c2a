// Package snapshot keeps what catalogs offer, in the form that operators are chosen from. A catalog is
// read when it is first asked for, and again once its connection was made anew or the snapshot is old;
// nothing is read in advance.
//
// It holds no manifests: those of a bundle that its catalog has itself are read when they are needed.
package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/mainstay-dev/mainstay/internal/classic/registry/registrypb"
	"github.com/mainstay-dev/mainstay/internal/classic/resolution"
)

const (
	// maxAge is how old a snapshot gets. What serves a catalog serves the same for as long as it runs, but
	// for servers behind an address that somebody else runs.
	maxAge = 30 * time.Minute
	// readTime bounds how long a catalog is read.
	readTime = time.Minute
	// atATime is how many catalogs are read at the same time.
	atATime = 4
	// asked is how many packages of a catalog are asked for at the same time.
	asked = 8
)

// Limits of what a catalog can make a snapshot hold. The largest catalogs of the field have some 20,000
// entries with 60 MiB of properties.
const (
	maxEntries = 200_000
	maxBytes   = 512 << 20
)

// Catalogs returns the clients of catalogs.
type Catalogs interface {
	// Client returns the client of a catalog, false when there is no connection to it.
	Client(catalog types.NamespacedName) (registrypb.RegistryClient, bool)
}

// Store keeps a snapshot of each catalog that was asked for. It is safe for use by several goroutines.
type Store struct {
	catalogs Catalogs
	clock    clock.PassiveClock
	reading  chan struct{}

	mu    sync.Mutex
	known map[types.NamespacedName]*slot
}

// slot is the place of a catalog's snapshot.
type slot struct {
	mu       sync.Mutex // held while the catalog is read
	snapshot *resolution.Snapshot
	at       time.Time

	// version counts how often what was read before became void. It is the store's.
	version int
	read    int
}

// New makes an empty store. The clock may be nil, for the real one.
func New(catalogs Catalogs, c clock.PassiveClock) *Store {
	if c == nil {
		c = clock.RealClock{}
	}
	return &Store{catalogs: catalogs, clock: c, reading: make(chan struct{}, atATime), known: map[types.NamespacedName]*slot{}}
}

// Void has a catalog be read anew when it is next asked for.
func (s *Store) Void(catalog types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.known[catalog]; k != nil {
		k.version++
	}
	snapshots.WithLabelValues(catalog.Namespace, catalog.Name).Add(0) // It is told from the first connection on.
}

// Drop forgets a catalog.
func (s *Store) Drop(catalog types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, catalog)
	snapshots.DeleteLabelValues(catalog.Namespace, catalog.Name)
}

// Get returns what a catalog offers. The snapshot is shared, and must not be changed.
func (s *Store) Get(ctx context.Context, catalog types.NamespacedName) (*resolution.Snapshot, error) {
	k := s.slot(catalog)
	k.mu.Lock()
	defer k.mu.Unlock()
	s.mu.Lock()
	version := k.version
	s.mu.Unlock()
	if k.snapshot != nil && k.read == version && s.clock.Since(k.at) < maxAge {
		return k.snapshot, nil
	}

	client, ok := s.catalogs.Client(catalog)
	if !ok {
		return nil, fmt.Errorf("no registry client established for catalogsource %s", catalog)
	}

	select {
	case s.reading <- struct{}{}:
		defer func() { <-s.reading }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}

	now := s.clock.Now()
	snapshots.WithLabelValues(catalog.Namespace, catalog.Name).Inc()
	read, err := read(ctx, catalog, client)
	if err != nil {
		return nil, fmt.Errorf("failed to list bundles: %w", err)
	}

	k.snapshot, k.at, k.read = read, now, version
	return read, nil
}

func (s *Store) slot(catalog types.NamespacedName) *slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.known[catalog]
	if k == nil {
		k = &slot{}
		s.known[catalog] = k
	}

	return k
}

// Manifests returns those of a bundle that its catalog has itself: the ClusterServiceVersion and all objects,
// each as JSON.
func (s *Store) Manifests(ctx context.Context, e *resolution.Entry) (csv string, objects []string, err error) {
	client, ok := s.catalogs.Client(e.Catalog())
	if !ok {
		return "", nil, fmt.Errorf("no registry client established for catalogsource %s", e.Catalog())
	}

	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	bundle, err := client.GetBundle(ctx, &registrypb.GetBundleRequest{PkgName: e.Package, ChannelName: e.Channel, CsvName: e.Name})
	if err != nil {
		return "", nil, fmt.Errorf("reading bundle %s from catalogsource %s: %w", e.Name, e.Catalog(), err)
	}

	return bundle.GetCsvJson(), bundle.GetObject(), nil
}

// read reads a catalog.
func read(ctx context.Context, catalog types.NamespacedName, client registrypb.RegistryClient) (*resolution.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	stream, err := client.ListBundles(ctx, &registrypb.ListBundlesRequest{})
	if err != nil {
		return nil, err
	}

	c := collector{strings: map[string]string{}, bundles: map[string]*resolution.Bundle{}}
	if err := c.collect(stream); err != nil {
		return nil, err
	}

	packages, err := describe(ctx, client, c.packages())
	if err != nil {
		return nil, err
	}

	entries := c.entries[:0]
	for _, e := range c.entries {
		if _, ok := packages[e.Package]; ok {
			entries = append(entries, e)
		}
	}

	return resolution.NewSnapshot(catalog, packages, entries), nil
}

// collect reads all bundles. One that cannot be read is left out.
func (c *collector) collect(stream grpc.ServerStreamingClient[registrypb.Bundle]) error {
	for {
		bundle, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if c.add(bundle); len(c.entries) > maxEntries || c.bytes > maxBytes {
			return fmt.Errorf("the catalog is too large: it may have %d bundles in channels, and %d bytes of properties", maxEntries, maxBytes)
		}
	}
}

// describe asks for packages. Those that cannot be described are not among the answers, but a catalog that
// stops answering is an error.
func describe(ctx context.Context, client registrypb.RegistryClient, names []string) (map[string]resolution.Package, error) {
	var mu sync.Mutex
	packages := make(map[string]resolution.Package, len(names))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(asked)
	for _, name := range names {
		group.Go(func() error {
			answer, err := client.GetPackage(ctx, &registrypb.GetPackageRequest{Name: name})
			switch status.Code(err) {
			case codes.OK:
			case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
				return err
			default:
				return nil
			}

			p := resolution.Package{
				DefaultChannel: answer.GetDefaultChannelName(), Deprecation: strings.Clone(answer.GetDeprecation().GetMessage()),
			}
			for _, channel := range answer.GetChannels() {
				if channel.GetDeprecation() == nil {
					continue
				}
				if p.DeprecatedChannels == nil {
					p.DeprecatedChannels = map[string]string{}
				}
				p.DeprecatedChannels[channel.GetName()] = channel.GetDeprecation().GetMessage()
			}

			mu.Lock()
			defer mu.Unlock()
			packages[name] = p

			return nil
		})
	}

	return packages, group.Wait()
}
