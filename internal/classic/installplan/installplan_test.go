package installplan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

const secretManifest = `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"steam"},"stringData":{"a":"b"}}`

// A plan creates every object of its steps with the right labels and owners.
func TestExecutePlan(t *testing.T) {
	w := newFixture(t, time.Hour)
	objects := []string{
		crdManifest("cups", "v1", ""), secretManifest,
		`{"apiVersion":"v1","kind":"Service","metadata":{"name":"kettle","namespace":"elsewhere"},"spec":{"ports":[{"port":80}]}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"kettle"},"data":{"a":"b"}}`,
		`{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":"kettle"},"spec":{"maxUnavailable":1}}`,
		`{"apiVersion":"scheduling.k8s.io/v1","kind":"PriorityClass","metadata":{"name":"hot"},"value":7}`,
	}

	w.createPlan("first", v1alpha1.ApprovalAutomatic, w.newBundleSteps(csvManifest("kettle.v1"), objects...))
	plan := w.waitForPhase("first", v1alpha1.InstallPlanPhaseComplete)
	for _, step := range plan.Status.Plan {
		if step.Status != v1alpha1.StepStatusCreated {
			t.Errorf("%s %s is %s", step.Resource.Kind, step.Resource.Name, step.Status)
		}
		w.checkOwnership(step)
	}

	if c := plan.Status.Conditions; len(c) != 1 || c[0].Type != "Installed" || c[0].Status != "True" || c[0].Reason != "" || plan.Status.Message != "" || plan.Status.StartTime == nil {
		t.Errorf("got the status %+v", plan.Status)
	}

	// Existing objects are kept or updated, depending on their kind.
	var service corev1.Service
	w.Must(w.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "kettle"}, &service))
	address := service.Spec.ClusterIP
	objects[2] = `{"apiVersion":"v1","kind":"Service","metadata":{"name":"kettle"},"spec":{"ports":[{"port":81}]}}`
	w.createPlan("second", v1alpha1.ApprovalAutomatic, w.newBundleSteps(strings.Replace(csvManifest("kettle.v1"), "Kettle", "Pot", 1), objects...))
	plan = w.waitForPhase("second", v1alpha1.InstallPlanPhaseComplete)
	for _, step := range plan.Status.Plan {
		if step.Status != v1alpha1.StepStatusPresent {
			t.Errorf("%s %s is %s", step.Resource.Kind, step.Resource.Name, step.Status)
		}
	}

	w.Must(w.Get(t.Context(), client.ObjectKeyFromObject(&service), &service))
	if service.Spec.Ports[0].Port != 81 || service.Spec.ClusterIP != address {
		t.Errorf("got port %d and address %s of the Service, want address %s", service.Spec.Ports[0].Port, service.Spec.ClusterIP, address)
	}

	var csv v1alpha1.ClusterServiceVersion
	w.Must(w.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "kettle.v1"}, &csv))
	if csv.Spec.DisplayName != "Kettle" {
		t.Errorf("the ClusterServiceVersion was changed to %q", csv.Spec.DisplayName)
	}
}

// checkOwnership fails the test if the object of a step does not have the right labels and owners.
func (w *fixture) checkOwnership(step *v1alpha1.Step) {
	w.T.Helper()
	r := step.Resource
	kind := r.Kind
	if kind == v1alpha1.KindBundleSecret {
		kind = "Secret"
	}

	object := &metav1.PartialObjectMetadata{}
	object.APIVersion, object.Kind = strings.TrimPrefix(r.Group+"/"+r.Version, "/"), kind
	clusterWide := slices.Contains([]string{"CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "PriorityClass"}, kind)
	key := client.ObjectKey{Namespace: w.namespace, Name: r.Name}
	if clusterWide {
		key.Namespace = ""
	}

	w.Must(w.Get(w.T.Context(), key, object))
	if object.Labels["olm.managed"] != "true" {
		w.T.Errorf("%s %s has the labels %v", kind, r.Name, object.Labels)
	}
	if clusterWide && kind != "CustomResourceDefinition" && (object.Labels["olm.owner"] != "kettle.v1" || object.Labels["olm.owner.namespace"] != w.namespace) {
		w.T.Errorf("%s %s has the labels %v", kind, r.Name, object.Labels)
	}

	if clusterWide || kind == v1alpha1.ClusterServiceVersionKind {
		if len(object.OwnerReferences) > 0 {
			w.T.Errorf("%s %s has the owners %v", kind, r.Name, object.OwnerReferences)
		}
		return
	}

	var csv v1alpha1.ClusterServiceVersion
	w.Must(w.Get(w.T.Context(), client.ObjectKey{Namespace: w.namespace, Name: "kettle.v1"}, &csv))
	if len(object.OwnerReferences) != 1 || object.OwnerReferences[0].UID != csv.UID {
		w.T.Errorf("%s %s has the owners %v", kind, r.Name, object.OwnerReferences)
	}
}

func TestManualApproval(t *testing.T) {
	w := newFixture(t, time.Hour)
	plan := w.createPlan("manual", v1alpha1.ApprovalManual, w.newBundleSteps(csvManifest("kettle.v1")))
	// Another completed plan shows that the controller has reconciled this one.
	w.createPlan("other", v1alpha1.ApprovalAutomatic, w.newBundleSteps(csvManifest("pot.v1")))
	w.waitForPhase("other", v1alpha1.InstallPlanPhaseComplete)
	if err := w.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "kettle.v1"}, &v1alpha1.ClusterServiceVersion{}); !apierrors.IsNotFound(err) {
		t.Fatalf("the ClusterServiceVersion exists without approval: %v", err)
	}

	plan = w.get(plan.Name)
	if plan.Status.Phase != v1alpha1.InstallPlanPhaseRequiresApproval {
		t.Errorf("got phase %s", plan.Status.Phase)
	}

	plan.Spec.Approved = true
	w.Must(w.Update(t.Context(), plan))
	w.waitForPhase("manual", v1alpha1.InstallPlanPhaseComplete)
}

// Without exactly one valid OperatorGroup no step is executed.
func TestOperatorGroup(t *testing.T) {
	w := newFixtureWithoutController(t)
	w.startController(0)
	w.createPlan("plan", v1alpha1.ApprovalAutomatic, w.newBundleSteps(csvManifest("kettle.v1")))
	says := func(message string) func(*v1alpha1.InstallPlan) bool {
		return func(p *v1alpha1.InstallPlan) bool {
			c := p.Status.Conditions
			return len(c) == 1 && c[0].Status == "False" && c[0].Reason == "InstallCheckFailed" && c[0].Message == message &&
				p.Status.Phase == v1alpha1.InstallPlanPhaseInstalling
		}
	}

	w.eventually("plan", "no group", says("no operator group found that is managing this namespace"))
	w.createGroup("one", "", "")
	w.waitForPhase("plan", v1alpha1.InstallPlanPhaseComplete)
}

// With two groups, or with a missing service account, the plan waits. It continues when that is corrected.
func TestCorrectedOperatorGroup(t *testing.T) {
	w := newFixtureWithoutController(t)
	two := w.createGroup("two", "barista", "")
	one := w.createGroup("one", "", "")
	w.startController(0)
	w.createPlan("plan", v1alpha1.ApprovalAutomatic, w.newBundleSteps(csvManifest("kettle.v1")))
	says := func(message string) {
		t.Helper()
		w.eventually("plan", message, func(p *v1alpha1.InstallPlan) bool {
			c := p.Status.Conditions
			return len(c) == 1 && c[0].Status == "False" && c[0].Reason == "InstallCheckFailed" && c[0].Message == message &&
				p.Status.Message == message && p.Status.Phase == v1alpha1.InstallPlanPhaseInstalling
		})
	}

	says("more than one operator group(s) are managing this namespace count=2")
	w.Must(w.Delete(t.Context(), one))
	says("please make sure the service account exists. sa=barista operatorgroup=" + w.namespace + "/two")
	if err := w.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "kettle.v1"}, &v1alpha1.ClusterServiceVersion{}); !apierrors.IsNotFound(err) {
		t.Fatalf("the ClusterServiceVersion exists: %v", err)
	}

	w.Must(w.Get(t.Context(), client.ObjectKeyFromObject(two), two))
	two.Spec.ServiceAccountName = ""
	w.Must(w.Update(t.Context(), two))
	plan := w.waitForPhase("plan", v1alpha1.InstallPlanPhaseComplete)
	if plan.Status.Message != "" {
		t.Errorf("got the message %q", plan.Status.Message)
	}
}

// A service account limits what a plan installs, except CRDs. The status names a missing right, and the plan
// continues when it is granted.
func TestScopedAccount(t *testing.T) {
	w := newFixtureWithoutController(t)
	w.createAccount("barista", rbacv1.PolicyRule{APIGroups: []string{"operators.coreos.com"}, Resources: []string{"*"}, Verbs: []string{"*"}})
	w.createGroup("scoped", "barista", "barista")
	w.startController(0)
	w.createPlan("plan", v1alpha1.ApprovalAutomatic, w.newBundleSteps(csvManifest("kettle.v1"), crdManifest("mugs", "v1", "")))
	user := `User "system:serviceaccount:` + w.namespace + `:barista"`
	// The message of the first step that fails is followed by all other rights that are missing.
	want := `error creating serviceaccount kettle: serviceaccounts is forbidden: ` + user + ` cannot create resource "serviceaccounts" in API group "" in the namespace "` + w.namespace + `"` +
		". Later steps also need rights to create roles.rbac.authorization.k8s.io, rolebindings.rbac.authorization.k8s.io, clusterroles.rbac.authorization.k8s.io, clusterrolebindings.rbac.authorization.k8s.io: grant them to service account " + w.namespace + "/barista"
	plan := w.eventually("plan", want, func(p *v1alpha1.InstallPlan) bool {
		return p.Status.Message == "retrying execution due to error: "+want && p.Status.Phase == v1alpha1.InstallPlanPhaseInstalling
	})
	if c := plan.Status.Conditions; len(c) != 1 || c[0].Status != "False" || c[0].Reason != "InstallComponentFailed" || c[0].Message != want {
		t.Errorf("got the conditions %+v", c)
	}
	if ref := plan.Status.AttenuatedServiceAccountRef; ref == nil || ref.Name != "barista" {
		t.Errorf("got the account %v", ref)
	}

	crd := &metav1.PartialObjectMetadata{}
	crd.APIVersion, crd.Kind = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
	w.Must(w.Get(t.Context(), client.ObjectKey{Name: "mugs.example.com"}, crd))

	w.Must(w.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "barista-"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: w.namespace, Name: "barista"}},
	}))
	// A Role of the namespace enqueues the plan at once.
	w.grantRules("barista", rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}})
	w.waitForPhase("plan", v1alpha1.InstallPlanPhaseComplete)
}

// A failed plan with a service account is retried when rights of its namespace change.
func TestFailedPlanOfAccount(t *testing.T) {
	w := newFixtureWithoutController(t)
	w.createAccount("barista", rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}})
	w.createGroup("scoped", "barista", "barista")
	w.startController(0)
	made := w.newBundleSteps(csvManifest("kettle.v1"), `{"apiVersion":"autoscaling.k8s.io/v1","kind":"VerticalPodAutoscaler","metadata":{"name":"kettle"}}`)
	w.createPlan("plan", v1alpha1.ApprovalAutomatic, made[:2])
	plan := w.waitForPhase("plan", v1alpha1.InstallPlanPhaseFailed)
	if !strings.HasPrefix(plan.Status.Message, "api-server resource not found installing VerticalPodAutoscaler kettle: ") {
		t.Errorf("got the message %q", plan.Status.Message)
	}

	started := plan.Status.StartTime
	crd := &unstructured.Unstructured{}
	manifest := strings.NewReplacer("example.com", "autoscaling.k8s.io", "Verticalpodautoscaler", "VerticalPodAutoscaler").Replace(crdManifest("verticalpodautoscalers", "v1", ""))
	w.Must(crd.UnmarshalJSON([]byte(manifest)))
	crd.SetAnnotations(map[string]string{"api-approved.kubernetes.io": "unapproved, in a test"})
	w.CreateForTest(crd)
	w.waitUntil("the kind is served", func() bool {
		object := &unstructured.UnstructuredList{}
		object.SetAPIVersion("autoscaling.k8s.io/v1")
		object.SetKind("VerticalPodAutoscalerList")
		return w.List(t.Context(), object) == nil
	})

	w.grantRules("barista", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}})
	plan = w.waitForPhase("plan", v1alpha1.InstallPlanPhaseComplete)
	if !plan.Status.StartTime.Equal(started) {
		t.Errorf("got the start times %v and %v, want the same", started, plan.Status.StartTime)
	}
}

func TestUnsupportedKind(t *testing.T) {
	w := newFixture(t, 0)
	made := w.newBundleSteps(csvManifest("kettle.v1"))
	made = append(made, &v1alpha1.Step{
		Resolving: "kettle.v1", Status: v1alpha1.StepStatusUnknown,
		Resource: v1alpha1.StepResource{Group: "apps", Version: "v1", Kind: "Deployment", Name: "kettle", Manifest: `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"kettle"}}`},
	})
	w.createPlan("plan", v1alpha1.ApprovalAutomatic, made)
	plan := w.waitForPhase("plan", v1alpha1.InstallPlanPhaseFailed)
	const want = "the InstallPlan contains invalid data"
	if c := plan.Status.Conditions; plan.Status.Message != want || len(c) != 1 || c[0].Reason != "InstallComponentFailed" || c[0].Status != "False" || c[0].Message != want {
		t.Errorf("got the status %+v", plan.Status)
	}
	if last := plan.Status.Plan[len(plan.Status.Plan)-1]; last.Status != v1alpha1.StepStatusUnsupportedResource {
		t.Errorf("got step status %s", last.Status)
	}
}

// The status names a kind that the cluster does not serve. The plan is retried until all its kinds are served.
func TestKindNotServed(t *testing.T) {
	w := newFixture(t, time.Hour)
	const (
		monitor    = `{"apiVersion":"monitoring.coreos.com/v1","kind":"ServiceMonitor","metadata":{"name":"kettle"}}`
		podMonitor = `{"apiVersion":"monitoring.coreos.com/v1","kind":"PodMonitor","metadata":{"name":"kettle"}}`
	)
	w.serveKind("monitoring.coreos.com", "podmonitors", "PodMonitor")
	w.createPlan("plan", v1alpha1.ApprovalAutomatic, w.newBundleSteps(csvManifest("kettle.v1"), monitor, podMonitor))
	const want = "retrying execution due to error: api-server resource not found installing ServiceMonitor kettle: GroupVersionKind monitoring.coreos.com/v1, Kind=ServiceMonitor not found on the cluster. " +
		"This API may have been deprecated and removed, see https://kubernetes.io/docs/reference/using-api/deprecation-guide/ for more information."
	w.eventually("plan", want, func(p *v1alpha1.InstallPlan) bool {
		return p.Status.Phase == v1alpha1.InstallPlanPhaseInstalling && p.Status.Message == want
	})
	w.serveKind("monitoring.coreos.com", "servicemonitors", "ServiceMonitor")
	w.waitForPhase("plan", v1alpha1.InstallPlanPhaseComplete)
}

func TestOldPlansAreDeleted(t *testing.T) {
	w := newFixture(t, time.Hour)
	for i, name := range []string{"one", "two", "three", "four", "five", "six"} {
		plan := &v1alpha1.InstallPlan{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
			Spec:       v1alpha1.InstallPlanSpec{ClusterServiceVersionNames: []string{}, Approval: v1alpha1.ApprovalAutomatic, Approved: true, Generation: i - 10},
		}
		w.Must(w.Create(t.Context(), plan))
	}

	w.createPlan("new", v1alpha1.ApprovalAutomatic, w.newBundleSteps(csvManifest("kettle.v1"))) // its generation is 0
	w.waitUntil("two plans are gone", func() bool {
		var plans v1alpha1.InstallPlanList
		w.Must(w.List(t.Context(), &plans, client.InNamespace(w.namespace)))
		var names []string
		for _, plan := range plans.Items {
			names = append(names, plan.Name)
		}

		return cmp.Equal(names, []string{"five", "four", "new", "six", "three"})
	})
}

// Warnings of the API server are emitted as events.
func TestWarnings(t *testing.T) {
	w := newFixture(t, time.Hour)
	before := metricValue(t, "installplan_warnings_total")
	w.createPlan("plan", v1alpha1.ApprovalAutomatic, w.newBundleSteps(csvManifest("kettle.v1"), crdManifest("spoons", "v1", `,"format":"unheard-of"`)))
	w.waitForPhase("plan", v1alpha1.InstallPlanPhaseComplete)
	w.WaitForEvent("AppliedWithWarnings", func(e *eventsv1.Event) bool {
		return e.Reason == "AppliedWithWarnings" && e.Type == corev1.EventTypeWarning && e.Regarding.FieldPath == "status.plan[1]" && e.Regarding.Name == "plan" &&
			strings.HasPrefix(e.Note, `1 warning(s) generated during installation of operator "kettle.v1" (CustomResourceDefinition "spoons.example.com"): `)
	}, client.InNamespace(w.namespace))
	if got := metricValue(t, "installplan_warnings_total") - before; got != 1 {
		t.Errorf("got %v steps in the metric", got)
	}
}

// An event about a plan names an object of the bundle that keeps nodes from being drained.
func TestDisruptiveObject(t *testing.T) {
	w := newFixture(t, time.Hour)
	w.createPlan("plan", v1alpha1.ApprovalAutomatic, w.newBundleSteps(csvManifest("kettle.v1"),
		`{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":"kettle"},"spec":{"maxUnavailable":0,"selector":{"matchLabels":{"app":"kettle"}}}}`))
	plan := w.waitForPhase("plan", v1alpha1.InstallPlanPhaseComplete)
	at := slices.IndexFunc(plan.Status.Plan, func(s *v1alpha1.Step) bool { return s.Resource.Kind == "PodDisruptionBudget" })
	w.WaitForEvent("DisruptiveObject", func(e *eventsv1.Event) bool {
		return e.Reason == "DisruptiveObject" && e.Type == corev1.EventTypeWarning && e.Regarding.Name == "plan" && e.Regarding.FieldPath == fmt.Sprintf("status.plan[%d]", at) &&
			e.Note == "PodDisruptionBudget kettle: spec.maxUnavailable is 0: nodes with the selected pods cannot be drained"
	}, client.InNamespace(w.namespace))
}

// A plan creates no cluster-scoped object that would outlive its ClusterServiceVersion: one that a plan creates has the
// finalizer at once, and for one that is being deleted or has no finalizer nothing is created.
func TestNoRightsWithoutCleanup(t *testing.T) {
	w := newFixture(t, 0)
	all := w.newBundleSteps(csvManifest("kettle.v1"))
	w.createPlan("first", v1alpha1.ApprovalAutomatic, all)
	plan := w.waitForPhase("first", v1alpha1.InstallPlanPhaseComplete)
	var csv v1alpha1.ClusterServiceVersion
	w.Must(w.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "kettle.v1"}, &csv))
	if !slices.Equal(csv.Finalizers, []string{csvinfo.Finalizer}) {
		t.Fatalf("got the finalizers %q of the ClusterServiceVersion", csv.Finalizers)
	}

	var rights []client.Object
	for _, step := range plan.Status.Plan {
		meta := metav1.ObjectMeta{Name: step.Resource.Name}
		switch step.Resource.Kind {
		case "ClusterRole":
			rights = append(rights, &rbacv1.ClusterRole{ObjectMeta: meta})
		case "ClusterRoleBinding":
			rights = append(rights, &rbacv1.ClusterRoleBinding{ObjectMeta: meta})
		}
	}
	if len(rights) != 2 {
		t.Fatalf("got %d objects with cluster-wide rights, want 2", len(rights))
	}

	checkNoRights := func(name string) {
		t.Helper()
		for _, object := range rights {
			w.Must(client.IgnoreNotFound(w.Delete(t.Context(), object)))
		}
		w.createPlan(name, v1alpha1.ApprovalAutomatic, all)
		failed := w.waitForPhase(name, v1alpha1.InstallPlanPhaseFailed)
		want := fmt.Sprintf("the owner of clusterrole %s: ClusterServiceVersion %s/kettle.v1 is being deleted or has no finalizer yet", rights[0].GetName(), w.namespace)
		if failed.Status.Message != want {
			t.Errorf("plan %s: got the message %q, want %q", name, failed.Status.Message, want)
		}

		for _, object := range rights {
			if err := w.Get(t.Context(), client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
				t.Errorf("plan %s: %T exists, error %v", name, object, err)
			}
		}
	}

	w.Must(w.Delete(t.Context(), &csv))
	checkNoRights("deleted")
	w.Must(w.Patch(t.Context(), &csv, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	early := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: csv.Name}, Spec: csv.Spec}
	w.Must(w.Create(t.Context(), early))
	checkNoRights("early")
}

// A dependency cannot own a CRD that another operator of the namespace owns.
func TestOwnedByAnother(t *testing.T) {
	w := newFixture(t, 0)
	owning := func(name string) string {
		return strings.Replace(csvManifest(name), `"version":"1.0.0"`, `"version":"1.0.0","customresourcedefinitions":{"owned":[{"name":"ladles.example.com","version":"v1","kind":"Ladle"}]}`, 1)
	}
	w.createPlan("first", v1alpha1.ApprovalAutomatic, w.newBundleSteps(owning("ladle.v1")))
	w.waitForPhase("first", v1alpha1.InstallPlanPhaseComplete)
	dependency := w.newBundleSteps(owning("scoop.v1"))
	plan := w.createPlan("second", v1alpha1.ApprovalManual, dependency)
	plan.Spec.ClusterServiceVersionNames, plan.Spec.Approved = []string{"other.v1"}, true
	w.Must(w.Update(t.Context(), plan))
	plan = w.waitForPhase("second", v1alpha1.InstallPlanPhaseFailed)
	if want := "pre-existing CRD owners found for owned CRD(s) of dependent CSV scoop.v1"; plan.Status.Message != want {
		t.Errorf("got the message %q, want %q", plan.Status.Message, want)
	}
}

// A pull secret is copied once from the namespace of the program.
func TestPullSecret(t *testing.T) {
	w := newFixture(t, 0)
	login := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "login-" + w.namespace},
		Type:       corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte("{}")},
	}
	steps := func(name string) []*v1alpha1.Step {
		return []*v1alpha1.Step{{Status: v1alpha1.StepStatusUnknown, Resource: v1alpha1.StepResource{Version: "v1", Kind: "Secret", Name: name}}}
	}
	w.createPlan("early", v1alpha1.ApprovalAutomatic, steps(login.Name))
	early := w.waitForPhase("early", v1alpha1.InstallPlanPhaseFailed)
	if want := "secret " + login.Name + ` does not exist - secrets "` + login.Name + `" not found`; early.Status.Message != want {
		t.Errorf("got the message %q, want %q", early.Status.Message, want)
	}

	w.CreateForTest(login)
	for _, want := range []v1alpha1.StepStatus{v1alpha1.StepStatusCreated, v1alpha1.StepStatusPresent} {
		name := strings.ToLower(string(want))
		w.createPlan(name, v1alpha1.ApprovalAutomatic, steps(login.Name))
		if got := w.waitForPhase(name, v1alpha1.InstallPlanPhaseComplete).Status.Plan[0].Status; got != want {
			t.Errorf("got step status %s, want %s", got, want)
		}
	}

	var copied corev1.Secret
	w.Must(w.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: login.Name}, &copied))
	if copied.Type != login.Type || !cmp.Equal(copied.Data, login.Data) || copied.Labels["olm.managed"] != "true" {
		t.Errorf("got the type %s and the labels %v of the copy", copied.Type, copied.Labels)
	}
}

// metricValue returns the value of a metric without labels.
func metricValue(t *testing.T, name string) float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}

	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetGauge().GetValue() + family.GetMetric()[0].GetCounter().GetValue()
		}
	}

	t.Fatalf("there is no metric %s", name)
	return 0
}

func TestPlanCount(t *testing.T) {
	w := newFixture(t, 0)
	w.createPlan("one", v1alpha1.ApprovalManual, w.newBundleSteps(csvManifest("kettle.v1")))
	w.createPlan("two", v1alpha1.ApprovalManual, w.newBundleSteps(csvManifest("kettle.v2")))
	w.waitUntil("two plans are counted", func() bool { return metricValue(t, "install_plan_count") == 2 })
	w.Must(w.Delete(t.Context(), w.get("one")))
	w.waitUntil("one plan is counted", func() bool { return metricValue(t, "install_plan_count") == 1 })
}

// Manifests of typed objects without apiVersion and kind are installed with the kinds of their steps.
func TestManifestsWithoutType(t *testing.T) {
	w := newFixture(t, 0)
	step := func(group, version, kind, manifest string) *v1alpha1.Step {
		return &v1alpha1.Step{Status: v1alpha1.StepStatusUnknown, Resource: v1alpha1.StepResource{Group: group, Version: version, Kind: kind, Name: "kettle", Manifest: manifest}}
	}
	w.createPlan("plan", v1alpha1.ApprovalAutomatic, []*v1alpha1.Step{
		step("", "v1", "ServiceAccount", `{"metadata":{"name":"kettle","creationTimestamp":null}}`),
		step("rbac.authorization.k8s.io", "v1", "Role", `{"metadata":{"name":"kettle","creationTimestamp":null},"rules":[{"verbs":["get"],"apiGroups":[""],"resources":["pods"]}]}`),
		step("", "v1", "RoleBinding", `{"kind":"RoleBinding","metadata":{"name":"kettle"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"kettle"}}`),
		step("", "v1", "Service", `{"kind":"Service","metadata":{"name":"kettle"},"spec":{"ports":[{"port":80}]},"status":{"loadBalancer":{}}}`),
		step("", "v1", "ConfigMap", `{"apiVersion":"v1","metadata":{"name":"kettle"},"data":{"a":"b"}}`),
		step("", "v1", "BundleSecret", `{"metadata":{"name":"kettle"},"stringData":{"a":"b"}}`),
	})
	plan := w.waitForPhase("plan", v1alpha1.InstallPlanPhaseComplete)
	for _, step := range plan.Status.Plan {
		if step.Status != v1alpha1.StepStatusCreated {
			t.Errorf("%s: got step status %s, want Created", step.Resource.Kind, step.Status)
		}
	}

	key := client.ObjectKey{Namespace: w.namespace, Name: "kettle"}
	for _, object := range []client.Object{&corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}, &corev1.Service{}, &corev1.ConfigMap{}, &corev1.Secret{}} {
		w.Must(w.Get(t.Context(), key, object))
	}
}
