package releases

import (
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/release"
	"github.com/mainstay-dev/mainstay/internal/releaseimage"
)

// loadManifests loads manifests as part of a payload.
func loadManifests(t *testing.T, files map[string]string) []release.Manifest {
	t.Helper()
	fsys := fstest.MapFS{
		"manifests/none":                     {},
		"release-manifests/release-metadata": {Data: []byte(`{"kind":"cincinnati-metadata-v0","version":"1.0.0"}`)},
		"release-manifests/image-references": {Data: []byte(`{"kind":"ImageStream","apiVersion":"image.openshift.io/v1","metadata":{"name":"1.0.0"}}`)},
	}
	for name, content := range files {
		fsys["release-manifests/"+name] = &fstest.MapFile{Data: []byte(content)}
	}

	payload, err := release.Load(fsys, release.Options{})
	if err != nil {
		t.Fatal(err)
	}

	return payload.Manifests
}

func newManifest(kind, name, more string) string {
	return "apiVersion: cloudcredential.openshift.io/v1\nkind: " + kind + "\nmetadata:\n  name: " + name +
		"\n  annotations:\n    include.release.openshift.io/self-managed-high-availability: \"true\"\n" + more
}

func joinNames(found []release.Manifest) string {
	var names []string
	for _, m := range found {
		names = append(names, m.Object.GetName())
	}
	return strings.Join(names, " ")
}

func TestSelectManifests(t *testing.T) {
	all := loadManifests(t, map[string]string{
		"a.yaml": newManifest("CredentialsRequest", "aws", "spec:\n  providerSpec:\n    kind: AWSProviderSpec\n"),
		"b.yaml": newManifest("CredentialsRequest", "gcp", "spec:\n  providerSpec:\n    kind: GCPProviderSpec\n"),
		"c.yaml": newManifest("Other", "console", "    capability.openshift.io/name: Console\n"),
		"d.yaml": newManifest("Other", "preview", "    release.openshift.io/feature-set: TechPreviewNoUpgrade\n"),
		"e.yaml": newManifest("Other", "gated", "    release.openshift.io/feature-gate: Shiny\n"),
		"f.yaml": strings.ReplaceAll(newManifest("Other", "hosted", ""), "self-managed-high-availability", "hosted"),
	})

	payload := &release.Payload{Manifests: all, Metadata: release.Metadata{Version: "1.0.0"}}
	tests := map[string]struct {
		extract Extract
		config  string
		want    string
	}{
		"all":                 {Extract{}, "", "aws gcp console preview gated hosted"},
		"requests":            {Extract{CredentialsRequests: true}, "", "aws gcp"},
		"requests of a cloud": {Extract{CredentialsRequests: true, Cloud: "gcp"}, "", "gcp"},
		"a cluster":           {Extract{Included: &Included{}}, "", "aws gcp console"},
		"another profile":     {Extract{Included: &Included{Profile: "hosted"}}, "", "hosted"},
		"no capability":       {Extract{Included: &Included{Capabilities: []string{}}}, "", "aws gcp"},
		"a feature set":       {Extract{Included: &Included{FeatureSet: "TechPreviewNoUpgrade"}}, "", "aws gcp console preview"},
		"a gate":              {Extract{Included: &Included{FeatureGates: []string{"Shiny"}}}, "", "aws gcp console gated"},
		"an install-config":   {Extract{Included: &Included{}}, "featureSet: TechPreviewNoUpgrade\nfeatureGates: [Shiny=true, Dull=false]\ncapabilities: {baselineCapabilitySet: None}\n", "aws gcp preview gated"},
		"some capabilities":   {Extract{Included: &Included{}}, "capabilities: {baselineCapabilitySet: None, additionalEnabledCapabilities: [Console]}\n", "aws gcp console"},
		"an older set":        {Extract{Included: &Included{}}, "capabilities: {baselineCapabilitySet: v4.12}\n", "aws gcp console"},
		"the oldest set":      {Extract{Included: &Included{}}, "capabilities: {baselineCapabilitySet: v4.11}\n", "aws gcp"},
		"the newest set":      {Extract{Included: &Included{}}, "capabilities: {baselineCapabilitySet: vCurrent}\n", "aws gcp console"},
		"no restriction":      {Extract{Included: &Included{}}, "metadata: {name: x}\n", "aws gcp console"},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.config != "" {
				included, err := test.extract.Included.mergeInstallConfig([]byte(test.config))
				if err != nil {
					t.Fatal(err)
				}
				test.extract.Included = &included
			}
			chosen, err := test.extract.selectManifests(payload)
			if got := joinNames(chosen); err != nil || got != test.want {
				t.Errorf("got %s (%v), want %s", got, err, test.want)
			}
		})
	}

	for _, bad := range []string{"featureGates: [x]", "featureGates: [x=yes]", "capabilities: {baselineCapabilitySet: v9}", "featureSet: [", "featureSet: {}"} {
		if _, err := (Included{}).mergeInstallConfig([]byte(bad)); err == nil {
			t.Errorf("%s: got no error, want one", bad)
		}
	}
}

func TestCompareImages(t *testing.T) {
	image := func(name, digest, commit string) ReleaseImage {
		return ReleaseImage{Name: name, Digest: digest, Commit: commit}
	}
	changes := compareImages(
		[]ReleaseImage{image("changed", "1", "a"), image("rebuilt", "1", "a"), image("removed", "1", ""), image("same", "1", ""), image("unknown", "1", "")},
		[]ReleaseImage{image("added", "1", ""), image("changed", "2", "b"), image("rebuilt", "2", "a"), image("same", "1", ""), image("unknown", "2", "")},
	)
	got := map[string]string{}
	for _, change := range changes {
		got[change.Name] = change.Change
	}

	want := map[string]string{"added": ImageAdded, "changed": ImageChanged, "rebuilt": ImageRebuilt, "removed": ImageRemoved, "unknown": ImageChanged}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCollectComponents(t *testing.T) {
	tag := func(versions, titles string) release.ImageTag {
		return release.ImageTag{Annotations: map[string]string{release.AnnotationVersions: versions, release.AnnotationVersionNames: titles}}
	}
	var r Release
	r.collectComponents([]release.ImageTag{tag("kubernetes=1.1.0,machine-os=9.0.0", ""), tag("machine-os=9.0.0", "machine-os=An OS"), tag("kubernetes=1.2.0", "")})
	want := map[string]Component{"kubernetes": {Version: "1.2.0"}, "machine-os": {Version: "9.0.0", Title: "An OS"}}
	if diff := cmp.Diff(want, r.Components); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"component kubernetes has the versions 1.1.0 and 1.2.0"}, r.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestParseMappings(t *testing.T) {
	got, err := ParseMappings("# images\n\na=r/a:v1\n  b=r/b@sha256:x \n")
	want := []releaseimage.Mapping{{Name: "a", Image: "r/a:v1"}, {Name: "b", Image: "r/b@sha256:x"}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("(-want +got): %v\n%s", err, diff)
	}

	_, err = ParseMappings("a\nb=\n=c\n")
	if err == nil || strings.Count(err.Error(), "must be written as NAME=IMAGE") != 3 || !strings.HasPrefix(err.Error(), "line 1: ") {
		t.Errorf("got %v", err)
	}
}

func TestSetDefaultName(t *testing.T) {
	a := New{Now: func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }}
	if a.setDefaultName(); a.Build.Name != "0.0.1-2026-01-02-030405" {
		t.Errorf("got %s", a.Build.Name)
	}
}

func TestSentence(t *testing.T) {
	signed := time.Date(2022, 8, 8, 9, 10, 11, 0, time.UTC)
	for want, e := range map[string]Extracted{
		"Extracted release payload from digest sha256:aa created at 2022-08-08T09:10:11Z": {Digest: "sha256:aa", Created: signed},
		"Extracted release payload created at 2022-08-08T09:10:11Z":                       {Created: signed},
	} {
		if got := e.Summary(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
