package diagnosis

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// Only an extension all of whose objects are ready is Ready: one whose pods crash never is.
func TestStateOf(t *testing.T) {
	isInstalled := condition("Installed", "True", "Succeeded", "")
	for _, test := range []struct {
		name     string
		facts    Facts
		standing State
		why      string
	}{
		{"well", newFacts(isInstalled, progressing("True", "Succeeded", "desired state reached"), condition("Available", "True", "ProbesSucceeded", "")), StateReady, ""},
		{"a crash loop", newFacts(isInstalled, progressing("True", "Succeeded", "desired state reached"),
			condition("Available", "False", "ProbeFailure", `phase "deploy" (2 of 2) waits for Deployment "kitchen/kettle": 0 of 1 replica is available`)),
			StateDegraded, `phase "deploy" (2 of 2) waits for Deployment "kitchen/kettle": 0 of 1 replica is available`},
		{"not known", newFacts(isInstalled, progressing("True", "Succeeded", "desired state reached"), condition("Available", "Unknown", "Reconciling", "the API server is away")),
			StateUnknown, "it is unknown whether all of it runs; the API server is away"},
		{"a crash loop during an update", newFacts(isInstalled, progressing("True", "RollingOut", "waits"), condition("Available", "False", "ProbeFailure", "waits")), StateUpdating, "waits"},
		{"first roll-out", newFacts(progressing("True", "RollingOut", "waits")), StateInstalling, "waits"},
		{"an attempt failed", newFacts(isInstalled, progressing("True", "Retrying", "no bundles found\nat all"), condition("Available", "True", "ProbesSucceeded", "")), StateRetrying, "no bundles found at all"},
		{"blocked", newFacts(isInstalled, progressing("False", "Blocked", "no"), condition("Available", "True", "ProbesSucceeded", "")), StateFailed, "no"},
		{"planned only", newFacts(progressing("True", "Succeeded", "Planned only"), func(f *Facts) {
			f.Extension.Annotations = map[string]string{olmv1.AnnotationPlan: olmv1.PlanOnly}
		}), StatePlanned, "Planned only"},
		{"not seen", newFacts(), StateUnknown, "operator-controller has not reconciled its latest change yet"},
		{"removal", newFacts(isInstalled, progressing("True", "RollingOut", "removing revision kettle-1"), func(f *Facts) {
			now := metav1.Now()
			f.Extension.DeletionTimestamp = &now
		}), StateRemoving, "removing revision kettle-1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			standing, why := StateOf(test.facts.Extension)
			if standing != test.standing || why != test.why {
				t.Errorf("got %s (%s), want %s (%s)", standing, why, test.standing, test.why)
			}
		})
	}
}
