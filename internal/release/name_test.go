package release_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/release"
)

func TestParseFileName(t *testing.T) {
	for name, want := range map[string]release.FileName{
		"0000_03_config-operator_01_proxy.crd.yaml":            {Runlevel: 3, Component: "config-operator", Name: "01_proxy.crd"},
		"0000_25_cluster-kube-scheduler-operator_07_roles.yml": {Runlevel: 25, Component: "cluster-kube-scheduler-operator", Name: "07_roles"},
		"0000_99_machine-api-operator_00_tombstones.json":      {Runlevel: 99, Component: "machine-api-operator", Name: "00_tombstones"},
		"0000_50_a_b":      {Runlevel: 50, Component: "a", Name: "b"},
		"0000_100_A1_":     {Runlevel: 100, Component: "A1"},
		"0000_07_a_b_c":    {Runlevel: 7, Component: "a", Name: "b_c"},
		"0000_007_a_.yaml": {Runlevel: 7, Component: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := release.ParseFileName(name)
			if diff := cmp.Diff(want, got); diff != "" || !ok {
				t.Errorf("ok %v, -want +got:\n%s", ok, diff)
			}
		})
	}

	for _, name := range []string{
		"", "a.yaml", "0000_", "0000_a_b_c.yaml", "0000_10_a.yaml", "0000_10__b.yaml", "0000_10_-a_b.yaml", "0000_10_a-_b.yaml", "0000_10_a--b_c.yaml",
		"0001_10_a_b.yaml", " 0000_10_a_b.yaml", "0000_-1_a_b.yaml", "0000_99999999999999999999_a_b.yaml", "0000_10_a.b_c.yaml", "0000_10_é_b.yaml",
	} {
		t.Run("not "+name, func(t *testing.T) {
			if got, ok := release.ParseFileName(name); ok {
				t.Errorf("got %+v, want the name rejected", got)
			}
		})
	}
}

func TestIsManifestFile(t *testing.T) {
	for name, want := range map[string]bool{
		"a.yaml": true, "a.yml": true, "a.json": true, ".yaml": true,
		"a": false, "a.YAML": false, "a.yaml.bak": false, "yaml": false, "image-references": false, "release-metadata": false,
	} {
		if got := release.IsManifestFile(name); got != want {
			t.Errorf("%q: got %v, want %v", name, got, want)
		}
	}
}
