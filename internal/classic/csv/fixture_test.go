package csv_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	operatorsv2 "github.com/mainstay-dev/mainstay/api/operators/v2"
	"github.com/mainstay-dev/mainstay/internal/classic/olmoperator"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// waitTimeout limits every wait of a test.
const waitTimeout = 3 * time.Minute

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(env.Run(m))
}

var kinds = []func(*runtime.Scheme) error{
	clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, apiregistrationv1.AddToScheme,
	v1alpha1.AddToScheme, operatorsv1.AddToScheme, operatorsv2.AddToScheme,
}

// fixture holds a namespace of an API server in which olm-operator runs. The tests set the status of its
// Deployments.
type fixture struct {
	t *testing.T
	client.Client
	namespace string
	// stop stops the manager that was started last.
	stop func()
}

func startAPIServer(t *testing.T) *rest.Config {
	t.Helper()
	config := env.Start(t)
	config.QPS = -1
	return config
}

// newFixture creates a namespace and starts olm-operator.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	direct, err := client.New(startAPIServer(t), client.Options{Scheme: env.Scheme(t, kinds...)})
	if err != nil {
		t.Fatal(err)
	}

	c := &fixture{t: t, Client: direct}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "csv-"}}
	c.must(c.Create(t.Context(), ns))
	c.namespace = ns.Name
	c.startManager()

	return c
}

// cleanUp deletes the objects of the test while olm-operator still runs and can remove its finalizers.
func (c *fixture) cleanUp() {
	ctx := context.Background() // also after the end of the test
	if err := c.DeleteAllOf(ctx, &v1alpha1.ClusterServiceVersion{}, client.InNamespace(c.namespace)); err != nil {
		c.t.Error(err)
	}

	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, waitTimeout, true, func(context.Context) (bool, error) {
		var list v1alpha1.ClusterServiceVersionList
		return c.List(ctx, &list, client.InNamespace(c.namespace)) == nil && len(list.Items) == 0, nil
	})
	if err != nil {
		c.t.Errorf("ClusterServiceVersions of namespace %s are left over: %v", c.namespace, err)
	}

	for _, object := range []client.Object{&operatorsv1.OperatorGroup{}, &appsv1.Deployment{}, &v1alpha1.Subscription{}} {
		if err := c.DeleteAllOf(ctx, object, client.InNamespace(c.namespace)); err != nil {
			c.t.Error(err)
		}
	}
}

// startManager starts another olm-operator, which runs until it is stopped or the test ends.
func (c *fixture) startManager(edit ...func(*ctrl.Options)) {
	c.t.Helper()
	options := ctrl.Options{
		Scheme: c.Scheme(), Metrics: server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	}
	olmoperator.ConfigureOptions(&options)
	for _, e := range edit {
		e(&options)
	}

	rights := env.ConfigWithRoles(c.t, "config/classic/olm-operator/role.yaml")
	rights.QPS = -1
	mgr, err := ctrl.NewManager(rights, options)
	c.must(err)
	c.must(olmoperator.Setup(mgr, olmoperator.Options{Namespace: "olm", Program: "v1.2.3"}))
	c.stop = env.StartManager(c.t, mgr)
	c.t.Cleanup(c.cleanUp) // before the program is stopped
}

func (c *fixture) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// eventually waits until a condition is true.
func (c *fixture) eventually(what string, is func() bool) {
	c.t.Helper()
	err := wait.PollUntilContextTimeout(c.t.Context(), 20*time.Millisecond, waitTimeout, true, func(context.Context) (bool, error) { return is(), nil })
	if err != nil {
		c.t.Fatalf("never: %s; it is:\n%s", what, c.describeState())
	}
}

func (c *fixture) describeState() string {
	var b strings.Builder
	var list v1alpha1.ClusterServiceVersionList
	c.must(c.List(c.t.Context(), &list, client.InNamespace(c.namespace)))
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
	c.must(c.List(c.t.Context(), &deployments, client.InNamespace(c.namespace)))
	for _, d := range deployments.Items {
		fmt.Fprintf(&b, "deployment %s %v %+v\n", d.Name, d.Labels, d.Status)
	}

	var groups operatorsv1.OperatorGroupList
	c.must(c.List(c.t.Context(), &groups, client.InNamespace(c.namespace)))
	for _, g := range groups.Items {
		fmt.Fprintf(&b, "group %s %v %+v\n", g.Name, g.Annotations, g.Status)
	}

	return b.String()
}

// createGroup creates an OperatorGroup that targets its own namespace.
func (c *fixture) createGroup(edit ...func(*operatorsv1.OperatorGroup)) *operatorsv1.OperatorGroup {
	c.t.Helper()
	g := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "group"}}
	g.Spec.TargetNamespaces = []string{c.namespace}
	for _, e := range edit {
		e(g)
	}

	c.must(c.Create(c.t.Context(), g))
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
	csv := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name}}
	csv.Spec.DisplayName = name
	pkg, _, _ := strings.Cut(name, ".")
	csv.Spec.InstallStrategy = v1alpha1.NamedInstallStrategy{
		StrategyName: v1alpha1.InstallStrategyDeployment,
		StrategySpec: v1alpha1.StrategyDetailsDeployment{DeploymentSpecs: []v1alpha1.StrategyDeploymentSpec{deploymentSpec(pkg)}},
	}
	for _, mode := range []v1alpha1.InstallModeType{
		v1alpha1.InstallModeTypeOwnNamespace, v1alpha1.InstallModeTypeSingleNamespace, v1alpha1.InstallModeTypeMultiNamespace, v1alpha1.InstallModeTypeAllNamespaces,
	} {
		csv.Spec.InstallModes = append(csv.Spec.InstallModes, v1alpha1.InstallMode{Type: mode, Supported: true})
	}

	for _, e := range edit {
		e(csv)
	}

	return csv
}

func (c *fixture) create(objects ...client.Object) {
	c.t.Helper()
	for _, object := range objects {
		c.must(c.Create(c.t.Context(), object))
	}
}

func (c *fixture) get(name string) *v1alpha1.ClusterServiceVersion {
	c.t.Helper()
	csv := &v1alpha1.ClusterServiceVersion{}
	c.must(c.Get(c.t.Context(), client.ObjectKey{Namespace: c.namespace, Name: name}, csv))
	return csv
}

// waitForPhase waits until a ClusterServiceVersion has the phase and the reason.
func (c *fixture) waitForPhase(name string, phase v1alpha1.ClusterServiceVersionPhase, reason string) *v1alpha1.ClusterServiceVersion {
	c.t.Helper()
	csv := &v1alpha1.ClusterServiceVersion{}
	c.eventually(fmt.Sprintf("%s is %s/%s", name, phase, reason), func() bool {
		err := c.Get(c.t.Context(), client.ObjectKey{Namespace: c.namespace, Name: name}, csv)
		return err == nil && csv.Status.Phase == phase && csv.Status.Reason == reason
	})
	return csv
}

// waitUntilGone waits until an object does not exist.
func (c *fixture) waitUntilGone(object client.Object) {
	c.t.Helper()
	c.eventually(fmt.Sprintf("%T %s is gone", object, object.GetName()), func() bool {
		return apierrors.IsNotFound(c.Get(c.t.Context(), client.ObjectKeyFromObject(object), object))
	})
}

func (c *fixture) waitForDeployment(name string) *appsv1.Deployment {
	c.t.Helper()
	d := &appsv1.Deployment{}
	c.eventually("Deployment "+name+" exists", func() bool {
		return c.Get(c.t.Context(), client.ObjectKey{Namespace: c.namespace, Name: name}, d) == nil
	})
	return d
}

// markDeploymentAvailable sets the status of a healthy Deployment.
func (c *fixture) markDeploymentAvailable(name string) {
	c.t.Helper()
	c.setDeploymentStatus(name, appsv1.DeploymentCondition{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "MinimumReplicasAvailable"})
}

// setDeploymentStatus sets a status of the current generation with one condition.
func (c *fixture) setDeploymentStatus(name string, condition appsv1.DeploymentCondition) {
	c.t.Helper()
	c.eventually("Deployment "+name+" gets a status", func() bool {
		d := c.waitForDeployment(name)
		d.Status = appsv1.DeploymentStatus{
			ObservedGeneration: d.Generation, Replicas: 1, UpdatedReplicas: 1, Conditions: []appsv1.DeploymentCondition{condition},
		}
		return c.Status().Update(c.t.Context(), d) == nil
	})
}

// waitUntilSucceeded marks the Deployments available until the ClusterServiceVersion has succeeded. The
// Deployments may be updated in the meantime.
func (c *fixture) waitUntilSucceeded(name string, deployments ...string) *v1alpha1.ClusterServiceVersion {
	c.t.Helper()
	csv := &v1alpha1.ClusterServiceVersion{}
	c.eventually(name+" succeeds", func() bool {
		for _, d := range deployments {
			live := &appsv1.Deployment{}
			if c.Get(c.t.Context(), client.ObjectKey{Namespace: c.namespace, Name: d}, live) == nil && live.Status.ObservedGeneration != live.Generation {
				live.Status = appsv1.DeploymentStatus{
					ObservedGeneration: live.Generation, Replicas: 1, UpdatedReplicas: 1,
					Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "MinimumReplicasAvailable"}},
				}
				_ = c.Status().Update(c.t.Context(), live) // The loop tries again.
			}
		}
		err := c.Get(c.t.Context(), client.ObjectKey{Namespace: c.namespace, Name: name}, csv)
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
	c.t.Helper()
	c.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "operator"}})
}

var rule = rbacv1.PolicyRule{Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"configmaps"}}
