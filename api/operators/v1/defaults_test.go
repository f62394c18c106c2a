package v1_test

import (
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha2"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

// TestDefaults checks that an OperatorGroup without a spec has all defaults, and that a v1alpha2 object is read as v1.
func TestDefaults(t *testing.T) {
	c := env.Client(t, corev1.AddToScheme, operatorsv1.AddToScheme, v1alpha2.AddToScheme)
	plain := &unstructured.Unstructured{}
	plain.SetGroupVersionKind(operatorsv1.GroupVersion.WithKind(operatorsv1.OperatorGroupKind))
	plain.SetNamespace("default")
	plain.SetName("plain")
	if err := c.Create(t.Context(), plain, client.FieldValidation("Strict")); err != nil {
		t.Fatal(err)
	}
	if strategy, _, _ := unstructured.NestedString(plain.Object, "spec", "upgradeStrategy"); strategy != "Default" {
		t.Errorf("got upgradeStrategy %q, want Default", strategy)
	}

	old := &v1alpha2.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "old"}}
	old.Spec.TargetNamespaces = []string{"a"}
	if err := c.Create(t.Context(), old); err != nil {
		t.Fatal(err)
	}

	now := &operatorsv1.OperatorGroup{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(old), now); err != nil {
		t.Fatal(err)
	}
	if now.Spec.UpgradeStrategy != operatorsv1.UpgradeStrategyDefault || len(now.Spec.TargetNamespaces) != 1 {
		t.Errorf("got the spec %+v, want the default strategy and one target namespace", now.Spec)
	}
}

// TestRefused checks that the API server refuses invalid objects.
func TestRefused(t *testing.T) {
	c := env.Client(t, operatorsv1.AddToScheme)
	group := func(edit func(map[string]any)) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
		u.SetGroupVersionKind(operatorsv1.GroupVersion.WithKind(operatorsv1.OperatorGroupKind))
		u.SetNamespace("default")
		u.SetName("refused")
		edit(u.Object["spec"].(map[string]any))

		return u
	}

	config := func(interval string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"features": map[string]any{"packageServerSyncInterval": interval}}}}
		u.SetGroupVersionKind(operatorsv1.GroupVersion.WithKind(operatorsv1.OLMConfigKind))
		u.SetName("refused")
		return u
	}

	override := &operatorsv1.OperatorCondition{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "refused"}}
	override.Spec.Overrides = []operatorsv1.ConditionOverride{{Type: "Upgradeable", Status: "Perhaps", Reason: "R", Message: "m"}}
	for name, object := range map[string]client.Object{
		"a namespace twice":                  group(func(spec map[string]any) { spec["targetNamespaces"] = []any{"a", "a"} }),
		"another strategy":                   group(func(spec map[string]any) { spec["upgradeStrategy"] = "Hope" }),
		"an interval without a unit":         config("5"),
		"an interval of days":                config("5d"),
		"an override with an invalid status": override,
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.Create(t.Context(), object, client.DryRunAll); !apierrors.IsInvalid(err) {
				t.Errorf("got error %v, want that the object is invalid", err)
			}
		})
	}

	if err := c.Create(t.Context(), config("1h1.5m30s"), client.DryRunAll); err != nil {
		t.Errorf("a valid interval: got error %v, want none", err)
	}
}
