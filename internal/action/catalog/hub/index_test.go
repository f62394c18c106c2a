package hub_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/mainstay-dev/mainstay/internal/action/catalog/hub"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// newBlobs returns a package with three versions and two channels. The metadata are those of the newest version.
func newBlobs(name, icon, metadata string) string {
	const blobs = `{"schema":"olm.package","name":%[1]q,"defaultChannel":"stable","icon":%[2]s}
{"schema":"olm.channel","package":%[1]q,"name":"stable","entries":[{"name":"v1"},{"name":"v2","replaces":"v1","skipRange":"<2.0.0"}]}
{"schema":"olm.channel","package":%[1]q,"name":"alpha","entries":[{"name":"v3","replaces":"v1"}]}
{"schema":"olm.bundle","package":%[1]q,"name":"v1","image":"example.com/a:1","properties":[{"type":"olm.package","value":{"packageName":%[1]q,"version":"1.0.0"}}]}
{"schema":"olm.bundle","package":%[1]q,"name":"v2","image":"example.com/a:2","relatedImages":[{"name":"","image":"example.com/run:2"}],"properties":[{"type":"olm.package","value":{"packageName":%[1]q,"version":"2.0.0"}},{"type":"olm.csv.metadata","value":%[3]s}]}
{"schema":"olm.bundle","package":%[1]q,"name":"v3","image":"example.com/a:3","properties":[{"type":"olm.package","value":{"packageName":%[1]q,"version":"3.0.0"}}]}
{"schema":"olm.deprecations","package":%[1]q,"entries":[{"reference":{"schema":"olm.package"},"message":"use another"},{"reference":{"schema":"olm.bundle","name":"v1"},"message":"too old"}]}
`
	return fmt.Sprintf(blobs, name, icon, metadata)
}

func buildIndex(t testing.TB, blobs string) *hub.Index {
	t.Helper()
	x, err := hub.Build("test", fbc.Read(strings.NewReader(blobs), "catalog.json", fbc.Limits{}))
	if err != nil {
		t.Fatal(err)
	}
	return x
}

const fullMetadata = `{"displayName":"Argo CD","description":"# Argo\n\nArgo **deploys**.","keywords":["gitops"," ","gitops"],"provider":{"name":"Argo\nCommunity","url":"javascript:alert(1)"},
"maintainers":[{"name":"Ann","email":"ann@example.com"}],"links":[{"name":"Bad","url":"javascript:alert(1)"},{"name":"Docs","url":"https://example.com/docs"}],
"labels":{"operatorframework.io/arch.arm64":"supported","operatorframework.io/arch.amd64":"supported","operatorframework.io/arch.s390x":"no"},
"installModes":[{"type":"AllNamespaces","supported":true},{"type":"OwnNamespace","supported":false}],
"crdDescriptions":{"owned":[{"name":"argocds.argoproj.io","version":"v1","kind":"ArgoCD"},{"name":"hiddens.argoproj.io","version":"v1","kind":"Hidden"}]},
"annotations":{"categories":"Integration & Delivery, ,Developer Tools","capabilities":"full lifecycle","description":"Deploys with Git",
"operators.openshift.io/infrastructure-features":"[\"Disconnected\",\"FIPS\",\"unknown\"]","features.operators.openshift.io/disconnected":"false","features.operators.openshift.io/csi":"true",
"operators.openshift.io/valid-subscription":"[\"One\"]","operators.operatorframework.io/internal-objects":"[\"hiddens.argoproj.io\"]",
"alm-examples":"[{\"apiVersion\":\"argoproj.io/v1\",\"kind\":\"ArgoCD\",\"metadata\":{\"name\":\"example\"}},7,{}]","createdAt":"not a date","repository":"https://example.com/src"}}`

func TestBuild(t *testing.T) {
	x := buildIndex(t, newBlobs("argocd", `{"base64data":"`+pixel+`","mediatype":"image/png"}`, fullMetadata))
	d, err := x.Details("argocd")
	if err != nil || d == nil {
		t.Fatalf("got %v and error %v, want the details of argocd", d, err)
	}

	want := hub.PackageSummary{
		Catalog: "test", Name: "argocd", DisplayName: "Argo CD", Provider: "Argo Community", Description: "Deploys with Git", Icon: d.Icon,
		Categories: []string{"Integration & Delivery", "Developer Tools"}, Keywords: []string{"gitops"}, Kinds: []string{"ArgoCD"}, Capability: "Full Lifecycle",
		Features: []string{"Container Storage Interface", "Designed for FIPS"}, ValidSubscriptions: []string{"One"}, InstallModes: []string{"AllNamespaces"},
		Architectures: []string{"amd64", "arm64"}, Deprecated: "use another", DefaultChannel: "stable", Version: "2.0.0",
	}
	unexported := cmpopts.IgnoreUnexported(hub.PackageSummary{})
	if diff := cmp.Diff(want, d.PackageSummary, unexported); diff != "" {
		t.Errorf("the summary differs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]hub.PackageSummary{want}, x.Packages, unexported); diff != "" {
		t.Errorf("the list differs (-want +got):\n%s", diff)
	}

	wantUpdates := []hub.UpdateEdge{
		{From: "v1", To: "v2", Kind: "replaces", Channels: []string{"stable"}}, {From: "v1", To: "v2", Kind: "skipRange", Channels: []string{"stable"}},
		{From: "v1", To: "v3", Kind: "replaces", Channels: []string{"alpha"}},
	}
	order := func(a, b hub.UpdateEdge) int { return strings.Compare(a.To+string(a.Kind), b.To+string(b.Kind)) }
	slices.SortFunc(d.Updates, order)
	if diff := cmp.Diff(wantUpdates, d.Updates); diff != "" {
		t.Errorf("the updates differ (-want +got):\n%s", diff)
	}
	if len(d.Versions) != 3 || d.Versions[0].Version != "3.0.0" || d.Versions[2].Deprecated != "too old" || len(d.Channels) != 2 {
		t.Errorf("got versions %+v and channels %+v", d.Versions, d.Channels)
	}

	head := d.Releases[0]
	if head.Bundle != "v2" || head.Description != "# Argo\n\nArgo **deploys**." || head.Provider.URL != "" || head.Created != "not a date" {
		t.Errorf("got the release %+v", head)
	}
	if diff := cmp.Diff([]hub.PackageLink{{Name: "Docs", URL: "https://example.com/docs"}}, head.Links); diff != "" {
		t.Errorf("the links differ (-want +got):\n%s", diff)
	}
	if len(head.Examples) != 1 || head.Examples[0].Name != "example" || !strings.Contains(head.Examples[0].YAML, "kind: ArgoCD") {
		t.Errorf("got the examples %+v", head.Examples)
	}
	if !slices.Equal(head.Images, []string{"example.com/run:2"}) || len(head.Provides) != 1 {
		t.Errorf("got the images %v and the APIs %v", head.Images, head.Provides)
	}
	if missing, err := x.Details("none"); missing != nil || err != nil {
		t.Errorf("a package that is not in the catalog: got %v and error %v", missing, err)
	}
}

// A broken package does not hide the others, and broken annotations do not hide their package.
func TestBuildFromBrokenContent(t *testing.T) {
	for name, test := range map[string]struct {
		metadata          string
		packages, problem int
	}{
		"no metadata":           {`{}`, 2, 0},
		"malformed annotations": {`{"annotations":{"alm-examples":"[","operators.openshift.io/infrastructure-features":"{}","operators.openshift.io/valid-subscription":"x"}}`, 2, 0},
		"invalid metadata":      {`{"crdDescriptions":"text"}`, 2, 0},
		"not for users":         {`{"annotations":{"operators.operatorframework.io/operator-type":"non-standalone"}}`, 1, 0},
		"no object":             {`[]`, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			x := buildIndex(t, newBlobs("a", "null", test.metadata)+newBlobs("b", "null", "{}"))
			if len(x.Packages) != test.packages || len(x.Problems) != test.problem {
				t.Errorf("got packages %v and problems %q", x.Packages, x.Problems)
			}
		})
	}
}

// Catalogs with whole manifests describe packages in their ClusterServiceVersions.
func TestBuildFromManifests(t *testing.T) {
	csv := `{"kind":"ClusterServiceVersion","spec":{"displayName":"From a manifest","icon":[{"base64data":"` + pixel + `","mediatype":"image/png"}]}}`
	blobs := strings.Replace(newBlobs("a", "null", "{}"), `{"type":"olm.csv.metadata","value":{}}`,
		fmt.Sprintf(`{"type":"olm.bundle.object","value":{"data":%q}}`, base64.StdEncoding.EncodeToString([]byte(csv))), 1)
	got := buildIndex(t, blobs).Packages[0]
	if got.DisplayName != "From a manifest" || got.Icon == "" {
		t.Errorf("got %+v, want the name and the icon of the manifest", got)
	}
}

func TestIcons(t *testing.T) {
	svg := base64.StdEncoding.EncodeToString([]byte(`<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`))
	page := base64.StdEncoding.EncodeToString([]byte(`<html><script>alert(1)</script></html>`))
	large := base64.StdEncoding.EncodeToString(append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, 2<<20)...))
	for name, test := range map[string]struct{ data, declared, want string }{
		"png":                    {pixel, "image/png", "image/png"},
		"png declared as svg":    {pixel, "image/svg+xml", "image/png"},
		"svg":                    {svg, "image/svg+xml; charset=utf-8", "image/svg+xml"},
		"svg declared as png":    {svg, "image/png", ""},
		"a page":                 {page, "image/svg+xml", ""},
		"a page declared as one": {page, "text/html", ""},
		"too large":              {large, "image/png", ""},
		"nothing":                {"", "image/png", ""},
	} {
		t.Run(name, func(t *testing.T) {
			x := buildIndex(t, newBlobs("a", fmt.Sprintf(`{"base64data":%q,"mediatype":%q}`, test.data, test.declared), "{}"))
			icon, _ := x.Icon(x.Packages[0].Icon)
			if icon.Type != test.want {
				t.Errorf("got type %q, want %q", icon.Type, test.want)
			}
		})
	}
}

func TestRefuse(t *testing.T) {
	modes := func(supported string) string {
		return `{"minKubeVersion":"1.30.0","installModes":[{"type":"` + supported + `","supported":true}]}`
	}
	for name, test := range map[string]struct {
		metadata, kubernetes string
		isExtension          bool
		want                 string
	}{
		"it can":                   {modes("AllNamespaces"), "v1.36.6", true, ""},
		"one namespace":            {modes("SingleNamespace"), "v1.36.6", true, ""},
		"older versions can":       {modes("AllNamespaces"), "v1.20.0", true, ""},
		"only several namespaces":  {modes("MultiNamespace"), "v1.36.6", true, "OLM v1 cannot install it"},
		"the same in OLM Classic":  {modes("MultiNamespace"), "v1.36.6", false, ""},
		"an unknown cluster":       {modes("AllNamespaces"), "", true, ""},
		"no version is old enough": {"all", "v1.20.0", false, "It needs Kubernetes 1.30.0 or later, and this cluster runs v1.20.0."},
	} {
		t.Run(name, func(t *testing.T) {
			blobs := newBlobs("a", "null", test.metadata)
			if test.metadata == "all" {
				blobs = strings.ReplaceAll(newBlobs("a", "null", "{}"), `{"type":"olm.csv.metadata","value":{}}`, `{"type":"x","value":1}`)
				blobs = strings.ReplaceAll(blobs, `"properties":[`, `"properties":[{"type":"olm.csv.metadata","value":{"minKubeVersion":"1.30.0"}},`)
			}
			got := buildIndex(t, blobs).Packages[0]
			if refusal := got.Refuse(test.kubernetes, test.isExtension); test.want == "" && refusal != "" || !strings.Contains(refusal, test.want) {
				t.Errorf("got %q, want %q", refusal, test.want)
			}
		})
	}
}

func TestWarnPlatform(t *testing.T) {
	const metadata = `{"labels":{"operatorframework.io/arch.arm64":"supported","operatorframework.io/arch.s390x":"supported","operatorframework.io/arch.amd64":"unsupported"}}`
	const windows = `{"labels":{"operatorframework.io/os.windows":"supported"}}`
	for name, test := range map[string]struct {
		metadata              string
		architectures, system []string
		want                  string
	}{
		"supported":               {metadata, []string{"amd64", "arm64"}, nil, ""},
		"not supported":           {metadata, []string{"amd64"}, nil, "Its labels name arm64, s390x, or no architecture, and the nodes of this cluster have amd64."},
		"without a label":         {"{}", []string{"amd64"}, []string{"linux"}, ""},
		"without, on another":     {"{}", []string{"arm64", "ppc64le"}, nil, "Its labels name amd64, or no architecture, and the nodes of this cluster have arm64, ppc64le."},
		"the nodes are hidden":    {metadata, nil, nil, ""},
		"another system":          {windows, []string{"amd64"}, []string{"linux"}, "Its labels name windows, or no operating system, and the nodes of this cluster have linux."},
		"a system of one node":    {windows, []string{"amd64"}, []string{"linux", "windows"}, ""},
		"without, on one Windows": {"{}", []string{"amd64"}, []string{"windows"}, "Its labels name linux, or no operating system, and the nodes of this cluster have windows."},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := hub.Platforms{Architectures: test.architectures, OperatingSystems: test.system}
			if got := buildIndex(t, newBlobs("a", "null", test.metadata)).Packages[0].WarnPlatform(nodes); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestAddTokenAuth(t *testing.T) {
	const prefix = `"features.operators.openshift.io/token-auth-`
	const declared = `{"annotations":{` + prefix + `aws":"true",` + prefix + `gcp":"true","features.operators.openshift.io/csi":"true"}}`
	const csi = "Container Storage Interface"
	const issuer = "https://issuer.example.com"
	for name, test := range map[string]struct {
		metadata string
		config   hub.CloudConfig
		want     []string
	}{
		"the cluster uses them":            {declared, hub.CloudConfig{Platform: "AWS", ServiceAccountIssuer: issuer, CredentialsMode: "Manual"}, []string{csi, "Short-lived credentials (AWS)"}},
		"another supported cloud":          {declared, hub.CloudConfig{Platform: "GCP", ServiceAccountIssuer: issuer, CredentialsMode: "Manual"}, []string{csi, "Short-lived credentials (Google Cloud)"}},
		"a cloud that is not supported":    {declared, hub.CloudConfig{Platform: "Azure", ServiceAccountIssuer: issuer, CredentialsMode: "Manual"}, []string{csi}},
		"another platform":                 {declared, hub.CloudConfig{Platform: "BareMetal", ServiceAccountIssuer: issuer, CredentialsMode: "Manual"}, []string{csi}},
		"no issuer that the cloud trusts":  {declared, hub.CloudConfig{Platform: "AWS", CredentialsMode: "Manual"}, []string{csi}},
		"long-lived credentials":           {declared, hub.CloudConfig{Platform: "AWS", ServiceAccountIssuer: issuer, CredentialsMode: "Mint"}, []string{csi}},
		"the default mode of credentials":  {declared, hub.CloudConfig{Platform: "AWS", ServiceAccountIssuer: issuer}, []string{csi}},
		"an unknown configuration":         {declared, hub.CloudConfig{}, []string{csi}},
		"the annotation has another value": {`{"annotations":{` + prefix + `azure":"yes"}}`, hub.CloudConfig{Platform: "Azure", ServiceAccountIssuer: issuer, CredentialsMode: "Manual"}, nil},
		"the older annotation":             {`{"annotations":{"operators.openshift.io/infrastructure-features":"[\"tokenAuth\",\"tokenAuthAzure\"]"}}`, hub.CloudConfig{Platform: "Azure", ServiceAccountIssuer: issuer, CredentialsMode: "Manual"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			x := buildIndex(t, newBlobs("a", "null", test.metadata))
			d, err := x.Details("a")
			if err != nil {
				t.Fatal(err)
			}
			before := slices.Clone(x.Packages[0].Features)
			d.AddTokenAuth(test.config.TokenAuthCloud())
			if !slices.Equal(d.Features, test.want) || !slices.Equal(d.Releases[0].Features, test.want) {
				t.Errorf("got the features %q, and %q of the version, want %q", d.Features, d.Releases[0].Features, test.want)
			}
			if !slices.Equal(x.Packages[0].Features, before) {
				t.Errorf("got %q in the shared index, want %q as before", x.Packages[0].Features, before)
			}
		})
	}
}

// sharedCatalogs returns the folder shared/data/fbc next to the repository. The test is skipped without it.
func sharedCatalogs(t *testing.T) fs.FS {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for dir := here; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if root := filepath.Join(dir, "shared", "data", "fbc"); isFolder(root) {
			return os.DirFS(root)
		}
	}
	t.Skip("there is no folder shared/data/fbc next to the repository")
	return nil
}

func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// Every package of real catalogs has the fields that a tile shows.
func TestBuildFromRealCatalogs(t *testing.T) {
	x, err := hub.Build("real", fbc.Walk(sharedCatalogs(t), fbc.Limits{}))
	if err != nil || len(x.Problems) > 0 {
		t.Fatalf("got error %v and problems %q", err, x.Problems)
	}
	for _, p := range x.Packages {
		d, err := x.Details(p.Name)
		if err != nil {
			t.Fatal(err)
		}
		order := map[string]int{}
		for i, version := range d.Versions {
			order[version.Name] = i
		}
		for _, update := range d.Updates {
			if order[update.To] > order[update.From] {
				t.Errorf("package %s: got an update from %s back to %s", p.Name, update.From, update.To)
			}
		}
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		_, hasIcon := x.Icon(p.Icon)
		if p.DisplayName == "" || p.Provider == "" || p.Description == "" || p.Version == "" || !hasIcon || len(d.Releases) == 0 || len(d.Updates) == 0 {
			t.Errorf("package %s: got %s, want all fields of a page", p.Name, text[:min(len(text), 2000)])
		}
	}
}

func BenchmarkBuild(b *testing.B) {
	var blobs strings.Builder
	for i := range 5000 {
		blobs.WriteString(newBlobs(fmt.Sprintf("package-%d", i), "null", fullMetadata))
	}
	for b.Loop() {
		x := buildIndex(b, blobs.String())
		text, err := json.Marshal(x.Packages)
		if err != nil || len(x.Packages) != 5000 {
			b.Fatalf("got %d packages and error %v", len(x.Packages), err)
		}
		b.ReportMetric(float64(len(text)), "json-bytes")
	}
}

func TestIsActive(t *testing.T) {
	const open = `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">`
	for content, want := range map[string]bool{
		open + `<defs><linearGradient id="a"/></defs><g fill="url(#a)"><path d="M0 0"/><use xlink:href="#a"/></g></svg>`: false,
		`<?xml version="1.0"?><!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "x">` + open + `</svg>`:                     false,
		open + `<image href="data:image/png;base64,AAAA"/></svg>`:                                                        false,
		open + `<sodipodi:namedview xmlns:sodipodi="http://example.com"/></svg>`:                                         false,
		open + `<script>alert(1)</script></svg>`:                                                                         true,
		open + `<svg:script>alert(1)</svg:script></svg>`:                                                                 true,
		open + `<x:script xmlns:x="http://www.w3.org/2000/svg">alert(1)</x:script></svg>`:                                true,
		open + `<x:foreignObject xmlns:x="http://www.w3.org/2000/svg"/></svg>`:                                           true,
		open + `<path onclick="alert(1)"/></svg>`:                                                                        true,
		open + `<path ONLOAD="alert(1)"/></svg>`:                                                                         true,
		open + `<a href="javascript:alert(1)"><path/></a></svg>`:                                                         true,
		open + `<use href="other.svg#a"/></svg>`:                                                                         true,
		open + `<image href="data:image/svg+xml,&lt;svg/&gt;"/></svg>`:                                                   true,
		open + `<foreignObject><iframe/></foreignObject></svg>`:                                                          true,
		open + `<x:body xmlns:x="http://www.w3.org/1999/xhtml"/></svg>`:                                                  true,
		open + `<set attributeName="href" to="javascript:alert(1)"/></svg>`:                                              true,
		`<?xml-stylesheet href="a.css"?>` + open + `</svg>`:                                                              true,
		`<!DOCTYPE svg [<!ENTITY a "<script/>">]>` + open + `&a;</svg>`:                                                  true,
		open + `<path`: true,
	} {
		icon, ok := hub.NewIcon("image/svg+xml", []byte(content))
		if !ok {
			t.Errorf("%s: got no icon", content)
		}
		if got := icon.IsActive(); got != want {
			t.Errorf("%s: got active %t, want %t", content, got, want)
		}
	}
}
