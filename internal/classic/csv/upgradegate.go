package csv

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv2 "github.com/mainstay-dev/mainstay/api/operators/v2"
)

// UpgradeBlockedReason returns why the ClusterServiceVersion named replaced must not be replaced now; empty when it may be. An operator
// without an OperatorCondition may always be replaced.
func UpgradeBlockedReason(ctx context.Context, c client.Reader, namespace, replaced string) (why string, err error) {
	condition := &operatorsv2.OperatorCondition{}
	switch err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: replaced}, condition); {
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("reading OperatorCondition %s/%s: %w", namespace, replaced, err)
	}

	return NotUpgradeableReason(condition), nil
}

// NotUpgradeableReason returns why the operator of an OperatorCondition must not be replaced now; empty when it may be. An
// override by an administrator in spec.overrides takes precedence over the operator's condition.
func NotUpgradeableReason(condition *operatorsv2.OperatorCondition) (why string) {
	for _, override := range condition.Spec.Overrides {
		if override.Type != operatorsv2.Upgradeable {
			continue
		}
		if override.Status == metav1.ConditionTrue {
			return ""
		}
		return "the operator is not upgradeable: " + override.Message
	}

	reported := meta.FindStatusCondition(condition.Status.Conditions, operatorsv2.Upgradeable)
	switch {
	case reported == nil:
		return ""
	case reported.ObservedGeneration != condition.Generation:
		return fmt.Sprintf("the operatorcondition status %q=%q is outdated", reported.Type, reported.Status)
	case reported.Status == metav1.ConditionFalse:
		return "the operator is not upgradeable: " + reported.Message
	}

	return ""
}
