package serving

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/apply"
)

// FieldManager is the name under which caBundle is applied.
const FieldManager = apply.ServingFieldManager

const (
	// lookAgain is the longest time between two looks at a certificate.
	lookAgain = 12 * time.Hour
	// foreignPause is how long it takes to notice that a Secret that was in the way is
	// gone: no watch shows it.
	foreignPause = time.Minute

	reasonForeign = "ServingCertificateBlocked"
)

// issuer reconciles the Secrets that Services ask for.
type issuer struct {
	client client.Client
	// reader reads from the API server.
	reader client.Reader
	// metadata reads the metadata of extensions' objects from a cache.
	metadata client.Reader
	events   events.EventRecorder
	clock    clock.PassiveClock
}

// Reconcile brings one Secret, and the webhooks that trust it, to what they should be.
func (i *issuer) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	service, err := i.serviceOf(ctx, req)
	if err != nil || service == nil {
		return ctrl.Result{}, err // the Secret goes with its Service
	}
	consumers, err := i.consumersOf(ctx, req)
	if err != nil {
		return ctrl.Result{}, err
	}
	live := &corev1.Secret{}
	err = i.reader.Get(ctx, req.NamespacedName, live)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("reading the Secret of a serving certificate: %w", err)
	}
	if err == nil && live.Annotations[annotationService] != service.Name {
		i.refuse(ctx, service, req)
		return ctrl.Result{RequeueAfter: foreignPause}, nil
	}
	secret, again, err := i.renew(ctx, req, service, live, consumers)
	if err != nil {
		return ctrl.Result{}, err
	}
	complete, err := i.injectAll(ctx, consumers, secret.Data[keyAuthorities])
	if err != nil {
		return ctrl.Result{}, err
	}
	if !complete {
		again = firstPause
	}
	return ctrl.Result{RequeueAfter: again}, nil
}

// refuse reports a Secret of the name that somebody else made.
func (i *issuer) refuse(ctx context.Context, service *metav1.PartialObjectMetadata, req ctrl.Request) {
	const note = "Secret %s has the name of the serving certificate of Service %s, but was not issued for it: webhooks cannot be trusted until it is deleted"
	i.events.Eventf(service, nil, corev1.EventTypeWarning, reasonForeign, "Issue", note, req.Name, service.Name)
	ctrl.LoggerFrom(ctx).Info("A Secret that was not issued here is in the way of a serving certificate; delete it",
		"secret", req.String(), "service", service.Name)
}

// serviceOf gives the Service that asks for the Secret, or nil.
func (i *issuer) serviceOf(ctx context.Context, req ctrl.Request) (*metav1.PartialObjectMetadata, error) {
	found, err := i.list(ctx, serviceKind, client.InNamespace(req.Namespace))
	if err != nil {
		return nil, err
	}
	for _, service := range found {
		if slices.Contains(secretOfService(&service), req) && service.DeletionTimestamp == nil {
			service.SetGroupVersionKind(serviceKind)
			return &service, nil
		}
	}
	return nil, nil
}

// consumersOf reads the objects whose webhooks are to trust what the Secret says.
func (i *issuer) consumersOf(ctx context.Context, req ctrl.Request) ([]*unstructured.Unstructured, error) {
	var consumers []*unstructured.Unstructured
	for _, kind := range consumerKinds {
		found, err := i.list(ctx, kind)
		if err != nil {
			return nil, err
		}
		for _, metadata := range found {
			if !slices.Contains(secretOfConsumer(&metadata), req) {
				continue
			}
			consumer := &unstructured.Unstructured{}
			consumer.SetGroupVersionKind(kind)
			err := i.reader.Get(ctx, client.ObjectKeyFromObject(&metadata), consumer)
			switch {
			case apierrors.IsNotFound(err):
			case err != nil:
				return nil, fmt.Errorf("reading the webhooks of %s %q: %w", kind.Kind, metadata.Name, err)
			// It may ask for no trust any more, which the cache does not know yet.
			case slices.Contains(secretOfConsumer(consumer), req) && len(bundlesOf(consumer)) > 0:
				consumers = append(consumers, consumer)
			}
		}
	}
	return consumers, nil
}

func (i *issuer) list(ctx context.Context, kind schema.GroupVersionKind, options ...client.ListOption) ([]metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := i.metadata.List(ctx, list, options...); err != nil {
		return nil, fmt.Errorf("listing %s objects: %w", kind.Kind, err)
	}
	return list.Items, nil
}

// renew makes or changes the Secret where that is due. It gives it as it is then, and
// after how long to look again.
func (i *issuer) renew(ctx context.Context, req ctrl.Request, service *metav1.PartialObjectMetadata, live *corev1.Secret, consumers []*unstructured.Unstructured) (*corev1.Secret, time.Duration, error) {
	now, hosts := i.clock.Now(), hostsOf(service)
	secret := live.DeepCopy()
	mark(secret, req, service)
	s := parse(secret, hosts, now)
	what, next := decide(s, trustedBy(consumers, secret.Data[keyAuthorities]), now)
	if err := perform(what, secret, s, hosts, formerTrust(consumers), now); err != nil {
		return nil, 0, fmt.Errorf("issuing the certificate of Service %s/%s: %w", service.Namespace, service.Name, err)
	}
	again := min(next.Sub(now), lookAgain)
	if what != keep {
		again = settling
	}
	var err error
	switch {
	case live.UID == "":
		err = i.client.Create(ctx, secret, client.FieldOwner(FieldManager))
	case !equality.Semantic.DeepEqual(live, secret):
		// The resource version keeps what others changed meanwhile from being lost.
		err = i.client.Update(ctx, secret, client.FieldOwner(FieldManager))
	}
	if err != nil {
		return nil, 0, fmt.Errorf("writing the Secret of a serving certificate: %w", err)
	}
	if what != keep {
		ctrl.LoggerFrom(ctx).Info("The serving certificate of webhooks changed", "step", what.String(), "secret", req.String())
	}
	return secret, again, nil
}

// mark gives the Secret its name, what tells that it is ours, and its owner. The
// Service may have been made anew since.
func mark(secret *corev1.Secret, req ctrl.Request, service *metav1.PartialObjectMetadata) {
	secret.Namespace, secret.Name = req.Namespace, req.Name
	if secret.Type == "" {
		secret.Type = corev1.SecretTypeTLS
	}
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, annotationService, service.Name)
	for _, label := range []string{olmv1.LabelOwnerKind, olmv1.LabelOwnerName} {
		metav1.SetMetaDataLabel(&secret.ObjectMeta, label, service.Labels[label])
	}
	owner := metav1.OwnerReference{APIVersion: serviceKind.GroupVersion().String(), Kind: serviceKind.Kind, Name: service.Name, UID: service.UID}
	secret.OwnerReferences = slices.DeleteFunc(secret.OwnerReferences, func(r metav1.OwnerReference) bool {
		return r.Kind == owner.Kind && r.APIVersion == owner.APIVersion && r.UID != owner.UID
	})
	if !slices.ContainsFunc(secret.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == owner.UID }) {
		secret.OwnerReferences = append(secret.OwnerReferences, owner)
	}
}

// hostsOf gives the names by which a Service is reached. API servers use the first.
func hostsOf(service *metav1.PartialObjectMetadata) []string {
	host := service.Name + "." + service.Namespace
	return []string{host + ".svc", host, host + ".svc.cluster.local"}
}

// trustedBy tells whether every webhook has the bundle.
func trustedBy(consumers []*unstructured.Unstructured, bundle []byte) bool {
	return !slices.ContainsFunc(consumers, func(c *unstructured.Unstructured) bool { return lacks(c, bundle) })
}

func lacks(consumer *unstructured.Unstructured, bundle []byte) bool {
	return slices.ContainsFunc(bundlesOf(consumer), func(has []byte) bool { return !sameBundle(has, bundle) })
}

// formerTrust is all that webhooks trust, in PEM.
func formerTrust(consumers []*unstructured.Unstructured) []byte {
	var former []byte
	for _, consumer := range consumers {
		for _, bundle := range bundlesOf(consumer) {
			former = append(append(former, bundle...), '\n')
		}
	}
	return former
}

// injectAll makes every webhook trust the bundle. One that fails does not keep the
// others from it. It is not complete when an object changed, or went, since it was read.
func (i *issuer) injectAll(ctx context.Context, consumers []*unstructured.Unstructured, bundle []byte) (complete bool, err error) {
	var failed []error
	complete = true
	for _, consumer := range consumers {
		if !lacks(consumer, bundle) {
			continue
		}
		err := i.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(injection(consumer, bundle)), client.FieldOwner(FieldManager), client.ForceOwnership)
		switch {
		case apierrors.IsConflict(err):
			complete = false
		case err != nil:
			failed = append(failed, fmt.Errorf("writing caBundle of %s %q: %w", consumer.GetKind(), consumer.GetName(), err))
		}
	}
	return complete, errors.Join(failed...)
}
