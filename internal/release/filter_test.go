package release_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mainstay-dev/mainstay/internal/release"
)

// newManifest returns a manifest of a kind as in "ConfigMap.v1" or "Deployment.v1.apps", with
// annotations as in "a=b". "+" stands for the annotation of the default profile.
func newManifest(kind, name string, annotations ...string) release.Manifest {
	parts := strings.SplitN(kind, ".", 3)
	apiVersion := parts[1]
	if len(parts) == 3 {
		apiVersion = parts[2] + "/" + parts[1]
	}

	object := unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": parts[0]}}
	object.SetName(name)
	values := map[string]string{}
	for _, annotation := range annotations {
		if annotation == "+" {
			annotation = release.AnnotationIncludePrefix + release.DefaultProfile + "=true"
		}
		key, value, _ := strings.Cut(annotation, "=")
		values[key] = value
	}

	if len(values) > 0 {
		object.SetAnnotations(values)
	}

	return release.Manifest{File: "release-manifests/" + name + ".yaml", Document: 1, Raw: []byte(name), Object: object}
}

const (
	configMapKind   = "ConfigMap.v1"
	crdKind         = "CustomResourceDefinition.v1.apiextensions.k8s.io"
	featureGateKind = "FeatureGate.v1.config.openshift.io"
)

func TestClusterExcludes(t *testing.T) {
	preview := release.Cluster{FeatureSet: "TechPreviewNoUpgrade"}
	gates := release.Cluster{FeatureGates: sets.New("On", "Also")}
	five := release.Cluster{MajorVersion: 5}
	const (
		set   = release.AnnotationFeatureSet
		gate  = release.AnnotationFeatureGate
		major = release.AnnotationMajorVersion
	)
	for _, tc := range []struct {
		name        string
		cluster     release.Cluster
		kind        string
		annotations []string
		// want is the reason of the exclusion. It is empty if the manifest is included.
		want string
	}{
		{"no annotations", release.Cluster{}, configMapKind, nil, "has no annotations, so that it belongs to no profile"},
		{"no profile", release.Cluster{}, configMapKind, []string{"a=b"}, `does not belong to the profile "self-managed-high-availability"`},
		{"another profile", release.Cluster{}, configMapKind, []string{"include.release.openshift.io/single-node=true"}, `does not belong to the profile "self-managed-high-availability"`},
		{"profile not true", release.Cluster{}, configMapKind, []string{"include.release.openshift.io/self-managed-high-availability=True"}, `does not belong to the profile "self-managed-high-availability"`},
		{"default profile", release.Cluster{}, configMapKind, []string{"+"}, ""},
		{"named profile", release.Cluster{Profile: "single-node"}, configMapKind, []string{"include.release.openshift.io/single-node=true"}, ""},
		{"only the default profile", release.Cluster{Profile: "single-node"}, configMapKind, []string{"+"}, `does not belong to the profile "single-node"`},

		{"excluded", release.Cluster{ExcludeIdentifier: "x"}, configMapKind, []string{"+", "exclude.release.openshift.io/x=true"}, "is excluded by exclude.release.openshift.io/x"},
		{"excluded elsewhere", release.Cluster{ExcludeIdentifier: "x"}, configMapKind, []string{"+", "exclude.release.openshift.io/y=true"}, ""},
		{"not quite excluded", release.Cluster{ExcludeIdentifier: "x"}, configMapKind, []string{"+", "exclude.release.openshift.io/x=yes"}, ""},
		{"excluded for nobody", release.Cluster{}, configMapKind, []string{"+", "exclude.release.openshift.io/=true"}, ""},

		{"default feature set", release.Cluster{}, configMapKind, []string{"+", set + "=Default"}, ""},
		{"one of the feature sets", preview, configMapKind, []string{"+", set + "=Default,TechPreviewNoUpgrade"}, ""},
		{"other feature set", release.Cluster{}, configMapKind, []string{"+", set + "=TechPreviewNoUpgrade"}, `belongs to the feature sets "TechPreviewNoUpgrade", not to "Default"`},
		{"not the default", preview, configMapKind, []string{"+", set + "=Default"}, `belongs to the feature sets "Default", not to "TechPreviewNoUpgrade"`},
		{"no feature set", preview, configMapKind, []string{"+"}, ""},
		{"unknown feature set", release.Cluster{}, configMapKind, []string{"+", set + "=Default,Other"}, `names the feature set "Other" in release.openshift.io/feature-set, which is not known`},
		{"unknown feature set of the cluster", release.Cluster{FeatureSet: "Other"}, configMapKind, []string{"+", set + "=Other"}, `names the feature set "Other" in release.openshift.io/feature-set, which is not known`},
		{"empty list of feature sets", release.Cluster{}, configMapKind, []string{"+", set + "="}, `belongs to the feature sets "", not to "Default"`},
		{"feature set and gate", gates, configMapKind, []string{"+", set + "=Default", gate + "=On"}, "has release.openshift.io/feature-set and release.openshift.io/feature-gate, which exclude each other"},

		{"gate on", gates, configMapKind, []string{"+", gate + "=On"}, ""},
		{"gates on and off", gates, configMapKind, []string{"+", gate + "=On, -Off,Also"}, ""},
		{"empty items among feature sets", preview, configMapKind, []string{"+", set + "=,Default,,TechPreviewNoUpgrade,"}, ""},
		{"empty items among gates", gates, configMapKind, []string{"+", gate + "=,On,, -Off,"}, ""},
		{"gate off", gates, configMapKind, []string{"+", gate + "=On,Off"}, `needs feature gate "Off" to be on`},
		{"gate must be off", gates, configMapKind, []string{"+", gate + "=-On"}, `needs feature gate "On" to be off`},
		{"both", gates, configMapKind, []string{"+", gate + "=On,-On"}, `needs feature gate "On" to be off`},
		{"no gates known", release.Cluster{}, configMapKind, []string{"+", gate + "=-On"}, ""},

		{"major version", five, crdKind, []string{"+", major + "=4,5"}, ""},
		{"major version of a gate", five, featureGateKind, []string{"+", major + "=5"}, ""},
		{"other major version", five, crdKind, []string{"+", major + "=4"}, `belongs to the major versions "4", not to 5`},
		{"not this major version", five, crdKind, []string{"+", major + "=-5"}, `belongs to the major versions "-5", not to 5`},
		{"not another major version", five, crdKind, []string{"+", major + "=-4,-3"}, ""},
		{"in and not in", five, crdKind, []string{"+", major + "=5,-4"}, ""},
		{"neither in nor not in", five, crdKind, []string{"+", major + "=3,-4"}, `belongs to the major versions "3,-4", not to 5`},
		{"overlap", five, crdKind, []string{"+", major + "=5,4,-4"}, "has a number with and without a dash in release.openshift.io/major-version"},
		{"no number", five, crdKind, []string{"+", major + "=5,v4"}, `has "v4" in release.openshift.io/major-version, which is not a number`},
		{"two dashes", five, crdKind, []string{"+", major + "=--4"}, `has "--4" in release.openshift.io/major-version, which is not a number`},
		{"major version of another kind", five, configMapKind, []string{"+", major + "=5"}, "has release.openshift.io/major-version, which a ConfigMap may not have"},
		{"major version of a kind of the same name", five, "FeatureGate.v1.example.com", []string{"+", major + "=5"}, "has release.openshift.io/major-version, which a FeatureGate.example.com may not have"},

		{"exclusion comes first", release.Cluster{ExcludeIdentifier: "x"}, configMapKind, []string{"exclude.release.openshift.io/x=true", set + "=Other"}, "is excluded by exclude.release.openshift.io/x"},
		{"capabilities do not matter", release.Cluster{}, configMapKind, []string{"+", "capability.openshift.io/name=Unknown"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := newManifest(tc.kind, "x", tc.annotations...)
			got, excluded := tc.cluster.Excludes(m)
			if got != tc.want || excluded != (tc.want != "") {
				t.Errorf("got excluded %v, %q; want %q", excluded, got, tc.want)
			}
			if selected := tc.cluster.Select([]release.Manifest{m}); (len(selected) == 1) != (tc.want == "") {
				t.Errorf("got %d selected manifests of 1, want exclusion reason %q", len(selected), tc.want)
			}
		})
	}
}

func TestCapabilitiesExclude(t *testing.T) {
	c := release.Capabilities{Known: sets.New("A", "B", "C"), Enabled: sets.New("A", "B")}
	for value, want := range map[string]string{
		"":      "",
		"A":     "",
		"A+B":   "",
		"A+C":   `needs capability "C", which is not enabled`,
		"C+D":   `needs capability "C", which is not enabled`,
		"D":     `needs capability "D", which is not known`,
		"A+":    `needs capability "", which is not known`,
		"A,B":   `needs capability "A,B", which is not known`,
		"A + B": "",
	} {
		got, excluded := c.Excludes(newManifest(configMapKind, "x", release.AnnotationCapability+"="+value))
		if got != want || excluded != (want != "") {
			t.Errorf("%q: got excluded %v, %q; want %q", value, excluded, got, want)
		}
	}

	if _, excluded := c.Excludes(newManifest(configMapKind, "x")); excluded {
		t.Error("got a manifest without a capability excluded, want it included")
	}
}

// An update leaves no managed object without a manager.
func TestImplicitlyEnabled(t *testing.T) {
	c := release.Capabilities{Known: sets.New("A", "B"), Enabled: sets.New("A")}
	capability := func(name, value string) release.Manifest {
		return newManifest(configMapKind, name, release.AnnotationCapability+"="+value)
	}
	for name, tc := range map[string]struct {
		current, next []release.Manifest
		want          []string
	}{
		"nothing changes":             {[]release.Manifest{capability("x", "A")}, []release.Manifest{capability("x", "A")}, nil},
		"gains one":                   {[]release.Manifest{newManifest(configMapKind, "x")}, []release.Manifest{capability("x", "B")}, []string{"B"}},
		"gains more":                  {[]release.Manifest{capability("x", "A")}, []release.Manifest{capability("x", "D+A+C")}, []string{"C", "D"}},
		"gains one that is enabled":   {[]release.Manifest{newManifest(configMapKind, "x")}, []release.Manifest{capability("x", "A")}, nil},
		"was not managed":             {[]release.Manifest{capability("x", "B")}, []release.Manifest{capability("x", "B+C")}, nil},
		"is new":                      {nil, []release.Manifest{capability("x", "B")}, nil},
		"is another object":           {[]release.Manifest{newManifest("Secret.v1", "x")}, []release.Manifest{capability("x", "B")}, nil},
		"two objects, one capability": {[]release.Manifest{newManifest(configMapKind, "x"), newManifest(configMapKind, "y")}, []release.Manifest{capability("x", "B"), capability("y", "B")}, []string{"B"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.ImplicitlyEnabled(tc.current, tc.next)
			if len(got) != len(tc.want) || len(got) > 0 && !cmp.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestOverridden(t *testing.T) {
	m := newManifest("Deployment.v1.apps", "x")
	m.Object.SetNamespace("ns")
	key := release.Key{Group: "apps", Kind: "Deployment", Namespace: "ns", Name: "x"}
	for name, tc := range map[string]struct {
		override release.Override
		want     bool
	}{
		"unmanaged":         {release.Override{Key: key, Unmanaged: true}, true},
		"managed":           {release.Override{Key: key}, false},
		"another group":     {release.Override{Key: release.Key{Kind: "Deployment", Namespace: "ns", Name: "x"}, Unmanaged: true}, false},
		"another kind":      {release.Override{Key: release.Key{Group: "apps", Kind: "DaemonSet", Namespace: "ns", Name: "x"}, Unmanaged: true}, false},
		"another namespace": {release.Override{Key: release.Key{Group: "apps", Kind: "Deployment", Name: "x"}, Unmanaged: true}, false},
		"another name":      {release.Override{Key: release.Key{Group: "apps", Kind: "Deployment", Namespace: "ns", Name: "y"}, Unmanaged: true}, false},
	} {
		if got := release.Overridden(m, []release.Override{{}, tc.override}); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}

	if release.Overridden(m, nil) {
		t.Error("got overridden without overrides, want not overridden")
	}
}

func TestManifestAnnotations(t *testing.T) {
	for value, want := range map[string]bool{"true": true, "false": false, "": false, "True": false} {
		if got := newManifest(configMapKind, "x", release.AnnotationCreateOnly+"="+value).CreateOnly(); got != want {
			t.Errorf("create-only %q: got %v, want %v", value, got, want)
		}
		got, err := newManifest(configMapKind, "x", release.AnnotationDelete+"="+value).Deletes()
		if (got && err == nil) != want || (err == nil) != want {
			t.Errorf("delete %q: got %v (error %v), want %v", value, got, err, want)
		}
	}

	m := newManifest(configMapKind, "x")
	if deletes, err := m.Deletes(); deletes || err != nil || m.CreateOnly() {
		t.Errorf("a manifest without annotations: got deletes %v (error %v) and create-only %v, want neither", deletes, err, m.CreateOnly())
	}
}

func TestKeyString(t *testing.T) {
	for want, key := range map[string]release.Key{
		`Deployment.apps "ns/x"`: {Group: "apps", Kind: "Deployment", Namespace: "ns", Name: "x"},
		`Namespace "x"`:          {Kind: "Namespace", Name: "x"},
	} {
		if got := key.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
