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

// service answers the calls of api.Registry. What it does not find is an error of the
// status Unknown, as clients have always got it. Where the field answers in no order or
// takes any of several, this one sorts and takes the first.
type service struct {
	registrypb.UnimplementedRegistryServer

	content *content.Content
}

func (s *service) ListPackages(_ *registrypb.ListPackageRequest, stream grpc.ServerStreamingServer[registrypb.PackageName]) error {
	for p := range s.content.Packages() {
		if err := stream.Send(&registrypb.PackageName{Name: p.Name}); err != nil {
			return err
		}
	}
	return nil
}

func (s *service) GetPackage(_ context.Context, request *registrypb.GetPackageRequest) (*registrypb.Package, error) {
	p := s.content.Package(request.GetName())
	if p == nil {
		return nil, fmt.Errorf("package %q not found", request.GetName())
	}

	answer := &registrypb.Package{Name: p.Name, DefaultChannelName: p.DefaultChannel, Deprecation: deprecation(p.Deprecation)}
	for i := range p.Channels {
		c := &p.Channels[i]
		channel := &registrypb.Channel{Name: c.Name, Deprecation: deprecation(c.Deprecation)}
		if head := c.Head(); head != nil {
			channel.CsvName = head.Name
		}
		answer.Channels = append(answer.Channels, channel)
	}

	return answer, nil
}

// deprecation is nil for an empty message.
func deprecation(message string) *registrypb.Deprecation {
	if message == "" {
		return nil
	}
	return &registrypb.Deprecation{Message: message}
}

func (s *service) GetBundle(_ context.Context, request *registrypb.GetBundleRequest) (*registrypb.Bundle, error) {
	return s.bundle(request.GetPkgName(), request.GetChannelName(), func(*content.Channel) string { return request.GetCsvName() })
}

func (s *service) GetBundleForChannel(_ context.Context, request *registrypb.GetBundleInChannelRequest) (*registrypb.Bundle, error) {
	return s.bundle(request.GetPkgName(), request.GetChannelName(), func(c *content.Channel) string {
		if head := c.Head(); head != nil {
			return head.Name
		}
		return ""
	})
}

// bundle returns a bundle of a channel without its edges.
func (s *service) bundle(pkg, channel string, name func(*content.Channel) string) (*registrypb.Bundle, error) {
	p := s.content.Package(pkg)
	if p == nil {
		return nil, fmt.Errorf("package %q not found", pkg)
	}

	c := p.Channel(channel)
	if c == nil {
		return nil, fmt.Errorf("package %q, channel %q not found", pkg, channel)
	}

	wanted := name(c)
	e := c.Entry(wanted)
	if e == nil {
		return nil, fmt.Errorf("package %q, channel %q, bundle %q not found", pkg, channel, wanted)
	}

	return s.withoutEdges(content.Place{Package: p, Channel: c, Entry: e})
}

// withoutEdges returns a bundle without what it replaces and skips: clients of these calls
// have never been told.
func (s *service) withoutEdges(place content.Place) (*registrypb.Bundle, error) {
	b, err := s.content.Bundle(place)
	if err != nil {
		return nil, err
	}
	b.Replaces, b.Skips = "", nil
	return b, nil
}

func (s *service) GetBundleThatReplaces(_ context.Context, request *registrypb.GetReplacementRequest) (*registrypb.Bundle, error) {
	p := s.content.Package(request.GetPkgName())
	if p == nil {
		return nil, fmt.Errorf("package %s not found", request.GetPkgName())
	}

	c := p.Channel(request.GetChannelName())
	if c == nil {
		return nil, fmt.Errorf("package %q, channel %q not found", p.Name, request.GetChannelName())
	}

	e := replacement(c, request.GetCsvName())
	if e == nil {
		return nil, fmt.Errorf("no entry found for package %q, channel %q", p.Name, c.Name)
	}

	return s.withoutEdges(content.Place{Package: p, Channel: c, Entry: e})
}

// replacement returns the first entry of a channel that replaces or skips a bundle, nil when
// there is none.
func replacement(c *content.Channel, name string) *content.Entry {
	i := slices.IndexFunc(c.Entries, func(e content.Entry) bool { return e.Updates(name) })
	if i < 0 {
		return nil
	}
	return &c.Entries[i]
}

func (s *service) GetChannelEntriesThatReplace(request *registrypb.GetAllReplacementsRequest, stream grpc.ServerStreamingServer[registrypb.ChannelEntry]) error {
	name := request.GetCsvName()
	found := false
	for place := range s.content.Places() {
		if !place.Entry.Updates(name) {
			continue
		}
		found = true
		if err := stream.Send(channelEntry(place, place.Entry.Replaces)); err != nil {
			return err
		}
	}

	if !found {
		return fmt.Errorf("no channel entries found that replace %s", name)
	}

	return nil
}

func channelEntry(place content.Place, replaces string) *registrypb.ChannelEntry {
	return &registrypb.ChannelEntry{
		PackageName: place.Package.Name, ChannelName: place.Channel.Name, BundleName: place.Entry.Name, Replaces: replaces,
	}
}

func (s *service) GetChannelEntriesThatProvide(request *registrypb.GetAllProvidersRequest, stream grpc.ServerStreamingServer[registrypb.ChannelEntry]) error {
	return sendProviders(request, s.providers(request), stream)
}

func (s *service) GetLatestChannelEntriesThatProvide(request *registrypb.GetLatestProvidersRequest, stream grpc.ServerStreamingServer[registrypb.ChannelEntry]) error {
	return sendProviders(request, s.latestProviders(request), stream)
}

// apiRequest asks for those that provide an API. The plural of its name does not count.
type apiRequest interface {
	GetGroup() string
	GetVersion() string
	GetKind() string
}

// edge is an entry and one of what it is an update of.
type edge struct {
	content.Place
	from string
}

// providers yields the edges of all entries whose bundle provides an API: one to what the
// entry replaces, if it is nothing too, and one to each that it skips.
func (s *service) providers(request apiRequest) iter.Seq[edge] {
	return func(yield func(edge) bool) {
		for place := range s.content.Providers(gvk(request)) {
			if !edges(place, func(string) bool { return true }, yield) {
				return
			}
		}
	}
}

// latestProviders yields the edges of the heads of channels that provide an API: as
// providers does, but of what they skip only what is in the channel.
func (s *service) latestProviders(request apiRequest) iter.Seq[edge] {
	return func(yield func(edge) bool) {
		for place := range s.content.Providers(gvk(request)) {
			if place.Entry != place.Channel.Head() {
				continue
			}
			present := func(skip string) bool { return place.Channel.Entry(skip) != nil }
			if !edges(place, present, yield) {
				return
			}
		}
	}
}

// edges yields the edges of an entry, of those to what it skips the ones that count.
func edges(place content.Place, counts func(skip string) bool, yield func(edge) bool) bool {
	if !yield(edge{place, place.Entry.Replaces}) {
		return false
	}

	for _, skip := range place.Entry.Skips {
		if skip != place.Entry.Replaces && counts(skip) && !yield(edge{place, skip}) {
			return false
		}
	}
	return true
}

func sendProviders(request apiRequest, found iter.Seq[edge], stream grpc.ServerStreamingServer[registrypb.ChannelEntry]) error {
	none := true
	for e := range found {
		none = false
		if err := stream.Send(channelEntry(e.Place, e.from)); err != nil {
			return err
		}
	}

	if none {
		return fmt.Errorf("no channel entries found that provide %s", describe(request))
	}
	return nil
}

func (s *service) GetDefaultBundleThatProvides(_ context.Context, request *registrypb.GetDefaultProviderRequest) (*registrypb.Bundle, error) {
	none := true
	for e := range s.latestProviders(request) {
		none = false
		if e.Channel.Name == e.Package.DefaultChannel {
			return s.withoutEdges(e.Place)
		}
	}

	if none {
		return nil, fmt.Errorf("no channel entries found that provide %s", describe(request))
	}
	return nil, fmt.Errorf("no entry found that provides %s", describe(request))
}

func gvk(r apiRequest) fbc.GVK {
	return fbc.GVK{Group: r.GetGroup(), Version: r.GetVersion(), Kind: r.GetKind()}
}

func describe(r apiRequest) string {
	return fmt.Sprintf("group:%q version:%q kind:%q", r.GetGroup(), r.GetVersion(), r.GetKind())
}

func (s *service) ListBundles(_ *registrypb.ListBundlesRequest, stream grpc.ServerStreamingServer[registrypb.Bundle]) error {
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
