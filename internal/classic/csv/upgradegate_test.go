package csv

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	operatorsv2 "github.com/mainstay-dev/mainstay/api/operators/v2"
)

// An operator blocks its upgrade by its OperatorCondition, unless an administrator overrides it.
func TestUpgradeable(t *testing.T) {
	reported := func(conditionType string, status metav1.ConditionStatus, generation int64) []metav1.Condition {
		return []metav1.Condition{{Type: conditionType, Status: status, Reason: "R", Message: "it migrates", ObservedGeneration: generation}}
	}
	override := func(conditionType string, status metav1.ConditionStatus) []operatorsv1.ConditionOverride {
		return []operatorsv1.ConditionOverride{{Type: conditionType, Status: status, Reason: "R", Message: "not today"}}
	}
	for name, c := range map[string]struct {
		status    []metav1.Condition
		overrides []operatorsv1.ConditionOverride
		want      string
	}{
		"nothing reported":          {},
		"another condition":         {status: reported("Ready", metav1.ConditionFalse, 3)},
		"upgradeable":               {status: reported("Upgradeable", metav1.ConditionTrue, 3)},
		"unknown":                   {status: reported("Upgradeable", metav1.ConditionUnknown, 3)},
		"not upgradeable":           {status: reported("Upgradeable", metav1.ConditionFalse, 3), want: "the operator is not upgradeable: it migrates"},
		"not upgradeable, outdated": {status: reported("Upgradeable", metav1.ConditionFalse, 2), want: `the operatorcondition status "Upgradeable"="False" is outdated`},
		"upgradeable, outdated":     {status: reported("Upgradeable", metav1.ConditionTrue, 2), want: `the operatorcondition status "Upgradeable"="True" is outdated`},
		"overridden":                {status: reported("Upgradeable", metav1.ConditionFalse, 3), overrides: override("Upgradeable", metav1.ConditionTrue)},
		"overridden, and outdated":  {status: reported("Upgradeable", metav1.ConditionFalse, 2), overrides: override("Upgradeable", metav1.ConditionTrue)},
		"overridden to false":       {status: reported("Upgradeable", metav1.ConditionTrue, 3), overrides: override("Upgradeable", metav1.ConditionFalse), want: "the operator is not upgradeable: not today"},
		"overridden to unknown":     {overrides: override("Upgradeable", metav1.ConditionUnknown), want: "the operator is not upgradeable: not today"},
		"another override":          {status: reported("Upgradeable", metav1.ConditionFalse, 3), overrides: override("Ready", metav1.ConditionTrue), want: "the operator is not upgradeable: it migrates"},
	} {
		t.Run(name, func(t *testing.T) {
			oc := &operatorsv2.OperatorCondition{ObjectMeta: metav1.ObjectMeta{Generation: 3}}
			oc.Spec.Overrides, oc.Status.Conditions = c.overrides, c.status
			if got := NotUpgradeableReason(oc); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
