package precondition

import (
	"fmt"

	"github.com/blang/semver/v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Etcd is the name of the ClusterOperator that tells of backups.
const Etcd = "etcd"

// recentBackup is the condition by which it does.
const recentBackup = "RecentBackup"

const reasonNoEtcd = "UnableToGetEtcdOperator"

// checkBackup keeps a cluster from the next minor version until there is a backup of what
// is stored: there is no way back from a minor version. It is up to the operator of etcd
// whether it takes part: one that does not report the condition has nobody make backups, and
// so has a cluster without that operator.
func checkBackup(in Input, current, target semver.Version) *Finding {
	if sameMinor(current, target) || target.LT(current) {
		return nil
	}
	if in.EtcdError != nil {
		return &Finding{Reason: reasonNoEtcd, Message: fmt.Sprintf("%s: ClusterOperator %q cannot be read: %v", recentBackup, Etcd, in.EtcdError)}
	}
	if in.Etcd == nil {
		return nil
	}

	condition, ok := conditionOf(in.Etcd.Status.Conditions, recentBackup)
	if !ok || condition.Status == metav1.ConditionTrue {
		return nil
	}

	return &Finding{Reason: condition.Reason, Message: recentBackup + ": " + condition.Message}
}
