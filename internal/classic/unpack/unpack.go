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

// Unpacker gets bundles out of their images.
type Unpacker struct {
	// Catalogs reads CatalogSources. It may be a cache.
	Catalogs client.Reader
	// Trust says whose bundles Jobs unpack: those of catalogs in trusted namespaces. Bundles of all
	// other catalogs are unpacked inline.
	Trust Trust
	// Jobs and Inline are the ways in which bundles are unpacked.
	Jobs   *Jobs
	Inline *Inline
	// Now tells the time. Unset means that of the machine.
	Now func() time.Time
}

// method is a way to get bundles out of their images.
type method interface {
	// unpack does the next that can be done, and waits for nothing. It returns the ConfigMap with the
	// content. While there is none it returns nil, and the result says how far the bundle is.
	unpack(ctx context.Context, r *Result, bundle request) (*corev1.ConfigMap, error)
	// advice says what a person can do about a bundle that could not be unpacked.
	advice(lookup *v1alpha1.BundleLookup) string
}

// request is a bundle that is asked for.
type request struct {
	image   string
	catalog *v1alpha1.CatalogSource
	limits  Limits
	now     time.Time
}

// methodFor returns how bundles of the catalogs of a namespace are unpacked.
func (u *Unpacker) methodFor(namespace string) method {
	if u.Trust.Has(namespace) {
		return u.Jobs
	}
	return u.Inline
}

// Result is how far a bundle is.
type Result struct {
	// Lookup is the bundle, with what is known of it by now in its conditions.
	Lookup v1alpha1.BundleLookup
	// Steps are those of the bundle, once it is unpacked. In place of manifests they have references.
	Steps []*v1alpha1.Step
	// Done says that the bundle is unpacked.
	Done bool
	// Again is after how long to ask once more; 0 when the bundle is unpacked.
	Again time.Duration
}

// Unpack does the next that can be done to get a bundle out of its image, for a plan in a namespace. It
// waits for nothing. What fails while the bundle is unpacked shows in the conditions; an error of type
// [*steps.InvalidError] says that the content of the bundle is of no use.
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
		r.pending(v1alpha1.BundleLookupReasonCatalogSourceMissing, messageNoCatalog, now)
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("reading the CatalogSource of bundle %s: %w", lookup.Identifier, err)
	}

	bundle := request{image: lookup.Path, catalog: &catalog, limits: limits, now: now}
	configMap, err := u.methodFor(catalog.Namespace).unpack(ctx, &r, bundle)
	if err != nil || configMap == nil {
		return r, err
	}

	return r, r.finish(namespace, configMap)
}

// Failure returns what a Subscription, and an event, say of bundles that could not be unpacked. It is
// empty when none has failed.
func (u *Unpacker) Failure(lookups []v1alpha1.BundleLookup) string {
	for i := range lookups {
		l := &lookups[i]
		if c := Condition(l, v1alpha1.BundleLookupFailed); c != nil {
			return fmt.Sprintf("Bundle unpacking failed - %s: %s. %s", c.Reason, c.Message, u.methodFor(l.CatalogSourceRef.Namespace).advice(l))
		}
	}
	return ""
}

func (r *Result) pending(reason, message string, now time.Time) {
	unset(&r.Lookup, v1alpha1.BundleLookupFailed)
	set(&r.Lookup, v1alpha1.BundleLookupPending, reason, message, now)
	r.Again = AskAgain
}

func (r *Result) failed(reason, message string, again time.Duration, now time.Time) {
	unset(&r.Lookup, v1alpha1.BundleLookupPending)
	set(&r.Lookup, v1alpha1.BundleLookupFailed, reason, message, now)
	r.Again = again
}

// finish makes the steps of a bundle that is unpacked.
func (r *Result) finish(namespace string, configMap *corev1.ConfigMap) error {
	l := &r.Lookup
	ref := steps.Reference{
		Name: configMap.Name, Namespace: configMap.Namespace,
		CatalogSourceName: l.CatalogSourceRef.Name, CatalogSourceNamespace: l.CatalogSourceRef.Namespace,
		Replaces: l.Replaces, Properties: l.Properties,
	}
	made, digest, err := stepsOf(namespace, ref, configMap)
	if err != nil {
		return err
	}

	ref.Digest = digest
	if err := steps.Refer(made, ref); err != nil {
		return err
	}

	unset(l, v1alpha1.BundleLookupPending, v1alpha1.BundleLookupNotPersisted, v1alpha1.BundleLookupFailed)
	r.Steps, r.Done, r.Again = made, true, 0
	return nil
}
