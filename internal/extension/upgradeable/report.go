package upgradeable

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/operatorstatus"
)

// reasonIncompatible is the reason of Upgradeable if extensions block the update.
const reasonIncompatible = "IncompatibleOperatorsInstalled"

// reportStatus writes the conditions, versions and related objects to the status. Conditions of
// other components stay.
func reportStatus(status *configv1.ClusterOperatorStatus, found []limit, program, namespace string, now metav1.Time) {
	good := func(kind string, state metav1.ConditionStatus, message string) configv1.ClusterOperatorStatusCondition {
		return configv1.ClusterOperatorStatusCondition{Type: kind, Status: state, Reason: configv1.ReasonAsExpected, Message: message}
	}
	upgradeable := good(configv1.OperatorUpgradeable, metav1.ConditionTrue, "Every installed ClusterExtension works on the next minor version of the cluster, as far as it says")
	if len(found) > 0 {
		upgradeable.Status, upgradeable.Reason, upgradeable.Message = metav1.ConditionFalse, reasonIncompatible, limitsMessage(found)
	}

	for _, condition := range []configv1.ClusterOperatorStatusCondition{
		good(configv1.OperatorAvailable, metav1.ConditionTrue, "The controllers run"),
		good(configv1.OperatorProgressing, metav1.ConditionFalse, "Running version "+program),
		good(configv1.OperatorDegraded, metav1.ConditionFalse, "The controllers work"),
		upgradeable,
	} {
		operatorstatus.SetCondition(&status.Conditions, condition, now)
	}

	status.Versions = []configv1.OperandVersion{{Name: operatorstatus.VersionName, Version: program}}
	group := olmv1.GroupVersion.Group
	status.RelatedObjects = []configv1.ObjectReference{
		{Resource: "namespaces", Name: namespace},
		{Group: group, Resource: "clustercatalogs"},
		{Group: group, Resource: "clusterextensions"},
		{Group: group, Resource: "clusterobjectsets"},
	}
}
