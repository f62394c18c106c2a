package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/mainstay-dev/mainstay/internal/classic/registry"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/content"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/registrypb"
)

// catalog serves the catalog of testdata.
func catalog(t *testing.T) *grpc.ClientConn {
	t.Helper()
	return dial(t, start(t, &registry.Server{Source: content.Folder{Dir: "testdata/catalog"}}))
}

func client(t *testing.T) registrypb.RegistryClient {
	t.Helper()
	return registrypb.NewRegistryClient(catalog(t))
}

// receive reads a stream to its end.
func receive[T any](t *testing.T, stream grpc.ServerStreamingClient[T], err error) ([]*T, error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}

	var all []*T
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, m)
	}
}

// wantError compares an error with a code and a text.
func wantError(t *testing.T, err error, code codes.Code, text string) {
	t.Helper()
	if got := status.Convert(err); got.Code() != code || got.Message() != text {
		t.Errorf("got error %v %q, want %v %q", got.Code(), got.Message(), code, text)
	}
}

func TestListPackages(t *testing.T) {
	stream, err := client(t).ListPackages(t.Context(), &registrypb.ListPackageRequest{})
	got, err := receive(t, stream, err)
	if err != nil {
		t.Fatal(err)
	}

	want := []*registrypb.PackageName{{Name: "etcd"}, {Name: "prometheus"}}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestGetPackage(t *testing.T) {
	c := client(t)
	for _, want := range []*registrypb.Package{
		{
			Name: "etcd", DefaultChannelName: "alpha",
			Channels: []*registrypb.Channel{
				{Name: "alpha", CsvName: "etcdoperator.v0.9.2"},
				{Name: "stable", CsvName: "etcdoperator.v0.9.0"},
			},
		},
		{
			Name: "prometheus", DefaultChannelName: "preview",
			Deprecation: &registrypb.Deprecation{Message: "prometheus is not maintained any more"},
			Channels: []*registrypb.Channel{{
				Name: "preview", CsvName: "prometheusoperator.0.22.2",
				Deprecation: &registrypb.Deprecation{Message: "there is no preview any more"},
			}},
		},
	} {
		got, err := c.GetPackage(t.Context(), &registrypb.GetPackageRequest{Name: want.GetName()})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", want.GetName(), diff)
		}
	}

	_, err := c.GetPackage(t.Context(), &registrypb.GetPackageRequest{Name: "nats"})
	wantError(t, err, codes.Unknown, `package "nats" not found`)
}

var etcdCluster = &registrypb.GroupVersionKind{Group: "etcd.example.com", Version: "v1beta2", Kind: "EtcdCluster"}

const etcdClusterValue = `{"group":"etcd.example.com","kind":"EtcdCluster","version":"v1beta2"}`

// The bundles of testdata as lists return them, without the channel and the edges.
func etcd061() *registrypb.Bundle {
	return &registrypb.Bundle{
		CsvName: "etcdoperator.v0.6.1", PackageName: "etcd", BundlePath: "registry.example.com/etcd/bundle:v0.6.1", Version: "0.6.1",
		ProvidedApis: []*registrypb.GroupVersionKind{etcdCluster},
		Properties: []*registrypb.Property{
			{Type: "olm.package", Value: `{"packageName":"etcd","version":"0.6.1"}`},
			{Type: "olm.gvk", Value: etcdClusterValue},
		},
	}
}

func etcd090() *registrypb.Bundle {
	csv := `{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":{"name":"etcdoperator.v0.9.0"},"spec":{"displayName":"etcd & co","version":"0.9.0"}}`
	return &registrypb.Bundle{
		CsvName: "etcdoperator.v0.9.0", PackageName: "etcd", Version: "0.9.0",
		CsvJson: csv,
		Object: []string{
			`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"etcdclusters.etcd.example.com"}}`,
			csv,
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"notes"}}`,
		},
		ProvidedApis: []*registrypb.GroupVersionKind{etcdCluster},
		Properties: []*registrypb.Property{
			{Type: "olm.package", Value: `{"packageName":"etcd","version":"0.9.0"}`},
			{Type: "olm.gvk", Value: etcdClusterValue},
		},
	}
}

func etcd092() *registrypb.Bundle {
	return &registrypb.Bundle{
		CsvName: "etcdoperator.v0.9.2", PackageName: "etcd", Version: "0.9.2",
		BundlePath:   "registry.example.com/etcd/bundle@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
		ProvidedApis: []*registrypb.GroupVersionKind{etcdCluster, {Group: "etcd.example.com", Version: "v1beta2", Kind: "EtcdBackup"}},
		RequiredApis: []*registrypb.GroupVersionKind{{Group: "monitoring.example.com", Version: "v1", Kind: "ServiceMonitor"}},
		Dependencies: []*registrypb.Dependency{
			{Type: "olm.gvk", Value: `{"group":"monitoring.example.com","kind":"ServiceMonitor","version":"v1"}`},
			{Type: "olm.package", Value: `{"packageName":"prometheus","version":">=0.14.0 <1.0.0"}`},
		},
		Properties: []*registrypb.Property{
			{Type: "olm.gvk", Value: etcdClusterValue},
			{Type: "olm.gvk", Value: `{"group":"etcd.example.com","kind":"EtcdBackup","version":"v1beta2"}`},
			{Type: "olm.gvk.required", Value: `{"group":"monitoring.example.com","kind":"ServiceMonitor","version":"v1"}`},
			{Type: "olm.package", Value: `{"packageName":"etcd","version":"0.9.2"}`},
			{Type: "olm.package.required", Value: `{"packageName":"prometheus","versionRange":">=0.14.0 <1.0.0"}`},
			{Type: "olm.maxOpenShiftVersion", Value: `"4.19"`},
			{Type: "olm.constraint", Value: `{"all":{"constraints":[]},"failureMessage":"needs a node"}`},
		},
	}
}

func prometheus(version string, kinds ...string) *registrypb.Bundle {
	b := &registrypb.Bundle{
		CsvName: "prometheusoperator." + version, PackageName: "prometheus", BundlePath: "registry.example.com/prometheus/bundle:" + version, Version: version,
		Properties: []*registrypb.Property{{Type: "olm.package", Value: `{"packageName":"prometheus","version":"` + version + `"}`}},
	}
	for _, kind := range kinds {
		b.ProvidedApis = append(b.ProvidedApis, &registrypb.GroupVersionKind{Group: "monitoring.example.com", Version: "v1", Kind: kind})
		b.Properties = append(b.Properties, &registrypb.Property{Type: "olm.gvk", Value: `{"group":"monitoring.example.com","kind":"` + kind + `","version":"v1"}`})
	}
	return b
}

// in adds a channel to a bundle.
func in(channel string, b *registrypb.Bundle, replaces, skipRange string, skips ...string) *registrypb.Bundle {
	b.ChannelName, b.Replaces, b.SkipRange, b.Skips = channel, replaces, skipRange, skips
	return b
}

func TestListBundles(t *testing.T) {
	stream, err := client(t).ListBundles(t.Context(), &registrypb.ListBundlesRequest{})
	got, err := receive(t, stream, err)
	if err != nil {
		t.Fatal(err)
	}

	deprecated := prometheus("0.14.0", "ServiceMonitor")
	deprecated.Deprecation = &registrypb.Deprecation{Message: "0.14.0 loses data"}
	want := []*registrypb.Bundle{
		in("alpha", etcd061(), "", ""),
		in("alpha", etcd090(), "etcdoperator.v0.6.1", ""),
		in("alpha", etcd092(), "etcdoperator.v0.9.0", ">=0.6.0 <0.9.2", "etcdoperator.v0.9.1", "etcdoperator.v0.6.1", "etcdoperator.v0.9.0"),
		in("preview", deprecated, "", ""),
		in("preview", prometheus("0.22.2", "ServiceMonitor", "PrometheusRule"), "prometheusoperator.0.15.0", "", "prometheusoperator.0.14.0"),
		in("stable", etcd061(), "", ""),
		in("stable", etcd090(), "etcdoperator.v0.6.1", ""),
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestGetBundle(t *testing.T) {
	c := client(t)
	ask := func(pkg, channel, name string) (*registrypb.Bundle, error) {
		return c.GetBundle(t.Context(), &registrypb.GetBundleRequest{PkgName: pkg, ChannelName: channel, CsvName: name})
	}
	for _, want := range []*registrypb.Bundle{
		in("stable", etcd061(), "", ""),
		in("stable", etcd090(), "", ""),
		in("alpha", etcd090(), "", ""),
	} {
		got, err := ask(want.GetPackageName(), want.GetChannelName(), want.GetCsvName())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", want.GetCsvName(), diff)
		}
	}

	_, err := ask("nats", "alpha", "etcdoperator.v0.9.2")
	wantError(t, err, codes.Unknown, `package "nats" not found`)
	_, err = ask("etcd", "beta", "etcdoperator.v0.9.2")
	wantError(t, err, codes.Unknown, `package "etcd", channel "beta" not found`)
	_, err = ask("etcd", "stable", "etcdoperator.v0.9.2")
	wantError(t, err, codes.Unknown, `package "etcd", channel "stable", bundle "etcdoperator.v0.9.2" not found`)
}

// Clients read the description, the icon, the install modes and the owned APIs of a
// bundle from its ClusterServiceVersion, of which the catalog has only olm.csv.metadata.
func TestCSVIsSynthesizedFromMetadata(t *testing.T) {
	//nolint:staticcheck // Clients of OLM Classic still call it.
	got, err := client(t).GetBundleForChannel(t.Context(), &registrypb.GetBundleInChannelRequest{PkgName: "etcd", ChannelName: "alpha"})
	if err != nil {
		t.Fatal(err)
	}

	csv := `{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion",` +
		`"metadata":{"annotations":{"alm-examples":"[]","capabilities":"Full Lifecycle"},"labels":{"operatorframework.io/arch.amd64":"supported"},"name":"etcdoperator.v0.9.2"},` +
		`"spec":{"apiservicedefinitions":{},"customresourcedefinitions":{"owned":[{"kind":"EtcdCluster","name":"etcdclusters.etcd.example.com","version":"v1beta2"}]},` +
		`"description":"A key-value store & more","displayName":"etcd <b>","icon":[{"base64data":"PHN2Zy8+","mediatype":"image/svg+xml"}],` +
		`"install":{"spec":{"deployments":null},"strategy":"deployment"},"installModes":[{"supported":true,"type":"AllNamespaces"}],` +
		`"keywords":["etcd","key-value"],"maturity":"alpha","minKubeVersion":"1.20.0","provider":{"name":"The makers of etcd"},` +
		`"relatedImages":[{"image":"registry.example.com/etcd/operator:v0.9.2","name":"operator"}],"version":"0.9.2"}}`
	if !json.Valid([]byte(got.GetCsvJson())) {
		t.Error("got invalid JSON")
	}

	want := in("alpha", etcd092(), "", ">=0.6.0 <0.9.2")
	want.CsvJson, want.Object = csv, []string{csv}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestGetBundleForChannel(t *testing.T) {
	c := client(t)
	ask := func(pkg, channel string) (*registrypb.Bundle, error) {
		//nolint:staticcheck // Clients of OLM Classic still call it.
		return c.GetBundleForChannel(t.Context(), &registrypb.GetBundleInChannelRequest{PkgName: pkg, ChannelName: channel})
	}
	got, err := ask("etcd", "stable")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(in("stable", etcd090(), "", ""), got, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	_, err = ask("nats", "stable")
	wantError(t, err, codes.Unknown, `package "nats" not found`)
	_, err = ask("etcd", "beta")
	wantError(t, err, codes.Unknown, `package "etcd", channel "beta" not found`)
}

func TestGetBundleThatReplaces(t *testing.T) {
	c := client(t)
	ask := func(name, pkg, channel string) (*registrypb.Bundle, error) {
		return c.GetBundleThatReplaces(t.Context(), &registrypb.GetReplacementRequest{CsvName: name, PkgName: pkg, ChannelName: channel})
	}
	// As GetBundle returns it: without replaces and skips.
	want := in("preview", prometheus("0.22.2", "ServiceMonitor", "PrometheusRule"), "", "")
	// A replaced bundle that is not in the catalog, and a skipped one.
	for _, name := range []string{"prometheusoperator.0.15.0", "prometheusoperator.0.14.0"} {
		got, err := ask(name, "prometheus", "preview")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}

	// The first of several by name.
	got, err := ask("etcdoperator.v0.6.1", "etcd", "alpha")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(in("alpha", etcd090(), "", ""), got, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	_, err = ask("nats.v1", "nats", "stable")
	wantError(t, err, codes.Unknown, `package nats not found`)
	_, err = ask("nats.v1", "etcd", "beta")
	wantError(t, err, codes.Unknown, `package "etcd", channel "beta" not found`)
	_, err = ask("nats.v1", "etcd", "stable")
	wantError(t, err, codes.Unknown, `no entry found for package "etcd", channel "stable"`)
}

func entry(pkg, channel, bundle, replaces string) *registrypb.ChannelEntry {
	return &registrypb.ChannelEntry{PackageName: pkg, ChannelName: channel, BundleName: bundle, Replaces: replaces}
}

func TestGetChannelEntriesThatReplace(t *testing.T) {
	c := client(t)
	ask := func(name string) ([]*registrypb.ChannelEntry, error) {
		stream, err := c.GetChannelEntriesThatReplace(t.Context(), &registrypb.GetAllReplacementsRequest{CsvName: name})
		return receive(t, stream, err)
	}
	got, err := ask("etcdoperator.v0.6.1")
	if err != nil {
		t.Fatal(err)
	}

	want := []*registrypb.ChannelEntry{
		entry("etcd", "alpha", "etcdoperator.v0.9.0", "etcdoperator.v0.6.1"),
		entry("etcd", "alpha", "etcdoperator.v0.9.2", "etcdoperator.v0.9.0"),
		entry("etcd", "stable", "etcdoperator.v0.9.0", "etcdoperator.v0.6.1"),
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	_, err = ask("nats.v1")
	wantError(t, err, codes.Unknown, "no channel entries found that replace nats.v1")
}

func TestGetChannelEntriesThatProvide(t *testing.T) {
	c := client(t)
	got, err := func() ([]*registrypb.ChannelEntry, error) {
		stream, err := c.GetChannelEntriesThatProvide(t.Context(), &registrypb.GetAllProvidersRequest{Group: "etcd.example.com", Version: "v1beta2", Kind: "EtcdCluster", Plural: "ignored"})
		return receive(t, stream, err)
	}()
	if err != nil {
		t.Fatal(err)
	}

	want := []*registrypb.ChannelEntry{
		entry("etcd", "alpha", "etcdoperator.v0.6.1", ""),
		entry("etcd", "alpha", "etcdoperator.v0.9.0", "etcdoperator.v0.6.1"),
		entry("etcd", "alpha", "etcdoperator.v0.9.2", "etcdoperator.v0.9.0"),
		entry("etcd", "alpha", "etcdoperator.v0.9.2", "etcdoperator.v0.9.1"),
		entry("etcd", "alpha", "etcdoperator.v0.9.2", "etcdoperator.v0.6.1"),
		entry("etcd", "stable", "etcdoperator.v0.6.1", ""),
		entry("etcd", "stable", "etcdoperator.v0.9.0", "etcdoperator.v0.6.1"),
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	stream, err := c.GetChannelEntriesThatProvide(t.Context(), &registrypb.GetAllProvidersRequest{Group: "g", Version: "v", Kind: "K"})
	_, err = receive(t, stream, err)
	wantError(t, err, codes.Unknown, `no channel entries found that provide group:"g" version:"v" kind:"K"`)
}

func TestGetLatestChannelEntriesThatProvide(t *testing.T) {
	c := client(t)
	ask := func(group, version, kind string) ([]*registrypb.ChannelEntry, error) {
		stream, err := c.GetLatestChannelEntriesThatProvide(t.Context(), &registrypb.GetLatestProvidersRequest{Group: group, Version: version, Kind: kind})
		return receive(t, stream, err)
	}
	got, err := ask("etcd.example.com", "v1beta2", "EtcdCluster")
	if err != nil {
		t.Fatal(err)
	}

	want := []*registrypb.ChannelEntry{
		entry("etcd", "alpha", "etcdoperator.v0.9.2", "etcdoperator.v0.9.0"),
		entry("etcd", "alpha", "etcdoperator.v0.9.2", "etcdoperator.v0.6.1"),
		entry("etcd", "stable", "etcdoperator.v0.9.0", "etcdoperator.v0.6.1"),
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	_, err = ask("etcd.example.com", "v1", "EtcdCluster")
	wantError(t, err, codes.Unknown, `no channel entries found that provide group:"etcd.example.com" version:"v1" kind:"EtcdCluster"`)
}

func TestGetDefaultBundleThatProvides(t *testing.T) {
	c := client(t)
	ask := func(ctx context.Context, group, version, kind string) (*registrypb.Bundle, error) {
		return c.GetDefaultBundleThatProvides(ctx, &registrypb.GetDefaultProviderRequest{Group: group, Version: version, Kind: kind})
	}
	got, err := ask(t.Context(), "monitoring.example.com", "v1", "PrometheusRule")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(in("preview", prometheus("0.22.2", "ServiceMonitor", "PrometheusRule"), "", ""), got, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	got, err = ask(t.Context(), "etcd.example.com", "v1beta2", "EtcdCluster")
	if err != nil || got.GetChannelName() != "alpha" || got.GetCsvName() != "etcdoperator.v0.9.2" || got.GetCsvJson() == "" || got.GetSkips() != nil {
		t.Errorf("got %v, %v", got, err)
	}

	_, err = ask(t.Context(), "g", "v", "K")
	wantError(t, err, codes.Unknown, `no channel entries found that provide group:"g" version:"v" kind:"K"`)
}

// An API whose providers are in no default channel.
func TestGetDefaultBundleThatProvidesNeedsADefaultChannel(t *testing.T) {
	dir := write(t, map[string]string{"catalog.yaml": `
schema: olm.package
name: a
defaultChannel: stable
---
schema: olm.channel
package: a
name: stable
entries: [{name: a.v1}]
---
schema: olm.channel
package: a
name: beta
entries: [{name: a.v2}]
---
schema: olm.bundle
package: a
name: a.v1
image: registry.example.com/a:v1
properties: [{type: olm.package, value: {packageName: a, version: 1.0.0}}]
---
schema: olm.bundle
package: a
name: a.v2
image: registry.example.com/a:v2
properties:
  - {type: olm.package, value: {packageName: a, version: 2.0.0}}
  - {type: olm.gvk, value: {group: g, version: v, kind: K}}
`})

	c := registrypb.NewRegistryClient(dial(t, start(t, &registry.Server{Source: content.Folder{Dir: dir}})))
	_, err := c.GetDefaultBundleThatProvides(t.Context(), &registrypb.GetDefaultProviderRequest{Group: "g", Version: "v", Kind: "K"})
	wantError(t, err, codes.Unknown, `no entry found that provides group:"g" version:"v" kind:"K"`)
}
