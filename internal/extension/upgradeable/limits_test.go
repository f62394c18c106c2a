package upgradeable

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/bundle/platform"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// revision returns a revision that records properties, passed as type, value, type, value…
func revision(extension string, properties ...string) olmv1.ClusterObjectSet {
	var recorded []fbc.Property
	for i := 0; i < len(properties); i += 2 {
		recorded = append(recorded, fbc.Property{Type: properties[i], Value: json.RawMessage(properties[i+1])})
	}

	encoded, err := json.Marshal(recorded)
	if err != nil {
		panic(err) // the tests pass JSON
	}

	return olmv1.ClusterObjectSet{
		ObjectMeta: metav1.ObjectMeta{
			Name:   extension + "-1",
			Labels: map[string]string{olmv1.LabelOwnerKind: olmv1.ClusterExtensionKind, olmv1.LabelOwnerName: extension},
			Annotations: map[string]string{
				olmv1.AnnotationBundleName: extension + ".v1.0.0", olmv1.AnnotationProvides: string(encoded),
			},
		},
		Spec: olmv1.ClusterObjectSetSpec{LifecycleState: olmv1.LifecycleStateActive, Revision: 1},
	}
}

func TestLimits(t *testing.T) {
	const onOpenShift, onKubernetes = "olm.maxOpenShiftVersion", "olm.maxKubernetesVersion"
	archived := revision("old", onOpenShift, `"4.18"`)
	archived.Spec.LifecycleState = olmv1.LifecycleStateArchived
	unreadable := revision("odd")
	unreadable.Annotations[olmv1.AnnotationProvides] = `olm.maxOpenShiftVersion`
	for name, test := range map[string]struct {
		set       olmv1.ClusterObjectSet
		openShift string
		want      []string
	}{
		"states nothing":            {revision("a", "olm.gvk", `{"kind":"X"}`), "4.18.0", nil},
		"the present minor":         {revision("a", onOpenShift, `"4.18"`), "4.18.0", []string{"a (a.v1.0.0 works up to OpenShift 4.18)"}},
		"the next minor":            {revision("a", onOpenShift, `"4.19"`), "4.18.0", nil},
		"a later minor":             {revision("a", onOpenShift, `"4.21"`), "4.18.0", nil},
		"an earlier minor":          {revision("a", onOpenShift, `"4.17"`), "4.18.0", []string{"a (a.v1.0.0 works up to OpenShift 4.17)"}},
		"the next major":            {revision("a", onOpenShift, `"5.0"`), "4.18.0", nil},
		"patches do not count":      {revision("a", onOpenShift, `"4.18.99"`), "4.18.3", []string{"a (a.v1.0.0 works up to OpenShift 4.18)"}},
		"pre-releases do not count": {revision("a", onOpenShift, `"4.18.0-rc.1"`), "4.18.0-rc1", []string{"a (a.v1.0.0 works up to OpenShift 4.18)"}},
		"next of a pre-release":     {revision("a", onOpenShift, `"4.19"`), "4.18.0-rc1", nil},
		"a number":                  {revision("a", onOpenShift, `4.18`), "4.18.0", []string{"a (a.v1.0.0 works up to OpenShift 4.18)"}},
		"no version":                {revision("a", onOpenShift, `"later"`), "4.18.0", []string{`a (a.v1.0.0 states olm.maxOpenShiftVersion "later", which is not a version)`}},
		"twice":                     {revision("a", onOpenShift, `"4.18"`, onOpenShift, `"4.30"`), "4.18.0", []string{"a (a.v1.0.0 states olm.maxOpenShiftVersion 2 times)"}},
		"unreadable":                {unreadable, "4.18.0", []string{"odd (odd.v1.0.0 has properties that cannot be parsed)"}},
		"archived":                  {archived, "4.18.0", nil},
		"not OpenShift":             {revision("a", onOpenShift, `"4.18"`), "", nil},
		"Kubernetes, present minor": {revision("a", onKubernetes, `"1.36"`), "", []string{"a (a.v1.0.0 works up to Kubernetes 1.36)"}},
		"Kubernetes, next minor":    {revision("a", onKubernetes, `"1.37"`), "", nil},
		"both": {revision("a", onKubernetes, `"1.35"`, onOpenShift, `"4.17"`), "4.18.0", []string{
			"a (a.v1.0.0 works up to Kubernetes 1.35)", "a (a.v1.0.0 works up to OpenShift 4.17)",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			versions := map[versionScheme]platform.Minor{kubernetes: {Major: 1, Minor: 36}}
			if test.openShift != "" {
				current, err := platform.ParseMinor(test.openShift)
				if err != nil {
					t.Fatal(err)
				}
				versions[openShift] = current
			}

			var got []string
			for _, l := range findVersionLimits([]olmv1.ClusterObjectSet{test.set}, versions) {
				got = append(got, l.String())
			}

			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("limits (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMessage(t *testing.T) {
	var sets []olmv1.ClusterObjectSet
	for i := range 12 {
		sets = append(sets, revision(fmt.Sprintf("e%02d", 11-i), "olm.maxKubernetesVersion", `"1.36"`))
	}

	found := findVersionLimits(sets, map[versionScheme]platform.Minor{kubernetes: {Major: 1, Minor: 36}})
	want := "ClusterExtensions keep the cluster from its next minor version: " +
		"e00 (e00.v1.0.0 works up to Kubernetes 1.36), e01 (e01.v1.0.0 works up to Kubernetes 1.36), e02 (e02.v1.0.0 works up to Kubernetes 1.36), " +
		"e03 (e03.v1.0.0 works up to Kubernetes 1.36), e04 (e04.v1.0.0 works up to Kubernetes 1.36), e05 (e05.v1.0.0 works up to Kubernetes 1.36), " +
		"e06 (e06.v1.0.0 works up to Kubernetes 1.36), e07 (e07.v1.0.0 works up to Kubernetes 1.36), e08 (e08.v1.0.0 works up to Kubernetes 1.36), " +
		"e09 (e09.v1.0.0 works up to Kubernetes 1.36) and 2 more. Update them to versions that work on it, or remove them"
	if diff := cmp.Diff(want, limitsMessage(found)); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
}
