package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// conditionVariable is the environment variable with the name of the OperatorCondition.
	conditionVariable = "OPERATOR_CONDITION_NAME"
	// namespaceFile has the namespace of a pod.
	namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
)

// conditionReporter reports in the OperatorCondition that the operator can be updated.
type conditionReporter struct {
	client client.Client
	name   string
}

// Start reports once. An operator that OLM v1 manages has no OperatorCondition.
func (r *conditionReporter) Start(ctx context.Context) error {
	namespace, err := os.ReadFile(namespaceFile)
	if err != nil {
		return fmt.Errorf("reading the namespace of the pod: %w", err)
	}

	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: "operators.coreos.com", Version: "v2", Kind: "OperatorCondition"})
	object.SetNamespace(strings.TrimSpace(string(namespace)))
	object.SetName(r.name)
	patch, err := newConditionPatch(time.Now())
	if err != nil {
		return err
	}

	return client.IgnoreNotFound(r.client.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch)))
}

// newConditionPatch returns a merge patch that sets the condition Upgradeable.
func newConditionPatch(now time.Time) ([]byte, error) {
	return json.Marshal(map[string]any{"spec": map[string]any{"conditions": []metav1.Condition{{
		Type: "Upgradeable", Status: metav1.ConditionTrue, Reason: "Idle", Message: "The operator can be updated at any time.",
		LastTransitionTime: metav1.NewTime(now),
	}}}})
}
