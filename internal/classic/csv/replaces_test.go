package csv_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

func replaces(name string) func(*v1alpha1.ClusterServiceVersion) {
	return func(csv *v1alpha1.ClusterServiceVersion) { csv.Spec.Replaces = name }
}

// setReplaces sets spec.replaces of a ClusterServiceVersion.
func (c *fixture) setReplaces(name, replaced string) {
	c.T.Helper()
	csv := c.get(name)
	c.PatchObject(csv, func() { csv.Spec.Replaces = replaced })
}

// waitForMessage waits until a ClusterServiceVersion has a phase and a message that contains a text.
func (c *fixture) waitForMessage(name string, phase v1alpha1.ClusterServiceVersionPhase, text string) {
	c.T.Helper()
	c.eventually(name+" is "+string(phase)+" with "+text, func() bool {
		csv := c.get(name)
		return csv.Status.Phase == phase && strings.Contains(csv.Status.Message, text)
	})
}

// Two ClusterServiceVersions that replace each other are not replaced: the installed one stays, and the other one
// names the cycle. Without the cycle, the upgrade continues by itself.
func TestCyclicReplaces(t *testing.T) {
	const message = "form a cycle at \"etcd.v2.0.0\": change spec.replaces of one of them"
	for name, installed := range map[string]bool{"an installed operator": true, "two new operators": false} {
		t.Run(name, func(t *testing.T) {
			c := newFixture(t)
			c.createGroup()
			c.createServiceAccount()
			if installed {
				c.CreateAll(c.newCSV("etcd.v1.0.0"))
				c.waitUntilSucceeded("etcd.v1.0.0", "etcd")
				c.setReplaces("etcd.v1.0.0", "etcd.v2.0.0")
			}
			c.CreateAll(c.newCSV("etcd.v2.0.0", replaces("etcd.v1.0.0")))
			if !installed {
				c.CreateAll(c.newCSV("etcd.v1.0.0", replaces("etcd.v2.0.0")))
				c.waitForMessage("etcd.v1.0.0", v1alpha1.CSVPhasePending, "form a cycle")
			}
			c.waitForMessage("etcd.v2.0.0", v1alpha1.CSVPhasePending, message)
			if phase := c.get("etcd.v1.0.0").Status.Phase; installed && phase != v1alpha1.CSVPhaseSucceeded {
				t.Errorf("got phase %s of the installed one, want Succeeded", phase)
			}

			c.setReplaces("etcd.v1.0.0", "")
			c.waitUntilSucceeded("etcd.v2.0.0", "etcd")
			c.waitUntilGone(&v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "etcd.v1.0.0"}})
		})
	}
}

// If a replacement is deleted before it has succeeded, the operator that was being replaced is installed again.
func TestDeletedReplacement(t *testing.T) {
	c := newFixture(t)
	c.createGroup()
	c.createServiceAccount()
	c.CreateAll(c.newCSV("etcd.v1.0.0"))
	c.waitUntilSucceeded("etcd.v1.0.0", "etcd")
	c.CreateAll(c.newCSV("etcd.v2.0.0", replaces("etcd.v1.0.0"), func(csv *v1alpha1.ClusterServiceVersion) {
		csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Spec.Containers[0].Image = "registry.example.com/etcd:2"
	}))
	c.eventually("the new version is deployed", func() bool {
		return c.waitForDeployment("etcd").Spec.Template.Spec.Containers[0].Image == "registry.example.com/etcd:2"
	})
	c.waitForPhase("etcd.v1.0.0", v1alpha1.CSVPhaseReplacing, v1alpha1.CSVReasonBeingReplaced)

	next := c.get("etcd.v2.0.0")
	c.Must(c.Delete(t.Context(), next))
	c.waitUntilGone(next)
	c.waitUntilSucceeded("etcd.v1.0.0", "etcd")
	if got := c.waitForDeployment("etcd").Spec.Template.Spec.Containers[0].Image; got != "registry.example.com/etcd" {
		t.Errorf("got image %s, want that of the former version", got)
	}
}

// Two upgrades at once lead to the newest version, and nothing is left of the others.
func TestTwoReplacementsAtOnce(t *testing.T) {
	c := newFixture(t)
	c.createGroup()
	c.createServiceAccount()
	c.CreateAll(c.newCSV("etcd.v1.0.0"))
	c.waitUntilSucceeded("etcd.v1.0.0", "etcd")
	c.CreateAll(c.newCSV("etcd.v2.0.0", replaces("etcd.v1.0.0")), c.newCSV("etcd.v3.0.0", replaces("etcd.v2.0.0")))
	c.waitUntilSucceeded("etcd.v3.0.0", "etcd")
	for _, name := range []string{"etcd.v1.0.0", "etcd.v2.0.0"} {
		c.waitUntilGone(&v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name}})
	}
}

// An upgrade of a failed operator waits, and names the operator that has failed. It continues when that one has succeeded.
func TestReplacesFailed(t *testing.T) {
	c := newFixture(t)
	c.createGroup()
	c.createServiceAccount()
	c.CreateAll(c.newCSV("etcd.v1.0.0"))
	c.waitForDeployment("etcd")
	c.setDeploymentStatus("etcd", appsv1.DeploymentCondition{Type: appsv1.DeploymentProgressing, Status: "False", Reason: "ProgressDeadlineExceeded"})
	c.waitForPhase("etcd.v1.0.0", v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonInstallCheckFailed)
	c.CreateAll(c.newCSV("etcd.v2.0.0", replaces("etcd.v1.0.0")))
	c.waitForMessage("etcd.v2.0.0", v1alpha1.CSVPhasePending, "waiting for ClusterServiceVersion etcd.v1.0.0, which has failed")

	c.markDeploymentAvailable("etcd")
	c.waitUntilSucceeded("etcd.v2.0.0", "etcd")
	c.waitUntilGone(&v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "etcd.v1.0.0"}})
}
