package install

import (
	"context"
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// +kubebuilder:rbac:groups="",namespace=olmv1-system,resources=configmaps,verbs=get;list;create;patch;delete

// planStore writes the ConfigMaps of plans.
type planStore struct {
	client client.Client
	// reader reads from the API server.
	reader          client.Reader
	systemNamespace string
	registry        *planRegistry
}

// hasPlan returns whether an extension has a plan.
func (s *planStore) hasPlan(ctx context.Context, extension string) (bool, error) {
	return s.registry.lookUpPlan(ctx, s.reader, s.systemNamespace, extension)
}

// readConfigMap returns the ConfigMap with the name of a plan, or nil if there is none.
func (s *planStore) readConfigMap(ctx context.Context, key client.ObjectKey) (*corev1.ConfigMap, error) {
	found := &corev1.ConfigMap{}
	err := s.reader.Get(ctx, key, found)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, newPlanWriteError(key, err)
	}
	return found, nil
}

// writeConfigMap creates the ConfigMap of a plan, or patches the existing one if it differs.
func (s *planStore) writeConfigMap(ctx context.Context, extension string, wanted, existing *corev1.ConfigMap) error {
	var err error
	if existing == nil {
		err = s.client.Create(ctx, wanted)
	} else {
		after := existing.DeepCopy()
		after.Annotations, after.OwnerReferences, after.Data = wanted.Annotations, wanted.OwnerReferences, wanted.Data
		if !equality.Semantic.DeepEqual(existing, after) {
			err = s.client.Patch(ctx, after, client.MergeFrom(existing))
		}
	}

	if err != nil {
		return newPlanWriteError(client.ObjectKeyFromObject(wanted), err)
	}

	return s.registry.recordPlan(ctx, s.reader, s.systemNamespace, extension, true)
}

// deleteConfigMap deletes the plan of an extension.
func (s *planStore) deleteConfigMap(ctx context.Context, extension string) error {
	plan := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.systemNamespace, Name: olmv1.PlanName(extension)}}
	if err := s.client.Delete(ctx, plan); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the plan of %q, ConfigMap %q in namespace %q: %w", extension, plan.Name, plan.Namespace, err)
	}
	return s.registry.recordPlan(ctx, s.reader, s.systemNamespace, extension, false)
}

func newPlanWriteError(key client.ObjectKey, err error) error {
	return fmt.Errorf("writing the plan to %s: %w", describeConfigMap(key), err)
}

func describeConfigMap(key client.ObjectKey) string {
	return fmt.Sprintf("ConfigMap %q in namespace %q", key.Name, key.Namespace)
}

// isPlanForExtension reports whether a ConfigMap is the plan of an extension with that name. The
// extension may be gone.
func isPlanForExtension(object metav1.Object, extension string) bool {
	controller := metav1.GetControllerOf(object)
	return controller != nil && controller.Kind == olmv1.ClusterExtensionKind && controller.Name == extension &&
		strings.HasPrefix(controller.APIVersion, olmv1.GroupVersion.Group+"/")
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
