package registry

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"google.golang.org/grpc"

	"github.com/mainstay-dev/mainstay/internal/classic/registry/content"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/registrypb"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// registryService answers the calls of api.Registry. If something is not found it returns an
// error with status Unknown, as clients expect. Where upstream opm answers in random order or
// picks any of several results, this service sorts them and picks the first.
type registryService struct {
	registrypb.UnimplementedRegistryServer

	content *content.Content
}

func (s *registryService) ListPackages(_ *registrypb.ListPackageRequest, stream grpc.ServerStreamingServer[registrypb.PackageName]) error {
	for p := range s.content.Packages() {
		if err := stream.Send(&registrypb.PackageName{Name: p.Name}); err != nil {
			return err
		}
	}
	return nil
}

func (s *registryService) GetPackage(_ context.Context, request *registrypb.GetPackageRequest) (*registrypb.Package, error) {
	p := s.content.Package(request.GetName())
	if p == nil {
		return nil, fmt.Errorf("package %q not found", request.GetName())
	}

	answer := &registrypb.Package{Name: p.Name, DefaultChannelName: p.DefaultChannel, Deprecation: newDeprecation(p.Deprecation)}
	for i := range p.Channels {
		c := &p.Channels[i]
		channel := &registrypb.Channel{Name: c.Name, Deprecation: newDeprecation(c.Deprecation)}
		if head := c.Head(); head != nil {
			channel.CsvName = head.Name
		}
		answer.Channels = append(answer.Channels, channel)
	}

	return answer, nil
}

// newDeprecation returns the protocol's form of a deprecation message, or nil if it is empty.
func newDeprecation(message string) *registrypb.Deprecation {
	if message == "" {
		return nil
	}
	return &registrypb.Deprecation{Message: message}
}

func (s *registryService) GetBundle(_ context.Context, request *registrypb.GetBundleRequest) (*registrypb.Bundle, error) {
	return s.findChannelBundle(request.GetPkgName(), request.GetChannelName(), func(*content.Channel) string { return request.GetCsvName() })
}

func (s *registryService) GetBundleForChannel(_ context.Context, request *registrypb.GetBundleInChannelRequest) (*registrypb.Bundle, error) {
	return s.findChannelBundle(request.GetPkgName(), request.GetChannelName(), func(c *content.Channel) string {
		if head := c.Head(); head != nil {
			return head.Name
		}
		return ""
	})
}

// findChannelBundle returns a bundle of a channel without its upgrade edges. name selects the
// bundle.
func (s *registryService) findChannelBundle(pkg, channel string, name func(*content.Channel) string) (*registrypb.Bundle, error) {
	p := s.content.Package(pkg)
	if p == nil {
		return nil, fmt.Errorf("package %q not found", pkg)
	}

	c := p.Channel(channel)
	if c == nil {
		return nil, fmt.Errorf("package %q, channel %q not found", pkg, channel)
	}

	bundleName := name(c)
	e := c.Entry(bundleName)
	if e == nil {
		return nil, fmt.Errorf("package %q, channel %q, bundle %q not found", pkg, channel, bundleName)
	}

	return s.readBundleWithoutEdges(content.Place{Package: p, Channel: c, Entry: e})
}

// readBundleWithoutEdges reads a bundle without the fields replaces and skips. The calls that
// use it have never returned them.
func (s *registryService) readBundleWithoutEdges(place content.Place) (*registrypb.Bundle, error) {
	b, err := s.content.Bundle(place)
	if err != nil {
		return nil, err
	}
	b.Replaces, b.Skips = "", nil
	return b, nil
}

func (s *registryService) GetBundleThatReplaces(_ context.Context, request *registrypb.GetReplacementRequest) (*registrypb.Bundle, error) {
	p := s.content.Package(request.GetPkgName())
	if p == nil {
		return nil, fmt.Errorf("package %s not found", request.GetPkgName())
	}

	c := p.Channel(request.GetChannelName())
	if c == nil {
		return nil, fmt.Errorf("package %q, channel %q not found", p.Name, request.GetChannelName())
	}

	e := findReplacement(c, request.GetCsvName())
	if e == nil {
		return nil, fmt.Errorf("no entry found for package %q, channel %q", p.Name, c.Name)
	}

	return s.readBundleWithoutEdges(content.Place{Package: p, Channel: c, Entry: e})
}

// findReplacement returns the first entry of a channel that replaces or skips a bundle, or nil.
func findReplacement(c *content.Channel, name string) *content.Entry {
	i := slices.IndexFunc(c.Entries, func(e content.Entry) bool { return e.Updates(name) })
	if i < 0 {
		return nil
	}
	return &c.Entries[i]
}

func (s *registryService) GetChannelEntriesThatReplace(request *registrypb.GetAllReplacementsRequest, stream grpc.ServerStreamingServer[registrypb.ChannelEntry]) error {
	name := request.GetCsvName()
	found := false
	for place := range s.content.Places() {
		if !place.Entry.Updates(name) {
			continue
		}
		found = true
		if err := stream.Send(newChannelEntry(place, place.Entry.Replaces)); err != nil {
			return err
		}
	}

	if !found {
		return fmt.Errorf("no channel entries found that replace %s", name)
	}

	return nil
}

// newChannelEntry returns the protocol's message for an entry.
func newChannelEntry(place content.Place, replaces string) *registrypb.ChannelEntry {
	return &registrypb.ChannelEntry{
		PackageName: place.Package.Name, ChannelName: place.Channel.Name, BundleName: place.Entry.Name, Replaces: replaces,
	}
}

func (s *registryService) GetChannelEntriesThatProvide(request *registrypb.GetAllProvidersRequest, stream grpc.ServerStreamingServer[registrypb.ChannelEntry]) error {
	return sendProviderEdges(request, s.listProviderEdges(request), stream)
}

func (s *registryService) GetLatestChannelEntriesThatProvide(request *registrypb.GetLatestProvidersRequest, stream grpc.ServerStreamingServer[registrypb.ChannelEntry]) error {
	return sendProviderEdges(request, s.listLatestProviderEdges(request), stream)
}

// apiRequest is a request for the providers of an API. The plural name is not considered.
type apiRequest interface {
	GetGroup() string
	GetVersion() string
	GetKind() string
}

// upgradeEdge is an entry and one bundle that it updates.
type upgradeEdge struct {
	content.Place
	from string
}

// listProviderEdges yields the edges of all entries whose bundle provides an API: one for the
// bundle that the entry replaces, even if that is empty, and one for each that it skips.
func (s *registryService) listProviderEdges(request apiRequest) iter.Seq[upgradeEdge] {
	return func(yield func(upgradeEdge) bool) {
		for place := range s.content.Providers(requestedGVK(request)) {
			if !yieldUpgradeEdges(place, func(string) bool { return true }, yield) {
				return
			}
		}
	}
}

// listLatestProviderEdges yields the edges of the channel heads that provide an API. Skipped
// bundles that are not in the channel are left out.
func (s *registryService) listLatestProviderEdges(request apiRequest) iter.Seq[upgradeEdge] {
	return func(yield func(upgradeEdge) bool) {
		for place := range s.content.Providers(requestedGVK(request)) {
			if place.Entry != place.Channel.Head() {
				continue
			}
			present := func(skip string) bool { return place.Channel.Entry(skip) != nil }
			if !yieldUpgradeEdges(place, present, yield) {
				return
			}
		}
	}
}

// yieldUpgradeEdges yields the edges of an entry. Of the skipped bundles it yields those that
// includes accepts. It reports whether the iteration continues.
func yieldUpgradeEdges(place content.Place, includes func(skip string) bool, yield func(upgradeEdge) bool) bool {
	if !yield(upgradeEdge{place, place.Entry.Replaces}) {
		return false
	}

	for _, skip := range place.Entry.Skips {
		if skip != place.Entry.Replaces && includes(skip) && !yield(upgradeEdge{place, skip}) {
			return false
		}
	}
	return true
}

// sendProviderEdges sends edges, and returns an error if there are none.
func sendProviderEdges(request apiRequest, found iter.Seq[upgradeEdge], stream grpc.ServerStreamingServer[registrypb.ChannelEntry]) error {
	none := true
	for e := range found {
		none = false
		if err := stream.Send(newChannelEntry(e.Place, e.from)); err != nil {
			return err
		}
	}

	if none {
		return fmt.Errorf("no channel entries found that provide %s", describeRequestedAPI(request))
	}
	return nil
}

func (s *registryService) GetDefaultBundleThatProvides(_ context.Context, request *registrypb.GetDefaultProviderRequest) (*registrypb.Bundle, error) {
	none := true
	for e := range s.listLatestProviderEdges(request) {
		none = false
		if e.Channel.Name == e.Package.DefaultChannel {
			return s.readBundleWithoutEdges(e.Place)
		}
	}

	if none {
		return nil, fmt.Errorf("no channel entries found that provide %s", describeRequestedAPI(request))
	}
	return nil, fmt.Errorf("no entry found that provides %s", describeRequestedAPI(request))
}

// requestedGVK returns the GVK of a request.
func requestedGVK(r apiRequest) fbc.GVK {
	return fbc.GVK{Group: r.GetGroup(), Version: r.GetVersion(), Kind: r.GetKind()}
}

// describeRequestedAPI returns the API of a request for error messages.
func describeRequestedAPI(r apiRequest) string {
	return fmt.Sprintf("group:%q version:%q kind:%q", r.GetGroup(), r.GetVersion(), r.GetKind())
}

func (s *registryService) ListBundles(_ *registrypb.ListBundlesRequest, stream grpc.ServerStreamingServer[registrypb.Bundle]) error {
	for place := range s.content.PlacesByChannel() {
		read := s.content.Bundle
		if s.content.HasImage(place.Entry) {
			// Clients get the manifests from the image.
			read = s.content.Summary
		}

		b, err := read(place)
		if err != nil {
			return err
		}
		if err := stream.Send(b); err != nil {
			return err
		}
	}

	return nil
}
