package registry_test

import (
	"errors"
	"io"
	"testing"

	"github.com/mainstay-dev/mainstay/bench/generate"
	"github.com/mainstay-dev/mainstay/internal/classic/registry"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/content"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/registrypb"
)

// generated serves a generated catalog of 10 MB.
func generated(b *testing.B) registrypb.RegistryClient {
	b.Helper()
	dir := b.TempDir()
	if _, err := generate.Catalog(dir, generate.MB10); err != nil {
		b.Fatal(err)
	}
	return registrypb.NewRegistryClient(dial(b, start(b, &registry.Server{Source: content.Folder{Dir: dir}})))
}

func BenchmarkListBundles(b *testing.B) {
	client := generated(b)
	for b.Loop() {
		stream, err := client.ListBundles(b.Context(), &registrypb.ListBundlesRequest{})
		if err != nil {
			b.Fatal(err)
		}

		n := 0
		for ; ; n++ {
			if _, err := stream.Recv(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				b.Fatal(err)
			}
		}

		b.ReportMetric(float64(n), "bundles/op")
	}
}

func BenchmarkGetBundleForChannel(b *testing.B) {
	client := generated(b)
	pkg, channel := first(b, client)
	for b.Loop() {
		//nolint:staticcheck // Clients of OLM Classic still call it.
		if _, err := client.GetBundleForChannel(b.Context(), &registrypb.GetBundleInChannelRequest{PkgName: pkg, ChannelName: channel}); err != nil {
			b.Fatal(err)
		}
	}
}

// first returns the first package and its first channel.
func first(b *testing.B, client registrypb.RegistryClient) (pkg, channel string) {
	b.Helper()
	stream, err := client.ListPackages(b.Context(), &registrypb.ListPackageRequest{})
	if err != nil {
		b.Fatal(err)
	}

	name, err := stream.Recv()
	if err != nil {
		b.Fatal(err)
	}

	p, err := client.GetPackage(b.Context(), &registrypb.GetPackageRequest{Name: name.GetName()})
	if err != nil {
		b.Fatal(err)
	}

	return p.GetName(), p.GetChannels()[0].GetName()
}
