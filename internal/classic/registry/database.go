package registry

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	"github.com/mainstay-dev/mainstay/internal/classic/registry/content"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/registrypb"
)

// databaseService answers the calls of api.Registry for a SQLite catalog. Upstream opm answers
// them with SQL queries, which differ from registryService: errors have other texts, an empty
// name matches nothing, and the head of a channel has only its CSV.
type databaseService struct {
	registryService
}

// GetPackage returns a package and its channels.
func (s *databaseService) GetPackage(ctx context.Context, request *registrypb.GetPackageRequest) (*registrypb.Package, error) {
	if s.content.Package(request.GetName()) == nil {
		return nil, fmt.Errorf("package %s not found", request.GetName())
	}
	return s.registryService.GetPackage(ctx, request)
}

// GetBundle returns a bundle of a channel without its upgrade edges.
func (s *databaseService) GetBundle(_ context.Context, request *registrypb.GetBundleRequest) (*registrypb.Bundle, error) {
	p, c := s.findChannel(request.GetPkgName(), request.GetChannelName())
	if c == nil || c.Entry(request.GetCsvName()) == nil {
		return nil, fmt.Errorf("no entry found for %s %s %s", request.GetPkgName(), request.GetChannelName(), request.GetCsvName())
	}
	return s.readBundleWithoutEdges(content.Place{Package: p, Channel: c, Entry: c.Entry(request.GetCsvName())})
}

// GetBundleForChannel returns the name and the CSV of the head of a channel.
func (s *databaseService) GetBundleForChannel(_ context.Context, request *registrypb.GetBundleInChannelRequest) (*registrypb.Bundle, error) {
	p, c := s.findChannel(request.GetPkgName(), request.GetChannelName())
	if c == nil || c.Head() == nil {
		return nil, fmt.Errorf("no entry found for %s %s", request.GetPkgName(), request.GetChannelName())
	}

	b, err := s.content.Bundle(content.Place{Package: p, Channel: c, Entry: c.Head()})
	if err != nil {
		return nil, err
	}

	return &registrypb.Bundle{CsvName: c.Head().Name, CsvJson: b.GetCsvJson()}, nil
}

// GetBundleThatReplaces returns a bundle that replaces or skips another one.
func (s *databaseService) GetBundleThatReplaces(_ context.Context, request *registrypb.GetReplacementRequest) (*registrypb.Bundle, error) {
	p, c := s.findChannel(request.GetPkgName(), request.GetChannelName())
	if c == nil || request.GetCsvName() == "" || findReplacement(c, request.GetCsvName()) == nil {
		return nil, fmt.Errorf("no entry found for %s %s", request.GetPkgName(), request.GetChannelName())
	}
	return s.readBundleWithoutEdges(content.Place{Package: p, Channel: c, Entry: findReplacement(c, request.GetCsvName())})
}

// GetChannelEntriesThatReplace sends the entries that replace or skip a bundle. No entry
// replaces a bundle without a name.
func (s *databaseService) GetChannelEntriesThatReplace(request *registrypb.GetAllReplacementsRequest, stream grpc.ServerStreamingServer[registrypb.ChannelEntry]) error {
	if request.GetCsvName() == "" {
		return fmt.Errorf("no channel entries found that replace %s", request.GetCsvName())
	}
	return s.registryService.GetChannelEntriesThatReplace(request, stream)
}

// GetDefaultBundleThatProvides returns the head of a default channel that provides an API.
func (s *databaseService) GetDefaultBundleThatProvides(_ context.Context, request *registrypb.GetDefaultProviderRequest) (*registrypb.Bundle, error) {
	for e := range s.listLatestProviderEdges(request) {
		if e.Channel.Name == e.Package.DefaultChannel {
			return s.readBundleWithoutEdges(e.Place)
		}
	}
	return nil, fmt.Errorf("no entry found that provides %s %s %s", request.GetGroup(), request.GetVersion(), request.GetKind())
}

// findChannel returns a channel and its package, or nil and nil if there is none.
func (s *databaseService) findChannel(pkg, channel string) (*content.Package, *content.Channel) {
	p := s.content.Package(pkg)
	if p == nil || p.Channel(channel) == nil {
		return nil, nil
	}
	return p, p.Channel(channel)
}
