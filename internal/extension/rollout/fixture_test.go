package rollout_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/extension/rollout"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// systemNamespace holds Secrets of objects.
const systemNamespace = "default"

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

// fixture holds the API server, its client and the helpers of a test.
type fixture struct{ *env.Fixture }

func newFixture(t testing.TB) *fixture {
	t.Helper()
	return &fixture{env.NewFixture(t, clientgoscheme.AddToScheme, olmv1.AddToScheme, apiextensionsv1.AddToScheme)}
}

// startController runs the controller until the test ends, or the returned function is called. At
// the end of the test it first removes the remaining sets.
func (c *fixture) startController(clocks ...clock.PassiveClock) (stop func()) {
	c.T.Helper()
	stopManager := env.StartManager(c.T, c.newManager(env.Start(c.T), clocks...))
	stopped := false
	c.T.Cleanup(func() {
		if !stopped {
			c.removeLeftoverSets()
		}
	})

	return func() {
		stopped = true
		stopManager()
	}
}

// newManager returns a manager with the controller.
func (c *fixture) newManager(connection *rest.Config, clocks ...clock.PassiveClock) ctrl.Manager {
	c.T.Helper()
	options := rollout.Options{SystemNamespace: systemNamespace}
	if len(clocks) > 0 {
		options.Clock = clocks[0]
	}

	mgr, err := env.NewManager(connection, ctrl.Options{Scheme: c.Scheme(), GracefulShutdownTimeout: ptr.To(env.WaitTimeout)}, func(mgr ctrl.Manager) error {
		return rollout.Setup(mgr, options)
	})
	c.Must(err)

	return mgr
}

func (c *fixture) removeLeftoverSets() {
	ctx := context.Background()
	c.Eventually("all sets are deleted", func() error {
		var sets olmv1.ClusterObjectSetList
		if err := c.List(ctx, &sets); err != nil {
			return err
		}

		for i := range sets.Items {
			if sets.Items[i].DeletionTimestamp.IsZero() {
				if err := c.Delete(ctx, &sets.Items[i]); client.IgnoreNotFound(err) != nil {
					return err
				}
			}
		}

		if len(sets.Items) > 0 {
			return fmt.Errorf("%d still exist; %s: %v", len(sets.Items), sets.Items[0].Name, sets.Items[0].Status.Conditions)
		}

		return nil
	})
}

// get reads an object, which must exist.
func (c *fixture) get(object client.Object, namespace, name string) {
	c.T.Helper()
	c.Must(c.Get(c.T.Context(), client.ObjectKey{Namespace: namespace, Name: name}, object))
}

// makeDeploymentAvailable simulates the Deployment controller and the kubelet.
func (c *fixture) makeDeploymentAvailable(namespace, name string) {
	c.T.Helper()
	c.Eventually("Deployment "+name+" is made available", func() error {
		var d appsv1.Deployment
		if err := c.Get(c.T.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &d); err != nil {
			return err
		}

		d.Status = builder.AvailableStatus(&d)
		return c.Status().Update(c.T.Context(), &d)
	})
}

// waitForCondition waits for a condition of a set and returns it.
func (c *fixture) waitForCondition(set, kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
	c.T.Helper()
	var found metav1.Condition
	c.Eventually(fmt.Sprintf("%s: %s is %s (%s)", set, kind, status, reason), func() error {
		var s olmv1.ClusterObjectSet
		if err := c.Get(c.T.Context(), client.ObjectKey{Name: set}, &s); err != nil {
			return err
		}

		current := meta.FindStatusCondition(s.Status.Conditions, kind)
		if current == nil || current.Status != status || current.Reason != reason {
			return fmt.Errorf("got the conditions %+v", s.Status.Conditions)
		}

		found = *current
		return nil
	})

	return found
}

func (c *fixture) waitUntilSucceeded(set string) {
	c.T.Helper()
	c.waitForCondition(set, olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonSucceeded)
	c.waitForCondition(set, olmv1.TypeAvailable, metav1.ConditionTrue, olmv1.ReasonProbesSucceeded)
	c.waitForCondition(set, olmv1.TypeSucceeded, metav1.ConditionTrue, olmv1.ReasonSucceeded)
}

// archiveAndWait archives a set and waits until it is archived.
func (c *fixture) archiveAndWait(set string) {
	c.T.Helper()
	s := &olmv1.ClusterObjectSet{}
	c.get(s, "", set)
	c.PatchObject(s, func() { s.Spec.LifecycleState = olmv1.LifecycleStateArchived })

	c.waitForCondition(set, olmv1.TypeProgressing, metav1.ConditionFalse, olmv1.ReasonArchived)
	c.waitForCondition(set, olmv1.TypeAvailable, metav1.ConditionUnknown, olmv1.ReasonArchived)
}

// newPhase returns a phase of manifests in YAML.
func newPhase(name string, manifests ...string) olmv1.ClusterObjectSetPhase {
	result := olmv1.ClusterObjectSetPhase{Name: name}
	for _, manifest := range manifests {
		result.Objects = append(result.Objects, olmv1.ClusterObjectSetObject{Object: builder.FromYAML(manifest)})
	}
	return result
}

// newRevision returns an active set of an extension.
func newRevision(extension string, number int64, phases ...olmv1.ClusterObjectSetPhase) *olmv1.ClusterObjectSet {
	return &olmv1.ClusterObjectSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%d", extension, number),
			Labels: map[string]string{
				olmv1.LabelOwnerKind: olmv1.ClusterExtensionKind,
				olmv1.LabelOwnerName: extension,
			},
		},
		Spec: olmv1.ClusterObjectSetSpec{
			LifecycleState: olmv1.LifecycleStateActive, Revision: number,
			CollisionProtection: olmv1.CollisionProtectionPrevent, Phases: phases,
		},
	}
}

func configMapManifest(namespace, name, value string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: ConfigMap
metadata: {namespace: %q, name: %q}
data: {key: %q}
`, namespace, name, value)
}

func deploymentManifest(namespace, name string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: %q, name: %q}
spec:
  selector: {matchLabels: {app: %[2]q}}
  template:
    metadata: {labels: {app: %[2]q}}
    spec:
      containers: [{name: main, image: example.com/main:v1}]
`, namespace, name)
}

func crdManifest(kind, plural string) string {
	return fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[2]s.rollout.example.com}
spec:
  group: rollout.example.com
  scope: Namespaced
  names: {kind: %[1]s, listKind: %[1]sList, plural: %[2]s, singular: %[2]s}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`, kind, plural)
}

func customResourceManifest(kind, namespace, name string) string {
	return fmt.Sprintf(`
apiVersion: rollout.example.com/v1
kind: %s
metadata: {namespace: %q, name: %q}
spec: {size: 1}
`, kind, namespace, name)
}

func errorUnless(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}
