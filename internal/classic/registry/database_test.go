package registry_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/mainstay-dev/mainstay/internal/classic/registry"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/content"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/registrypb"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/indexdb"
)

// kettle is a bundle of a SQLite catalog.
func kettle(version, replaces string, properties ...fbc.Property) indexdb.Bundle {
	name := "kettle.v" + version
	csv := json.RawMessage(fmt.Sprintf(`{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":{"name":%q},"spec":{"version":%q}}`, name, version))
	return indexdb.Bundle{
		Package: "kettle", Name: name, Version: version, Image: "registry.example/kettle:v" + version,
		Channels: []string{"stable"}, DefaultChannel: "stable", Replaces: replaces,
		CSV: csv, Objects: []json.RawMessage{csv},
		Properties: append([]fbc.Property{
			{Type: "olm.gvk", Value: json.RawMessage(`{"group":"tea.example","kind":"Kettle","version":"v1"}`)},
			{Type: "olm.package", Value: json.RawMessage(fmt.Sprintf(`{"packageName":"kettle","version":%q}`, version))},
		}, properties...),
		Provides: []indexdb.API{{Group: "tea.example", Version: "v1", Kind: "Kettle", Plural: "kettles"}},
	}
}

// databaseClient serves a SQLite catalog of three versions: the second has requirements, the
// first is deprecated.
func databaseClient(t *testing.T) registrypb.RegistryClient {
	t.Helper()
	second := kettle("1.1.0", "kettle.v1.0.0",
		fbc.Property{Type: "olm.gvk.required", Value: json.RawMessage(`{"group":"water.example","kind":"Tap","version":"v2"}`)},
		fbc.Property{Type: "olm.package.required", Value: json.RawMessage(`{"packageName":"power","versionRange":">=1.0.0"}`)},
	)
	second.Requires = []indexdb.API{{Group: "water.example", Version: "v2", Kind: "Tap", Plural: "taps"}}
	return serveDatabase(t, func(e *indexdb.Editor) error {
		bundles := []indexdb.Bundle{kettle("1.0.0", ""), second, kettle("1.2.0", "kettle.v1.1.0")}
		if err := e.Add(t.Context(), bundles, indexdb.AddOptions{}); err != nil {
			return err
		}
		return e.DeprecateTruncate(t.Context(), []string{"registry.example/kettle:v1.0.0"}, indexdb.DeprecateOptions{})
	})
}

// serveDatabase serves a new SQLite catalog with the content that edit adds.
func serveDatabase(t *testing.T, edit func(*indexdb.Editor) error) registrypb.RegistryClient {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bundles.db")
	if err := indexdb.Edit(t.Context(), path, indexdb.EditOptions{CreateIfMissing: true}, edit); err != nil {
		t.Fatal(err)
	}

	index, err := indexdb.Open(t.Context(), path, indexdb.Options{})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := index.Close(); err != nil {
			t.Error(err)
		}
	})
	source := content.Stream{
		Name: path, Database: true,
		All:      index.MetasWithRecords(t.Context()),
		Checksum: func(context.Context) (uint64, error) { return 1, nil },
	}
	log := &lines{}
	client := registrypb.NewRegistryClient(dial(t, start(t, &registry.Server{Source: source, Log: log.logger(slog.LevelInfo)})))
	if want := `msg="serving registry" backend=mainstay.v1 cache="" database=` + path + " port="; !strings.Contains(log.String(), want) {
		t.Errorf("got no %s in the log:\n%s", want, log.String())
	}

	return client
}

// TestListBundlesOfDatabase: rows are returned as they are stored, with plural names, and
// deprecated bundles are listed.
func TestListBundlesOfDatabase(t *testing.T) {
	stream, err := databaseClient(t).ListBundles(t.Context(), &registrypb.ListBundlesRequest{})
	got, err := receive(t, stream, err)
	if err != nil {
		t.Fatal(err)
	}

	listed := func(version, replaces string, more ...*registrypb.Property) *registrypb.Bundle {
		return &registrypb.Bundle{
			CsvName: "kettle.v" + version, PackageName: "kettle", ChannelName: "stable", Version: version, Replaces: replaces,
			BundlePath:   "registry.example/kettle:v" + version,
			ProvidedApis: []*registrypb.GroupVersionKind{{Group: "tea.example", Version: "v1", Kind: "Kettle", Plural: "kettles"}},
			Properties: append(more,
				&registrypb.Property{Type: "olm.gvk", Value: `{"group":"tea.example","kind":"Kettle","version":"v1"}`},
				&registrypb.Property{Type: "olm.package", Value: fmt.Sprintf(`{"packageName":"kettle","version":%q}`, version)}),
		}
	}

	second := listed("1.1.0", "kettle.v1.0.0")
	second.RequiredApis = []*registrypb.GroupVersionKind{{Group: "water.example", Version: "v2", Kind: "Tap", Plural: "taps"}}
	second.Dependencies = []*registrypb.Dependency{
		{Type: "olm.gvk", Value: `{"group":"water.example","kind":"Tap","version":"v2"}`},
		{Type: "olm.package", Value: `{"packageName":"power","version":">=1.0.0"}`},
	}
	want := []*registrypb.Bundle{
		listed("1.0.0", "", &registrypb.Property{Type: "olm.deprecated", Value: "{}"}), second, listed("1.2.0", "kettle.v1.1.0"),
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("bundles (-want +got):\n%s", diff)
	}
}

// TestListBundlesOfChannelsOfDatabase checks that each bundle is listed once for each of its channels, sorted by channel and
// name, with its edges in that channel. A version that is only skipped is in no channel.
func TestListBundlesOfChannelsOfDatabase(t *testing.T) {
	inChannels := func(b indexdb.Bundle, skipRange string, skips []string, channels ...string) indexdb.Bundle {
		b.Channels, b.SkipRange, b.Skips = channels, skipRange, skips
		return b
	}
	tests := map[string]struct {
		bundles []indexdb.Bundle
		want    []*registrypb.Bundle
	}{
		"a bundle in two channels": {
			bundles: []indexdb.Bundle{
				inChannels(kettle("1.0.0", ""), "", nil, "beta", "stable"),
				inChannels(kettle("1.1.0", "kettle.v1.0.0"), "", nil, "beta"),
			},
			want: []*registrypb.Bundle{
				{ChannelName: "beta", CsvName: "kettle.v1.0.0"},
				{ChannelName: "beta", CsvName: "kettle.v1.1.0", Replaces: "kettle.v1.0.0"},
				{ChannelName: "stable", CsvName: "kettle.v1.0.0"},
			},
		},
		"skips and a skip range in both": {
			bundles: []indexdb.Bundle{
				inChannels(kettle("1.0.0", ""), "", nil, "beta", "stable"),
				inChannels(kettle("1.1.0", "kettle.v1.0.0"), ">=1.0.0 <1.1.0", []string{"kettle.v1.0.1", "kettle.v1.0.2"}, "beta", "stable"),
			},
			want: []*registrypb.Bundle{
				{ChannelName: "beta", CsvName: "kettle.v1.0.0"},
				{ChannelName: "beta", CsvName: "kettle.v1.1.0", Replaces: "kettle.v1.0.0", SkipRange: ">=1.0.0 <1.1.0", Skips: []string{"kettle.v1.0.1", "kettle.v1.0.2"}},
				{ChannelName: "stable", CsvName: "kettle.v1.0.0"},
				{ChannelName: "stable", CsvName: "kettle.v1.1.0", Replaces: "kettle.v1.0.0", SkipRange: ">=1.0.0 <1.1.0", Skips: []string{"kettle.v1.0.1", "kettle.v1.0.2"}},
			},
		},
		"a skipped version that is in the channel": {
			bundles: []indexdb.Bundle{
				inChannels(kettle("1.0.0", ""), "", nil, "stable"),
				inChannels(kettle("1.1.0", "kettle.v1.0.0"), "", nil, "stable"),
				inChannels(kettle("1.2.0", "kettle.v1.0.0"), "<1.2.0", []string{"kettle.v1.1.0"}, "beta", "stable"),
			},
			want: []*registrypb.Bundle{
				{ChannelName: "beta", CsvName: "kettle.v1.0.0"},
				{ChannelName: "beta", CsvName: "kettle.v1.1.0"},
				{ChannelName: "beta", CsvName: "kettle.v1.2.0", Replaces: "kettle.v1.0.0", SkipRange: "<1.2.0", Skips: []string{"kettle.v1.1.0"}},
				{ChannelName: "stable", CsvName: "kettle.v1.0.0"},
				{ChannelName: "stable", CsvName: "kettle.v1.1.0"},
				{ChannelName: "stable", CsvName: "kettle.v1.2.0", Replaces: "kettle.v1.0.0", SkipRange: "<1.2.0", Skips: []string{"kettle.v1.1.0"}},
			},
		},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			client := serveDatabase(t, func(e *indexdb.Editor) error { return e.Add(t.Context(), test.bundles, indexdb.AddOptions{}) })
			stream, err := client.ListBundles(t.Context(), &registrypb.ListBundlesRequest{})
			got, err := receive(t, stream, err)
			if err != nil {
				t.Fatal(err)
			}

			for i, b := range got {
				if b.GetCsvJson() != "" || len(b.GetObject()) > 0 || b.GetBundlePath() == "" {
					t.Errorf("%s of %s has the manifests %q and %q, want only its image", b.GetCsvName(), b.GetChannelName(), b.GetCsvJson(), b.GetObject())
				}
				got[i] = &registrypb.Bundle{
					ChannelName: b.GetChannelName(), CsvName: b.GetCsvName(), Replaces: b.GetReplaces(), Skips: b.GetSkips(), SkipRange: b.GetSkipRange(),
				}
			}
			if diff := cmp.Diff(test.want, got, protocmp.Transform()); diff != "" {
				t.Errorf("bundles (-want +got):\n%s", diff)
			}
		})
	}
}

// TestQueriesOfDatabase: the queries of a SQLite catalog have their own errors for missing content.
func TestQueriesOfDatabase(t *testing.T) {
	c := databaseClient(t)

	//nolint:staticcheck // Clients of OLM Classic still call it.
	head, err := c.GetBundleForChannel(t.Context(), &registrypb.GetBundleInChannelRequest{PkgName: "kettle", ChannelName: "stable"})
	if err != nil {
		t.Fatal(err)
	}

	want := &registrypb.Bundle{CsvName: "kettle.v1.2.0", CsvJson: head.GetCsvJson()}
	if diff := cmp.Diff(want, head, protocmp.Transform()); diff != "" || head.GetCsvJson() == "" {
		t.Errorf("head (-want +got):\n%s", diff)
	}

	next, err := c.GetBundleThatReplaces(t.Context(), &registrypb.GetReplacementRequest{CsvName: "kettle.v1.0.0", PkgName: "kettle", ChannelName: "stable"})
	if err != nil || next.GetCsvName() != "kettle.v1.1.0" || next.GetReplaces() != "" {
		t.Errorf("got the replacement %q of 1.0.0, which replaces %q, error %v", next.GetCsvName(), next.GetReplaces(), err)
	}

	_, err = c.GetPackage(t.Context(), &registrypb.GetPackageRequest{Name: "pot"})
	wantError(t, err, codes.Unknown, "package pot not found")
	_, err = c.GetBundle(t.Context(), &registrypb.GetBundleRequest{PkgName: "kettle", ChannelName: "stable", CsvName: "pot.v1"})
	wantError(t, err, codes.Unknown, "no entry found for kettle stable pot.v1")
	//nolint:staticcheck // Clients of OLM Classic still call it.
	_, err = c.GetBundleForChannel(t.Context(), &registrypb.GetBundleInChannelRequest{PkgName: "kettle", ChannelName: "beta"})
	wantError(t, err, codes.Unknown, "no entry found for kettle beta")
	_, err = c.GetBundleThatReplaces(t.Context(), &registrypb.GetReplacementRequest{PkgName: "kettle", ChannelName: "stable"})
	wantError(t, err, codes.Unknown, "no entry found for kettle stable")
	_, err = c.GetDefaultBundleThatProvides(t.Context(), &registrypb.GetDefaultProviderRequest{Group: "tea.example", Version: "v9", Kind: "Kettle"})
	wantError(t, err, codes.Unknown, "no entry found that provides tea.example v9 Kettle")
	stream, err := c.GetChannelEntriesThatReplace(t.Context(), &registrypb.GetAllReplacementsRequest{})
	_, err = receive(t, stream, err)
	wantError(t, err, codes.Unknown, "no channel entries found that replace ")
}
