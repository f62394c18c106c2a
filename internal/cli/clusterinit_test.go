package cli_test

import (
	"path/filepath"
	"regexp"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

const initID = "0f2c6f0e-1b2a-4c3d-8e4f-5a6b7c8d9e0f"

// A ClusterVersion is created if there is none. An existing one is not changed.
func TestClusterInit(t *testing.T) {
	c := newClusterVersionFixture(t)
	for _, step := range []struct{ name, line string }{
		{"dry-run", "init --dry-run=client -o yaml --cluster-id " + initID},
		{"dry-run-json", "init --dry-run -o json --channel stable-1.4 --upstream https://updates.example.com/graph --cluster-id " + initID},
		{"created", "init --channel stable-1.4 --upstream https://updates.example.com/graph --cluster-id " + initID},
		{"again", "init --channel stable-1.5"},
		{"bad-id", "init --cluster-id 0f2c6f0e-1b2a-1c3d-8e4f-5a6b7c8d9e0f"},
		{"bad-upstream", "init --upstream ftp://admin:secret@updates.example.com"},
		{"argument", "init version"},
	} {
		check(t, filepath.Join("clusterversion", "init", step.name), clusterCommand(step.line))
	}

	cv := &configv1.ClusterVersion{}
	c.Must(c.Get(t.Context(), client.ObjectKey{Name: "version"}, cv))
	want := configv1.ClusterVersionSpec{ClusterID: initID, Channel: "stable-1.4", Upstream: "https://updates.example.com/graph"}
	if got := cv.Spec; got.ClusterID != want.ClusterID || got.Channel != want.Channel || got.Upstream != want.Upstream || got.DesiredUpdate != nil {
		t.Errorf("got spec %+v, want %+v", got, want)
	}
}

// Without --cluster-id, the cluster gets a random ID.
func TestClusterInitMakesAnID(t *testing.T) {
	c := newClusterVersionFixture(t)
	id := regexp.MustCompile(configv1.ClusterIDPattern)
	seen := map[string]bool{}
	for range 2 {
		if shown := run(t, clusterCommand("init -o name")); shown != "$ mainstay cluster init -o name\nclusterversion.config.openshift.io/version\n" {
			t.Fatalf("got output %q", shown)
		}

		cv := &configv1.ClusterVersion{}
		c.Must(c.Get(t.Context(), client.ObjectKey{Name: "version"}, cv))
		if !id.MatchString(cv.Spec.ClusterID) || seen[cv.Spec.ClusterID] {
			t.Errorf("got cluster ID %q, want a new UUID of version 4", cv.Spec.ClusterID)
		}

		seen[cv.Spec.ClusterID] = true
		c.Must(c.Delete(t.Context(), cv))
	}
}
