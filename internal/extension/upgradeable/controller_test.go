package upgradeable

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

func TestReport(t *testing.T) {
	kinds := []func(*runtime.Scheme) error{olmv1.AddToScheme, configv1.AddToScheme}
	c := env.NewFixture(t, kinds...)
	c.StartManager(env.Manager{Setup: func(mgr ctrl.Manager) error {
		return Setup(mgr, Options{
			SystemNamespace: "olmv1-system", Program: "v1.2.3",
			KubernetesVersion: func() (*version.Info, error) { return &version.Info{GitVersion: "v1.36.6+k3s1"}, nil },
		})
	}})

	operator := reported(t, c, metav1.ConditionTrue, configv1.ReasonAsExpected, "Every installed ClusterExtension works")
	if len(operator.Status.Conditions) != 4 || len(operator.Status.RelatedObjects) != 4 ||
		len(operator.Status.Versions) != 1 || operator.Status.Versions[0] != (configv1.OperandVersion{Name: "operator", Version: "v1.2.3"}) {
		t.Errorf("got the status %+v", operator.Status)
	}

	limiting := revision("limiting", "olm.maxKubernetesVersion", `"1.36"`)
	if err := c.Create(t.Context(), &limiting); err != nil {
		t.Fatal(err)
	}

	reported(t, c, metav1.ConditionFalse, reasonIncompatible, "next minor version: limiting (limiting.v1.0.0 works up to Kubernetes 1.36). Update")
	limiting.Spec.LifecycleState = olmv1.LifecycleStateArchived
	if err := c.Update(t.Context(), &limiting); err != nil {
		t.Fatal(err)
	}

	reported(t, c, metav1.ConditionTrue, configv1.ReasonAsExpected, "")
	if err := c.Delete(t.Context(), &limiting); err != nil {
		t.Fatal(err)
	}
}

// reported waits for the condition Upgradeable of the ClusterOperator.
func reported(t *testing.T, c client.Client, status metav1.ConditionStatus, reason, text string) *configv1.ClusterOperator {
	t.Helper()
	operator := &configv1.ClusterOperator{}
	env.Eventually(t, fmt.Sprintf("Upgradeable is %s %s", status, reason), func() error {
		if err := c.Get(t.Context(), client.ObjectKey{Name: operatorName}, operator); err != nil {
			return err
		}
		for _, condition := range operator.Status.Conditions {
			if condition.Type != configv1.OperatorUpgradeable {
				continue
			}
			if condition.Status != status || condition.Reason != reason || !strings.Contains(condition.Message, text) {
				return fmt.Errorf("got %s %s %q, want %s %s %q", condition.Status, condition.Reason, condition.Message, status, reason, text)
			}
			return nil
		}
		return errors.New("there is no condition Upgradeable")
	})

	return operator
}
