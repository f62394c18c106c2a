package cli_test

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// writePlan writes the ConfigMap with the plan of an extension, as the controller does: the text, and JSON with
// the requested changes.
func (c *fixture) writePlan(name, text string, problems ...string) {
	c.T.Helper()
	ext := withName(&olmv1.ClusterExtension{}, name)
	c.Must(c.Get(c.T.Context(), client.ObjectKeyFromObject(ext), ext))
	asked := ext.Annotations[olmv1.AnnotationPlan]
	fields := map[string]any{}
	if asked != olmv1.PlanOnly {
		c.Must(json.Unmarshal([]byte(asked), &fields))
		if fields["id"] == "" {
			c.T.Errorf("got no id of the question %s", asked)
		}
		delete(fields, "id")
	}

	plan := map[string]any{"extension": name, "action": "none", "asked": fields, "version": ext.Spec.Source.Catalog.Version}
	if !strings.Contains(text, "nothing would change") {
		plan["action"] = "update"
	}

	var found []map[string]string
	for _, problem := range problems {
		check, message, _ := strings.Cut(problem, ": ")
		found = append(found, map[string]string{"check": check, "message": message})
	}

	if len(found) > 0 {
		plan["problems"] = found
	}

	data, err := json.Marshal(plan)
	c.Must(err)
	written := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "olmv1-system", Name: olmv1.PlanName(name)}}
	_, err = controllerutil.CreateOrUpdate(c.T.Context(), c.Client, written, func() error {
		written.OwnerReferences = nil
		written.Annotations = map[string]string{olmv1.AnnotationPlanFor: strconv.FormatInt(ext.Generation, 10) + " " + asked}
		written.Data = map[string]string{olmv1.PlanText: text + "\n", olmv1.PlanJSON: string(data)}
		return controllerutil.SetControllerReference(ext, written, c.Scheme())
	})

	c.Must(err)
}

// annotatePlan sets the plan annotation as a user would. An empty value removes it.
func (c *fixture) annotatePlan(name, value string) {
	c.T.Helper()
	ext := withName(&olmv1.ClusterExtension{}, name)
	c.Must(c.Get(c.T.Context(), client.ObjectKeyFromObject(ext), ext))
	before := ext.DeepCopy()
	if value == "" {
		delete(ext.Annotations, olmv1.AnnotationPlan)
	} else {
		metav1.SetMetaDataAnnotation(&ext.ObjectMeta, olmv1.AnnotationPlan, value)
	}

	c.Must(c.Patch(c.T.Context(), ext, client.MergeFrom(before)))
}

// requireNoPlanAnnotation checks that the plan annotation of an extension was removed.
func (c *fixture) requireNoPlanAnnotation(name string) {
	c.T.Helper()
	ext := withName(&olmv1.ClusterExtension{}, name)
	c.Must(c.Get(c.T.Context(), client.ObjectKeyFromObject(ext), ext))
	if value, left := ext.Annotations[olmv1.AnnotationPlan]; left {
		c.T.Errorf("%s: got the annotation %s, want none", name, value)
	}
}

func testPlan(c *fixture, step stepFunc) {
	step("plan-late", "mainstay extension plan spoon --namespace kitchen --timeout 1ms")
	step("plan-new", "mainstay extension plan spoon --package cutlery --namespace kitchen --version 1.x",
		reaction{"has not written", func() { c.writePlan("spoon", "Plan for clusterextension/spoon: installation of cutlery.v1.0.0") }})
	step("plan-gone", "mainstay extension list spoon")
	step("plan-invalid", "mainstay extension plan spoon --namespace kitchen --channel Not_Valid")

	// A plan for another request is ignored.
	c.annotatePlan("kettle", `{"id":"1"}`)
	c.writePlan("kettle", "Plan for clusterextension/kettle: of yesterday")
	c.annotatePlan("kettle", "")
	step("plan-json", "mainstay extension plan kettle --version 0.3.0 --channel stable --catalog-selector team=tea --self-certified -o json",
		reaction{"has not written", func() { c.writePlan("kettle", "Plan for clusterextension/kettle: update") }})
	c.requireNoPlanAnnotation("kettle")
	step("plan-text", "mainstay extension plan kettle -o text",
		reaction{"has not written", func() { c.writePlan("kettle", "Plan for clusterextension/kettle: nothing would change") }})
	c.requireNoPlanAnnotation("kettle")
	step("plan-nothing", "mainstay extension plan kettle --detailed-exitcode",
		reaction{"has not written", func() { c.writePlan("kettle", "Plan for clusterextension/kettle: nothing would change") }})
	step("plan-changes", "mainstay extension plan kettle --version 0.3.0 --detailed-exitcode",
		reaction{"has not written", func() { c.writePlan("kettle", "Plan for clusterextension/kettle: update") }})
	step("plan-problem", "mainstay extension plan kettle --version 0.3.0",
		reaction{"has not written", func() {
			c.writePlan("kettle", "Plan for clusterextension/kettle: update, which would be stopped", "choice: it")
		}})
	step("plan-problems", "mainstay extension plan kettle --version 0.3.0 -o json --detailed-exitcode",
		reaction{"has not written", func() {
			c.writePlan("kettle", "Plan for clusterextension/kettle: update, which would be stopped", "choice: it", "place: that")
		}})
	c.requireNoPlanAnnotation("kettle")
	step("plan-existing-late", "mainstay extension plan kettle --timeout 1ms")
	c.requireNoPlanAnnotation("kettle")
	step("plan-elsewhere", "mainstay extension plan kettle --namespace elsewhere")
	step("plan-watch", "mainstay extension plan kettle --watch-namespace elsewhere")

	c.annotatePlan("kettle", olmv1.PlanOnly)
	c.writePlan("kettle", "Plan for clusterextension/kettle: nothing would change")
	step("plan-there", "mainstay extension plan kettle")
	step("plan-asked", "mainstay extension plan kettle --version 0.3.0")
	step("plan-upgrade", "mainstay extension upgrade kettle --version= --wait")
	c.annotatePlan("kettle", "")
}

// testChecks tests that commands check the plan first and change nothing if it has problems.
func testChecks(c *fixture, step stepFunc) {
	untouched := func(name string) {
		c.T.Helper()
		c.requireDeleting(withName(&olmv1.ClusterExtension{}, name))
		if err := c.Get(c.T.Context(), client.ObjectKey{Name: "cupboard"}, &corev1.Namespace{}); !apierrors.IsNotFound(err) {
			c.T.Errorf("namespace cupboard: got %v, want it not to exist", err)
		}
	}

	for name, line := range map[string]string{
		"package": "mainstay extension install mgu --namespace cupboard --create-namespace --wait",
		"version": "mainstay extension install mug --name tumbler --version 0.2.1 --namespace cupboard --create-namespace",
		"channel": "mainstay extension install mug --name tumbler --channel stabel --namespace cupboard --create-namespace",
	} {
		extension := "tumbler"
		if name == "package" {
			extension = "mgu"
		}
		step("check-"+name, line, reaction{"has not written", func() {
			c.writePlan(extension, "no bundle fits", `place: namespace "cupboard" does not exist: create it, the extension's namespaced objects go there`,
				`choice: no bundles found for package "`+strings.Fields(line)[3]+`"`)
		}})
		untouched(extension)
	}

	step("check-late", "mainstay extension install tumbler --namespace cupboard --create-namespace --check-timeout 1ms")
	untouched("tumbler")

	kettle := withName(&olmv1.ClusterExtension{}, "kettle")
	c.Must(c.Get(c.T.Context(), client.ObjectKeyFromObject(kettle), kettle))
	before := kettle.DeepCopy()
	step("check-upgrade", "mainstay extension upgrade kettle --version 0.4.0", reaction{"has not written", func() {
		c.writePlan("kettle", "update, which would be stopped", `crdUpgradeSafety: validating upgrade for CRD "mugs.example.com" failed: v1: ^.spec.size: a field was removed`,
			"permissions: pre-authorization failed: service account requires the following permissions to manage cluster extension:\n  Namespace:\"\" APIGroups:[] Resources:[services] Verbs:[list,watch]")
	}})
	c.requireNoPlanAnnotation("kettle")
	c.Must(c.Get(c.T.Context(), client.ObjectKeyFromObject(kettle), kettle))
	if diff := cmp.Diff(before.Spec, kettle.Spec); diff != "" {
		c.T.Errorf("the refused upgrade changed the spec (-before +after):\n%s", diff)
	}

	step("check-upgrade-accepted", "mainstay extension upgrade kettle --version 0.4.0 --crd-upgrade-safety None -o yaml",
		reaction{"has not written", func() { c.writePlan("kettle", "update") }})
	c.requireNoPlanAnnotation("kettle")
	// A user who can change extensions but cannot read plans gets a warning.
	rules := []any{
		map[string]any{"apiGroups": []any{"olm.operatorframework.io"}, "resources": []any{"clusterextensions"}, "verbs": []any{"get", "patch"}},
	}
	c.Must(c.Create(c.T.Context(), object("rbac.authorization.k8s.io/v1", "ClusterRole", "", "extender", map[string]any{"rules": rules}).Object))
	c.Must(c.Create(c.T.Context(), object("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "", "extender", map[string]any{
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "extender"},
		"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "extender"}},
	}).Object))
	c.Eventually("the binding takes effect", func() error { // The API server applies the binding after a moment.
		review := object("authorization.k8s.io/v1", "SubjectAccessReview", "", "", map[string]any{"spec": map[string]any{
			"user": "extender", "resourceAttributes": map[string]any{"group": "olm.operatorframework.io", "resource": "clusterextensions", "verb": "patch"},
		}}).Object
		if err := c.Create(c.T.Context(), review); err != nil {
			return err
		}
		if allowed, _, _ := unstructured.NestedBool(review.Object, "status", "allowed"); !allowed {
			return errors.New("extender may not patch clusterextensions yet")
		}
		return nil
	})

	step("check-upgrade-unreadable", "mainstay extension upgrade kettle --version 0.5.0 --as extender")
	c.requireNoPlanAnnotation("kettle")
	step("check-upgrade-strict", "mainstay extension upgrade kettle --version= --crd-upgrade-safety Strict --check=false")
}
