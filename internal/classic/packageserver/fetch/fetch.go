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

// Limits bound what is taken from one catalog. The largest catalogs of the field have 500 packages,
// 3,000 channels and 20,000 entries of channels. A zero field means its default.
type Limits struct {
	// Packages is how many a catalog may have. Default 10,000.
	Packages int
	// Channels is how many a package may have. Default 1,000.
	Channels int
	// Entries is how many all channels may have together. Default 500,000: about 100 MB while they
	// are read.
	Entries int
	// Bytes is how much memory all packages may take. Default 128 MiB.
	Bytes int
}

func (l Limits) withDefaults() Limits {
	return Limits{
		Packages: cmp.Or(l.Packages, 10_000), Channels: cmp.Or(l.Channels, 1_000),
		Entries: cmp.Or(l.Entries, 500_000), Bytes: cmp.Or(l.Bytes, 128<<20),
	}
}

// workers read packages at the same time. Each holds one bundle with its manifests.
const workers = 4

// Packages reads all packages of a catalog. A channel whose head cannot be read is left out, and so is
// a package without channels; the log is told why. It fails when the catalog cannot be reached any
// more, or is too large.
func Packages(ctx context.Context, client registrypb.RegistryClient, limits Limits, log logr.Logger) ([]*index.Package, error) {
	limits = limits.withDefaults()
	names, err := packageNames(ctx, client, limits)
	if err != nil {
		return nil, err
	}

	entries, err := channelEntries(ctx, client, limits)
	if err != nil {
		return nil, err
	}

	reading, ctx := errgroup.WithContext(ctx)
	pending := make(chan string)
	reading.Go(func() error {
		defer close(pending)
		for _, name := range names {
			select {
			case pending <- name:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})

	var (
		mu    sync.Mutex
		read  []*index.Package
		bytes int
	)
	for range min(workers, len(names)) {
		reading.Go(func() error {
			r := reader{client: client, limits: limits, packer: index.NewPacker(), log: log, entries: entries}
			for name := range pending {
				p, err := r.read(ctx, name)
				if err != nil {
					return err
				}
				if p == nil {
					continue
				}

				mu.Lock()
				read = append(read, p)
				bytes += p.Bytes()
				over := bytes > limits.Bytes
				mu.Unlock()
				if over {
					return fmt.Errorf("the packages of the catalog take more than %d bytes", limits.Bytes)
				}
			}
			return nil
		})
	}

	if err := reading.Wait(); err != nil {
		return nil, err
	}

	return read, nil
}

// packageNames lists the packages, each once.
func packageNames(ctx context.Context, client registrypb.RegistryClient, limits Limits) ([]string, error) {
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
		if p.GetName() == "" {
			continue
		}

		names = append(names, strings.Clone(p.GetName()))
		if len(names) > limits.Packages {
			return nil, fmt.Errorf("the catalog has more than %d packages", limits.Packages)
		}
	}

	slices.Sort(names)
	return slices.Compact(names), nil
}

// place is a channel of a package.
type place struct{ pkg, channel string }

// channelEntries lists the versions of every channel, in no order.
func channelEntries(ctx context.Context, client registrypb.RegistryClient, limits Limits) (map[place][]packagesv1.ChannelEntry, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // Ends a stream that is left early.
	stream, err := client.ListBundles(ctx, &registrypb.ListBundlesRequest{})
	if err != nil {
		return nil, fmt.Errorf("listing the bundles of the catalog: %w", err)
	}

	entries := map[place][]packagesv1.ChannelEntry{}
	for n := 0; ; n++ {
		b, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return entries, nil
		}
		if err != nil {
			return nil, fmt.Errorf("listing the bundles of the catalog: %w", err)
		}
		if n >= limits.Entries {
			return nil, fmt.Errorf("the channels of the catalog have more than %d entries", limits.Entries)
		}
		if slices.ContainsFunc(b.GetProperties(), func(p *registrypb.Property) bool { return p.GetType() == propertyDeprecated }) {
			continue
		}

		at := place{b.GetPackageName(), b.GetChannelName()}
		entries[at] = append(entries[at], packagesv1.ChannelEntry{
			Name: b.GetCsvName(), Version: b.GetVersion(), Deprecation: deprecation(b.GetDeprecation()),
		})
	}
}

// propertyDeprecated marks a bundle that the catalog has only so that it can be updated from.
const propertyDeprecated = "olm.deprecated"

func deprecation(d *registrypb.Deprecation) *packagesv1.Deprecation {
	if d == nil {
		return nil
	}
	return &packagesv1.Deprecation{Message: d.GetMessage()}
}

// reader reads packages, one after the other.
type reader struct {
	client  registrypb.RegistryClient
	limits  Limits
	packer  *index.Packer
	log     logr.Logger
	entries map[place][]packagesv1.ChannelEntry // shared, and not written any more
}

// read reads a package. It is nil when none of its channels can be served.
func (r *reader) read(ctx context.Context, name string) (*index.Package, error) {
	answer, err := r.client.GetPackage(ctx, &registrypb.GetPackageRequest{Name: name})
	switch {
	case err != nil && gone(ctx, err):
		return nil, fmt.Errorf("reading package %q: %w", name, err)
	case err != nil:
		r.log.Info("A package is left out: the catalog does not give it", "package", name, "error", err.Error())
		return nil, nil // Without the package the catalog is still of use.
	case len(answer.GetChannels()) > r.limits.Channels:
		r.log.Info("A package is left out: it has too many channels", "package", name, "channels", len(answer.GetChannels()), "limit", r.limits.Channels)
		return nil, nil
	}

	heads, err := r.heads(ctx, name, answer.GetChannels())
	if err != nil || len(heads) == 0 {
		return nil, err
	}

	made := assemble(answer, heads)
	p, err := r.packer.Pack(made.status, made.labels, made.icon)
	if err != nil {
		r.log.Info("A package is left out", "package", name, "error", err.Error())
		return nil, nil
	}

	return p, nil
}

// heads reads the heads of channels: of channels that have the same one, once.
func (r *reader) heads(ctx context.Context, name string, channels []*registrypb.Channel) ([]channelHead, error) {
	type result struct {
		head *csv
		err  error
	}
	known := map[string]result{}
	var heads []channelHead
	for _, c := range channels {
		found, ok := known[c.GetCsvName()]
		if !ok {
			bundle, err := r.client.GetBundle(ctx, &registrypb.GetBundleRequest{PkgName: name, ChannelName: c.GetName(), CsvName: c.GetCsvName()})
			if err != nil && gone(ctx, err) {
				return nil, fmt.Errorf("reading bundle %q of package %q: %w", c.GetCsvName(), name, err)
			}

			found.err = err
			if err == nil {
				found.head, found.err = parse(bundle.GetCsvJson())
			}

			known[c.GetCsvName()] = found
		}
		if found.err != nil {
			r.log.Info("A channel is left out: its head cannot be read",
				"package", name, "channel", c.GetName(), "bundle", c.GetCsvName(), "error", found.err.Error())
			continue
		}
		heads = append(heads, channelHead{channel: c, csv: found.head, entries: r.entries[place{name, c.GetName()}]})
	}

	return heads, nil
}

// gone reports whether a call failed because the whole catalog cannot be read now, and not only what was
// asked for.
func gone(ctx context.Context, err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded:
		return true
	}
	return ctx.Err() != nil
}

// channelHead is a channel with what is at its head.
type channelHead struct {
	channel *registrypb.Channel
	csv     *csv
	entries []packagesv1.ChannelEntry
}

// made is what becomes of a package.
type made struct {
	status *packagesv1.PackageStatus
	labels map[string]string
	icon   index.Icon
}

// assemble makes what is served of a package that has at least one channel.
func assemble(p *registrypb.Package, heads []channelHead) made {
	slices.SortFunc(heads, func(a, b channelHead) int { return strings.Compare(a.channel.GetName(), b.channel.GetName()) })
	s := &packagesv1.PackageStatus{
		PackageName: p.GetName(), Deprecation: deprecation(p.GetDeprecation()), DefaultChannel: p.GetDefaultChannelName(),
	}
	for _, h := range heads {
		s.Channels = append(s.Channels, packagesv1.PackageChannel{
			Name: h.channel.GetName(), CurrentCSV: h.name(), CurrentCSVDesc: h.csv.description(),
			Deprecation: deprecation(h.channel.GetDeprecation()), Entries: newestFirst(h.entries),
		})
	}

	// What the package as a whole says of itself is what the head of its default channel says: of the
	// first channel when there is no default, or when it was left out.
	def := slices.IndexFunc(heads, func(h channelHead) bool { return h.channel.GetName() == s.DefaultChannel })
	if def < 0 {
		def = 0
		if s.DefaultChannel != "" {
			s.DefaultChannel = heads[0].channel.GetName()
		}
	}

	head := heads[def]
	s.Provider = operatorsv1alpha1.AppLink{Name: head.csv.Spec.Provider.Name, URL: head.csv.Spec.Provider.URL}
	icon := head.csv.icon()
	icon.ETag = index.ETag(s.PackageName, head.channel.GetName(), head.name())

	return made{status: s, labels: head.csv.labels(), icon: icon}
}

// name is that of the ClusterServiceVersion at the head.
func (h channelHead) name() string {
	if h.csv.Metadata.Name != "" {
		return h.csv.Metadata.Name
	}
	return h.channel.GetCsvName()
}
