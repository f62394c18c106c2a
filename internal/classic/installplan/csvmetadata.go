package installplan

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/membership"
)

// listComponentLabels returns the labels that state to which Operator the objects of each ClusterServiceVersion of a plan
// belong, by the name of the ClusterServiceVersion. olm-operator adds those that are missing, one by one.
func listComponentLabels(plan *v1alpha1.InstallPlan, subs []v1alpha1.Subscription) map[string]map[string]string {
	components := map[string]map[string]string{}
	add := func(csv, pkg string) {
		if key, ok := csvinfo.ComponentKey(csvinfo.OperatorName(pkg, plan.Namespace)); ok && csv != "" && pkg != "" {
			components[csv] = csvinfo.MergeLabels(components[csv], map[string]string{key: ""})
		}
	}

	for i := range subs {
		add(subs[i].Status.CurrentCSV, subs[i].Spec.Package)
	}
	for _, step := range plan.Status.Plan {
		if step == nil || step.Resource.Kind != v1alpha1.SubscriptionKind {
			continue
		}
		// The plan creates this Subscription. A manifest that cannot be read fails the step.
		var sub v1alpha1.Subscription
		if err := json.Unmarshal([]byte(step.Resource.Manifest), &sub); err == nil {
			add(step.Resolving, sub.Spec.Package)
		}
	}

	return components
}

// completeCSVMetadata adds the metadata to a new ClusterServiceVersion that olm-operator would add to it in separate
// writes: the labels of its APIs, the annotations of its OperatorGroup, and the finalizer. It may be deleted before
// olm-operator sees it, and the next steps create cluster-scoped objects for it. olm-operator corrects the rest.
func completeCSVMetadata(object *unstructured.Unstructured, groups []operatorsv1.OperatorGroup) {
	controllerutil.AddFinalizer(object, csvinfo.Finalizer)
	csv := &v1alpha1.ClusterServiceVersion{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, csv); err != nil {
		return // The API server rejects it, with a better message.
	}

	if apis, err := csvinfo.APILabels(csv); err == nil {
		object.SetLabels(csvinfo.MergeLabels(object.GetLabels(), apis))
	}
	if len(groups) == 1 && len(groups[0].Status.Namespaces) > 0 {
		annotations, _ := membership.WithGroupAnnotations(csv, &groups[0])
		object.SetAnnotations(annotations)
	}
}
