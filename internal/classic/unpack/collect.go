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
	// collectResyncInterval is how often unneeded content is deleted.
	collectResyncInterval = 10 * time.Minute
	// unreferencedContentTTL is how long content is kept that no InstallPlan refers to. Its
	// InstallPlan may be created when all other bundles are unpacked.
	unreferencedContentTTL = time.Hour
)

// The namespace is the one in config. A release replaces it by the namespace of the program.

// +kubebuilder:rbac:groups="",namespace=olm,resources=configmaps,verbs=list;delete

// Collector deletes content that was unpacked inline and is not needed any more. Owner
// references cannot do that, because the catalog is in another namespace.
type Collector struct {
	// Client reads CatalogSources and InstallPlans, possibly from a cache, and deletes
	// ConfigMaps.
	Client client.Client
	// Reader reads objects that are not cached.
	Reader client.Reader
	// Namespace is the namespace of the program.
	Namespace string
	// Now returns the time. If it is nil, time.Now is used.
	Now func() time.Time
}

// Start collects periodically until the context ends.
func (c *Collector) Start(ctx context.Context) error {
	ticker := time.NewTicker(collectResyncInterval)
	defer ticker.Stop()
	for {
		if err := c.Collect(ctx); err != nil && ctx.Err() == nil {
			ctrl.LoggerFrom(ctx).Error(err, "Deleting unpacked bundles that are not needed any more")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// Collect deletes the content of deleted catalogs, and content that no InstallPlan has referred
// to for unreferencedContentTTL.
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
	for _, content := range selectUnneededContent(contents.Items, catalogs.Items, plans.Items, now) {
		gone := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: content.Namespace, Name: content.Name}}
		if err := client.IgnoreNotFound(c.Client.Delete(ctx, gone, client.Preconditions{UID: &content.UID})); err != nil {
			errs = append(errs, fmt.Errorf("deleting ConfigMap %s/%s: %w", gone.Namespace, gone.Name, err))
		}
	}

	return errors.Join(errs...)
}

// selectUnneededContent returns the content to delete: content of deleted catalogs, and content
// older than unreferencedContentTTL to which no InstallPlan refers.
func selectUnneededContent(contents []metav1.PartialObjectMetadata, catalogs []v1alpha1.CatalogSource, plans []v1alpha1.InstallPlan, now time.Time) []metav1.PartialObjectMetadata {
	catalogUIDs, referred := sets.Set[string]{}, sets.Set[string]{}
	for i := range catalogs {
		catalogUIDs.Insert(string(catalogs[i].UID))
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
		isOld := now.Sub(content.CreationTimestamp.Time) > unreferencedContentTTL
		if !catalogUIDs.Has(content.Labels[LabelCatalogUID]) || isOld && !referred.Has(content.Namespace+"/"+content.Name) {
			all = append(all, content)
		}
	}

	return all
}
