package installplan

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

const (
	kindSecret         = "Secret"
	kindCRD            = "CustomResourceDefinition"
	kindServiceAccount = "ServiceAccount"
	kindService        = "Service"
)

// The API versions of kinds that are known by name.
var (
	coreVersion = corev1.SchemeGroupVersion.String()
	rbacVersion = rbacv1.SchemeGroupVersion.String()
	olmVersion  = v1alpha1.GroupVersion.String()
)

// handling states how the objects of a kind are installed.
type handling struct {
	// createOnly is true when an existing object is not updated.
	createOnly bool
	// owned is true when the object is owned by its ClusterServiceVersion and deleted with it.
	owned bool
	// apiVersion is that of manifests without one. It is empty for kinds whose manifests or steps must have one.
	apiVersion string
}

// kinds are the kinds that plans may install, and how they are installed.
var kinds = map[string]handling{
	v1alpha1.ClusterServiceVersionKind: {createOnly: true, apiVersion: olmVersion},
	v1alpha1.SubscriptionKind:          {createOnly: true, apiVersion: olmVersion},
	kindSecret:                         {createOnly: true, apiVersion: coreVersion},
	kindCRD:                            {apiVersion: apiextensionsv1.SchemeGroupVersion.String()},
	v1alpha1.KindBundleSecret:          {owned: true, apiVersion: coreVersion},
	kindServiceAccount:                 {apiVersion: coreVersion},
	"Role":                             {apiVersion: rbacVersion},
	"RoleBinding":                      {apiVersion: rbacVersion},
	"ClusterRole":                      {owned: true, apiVersion: rbacVersion},
	"ClusterRoleBinding":               {owned: true, apiVersion: rbacVersion},
	kindService:                        {owned: true, apiVersion: coreVersion},
	"ConfigMap":                        {owned: true, apiVersion: coreVersion},
	"PodMonitor":                       {owned: true},
	"PrometheusRule":                   {owned: true},
	"ServiceMonitor":                   {owned: true},
	"PodDisruptionBudget":              {owned: true},
	"PriorityClass":                    {owned: true},
	"VerticalPodAutoscaler":            {owned: true},
	"ConsoleYAMLSample":                {owned: true},
	"ConsoleQuickStart":                {owned: true},
	"ConsoleCLIDownload":               {owned: true},
	"ConsoleLink":                      {owned: true},
	"ConsolePlugin":                    {owned: true},
	"NetworkPolicy":                    {owned: true},
}

// createOrUpdate creates or updates an object with the rights of the plan's service account, and returns the new status
// of its step.
func (x *execution) createOrUpdate(ctx context.Context, handling handling, object *unstructured.Unstructured) (v1alpha1.StepStatus, error) {
	if object.GetKind() == v1alpha1.SubscriptionKind {
		annotations := csvinfo.MergeLabels(object.GetAnnotations(), map[string]string{v1alpha1.AnnotationGeneratedBy: x.plan.Name})
		object.SetAnnotations(annotations)
	}

	created := object.DeepCopy()
	err := x.scoped.Create(ctx, created)
	if err == nil {
		if object.GetKind() == v1alpha1.ClusterServiceVersionKind {
			x.created[object.GetName()] = created.GetUID()
		}
		return v1alpha1.StepStatusCreated, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return v1alpha1.StepStatusUnknown, fmt.Errorf("error creating %s %s: %w", strings.ToLower(object.GetKind()), object.GetName(), err)
	}
	if handling.createOnly {
		return v1alpha1.StepStatusPresent, nil
	}
	if err := updateObject(ctx, x.scoped, object); err != nil {
		return v1alpha1.StepStatusUnknown, fmt.Errorf("error updating %s %s: %w", strings.ToLower(object.GetKind()), object.GetName(), err)
	}

	return v1alpha1.StepStatusPresent, nil
}

// updateObject updates an existing object to the wanted state. It retries on conflict.
func updateObject(ctx context.Context, c client.Client, wanted *unstructured.Unstructured) error {
	return reconcile.RetryStale(func() error {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(wanted.GroupVersionKind())
		if err := c.Get(ctx, client.ObjectKeyFromObject(wanted), live); err != nil {
			return err
		}

		merged := mergeObject(live, wanted)
		if equality.Semantic.DeepEqual(live.Object, merged.Object) {
			return nil
		}

		return c.Update(ctx, merged)
	})
}

// mergeObject returns the new state of an object. It has the content of the manifest, the live status, and the metadata
// of both.
func mergeObject(live, wanted *unstructured.Unstructured) *unstructured.Unstructured {
	merged := &unstructured.Unstructured{Object: maps.Clone(wanted.DeepCopy().Object)}
	merged.Object["metadata"] = live.DeepCopy().Object["metadata"]
	if status, ok := live.Object["status"]; ok {
		merged.Object["status"] = status
	}
	if all := csvinfo.MergeLabels(live.GetLabels(), wanted.GetLabels()); len(all) > 0 {
		merged.SetLabels(all)
	}
	if all := csvinfo.MergeLabels(live.GetAnnotations(), wanted.GetAnnotations()); len(all) > 0 {
		merged.SetAnnotations(all)
	}
	if owners := mergeOwnerReferences(live.GetOwnerReferences(), wanted.GetOwnerReferences()); len(owners) > 0 {
		merged.SetOwnerReferences(owners)
	}

	switch wanted.GetKind() {
	case kindServiceAccount:
		keepFields(merged, live, []string{"secrets"}, []string{"imagePullSecrets"})
	case kindService:
		keepFields(merged, live, []string{"spec", "clusterIP"}, []string{"spec", "clusterIPs"})
	}

	return merged
}

// keepFields copies fields of the live object that the manifest does not set.
func keepFields(merged, live *unstructured.Unstructured, fields ...[]string) {
	for _, field := range fields {
		if _, ok, _ := unstructured.NestedFieldNoCopy(merged.Object, field...); ok {
			continue
		}
		if value, ok, _ := unstructured.NestedFieldCopy(live.Object, field...); ok {
			_ = unstructured.SetNestedField(merged.Object, value, field...) // The API server rejects a parent that is not a map.
		}
	}
}

// mergeOwnerReferences adds owner references, without duplicates.
func mergeOwnerReferences(have, more []metav1.OwnerReference) []metav1.OwnerReference {
	merged := slices.Clone(have)
	for _, owner := range more {
		same := func(o metav1.OwnerReference) bool {
			return o.Kind == owner.Kind && o.Name == owner.Name && o.UID == owner.UID
		}
		if !slices.ContainsFunc(merged, same) {
			merged = append(merged, owner)
		}
	}

	return merged
}

// copyPullSecret copies a pull secret from the namespace of the controller.
func (x *execution) copyPullSecret(ctx context.Context, step *v1alpha1.Step) error {
	var secret corev1.Secret
	if err := x.scoped.Get(ctx, client.ObjectKey{Namespace: x.namespace, Name: step.Resource.Name}, &secret); err != nil {
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("secret %s does not exist - %w", step.Resource.Name, err)
		}
		return fmt.Errorf("error getting pull secret from olm namespace %s: %w", step.Resource.Name, err)
	}

	copied := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: x.plan.Namespace, Name: secret.Name, Labels: csvinfo.MergeLabels(secret.Labels, map[string]string{csvinfo.LabelManaged: "true"}),
		},
		Type: secret.Type, Data: secret.Data,
	}

	switch err := x.scoped.Create(ctx, copied); {
	case err == nil:
		step.Status = v1alpha1.StepStatusCreated
	case apierrors.IsAlreadyExists(err):
		step.Status = v1alpha1.StepStatusPresent
	default:
		return fmt.Errorf("error creating secret %s: %w", secret.Name, err)
	}

	return nil
}

// checkCRDOwners returns an error for a dependency that owns a CRD which another ClusterServiceVersion in the namespace
// owns too, unless it replaces the other one.
func (x *execution) checkCRDOwners(ctx context.Context, step *v1alpha1.Step, object *unstructured.Unstructured) error {
	if slices.Contains(x.plan.Spec.ClusterServiceVersionNames, step.Resource.Name) {
		return nil
	}

	owned := ownedCRDNames(object)
	replaces, _, _ := unstructured.NestedString(object.Object, "spec", "replaces")
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(csvKind)
	if err := x.own.List(ctx, list, client.InNamespace(x.plan.Namespace)); err != nil {
		return fmt.Errorf("listing the ClusterServiceVersions of namespace %s: %w", x.plan.Namespace, err)
	}

	for i := range list.Items {
		other := &list.Items[i]
		if other.GetName() == object.GetName() || other.GetName() == replaces || csvinfo.HasCopiedMetadata(other) {
			continue
		}
		if slices.ContainsFunc(ownedCRDNames(other), func(name string) bool { return slices.Contains(owned, name) }) {
			return fmt.Errorf("pre-existing CRD owners found for owned CRD(s) of dependent CSV %s", object.GetName())
		}
	}

	return nil
}

func ownedCRDNames(csv *unstructured.Unstructured) []string {
	var names []string
	owned, _, _ := unstructured.NestedSlice(csv.Object, "spec", "customresourcedefinitions", "owned")
	for _, item := range owned {
		if definition, ok := item.(map[string]any); ok {
			name, _ := definition["name"].(string)
			names = append(names, name)
		}
	}

	return names
}
