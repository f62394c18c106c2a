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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/crdinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/selfgrant"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
	"github.com/mainstay-dev/mainstay/internal/render"
)

// crdWriter creates and updates the CRDs of a plan.
type crdWriter struct {
	// client has the rights of the controller.
	client client.Client
	// cached reads crdinfo.Definitions from the cache.
	cached client.Reader
	grants *selfgrant.Granter
	events planEvents
	// namespace is the namespace of the plan.
	namespace string
}

// ensureCRD creates or updates a CRD with the rights of the controller, regardless of the plan's service account.
func (w *crdWriter) ensureCRD(ctx context.Context, step *v1alpha1.Step, object *unstructured.Unstructured) error {
	cached := &crdinfo.Definition{}
	isKnown := w.cached.Get(ctx, client.ObjectKeyFromObject(object), cached) == nil
	switch {
	case step.Status == v1alpha1.StepStatusWaitingForAPI && isKnown && crdinfo.IsServed(&cached.Status):
		step.Status = v1alpha1.StepStatusCreated
		return nil
	case step.Status != v1alpha1.StepStatusWaitingForAPI && !isKnown:
		// The cache decides only which request comes first.
		if err := w.createCRD(ctx, step, object); !apierrors.IsAlreadyExists(err) {
			return err
		}
	}

	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(object.GroupVersionKind())
	err := w.client.Get(ctx, client.ObjectKeyFromObject(object), live)
	switch {
	case apierrors.IsNotFound(err) && step.Status == v1alpha1.StepStatusWaitingForAPI:
		step.Status = v1alpha1.StepStatusNotPresent
		return fmt.Errorf("customresourcedefinition %s was deleted while its API was waited for", object.GetName())
	case apierrors.IsNotFound(err):
		return w.createCRD(ctx, step, object)
	case err != nil:
		return fmt.Errorf("error getting customresourcedefinition %s: %w", object.GetName(), err)
	case step.Status == v1alpha1.StepStatusWaitingForAPI:
		return recordServed(step, live)
	}

	if err := w.updateCRD(ctx, step, object, live); err != nil {
		return err
	}

	step.Status = v1alpha1.StepStatusPresent
	return nil
}

// createCRD creates a CRD. The step then waits until its API is served.
func (w *crdWriter) createCRD(ctx context.Context, step *v1alpha1.Step, object *unstructured.Unstructured) error {
	created := object.DeepCopy()
	render.DropPlaceholderCA(created)
	if err := w.annotateInstalledAlongside(ctx, step, created, nil); err != nil {
		return err
	}
	if err := w.client.Create(ctx, created); err != nil {
		return fmt.Errorf("error creating customresourcedefinition %s: %w", object.GetName(), err)
	}

	step.Status = v1alpha1.StepStatusWaitingForAPI
	return nil
}

// recordServed sets the status of a step once the API of its CRD is served.
func recordServed(step *v1alpha1.Step, live *unstructured.Unstructured) error {
	crd, err := toTypedCRD(live)
	if err != nil {
		return err
	}
	if crdinfo.IsServed(&crd.Status) {
		step.Status = v1alpha1.StepStatusCreated
	}
	return nil
}

// updateCRD updates an existing CRD, unless existing custom resources would become invalid or lost.
func (w *crdWriter) updateCRD(ctx context.Context, step *v1alpha1.Step, wanted, live *unstructured.Unstructured) error {
	render.DropPlaceholderCA(wanted)
	old, err := toTypedCRD(live)
	if err != nil {
		return err
	}

	updated, err := toTypedCRD(wanted)
	if err != nil {
		return err
	}
	if err := w.validateObjects(ctx, old, updated); err != nil {
		return err
	}
	if err := checkStoredVersions(old, updated); err != nil {
		return err
	}

	err = reconcile.RetryStale(func() error {
		now := &unstructured.Unstructured{}
		now.SetGroupVersionKind(live.GroupVersionKind())
		if err := w.client.Get(ctx, client.ObjectKeyFromObject(live), now); err != nil {
			return err
		}

		merged := mergeObject(now, wanted)
		if err := w.keepConversion(ctx, step, merged, now); err != nil {
			return err
		}
		if err := w.annotateInstalledAlongside(ctx, step, merged, now); err != nil {
			return err
		}
		if equality.Semantic.DeepEqual(merged.Object, now.Object) {
			return nil
		}

		return w.client.Update(ctx, merged)
	})
	if err != nil {
		return fmt.Errorf("error updating customresourcedefinition %s: %w", wanted.GetName(), err)
	}

	return nil
}

// keepConversion keeps the conversion webhook of a live CRD if the ClusterServiceVersion of the step has one for it. The
// manifest has none, or one without certificate authority and with a Service of the author's cluster. olm-operator sets the
// new one when it installs the ClusterServiceVersion. Until then, and if the step is executed once more, objects stay
// readable, and none is stored without conversion.
func (w *crdWriter) keepConversion(ctx context.Context, step *v1alpha1.Step, merged, live *unstructured.Unstructured) error {
	ca, _, _ := unstructured.NestedString(live.Object, "spec", "conversion", "webhook", "clientConfig", "caBundle")
	if ca == "" {
		return nil
	}

	csv := &v1alpha1.ClusterServiceVersion{}
	if err := w.client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: step.Resolving}, csv); err != nil {
		return client.IgnoreNotFound(err)
	}
	converts := func(d v1alpha1.WebhookDescription) bool {
		return d.Type == v1alpha1.ConversionWebhook && slices.Contains(d.ConversionCRDs, live.GetName())
	}
	if !slices.ContainsFunc(csv.Spec.WebhookDefinitions, converts) {
		return nil // Something else manages it, for example cert-manager.
	}

	conversion, _, _ := unstructured.NestedFieldCopy(live.Object, "spec", "conversion")
	return unstructured.SetNestedField(merged.Object, conversion, "spec", "conversion")
}

func toTypedCRD(object *unstructured.Unstructured) (*apiextensionsv1.CustomResourceDefinition, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, crd); err != nil {
		return nil, fmt.Errorf("customresourcedefinition %s cannot be read: %w", object.GetName(), err)
	}
	return crd, nil
}

// checkStoredVersions returns an error if the updated CRD lacks a stored version of the existing one.
func checkStoredVersions(old, updated *apiextensionsv1.CustomResourceDefinition) error {
	for _, stored := range old.Status.StoredVersions {
		has := func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == stored }
		if !slices.ContainsFunc(updated.Spec.Versions, has) {
			return fmt.Errorf("risk of data loss updating %q: new CRD removes version %s that is listed as a stored version on the existing CRD", updated.Name, stored)
		}
	}
	return nil
}

// validateObjects returns an error if existing objects are invalid by the new schema. For a CRD with a conversion
// webhook, which may make them valid, it only emits an event.
func (w *crdWriter) validateObjects(ctx context.Context, old, updated *apiextensionsv1.CustomResourceDefinition) error {
	changed := changedVersions(old, updated)
	if len(changed) == 0 {
		return nil
	}

	owner := metav1.OwnerReference{APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: kindCRD, Name: old.Name, UID: old.UID}
	if err := w.grants.ListAll(ctx, schema.GroupResource{Group: old.Spec.Group, Resource: old.Spec.Names.Plural}, owner); err != nil {
		return err
	}

	for _, change := range changed {
		err := w.validateVersion(ctx, updated, change)
		if err == nil {
			continue
		}

		err = fmt.Errorf("error validating existing CRs against new CRD's schema for %q: %w", updated.Name, err)
		restrictive := (*restrictiveError)(nil)
		conversion := updated.Spec.Conversion
		if errors.As(err, &restrictive) && conversion != nil && conversion.Strategy == apiextensionsv1.WebhookConverter {
			w.events.emitWarningEvent("status.plan", "CRDValidation", fmt.Sprintf("CustomResourceDefinition %q is updated although objects are not valid by its new schema, as it has a conversion webhook: %v", updated.Name, err))
			return nil
		}

		return err
	}

	return nil
}

// annotateInstalledAlongside records in a CRD the ClusterServiceVersions that it was installed with. It adds that of the
// step, keeps those in the annotations of both CRDs, and removes those that no longer exist.
func (w *crdWriter) annotateInstalledAlongside(ctx context.Context, step *v1alpha1.Step, object, before *unstructured.Unstructured) error {
	annotations := maps.Clone(object.GetAnnotations())
	if before != nil {
		annotations = csvinfo.MergeLabels(before.GetAnnotations(), annotations)
	}

	own := w.namespace + "/" + step.Resolving
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if !strings.HasPrefix(key, csvinfo.AnnotationInstalledAlongside) || annotations[key] == own {
			continue
		}
		exists, err := w.existsAsOriginal(ctx, annotations[key])
		if err != nil {
			return err
		}
		if !exists {
			delete(annotations, key)
		}
	}

	object.SetAnnotations(csvinfo.MergeLabels(annotations, map[string]string{csvinfo.AlongsideKey(w.namespace, step.Resolving): own}))
	return nil
}

// existsAsOriginal reports whether a ClusterServiceVersion, NAMESPACE/NAME, exists and is not a copied CSV.
func (w *crdWriter) existsAsOriginal(ctx context.Context, csvKey string) (bool, error) {
	namespace, name, ok := strings.Cut(csvKey, "/")
	if !ok {
		return false, nil
	}

	csv, err := getCSVMetadata(ctx, w.client, namespace, name)
	if apierrors.IsNotFound(err) {
		return false, nil
	}

	return err == nil && !csvinfo.HasCopiedMetadata(csv), err
}
