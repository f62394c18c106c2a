package version

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/sets"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

const clusterID = "3f0d6b5e-7c1a-4b0e-9a65-0f5b0f9d2c11"

func statusWithUpdates(releases ...configv1.Release) configv1.ClusterVersionStatus {
	return configv1.ClusterVersionStatus{AvailableUpdates: releases}
}

func TestValidate(t *testing.T) {
	one := statusWithUpdates(configv1.Release{Version: "1.2.4", Image: "a"})
	twice := statusWithUpdates(configv1.Release{Version: "1.2.4", Image: "a"}, configv1.Release{Version: "1.2.4", Image: "b"})
	arches := statusWithUpdates(configv1.Release{Version: "1.2.4", Image: "a"}, configv1.Release{Version: "1.2.4", Image: "b", Architecture: "Multi"})
	was := configv1.ClusterVersionStatus{History: []configv1.UpdateHistory{{Version: "1.2.0"}}}
	cases := map[string]struct {
		spec   configv1.ClusterVersionSpec
		status configv1.ClusterVersionStatus
		want   string
		// noID, noUpstream and noUpdate report which fields are removed.
		noID, noUpstream, noUpdate bool
	}{
		"good":              {spec: configv1.ClusterVersionSpec{Upstream: "https://updates.example/graph"}},
		"a UUID of no kind": {spec: configv1.ClusterVersionSpec{ClusterID: "cluster"}, want: `The cluster version is invalid: spec.clusterID: Invalid value: "cluster": must be a random UUID (RFC 4122, version 4)`, noID: true},
		"a UUID of version 1": {
			spec: configv1.ClusterVersionSpec{ClusterID: "3f0d6b5e-7c1a-1b0e-9a65-0f5b0f9d2c11"}, noID: true,
			want: `The cluster version is invalid: spec.clusterID: Invalid value: "3f0d6b5e-7c1a-1b0e-9a65-0f5b0f9d2c11": must be a random UUID (RFC 4122, version 4)`,
		},
		"an upstream that is no URL": {
			spec: configv1.ClusterVersionSpec{Upstream: "%"}, want: "The cluster version is invalid: spec.upstream: Invalid value: must be a valid URL or empty", noUpstream: true,
		},
		"an available update": {spec: specWithUpdate("1.2.4", "", ""), status: one},
		"another update": {
			spec: specWithUpdate("1.2.5", "", ""), status: one, noUpdate: true,
			want: `The cluster version is invalid: spec.desiredUpdate.version: Invalid value: "1.2.5": when image is empty the update must be an available update`,
		},
		"one that the cluster was at": {spec: specWithUpdate("1.2.0", "", ""), status: was},
		"one that the cluster is at":  {spec: specWithUpdate("1.2.0", "", ""), status: configv1.ClusterVersionStatus{Desired: configv1.Release{Version: "1.2.0"}}},
		"two images": {
			spec: specWithUpdate("1.2.4", "", ""), status: twice, noUpdate: true,
			want: `The cluster version is invalid: spec.desiredUpdate.version: Invalid value: "1.2.4": there are multiple possible payloads for this version, specify the exact image`,
		},
		"two images, one named":           {spec: specWithUpdate("1.2.4", "b", ""), status: twice},
		"two architectures, one selected": {spec: specWithUpdate("1.2.4", "", "Multi"), status: arches},
		"any image":                       {spec: specWithUpdate("", "c", "")},
		"nothing":                         {spec: specWithUpdate("", "", ""), want: "The cluster version is invalid: spec.desiredUpdate: Required value: must specify architecture, version, or image", noUpdate: true},
		"accepted risks alone":            {spec: specAcceptingRisk("Slow")},
		"no version": {
			spec: specWithUpdate("latest", "c", ""), noUpdate: true,
			want: `The cluster version is invalid: spec.desiredUpdate.version: Invalid value: "latest": must be a semantic version (1.2.3[-prerelease][+build])`,
		},
		"two faults": {
			spec: configv1.ClusterVersionSpec{ClusterID: "x", DesiredUpdate: &configv1.Update{}}, noID: true, noUpdate: true,
			want: "The cluster version is invalid:\n* spec.clusterID: Invalid value: \"x\": must be a random UUID (RFC 4122, version 4)\n* spec.desiredUpdate: Required value: must specify architecture, version, or image",
		},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.spec.ClusterID == "" {
				c.spec.ClusterID = clusterID
			}

			cv := &configv1.ClusterVersion{Spec: c.spec, Status: c.status}
			before := cv.DeepCopy()
			valid, wrong := validateSpec(cv)
			got := ""
			if len(wrong) > 0 {
				got = invalidSpecMessage(wrong)
			}
			if got != c.want {
				t.Errorf("got message\n%s\nwant\n%s", got, c.want)
			}
			if (valid.Spec.ClusterID == "") != c.noID || (c.spec.Upstream != "" && valid.Spec.Upstream == "") != c.noUpstream ||
				(c.spec.DesiredUpdate != nil && valid.Spec.DesiredUpdate == nil) != c.noUpdate {
				t.Errorf("got spec %+v, want the ID removed: %v, the upstream: %v, the update: %v", valid.Spec, c.noID, c.noUpstream, c.noUpdate)
			}
			if diff := cmp.Diff(before, cv); diff != "" {
				t.Errorf("ClusterVersion (-before +after):\n%s", diff)
			}
		})
	}
}

func specWithUpdate(version, image string, architecture configv1.ClusterVersionArchitecture) configv1.ClusterVersionSpec {
	return configv1.ClusterVersionSpec{ClusterID: clusterID, DesiredUpdate: &configv1.Update{Version: version, Image: image, Architecture: architecture}}
}

func TestValidateCapabilities(t *testing.T) {
	spec := &configv1.ClusterVersionCapabilitiesSpec{AdditionalEnabledCapabilities: []configv1.ClusterVersionCapability{"Console", "ClusterAPI"}}
	want := "The cluster version is invalid: spec.capabilities.additionalEnabledCapabilities: Forbidden: the capability ClusterAPI needs a feature gate that is not enabled"
	if got := invalidSpecMessage(validateCapabilities(spec, nil)); got != want {
		t.Errorf("got message %q, want %q", got, want)
	}
	if wrong := validateCapabilities(spec, sets.New("ClusterAPIMachineManagement")); len(wrong) > 0 {
		t.Errorf("with the gate on: got %v, want no error", wrong)
	}
}

// specAcceptingRisk returns a spec that accepts a risk and requests no release.
func specAcceptingRisk(risk string) configv1.ClusterVersionSpec {
	return configv1.ClusterVersionSpec{ClusterID: clusterID, DesiredUpdate: &configv1.Update{AcceptRisks: []configv1.AcceptRisk{{Name: risk}}}}
}

func TestDesiredTarget(t *testing.T) {
	own, current := configv1.Release{Version: "1.0.0", Image: "own"}, configv1.Release{Version: "1.2.0", Image: "current"}
	next := configv1.Release{Version: "1.3.0", Image: "next", URL: "https://example.com"}
	twin := configv1.Release{Version: "1.2.0", Image: "twin", Architecture: "Multi"}
	conditional := configv1.Release{Version: "1.4.0", Image: "conditional", Channels: []string{"stable"}}
	status := statusWithUpdates(next, twin)
	status.ConditionalUpdates = []configv1.ConditionalUpdate{{Release: conditional}}
	cases := map[string]struct {
		spec configv1.ClusterVersionSpec
		want configv1.Release
	}{
		"nothing":                        {configv1.ClusterVersionSpec{}, own},
		"accepted risks alone":           {specAcceptingRisk("Slow"), own},
		"an available version":           {specWithUpdate("1.3.0", "", ""), next},
		"the current version":            {specWithUpdate("1.2.0", "", ""), current},
		"the twin of the current one":    {specWithUpdate("1.2.0", "", "Multi"), twin},
		"a conditional version":          {specWithUpdate("1.4.0", "", ""), current},
		"an unknown version":             {specWithUpdate("9.9.9", "", ""), current},
		"an image":                       {specWithUpdate("", "other", ""), configv1.Release{Image: "other"}},
		"an image and a version":         {specWithUpdate("2.0.0", "other", ""), configv1.Release{Version: "2.0.0", Image: "other"}},
		"a known image":                  {specWithUpdate("", "conditional", ""), conditional},
		"a known image as another":       {specWithUpdate("9.9.9", "conditional", ""), configv1.Release{Version: "9.9.9", Image: "conditional"}},
		"the operator's own, by image":   {specWithUpdate("", "own", ""), own},
		"the current release, by image":  {specWithUpdate("1.2.0", "current", ""), current},
		"an available one, by its image": {specWithUpdate("1.3.0", "next", ""), next},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			cv := &configv1.ClusterVersion{Spec: c.spec, Status: status}
			if c.spec.DesiredUpdate != nil {
				cv.Spec.DesiredUpdate.Force = true
			}
			got := desiredTarget(cv, cv, own, current)
			if diff := cmp.Diff(c.want, got.Release); diff != "" {
				t.Errorf("target (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMergeReleaseMetadata(t *testing.T) {
	r := configv1.Release{Version: "1.0.0", Image: "mirror.example/r@sha256:01"}
	metadata := &configv1.Release{Version: "1.0.0", Image: "registry.example/r@sha256:01", URL: "https://example.com", Channels: []string{"a"}, Architecture: "Multi"}
	want := configv1.Release{Version: "1.0.0", Image: r.Image, URL: metadata.URL, Channels: metadata.Channels, Architecture: "Multi"}
	if diff := cmp.Diff(want, mergeReleaseMetadata(r, metadata)); diff != "" {
		t.Errorf("merged (-want +got):\n%s", diff)
	}

	metadata.Image = "registry.example/r@sha256:02"
	if diff := cmp.Diff(r, mergeReleaseMetadata(r, metadata)); diff != "" {
		t.Errorf("merged with another digest (-want +got):\n%s", diff)
	}
}

// The same content in another registry is another target, although its metadata is found by the
// digest.
func TestMatchesRelease(t *testing.T) {
	at := configv1.Release{Version: "1.0.0", Image: "a.example/r@sha256:01"}
	for name, c := range map[string]struct {
		target configv1.Release
		want   bool
	}{
		"the same":            {at, true},
		"without a version":   {configv1.Release{Image: at.Image}, true},
		"elsewhere":           {configv1.Release{Version: "1.0.0", Image: "b.example/r@sha256:01"}, false},
		"by a tag":            {configv1.Release{Version: "1.0.0", Image: "a.example/r:1.0.0@sha256:01"}, false},
		"with another inside": {configv1.Release{Version: "1.0.1", Image: at.Image}, false},
	} {
		if got := (target{Release: c.target, force: true}).matchesRelease(at); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestInitialTarget(t *testing.T) {
	release := func(image string) configv1.Release { return configv1.Release{Image: image} }
	cases := map[string]struct{ own, desired, wanted, want string }{
		"a new cluster":                       {"own", "", "own", "own"},
		"an update to come":                   {"own", "own", "next", "own"},
		"an update in progress, its operator": {"next", "next", "next", "next"},
		"an update in progress, the old one":  {"own", "next", "next", "next"},
		"a third, during an update":           {"own", "next", "third", "own"},
		"no own release":                      {"", "current", "next", "current"},
		"no own release and no cluster":       {"", "", "next", "next"},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := initialTarget(configv1.ClusterVersionStatus{Desired: release(c.desired)}, release(c.own), target{Release: release(c.wanted)})
			if got.Image != c.want {
				t.Errorf("got initial target %q, want %q", got.Image, c.want)
			}
		})
	}
}

// A spec that becomes invalid during an update does not cause a rollback.
func TestDesiredTargetOfInvalidSpec(t *testing.T) {
	cv := &configv1.ClusterVersion{Spec: specWithUpdate("latest", "", "")}
	valid, wrong := validateSpec(cv)
	if len(wrong) == 0 {
		t.Fatal("got a valid spec, want an invalid one")
	}
	if got := desiredTarget(cv, valid, configv1.Release{Image: "own"}, configv1.Release{Image: "current"}); got.Image != "current" {
		t.Errorf("got desired release %q, want current", got.Image)
	}
}
