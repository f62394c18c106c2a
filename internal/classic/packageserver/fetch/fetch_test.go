package fetch_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"

	operatorsv1alpha1 "github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	packagesv1 "github.com/mainstay-dev/mainstay/api/packages/v1"
	"github.com/mainstay-dev/mainstay/internal/classic/packageserver/fetch"
	"github.com/mainstay-dev/mainstay/internal/classic/packageserver/index"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/registrypb"
	"github.com/mainstay-dev/mainstay/internal/testing/catalogserver"
)

// catalog is a fake catalog with configurable responses.
type catalog struct {
	registrypb.UnimplementedRegistryServer

	packages []*registrypb.Package
	bundles  []*registrypb.Bundle
	// csvs are the ClusterServiceVersions of bundles, by their names.
	csvs map[string]string
	// fail are the errors of single calls, by the requested name.
	fail map[string]error

	mu    sync.Mutex
	asked []string
}

func (c *catalog) ListPackages(_ *registrypb.ListPackageRequest, stream grpc.ServerStreamingServer[registrypb.PackageName]) error {
	for _, p := range c.packages {
		if err := stream.Send(&registrypb.PackageName{Name: p.GetName()}); err != nil {
			return err
		}
	}
	return c.fail["packages"]
}

func (c *catalog) ListBundles(_ *registrypb.ListBundlesRequest, stream grpc.ServerStreamingServer[registrypb.Bundle]) error {
	for _, b := range c.bundles {
		if err := stream.Send(b); err != nil {
			return err
		}
	}
	return c.fail["bundles"]
}

func (c *catalog) GetPackage(_ context.Context, r *registrypb.GetPackageRequest) (*registrypb.Package, error) {
	if err := c.fail[r.GetName()]; err != nil {
		return nil, err
	}
	return c.packages[slices.IndexFunc(c.packages, func(p *registrypb.Package) bool { return p.GetName() == r.GetName() })], nil
}

func (c *catalog) GetBundle(_ context.Context, r *registrypb.GetBundleRequest) (*registrypb.Bundle, error) {
	c.mu.Lock()
	c.asked = append(c.asked, r.GetCsvName())
	c.mu.Unlock()
	if err := c.fail[r.GetCsvName()]; err != nil {
		return nil, err
	}
	return &registrypb.Bundle{CsvName: r.GetCsvName(), CsvJson: c.csvs[r.GetCsvName()]}, nil
}

func dial(t testing.TB, c registrypb.RegistryServer) registrypb.RegistryClient {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	catalogserver.ServeOn(t, listener, c)
	return catalogserver.Dial(t, listener.Addr().String())
}

// manifests are the packages of a catalog, as they are served.
func manifests(t *testing.T, c *catalog) map[string]packagesv1.PackageManifest {
	t.Helper()
	packages, err := fetch.ReadPackages(t.Context(), dial(t, c), fetch.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return served(t, packages)
}

func served(t *testing.T, packages []*index.Package) map[string]packagesv1.PackageManifest {
	t.Helper()
	i := index.New()
	i.Set(index.Catalog{Key: types.NamespacedName{Namespace: "n", Name: "c"}}, packages)
	snapshot, _ := i.Snapshot()
	all := map[string]packagesv1.PackageManifest{}
	for item := range snapshot.All(index.View{}) {
		text, err := item.AppendJSON(nil, "1")
		if err != nil {
			t.Fatal(err)
		}

		var m packagesv1.PackageManifest
		if err := json.Unmarshal(text, &m); err != nil {
			t.Fatal(err)
		}

		all[m.Name] = m
	}

	return all
}

func channels(names ...string) []*registrypb.Channel {
	var all []*registrypb.Channel
	for _, name := range names {
		channel, head, _ := strings.Cut(name, "=")
		all = append(all, &registrypb.Channel{Name: channel, CsvName: head})
	}
	return all
}

func bundleCSV(name, spec string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q},"spec":%s}`, name, spec)
}

// A package has the description of the head of its default channel, and each channel that of
// its own head.
func TestPackages(t *testing.T) {
	c := &catalog{
		packages: []*registrypb.Package{{
			Name: "plum", DefaultChannelName: "stable", Deprecation: &registrypb.Deprecation{Message: "use prune"},
			Channels: []*registrypb.Channel{
				{Name: "stable", CsvName: "plum.v2"}, {Name: "beta", CsvName: "plum.v3", Deprecation: &registrypb.Deprecation{Message: "too new"}}, {Name: "fast", CsvName: "plum.v2"},
			},
		}},
		bundles: []*registrypb.Bundle{
			{PackageName: "plum", ChannelName: "stable", CsvName: "plum.v1", Version: "1.9.0", Deprecation: &registrypb.Deprecation{Message: "old"}},
			{PackageName: "plum", ChannelName: "stable", CsvName: "plum.v2", Version: "1.10.0"},
			{PackageName: "plum", ChannelName: "stable", CsvName: "plum.bad", Version: "one"},
			{PackageName: "plum", ChannelName: "stable", CsvName: "plum.pre", Version: "v1.10.0-rc.1"},
			{PackageName: "plum", ChannelName: "stable", CsvName: "plum.v0", Version: "0.1.0", Properties: []*registrypb.Property{{Type: "olm.deprecated", Value: "{}"}}},
			{PackageName: "plum", ChannelName: "beta", CsvName: "plum.v3", Version: "3.0.0"},
			{PackageName: "pear", ChannelName: "stable", CsvName: "pear.v3", Version: "3.0.0"},
		},
		csvs: map[string]string{
			"plum.v2": `{"metadata":{"name":"plum.v2","labels":{"operatorframework.io/arch.arm64":"supported","color":"blue"},"annotations":{"alm-examples":"[]"}},
				"spec":{"displayName":"Plum","version":"1.10.0","description":"About plums","maturity":"ripe","minKubeVersion":1.16,"keywords":["fruit"],
				"provider":{"name":"Orchard","url":"https://orchard.example.com"},"links":[{"name":"home","url":"https://plum.example.com"}],
				"maintainers":[{"name":"A","email":"a@example.com"}],"icon":[{"base64data":"PHN2Zy8+","mediatype":"image/svg+xml"}],
				"installModes":[{"type":"AllNamespaces","supported":true}],
				"customresourcedefinitions":{"owned":[{"name":"plums.example.com","version":"v1","kind":"Plum"}]},
				"apiservicedefinitions":{"required":[{"name":"pits","group":"g","version":"v1","kind":"Pit"}]},
				"nativeAPIs":[{"group":"apps","version":"v1","kind":"Deployment"}],
				"relatedImages":[{"name":"x","image":"quay.io/x"},{"name":"again","image":"quay.io/a"}],
				"install":{"strategy":"deployment","spec":{"deployments":[{"name":"d","spec":{"replicas":"not a number","template":{"spec":{
					"containers":[{"image":"quay.io/a"},{"image":"quay.io/b"}],"initContainers":[{"image":"quay.io/i"}]}}}}]}}}}`,
			"plum.v3": bundleCSV("plum.v3", `{"provider":{"name":"Other"}}`),
		},
	}

	got := manifests(t, c)["plum"]
	stable := packagesv1.CSVDescription{
		DisplayName: "Plum", Version: "1.10.0", LongDescription: "About plums", Maturity: "ripe", MinKubeVersion: "1.16", Keywords: []string{"fruit"},
		Provider: operatorsv1alpha1.AppLink{Name: "Orchard", URL: "https://orchard.example.com"}, Annotations: map[string]string{"alm-examples": "[]"},
		Links: []operatorsv1alpha1.AppLink{{Name: "home", URL: "https://plum.example.com"}}, Maintainers: []operatorsv1alpha1.Maintainer{{Name: "A", Email: "a@example.com"}},
		InstallModes:              []operatorsv1alpha1.InstallMode{{Type: "AllNamespaces", Supported: true}},
		CustomResourceDefinitions: operatorsv1alpha1.CustomResourceDefinitions{Owned: []operatorsv1alpha1.CRDDescription{{Name: "plums.example.com", Version: "v1", Kind: "Plum"}}},
		APIServiceDefinitions:     operatorsv1alpha1.APIServiceDefinitions{Required: []operatorsv1alpha1.APIServiceDescription{{Name: "pits", Group: "g", Version: "v1", Kind: "Pit"}}},
		RelatedImages:             []string{"quay.io/a", "quay.io/b", "quay.io/i", "quay.io/x"},
	}

	stable.NativeAPIs = got.Status.Channels[2].CurrentCSVDesc.NativeAPIs
	want := packagesv1.PackageStatus{
		PackageName: "plum", DefaultChannel: "stable", Deprecation: &packagesv1.Deprecation{Message: "use prune"}, Provider: stable.Provider,
		Channels: []packagesv1.PackageChannel{
			{
				Name: "beta", CurrentCSV: "plum.v3", Deprecation: &packagesv1.Deprecation{Message: "too new"}, Entries: []packagesv1.ChannelEntry{{Name: "plum.v3", Version: "3.0.0"}},
				CurrentCSVDesc: packagesv1.CSVDescription{Version: "0.0.0", Provider: operatorsv1alpha1.AppLink{Name: "Other"}},
			},
			{Name: "fast", CurrentCSV: "plum.v2", CurrentCSVDesc: stable, Entries: []packagesv1.ChannelEntry{}},
			{Name: "stable", CurrentCSV: "plum.v2", CurrentCSVDesc: stable, Entries: []packagesv1.ChannelEntry{
				{Name: "plum.v2", Version: "1.10.0"}, {Name: "plum.pre", Version: "v1.10.0-rc.1"},
				{Name: "plum.v1", Version: "1.9.0", Deprecation: &packagesv1.Deprecation{Message: "old"}}, {Name: "plum.bad", Version: "one"},
			}},
		},
	}
	if diff := cmp.Diff(want, got.Status.PackageStatus); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := stable.NativeAPIs; len(n) != 1 || n[0].Kind != "Deployment" {
		t.Errorf("got the native APIs %v", n)
	}

	labels := map[string]string{
		"catalog": "c", "catalog-namespace": "n", "provider": "Orchard", "provider-url": "https://orchard.example.com", "color": "blue",
		"operatorframework.io/arch.arm64": "supported", "operatorframework.io/os.linux": "supported",
	}
	if diff := cmp.Diff(labels, got.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}

	slices.Sort(c.asked)
	if diff := cmp.Diff([]string{"plum.v2", "plum.v3"}, c.asked); diff != "" {
		t.Errorf("requested bundles (-want +got):\n%s", diff)
	}
}

// Unreadable packages and channels are omitted, and the other ones are served.
func TestPartsThatCannotBeRead(t *testing.T) {
	unreadable := status.Error(codes.Unknown, "no such thing")
	for name, of := range map[string]struct {
		pkg  *registrypb.Package
		csvs map[string]string
		fail map[string]error
		// want are the channels, and def the default one.
		want []string
		def  string
	}{
		"valid":                  {&registrypb.Package{Name: "p", DefaultChannelName: "b", Channels: channels("b=p.v2", "a=p.v1")}, nil, nil, []string{"a", "b"}, "b"},
		"no default channel":     {&registrypb.Package{Name: "p", Channels: channels("b=p.v2", "a=p.v1")}, nil, nil, []string{"a", "b"}, ""},
		"a bundle is missing":    {&registrypb.Package{Name: "p", DefaultChannelName: "b", Channels: channels("b=p.v2", "a=p.v1")}, nil, map[string]error{"p.v1": unreadable}, []string{"b"}, "b"},
		"the default is missing": {&registrypb.Package{Name: "p", DefaultChannelName: "b", Channels: channels("b=p.v2", "c=p.v3", "a=p.v1")}, nil, map[string]error{"p.v2": unreadable}, []string{"a", "c"}, "a"},
		"a CSV is invalid":       {&registrypb.Package{Name: "p", DefaultChannelName: "b", Channels: channels("b=p.v2", "a=p.v1")}, map[string]string{"p.v1": `{"spec":7}`}, nil, []string{"b"}, "b"},
		"a CSV is empty":         {&registrypb.Package{Name: "p", DefaultChannelName: "b", Channels: channels("b=p.v2", "a=p.v1")}, map[string]string{"p.v1": ""}, nil, []string{"b"}, "b"},
		"a bundle is too large":  {&registrypb.Package{Name: "p", DefaultChannelName: "b", Channels: channels("b=p.v2", "a=p.v1")}, map[string]string{"p.v1": strings.Repeat(" ", 5<<20)}, nil, []string{"b"}, "b"},
		"no channel is left":     {&registrypb.Package{Name: "p", DefaultChannelName: "a", Channels: channels("a=p.v1")}, nil, map[string]error{"p.v1": unreadable}, nil, ""},
		"there are no channels":  {&registrypb.Package{Name: "p"}, nil, nil, nil, ""},
		"the package is missing": {&registrypb.Package{Name: "p"}, nil, map[string]error{"p": unreadable}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := &catalog{packages: []*registrypb.Package{of.pkg, {Name: "sound", Channels: channels("a=sound.v1")}}, fail: of.fail, csvs: map[string]string{}}
			for _, head := range []string{"p.v1", "p.v2", "p.v3", "sound.v1"} {
				c.csvs[head] = bundleCSV(head, "{}")
			}

			for head, text := range of.csvs {
				c.csvs[head] = text
			}

			got := manifests(t, c)
			if _, ok := got["sound"]; !ok {
				t.Error("the other package is missing")
			}

			p, ok := got["p"]
			if ok != (of.want != nil) {
				t.Fatalf("got served %t", ok)
			}

			var names []string
			for _, channel := range p.Status.Channels {
				names = append(names, channel.Name)
			}

			if diff := cmp.Diff(of.want, names); diff != "" || p.Status.DefaultChannel != of.def {
				t.Errorf("got the default channel %q, channels (-want +got):\n%s", p.Status.DefaultChannel, diff)
			}
		})
	}
}

// Reading fails if the connection to the catalog is lost, or if the catalog is too large. The packages that were
// read before stay.
func TestCatalogsThatCannotBeRead(t *testing.T) {
	away := status.Error(codes.Unavailable, "gone")
	sound := func() *catalog {
		return &catalog{
			packages: []*registrypb.Package{{Name: "p", Channels: channels("a=p.v1")}, {Name: "q", Channels: channels("a=q.v1", "b=q.v1")}},
			bundles:  []*registrypb.Bundle{{PackageName: "p", ChannelName: "a"}, {PackageName: "q", ChannelName: "a"}},
			csvs:     map[string]string{"p.v1": bundleCSV("p.v1", "{}"), "q.v1": bundleCSV("q.v1", "{}")},
		}
	}

	for name, of := range map[string]struct {
		fail   map[string]error
		limits fetch.Limits
		want   string
	}{
		"while packages are listed": {fail: map[string]error{"packages": away}, want: "listing the packages of the catalog"},
		"while bundles are listed":  {fail: map[string]error{"bundles": away}, want: "listing the bundles of the catalog"},
		"while a package is read":   {fail: map[string]error{"q": away}, want: `reading package "q"`},
		"while a bundle is read":    {fail: map[string]error{"p.v1": away}, want: `reading bundle "p.v1" of package "p"`},
		"too many packages":         {limits: fetch.Limits{Packages: 1}, want: "the catalog has more than 1 packages"},
		"too many entries":          {limits: fetch.Limits{Entries: 1}, want: "the channels of the catalog have more than 1 entries"},
		"too large":                 {limits: fetch.Limits{Bytes: 10}, want: "the packages of the catalog take more than 10 bytes"},
	} {
		c := sound()
		c.fail = of.fail
		packages, err := fetch.ReadPackages(t.Context(), dial(t, c), fetch.Options{Limits: of.limits})
		if err == nil || !strings.Contains(err.Error(), of.want) {
			t.Errorf("%s: got %d packages and error %v", name, len(packages), err)
		}
	}

	packages, err := fetch.ReadPackages(t.Context(), dial(t, sound()), fetch.Options{Limits: fetch.Limits{Channels: 1}})
	if err != nil || len(packages) != 1 || packages[0].Name != "p" {
		t.Errorf("too many channels: got %v, error %v", packages, err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := fetch.ReadPackages(ctx, dial(t, sound()), fetch.Options{}); status.Code(err) != codes.Canceled && err == nil {
		t.Errorf("after the end of the context: got error %v", err)
	}
}

// Icons are decoded in the forms that bundle authors use.
func TestIcons(t *testing.T) {
	for name, of := range map[string]struct{ icon, want string }{
		"none":             {`[]`, ""},
		"usual":            {`[{"base64data":"PHN2Zy8+","mediatype":"image/svg+xml"}]`, "<svg/>"},
		"with padding":     {`[{"base64data":"PHN2Zz4=","mediatype":"image/svg+xml"}]`, "<svg>"},
		"without padding":  {`[{"base64data":"PHN2Zz4","mediatype":"image/svg+xml"}]`, "<svg>"},
		"in lines":         {`[{"base64data":"PHN2\nZy8+\n","mediatype":"image/svg+xml"}]`, "<svg/>"},
		"no base64":        {`[{"base64data":"<svg/>","mediatype":"image/svg+xml"}]`, ""},
		"the first of two": {`[{"base64data":"PHN2Zy8+","mediatype":"image/svg+xml"},{"base64data":"AAAA","mediatype":"image/png"}]`, "<svg/>"},
		"too large":        {`[{"base64data":"` + strings.Repeat("AAAA", 800_000) + `","mediatype":"image/png"}]`, ""},
	} {
		c := &catalog{
			packages: []*registrypb.Package{{Name: "p", DefaultChannelName: "a", Channels: channels("a=p.v1")}},
			csvs:     map[string]string{"p.v1": bundleCSV("p.v1", `{"icon":`+of.icon+`}`)},
		}
		packages, err := fetch.ReadPackages(t.Context(), dial(t, c), fetch.Options{})
		if err != nil {
			t.Fatal(err)
		}

		icon, err := packages[0].Icon()
		if err != nil || string(icon.Data) != of.want || icon.ETag != `"p.a.p.v1"` {
			t.Errorf("%s: %q, %s, %v", name, icon.Data, icon.ETag, err)
		}
	}
}

// Any content in place of a ClusterServiceVersion is served or omitted.
func FuzzCSV(f *testing.F) {
	f.Add(bundleCSV("x", `{"icon":[{"base64data":"PHN2Zy8+"}],"version":1.2}`))
	f.Add(`{"metadata":{"labels":{"a":"b"}},"spec":{"install":{"spec":{"deployments":[null]}}}}`)
	f.Add(`{}`)
	f.Add(`null`)
	c := &catalog{packages: []*registrypb.Package{{Name: "p", Channels: channels("a=p.v1")}}}
	client := dial(f, c)
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 10_000 {
			return
		}

		c.csvs = map[string]string{"p.v1": strings.ToValidUTF8(text, "?")}
		packages, err := fetch.ReadPackages(t.Context(), client, fetch.Options{})
		if err != nil {
			t.Fatal(err)
		}

		for _, m := range served(t, packages) {
			if m.Status.Channels[0].CurrentCSV == "" {
				t.Error("a channel has no head")
			}
		}
	})
}
