package install

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// +kubebuilder:rbac:groups="",namespace=olmv1-system,resources=configmaps,verbs=get;list;create;patch;delete

// writePlanConfigMap creates the ConfigMap of a plan, or patches it if it differs.
func (a *attempt) writePlanConfigMap(ctx context.Context, ext *olmv1.ClusterExtension, value string, data map[string]string) error {
	wanted := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: a.SystemNamespace, Name: olmv1.PlanName(ext.Name),
			Labels:          map[string]string{olmv1.LabelOwnerKind: olmv1.ClusterExtensionKind, olmv1.LabelOwnerName: ext.Name},
			Annotations:     map[string]string{olmv1.AnnotationPlanFor: strconv.FormatInt(ext.Generation, 10) + " " + value},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(ext, olmv1.GroupVersion.WithKind(olmv1.ClusterExtensionKind))},
		},
		Data: data,
	}

	description := fmt.Sprintf("ConfigMap %q in namespace %q", wanted.Name, wanted.Namespace)
	var existing corev1.ConfigMap
	err := a.Reader.Get(ctx, client.ObjectKeyFromObject(wanted), &existing)
	switch {
	case apierrors.IsNotFound(err):
		err = a.Client.Create(ctx, wanted)
	case err != nil:
	case !isPlanForExtension(&existing, ext.Name):
		return reconcile.Stop(olmv1.ReasonBlocked, fmt.Errorf("the plan cannot be written, as %s has another owner: delete it", description))
	default:
		before := existing.DeepCopy()
		existing.Annotations, existing.OwnerReferences, existing.Data = wanted.Annotations, wanted.OwnerReferences, wanted.Data
		if !equality.Semantic.DeepEqual(before, &existing) {
			err = a.Client.Patch(ctx, &existing, client.MergeFrom(before))
		}
	}

	if err != nil {
		return fmt.Errorf("writing the plan to %s: %w", description, err)
	}

	return a.planRegistry.recordPlan(ctx, a.Reader, a.SystemNamespace, ext.Name, true)
}

// isPlanForExtension reports whether a ConfigMap is the plan of an extension with that name. The
// extension may be gone.
func isPlanForExtension(object metav1.Object, extension string) bool {
	controller := metav1.GetControllerOf(object)
	return controller != nil && controller.Kind == olmv1.ClusterExtensionKind && controller.Name == extension &&
		strings.HasPrefix(controller.APIVersion, olmv1.GroupVersion.Group+"/")
}

// deletePlanConfigMap deletes the plan of an extension without the annotation.
func (a *attempt) deletePlanConfigMap(ctx context.Context, ext *olmv1.ClusterExtension) error {
	known, err := a.planRegistry.lookUpPlan(ctx, a.Reader, a.SystemNamespace, ext.Name)
	if err != nil || !known {
		return err
	}

	a.waitingExtensions.remove(ext.Name)
	plan := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: a.SystemNamespace, Name: olmv1.PlanName(ext.Name)}}
	if err := a.Client.Delete(ctx, plan); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the plan of %q, ConfigMap %q in namespace %q: %w", ext.Name, plan.Name, plan.Namespace, err)
	}

	return a.planRegistry.recordPlan(ctx, a.Reader, a.SystemNamespace, ext.Name, false)
}

// planRegistry tracks which extensions have a plan, so that an extension without one costs no
// request. Plans of an earlier process are listed once. The zero value is ready for use.
type planRegistry struct {
	mu         sync.Mutex
	extensions map[string]bool
}

func (p *planRegistry) lookUpPlan(ctx context.Context, reader client.Reader, namespace, extension string) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.loadExistingPlans(ctx, reader, namespace); err != nil {
		return false, err
	}
	return p.extensions[extension], nil
}

func (p *planRegistry) recordPlan(ctx context.Context, reader client.Reader, namespace, extension string, has bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.loadExistingPlans(ctx, reader, namespace); err != nil {
		return err
	}

	delete(p.extensions, extension)
	if has {
		p.extensions[extension] = true
	}

	return nil
}

func (p *planRegistry) loadExistingPlans(ctx context.Context, reader client.Reader, namespace string) error {
	if p.extensions != nil {
		return nil
	}

	list := metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	err := reader.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{olmv1.LabelOwnerKind: olmv1.ClusterExtensionKind})
	if err != nil {
		return fmt.Errorf("listing the plans in namespace %q: %w", namespace, err)
	}

	p.extensions = map[string]bool{}
	for i := range list.Items {
		if name := list.Items[i].Labels[olmv1.LabelOwnerName]; isPlanForExtension(&list.Items[i], name) && list.Items[i].Name == olmv1.PlanName(name) {
			p.extensions[name] = true
		}
	}

	return nil
}
