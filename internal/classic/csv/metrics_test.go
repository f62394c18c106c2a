package csv_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csv"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestMetrics(t *testing.T) {
	named := func(name, version, phase, reason string) *v1alpha1.ClusterServiceVersion {
		c := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		c.Spec.Version = v1alpha1.LooseVersion(version)
		c.Status.Phase, c.Status.Reason = v1alpha1.ClusterServiceVersionPhase(phase), reason
		return c
	}

	reader := fake.NewClientBuilder().WithScheme(env.Scheme(t, v1alpha1.AddToScheme)).WithObjects(
		named("good", "1.2.3", "Succeeded", "InstallSucceeded"), named("bad", "", "Failed", "InstallCheckFailed"), named("copy", "1.0.0", "Succeeded", "Copied"),
	).Build()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(&csv.Metrics{Reader: reader})
	want := `
# HELP csv_abnormal 1 for a ClusterServiceVersion that did not succeed.
# TYPE csv_abnormal gauge
csv_abnormal{name="bad",namespace="ns",phase="Failed",reason="InstallCheckFailed",version="0.0.0"} 1
# HELP csv_count Number of ClusterServiceVersions without copied CSVs.
# TYPE csv_count gauge
csv_count 2
# HELP csv_succeeded 1 for a ClusterServiceVersion that succeeded, else 0.
# TYPE csv_succeeded gauge
csv_succeeded{name="bad",namespace="ns",version="0.0.0"} 0
csv_succeeded{name="good",namespace="ns",version="1.2.3"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
