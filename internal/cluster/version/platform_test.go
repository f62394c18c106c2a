package version

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/cluster/risk"
	"github.com/mainstay-dev/mainstay/internal/cluster/updates"
	"github.com/mainstay-dev/mainstay/internal/release"
)

// fakeConfigReader returns objects of the platform's configuration by kind.
type fakeConfigReader struct {
	client.Reader
	has   map[string]string
	fails error
	reads int
}

func (c *fakeConfigReader) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	c.reads++
	if c.fails != nil {
		return c.fails
	}

	switch into := into.(type) {
	case *unstructured.Unstructured:
		text, ok := c.has[into.GetKind()]
		if !ok {
			return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: into.GetKind()}}
		}
		return yaml.Unmarshal([]byte(text), &into.Object)
	case *corev1.ConfigMap:
		into.Data = map[string]string{"ca-bundle.crt": c.has["bundle"]}
	}

	return nil
}

func TestPlatform(t *testing.T) {
	clock := clocktesting.NewFakeClock(start.Time)
	reader := &fakeConfigReader{has: map[string]string{
		"Proxy":       "{status: {httpProxy: 'http://p', httpsProxy: 'https://p', noProxy: local}}",
		"FeatureGate": "{spec: {featureSet: TechPreviewNoUpgrade}, status: {featureGates: [{version: 1.0.0, enabled: [{name: A}, {name: B}], disabled: [{name: C}]}, {version: 1.1.0, enabled: []}]}}",
		"bundle":      "pem",
	}}
	o := &platformObserver{reader: reader, clock: clock}
	p, err := o.readPlatform(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	want := platformConfig{
		proxy: updates.Proxy{HTTP: "http://p", HTTPS: "https://p", No: "local"}, caBundle: []byte("pem"), featureSet: "TechPreviewNoUpgrade",
		featureGates: map[string]sets.Set[string]{"1.0.0": sets.New("A", "B"), "1.1.0": {}},
	}
	if diff := cmp.Diff(want, p, cmp.AllowUnexported(platformConfig{})); diff != "" {
		t.Errorf("platform (-want +got):\n%s", diff)
	}

	cluster := p.releaseCluster("1.0.0", "hosted", "id")
	if diff := cmp.Diff(release.Cluster{
		ExcludeIdentifier: "id", Profile: "hosted", FeatureSet: "TechPreviewNoUpgrade", FeatureGates: sets.New("A", "B"), MajorVersion: 1,
	}, cluster); diff != "" {
		t.Errorf("cluster (-want +got):\n%s", diff)
	}

	reads := reader.reads
	if _, err := o.readPlatform(t.Context()); err != nil || reader.reads != reads {
		t.Errorf("got %d more reads (error %v) within the interval, want none", reader.reads-reads, err)
	}

	clock.Step(minObserveInterval)
	reader.has["FeatureGate"] = "{spec: 1, status: {featureGates: [1, {enabled: 2}, {version: 1.0.0, enabled: [3]}]}}"
	if p, err = o.readPlatform(t.Context()); err != nil || p.featureSet != "" || p.featureGates["1.0.0"].Len() != 0 {
		t.Errorf("invalid FeatureGate: got platform %+v (error %v), want no feature set and no gates", p, err)
	}
}

func TestPlatformWithoutConfiguration(t *testing.T) {
	o := &platformObserver{reader: &fakeConfigReader{}, clock: clocktesting.NewFakeClock(start.Time)}
	p, err := o.readPlatform(t.Context())
	if err != nil || p.featureSet != "" || p.featureGates["1.0.0"] != nil || p.proxy != (updates.Proxy{}) {
		t.Errorf("got platform %+v (error %v), want an empty one", p, err)
	}

	o = &platformObserver{reader: &fakeConfigReader{fails: errors.New("away")}, clock: clocktesting.NewFakeClock(start.Time)}
	if _, err := o.readPlatform(t.Context()); err == nil || !strings.Contains(err.Error(), `Proxy "cluster": away`) {
		t.Errorf("got error %v, want that of reading the Proxy", err)
	}
}

// A single read is not trusted while a release is accepted: it may see the gate as acknowledged
// and not yet see the operator that objects.
func TestRisksDuringAcceptance(t *testing.T) {
	objecting := configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: "olm"}}
	objecting.Status.Conditions = []configv1.ClusterOperatorStatusCondition{{Type: configv1.OperatorUpgradeable, Status: metav1.ConditionFalse, Message: "Remove foo."}}
	for _, tt := range []struct {
		name       string
		isPursuing bool
		// late is the number of reads of the API server before the operator is returned.
		late int
		want []risk.Risk
	}{
		{"caches", false, 0, nil},
		{"at once", true, 0, []risk.Risk{{Name: "ClusterOperatorUpgradeable-olm", Message: "Remove foo."}}},
		{"between two reads", true, 1, []risk.Risk{{Name: "ClusterOperatorUpgradeable-olm", Message: "Remove foo."}}},
		{"nothing, twice", true, 2, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := &laggingReader{late: tt.late, operators: []configv1.ClusterOperator{objecting}}
			cache := &laggingReader{late: 9}
			reader := riskReader{operators: cache, gates: cache, server: server}
			found, err := reader.findUpdateRisks(t.Context(), risk.Input{}, tt.isPursuing)
			if diff := cmp.Diff(tt.want, found); diff != "" || err != nil {
				t.Errorf("risks (-want +got):\n%s%v", diff, err)
			}
		})
	}
}

// laggingReader returns ClusterOperators only after a few reads, and no gates.
type laggingReader struct {
	client.Client
	late, reads int
	operators   []configv1.ClusterOperator
}

func (m *laggingReader) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if m.reads++; m.reads > m.late {
		list.(*configv1.ClusterOperatorList).Items = m.operators
	}
	return nil
}

func (*laggingReader) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}
