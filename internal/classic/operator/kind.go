package operator

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	operatorsv2 "github.com/mainstay-dev/mainstay/api/operators/v2"
	"github.com/mainstay-dev/mainstay/internal/classic/crdinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// Kinds of components that are handled in a special way.
var (
	subscriptionKind      = v1alpha1.GroupVersion.WithKind(v1alpha1.SubscriptionKind)
	installPlanKind       = v1alpha1.GroupVersion.WithKind(v1alpha1.InstallPlanKind)
	csvKind               = v1alpha1.GroupVersion.WithKind(v1alpha1.ClusterServiceVersionKind)
	deploymentKind        = appsv1.SchemeGroupVersion.WithKind("Deployment")
	crdKind               = crdinfo.Kind
	operatorConditionKind = operatorsv2.GroupVersion.WithKind(operatorsv2.OperatorConditionKind)
	configMapKind         = corev1.SchemeGroupVersion.WithKind("ConfigMap")
)

// componentKind is a kind of objects that can be components.
type componentKind struct {
	schema.GroupVersionKind

	// isShared is true if the metadata of all objects of the kind is in the manager's cache anyway.
	isShared bool
	// selector selects the objects that are watched. Empty means all.
	selector string
	// hasConditions is true if the status of the objects can have conditions.
	hasConditions bool
	// isOwned is true if OLM creates objects of the kind for a ClusterServiceVersion.
	isOwned bool
}

// componentKinds are the kinds of objects that can be components.
var componentKinds = []componentKind{
	{GroupVersionKind: deploymentKind, hasConditions: true, isOwned: true},
	{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Service"), isOwned: true},
	{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Namespace"), isShared: true},
	{GroupVersionKind: apiregistrationv1.SchemeGroupVersion.WithKind("APIService"), isShared: true, hasConditions: true, isOwned: true},
	{GroupVersionKind: crdKind, isShared: true, hasConditions: true},
	{GroupVersionKind: subscriptionKind, hasConditions: true},
	{GroupVersionKind: installPlanKind, hasConditions: true},
	{GroupVersionKind: csvKind, selector: "!" + csvinfo.LabelCopiedFrom, hasConditions: true},
	{GroupVersionKind: operatorConditionKind, isShared: true, hasConditions: true, isOwned: true},
	{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Secret"), isOwned: true},
	{GroupVersionKind: configMapKind, isOwned: true},
	{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ServiceAccount"), isShared: true, isOwned: true},
	{GroupVersionKind: rbacv1.SchemeGroupVersion.WithKind("Role"), isShared: true, isOwned: true},
	{GroupVersionKind: rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), isShared: true, isOwned: true},
	{GroupVersionKind: rbacv1.SchemeGroupVersion.WithKind("ClusterRole"), isShared: true, isOwned: true},
	{GroupVersionKind: rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"), isShared: true, isOwned: true},
}

// newPartialMetadata returns an object of a kind whose metadata alone is read.
func newPartialMetadata(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	return object
}

// newCachedObject returns an object of a kind as the manager's cache has it: a Deployment, whose status other controllers
// read, or the metadata of another kind.
func newCachedObject(kind schema.GroupVersionKind) client.Object {
	if kind == deploymentKind {
		return &appsv1.Deployment{}
	}
	return newPartialMetadata(kind)
}

// newCachedList returns a list of objects of a kind as a cache has them.
func newCachedList(kind schema.GroupVersionKind) client.ObjectList {
	switch kind {
	case crdKind:
		return &crdinfo.DefinitionList{}
	case deploymentKind:
		return &appsv1.DeploymentList{}
	default:
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		return list
	}
}

// listCached returns the metadata of the objects of a kind in a cache.
func listCached(ctx context.Context, reader client.Reader, kind schema.GroupVersionKind, options ...client.ListOption) ([]metav1.ObjectMeta, error) {
	list := newCachedList(kind)
	if err := reader.List(ctx, list, options...); err != nil {
		return nil, err
	}

	var objects []metav1.ObjectMeta
	err := meta.EachListItem(list, func(object runtime.Object) error {
		metadata, err := metadataOf(object)
		if err == nil {
			objects = append(objects, *metadata)
		}
		return err
	})
	return objects, err
}

// metadataOf returns the metadata of an object.
func metadataOf(object runtime.Object) (*metav1.ObjectMeta, error) {
	accessor, ok := object.(metav1.ObjectMetaAccessor)
	if ok {
		if metadata, ok := accessor.GetObjectMeta().(*metav1.ObjectMeta); ok {
			return metadata, nil
		}
	}
	return nil, fmt.Errorf("%T has no metadata", object)
}
