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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/apply"
	"github.com/mainstay-dev/mainstay/internal/extension/account"
	"github.com/mainstay-dev/mainstay/internal/render"
)

// FieldManager is the name under which caBundle is applied.
const FieldManager = apply.ServingFieldManager

const (
	// lookAgain is the longest time between two looks at a certificate.
	lookAgain = 12 * time.Hour
	// foreignInterval is how often a Secret that is in the way is reported.
	foreignInterval = time.Minute

	reasonForeign = "ServingCertificateBlocked"
	reasonRefused = "ServingCertificateRefused"
	// reasonForbidden is that the account of the extension lacks a right.
	reasonForbidden = "ServingCertificateForbidden"
)

// issuer reconciles the Secrets that Services ask for.
type issuer struct {
	// reader reads from the API server.
	reader client.Reader
	// metadata reads the metadata of extensions' objects from a cache.
	metadata client.Reader
	// accounts write Secrets and caBundle.
	accounts *account.Clients
	secrets  *secretWatches
	events   events.EventRecorder
	clock    clock.PassiveClock
	// namespace holds the Secrets with the objects of large revisions.
	namespace string
}

// Reconcile brings one Secret, and the webhooks that trust it, to what they should be.
func (i *issuer) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	service, as, err := i.serviceOf(ctx, req)
	if err != nil {
		return ctrl.Result{}, err
	}
	if service == nil {
		i.secrets.release(req)
		return ctrl.Result{}, nil // the Secret goes with its Service
	}

	result, err := i.issue(ctx, req, service, as)
	if apierrors.IsForbidden(err) {
		const note = "The certificate of Service %s in Secret %s is not issued or renewed, as %s lacks a right: %v"
		i.events.Eventf(service, nil, corev1.EventTypeWarning, reasonForbidden, "Issue", note, service.Name, req.Name, as, err)
	}

	return result, err
}

// issue brings the Secret that a Service asks for, and the webhooks that trust it, to what they should be, with the
// rights of an account.
func (i *issuer) issue(ctx context.Context, req ctrl.Request, service *metav1.PartialObjectMetadata, as account.Account) (ctrl.Result, error) {
	writer, err := i.writer(ctx, as)
	if err != nil {
		return ctrl.Result{}, err
	}

	i.secrets.ensure(req, as, writer.Metadata) //nolint:contextcheck // a watch outlives the pass that begins it

	consumers, err := i.consumersOf(ctx, req, service)
	if err != nil {
		return ctrl.Result{}, err
	}

	live := &corev1.Secret{}
	err = writer.Get(ctx, req.NamespacedName, live)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("reading the Secret of a serving certificate: %w", err)
	}
	if err == nil && live.Annotations[annotationService] != service.Name {
		i.refuse(ctx, service, req)
		return ctrl.Result{RequeueAfter: foreignInterval}, nil
	}

	secret, again, err := i.renew(ctx, writer, req, service, live, consumers)
	if err != nil {
		return ctrl.Result{}, err
	}

	complete, err := injectAll(ctx, writer, consumers, secret.Data[keyAuthorities])
	if err != nil {
		return ctrl.Result{}, err
	}
	if !complete {
		again = firstPause
	}

	return ctrl.Result{RequeueAfter: again}, nil
}

// writer returns the client of an account, which must exist.
func (i *issuer) writer(ctx context.Context, as account.Account) (*account.Client, error) {
	if !as.IsOwn() {
		if err := apply.CheckAccount(ctx, i.reader, types.NamespacedName(as)); err != nil {
			return nil, fmt.Errorf("issuing a serving certificate: %w", err)
		}
	}
	return i.accounts.For(as)
}

// refuse reports a Secret of the name that somebody else made.
func (i *issuer) refuse(ctx context.Context, service *metav1.PartialObjectMetadata, req ctrl.Request) {
	const note = "Secret %s has the name of the serving certificate of Service %s, but was not issued for it: webhooks cannot be trusted until it is deleted"
	i.events.Eventf(service, nil, corev1.EventTypeWarning, reasonForeign, "Issue", note, req.Name, service.Name)
	ctrl.LoggerFrom(ctx).Info("A Secret that was not issued here is in the way of a serving certificate; delete it",
		"secret", req.String(), "service", service.Name)
}

// serviceOf returns the Service that asks for the Secret, and the account of the revision that brought it; nil when
// there is none.
func (i *issuer) serviceOf(ctx context.Context, req ctrl.Request) (*metav1.PartialObjectMetadata, account.Account, error) {
	found, err := i.list(ctx, serviceKind, client.InNamespace(req.Namespace))
	if err != nil {
		return nil, account.Account{}, err
	}

	for _, service := range found {
		if !slices.Contains(secretOfService(&service), req) || service.DeletionTimestamp != nil {
			continue
		}

		set, err := i.revisionOf(ctx, &service)
		if err != nil {
			return nil, account.Account{}, err
		}

		service.SetGroupVersionKind(serviceKind)
		if set == nil {
			const note = "No certificate is issued for Service %s to Secret %s: no ClusterObjectSet that controls the Service holds it with annotation %s"
			i.events.Eventf(&service, nil, corev1.EventTypeWarning, reasonRefused, "Issue", note, service.Name, req.Name, render.AnnotationServingCertificate)
			continue
		}

		return &service, account.Of(set), nil
	}

	return nil, account.Account{}, nil
}

// revisionOf returns the revision that controls a Service and holds it with the annotation that asks for a
// certificate; nil when there is none. Labels, annotations and owner references alone prove nothing: whoever may
// write Services may write them, and would have a Secret of any name written.
func (i *issuer) revisionOf(ctx context.Context, service *metav1.PartialObjectMetadata) (*olmv1.ClusterObjectSet, error) {
	owner := metav1.GetControllerOfNoCopy(service)
	if owner == nil || owner.Kind != olmv1.ClusterObjectSetKind || owner.APIVersion != olmv1.GroupVersion.String() {
		return nil, nil
	}

	set := &olmv1.ClusterObjectSet{}
	// A cache might not have it yet, and nothing would bring this Service up again.
	err := i.reader.Get(ctx, client.ObjectKey{Name: owner.Name}, set)
	if apierrors.IsNotFound(err) || err == nil && set.UID != owner.UID {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the revision that controls Service %s/%s: %w", service.Namespace, service.Name, err)
	}

	reader, err := i.accounts.For(account.Of(set))
	if err != nil {
		return nil, err
	}

	content, err := apply.Load(ctx, &account.ContentReader{Reader: reader, Own: i.reader, SystemNamespace: i.namespace}, set, i.namespace)
	if err != nil {
		return nil, fmt.Errorf("reading what revision %q holds: %w", set.Name, err)
	}
	if !holdsService(content, service) {
		return nil, nil
	}

	return set, nil
}

// holdsService reports whether a revision holds a Service that asks for the same certificate.
func holdsService(content *apply.Content, service *metav1.PartialObjectMetadata) bool {
	return slices.ContainsFunc(content.Phases, func(phase apply.Phase) bool {
		return slices.ContainsFunc(phase.Objects, func(object apply.Object) bool {
			m := object.Manifest
			return m.GroupVersionKind() == serviceKind && m.GetNamespace() == service.Namespace && m.GetName() == service.Name &&
				m.GetAnnotations()[render.AnnotationServingCertificate] == service.Annotations[render.AnnotationServingCertificate]
		})
	})
}

// consumersOf reads the objects of the Service's extension whose webhooks are to trust what the Secret says.
func (i *issuer) consumersOf(ctx context.Context, req ctrl.Request, service *metav1.PartialObjectMetadata) ([]*unstructured.Unstructured, error) {
	var consumers []*unstructured.Unstructured
	for _, kind := range consumerKinds {
		found, err := i.list(ctx, kind, client.MatchingLabels{olmv1.LabelOwnerName: service.Labels[olmv1.LabelOwnerName]})
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
func (i *issuer) renew(ctx context.Context, writer client.Client, req ctrl.Request, service *metav1.PartialObjectMetadata, live *corev1.Secret, consumers []*unstructured.Unstructured) (*corev1.Secret, time.Duration, error) {
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
		err = writer.Create(ctx, secret, client.FieldOwner(FieldManager))
	case !equality.Semantic.DeepEqual(live, secret):
		// The resource version keeps what others changed meanwhile from being lost.
		err = writer.Update(ctx, secret, client.FieldOwner(FieldManager))
	}

	if err != nil {
		return nil, 0, fmt.Errorf("writing the Secret of a serving certificate: %w", err)
	}
	if what != keep {
		ctrl.LoggerFrom(ctx).Info("The serving certificate of webhooks changed", "step", what.String(), "secret", req.String())
	}

	return secret, again, nil
}

// mark returns the Secret its name, what tells that it is ours, and its owner. The
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

// hostsOf returns the names by which a Service is reached. API servers use the first.
func hostsOf(service *metav1.PartialObjectMetadata) []string {
	host := service.Name + "." + service.Namespace
	return []string{host + ".svc", host, host + ".svc.cluster.local"}
}

// trustedBy reports whether every webhook has the bundle.
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
func injectAll(ctx context.Context, writer client.Client, consumers []*unstructured.Unstructured, bundle []byte) (complete bool, err error) {
	var failed []error
	complete = true
	for _, consumer := range consumers {
		if !lacks(consumer, bundle) {
			continue
		}
		err := writer.Apply(ctx, client.ApplyConfigurationFromUnstructured(injection(consumer, bundle)), client.FieldOwner(FieldManager), client.ForceOwnership)
		switch {
		case apierrors.IsConflict(err):
			complete = false
		case err != nil:
			failed = append(failed, fmt.Errorf("writing caBundle of %s %q: %w", consumer.GetKind(), consumer.GetName(), err))
		}
	}

	return complete, errors.Join(failed...)
}
