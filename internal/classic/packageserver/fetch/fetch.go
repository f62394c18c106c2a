package fetch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	operatorsv1alpha1 "github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	packagesv1 "github.com/mainstay-dev/mainstay/api/packages/v1"
	"github.com/mainstay-dev/mainstay/internal/classic/packageserver/index"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/registrypb"
)

// Limits limit what is read from one catalog. The largest public catalogs have 500 packages,
// 3,000 channels and 20,000 channel entries. A zero field means its default.
type Limits struct {
	// Packages limits the packages of a catalog. Default 10,000.
	Packages int
	// Channels limits the channels of a package. Default 1,000.
	Channels int
	// Entries limits the entries of all channels together. Default 500,000, which takes about
	// 100 MB while the catalog is read.
	Entries int
	// Bytes limits the memory of all packages. Default 128 MiB.
	Bytes int
}

// Options configure the reading of a catalog. The zero value is ready for use.
type Options struct {
	// Limits limit what is read.
	Limits Limits
	// OnResponse is called for each response of the catalog, from several goroutines. It may be nil.
	OnResponse func()
	// Log receives what is left out, and why.
	Log logr.Logger
}

func (l Limits) withDefaults() Limits {
	return Limits{
		Packages: cmp.Or(l.Packages, 10_000), Channels: cmp.Or(l.Channels, 1_000),
		Entries: cmp.Or(l.Entries, 500_000), Bytes: cmp.Or(l.Bytes, 128<<20),
	}
}

// readWorkers is how many packages are read in parallel: one is packed while the next is requested from the catalog. Each
// worker holds one bundle with its manifests.
const readWorkers = 2

// ReadPackages reads all packages of a catalog. It leaves out channels whose head cannot be read
// and packages without channels, and logs why. It returns an error if the catalog becomes
// unavailable or exceeds a limit.
func ReadPackages(ctx context.Context, client registrypb.RegistryClient, options Options) ([]*index.Package, error) {
	options.Limits = options.Limits.withDefaults()
	if options.OnResponse == nil {
		options.OnResponse = func() {}
	}

	names, err := listPackageNames(ctx, client, options)
	if err != nil {
		return nil, err
	}

	entries, err := listChannelEntries(ctx, client, options)
	if err != nil {
		return nil, err
	}

	reading, ctx := errgroup.WithContext(ctx)
	pending := make(chan string)
	reading.Go(func() error { return sendNames(ctx, names, pending) })
	read := &packageList{maxBytes: options.Limits.Bytes}
	packer := index.NewPacker()
	for range min(readWorkers, len(names)) {
		reading.Go(func() error {
			r := packageReader{Options: options, client: client, packer: packer, entries: entries}
			for name := range pending {
				p, err := r.readAndPackPackage(ctx, name)
				if err == nil && p != nil {
					err = read.add(p)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}

	if err := reading.Wait(); err != nil {
		return nil, err
	}

	return read.packages, nil
}

// sendNames sends names to a channel and closes it. It returns early when the context ends.
func sendNames(ctx context.Context, names []string, to chan<- string) error {
	defer close(to)
	for _, name := range names {
		select {
		case to <- name:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// packageList collects packages up to a total size. It is safe for concurrent use.
type packageList struct {
	maxBytes int

	mu       sync.Mutex
	packages []*index.Package
	bytes    int
}

// add adds a package. It returns an error when the packages together are too large.
func (l *packageList) add(p *index.Package) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.packages = append(l.packages, p)
	if l.bytes += p.Bytes(); l.bytes > l.maxBytes {
		return fmt.Errorf("the packages of the catalog take more than %d bytes", l.maxBytes)
	}
	return nil
}

// listPackageNames returns the sorted names of the packages, without duplicates.
func listPackageNames(ctx context.Context, client registrypb.RegistryClient, options Options) ([]string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // Ends a stream that is left early.
	stream, err := client.ListPackages(ctx, &registrypb.ListPackageRequest{})
	if err != nil {
		return nil, fmt.Errorf("listing the packages of the catalog: %w", err)
	}

	var names []string
	for {
		p, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("listing the packages of the catalog: %w", err)
		}

		options.OnResponse()
		if p.GetName() == "" {
			continue
		}

		names = append(names, strings.Clone(p.GetName()))
		if len(names) > options.Limits.Packages {
			return nil, fmt.Errorf("the catalog has more than %d packages", options.Limits.Packages)
		}
	}

	slices.Sort(names)
	return slices.Compact(names), nil
}

// channelKey identifies a channel of a package.
type channelKey struct{ pkg, channel string }

// listChannelEntries returns the entries of every channel, unsorted. Deprecated bundles are
// left out.
func listChannelEntries(ctx context.Context, client registrypb.RegistryClient, options Options) (map[channelKey][]packagesv1.ChannelEntry, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // Ends a stream that is left early.
	stream, err := client.ListBundles(ctx, &registrypb.ListBundlesRequest{})
	if err != nil {
		return nil, fmt.Errorf("listing the bundles of the catalog: %w", err)
	}

	entries := map[channelKey][]packagesv1.ChannelEntry{}
	for n := 0; ; n++ {
		b, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return entries, nil
		}
		if err != nil {
			return nil, fmt.Errorf("listing the bundles of the catalog: %w", err)
		}

		options.OnResponse()
		if n >= options.Limits.Entries {
			return nil, fmt.Errorf("the channels of the catalog have more than %d entries", options.Limits.Entries)
		}
		if slices.ContainsFunc(b.GetProperties(), func(p *registrypb.Property) bool { return p.GetType() == propertyDeprecated }) {
			continue
		}

		at := channelKey{b.GetPackageName(), b.GetChannelName()}
		entries[at] = append(entries[at], packagesv1.ChannelEntry{
			Name: b.GetCsvName(), Version: b.GetVersion(), Deprecation: convertDeprecation(b.GetDeprecation()),
		})
	}
}

// propertyDeprecated marks a bundle that is in the catalog only so that it can be updated.
const propertyDeprecated = "olm.deprecated"

func convertDeprecation(d *registrypb.Deprecation) *packagesv1.Deprecation {
	if d == nil {
		return nil
	}
	return &packagesv1.Deprecation{Message: d.GetMessage()}
}

// packageReader reads packages one by one.
type packageReader struct {
	Options

	client  registrypb.RegistryClient
	packer  *index.Packer
	entries map[channelKey][]packagesv1.ChannelEntry // shared and read-only
}

// readAndPackPackage reads a package. It returns nil if the package has to be left out.
func (r *packageReader) readAndPackPackage(ctx context.Context, name string) (*index.Package, error) {
	pkg, err := r.client.GetPackage(ctx, &registrypb.GetPackageRequest{Name: name})
	r.OnResponse()
	switch {
	case err != nil && isCatalogUnavailable(ctx, err):
		return nil, fmt.Errorf("reading package %q: %w", name, err)
	case err != nil:
		r.Log.Info("Leaving out package: the catalog returned an error", "package", name, "error", err.Error())
		return nil, nil // The other packages are still usable.
	case len(pkg.GetChannels()) > r.Limits.Channels:
		r.Log.Info("Leaving out package: too many channels", "package", name, "channels", len(pkg.GetChannels()), "limit", r.Limits.Channels)
		return nil, nil
	}

	heads, err := r.readChannelHeads(ctx, name, pkg.GetChannels())
	if err != nil || len(heads) == 0 {
		return nil, err
	}

	served := assemblePackage(pkg, heads)
	p, err := r.packer.Pack(served.status, served.labels, served.icon)
	if err != nil {
		r.Log.Info("Leaving out package", "package", name, "error", err.Error())
		return nil, nil
	}

	return p, nil
}

// readChannelHeads reads the heads of channels. A bundle that is the head of several channels
// is read once.
func (r *packageReader) readChannelHeads(ctx context.Context, name string, channels []*registrypb.Channel) ([]channelHead, error) {
	type result struct {
		head *bundleCSV
		err  error
	}
	known := map[string]result{}
	var heads []channelHead
	for _, c := range channels {
		found, ok := known[c.GetCsvName()]
		if !ok {
			bundle, err := r.client.GetBundle(ctx, &registrypb.GetBundleRequest{PkgName: name, ChannelName: c.GetName(), CsvName: c.GetCsvName()})
			r.OnResponse()
			if err != nil && isCatalogUnavailable(ctx, err) {
				return nil, fmt.Errorf("reading bundle %q of package %q: %w", c.GetCsvName(), name, err)
			}

			found.err = err
			if err == nil {
				found.head, found.err = parseCSV(bundle.GetCsvJson())
			}

			known[c.GetCsvName()] = found
		}
		if found.err != nil {
			r.Log.Info("Leaving out channel: its head cannot be read",
				"package", name, "channel", c.GetName(), "bundle", c.GetCsvName(), "error", found.err.Error())
			continue
		}
		heads = append(heads, channelHead{channel: c, csv: found.head, entries: r.entries[channelKey{name, c.GetName()}]})
	}

	return heads, nil
}

// isCatalogUnavailable reports whether a call failed because the catalog is unavailable, not
// because of what was requested.
func isCatalogUnavailable(ctx context.Context, err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded:
		return true
	}
	return ctx.Err() != nil
}

// channelHead is a channel with the CSV at its head.
type channelHead struct {
	channel *registrypb.Channel
	csv     *bundleCSV
	entries []packagesv1.ChannelEntry
}

// servedPackage is the content of a PackageManifest.
type servedPackage struct {
	status *packagesv1.PackageStatus
	labels map[string]string
	icon   index.Icon
}

// assemblePackage returns the content of a PackageManifest with at least one channel. It sorts
// heads.
func assemblePackage(p *registrypb.Package, heads []channelHead) servedPackage {
	slices.SortFunc(heads, func(a, b channelHead) int { return strings.Compare(a.channel.GetName(), b.channel.GetName()) })
	s := &packagesv1.PackageStatus{
		PackageName: p.GetName(), Deprecation: convertDeprecation(p.GetDeprecation()), DefaultChannel: p.GetDefaultChannelName(),
	}
	for _, h := range heads {
		s.Channels = append(s.Channels, packagesv1.PackageChannel{
			Name: h.channel.GetName(), CurrentCSV: h.currentCSVName(), CurrentCSVDesc: h.csv.newDescription(),
			Deprecation: convertDeprecation(h.channel.GetDeprecation()), Entries: sortNewestFirst(h.entries),
		})
	}

	// Provider, labels and icon come from the head of the default channel. If there is no
	// default channel, or if it was left out, the first channel is used.
	def := slices.IndexFunc(heads, func(h channelHead) bool { return h.channel.GetName() == s.DefaultChannel })
	if def < 0 {
		def = 0
		if s.DefaultChannel != "" {
			s.DefaultChannel = heads[0].channel.GetName()
		}
	}

	head := heads[def]
	s.Provider = operatorsv1alpha1.AppLink{Name: head.csv.Spec.Provider.Name, URL: head.csv.Spec.Provider.URL}
	icon := head.csv.decodeIcon()
	icon.ETag = index.ETag(s.PackageName, head.channel.GetName(), head.currentCSVName())

	return servedPackage{status: s, labels: head.csv.packageLabels(), icon: icon}
}

// currentCSVName returns the name of the CSV at the head.
func (h channelHead) currentCSVName() string {
	if h.csv.Metadata.Name != "" {
		return h.csv.Metadata.Name
	}
	return h.channel.GetCsvName()
}
