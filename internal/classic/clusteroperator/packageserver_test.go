package clusteroperator

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// packageServer is a ClusterServiceVersion of the package server.
func packageServer(name, version string, age time.Duration, phase v1alpha1.ClusterServiceVersionPhase) v1alpha1.ClusterServiceVersion {
	return v1alpha1.ClusterServiceVersion{
		ObjectMeta: metav1.ObjectMeta{Namespace: "olm", Name: name, CreationTimestamp: metav1.NewTime(now.Add(-age))},
		Spec:       v1alpha1.ClusterServiceVersionSpec{Version: v1alpha1.LooseVersion(version)},
		Status:     v1alpha1.ClusterServiceVersionStatus{Phase: phase, Reason: "Why", Message: "because"},
	}
}

// Each step has the state of the cluster and the expected report, which depends on the previous one.
func TestPackageServer(t *testing.T) {
	const degraded = "Degraded=False [AsExpected] \nUpgradeable=True [AsExpected] Safe to upgrade\n"
	const related = "related namespaces /olm\nrelated clusterserviceversions olm/packageserver\n"
	var status configv1.ClusterOperatorStatus
	for _, step := range []struct {
		name string
		csv  *v1alpha1.ClusterServiceVersion
		want string
	}{
		{"nothing", nil, degraded + "Available=False [ClusterServiceVersionNotSucceeded] The ClusterServiceVersion does not exist yet\n" +
			"Progressing=True [ClusterServiceVersionNotSucceeded] Working toward 4.18.3\n"},
		{"installing", phase(v1alpha1.CSVPhaseInstalling, "1.0.0"), degraded + "Available=False [ClusterServiceVersionNotSucceeded] The ClusterServiceVersion does not exist yet\n" +
			"Progressing=True [ClusterServiceVersionNotSucceeded] Working toward 1.0.0\n" + related},
		{"installed", phase(v1alpha1.CSVPhaseSucceeded, "1.0.0"), "version operator 4.18.3\nversion packageserver 1.0.0\n" + degraded +
			"Available=True [ClusterServiceVersionSucceeded] ClusterServiceVersion olm/packageserver observed in phase Succeeded\n" +
			"Progressing=False [AsExpected] Deployed version 1.0.0\n" + related},
		{"updating", phase(v1alpha1.CSVPhasePending, "1.1.0"), "version operator 4.18.3\nversion packageserver 1.0.0\n" + degraded +
			"Available=True [ClusterServiceVersionSucceeded] ClusterServiceVersion olm/packageserver observed in phase Succeeded\n" +
			"Progressing=True [ClusterServiceVersionNotSucceeded] Working toward 1.1.0\n" + related},
		{"failed", phase(v1alpha1.CSVPhaseFailed, "1.1.0"), "version operator 4.18.3\nversion packageserver 1.0.0\n" + degraded +
			"Available=False [ClusterServiceVersionNotSucceeded] ClusterServiceVersion olm/packageserver observed in phase Failed with reason: Why, message: because\n" +
			"Progressing=False [ClusterServiceVersionNotSucceeded] Failed to deploy 1.1.0\n" + related},
		{"trying again", phase(v1alpha1.CSVPhasePending, "1.1.0"), "version operator 4.18.3\nversion packageserver 1.0.0\n" + degraded +
			"Available=False [ClusterServiceVersionNotSucceeded] ClusterServiceVersion olm/packageserver observed in phase Failed with reason: Why, message: because\n" +
			"Progressing=True [ClusterServiceVersionNotSucceeded] Working toward 1.1.0\n" + related},
		{"updated", phase(v1alpha1.CSVPhaseSucceeded, "1.1.0"), "version operator 4.18.3\nversion packageserver 1.1.0\n" + degraded +
			"Available=True [ClusterServiceVersionSucceeded] ClusterServiceVersion olm/packageserver observed in phase Succeeded\n" +
			"Progressing=False [AsExpected] Deployed version 1.1.0\n" + related},
		{"deleted", nil, "version operator 4.18.3\nversion packageserver 1.1.0\n" + degraded +
			"Available=False [ClusterServiceVersionDeleted] Uninstalled version packageserver 1.1.0\n" +
			"Progressing=False [ClusterServiceVersionDeleted] The ClusterServiceVersion of packageserver 1.1.0 was deleted\n"},
	} {
		said := csvReport{csv: step.csv, release: "4.18.3", now: now}
		said.applyToStatus(&status)
		if diff := cmp.Diff(step.want, formatStatus(&status)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
}

func phase(p v1alpha1.ClusterServiceVersionPhase, version string) *v1alpha1.ClusterServiceVersion {
	csv := packageServer("packageserver", version, 0, p)
	return &csv
}

func TestSelectReportedCSV(t *testing.T) {
	deleted := packageServer("deleted", "3", 0, v1alpha1.CSVPhaseSucceeded)
	deleted.DeletionTimestamp = &now
	for name, c := range map[string]struct {
		list []v1alpha1.ClusterServiceVersion
		want string
	}{
		"none":      {nil, ""},
		"one":       {[]v1alpha1.ClusterServiceVersion{packageServer("a", "1", 0, v1alpha1.CSVPhaseReplacing)}, "a"},
		"the newer": {[]v1alpha1.ClusterServiceVersion{packageServer("old", "1", time.Hour, v1alpha1.CSVPhaseSucceeded), packageServer("new", "2", 0, v1alpha1.CSVPhasePending)}, "new"},
		"not one that is replaced": {[]v1alpha1.ClusterServiceVersion{
			packageServer("next", "2", time.Hour, v1alpha1.CSVPhasePending), packageServer("replaced", "1", 0, v1alpha1.CSVPhaseReplacing), packageServer("going", "0", 0, v1alpha1.CSVPhaseDeleting), deleted,
		}, "next"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if chosen := selectReportedCSV(c.list); chosen != nil {
				got = chosen.Name
			}
			if got != c.want {
				t.Errorf("chose %q, want %q", got, c.want)
			}
		})
	}
}

// The state of the ClusterServiceVersion of the previous release does not count for this release.
func TestCheckStaleSuccess(t *testing.T) {
	reports := func(operator, server string) *configv1.ClusterOperatorStatus {
		return &configv1.ClusterOperatorStatus{Versions: []configv1.OperandVersion{{Name: "operator", Version: operator}, {Name: "packageserver", Version: server}}}
	}
	const succeeded, pending = v1alpha1.CSVPhaseSucceeded, v1alpha1.CSVPhasePending
	type observation struct {
		phase   v1alpha1.ClusterServiceVersionPhase
		version string
		after   time.Duration
		want    bool
		again   time.Duration
	}

	for name, c := range map[string]struct {
		last         *configv1.ClusterOperatorStatus
		observations []observation
	}{
		"nothing was reported":              {&configv1.ClusterOperatorStatus{}, []observation{{succeeded, "1.1.0", 0, false, 0}}},
		"as reported":                       {reports("1.1.0", "1.1.0"), []observation{{succeeded, "1.1.0", 0, false, 0}}},
		"that of the release before":        {reports("1.0.0", "1.0.0"), []observation{{succeeded, "1.0.0", 0, true, 0}, {succeeded, "1.0.0", time.Hour, true, 0}}},
		"with versions of its own":          {reports("1.0.0", "0.9"), []observation{{succeeded, "0.9", 0, false, 0}}},
		"changed, and not yet observed":     {reports("1.0.0", "1.0.0"), []observation{{succeeded, "1.1.0", 0, true, staleSuccessTimeout}, {succeeded, "1.1.0", time.Second, true, staleSuccessTimeout - time.Second}, {succeeded, "1.1.0", staleSuccessTimeout, false, 0}}},
		"changed, and installed again":      {reports("1.0.0", "1.0.0"), []observation{{succeeded, "1.1.0", 0, true, staleSuccessTimeout}, {pending, "1.1.0", time.Second, false, 0}, {succeeded, "1.1.0", 2 * time.Second, false, 0}}},
		"changed twice":                     {reports("1.0.0", "1.0.0"), []observation{{pending, "1.1.0", 0, false, 0}, {succeeded, "1.2.0", time.Second, true, staleSuccessTimeout}}},
		"changed, with versions of its own": {reports("1.0.0", "0.9"), []observation{{succeeded, "0.10", 0, true, staleSuccessTimeout}}},
	} {
		t.Run(name, func(t *testing.T) {
			changed := &versionChange{}
			for i, l := range c.observations {
				is, again := changed.checkStaleSuccess(phase(l.phase, l.version), c.last, "1.1.0", now.Add(l.after))
				if is != l.want || again != l.again {
					t.Errorf("check %d: got stale %t, requeue after %s", i+1, is, again)
				}
			}
		})
	}

	if is, _ := (&versionChange{}).checkStaleSuccess(nil, reports("1.0.0", "1.0.0"), "1.1.0", now.Time); is {
		t.Error("a missing ClusterServiceVersion is reported as stale")
	}
}

// The last report stays until the ClusterServiceVersion is that of this release.
func TestStaleSuccessReport(t *testing.T) {
	var status configv1.ClusterOperatorStatus
	before := csvReport{csv: phase(v1alpha1.CSVPhaseSucceeded, "1.0.0"), release: "1.0.0", now: now}
	before.applyToStatus(&status)
	early := csvReport{csv: phase(v1alpha1.CSVPhaseSucceeded, "1.0.0"), release: "1.1.0", isSuccessStale: true, now: now}
	early.applyToStatus(&status)
	want := "version operator 1.0.0\nversion packageserver 1.0.0\nDegraded=False [AsExpected] \nUpgradeable=True [AsExpected] Safe to upgrade\n" +
		"Available=True [ClusterServiceVersionSucceeded] ClusterServiceVersion olm/packageserver observed in phase Succeeded\n" +
		"Progressing=True [ClusterServiceVersionNotSucceeded] Working toward 1.1.0\nrelated namespaces /olm\nrelated clusterserviceversions olm/packageserver\n"
	if diff := cmp.Diff(want, formatStatus(&status)); diff != "" {
		t.Errorf("the status (-want +got):\n%s", diff)
	}
}
