package action

import (
	"strings"
	"testing"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/resolve"
)

// Suggestions for misspelled packages, channels and versions.
func TestSuggestCorrection(t *testing.T) {
	bundle := func(version string) fbc.Bundle {
		return fbc.Bundle{Package: "argocd-operator", Name: "argocd-operator.v" + version, Properties: []fbc.Property{
			{Type: fbc.PropertyPackage, Value: []byte(`{"packageName":"argocd-operator","version":"` + version + `"}`)},
		}}
	}
	found := &catalogContents{
		packages: []string{"argocd-operator", "cert-manager", "prometheus"},
		catalogs: []resolve.Catalog{{Name: "ours", Content: &fbc.Content{
			Package: &fbc.Package{Name: "argocd-operator", DefaultChannel: "alpha"},
			Channels: []fbc.Channel{
				{Package: "argocd-operator", Name: "alpha", Entries: []fbc.ChannelEntry{{Name: "argocd-operator.v0.6.0"}, {Name: "argocd-operator.v0.7.0"}}},
				{Package: "argocd-operator", Name: "stable", Entries: []fbc.ChannelEntry{{Name: "argocd-operator.v0.6.0"}}},
			},
			Bundles: []fbc.Bundle{bundle("0.6.0"), bundle("0.7.0")},
		}}},
	}

	for _, test := range []struct {
		name   string
		filter olmv1.CatalogFilter
		found  *catalogContents
		want   string
	}{
		{"swapped letters", olmv1.CatalogFilter{PackageName: "agrocd-operator"}, found,
			`no catalog has package "agrocd-operator": did you mean argocd-operator? 'mainstay catalog search' finds packages`},
		{"a part of the name", olmv1.CatalogFilter{PackageName: "argocd"}, found, "did you mean argocd-operator?"},
		{"no similar package", olmv1.CatalogFilter{PackageName: "kettle"}, found, `no catalog has package "kettle": 'mainstay catalog search' finds packages`},
		{"a channel", olmv1.CatalogFilter{PackageName: "argocd-operator", Channels: []string{"alhpa"}}, found,
			`package argocd-operator has no channel "alhpa": did you mean alpha?`},
		{"no such channel", olmv1.CatalogFilter{PackageName: "argocd-operator", Channels: []string{"nightly"}}, found, "it has alpha, stable"},
		{"a version", olmv1.CatalogFilter{PackageName: "argocd-operator", Version: "0.7.1"}, found, "did you mean version 0.7.0"},
		{"a version of another channel", olmv1.CatalogFilter{PackageName: "argocd-operator", Version: "0.7.0", Channels: []string{"stable"}}, found,
			`catalog "ours" has 0.7.0 in other channels: alpha`},
		{"no catalog", olmv1.CatalogFilter{PackageName: "argocd-operator"}, &catalogContents{}, "add a catalog with 'mainstay catalog add'"},
		{"no catalog yet", olmv1.CatalogFilter{PackageName: "argocd-operator"}, &catalogContents{unserved: []string{"ours"}}, "wait until catalog ours is served"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := suggestCorrection(&test.filter, test.found); !strings.Contains(got, test.want) {
				t.Errorf("got %q, want it to contain %q", got, test.want)
			}
		})
	}
}
