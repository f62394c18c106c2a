package csv_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	operatorsv2 "github.com/mainstay-dev/mainstay/api/operators/v2"
	"github.com/mainstay-dev/mainstay/internal/classic/olmoperator"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

var kinds = []func(*runtime.Scheme) error{
	clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, apiregistrationv1.AddToScheme,
	v1alpha1.AddToScheme, operatorsv1.AddToScheme, operatorsv2.AddToScheme,
}

// fixture holds a namespace of an API server in which olm-operator runs. The tests set the status of its
// Deployments.
type fixture struct {
	*env.Fixture
	namespace string
	// clock is that of olm-operator.
	clock env.JumpingClock
	// stop stops the manager that was started last.
	stop func()
}

// newFixture creates a namespace and starts olm-operator.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	c := &fixture{Fixture: env.NewFixture(t, kinds...)}
	c.namespace = c.NewNamespace("csv-")
	c.startManager()

	return c
}

// cleanUp deletes the objects of the test while olm-operator still runs and can remove its finalizers.
func (c *fixture) cleanUp() {
	ctx := context.Background() // also after the end of the test
	if err := c.DeleteAllOf(ctx, &v1alpha1.ClusterServiceVersion{}, client.InNamespace(c.namespace)); err != nil {
		c.T.Error(err)
	}

	c.Eventually("the ClusterServiceVersions of namespace "+c.namespace+" are deleted", func() error {
		var list v1alpha1.ClusterServiceVersionList
		if err := c.List(ctx, &list, client.InNamespace(c.namespace)); err != nil {
			return err
		}
		if len(list.Items) > 0 {
			return fmt.Errorf("%d still exist", len(list.Items))
		}
		return nil
	})

	for _, object := range []client.Object{&operatorsv1.OperatorGroup{}, &appsv1.Deployment{}, &v1alpha1.Subscription{}} {
		if err := c.DeleteAllOf(ctx, object, client.InNamespace(c.namespace)); err != nil {
			c.T.Error(err)
		}
	}
}

// startManager starts another olm-operator, which runs until it is stopped or the test ends.
func (c *fixture) startManager(edit ...func(*ctrl.Options)) {
	c.T.Helper()
	options := ctrl.Options{}
	olmoperator.ConfigureOptions(&options)
	for _, e := range edit {
		e(&options)
	}

	_, c.stop = c.StartManager(env.Manager{
		Roles: "config/classic/olm-operator/role.yaml", Options: options,
		Setup: func(mgr ctrl.Manager) error {
			return olmoperator.Setup(mgr, olmoperator.Options{Namespace: "olm", Program: "v1.2.3", Clock: &c.clock})
		},
	})
	c.T.Cleanup(c.cleanUp) // before the program is stopped
}

// eventually waits until a condition is true.
func (c *fixture) eventually(what string, is func() bool) {
	c.T.Helper()
	c.EventuallyTrue(what, is, c.describeState)
}

func (c *fixture) describeState() string {
	var b strings.Builder
	var list v1alpha1.ClusterServiceVersionList
	c.Must(c.List(c.T.Context(), &list, client.InNamespace(c.namespace)))
	for _, csv := range list.Items {
		fmt.Fprintf(&b, "%s %s/%s %q\n", csv.Name, csv.Status.Phase, csv.Status.Reason, csv.Status.Message)
		for _, x := range csv.Status.Conditions {
			fmt.Fprintf(&b, "  %s/%s %q\n", x.Phase, x.Reason, x.Message)
		}
		for _, x := range csv.Status.RequirementStatus {
			if x.Status != v1alpha1.RequirementPresent {
				fmt.Fprintf(&b, "  %+v\n", x)
			}
		}
	}

	var deployments appsv1.DeploymentList
	c.Must(c.List(c.T.Context(), &deployments, client.InNamespace(c.namespace)))
	for _, d := range deployments.Items {
		fmt.Fprintf(&b, "deployment %s %v %+v\n", d.Name, d.Labels, d.Status)
	}

	var groups operatorsv1.OperatorGroupList
	c.Must(c.List(c.T.Context(), &groups, client.InNamespace(c.namespace)))
	for _, g := range groups.Items {
		fmt.Fprintf(&b, "group %s %v %+v\n", g.Name, g.Annotations, g.Status)
	}

	return b.String()
}

// createGroup creates an OperatorGroup that targets its own namespace.
func (c *fixture) createGroup(edit ...func(*operatorsv1.OperatorGroup)) *operatorsv1.OperatorGroup {
	c.T.Helper()
	g := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "group"}}
	g.Spec.TargetNamespaces = []string{c.namespace}
	for _, e := range edit {
		e(g)
	}

	c.Must(c.Create(c.T.Context(), g))
	return g
}

// deploymentSpec returns the spec of a Deployment with the given name.
func deploymentSpec(name string) v1alpha1.StrategyDeploymentSpec {
	labels := map[string]string{"app": name}
	return v1alpha1.StrategyDeploymentSpec{Name: name, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{ServiceAccountName: "operator", Containers: []corev1.Container{{Name: "main", Image: "registry.example.com/" + name}}},
		},
	}}
}

// newCSV returns a ClusterServiceVersion with one Deployment, which has the package's name.
func (c *fixture) newCSV(name string, edit ...func(*v1alpha1.ClusterServiceVersion)) *v1alpha1.ClusterServiceVersion {
	csv := builder.CSV(c.namespace, name)
	csv.Spec.InstallModes = builder.AllInstallModes()
	pkg, _, _ := strings.Cut(name, ".")
	csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = []v1alpha1.StrategyDeploymentSpec{deploymentSpec(pkg)}
	for _, e := range edit {
		e(csv)
	}

	return csv
}

func (c *fixture) get(name string) *v1alpha1.ClusterServiceVersion {
	c.T.Helper()
	csv := &v1alpha1.ClusterServiceVersion{}
	c.Must(c.Get(c.T.Context(), client.ObjectKey{Namespace: c.namespace, Name: name}, csv))
	return csv
}

// waitForPhase waits until a ClusterServiceVersion has the phase and the reason.
func (c *fixture) waitForPhase(name string, phase v1alpha1.ClusterServiceVersionPhase, reason string) *v1alpha1.ClusterServiceVersion {
	c.T.Helper()
	csv := &v1alpha1.ClusterServiceVersion{}
	c.eventually(fmt.Sprintf("%s is %s/%s", name, phase, reason), func() bool {
		err := c.Get(c.T.Context(), client.ObjectKey{Namespace: c.namespace, Name: name}, csv)
		return err == nil && csv.Status.Phase == phase && csv.Status.Reason == reason
	})
	return csv
}

// waitUntilGone waits until an object does not exist.
func (c *fixture) waitUntilGone(object client.Object) {
	c.T.Helper()
	c.eventually(fmt.Sprintf("%T %s is gone", object, object.GetName()), func() bool {
		return apierrors.IsNotFound(c.Get(c.T.Context(), client.ObjectKeyFromObject(object), object))
	})
}

func (c *fixture) waitForDeployment(name string) *appsv1.Deployment {
	c.T.Helper()
	d := &appsv1.Deployment{}
	c.eventually("Deployment "+name+" exists", func() bool {
		return c.Get(c.T.Context(), client.ObjectKey{Namespace: c.namespace, Name: name}, d) == nil
	})
	return d
}

// markDeploymentAvailable sets the status of a healthy Deployment.
func (c *fixture) markDeploymentAvailable(name string) {
	c.T.Helper()
	c.setDeploymentStatus(name, appsv1.DeploymentCondition{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "MinimumReplicasAvailable"})
}

// setDeploymentStatus sets a status of the current generation with one condition.
func (c *fixture) setDeploymentStatus(name string, condition appsv1.DeploymentCondition) {
	c.T.Helper()
	c.eventually("Deployment "+name+" gets a status", func() bool {
		d := c.waitForDeployment(name)
		d.Status = appsv1.DeploymentStatus{
			ObservedGeneration: d.Generation, Replicas: 1, UpdatedReplicas: 1, Conditions: []appsv1.DeploymentCondition{condition},
		}
		return c.Status().Update(c.T.Context(), d) == nil
	})
}

// waitUntilSucceeded marks the Deployments available until the ClusterServiceVersion has succeeded. The
// Deployments may be updated in the meantime.
func (c *fixture) waitUntilSucceeded(name string, deployments ...string) *v1alpha1.ClusterServiceVersion {
	c.T.Helper()
	csv := &v1alpha1.ClusterServiceVersion{}
	c.eventually(name+" succeeds", func() bool {
		for _, d := range deployments {
			live := &appsv1.Deployment{}
			if c.Get(c.T.Context(), client.ObjectKey{Namespace: c.namespace, Name: d}, live) == nil && live.Status.ObservedGeneration != live.Generation {
				live.Status = appsv1.DeploymentStatus{
					ObservedGeneration: live.Generation, Replicas: 1, UpdatedReplicas: 1,
					Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "MinimumReplicasAvailable"}},
				}
				_ = c.Status().Update(c.T.Context(), live) // The loop tries again.
			}
		}
		err := c.Get(c.T.Context(), client.ObjectKey{Namespace: c.namespace, Name: name}, csv)
		return err == nil && csv.Status.Phase == v1alpha1.CSVPhaseSucceeded
	})

	return csv
}

// conditionHistory returns the phases and reasons that a ClusterServiceVersion went through.
func conditionHistory(csv *v1alpha1.ClusterServiceVersion) []string {
	var seen []string
	for _, c := range csv.Status.Conditions {
		seen = append(seen, string(c.Phase)+"/"+c.Reason)
	}
	return seen
}

// createServiceAccount creates the service account of the operator.
func (c *fixture) createServiceAccount() {
	c.T.Helper()
	c.CreateAll(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "operator"}})
}

var rule = rbacv1.PolicyRule{Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"configmaps"}}
