package precondition

import (
	"fmt"

	"github.com/blang/semver/v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

// Etcd is the name of the ClusterOperator that reports backups.
const Etcd = "etcd"

// recentBackupCondition is the condition that reports backups.
const recentBackupCondition = "RecentBackup"

const reasonNoEtcd = "UnableToGetEtcdOperator"

// checkBackup blocks updates to the next minor version until there is a backup of etcd, because
// a minor update cannot be rolled back. The check is passed if the etcd operator does not report
// the condition, or if there is no such operator: then no backups are made.
func checkBackup(in Input, current, target semver.Version) *Finding {
	if isSameMinor(current, target) || target.LT(current) {
		return nil
	}
	if in.EtcdError != nil {
		return &Finding{Reason: reasonNoEtcd, Message: fmt.Sprintf("%s: ClusterOperator %q cannot be read: %v", recentBackupCondition, Etcd, in.EtcdError)}
	}
	if in.Etcd == nil {
		return nil
	}

	condition := configv1.FindCondition(in.Etcd.Status.Conditions, recentBackupCondition)
	if condition == nil || condition.Status == metav1.ConditionTrue {
		return nil
	}

	return &Finding{Reason: condition.Reason, Message: recentBackupCondition + ": " + condition.Message}
}
