package cli_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	"github.com/mainstay-dev/mainstay/internal/node/pools"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// The operators of the documented example.
var releaseOperators = []string{
	"authentication", "baremetal", "cloud-controller-manager", "cloud-credential", "cluster-autoscaler", "config-operator", "console",
	"control-plane-machine-set", "csi-snapshot-controller", "dns", "etcd", "image-registry", "ingress", "insights", "kube-apiserver",
	"kube-controller-manager", "kube-scheduler", "kube-storage-version-migrator", "machine-api", "machine-approver", "machine-config",
	"marketplace", "monitoring", "network", "node-tuning", "openshift-apiserver", "openshift-controller-manager", "openshift-samples",
	"operator-lifecycle-manager", "operator-lifecycle-manager-catalog", "operator-lifecycle-manager-packageserver", "service-ca", "storage",
}

// Releases of the cases, and the node configurations of these releases.
const (
	before, after             = "4.14.0", "4.14.1"
	imageBefore, imageAfter   = digest22, digest23
	masterBefore, masterAfter = "rendered-master-14a", "rendered-master-14b"
	workerBefore, workerAfter = "rendered-worker-14a", "rendered-worker-14b"
)

// clusterUpdateFixture is a clusterVersionFixture with nodes and an update in progress.
type clusterUpdateFixture struct {
	*clusterVersionFixture
	nodeClient client.Client
}

// startUpdate creates the ClusterVersion of an update that started some time ago.
func (c *clusterUpdateFixture) startUpdate(began time.Duration, edit ...func(*configv1.ClusterVersion)) {
	c.T.Helper()
	c.recreateClusterVersion(func(cv *configv1.ClusterVersion) {
		cv.Status.Desired = configv1.Release{Version: after, Image: imageAfter}
		cv.Status.History = []configv1.UpdateHistory{
			newHistoryEntry(after, imageAfter, configv1.PartialUpdate, began, 0),
			newHistoryEntry(before, imageBefore, configv1.CompletedUpdate, 200*time.Hour, 200*time.Hour-84*time.Minute),
			newHistoryEntry("4.13.9", digest24, configv1.CompletedUpdate, 500*time.Hour, 499*time.Hour),
		}
		cv.Status.Conditions = []configv1.ClusterOperatorStatusCondition{
			newCondition("Failing", "False", "", "", began), newCondition("Progressing", "True", "ClusterOperatorUpdating", "Working towards "+after, began),
		}
		for _, e := range edit {
			e(cv)
		}
	})
}

// completeControlPlane marks the update of the control plane as completed.
func completeControlPlane(cv *configv1.ClusterVersion) {
	cv.Status.History[0] = newHistoryEntry(after, imageAfter, configv1.CompletedUpdate, 80*time.Minute, 25*time.Minute)
	cv.Status.Conditions[1] = newCondition("Progressing", "False", "", "Cluster version is "+after, 25*time.Minute)
}

func withFailing(status metav1.ConditionStatus, reason, message string) func(*configv1.ClusterVersion) {
	return func(cv *configv1.ClusterVersion) {
		cv.Status.Conditions[0] = newCondition("Failing", status, reason, message, 6*time.Minute)
	}
}

// applyOperator creates or updates a ClusterOperator of the release.
func (c *clusterUpdateFixture) applyOperator(name, version string, conditions ...configv1.ClusterOperatorStatusCondition) *configv1.ClusterOperator {
	c.T.Helper()
	o := &configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := c.Get(c.T.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		o.Annotations = map[string]string{"include.release.openshift.io/self-managed-high-availability": "true"}
		c.Must(client.IgnoreNotFound(err))
		c.Must(c.Create(c.T.Context(), o))
		c.T.Cleanup(func() { c.Must(c.Delete(context.Background(), o)) })
	}

	o.Status = configv1.ClusterOperatorStatus{Versions: []configv1.OperandVersion{{Name: "operator", Version: version}}, Conditions: conditions}
	c.Must(c.Status().Update(c.T.Context(), o))
	return o
}

func healthyConditions() []configv1.ClusterOperatorStatusCondition {
	return []configv1.ClusterOperatorStatusCondition{
		newCondition("Available", "True", "AsExpected", "", 90*time.Hour), newCondition("Progressing", "False", "AsExpected", "", 4*time.Minute), newCondition("Degraded", "False", "AsExpected", "", 90*time.Hour),
	}
}

// healthyConditionsExcept returns healthyConditions with some conditions replaced.
func healthyConditionsExcept(changes ...configv1.ClusterOperatorStatusCondition) []configv1.ClusterOperatorStatusCondition {
	conditions := healthyConditions()
	for i := range conditions {
		for _, change := range changes {
			if conditions[i].Type == change.Type {
				conditions[i] = change
			}
		}
	}

	return conditions
}

// applyOperators creates or updates healthy ClusterOperators at a version.
func (c *clusterUpdateFixture) applyOperators(version string, names ...string) {
	c.T.Helper()
	for _, name := range names {
		c.applyOperator(name, version, healthyConditions()...)
	}
}

// createPool creates a pool with its nodes.
func (c *clusterUpdateFixture) createPool(name, target string, paused bool, nodes ...*corev1.Node) {
	c.T.Helper()
	createPoolWithNodes(c.T, c.nodeClient, &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: mcfgv1.MachineConfigPoolSpec{Paused: paused}}, target, nodes...)
}

// newNode returns a node with a configuration.
func newNode(name, config string) *corev1.Node {
	return newMachineNode(name, config, config, mcfgv1.NodeDone)
}

// newUpdatingNode returns a node that is updated from one configuration to another.
func newUpdatingNode(name, from, config string, state mcfgv1.NodeState, edits ...func(*corev1.Node)) *corev1.Node {
	return newMachineNode(name, from, config, state, edits...)
}

func markDraining(n *corev1.Node) {
	n.Spec.Unschedulable = true
	n.Annotations[mcfgv1.AnnotationDesiredDrain] = mcfgv1.DrainPrefix + n.Annotations[mcfgv1.AnnotationDesiredConfig]
}

// withBlockedDrain sets the reason of a drain that started some time ago and is blocked.
func withBlockedDrain(since time.Duration) func(*corev1.Node) {
	return func(n *corev1.Node) {
		at := ago(since)
		n.Annotations[mcfgv1.AnnotationDrainStarted] = pools.FormatDrainStarted(at.Time, n.Annotations[mcfgv1.AnnotationDesiredDrain])
		n.Annotations[mcfgv1.AnnotationReason] = "Draining since " + at.UTC().Format(time.RFC3339) +
			": pod kitchen/kettle cannot be evicted: The disruption budget kettle needs 1 healthy pods and has 1 currently"
	}
}

func withNotReady(since time.Duration) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: ago(since), Message: "Kubelet stopped posting node status."}}
	}
}

func withReason(reason string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Annotations[mcfgv1.AnnotationReason] = reason }
}

// newNodes returns n nodes with the same configuration.
func newNodes(prefix string, n int, config string) []*corev1.Node {
	var nodes []*corev1.Node
	for i := range n {
		nodes = append(nodes, newNode(prefix+string(rune('a'+i)), config))
	}
	return nodes
}

// statusCases are states of clusters, each of which is printed in short and in full.
var statusCases = []struct {
	name, flags string
	details     []string
	state       func(c *clusterUpdateFixture)
}{
	{name: "not-updating", state: func(c *clusterUpdateFixture) {
		c.startUpdate(time.Hour, completeControlPlane)
		c.createPool("master", masterAfter, false, newNodes("master-", 3, masterAfter)...)
		c.createPool("worker", workerAfter, false, newNodes("worker-", 2, workerAfter)...)
	}},
	{name: "refused", state: func(c *clusterUpdateFixture) {
		c.startUpdate(50*time.Hour, completeControlPlane, func(cv *configv1.ClusterVersion) {
			cv.Spec.DesiredUpdate = &configv1.Update{Version: "4.15.0", Image: imageAfter}
			cv.Status.Conditions = append(cv.Status.Conditions, newCondition("ReleaseAccepted", "False", "PreconditionChecks",
				`Preconditions failed for payload loaded version="4.15.0" image="`+imageAfter+`": Precondition "ClusterVersionUpgradeable" failed because of "AdminAckRequired": Something must be agreed to`, 50*time.Hour))
		})
	}},
	{name: "refused-while-updating", state: func(c *clusterUpdateFixture) {
		c.startUpdate(20*time.Minute, func(cv *configv1.ClusterVersion) {
			cv.Spec.DesiredUpdate = &configv1.Update{Version: "4.14.9"}
			cv.Status.Conditions = append(cv.Status.Conditions, newCondition("Invalid", "True", "InvalidClusterVersion",
				`The cluster version is invalid: spec.desiredUpdate.version: Invalid value: "4.14.9": when image is empty the update must be an available update`, 2*time.Minute))
		})
		c.applyOperators(before, "console")
	}},
	{name: "degraded", details: []string{"nodes", "health", "operators"}, state: func(c *clusterUpdateFixture) {
		c.startUpdate(40 * time.Minute)
		c.applyOperators(after, "console", "dns", "etcd")
		c.applyOperator("machine-config", before, healthyConditionsExcept(
			newCondition("Progressing", "True", "", "Working towards "+after, 20*time.Minute),
			newCondition("Degraded", "True", "MachineConfigPoolsFailed", "Unable to apply "+after+": 1 nodes are reporting degraded status on sync", 45*time.Minute))...)
		c.createPool("master", masterAfter, false, newNode("master-a", masterAfter), newNode("master-b", masterBefore),
			newUpdatingNode("master-c", masterBefore, masterAfter, mcfgv1.NodeDegraded, withReason("failed to drain node: master-c after 1 hour. Draining since 2024-02-27T10:40:00Z: pod kitchen/kettle cannot be evicted: The disruption budget kettle needs 1 healthy pods and has 1 currently")))
		c.createPool("worker", workerAfter, false, newNode("worker-a", workerBefore),
			newUpdatingNode("worker-b", workerBefore, workerAfter, mcfgv1.NodeUnreconcilable, withReason("can't reconcile config: ignition kargs section contains changes")))
	}},
	{name: "paused-worker-pool", state: func(c *clusterUpdateFixture) {
		c.startUpdate(45 * time.Minute)
		c.applyOperators(after, "console", "dns", "etcd")
		c.applyOperator("machine-config", before, healthyConditionsExcept(newCondition("Progressing", "True", "", "Working towards "+after, 5*time.Minute))...)
		c.createPool("master", masterAfter, false, newUpdatingNode("master-a", masterBefore, masterAfter, mcfgv1.NodeWorking, markDraining), newNode("master-b", masterBefore), newNode("master-c", masterBefore))
		c.createPool("worker", workerAfter, true, newNodes("worker-", 3, workerBefore)...)
	}},
	{name: "workers-started-updating-multiple-pools", state: func(c *clusterUpdateFixture) {
		c.startUpdate(time.Hour, completeControlPlane)
		c.applyOperators(after, "console", "dns", "etcd", "machine-config")
		c.createPool("master", masterAfter, false, newNodes("master-", 3, masterAfter)...)
		c.createPool("worker", workerAfter, false, newNode("worker-a", workerAfter), newUpdatingNode("worker-b", workerBefore, workerAfter, mcfgv1.NodeWorking, markDraining), newNode("worker-c", workerBefore))
		c.createPool("infra", workerAfter, false, newUpdatingNode("infra-a", workerBefore, workerAfter, mcfgv1.NodeRebooting, withNotReady(time.Minute)))
	}},
	{name: "operators-not-annotated", state: func(c *clusterUpdateFixture) {
		c.startUpdate(20 * time.Minute)
		c.applyOperators(after, "console", "dns")
		c.applyOperator("etcd", before, healthyConditions()...)
		foreign := c.applyOperator("aro", "v20240101", healthyConditionsExcept(newCondition("Available", "False", "Broken", "it is broken", time.Hour))...)
		foreign.Annotations = nil
		c.Must(c.Update(c.T.Context(), foreign))
	}},
	{name: "early", state: func(c *clusterUpdateFixture) {
		c.startUpdate(2 * time.Minute)
		c.applyOperators(before, releaseOperators...)
		c.applyOperator("etcd", before, healthyConditionsExcept(newCondition("Progressing", "True", "NodeInstaller", "NodeInstallerProgressing: 1 node is at revision 7;\n2 nodes are at revision 6", time.Minute))...)
		// The new configuration is not rendered yet, so the nodes have the target configuration of their
		// pools.
		c.createPool("master", masterBefore, false, newNodes("master-", 3, masterBefore)...)
		c.createPool("worker", workerBefore, false, newNodes("worker-", 3, workerBefore)...)
	}},
	// The documented example.
	{name: "unavailable-machine-config", state: func(c *clusterUpdateFixture) {
		c.startUpdate(14 * time.Minute)
		c.applyOperators(after, releaseOperators...)
		c.applyOperator("machine-config", before, healthyConditionsExcept(
			newCondition("Available", "False", "MachineConfigControllerFailed", "Cluster not available for "+before+": Deployment machine-config-controller is not available", 21*time.Minute),
			newCondition("Progressing", "True", "", "Working towards "+after, 4*time.Minute))...)
	}},
	{name: "compact", state: func(c *clusterUpdateFixture) {
		c.startUpdate(55*time.Minute, withFailing("Unknown", "SlowClusterOperator", "waiting on machine-config over 90 minutes which is longer than expected"))
		c.applyOperators(after, "console", "dns", "etcd")
		c.applyOperator("machine-config", before, healthyConditionsExcept(newCondition("Progressing", "True", "", "Working towards "+after, 50*time.Minute))...)
		c.createPool("master", masterAfter, false, newNode("master-a", masterAfter), newUpdatingNode("master-b", masterBefore, masterAfter, mcfgv1.NodeRebooting, markDraining, withNotReady(2*time.Minute)), newNode("master-c", masterBefore))
		c.createPool("worker", workerAfter, false)
	}},
	{name: "budget-forbids-draining", flags: " --alerts testdata/clusterversion/alerts.json", state: func(c *clusterUpdateFixture) {
		c.startUpdate(time.Hour, completeControlPlane)
		c.applyOperators(after, "console", "dns", "etcd", "machine-config")
		c.createPool("master", masterAfter, false, newNodes("master-", 3, masterAfter)...)
		nodes := append(newNodes("worker-", 13, workerBefore), newNode("worker-x", workerAfter), newUpdatingNode("worker-y", workerBefore, workerAfter, mcfgv1.NodeWorking, markDraining, withBlockedDrain(12*time.Minute)), newUpdatingNode("worker-z", workerBefore, workerAfter, mcfgv1.NodeWorking, withNotReady(9*time.Minute)))
		c.createPool("worker", workerAfter, false, nodes...)
	}},
	{name: "single-node", state: func(c *clusterUpdateFixture) {
		c.startUpdate(50 * time.Minute)
		c.applyOperators(after, "console", "dns", "etcd")
		c.applyOperator("machine-config", before, healthyConditionsExcept(newCondition("Progressing", "True", "", "Working towards "+after, 10*time.Minute))...)
		c.createPool("master", masterAfter, false, newUpdatingNode("node", masterBefore, masterAfter, mcfgv1.NodeWorking))
	}},
	{name: "no-version", state: func(c *clusterUpdateFixture) {
		c.startUpdate(3*time.Hour, func(cv *configv1.ClusterVersion) {
			cv.Status.Desired.Version, cv.Status.History[0].Version = "", ""
			cv.Status.History[1].State = configv1.PartialUpdate
		}, withFailing("True", "ImageVerificationFailed", "the image cannot be read"))
		c.applyOperators(before, "console", "dns")
	}},
	{name: "slow", state: func(c *clusterUpdateFixture) {
		c.startUpdate(90 * time.Minute)
		c.applyOperators(before, "console", "dns")
		c.applyOperator("etcd", before, healthyConditionsExcept(newCondition("Degraded", "True", "NodeControllerDegraded", "The master nodes not ready", 6*time.Minute))...)
	}},
	{name: "to-multi-arch", state: func(c *clusterUpdateFixture) {
		c.startUpdate(25*time.Minute, func(cv *configv1.ClusterVersion) { cv.Status.History[1].Version = after })
		c.applyOperators(after, "console", "dns")
		o := c.applyOperator("machine-config", after, healthyConditionsExcept(newCondition("Progressing", "True", "", "Working towards "+after, 10*time.Minute))...)
		o.Status.Versions = append(o.Status.Versions, configv1.OperandVersion{Name: "operator-image", Version: "quay.io/mco@sha256:single"})
		c.Must(c.Status().Update(c.T.Context(), o))
		c.createMachineConfigOperator("quay.io/mco@sha256:multi")
	}},
	{name: "installing", state: func(c *clusterUpdateFixture) {
		c.startUpdate(20*time.Minute, func(cv *configv1.ClusterVersion) { cv.Status.History = cv.Status.History[:1] })
		c.applyOperators(after, "console", "dns")
	}},
}

// createMachineConfigOperator creates the Deployment of the operator.
func (c *clusterUpdateFixture) createMachineConfigOperator(image string) {
	c.T.Helper()
	const name = "machine-config-operator"
	labels := map[string]string{"app": name}
	// Namespaces cannot be deleted in the API server of tests, so this one is kept.
	c.Must(client.IgnoreAlreadyExists(c.nodeClient.Create(c.T.Context(), withName(&corev1.Namespace{}, "openshift-"+name))))
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-" + name, Name: name},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: name, Image: image}}},
		}},
	}

	c.Must(c.nodeClient.Create(c.T.Context(), deployment))
	c.T.Cleanup(func() { c.Must(c.nodeClient.Delete(context.Background(), deployment)) })
}

func TestClusterStatus(t *testing.T) {
	c := &clusterUpdateFixture{clusterVersionFixture: newClusterVersionFixture(t), nodeClient: env.Client(t, corev1.AddToScheme, appsv1.AddToScheme, mcfgv1.AddToScheme)}
	for name, version := range map[string]string{masterBefore: before, workerBefore: before, masterAfter: after, workerAfter: after} {
		config := &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{mcfgv1.AnnotationReleaseVersion: version}}}
		c.Must(c.nodeClient.Create(t.Context(), config))
		t.Cleanup(func() { c.Must(c.nodeClient.Delete(context.Background(), config)) })
	}

	for _, test := range statusCases {
		t.Run(test.name, func(t *testing.T) {
			c.T = t
			test.state(c)
			check(t, filepath.Join("clusterversion", "status", test.name), clusterCommand("status"+test.flags))
			for _, details := range append([]string{"all"}, test.details...) {
				check(t, filepath.Join("clusterversion", "status", test.name+"-"+details), clusterCommand("status"+test.flags+" --details "+details))
			}
		})
	}
}

// If the cluster has no kinds for nodes, or if configurations do not specify their release, the known
// state of nodes is printed.
func TestClusterStatusWithoutVersions(t *testing.T) {
	c := &clusterUpdateFixture{clusterVersionFixture: newClusterVersionFixture(t), nodeClient: env.Client(t, corev1.AddToScheme, mcfgv1.AddToScheme)}
	c.startUpdate(20 * time.Minute)
	c.applyOperators(after, "console")
	c.createPool("master", masterAfter, false, newNode("master-a", masterAfter))
	c.createPool("worker", workerAfter, false, newNode("worker-a", workerAfter), newNode("worker-b", workerBefore))
	check(t, filepath.Join("clusterversion", "status", "no-versions"), clusterCommand("status"))
	check(t, filepath.Join("clusterversion", "status", "json"), clusterCommand("status -o json"))
}
