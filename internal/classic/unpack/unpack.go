package unpack

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/steps"
)

// Unpacker unpacks bundle images.
type Unpacker struct {
	// Catalogs reads CatalogSources, possibly from a cache.
	Catalogs client.Reader
	// Trust names the namespaces whose catalogs Jobs may unpack.
	Trust Trust
	// Jobs unpacks bundles of catalogs in trusted namespaces. If it is nil, Inline does.
	Jobs *Jobs
	// Inline unpacks all other bundles.
	Inline *Inline
	// Now returns the time. If it is nil, time.Now is used.
	Now func() time.Time
}

// unpackMethod is a method of unpacking bundle images.
type unpackMethod interface {
	// unpackBundle takes the next possible step without waiting. It returns the ConfigMap with
	// the content, or nil if it is not complete; then it sets the progress in the result.
	unpackBundle(ctx context.Context, r *Result, bundle unpackRequest) (*corev1.ConfigMap, error)
	// failureAdvice returns what an administrator can do about a bundle that could not be
	// unpacked.
	failureAdvice(lookup *v1alpha1.BundleLookup) string
}

// unpackRequest is a request to unpack a bundle.
type unpackRequest struct {
	image   string
	catalog *v1alpha1.CatalogSource
	trusted bool // the namespace of the catalog
	limits  Limits
	now     time.Time
}

// selectMethod returns the method for catalogs of a namespace.
func (u *Unpacker) selectMethod(namespace string) unpackMethod {
	if u.Jobs != nil && u.Trust.Has(namespace) {
		return u.Jobs
	}
	return u.Inline
}

// Result is the progress of a bundle.
type Result struct {
	// Lookup is the bundle with its conditions.
	Lookup v1alpha1.BundleLookup
	// Steps are the steps of the bundle when it is unpacked. They contain references instead of
	// manifests.
	Steps []*v1alpha1.Step
	// Done reports whether the bundle is unpacked.
	Done bool
	// RequeueAfter is the requeue interval; 0 when the bundle is unpacked.
	RequeueAfter time.Duration
}

// Unpack takes the next possible step to unpack a bundle for a plan in a namespace, without
// waiting. Failures of unpacking are set as conditions. A [*steps.InvalidError] means that the
// content of the bundle is invalid.
func (u *Unpacker) Unpack(ctx context.Context, namespace string, lookup v1alpha1.BundleLookup, limits Limits) (Result, error) {
	r := Result{Lookup: *lookup.DeepCopy()}
	if lookup.CatalogSourceRef == nil {
		return r, fmt.Errorf("bundle %s names no CatalogSource", lookup.Identifier)
	}

	now := time.Now()
	if u.Now != nil {
		now = u.Now()
	}

	var catalog v1alpha1.CatalogSource
	err := u.Catalogs.Get(ctx, client.ObjectKey{Namespace: lookup.CatalogSourceRef.Namespace, Name: lookup.CatalogSourceRef.Name}, &catalog)
	if apierrors.IsNotFound(err) {
		r.setLookupPending(v1alpha1.BundleLookupReasonCatalogSourceMissing, messageNoCatalog, now)
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("reading the CatalogSource of bundle %s: %w", lookup.Identifier, err)
	}

	bundle := unpackRequest{image: lookup.Path, catalog: &catalog, trusted: u.Trust.Has(catalog.Namespace), limits: limits, now: now}
	configMap, err := u.selectMethod(catalog.Namespace).unpackBundle(ctx, &r, bundle)
	if err != nil || configMap == nil {
		return r, err
	}

	return r, r.setUnpackedSteps(namespace, configMap)
}

// Failure returns the message of Subscriptions and events about bundles that could not be
// unpacked. It is empty if none has failed.
func (u *Unpacker) Failure(lookups []v1alpha1.BundleLookup) string {
	for i := range lookups {
		l := &lookups[i]
		if c := Condition(l, v1alpha1.BundleLookupFailed); c != nil {
			return fmt.Sprintf("Bundle unpacking failed - %s: %s. %s", c.Reason, c.Message, u.selectMethod(l.CatalogSourceRef.Namespace).failureAdvice(l))
		}
	}
	return ""
}

func (r *Result) setLookupPending(reason, message string, now time.Time) {
	removeConditions(&r.Lookup, v1alpha1.BundleLookupFailed)
	setCondition(&r.Lookup, v1alpha1.BundleLookupPending, reason, message, now)
	r.RequeueAfter = PendingRequeueInterval
}

func (r *Result) setLookupFailed(reason, message string, again time.Duration, now time.Time) {
	removeConditions(&r.Lookup, v1alpha1.BundleLookupPending)
	setCondition(&r.Lookup, v1alpha1.BundleLookupFailed, reason, message, now)
	r.RequeueAfter = again
}

// setUnpackedSteps sets the steps of an unpacked bundle.
func (r *Result) setUnpackedSteps(namespace string, configMap *corev1.ConfigMap) error {
	l := &r.Lookup
	ref := steps.Reference{
		Name: configMap.Name, Namespace: configMap.Namespace,
		CatalogSourceName: l.CatalogSourceRef.Name, CatalogSourceNamespace: l.CatalogSourceRef.Namespace,
		Replaces: l.Replaces, Properties: l.Properties,
	}
	decoded, digest, err := decodeUnpackedSteps(namespace, ref, configMap)
	if err != nil {
		return err
	}

	ref.Digest = digest
	if err := steps.ReplaceManifests(decoded, ref); err != nil {
		return err
	}

	removeConditions(l, v1alpha1.BundleLookupPending, v1alpha1.BundleLookupNotPersisted, v1alpha1.BundleLookupFailed)
	r.Steps, r.Done, r.RequeueAfter = decoded, true, 0
	return nil
}
