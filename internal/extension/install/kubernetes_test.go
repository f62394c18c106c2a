package install

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/version"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
	"github.com/mainstay-dev/mainstay/internal/render"
)

func TestCertManagerIssuesForOthers(t *testing.T) {
	definition := func(group string) unstructured.Unstructured {
		return unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"group": group}}}
	}
	for name, test := range map[string]struct {
		groups []string
		want   render.Issuer
	}{
		"no CRDs":      {nil, render.IssuerCertManager},
		"others":       {[]string{"acme.example.com", "x.cert-manager.io"}, render.IssuerCertManager},
		"cert-manager": {[]string{"acme.cert-manager.io", "cert-manager.io"}, render.IssuerBuiltIn},
	} {
		t.Run(name, func(t *testing.T) {
			loaded := &bundle.Bundle{}
			for _, group := range test.groups {
				loaded.CRDs = append(loaded.CRDs, definition(group))
			}
			if got := issuerForBundle(loaded, render.IssuerCertManager); got != test.want {
				t.Errorf("got the issuer %q, want %q", got, test.want)
			}
			if got := issuerForBundle(loaded, render.IssuerBuiltIn); got != render.IssuerBuiltIn {
				t.Errorf("got the issuer %q without cert-manager", got)
			}
		})
	}
}

func TestCheckKubernetes(t *testing.T) {
	for name, test := range map[string]struct {
		least, cluster string
		// want is part of the error. Empty means no error.
		want  string
		stops bool
	}{
		"nothing asked":            {"", "v1.36.6", "", false},
		"not known":                {"1.99.0", "", "", false},
		"the same":                 {"1.36.6", "v1.36.6", "", false},
		"later":                    {"1.28.0", "v1.36.6", "", false},
		"two numbers":              {"1.36", "v1.36.0", "", false},
		"with a v":                 {"v1.20.0", "v1.36.0", "", false},
		"a provider's suffix":      {"1.36.6", "v1.36.6-gke.100", "", false},
		"a pre-release":            {"1.36.0", "v1.36.0-rc.1+build", "", false},
		"a required pre-release":   {"1.16.0-0", "v1.16.0", "", false},
		"earlier":                  {"1.40.0", "v1.36.6", "it needs Kubernetes 1.40.0 or later, and this cluster runs v1.36.6: update the cluster", false},
		"an earlier patch version": {"1.36.7", "v1.36.6+k3s1", "it needs Kubernetes 1.36.7 or later", false},
		"no version":               {"latest", "v1.36.6", `spec.minKubeVersion "latest" of its ClusterServiceVersion is not a version`, true},
	} {
		t.Run(name, func(t *testing.T) {
			loaded := &bundle.Bundle{}
			loaded.CSV.Spec.MinKubeVersion = v1alpha1.LooseVersion(test.least)
			err := checkMinKubeVersion(loaded, test.cluster)
			if (err == nil) != (test.want == "") || err != nil && !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("got error %v, want %q", err, test.want)
			}

			on := &platformReader{kubernetesVersion: func() (*version.Info, error) { return &version.Info{GitVersion: test.cluster}, nil }}
			// The check reports an invalid version, which is not a reason to choose another bundle.
			if got, want := test.least == "" || on.meetsMinKubeVersion(test.least), test.want == "" || test.stops; got != want {
				t.Errorf("got supported %t, want %t", got, want)
			}
			if err != nil && reconcile.IsStop(err) != test.stops {
				t.Errorf("got retried %v, want %v", !reconcile.IsStop(err), !test.stops)
			}
		})
	}
}
