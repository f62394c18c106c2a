package installplan

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/render"
)

// definition has a CustomResourceDefinition be there, with the rights of the controller whatever the
// account of the plan is.
func (x *execution) definition(ctx context.Context, step *v1alpha1.Step, object *unstructured.Unstructured) error {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(object.GroupVersionKind())
	err := x.own.Get(ctx, client.ObjectKeyFromObject(object), live)
	switch {
	case apierrors.IsNotFound(err) && step.Status == v1alpha1.StepStatusWaitingForAPI:
		step.Status = v1alpha1.StepStatusNotPresent
		return fmt.Errorf("customresourcedefinition %s was deleted while its API was waited for", object.GetName())
	case apierrors.IsNotFound(err):
		return x.createDefinition(ctx, step, object)
	case err != nil:
		return fmt.Errorf("error getting customresourcedefinition %s: %w", object.GetName(), err)
	case step.Status == v1alpha1.StepStatusWaitingForAPI:
		return x.noteServed(step, live)
	}

	if err := x.updateDefinition(ctx, step, object, live); err != nil {
		return err
	}

	step.Status = v1alpha1.StepStatusPresent
	return nil
}

// createDefinition creates one. It is of use when its API is served.
func (x *execution) createDefinition(ctx context.Context, step *v1alpha1.Step, object *unstructured.Unstructured) error {
	render.DropPlaceholderCA(object)
	if err := x.noteAlongside(ctx, step, object, nil); err != nil {
		return err
	}
	if err := x.own.Create(ctx, object); err != nil {
		return fmt.Errorf("error creating customresourcedefinition %s: %w", object.GetName(), err)
	}

	step.Status = v1alpha1.StepStatusWaitingForAPI
	return nil
}

func (x *execution) noteServed(step *v1alpha1.Step, live *unstructured.Unstructured) error {
	crd, err := typed(live)
	if err != nil {
		return err
	}

	met := map[apiextensionsv1.CustomResourceDefinitionConditionType]bool{}
	for _, c := range crd.Status.Conditions {
		met[c.Type] = c.Status == apiextensionsv1.ConditionTrue
	}

	if met[apiextensionsv1.Established] && met[apiextensionsv1.NamesAccepted] {
		step.Status = v1alpha1.StepStatusCreated
	}

	return nil
}

// updateDefinition changes one that is there, if no object of it is lost by that.
func (x *execution) updateDefinition(ctx context.Context, step *v1alpha1.Step, wanted, live *unstructured.Unstructured) error {
	render.DropPlaceholderCA(wanted)
	old, err := typed(live)
	if err != nil {
		return err
	}

	updated, err := typed(wanted)
	if err != nil {
		return err
	}
	if err := x.validateObjects(ctx, old, updated); err != nil {
		return err
	}
	if err := checkStored(old, updated); err != nil {
		return err
	}

	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		now := &unstructured.Unstructured{}
		now.SetGroupVersionKind(live.GroupVersionKind())
		if err := x.own.Get(ctx, client.ObjectKeyFromObject(live), now); err != nil {
			return err
		}

		merged := merge(now, wanted)
		if err := x.noteAlongside(ctx, step, merged, now); err != nil {
			return err
		}
		if equality.Semantic.DeepEqual(merged.Object, now.Object) {
			return nil
		}

		return x.own.Update(ctx, merged)
	})
	if err != nil {
		return fmt.Errorf("error updating customresourcedefinition %s: %w", wanted.GetName(), err)
	}

	return nil
}

func typed(object *unstructured.Unstructured) (*apiextensionsv1.CustomResourceDefinition, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, crd); err != nil {
		return nil, fmt.Errorf("customresourcedefinition %s cannot be read: %w", object.GetName(), err)
	}
	return crd, nil
}

// checkStored refuses a definition that lacks versions in which objects are stored.
func checkStored(old, updated *apiextensionsv1.CustomResourceDefinition) error {
	for _, stored := range old.Status.StoredVersions {
		has := func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == stored }
		if !slices.ContainsFunc(updated.Spec.Versions, has) {
			return fmt.Errorf("risk of data loss updating %q: new CRD removes version %s that is listed as a stored version on the existing CRD", updated.Name, stored)
		}
	}
	return nil
}

// validateObjects refuses a definition that objects of the cluster are not valid by. With a conversion
// webhook, which may make them valid, it only tells.
func (x *execution) validateObjects(ctx context.Context, old, updated *apiextensionsv1.CustomResourceDefinition) error {
	changed := changedVersions(old, updated)
	if len(changed) == 0 {
		return nil
	}

	owner := metav1.OwnerReference{APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: kindCRD, Name: old.Name, UID: old.UID}
	if err := x.clients.grants.ListAll(ctx, schema.GroupResource{Group: old.Spec.Group, Resource: old.Spec.Names.Plural}, owner); err != nil {
		return err
	}

	for _, change := range changed {
		err := x.validateVersion(ctx, updated, change)
		if err == nil {
			continue
		}

		err = fmt.Errorf("error validating existing CRs against new CRD's schema for %q: %w", updated.Name, err)
		restrictive := (*restrictiveError)(nil)
		conversion := updated.Spec.Conversion
		if errors.As(err, &restrictive) && conversion != nil && conversion.Strategy == apiextensionsv1.WebhookConverter {
			x.event("status.plan", "CRDValidation", fmt.Sprintf("CustomResourceDefinition %q is updated although objects are not valid by its new schema, as it has a conversion webhook: %v", updated.Name, err))
			return nil
		}

		return err
	}

	return nil
}

// noteAlongside notes on a definition which ClusterServiceVersions it was installed with: that of the
// step, and those that it, or the one before it, names and that are still there.
func (x *execution) noteAlongside(ctx context.Context, step *v1alpha1.Step, object, before *unstructured.Unstructured) error {
	annotations := maps.Clone(object.GetAnnotations())
	if before != nil {
		annotations = csvinfo.With(before.GetAnnotations(), annotations)
	}

	own := x.plan.Namespace + "/" + step.Resolving
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if !strings.HasPrefix(key, csvinfo.AnnotationInstalledAlongside) || annotations[key] == own {
			continue
		}
		there, err := x.isThere(ctx, annotations[key])
		if err != nil {
			return err
		}
		if !there {
			delete(annotations, key)
		}
	}

	object.SetAnnotations(csvinfo.With(annotations, map[string]string{csvinfo.AlongsideKey(x.plan.Namespace, step.Resolving): own}))
	return nil
}

// isThere reports whether a ClusterServiceVersion, NAMESPACE/NAME, is on the cluster and no copy.
func (x *execution) isThere(ctx context.Context, of string) (bool, error) {
	namespace, name, ok := strings.Cut(of, "/")
	if !ok {
		return false, nil
	}

	other := execution{executor: x.executor, own: x.own, plan: &v1alpha1.InstallPlan{}}
	other.plan.Namespace = namespace
	csv, err := other.csv(ctx, name)
	if apierrors.IsNotFound(err) {
		return false, nil
	}

	return err == nil && !csvinfo.HasCopyMarks(csv), err
}
