// Package report reports the progress of the nodes as ClusterOperator "machine-config", for which an update of the cluster
// waits. It reports a version once all pools that an update requires, the control plane among them, have the configuration
// of that version.
//
// It also reports nodes that are too old for the next minor version of the cluster. It reads pools and nodes, and writes
// only that object.
package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	"github.com/mainstay-dev/mainstay/internal/node/pools"
	"github.com/mainstay-dev/mainstay/internal/operatorstatus"
)

// updateTimeoutPerNode is how long each node of a required pool may take before the update is reported as failing.
const updateTimeoutPerNode = 10 * time.Minute

// Reasons of conditions.
const (
	reasonRequiredPools = "RequiredPoolsFailed"
	reasonDegradedPool  = "DegradedPool"
	reasonPoolUpdating  = "PoolUpdating"
	// reasonSkew is the one that platforms know; there kube-apiserver reports it.
	reasonSkew = "KubeletMinorVersionUnsupportedNextUpgrade"
)

// facts are the inputs of the report.
type facts struct {
	// version is the version to which the cluster is updated.
	version string
	pools   []mcfgv1.MachineConfigPool
	// isRendered reports whether a pool's spec names the configuration of that version.
	isRendered func(*mcfgv1.MachineConfigPool) bool
	now        metav1.Time
	// skew describes the nodes that are too old for the next minor version; empty for none.
	skew string
}

// fillStatus writes the report into a status that holds the previous report.
func (f *facts) fillStatus(status *configv1.ClusterOperatorStatus) {
	slices.SortFunc(f.pools, func(a, b mcfgv1.MachineConfigPool) int { return cmp.Compare(a.Name, b.Name) })
	deployed := operatorstatus.VersionOf(status, operatorstatus.VersionName)
	waiting, failure := f.checkRequiredPools()
	if !waiting && failure == "" {
		deployed = f.version
		status.Versions = []configv1.OperandVersion{{Name: operatorstatus.VersionName, Version: deployed}}
	}

	set := func(conditionType string, is bool, reason, message string) {
		c := configv1.ClusterOperatorStatusCondition{Type: conditionType, Status: metav1.ConditionFalse, Reason: reason, Message: message}
		if is {
			c.Status = metav1.ConditionTrue
		}
		operatorstatus.SetCondition(&status.Conditions, c, f.now)
	}

	if deployed == "" {
		set(configv1.OperatorAvailable, false, "", "Cluster not available for "+f.version)
	} else {
		set(configv1.OperatorAvailable, true, configv1.ReasonAsExpected, "Cluster has deployed "+deployed)
	}

	isProgressing := deployed != f.version
	if isProgressing {
		set(configv1.OperatorProgressing, true, "", "Working towards "+f.version)
	} else {
		set(configv1.OperatorProgressing, false, "", "Cluster version is "+f.version)
	}

	switch {
	case failure == "":
		set(configv1.OperatorDegraded, false, configv1.ReasonAsExpected, "")
	case isProgressing:
		set(configv1.OperatorDegraded, true, reasonRequiredPools, fmt.Sprintf("Unable to apply %s: %s", f.version, failure))
	default:
		set(configv1.OperatorDegraded, true, reasonRequiredPools, fmt.Sprintf("Failed to resync %s because: %s", f.version, failure))
	}

	f.setUpgradeable(set)
	status.Extension = runtime.RawExtension{Raw: f.poolSummaries()}
	status.RelatedObjects = []configv1.ObjectReference{
		{Group: mcfgv1.GroupVersion.Group, Resource: "machineconfigpools"}, {Group: mcfgv1.GroupVersion.Group, Resource: "machineconfigs"},
		{Resource: "nodes"},
	}
}

func (f *facts) setUpgradeable(set func(string, bool, string, string)) {
	named := func(conditionType string) string {
		var names []string
		for i := range f.pools {
			if pools.Is(&f.pools[i], conditionType) {
				names = append(names, f.pools[i].Name)
			}
		}
		return strings.Join(names, ", ")
	}

	degraded, updating := named(mcfgv1.PoolDegraded), named(mcfgv1.PoolUpdating)
	switch {
	case degraded != "":
		set(configv1.OperatorUpgradeable, false, reasonDegradedPool, "One or more machine config pools are degraded: "+degraded+"; see 'mainstay nodes status' and resolve that before the cluster is updated")
	case updating != "":
		set(configv1.OperatorUpgradeable, false, reasonPoolUpdating, "One or more machine config pools are updating: "+updating)
	case f.skew != "":
		set(configv1.OperatorUpgradeable, false, reasonSkew, f.skew)
	default:
		set(configv1.OperatorUpgradeable, true, configv1.ReasonAsExpected, "")
	}
}

// checkRequiredPools reports whether pools that an update requires are still updating, and what blocks them.
func (f *facts) checkRequiredPools() (waiting bool, failure string) {
	var failures []string
	found := false
	for i := range f.pools {
		pool := &f.pools[i]
		if _, labelled := pool.Labels[mcfgv1.LabelRequiredForUpgrade]; !labelled && pool.Name != mcfgv1.PoolMaster {
			continue
		}

		found = true
		isDone := f.isRendered(pool) && pool.Status.ObservedGeneration == pool.Generation && pools.Is(pool, mcfgv1.PoolUpdated) &&
			pool.Status.Configuration.Name == pool.Spec.Configuration.Name
		waiting = waiting || !isDone
		switch {
		case pools.Is(pool, mcfgv1.PoolDegraded):
			failures = append(failures, fmt.Sprintf("error during syncRequiredMachineConfigPools: pool %s is degraded: %s", pool.Name, describeDegradation(pool)))
		case isDone:
		case pool.Spec.Paused:
			failures = append(failures, fmt.Sprintf("required MachineConfigPool %s is paused and cannot sync until it is unpaused", pool.Name))
		case f.isLate(pool):
			failures = append(failures, fmt.Sprintf("error during syncRequiredMachineConfigPools: pool %s is not ready, retrying. Status: (total: %d, ready %d, updated: %d, unavailable: %d, degraded: %d)",
				pool.Name, pool.Status.MachineCount, pool.Status.ReadyMachineCount, pool.Status.UpdatedMachineCount, pool.Status.UnavailableMachineCount, pool.Status.DegradedMachineCount))
		}
	}

	// Without pools, nothing is known to be done.
	return waiting || !found, strings.Join(failures, "; ")
}

// isLate reports whether a pool has been updating for longer than its nodes should take.
func (f *facts) isLate(pool *mcfgv1.MachineConfigPool) bool {
	for _, c := range pool.Status.Conditions {
		if c.Type == mcfgv1.PoolUpdating && c.Status == metav1.ConditionTrue {
			return f.now.Sub(c.LastTransitionTime.Time) > updateTimeoutPerNode*time.Duration(max(pool.Status.MachineCount, 1))
		}
	}
	return false
}

// describeDegradation returns why a pool is degraded.
func describeDegradation(pool *mcfgv1.MachineConfigPool) string {
	var said []string
	for _, c := range pool.Status.Conditions {
		if c.Status == metav1.ConditionTrue && (c.Type == mcfgv1.PoolNodeDegraded || c.Type == mcfgv1.PoolRenderDegraded) && c.Message != "" {
			said = append(said, c.Message)
		}
	}
	return strings.Join(said, "; ")
}

// poolSummaries returns the progress of each pool in one line, as JSON.
func (f *facts) poolSummaries() []byte {
	lines := map[string]string{}
	for i := range f.pools {
		pool := &f.pools[i]
		s := &pool.Status
		switch {
		case pools.Is(pool, mcfgv1.PoolDegraded):
			lines[pool.Name] = "pool is degraded because of: " + describeDegradation(pool)
		case pools.Is(pool, mcfgv1.PoolUpdated):
			lines[pool.Name] = fmt.Sprintf("all %d nodes are at latest configuration %s", s.MachineCount, s.Configuration.Name)
		default:
			lines[pool.Name] = fmt.Sprintf("%d (ready %d) out of %d nodes are updating to latest configuration %s", s.UpdatedMachineCount, s.ReadyMachineCount, s.MachineCount, pool.Spec.Configuration.Name)
		}
	}

	data, _ := json.Marshal(lines) // strings can always be written
	return data
}
