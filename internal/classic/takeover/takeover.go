// Package takeover labels the objects that another OLM Classic left on a cluster.
//
// Caches select most objects of operators by the label olm.managed. Releases of OLM Classic that did not filter their
// caches created objects without it. A cluster that such a release managed is taken over while its operators run:
// the objects are labelled once, and each watch reports an object when it has the label. No restart is needed. Hashes of
// permissions are not added as labels, because all decisions read the rules of roles.
package takeover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	operatorsv2 "github.com/mainstay-dev/mainstay/api/operators/v2"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

const (
	// retryInterval is the time between two attempts to label all objects.
	retryInterval = 30 * time.Second
	// maxPageSize limits the objects of one request, because most objects of a cluster do not belong to operators.
	maxPageSize = 500
)

// kinds are the kinds of which OLM Classic creates objects that it later selects by label.
var kinds = []schema.GroupVersionKind{
	appsv1.SchemeGroupVersion.WithKind("Deployment"),
	corev1.SchemeGroupVersion.WithKind("Service"),
	corev1.SchemeGroupVersion.WithKind("Secret"),
	corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
	corev1.SchemeGroupVersion.WithKind("ConfigMap"),
	rbacv1.SchemeGroupVersion.WithKind("Role"),
	rbacv1.SchemeGroupVersion.WithKind("RoleBinding"),
	rbacv1.SchemeGroupVersion.WithKind("ClusterRole"),
	rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"),
	apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"),
}

// owningKinds are the kinds of OLM Classic for which it creates objects.
var owningKinds = []string{
	v1alpha1.ClusterServiceVersionKind, v1alpha1.CatalogSourceKind, operatorsv1.OperatorGroupKind, operatorsv2.OperatorConditionKind,
}

// isUnlabelled selects objects without the label.
var isUnlabelled = newUnlabelledSelector()

func newUnlabelledSelector() client.MatchingLabelsSelector {
	requirement, _ := labels.NewRequirement(csvinfo.LabelManaged, selection.DoesNotExist, nil) // The label is a constant.
	return client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*requirement)}
}

// Labeller labels the objects of OLM Classic that lack the label olm.managed.
type Labeller struct {
	// Client patches labels.
	Client client.Client
	// Reader reads from the API server without the cache.
	Reader client.Reader
}

// A change of the labels of a role or a binding requires the rights to write its content.

// +kubebuilder:rbac:groups="",resources=configmaps;secrets;serviceaccounts;services,verbs=list;patch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=list;patch
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=list;patch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterrolebindings;clusterroles;rolebindings;roles,verbs=list;patch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles;roles,verbs=bind;escalate

// NeedLeaderElection reports that only the leader labels objects.
func (l *Labeller) NeedLeaderElection() bool { return true }

// Start labels all objects once. It retries until it succeeds or the context ends.
func (l *Labeller) Start(ctx context.Context) error {
	ticker := time.NewTicker(retryInterval)
	defer ticker.Stop()
	for {
		err := l.Label(ctx)
		if err == nil || ctx.Err() != nil {
			return nil
		}
		ctrl.LoggerFrom(ctx).Error(err, "Labelling the objects of another OLM Classic")

		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// Label labels all objects that belong to OLM Classic and lack the label. An object that cannot be labelled does not
// keep it from labelling the others.
func (l *Labeller) Label(ctx context.Context) error {
	var errs []error
	for _, kind := range kinds {
		labelled, err := l.labelKind(ctx, kind)
		if labelled > 0 {
			ctrl.LoggerFrom(ctx).Info("Labelled objects of another OLM Classic", "kind", kind.Kind, "count", labelled)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// labelKind labels the objects of a kind page by page, and returns how many it labelled.
func (l *Labeller) labelKind(ctx context.Context, kind schema.GroupVersionKind) (labelled int, err error) {
	var errs []error
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	for isFirst := true; isFirst || list.Continue != ""; isFirst = false {
		if err := l.Reader.List(ctx, list, isUnlabelled, client.Limit(maxPageSize), client.Continue(list.Continue)); err != nil {
			return labelled, errors.Join(append(errs, fmt.Errorf("listing each %s without the label %s: %w", kind.Kind, csvinfo.LabelManaged, err))...)
		}

		for i := range list.Items {
			object := &list.Items[i]
			if !isCreatedByOLM(kind.Kind, object) {
				continue
			}
			if err := l.labelObject(ctx, kind, object); err != nil {
				errs = append(errs, err)
				continue
			}
			labelled++
		}
	}

	return labelled, errors.Join(errs...)
}

func (l *Labeller) labelObject(ctx context.Context, kind schema.GroupVersionKind, object *metav1.PartialObjectMetadata) error {
	object.SetGroupVersionKind(kind)
	before := object.DeepCopy()
	object.Labels = csvinfo.MergeLabels(object.Labels, map[string]string{csvinfo.LabelManaged: "true"})
	if err := l.Client.Patch(ctx, object, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("labelling %s %s: %w", kind.Kind, client.ObjectKeyFromObject(object), err)
	}
	return nil
}

// isCreatedByOLM reports whether OLM Classic created an object: an owner reference names one of its kinds, owner labels
// name a ClusterServiceVersion, or it is a CRD with the annotation of a ClusterServiceVersion.
func isCreatedByOLM(kind string, object metav1.Object) bool {
	if kind == "CustomResourceDefinition" {
		for key := range object.GetAnnotations() {
			if strings.HasPrefix(key, csvinfo.AnnotationInstalledAlongside) {
				return true
			}
		}
		return false
	}
	if _, _, ok := csvinfo.OwnedByLabels(object.GetLabels()); ok {
		return true // The roles of OperatorGroups are not labelled here: their controller labels those that it needs.
	}

	return slices.ContainsFunc(object.GetOwnerReferences(), func(o metav1.OwnerReference) bool {
		// A user may have created the ConfigMap of a catalog. catalog-operator labels it.
		isContentOfCatalog := kind == "ConfigMap" && o.Kind == v1alpha1.CatalogSourceKind
		return strings.HasPrefix(o.APIVersion, operatorsv1.GroupVersion.Group+"/") && slices.Contains(owningKinds, o.Kind) && !isContentOfCatalog
	})
}
