package install

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/blang/semver/v4"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/resolve"
	"github.com/mainstay-dev/mainstay/internal/resolve/dependency"
)

func newProperty(propertyType, value string) fbc.Property {
	return fbc.Property{Type: propertyType, Value: json.RawMessage(value)}
}

// newRecordedRevision returns a revision of a bundle with the annotations that an extension
// records.
func newRecordedRevision(t *testing.T, release string, properties ...fbc.Property) olmv1.ClusterObjectSet {
	t.Helper()
	chosen := selection{Name: "a.v1", Version: "1.0.0", Release: release, Image: "quay.io/a:v1", properties: properties}
	bundle, err := newDependencyBundle("a", chosen, properties)
	if err != nil {
		t.Fatal(err)
	}

	ext := &olmv1.ClusterExtension{Spec: olmv1.ClusterExtensionSpec{Source: olmv1.SourceConfig{Catalog: &olmv1.CatalogFilter{PackageName: "a"}}}}
	annotations, err := newRevisionAnnotations(ext, chosen, bundle, "quay.io/a@sha256:0", "inputs")
	if err != nil {
		t.Fatal(err)
	}

	set := parseRevision("1S")
	set.Annotations = annotations
	return set
}

func TestWhatIsRecordedIsReadBack(t *testing.T) {
	set := newRecordedRevision(t, "3",
		newProperty("olm.package", `{"packageName":"a","version":"1.0.0"}`),
		newProperty("olm.csv.metadata", `{"large":true}`),
		newProperty("fast", `"yes"`),
		newProperty("olm.gvk", `{"version":"v1","kind":"K","group":"g"}`),
		newProperty("olm.gvk.required", `{"group":"g","kind":"L","version":"v1"}`))

	want := map[string]string{
		olmv1.AnnotationPackageName: "a", olmv1.AnnotationBundleName: "a.v1", olmv1.AnnotationBundleVersion: "1.0.0", olmv1.AnnotationBundleRelease: "3",
		olmv1.AnnotationBundleReference: "quay.io/a@sha256:0", annotationImage: "quay.io/a:v1", annotationInputs: "inputs",
		olmv1.AnnotationProvides: `[{"type":"olm.gvk","value":{"group":"g","kind":"K","version":"v1"}},{"type":"fast","value":"yes"}]`,
		olmv1.AnnotationRequires: `[{"type":"olm.gvk.required","value":{"group":"g","kind":"L","version":"v1"}}]`,
	}
	if diff := cmp.Diff(want, set.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&resolve.Installed{Name: "a.v1", Version: "1.0.0", Release: "3"}, bundleMetadata(&set)); diff != "" {
		t.Errorf("the installed bundle (-want +got):\n%s", diff)
	}

	b := bundleFromRevision(&set)
	var got []string
	for _, p := range b.Properties {
		got = append(got, p.Type+" "+string(p.Value))
	}

	wantProperties := []string{
		`olm.package {"packageName":"a","version":"1.0.0","release":"3"}`, `olm.gvk {"group":"g","kind":"K","version":"v1"}`, `fast "yes"`,
		`olm.gvk.required {"group":"g","kind":"L","version":"v1"}`,
	}
	if diff := cmp.Diff(wantProperties, got); diff != "" {
		t.Errorf("properties that are read back (-want +got):\n%s", diff)
	}

	plain := newRecordedRevision(t, "")
	for _, key := range []string{olmv1.AnnotationProvides, olmv1.AnnotationRequires, olmv1.AnnotationBundleRelease} {
		if value, ok := plain.Annotations[key]; ok {
			t.Errorf("got %s: %s of a bundle that provides and requires nothing", key, value)
		}
	}
}

// TestWhatIsRecordedIsBounded: other clients may write annotations, and bundles may have
// large properties.
func TestWhatIsRecordedIsBounded(t *testing.T) {
	var properties []fbc.Property
	for i := range 100 {
		properties = append(properties, newProperty("large", fmt.Sprintf(`"%d%s"`, i, strings.Repeat("x", 10<<10))))
	}

	properties = append(properties, newProperty("olm.gvk", `{"group":"g","kind":"K","version":"v1"}`))
	set := newRecordedRevision(t, "", properties...)
	provides := set.Annotations[olmv1.AnnotationProvides]
	if len(provides) > maxProvidesBytes || len(provides) < maxProvidesBytes/2 || !strings.HasPrefix(provides, `[{"type":"olm.gvk"`) {
		t.Errorf("got %d recorded bytes: %.100s", len(provides), provides)
	}

	b := dependency.NewBundle("a", "a", semver.MustParse("1.0.0"), []fbc.Property{
		newProperty("olm.constraint", `{"failureMessage":"`+strings.Repeat("x", 60<<10)+`"}`),
		newProperty("olm.constraint", `{"failureMessage":"`+strings.Repeat("y", 60<<10)+`"}`),
	})
	if _, err := dependencyAnnotations(b); err == nil || !strings.Contains(err.Error(), "at most 98304 can be recorded") {
		t.Errorf("120 KiB of requirements: got error %v", err)
	}

	for _, text := range []string{"{", `[{"type":"olm.gvk.required","value":{}}]`, "null", "[1]"} {
		odd := newRecordedRevision(t, "")
		odd.Annotations[olmv1.AnnotationRequires], odd.Annotations[olmv1.AnnotationProvides] = text, text
		change := dependency.Change{Before: bundleFromRevision(&set), Others: []*dependency.Bundle{bundleFromRevision(&odd)}}
		if breaks := change.Breaks(); len(breaks) != 0 {
			t.Errorf("%s: %v", text, breaks)
		}
	}

	odd := set
	odd.Annotations = map[string]string{olmv1.AnnotationBundleVersion: "one"}
	if b := bundleFromRevision(&odd); b != nil {
		t.Errorf("got %v of a revision of another extension", b)
	}
}

func TestInstalledBundlesStayAsTheyAre(t *testing.T) {
	installed := newRecordedRevision(t, "")
	same := selection{Name: "a.v1", Version: "1.0.0", Image: "quay.io/a:other"}
	if got := same.pinnedToInstalled(&installed); got.Image != "quay.io/a:v1" || got.pinned != "quay.io/a@sha256:0" {
		t.Errorf("got the installed bundle %+v", got)
	}

	for name, other := range map[string]selection{
		"another version": {Name: "a.v1", Version: "1.0.1", Image: "quay.io/a:other"},
		"another release": {Name: "a.v1", Version: "1.0.0", Release: "1", Image: "quay.io/a:other"},
		"another name":    {Name: "b.v1", Version: "1.0.0", Image: "quay.io/a:other"},
	} {
		if got := other.pinnedToInstalled(&installed); got.Image != "quay.io/a:other" || got.pinned != "" {
			t.Errorf("%s: got the installed bundle %+v", name, got)
		}
	}

	if got := same.pinnedToInstalled(nil); got.Image != "quay.io/a:other" {
		t.Errorf("without an installed bundle: got %+v", got)
	}
}

func TestTranslateRange(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "",
		">=1.0.0 <2.0.0":             ">=1.0.0 <2.0.0",
		">1.0.0 !1.2.1":              ">1.0.0 !=1.2.1",
		"==1.0.0 || !=2.0.0-rc.1":    "=1.0.0 || !=2.0.0-rc.1",
		"1.2.3":                      "1.2.3",
		"1.x":                        "",
		">= 1.0.0":                   "",
		"<1.0.0+build":               "",
		strings.Repeat("!1.0.0 ", 9): "",
	} {
		got := translateVersionRange(text)
		if got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
		if _, err := resolve.ParseConstraint(got); err != nil {
			t.Errorf("%q: got %q, which is not a range: %v", text, got, err)
		}
	}
}

// TestExtensionFor: the extension of a dependency chooses the bundle of the plan.
func TestExtensionFor(t *testing.T) {
	content := func(versions ...string) *fbc.Content {
		c := &fbc.Content{Package: &fbc.Package{Name: "a", DefaultChannel: "stable"}, Channels: []fbc.Channel{{Name: "stable"}}}
		for _, version := range versions {
			c.Channels[0].Entries = append(c.Channels[0].Entries, fbc.ChannelEntry{Name: "a.v" + version})
			c.Bundles = append(c.Bundles, fbc.Bundle{Name: "a.v" + version, Package: "a", Properties: []fbc.Property{
				newProperty("olm.package", fmt.Sprintf(`{"packageName":"a","version":%q}`, version))}})
		}
		return c
	}

	one := []resolve.Catalog{{Name: "one", Content: content("1.0.0", "1.5.0", "2.0.0")}}
	two := append([]resolve.Catalog{{Name: "two", Content: content("1.0.0", "1.5.0")}}, one...)
	asking := &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
	asking.Spec.Namespace = "ns"
	asking.Spec.ServiceAccount = &olmv1.ServiceAccountReference{Name: "installer"}
	asking.Spec.Source.Catalog = &olmv1.CatalogFilter{PackageName: "x", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"k": "v"}}}
	for _, tc := range []struct {
		name, version, versions string
		catalogs                []resolve.Catalog
		want, labels            string
	}{
		{"the highest", "2.0.0", "", one, "", "map[k:v]"},
		{"the highest of a range", "1.5.0", ">=1.0.0 <2.0.0", one, ">=1.0.0 <2.0.0", "map[k:v]"},
		{"not the highest", "1.0.0", "", one, "1.0.0", "map[k:v]"},
		{"a range that cannot be written", "1.5.0", "1.x", one, "1.5.0", "map[k:v]"},
		{"two catalogs of one priority", "1.5.0", "<2.0.0", two, "<2.0.0", "map[k:v olm.operatorframework.io/metadata.name:one]"},
	} {
		b := dependency.NewBundle("a.v"+tc.version, "a", semver.MustParse(tc.version), nil)
		b.Catalog, b.Channel = "one", "stable"
		got := newDependencyExtension(asking, b, tc.versions, tc.catalogs)
		filter := got.Spec.Source.Catalog
		if filter.Version != tc.want || fmt.Sprint(filter.Selector.MatchLabels) != tc.labels || fmt.Sprint(filter.Channels) != "[stable]" {
			t.Errorf("%s: got %+v with the labels %v", tc.name, filter, filter.Selector.MatchLabels)
		}
		if got.Name != "a" || got.Spec.Namespace != "ns" || got.Spec.ServiceAccount.Name != "installer" || got.Spec.Install != nil {
			t.Errorf("%s: %+v", tc.name, got)
		}
	}

	if labels := asking.Spec.Source.Catalog.Selector.MatchLabels; len(labels) != 1 {
		t.Errorf("the selector of the requiring extension was changed: %v", labels)
	}
}
