package registry_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/mainstay-dev/mainstay/internal/classic/registry/registrypb"
)

// fields encodes strings, and messages that are encoded already, by their numbers.
func fields(list ...any) []byte {
	var out []byte
	for i := 0; i < len(list); i += 2 {
		out = protowire.AppendTag(out, protowire.Number(list[i].(int)), protowire.BytesType)
		switch value := list[i+1].(type) {
		case string:
			out = protowire.AppendString(out, value)
		case []byte:
			out = protowire.AppendBytes(out, value)
		}
	}

	return out
}

// Existing clients and servers have these numbers compiled in. They are
// repeated here, so that none changes by accident.
func TestNumbersOfFields(t *testing.T) {
	deprecation := fields(1, "old")
	gvk := fields(1, "group", 2, "version", 3, "kind", 4, "plural")
	pair := fields(1, "type", 2, "value")
	apiName := &registrypb.GroupVersionKind{Group: "group", Version: "version", Kind: "kind", Plural: "plural"}
	for _, test := range []struct {
		wire []byte
		want proto.Message
	}{
		{fields(1, "n"), &registrypb.PackageName{Name: "n"}},
		{deprecation, &registrypb.Deprecation{Message: "old"}},
		{gvk, apiName},
		{pair, &registrypb.Property{Type: "type", Value: "value"}},
		{pair, &registrypb.Dependency{Type: "type", Value: "value"}},
		{fields(1, "n", 2, "csv", 3, deprecation), &registrypb.Channel{Name: "n", CsvName: "csv", Deprecation: &registrypb.Deprecation{Message: "old"}}},
		{
			fields(1, "n", 2, fields(1, "c"), 3, "d", 4, deprecation),
			&registrypb.Package{Name: "n", Channels: []*registrypb.Channel{{Name: "c"}}, DefaultChannelName: "d", Deprecation: &registrypb.Deprecation{Message: "old"}},
		},
		{
			fields(1, "p", 2, "c", 3, "b", 4, "r"),
			&registrypb.ChannelEntry{PackageName: "p", ChannelName: "c", BundleName: "b", Replaces: "r"},
		},
		{
			fields(1, "csv", 2, "p", 3, "c", 4, "json", 5, "o1", 5, "o2", 6, "path", 7, gvk, 8, gvk, 9, "v", 10, "range",
				11, pair, 12, pair, 13, "r", 14, "s1", 14, "s2", 15, deprecation),
			&registrypb.Bundle{
				CsvName: "csv", PackageName: "p", ChannelName: "c", CsvJson: "json", Object: []string{"o1", "o2"}, BundlePath: "path",
				ProvidedApis: []*registrypb.GroupVersionKind{apiName}, RequiredApis: []*registrypb.GroupVersionKind{apiName},
				Version: "v", SkipRange: "range",
				Dependencies: []*registrypb.Dependency{{Type: "type", Value: "value"}},
				Properties:   []*registrypb.Property{{Type: "type", Value: "value"}},
				Replaces:     "r", Skips: []string{"s1", "s2"}, Deprecation: &registrypb.Deprecation{Message: "old"},
			},
		},
		{nil, &registrypb.ListPackageRequest{}},
		{nil, &registrypb.ListBundlesRequest{}},
		{fields(1, "n"), &registrypb.GetPackageRequest{Name: "n"}},
		{fields(1, "p", 2, "c", 3, "b"), &registrypb.GetBundleRequest{PkgName: "p", ChannelName: "c", CsvName: "b"}},
		{fields(1, "p", 2, "c"), &registrypb.GetBundleInChannelRequest{PkgName: "p", ChannelName: "c"}},
		{fields(1, "b"), &registrypb.GetAllReplacementsRequest{CsvName: "b"}},
		{fields(1, "b", 2, "p", 3, "c"), &registrypb.GetReplacementRequest{CsvName: "b", PkgName: "p", ChannelName: "c"}},
		{gvk, &registrypb.GetAllProvidersRequest{Group: "group", Version: "version", Kind: "kind", Plural: "plural"}},
		{gvk, &registrypb.GetLatestProvidersRequest{Group: "group", Version: "version", Kind: "kind", Plural: "plural"}},
		{gvk, &registrypb.GetDefaultProviderRequest{Group: "group", Version: "version", Kind: "kind", Plural: "plural"}},
		{fields(1, "s", 2, "p"), &registrypb.ListPackageCustomSchemasRequest{Schema: "s", PackageName: "p"}},
	} {
		name := test.want.ProtoReflect().Descriptor().FullName()
		got := test.want.ProtoReflect().New().Interface()
		if err := proto.Unmarshal(test.wire, got); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(test.want, got, protocmp.Transform()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestNamesOfCalls(t *testing.T) {
	streams := map[bool]string{false: "one", true: "stream"}
	got := map[string]string{}
	for _, service := range []string{"Registry", "ExperimentalRegistry"} {
		s := registrypb.File_registry_proto.Services().ByName(protoreflect.Name(service))
		for i := range s.Methods().Len() {
			m := s.Methods().Get(i)
			got[string(m.FullName())] = string(m.Input().FullName()) + " " + streams[m.IsStreamingServer()] + " " + string(m.Output().FullName())
		}
	}

	want := map[string]string{
		"api.Registry.ListPackages":                                     "api.ListPackageRequest stream api.PackageName",
		"api.Registry.GetPackage":                                       "api.GetPackageRequest one api.Package",
		"api.Registry.GetBundle":                                        "api.GetBundleRequest one api.Bundle",
		"api.Registry.GetBundleForChannel":                              "api.GetBundleInChannelRequest one api.Bundle",
		"api.Registry.GetChannelEntriesThatReplace":                     "api.GetAllReplacementsRequest stream api.ChannelEntry",
		"api.Registry.GetBundleThatReplaces":                            "api.GetReplacementRequest one api.Bundle",
		"api.Registry.GetChannelEntriesThatProvide":                     "api.GetAllProvidersRequest stream api.ChannelEntry",
		"api.Registry.GetLatestChannelEntriesThatProvide":               "api.GetLatestProvidersRequest stream api.ChannelEntry",
		"api.Registry.GetDefaultBundleThatProvides":                     "api.GetDefaultProviderRequest one api.Bundle",
		"api.Registry.ListBundles":                                      "api.ListBundlesRequest stream api.Bundle",
		"api.ExperimentalRegistry.ExperimentalListPackageCustomSchemas": "api.ListPackageCustomSchemasRequest stream google.protobuf.Struct",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
