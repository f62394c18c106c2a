package installplan_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/installplan"
	"github.com/mainstay-dev/mainstay/internal/classic/steps"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

var kinds = []func(*runtime.Scheme) error{
	clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme, operatorsv1.AddToScheme,
}

// catalogOperatorRoles is the file of the roles that are shipped with the program.
const catalogOperatorRoles = "config/classic/catalog-operator/role.yaml"

// fixture holds a namespace of an API server in which InstallPlans are executed.
type fixture struct {
	*env.Fixture
	namespace string
}

// newFixture creates a namespace with an OperatorGroup, and runs the controller with a retry timeout.
func newFixture(t *testing.T, retry time.Duration) *fixture {
	t.Helper()
	w := newFixtureWithoutController(t)
	w.createGroup("group", "", "")
	w.startController(retry)
	return w
}

// newFixtureWithoutController creates a namespace.
func newFixtureWithoutController(t *testing.T) *fixture {
	t.Helper()
	w := &fixture{Fixture: env.NewFixture(t, kinds...)}
	w.namespace = w.NewNamespace("plans-")
	t.Cleanup(w.cleanUp)

	return w
}

// cleanUp deletes plans, which would be executed in the next test, and cluster-scoped objects.
func (w *fixture) cleanUp() {
	ctx := context.Background() // also after the end of the test
	if err := w.DeleteAllOf(ctx, &v1alpha1.InstallPlan{}, client.InNamespace(w.namespace)); err != nil {
		w.T.Error(err)
	}

	managed := client.MatchingLabels{"olm.managed": "true"}
	for _, object := range []client.Object{&apiextensionsv1.CustomResourceDefinition{}, &schedulingv1.PriorityClass{}} {
		if err := w.DeleteAllOf(ctx, object, managed); err != nil {
			w.T.Error(err)
		}
	}

	w.Eventually("the CRDs are deleted", func() error {
		var list apiextensionsv1.CustomResourceDefinitionList
		if err := w.List(ctx, &list, managed); err != nil {
			return err
		}
		if len(list.Items) > 0 {
			return fmt.Errorf("%d still exist", len(list.Items))
		}
		return nil
	})
}

// startController runs the controller, with the role that is shipped with the program, until it is stopped or the test
// ends.
func (w *fixture) startController(retry time.Duration) (stop func()) {
	w.T.Helper()
	_, stop = w.StartManager(env.Manager{Roles: catalogOperatorRoles, Setup: func(mgr ctrl.Manager) error {
		return installplan.Setup(mgr, installplan.Options{Namespace: "default", RetryTimeout: retry})
	}})
	return stop
}

// createGroup creates an OperatorGroup that targets its namespace. If found is not empty, its status refers to this
// service account.
func (w *fixture) createGroup(name, account, found string) *operatorsv1.OperatorGroup {
	w.T.Helper()
	group := &operatorsv1.OperatorGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec:       operatorsv1.OperatorGroupSpec{TargetNamespaces: []string{w.namespace}, ServiceAccountName: account},
	}
	w.Must(w.Create(w.T.Context(), group))
	w.setServiceAccountRef(group, found)

	return group
}

func (w *fixture) setServiceAccountRef(group *operatorsv1.OperatorGroup, account string) {
	w.T.Helper()
	group.Status.Namespaces, group.Status.LastUpdated = []string{w.namespace}, ptr.To(metav1.Now())
	group.Status.ServiceAccountRef = nil
	if account != "" {
		group.Status.ServiceAccountRef = &corev1.ObjectReference{Kind: "ServiceAccount", Namespace: w.namespace, Name: account}
	}
	w.Must(w.Status().Update(w.T.Context(), group))
}

// csvManifest returns a ClusterServiceVersion that requires permissions.
func csvManifest(name string) string {
	return fmt.Sprintf(`{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":{"name":%q},
"spec":{"version":"1.0.0","displayName":"Kettle","installModes":[{"type":"AllNamespaces","supported":true}],"install":{"strategy":"deployment","spec":{"deployments":[],
"permissions":[{"serviceAccountName":"kettle","rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}],
"clusterPermissions":[{"serviceAccountName":"kettle","rules":[{"apiGroups":["example.com"],"resources":["kettles"],"verbs":["get"]}]}]}}}}`, name)
}

// crdManifest returns a CRD with one version, whose objects have a size.
func crdManifest(plural, version, size string) string {
	return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%[1]s.example.com"},
"spec":{"group":"example.com","scope":"Namespaced","names":{"kind":"%[2]s","listKind":"%[2]sList","plural":"%[1]s","singular":"%[3]s"},
"versions":[{"name":%[4]q,"served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"size":{"type":"integer"%[5]s}}}}}]}}`,
		plural, kindOf(plural), strings.TrimSuffix(plural, "s"), version, size)
}

func kindOf(plural string) string {
	singular := strings.TrimSuffix(plural, "s")
	return strings.ToUpper(singular[:1]) + singular[1:]
}

// newBundleSteps returns the steps of a bundle.
func (w *fixture) newBundleSteps(csv string, objects ...string) []*v1alpha1.Step {
	w.T.Helper()
	b, err := steps.Decode(csv, objects)
	w.Must(err)
	made, err := steps.FromBundle(b, steps.Place{Namespace: w.namespace, Catalog: "shop", CatalogNamespace: "olm"})
	w.Must(err)
	return made
}

// createPlan creates a plan with steps.
func (w *fixture) createPlan(name string, approval v1alpha1.Approval, made []*v1alpha1.Step) *v1alpha1.InstallPlan {
	w.T.Helper()
	plan := &v1alpha1.InstallPlan{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec: v1alpha1.InstallPlanSpec{
			ClusterServiceVersionNames: []string{}, Approval: approval, Approved: approval == v1alpha1.ApprovalAutomatic,
		},
	}

	for _, step := range made {
		if step.Resource.Kind == v1alpha1.ClusterServiceVersionKind {
			plan.Spec.ClusterServiceVersionNames = append(plan.Spec.ClusterServiceVersionNames, step.Resource.Name)
		}
	}

	w.Must(w.Create(w.T.Context(), plan))
	plan.Status = v1alpha1.InstallPlanStatus{Phase: v1alpha1.InstallPlanPhaseInstalling, CatalogSources: []string{}, Plan: made}
	if !plan.Spec.Approved {
		plan.Status.Phase = v1alpha1.InstallPlanPhaseRequiresApproval
	}

	w.Must(w.Status().Update(w.T.Context(), plan))
	return plan
}

func (w *fixture) get(name string) *v1alpha1.InstallPlan {
	w.T.Helper()
	var plan v1alpha1.InstallPlan
	w.Must(w.Get(w.T.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, &plan))
	return &plan
}

// eventually waits until a plan satisfies a condition.
func (w *fixture) eventually(name, what string, is func(*v1alpha1.InstallPlan) bool) *v1alpha1.InstallPlan {
	w.T.Helper()
	var plan *v1alpha1.InstallPlan
	w.EventuallyTrue(what, func() bool {
		plan = w.get(name)
		return is(plan)
	}, func() string { return describe(plan) })

	return plan
}

// waitForPhase waits until a plan has a phase.
func (w *fixture) waitForPhase(name string, phase v1alpha1.InstallPlanPhase) *v1alpha1.InstallPlan {
	w.T.Helper()
	return w.eventually(name, string(phase), func(p *v1alpha1.InstallPlan) bool { return p.Status.Phase == phase })
}

// waitUntil waits until a condition is true.
func (w *fixture) waitUntil(what string, is func() bool) {
	w.T.Helper()
	w.EventuallyTrue(what, is, nil)
}

// describe returns the content of a plan without fields that differ between two runs.
func describe(plan *v1alpha1.InstallPlan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", plan.Status.Phase, plan.Status.Message)
	for _, c := range plan.Status.Conditions {
		fmt.Fprintf(&b, "%s=%s %s: %s\n", c.Type, c.Status, c.Reason, c.Message)
	}

	for _, s := range plan.Status.Plan {
		fmt.Fprintf(&b, "%s %s: %s\n", s.Resource.Kind, s.Resource.Name, s.Status)
	}

	return b.String()
}

func (w *fixture) createAccount(name string, rules ...rbacv1.PolicyRule) {
	w.T.Helper()
	w.Must(w.Create(w.T.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}))
	w.grantRules(name, rules...)
}

// grantRules grants permissions in the namespace to a service account.
func (w *fixture) grantRules(account string, rules ...rbacv1.PolicyRule) {
	w.T.Helper()
	meta := metav1.ObjectMeta{Namespace: w.namespace, GenerateName: account + "-"}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: rules}
	w.Must(w.Create(w.T.Context(), role))
	w.Must(w.Create(w.T.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: w.namespace, Name: account}},
	}))
}
