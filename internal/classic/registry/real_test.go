package registry_test

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/mainstay-dev/mainstay/internal/classic/registry"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/content"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/registrypb"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
)

// realCatalog is a catalog read from its blobs, without the code under test.
type realCatalog struct {
	packages map[string]map[string]any
	channels map[string]fbc.Channel
	bundles  map[string]map[string]any
}

func readReal(t *testing.T, dir string) realCatalog {
	t.Helper()
	c := realCatalog{map[string]map[string]any{}, map[string]fbc.Channel{}, map[string]map[string]any{}}
	for meta, err := range fbc.Walk(os.DirFS(dir), fbc.Limits{}) {
		if err != nil {
			t.Fatal(err)
		}
		var blob map[string]any
		if err := json.Unmarshal(meta.Blob, &blob); err != nil {
			t.Fatal(err)
		}
		switch meta.Schema {
		case fbc.SchemaPackage:
			c.packages[meta.Name] = blob
		case fbc.SchemaChannel:
			channel, err := fbc.DecodeChannel(meta)
			if err != nil {
				t.Fatal(err)
			}
			c.channels[meta.Package+"/"+meta.Name] = *channel
		case fbc.SchemaBundle:
			c.bundles[meta.Package+"/"+meta.Name] = blob
		}
	}

	if len(c.packages) == 0 {
		t.Fatal("the catalog is empty")
	}

	return c
}

// property returns the value of a bundle's property, nil when it has none of the type.
func property(bundle map[string]any, kind string) map[string]any {
	for _, p := range bundle["properties"].([]any) {
		if p := p.(map[string]any); p["type"] == kind {
			return p["value"].(map[string]any)
		}
	}
	return nil
}

// Real catalogs are served with their own content.
func TestRealCatalogs(t *testing.T) {
	dir := checkout.SharedData(t, "fbc")
	want := readReal(t, dir)
	cache := t.TempDir()
	if err := (&registry.Server{Source: content.Folder{Dir: dir}, CacheDir: cache, CacheOnly: true}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}

	cold := registrypb.NewRegistryClient(dial(t, start(t, &registry.Server{Source: content.Folder{Dir: dir}})))
	warm := registrypb.NewRegistryClient(dial(t, start(t, &registry.Server{Source: content.Folder{Dir: dir}, CacheDir: cache})))

	stream, err := cold.ListPackages(t.Context(), &registrypb.ListPackageRequest{})
	packages, err := receive(t, stream, err)
	if err != nil {
		t.Fatal(err)
	}

	var names []string
	for _, p := range packages {
		names = append(names, p.GetName())
	}

	if diff := cmp.Diff(slices.Sorted(maps.Keys(want.packages)), names); diff != "" {
		t.Errorf("packages (-want +got):\n%s", diff)
	}

	bundles, err := warm.ListBundles(t.Context(), &registrypb.ListBundlesRequest{})
	listed, err := receive(t, bundles, err)
	if err != nil {
		t.Fatal(err)
	}

	entries := 0
	for _, channel := range want.channels {
		entries += len(channel.Entries)
	}

	if len(listed) != entries {
		t.Errorf("got %d bundles, want the %d entries of the channels", len(listed), entries)
	}

	for _, b := range listed {
		checkReal(t, want, b)
		request := &registrypb.GetBundleRequest{PkgName: b.GetPackageName(), ChannelName: b.GetChannelName(), CsvName: b.GetCsvName()}
		fromCold, err := cold.GetBundle(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}

		fromWarm, err := warm.GetBundle(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(fromCold, fromWarm, protocmp.Transform()); diff != "" {
			t.Fatalf("%s from a cache that was built (-) and one that was read (+):\n%s", b.GetCsvName(), diff)
		}

		checkRealCSV(t, want, fromWarm)
	}
}

// checkReal compares a bundle of a list with its blob and its channel.
func checkReal(t *testing.T, catalog realCatalog, got *registrypb.Bundle) {
	t.Helper()
	blob := catalog.bundles[got.GetPackageName()+"/"+got.GetCsvName()]
	if got.GetBundlePath() != blob["image"] || got.GetVersion() != property(blob, fbc.PropertyPackage)["version"] {
		t.Errorf("%s: got the image %s and the version %s", got.GetCsvName(), got.GetBundlePath(), got.GetVersion())
	}
	if got.GetCsvJson() != "" || got.GetObject() != nil {
		t.Errorf("%s is listed with its manifests", got.GetCsvName())
	}

	channel := catalog.channels[got.GetPackageName()+"/"+got.GetChannelName()]
	i := slices.IndexFunc(channel.Entries, func(e fbc.ChannelEntry) bool { return e.Name == got.GetCsvName() })
	if i < 0 {
		t.Fatalf("%s is not in the channel %s", got.GetCsvName(), got.GetChannelName())
	}

	entry := fbc.ChannelEntry{Name: got.GetCsvName(), Replaces: got.GetReplaces(), Skips: got.GetSkips(), SkipRange: got.GetSkipRange()}
	if diff := cmp.Diff(channel.Entries[i], entry); diff != "" {
		t.Errorf("%s (-want +got):\n%s", got.GetCsvName(), diff)
	}

	var properties []any
	for _, p := range got.GetProperties() {
		var value any
		if err := json.Unmarshal([]byte(p.GetValue()), &value); err != nil {
			t.Fatal(err)
		}
		properties = append(properties, map[string]any{"type": p.GetType(), "value": value})
	}

	want := slices.DeleteFunc(slices.Clone(blob["properties"].([]any)), func(p any) bool {
		kind := p.(map[string]any)["type"]
		return kind == fbc.PropertyCSVMetadata || kind == fbc.PropertyBundleObject
	})
	if diff := cmp.Diff(want, properties); diff != "" {
		t.Errorf("properties of %s (-want +got):\n%s", got.GetCsvName(), diff)
	}
}

// checkRealCSV compares a bundle's ClusterServiceVersion with its metadata.
func checkRealCSV(t *testing.T, catalog realCatalog, got *registrypb.Bundle) {
	t.Helper()
	metadata := property(catalog.bundles[got.GetPackageName()+"/"+got.GetCsvName()], fbc.PropertyCSVMetadata)
	if metadata == nil {
		return
	}

	var csv struct {
		Kind     string
		Metadata map[string]any
		Spec     map[string]any
	}
	if err := json.Unmarshal([]byte(got.GetCsvJson()), &csv); err != nil {
		t.Fatal(err)
	}
	if csv.Kind != "ClusterServiceVersion" || csv.Metadata["name"] != got.GetCsvName() || !slices.Equal(got.GetObject(), []string{got.GetCsvJson()}) {
		t.Errorf("%s: got %s %v with %d objects", got.GetCsvName(), csv.Kind, csv.Metadata["name"], len(got.GetObject()))
	}

	renamed := map[string]string{"crdDescriptions": "customresourcedefinitions", "apiServiceDefinitions": "apiservicedefinitions"}
	for key, want := range metadata {
		found := csv.Spec[key]
		if name, ok := renamed[key]; ok {
			found = csv.Spec[name]
		}
		if key == "annotations" || key == "labels" {
			found = csv.Metadata[key]
		}
		if diff := cmp.Diff(want, found); diff != "" {
			t.Errorf("%s of %s (-want +got):\n%s", key, got.GetCsvName(), diff)
		}
	}

	if icon := catalog.packages[got.GetPackageName()]["icon"]; icon != nil {
		if diff := cmp.Diff([]any{icon}, csv.Spec["icon"]); diff != "" {
			t.Errorf("the icon of %s (-want +got):\n%s", got.GetCsvName(), diff)
		}
	}
}
