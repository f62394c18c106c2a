package unpack

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/steps"
)

const (
	// collectInterval is how often unpacked content is looked through.
	collectInterval = 10 * time.Minute
	// contentGrace is how long content is kept that no InstallPlan refers to: its plan may be about to
	// be made, once all other bundles are there.
	contentGrace = time.Hour
)

// The namespace is named as it is in config: a release moves it to where the program is.

// +kubebuilder:rbac:groups="",namespace=olm,resources=configmaps,verbs=list;delete

// Collector deletes what was unpacked inline and is not needed any more. It does what an owner
// reference cannot: the catalog is in another namespace.
type Collector struct {
	// Client reads CatalogSources and InstallPlans, also from a cache, and deletes.
	Client client.Client
	// Reader reads what no cache holds.
	Reader client.Reader
	// Namespace is that of the program.
	Namespace string
	// Now tells the time. Unset means that of the machine.
	Now func() time.Time
}

// Start collects until the context ends.
func (c *Collector) Start(ctx context.Context) error {
	ticker := time.NewTicker(collectInterval)
	defer ticker.Stop()
	for {
		if err := c.Collect(ctx); err != nil && ctx.Err() == nil {
			ctrl.LoggerFrom(ctx).Error(err, "Deleting unpacked bundles that nothing needs any more")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// Collect deletes the content of catalogs that are gone, and what no InstallPlan has referred to for a
// while.
func (c *Collector) Collect(ctx context.Context) error {
	var contents metav1.PartialObjectMetadataList
	contents.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	if err := c.Reader.List(ctx, &contents, client.InNamespace(c.Namespace), client.HasLabels{LabelCatalogUID}); err != nil {
		return fmt.Errorf("listing the unpacked bundles in namespace %s: %w", c.Namespace, err)
	}
	if len(contents.Items) == 0 {
		return nil
	}

	var catalogs v1alpha1.CatalogSourceList
	if err := c.Client.List(ctx, &catalogs); err != nil {
		return fmt.Errorf("listing CatalogSources: %w", err)
	}

	var plans v1alpha1.InstallPlanList
	if err := c.Client.List(ctx, &plans, client.UnsafeDisableDeepCopy); err != nil { // They are only read.
		return fmt.Errorf("listing InstallPlans: %w", err)
	}

	now := time.Now()
	if c.Now != nil {
		now = c.Now()
	}

	var errs []error
	for _, content := range unneeded(contents.Items, catalogs.Items, plans.Items, now) {
		gone := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: content.Namespace, Name: content.Name}}
		if err := client.IgnoreNotFound(c.Client.Delete(ctx, gone, client.Preconditions{UID: &content.UID})); err != nil {
			errs = append(errs, fmt.Errorf("deleting ConfigMap %s/%s: %w", gone.Namespace, gone.Name, err))
		}
	}

	return errors.Join(errs...)
}

// unneeded returns the content that is deleted: of catalogs that are gone, and older than the grace
// period without an InstallPlan that refers to it.
func unneeded(contents []metav1.PartialObjectMetadata, catalogs []v1alpha1.CatalogSource, plans []v1alpha1.InstallPlan, now time.Time) []metav1.PartialObjectMetadata {
	there, referred := sets.Set[string]{}, sets.Set[string]{}
	for i := range catalogs {
		there.Insert(string(catalogs[i].UID))
	}

	for i := range plans {
		for _, step := range plans[i].Status.Plan {
			if step == nil {
				continue
			}
			if ref, ok := steps.ReferenceOf(step); ok {
				referred.Insert(ref.Namespace + "/" + ref.Name)
			}
		}
	}

	var all []metav1.PartialObjectMetadata
	for _, content := range contents {
		isOld := now.Sub(content.CreationTimestamp.Time) > contentGrace
		if !there.Has(content.Labels[LabelCatalogUID]) || isOld && !referred.Has(content.Namespace+"/"+content.Name) {
			all = append(all, content)
		}
	}

	return all
}
