package version

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

func TestNextAutomaticUpdate(t *testing.T) {
	release := func(version string) configv1.Release {
		return configv1.Release{Version: version, Image: "image-" + version}
	}
	at := func(state configv1.UpdateState, available ...string) configv1.ClusterVersionStatus {
		status := configv1.ClusterVersionStatus{
			Desired: release("1.9.0"), History: []configv1.UpdateHistory{{State: state, Version: "1.9.0", Image: "image-1.9.0"}},
		}
		for _, version := range available {
			status.AvailableUpdates = append(status.AvailableUpdates, release(version))
		}
		return status
	}

	done := configv1.CompletedUpdate
	cases := map[string]struct {
		wanted *configv1.Update
		status configv1.ClusterVersionStatus
		want   string
	}{
		"nothing is available":         {status: at(done)},
		"nothing is known":             {},
		"the highest":                  {status: at(done, "1.9.1", "1.10.0", "1.9.5"), want: "1.10.0"},
		"not a lower one":              {status: at(done, "1.8.0", "1.9.0")},
		"not one without a version":    {status: at(done, "latest", "1.9.1"), want: "1.9.1"},
		"an update is in progress":     {status: at(configv1.PartialUpdate, "1.10.0")},
		"the current one is requested": {wanted: &configv1.Update{Image: "image-1.9.0"}, status: at(done, "1.10.0"), want: "1.10.0"},
		"another one is requested":     {wanted: &configv1.Update{Image: "other"}, status: at(done, "1.10.0")},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, ok := nextAutomaticUpdate(&configv1.ClusterVersion{Spec: configv1.ClusterVersionSpec{DesiredUpdate: c.wanted}, Status: c.status})
			if got.Version != c.want || ok != (c.want != "") {
				t.Errorf("got requested version %q, found %v; want %q", got.Version, ok, c.want)
			}
		})
	}
}

func TestRequestNextUpdate(t *testing.T) {
	controller, cv := newStoredVersion(t)
	after := withMinimalStatus(cv)
	after.Status.History[0].State, after.Status.History[0].CompletionTime = configv1.CompletedUpdate, &start
	after.Status.AvailableUpdates = []configv1.Release{{Version: "1.0.1", Image: "b"}}
	if err := controller.requestNextUpdate(t.Context(), &decision{after: after, nextUpdate: automaticUpdate(after)}); err != nil {
		t.Fatal(err)
	}

	live := &configv1.ClusterVersion{}
	if err := controller.statuses.reader.Get(t.Context(), client.ObjectKeyFromObject(cv), live); err != nil {
		t.Fatal(err)
	}
	if wanted := live.Spec.DesiredUpdate; wanted == nil || wanted.Image != "b" || wanted.Version != "1.0.1" {
		t.Errorf("got desired update %+v, want version 1.0.1 with image b", wanted)
	}
}
