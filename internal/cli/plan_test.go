package cli_test

import (
	"encoding/json"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// plans writes the plan of an extension, as the controller does: for people a text, and
// for programs what was asked.
func (c *cluster) plans(name, text string, problems ...string) {
	c.t.Helper()
	ext := named(&olmv1.ClusterExtension{}, name)
	c.must(c.Get(c.t.Context(), client.ObjectKeyFromObject(ext), ext))
	asked := ext.Annotations[olmv1.AnnotationPlan]
	fields := map[string]any{}
	if asked != olmv1.PlanOnly {
		c.must(json.Unmarshal([]byte(asked), &fields))
		if fields["id"] == "" {
			c.t.Errorf("the question %s has no id", asked)
		}
		delete(fields, "id")
	}
	plan := map[string]any{"extension": name, "action": "none", "asked": fields, "version": ext.Spec.Source.Catalog.Version}
	if !strings.Contains(text, "nothing would change") {
		plan["action"] = "update"
	}
	if len(problems) > 0 {
		plan["problems"] = problems
	}
	data, err := json.Marshal(plan)
	c.must(err)
	written := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "olmv1-system", Name: olmv1.PlanName(name)}}
	_, err = controllerutil.CreateOrUpdate(c.t.Context(), c.Client, written, func() error {
		written.OwnerReferences = nil
		written.Annotations = map[string]string{olmv1.AnnotationPlanFor: strconv.FormatInt(ext.Generation, 10) + " " + asked}
		written.Data = map[string]string{olmv1.PlanText: text + "\n", olmv1.PlanJSON: string(data)}
		return controllerutil.SetControllerReference(ext, written, c.Scheme())
	})
	c.must(err)
}

// annotatePlan sets the annotation as a person does; an empty value removes it.
func (c *cluster) annotatePlan(name, value string) {
	c.t.Helper()
	ext := named(&olmv1.ClusterExtension{}, name)
	c.must(c.Get(c.t.Context(), client.ObjectKeyFromObject(ext), ext))
	before := ext.DeepCopy()
	if value == "" {
		delete(ext.Annotations, olmv1.AnnotationPlan)
	} else {
		metav1.SetMetaDataAnnotation(&ext.ObjectMeta, olmv1.AnnotationPlan, value)
	}
	c.must(c.Patch(c.t.Context(), ext, client.MergeFrom(before)))
}

// unplanned makes sure that nothing of the question is left on an extension.
func (c *cluster) unplanned(name string) {
	c.t.Helper()
	ext := named(&olmv1.ClusterExtension{}, name)
	c.must(c.Get(c.t.Context(), client.ObjectKeyFromObject(ext), ext))
	if value, left := ext.Annotations[olmv1.AnnotationPlan]; left {
		c.t.Errorf("the annotation of %s is left: %s", name, value)
	}
}

func testPlan(c *cluster, step stepFunc) {
	step("plan-late", "mainstay extension plan spoon --namespace kitchen --timeout 1ms")
	step("plan-new", "mainstay extension plan spoon --package cutlery --namespace kitchen --version 1.x",
		reaction{"has not planned", func() { c.plans("spoon", "Plan for clusterextension/spoon: installation of cutlery.v1.0.0") }})
	step("plan-gone", "mainstay extension list spoon")
	step("plan-invalid", "mainstay extension plan spoon --namespace kitchen --version nonsense")

	// A plan that was made for another question is no answer.
	c.annotatePlan("kettle", `{"id":"1"}`)
	c.plans("kettle", "Plan for clusterextension/kettle: of yesterday")
	c.annotatePlan("kettle", "")
	step("plan-json", "mainstay extension plan kettle --version 0.3.0 --channel stable --catalog-selector team=tea --self-certified -o json",
		reaction{"has not planned", func() { c.plans("kettle", "Plan for clusterextension/kettle: update") }})
	c.unplanned("kettle")
	step("plan-text", "mainstay extension plan kettle -o text",
		reaction{"has not planned", func() { c.plans("kettle", "Plan for clusterextension/kettle: nothing would change") }})
	c.unplanned("kettle")
	step("plan-nothing", "mainstay extension plan kettle --detailed-exitcode",
		reaction{"has not planned", func() { c.plans("kettle", "Plan for clusterextension/kettle: nothing would change") }})
	step("plan-changes", "mainstay extension plan kettle --version 0.3.0 --detailed-exitcode",
		reaction{"has not planned", func() { c.plans("kettle", "Plan for clusterextension/kettle: update") }})
	step("plan-problem", "mainstay extension plan kettle --version 0.3.0",
		reaction{"has not planned", func() { c.plans("kettle", "Plan for clusterextension/kettle: update, which would be stopped", "it") }})
	step("plan-problems", "mainstay extension plan kettle --version 0.3.0 -o json --detailed-exitcode",
		reaction{"has not planned", func() {
			c.plans("kettle", "Plan for clusterextension/kettle: update, which would be stopped", "it", "that")
		}})
	c.unplanned("kettle")
	step("plan-existing-late", "mainstay extension plan kettle --timeout 1ms")
	c.unplanned("kettle")
	step("plan-elsewhere", "mainstay extension plan kettle --namespace elsewhere")
	step("plan-watch", "mainstay extension plan kettle --watch-namespace elsewhere")

	c.annotatePlan("kettle", olmv1.PlanOnly)
	c.plans("kettle", "Plan for clusterextension/kettle: nothing would change")
	step("plan-there", "mainstay extension plan kettle")
	step("plan-asked", "mainstay extension plan kettle --version 0.3.0")
	step("plan-upgrade", "mainstay extension upgrade kettle --version= --wait")
	c.annotatePlan("kettle", "")
}
