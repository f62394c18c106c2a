package hub_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	packagesv1 "github.com/mainstay-dev/mainstay/api/packages/v1"
	"github.com/mainstay-dev/mainstay/internal/action/catalog/hub"
)

const packageManifest = `
metadata: {name: argocd, namespace: apps, labels: {operatorframework.io/arch.arm64: supported}}
status:
  catalogSource: hub
  catalogSourceNamespace: olm
  packageName: argocd
  defaultChannel: stable
  provider: {name: Argo}
  deprecation: {message: use another}
  channels:
  - name: alpha
    currentCSV: argocd.v3
    entries: [{name: argocd.v3, version: 3.0.0}, {name: argocd.v1, version: 1.0.0, deprecation: {message: too old}}]
  - name: stable
    currentCSV: argocd.v2
    deprecation: {message: use alpha}
    currentCSVDesc:
      displayName: Argo CD
      version: 2.0.0
      minKubeVersion: 1.99.0
      description: text
      annotations: {categories: Delivery, alm-examples: "["}
    entries: [{name: argocd.v2, version: 2.0.0}, {name: argocd.v1, version: 1.0.0, deprecation: {message: too old}}]
`

func readManifest(t *testing.T, text string) *packagesv1.PackageManifest {
	t.Helper()
	var m packagesv1.PackageManifest
	if err := yaml.UnmarshalStrict([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	return &m
}

func TestDescribeManifest(t *testing.T) {
	d := hub.DescribeManifest(readManifest(t, packageManifest))
	if d.Catalog != "olm:hub" || d.DisplayName != "Argo CD" || d.Provider != "Argo" || d.Version != "2.0.0" || d.Deprecated != "use another" || d.Architectures[0] != "arm64" {
		t.Errorf("got the summary %+v", d.PackageSummary)
	}

	channels := []hub.ChannelSummary{{Name: "alpha", Head: "argocd.v3", Versions: 2}, {Name: "stable", Head: "argocd.v2", Versions: 2, Deprecated: "use alpha"}}
	if diff := cmp.Diff(channels, d.Channels); diff != "" {
		t.Errorf("the channels differ (-want +got):\n%s", diff)
	}
	versions := []hub.VersionSummary{
		{Name: "argocd.v3", Version: "3.0.0", Channels: []string{"alpha"}},
		{Name: "argocd.v2", Version: "2.0.0", Channels: []string{"stable"}},
		{Name: "argocd.v1", Version: "1.0.0", Channels: []string{"alpha", "stable"}, Deprecated: "too old"},
	}
	if diff := cmp.Diff(versions, d.Versions); diff != "" {
		t.Errorf("the versions differ (-want +got):\n%s", diff)
	}
	if len(d.Releases) != 2 || d.Releases[1].Description != "text" {
		t.Errorf("got the releases %+v", d.Releases)
	}
	if got := d.Refuse("v1.36.6", false); got != "" {
		t.Errorf("got the refusal %q, but channel alpha needs no Kubernetes version", got)
	}
}

func TestSummarizeManifest(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want bool
	}{
		"no annotations":  {`{metadata: {name: a}, status: {channels: [{name: c, currentCSV: a.v1, entries: []}]}}`, true},
		"no channels":     {`{metadata: {name: a}, status: {defaultChannel: c}}`, false},
		"not to be shown": {`{metadata: {name: a, labels: {olm-visibility: hidden}}, status: {channels: [{name: c, currentCSV: a.v1, entries: []}]}}`, false},
		"part of another": {`{metadata: {name: a}, status: {channels: [{name: c, currentCSV: a.v1, entries: [], currentCSVDesc: {annotations: {operators.operatorframework.io/operator-type: non-standalone}}}]}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := hub.SummarizeManifest(readManifest(t, test.text)); (got != nil) != test.want {
				t.Errorf("got %+v, want shown %t", got, test.want)
			}
		})
	}
}
