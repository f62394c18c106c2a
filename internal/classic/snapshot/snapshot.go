// Package snapshot caches the content of catalogs in the form that the resolver needs. A
// catalog is read on first use, and again after a reconnect or when its snapshot is too old.
// Nothing is read in advance.
//
// Snapshots contain no manifests. If a catalog holds the manifests of a bundle, they are read
// when needed.
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
	// maxAge is the maximum age of a snapshot. The content of a registry server does not change
	// while it runs, except for servers outside of OLM's control behind an address.
	maxAge = 30 * time.Minute
	// readTimeout limits the reading of a catalog.
	readTimeout = time.Minute
	// maxConcurrentReads is how many catalogs are read concurrently.
	maxConcurrentReads = 4
	// maxConcurrentReadsPerNamespace is how many catalogs of a namespace are read concurrently. It leaves a slot for the
	// other namespaces while all catalogs of one namespace do not answer.
	maxConcurrentReadsPerNamespace = maxConcurrentReads - 1
	// maxConcurrentRequests is how many packages of a catalog are read concurrently.
	maxConcurrentRequests = 8
)

// Limits for the size of a snapshot. The largest public catalogs have about 20,000 entries with
// 60 MiB of properties.
const (
	maxEntries = 200_000
	maxBytes   = 512 << 20
)

// Catalogs provides the clients of catalogs.
type Catalogs interface {
	// Client returns the client of a catalog. It returns false if there is no connection to it.
	Client(catalog types.NamespacedName) (registrypb.RegistryClient, bool)
}

// Store holds a snapshot of each catalog that was requested. It is safe for concurrent use.
type Store struct {
	catalogs Catalogs
	clock    clock.PassiveClock
	reads    *readSlots

	mu    sync.Mutex
	slots map[types.NamespacedName]*snapshotSlot
}

// snapshotSlot holds the snapshot of a catalog.
type snapshotSlot struct {
	mu       sync.Mutex // held while the catalog is read
	snapshot *resolution.Snapshot
	readAt   time.Time

	// version counts how often the snapshot was invalidated. The mutex of the store guards it.
	version     int
	readVersion int
}

// New returns an empty store. If the clock is nil, the real time is used.
func New(catalogs Catalogs, c clock.PassiveClock) *Store {
	if c == nil {
		c = clock.RealClock{}
	}

	registerMetrics()
	return &Store{catalogs: catalogs, clock: c, reads: newReadSlots(), slots: map[types.NamespacedName]*snapshotSlot{}}
}

// Invalidate invalidates the snapshot of a catalog, so that the next Get reads it again.
func (s *Store) Invalidate(catalog types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.slots[catalog]; k != nil {
		k.version++
	}
	snapshotsTotal.WithLabelValues(catalog.Namespace, catalog.Name).Add(0) // The metric exists from the first connection on.
}

// Remove removes the snapshot of a catalog.
func (s *Store) Remove(catalog types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.slots, catalog)
	snapshotsTotal.DeleteLabelValues(catalog.Namespace, catalog.Name)
}

// Get returns the snapshot of a catalog and reads the catalog if necessary. The snapshot is
// shared and must not be modified.
func (s *Store) Get(ctx context.Context, catalog types.NamespacedName) (*resolution.Snapshot, error) {
	k := s.slotForCatalog(catalog)
	k.mu.Lock()
	defer k.mu.Unlock()
	s.mu.Lock()
	version := k.version
	s.mu.Unlock()
	if k.snapshot != nil && k.readVersion == version && s.clock.Since(k.readAt) < maxAge {
		return k.snapshot, nil
	}

	client, ok := s.catalogs.Client(catalog)
	if !ok {
		return nil, fmt.Errorf("no registry client established for catalogsource %s", catalog)
	}

	release, err := s.reads.acquire(ctx, catalog.Namespace)
	if err != nil {
		return nil, err
	}
	defer release()

	now := s.clock.Now()
	snapshotsTotal.WithLabelValues(catalog.Namespace, catalog.Name).Inc()
	read, err := readCatalogSnapshot(ctx, catalog, client)
	if status.Code(err) == codes.Unavailable {
		// The connection was lost, for example because the pod of the catalog was replaced. The second attempt waits for the
		// next connection, and fails when it cannot be established.
		read, err = readCatalogSnapshot(ctx, catalog, client)
	}
	if err != nil {
		return nil, fmt.Errorf("failed to list bundles: %w", err)
	}

	k.snapshot, k.readAt, k.readVersion = read, now, version
	return read, nil
}

// slotForCatalog returns the slot of a catalog, which is created on first use.
func (s *Store) slotForCatalog(catalog types.NamespacedName) *snapshotSlot {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.slots[catalog]
	if k == nil {
		k = &snapshotSlot{}
		s.slots[catalog] = k
	}

	return k
}

// Manifests reads the manifests of a bundle from its catalog: the CSV and all objects, each as
// JSON.
func (s *Store) Manifests(ctx context.Context, e *resolution.Entry) (csv string, objects []string, err error) {
	client, ok := s.catalogs.Client(e.Catalog())
	if !ok {
		return "", nil, fmt.Errorf("no registry client established for catalogsource %s", e.Catalog())
	}

	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	bundle, err := client.GetBundle(ctx, &registrypb.GetBundleRequest{PkgName: e.Package, ChannelName: e.Channel, CsvName: e.Name})
	if err != nil {
		return "", nil, fmt.Errorf("reading bundle %s from catalogsource %s: %w", e.Name, e.Catalog(), err)
	}

	return bundle.GetCsvJson(), bundle.GetObject(), nil
}

// readCatalogSnapshot reads a catalog. Bundles of packages that could not be read are left out.
func readCatalogSnapshot(ctx context.Context, catalog types.NamespacedName, client registrypb.RegistryClient) (*resolution.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	stream, err := client.ListBundles(ctx, &registrypb.ListBundlesRequest{})
	if err != nil {
		return nil, err
	}

	c := entryCollector{strings: map[string]string{}, bundles: map[string]*resolution.Bundle{}}
	if err := c.readBundleStream(stream); err != nil {
		return nil, err
	}

	packages, err := readPackages(ctx, client, c.packageNames())
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

// readBundleStream reads all bundles. Invalid bundles are left out.
func (c *entryCollector) readBundleStream(stream grpc.ServerStreamingClient[registrypb.Bundle]) error {
	for {
		bundle, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if c.addBundle(bundle); len(c.entries) > maxEntries || c.totalBytes > maxBytes {
			return fmt.Errorf("the catalog is too large: the limits are %d channel entries and %d bytes of properties", maxEntries, maxBytes)
		}
	}
}

// readPackages reads packages. Packages that cannot be read are missing in the result, but it
// returns an error if the catalog becomes unavailable.
func readPackages(ctx context.Context, client registrypb.RegistryClient, names []string) (map[string]resolution.Package, error) {
	var mu sync.Mutex
	packages := make(map[string]resolution.Package, len(names))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxConcurrentRequests)
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
