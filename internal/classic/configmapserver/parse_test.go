package configmapserver_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/internal/classic/configmapserver"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// names returns the blobs of a catalog, as SCHEMA PACKAGE/NAME.
func names(catalog *configmapserver.Catalog) []string {
	var found []string
	for _, blob := range catalog.Blobs {
		found = append(found, blob.Schema+" "+blob.PackageName()+"/"+blob.Name)
	}
	return found
}

var (
	kettleBlobs = []string{
		"olm.package kettle/kettle", "olm.bundle kettle/kettle.v1.1.0", "olm.bundle kettle/kettle.v1.0.0", "olm.bundle kettle/kettle.v2.0.0",
		"olm.channel kettle/stable", "olm.channel kettle/next",
	}
	toasterBlobs = []string{"olm.package toaster/toaster", "olm.bundle toaster/toaster.v0.1.0", "olm.channel toaster/alpha"}
)

func TestParse(t *testing.T) {
	catalog, err := configmapserver.Parse(twoPackages())
	if err != nil || len(catalog.Warnings) > 0 {
		t.Fatalf("got %v, warnings %q, want a catalog", err, catalog.Warnings)
	}
	if diff := cmp.Diff(slices.Concat(kettleBlobs, toasterBlobs), names(catalog)); diff != "" {
		t.Errorf("blobs (-want +got):\n%s", diff)
	}

	channel, err := fbc.DecodeChannel(catalog.Blobs[5])
	if err != nil {
		t.Fatal(err)
	}
	want := []fbc.ChannelEntry{
		{Name: "kettle.v2.0.0", Replaces: "kettle.v1.1.0", Skips: []string{"kettle.v1.0.0"}}, {Name: "kettle.v1.1.0", Replaces: "kettle.v1.0.0"}, {Name: "kettle.v1.0.0"},
	}
	if diff := cmp.Diff(want, channel.Entries); diff != "" {
		t.Errorf("entries of channel next (-want +got):\n%s", diff)
	}
}

// The ConfigMap in the documentation is a valid catalog.
func TestDocumentedConfigMap(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "kinds", "catalogsource.md"))
	if err != nil {
		t.Fatal(err)
	}

	_, rest, _ := strings.Cut(string(page), "## A catalog in a ConfigMap")
	_, rest, _ = strings.Cut(rest, "```yaml\n")
	example, _, _ := strings.Cut(rest, "```")
	var configMap corev1.ConfigMap
	if err := yaml.UnmarshalStrict([]byte(example), &configMap); err != nil {
		t.Fatal(err)
	}

	catalog, err := configmapserver.Parse(configMap.Data)
	if err != nil || len(catalog.Warnings) > 0 {
		t.Fatalf("got %v, warnings %q, want a catalog", err, catalog.Warnings)
	}
	if diff := cmp.Diff([]string{"olm.package etcd/etcd", "olm.bundle etcd/etcdoperator.v0.9.4", "olm.channel etcd/stable"}, names(catalog)); diff != "" {
		t.Errorf("blobs (-want +got):\n%s", diff)
	}
}

func TestParseForms(t *testing.T) {
	for name, data := range map[string]map[string]string{
		"JSON": with("packages", func(string) string {
			return `[{"packageName":"toaster","channels":[{"name":"alpha","currentCSV":"toaster.v0.1.0"}]}]`
		}),
		"an indented list":  with("packages", func(s string) string { return "  " + strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n  ") }),
		"no packages":       {"packages": ""},
		"no CRDs":           {"packages": "- {packageName: a, channels: [{name: x, currentCSV: a.v1.0.0}]}", "clusterServiceVersions": newCSV("a", "1.0.0", "")},
		"a leading newline": with("packages", func(s string) string { return "\n---\n" + s }),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := configmapserver.Parse(data); err != nil {
				t.Error(err)
			}
		})
	}
}

// Each problem names the key, the entry and what to do. The packages without a problem remain.
func TestParseProblems(t *testing.T) {
	const csvs, crds, packages = "clusterServiceVersions", "customResourceDefinitions", "packages"
	for name, test := range map[string]struct {
		data map[string]string
		want []string
		kept []string
	}{
		"no packages key": {
			data: map[string]string{csvs: ""}, want: []string{"packages: the ConfigMap does not have this key: add it to data"},
		},
		"invalid YAML": {
			data: with(packages, func(string) string { return "- {" }), want: []string{"packages: document 1: "},
		},
		"no list": {
			data: with(packages, func(string) string { return "packageName: kettle" }), want: []string{"packages: is not a list: start each entry with a dash"},
		},
		"several documents": {
			data: with(packages, func(s string) string { return s + "---\n" + s }), want: []string{"packages: holds 2 documents, it must hold one list"},
		},
		"an entry that is not an object": {
			data: with(packages, func(s string) string { return "- kettle\n-\n" + s }),
			want: []string{"packages[0]: is not an object: ", "packages[1]: is not an object: is empty"}, kept: slices.Concat(kettleBlobs, toasterBlobs),
		},
		"a package without name": {
			data: with(packages, replaced(t, "packageName: kettle", "name: kettle")), want: []string{"packages[0]: packageName is missing"}, kept: toasterBlobs,
		},
		"a field of a wrong type": {
			data: with(packages, replaced(t, "packageName: toaster", "packageName: [toaster]")), want: []string{"packages[1]: a field has a wrong type: "}, kept: kettleBlobs,
		},
		"the same package twice": {
			data: with(packages, replaced(t, "packageName: toaster", "packageName: kettle")),
			want: []string{"packages[1] (kettle): another entry has the same packageName: merge the channels of both"}, kept: kettleBlobs,
		},
		"no channels": {
			data: with(packages, func(string) string { return "- packageName: a" }),
			want: []string{"packages[0] (a): channels is empty: add a channel with a name and a currentCSV"},
		},
		"a channel without name": {
			data: with(packages, replaced(t, "name: next", "title: next")), want: []string{"packages[0] (kettle): channels[1]: name is missing"}, kept: toasterBlobs,
		},
		"the same channel twice": {
			data: with(packages, replaced(t, "name: next", "name: stable")),
			want: []string{`packages[0] (kettle): channels[1]: another channel has the name "stable": remove one of them`}, kept: toasterBlobs,
		},
		"a channel without CSV": {
			data: with(packages, replaced(t, "currentCSV: kettle.v2.0.0", "csv: kettle.v2.0.0")), want: []string{"packages[0] (kettle): channels[1] (next): currentCSV is missing"}, kept: toasterBlobs,
		},
		"an unknown CSV": {
			data: with(packages, replaced(t, "kettle.v2.0.0", "kettle.v3.0.0")),
			want: []string{`packages[0] (kettle): channels[1] (next): currentCSV "kettle.v3.0.0" is not in clusterServiceVersions: add it there, or correct the name`}, kept: toasterBlobs,
		},
		"no default channel": {
			data: with(packages, replaced(t, "defaultChannel: stable", "default: stable")),
			want: []string{"packages[0] (kettle): defaultChannel is missing: it is required if there are several channels"}, kept: toasterBlobs,
		},
		"an unknown default channel": {
			data: with(packages, replaced(t, "defaultChannel: stable", "defaultChannel: beta")),
			want: []string{`packages[0] (kettle): defaultChannel "beta" is not in channels: add it there, or correct the name`}, kept: toasterBlobs,
		},
		"another kind": {
			data: with(csvs, func(s string) string { return s + newCRD("pans", "Pan") }),
			want: []string{`clusterServiceVersions[4]: its kind is "CustomResourceDefinition": only objects of kind ClusterServiceVersion may be in this list`}, kept: slices.Concat(kettleBlobs, toasterBlobs),
		},
		"a CSV without name": {
			data: with(csvs, replaced(t, "name: toaster.v0.1.0", "title: toaster.v0.1.0")),
			want: []string{"clusterServiceVersions[3]: metadata.name is missing", `packages[1] (toaster): channels[0] (alpha): currentCSV "toaster.v0.1.0" is not in`}, kept: kettleBlobs,
		},
		"a CSV with a wrong type": {
			data: with(csvs, replaced(t, "skips: [kettle.v1.0.0]", "skips: kettle.v1.0.0")),
			want: []string{"clusterServiceVersions[2] (kettle.v2.0.0): a field has a wrong type: ", "packages[0] (kettle): channels[1] (next): currentCSV"}, kept: toasterBlobs,
		},
		"the same CSV twice": {
			data: with(csvs, func(s string) string { return s + newCSV("kettle", "1.0.0", "") }),
			want: []string{"clusterServiceVersions[4] (kettle.v1.0.0): clusterServiceVersions[0] has the same name: remove one of them"}, kept: slices.Concat(kettleBlobs, toasterBlobs),
		},
		"no version": {
			data: with(csvs, replaced(t, "    version: 0.1.0\n", "")), want: []string{"packages[1] (toaster): clusterServiceVersions[3] (toaster.v0.1.0): spec.version is missing: add a semantic version, such as 1.2.3"}, kept: kettleBlobs,
		},
		"a CRD without name": {
			data: with(crds, replaced(t, "name: toasters.example.com", "title: toasters")),
			want: []string{"customResourceDefinitions[1]: metadata.name is missing", `packages[1] (toaster): clusterServiceVersions[3] (toaster.v0.1.0): it owns CustomResourceDefinition "toasters.example.com", which is not in customResourceDefinitions: add it there, or remove it from`},
			kept: kettleBlobs,
		},
		"a CRD without the version": {
			data: with(crds, replaced(t, "- name: v1\n", "- name: v2\n")), want: []string{"packages[0] (kettle): clusterServiceVersions[1] (kettle.v1.1.0): error checking provided apis"}, kept: toasterBlobs,
		},
		"a cycle": {
			data: with(csvs, replaced(t, "replaces: kettle.v1.0.0", "replaces: kettle.v2.0.0")), want: []string{"packages[0] (kettle): invalid index:"}, kept: toasterBlobs,
		},
	} {
		t.Run(name, func(t *testing.T) {
			catalog, err := configmapserver.Parse(test.data)
			var problems configmapserver.Problems
			if !errors.As(err, &problems) {
				t.Fatalf("got %v, want problems", err)
			}

			var got []string
			for _, problem := range problems {
				got = append(got, problem.Error())
			}
			isSame := slices.EqualFunc(got, test.want, strings.HasPrefix)
			if !isSame {
				t.Errorf("got %q, want problems that start with %q", got, test.want)
			}
			if diff := cmp.Diff(test.kept, names(catalog)); diff != "" {
				t.Errorf("blobs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseWarnings(t *testing.T) {
	data := with("clusterServiceVersions", func(s string) string { return s + newCSV("pan", "1.0.0", "") })
	data["package"] = ""
	catalog, err := configmapserver.Parse(data)
	if err != nil {
		t.Fatal(err)
	}

	want := []string{
		"clusterServiceVersions[4] (pan.v1.0.0) is ignored: no channel contains it",
		`the key "package" is ignored: the keys of a catalog are customResourceDefinitions, clusterServiceVersions and packages`,
	}
	if diff := cmp.Diff(want, catalog.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

// A small ConfigMap cannot describe a catalog that fills the memory.
func TestParseLimits(t *testing.T) {
	large := map[string]string{"packages": strings.Repeat("#", 5<<20)}
	if _, err := configmapserver.Parse(large); err == nil || !strings.Contains(err.Error(), "use a catalog image") {
		t.Errorf("got %v, want an error for a ConfigMap of 5 MiB", err)
	}

	var csvs, channels strings.Builder
	for i := range 200 {
		csvs.WriteString(newCSV("kettle", fmt.Sprintf("1.0.%d", i), fmt.Sprintf("    replaces: kettle.v1.0.%d\n", i-1)+owned("kettles", "Kettle")))
	}
	crd := replaced(t, "type: object", "type: object, description: "+strings.Repeat("x", 500<<10))(newCRD("kettles", "Kettle"))
	data := map[string]string{
		"customResourceDefinitions": crd, "clusterServiceVersions": csvs.String(),
		"packages": "- {packageName: kettle, channels: [{name: stable, currentCSV: kettle.v1.0.199}]}",
	}
	if _, err := configmapserver.Parse(data); err == nil || !strings.Contains(err.Error(), "the catalog has more than 67108864 bytes") {
		t.Errorf("got %v, want an error for copies of a large CRD", err)
	}

	for i := range 600 {
		fmt.Fprintf(&channels, "  - {name: c%d, currentCSV: kettle.v1.0.199}\n", i)
	}
	data["customResourceDefinitions"] = newCRD("kettles", "Kettle")
	data["packages"] = "- packageName: kettle\n  defaultChannel: c0\n  channels:\n" + channels.String()
	if _, err := configmapserver.Parse(data); err == nil || !strings.Contains(err.Error(), "more than 100000 entries") {
		t.Errorf("got %v, want an error for 120,000 entries", err)
	}

	aliases := "a: &a [" + strings.Repeat("x,", 1000) + "]\nb: &b [" + strings.Repeat("*a,", 1000) + "]\nc: [" + strings.Repeat("*b,", 1000) + "]\n"
	if _, err := configmapserver.Parse(map[string]string{"packages": aliases}); err == nil || !strings.Contains(err.Error(), "aliases") {
		t.Errorf("got %v, want an error for aliases that expand to gigabytes", err)
	}
}
