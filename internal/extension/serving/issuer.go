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

// FieldManager is the field manager of caBundle.
const FieldManager = apply.ServingFieldManager

const (
	// certificateResyncInterval is the longest time between two reconciliations of a certificate.
	certificateResyncInterval = 12 * time.Hour
	// foreignSecretRetryInterval is how often a Secret with another owner is reported.
	foreignSecretRetryInterval = time.Minute

	reasonForeign = "ServingCertificateBlocked"
	reasonRefused = "ServingCertificateRefused"
	// reasonForbidden is the reason if the service account of the extension lacks a right.
	reasonForbidden = "ServingCertificateForbidden"
)

// issuer reconciles the Secrets that Services request.
type issuer struct {
	// reader reads from the API server.
	reader client.Reader
	// metadata reads the metadata of extensions' objects from a cache.
	metadata client.Reader
	// accounts are the clients that write Secrets and caBundle.
	accounts *account.Clients
	secrets  *secretWatches
	events   events.EventRecorder
	clock    clock.PassiveClock
	// systemNamespace is the namespace of the Secrets with the objects of large revisions.
	systemNamespace string
}

// Reconcile reconciles one Secret, and the caBundle of the webhooks that use it.
func (i *issuer) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	service, as, err := i.findRequestingService(ctx, req)
	if err != nil {
		return ctrl.Result{}, err
	}
	if service == nil {
		i.secrets.release(req)
		return ctrl.Result{}, nil // the Secret is deleted with its Service
	}

	result, err := i.issueCertificate(ctx, req, service, as)
	if apierrors.IsForbidden(err) {
		const note = "The certificate of Service %s in Secret %s is not issued or renewed, as %s lacks a right: %v"
		i.events.Eventf(service, nil, corev1.EventTypeWarning, reasonForbidden, "Issue", note, service.Name, req.Name, as, err)
	}

	return result, err
}

// issueCertificate reconciles the Secret that a Service requests, and the caBundle of its
// webhooks, with the rights of an account.
func (i *issuer) issueCertificate(ctx context.Context, req ctrl.Request, service *metav1.PartialObjectMetadata, as account.Account) (ctrl.Result, error) {
	writer, err := i.clientForAccount(ctx, as)
	if err != nil {
		return ctrl.Result{}, err
	}

	i.secrets.ensureWatch(req, as, writer.Metadata) //nolint:contextcheck // the watch outlives this reconciliation

	consumers, err := i.listConsumers(ctx, req, service)
	if err != nil {
		return ctrl.Result{}, err
	}

	live := &corev1.Secret{}
	err = writer.Get(ctx, req.NamespacedName, live)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("reading the Secret of a serving certificate: %w", err)
	}
	if err == nil && live.Annotations[annotationService] != service.Name {
		i.reportForeignSecret(ctx, service, req)
		return ctrl.Result{RequeueAfter: foreignSecretRetryInterval}, nil
	}

	secret, resyncAfter, err := i.renewSecret(ctx, writer, req, service, live, consumers)
	if err != nil {
		return ctrl.Result{}, err
	}

	complete, err := injectCABundle(ctx, writer, consumers, secret.Data[keyAuthorities])
	if err != nil {
		return ctrl.Result{}, err
	}
	if !complete {
		resyncAfter = firstRetryInterval
	}

	return ctrl.Result{RequeueAfter: resyncAfter}, nil
}

// clientForAccount returns the client of an account. It returns an error if the account does not
// exist.
func (i *issuer) clientForAccount(ctx context.Context, as account.Account) (*account.Client, error) {
	if !as.IsOwn() {
		if err := apply.CheckAccount(ctx, i.reader, types.NamespacedName(as)); err != nil {
			return nil, fmt.Errorf("issuing a serving certificate: %w", err)
		}
	}
	return i.accounts.For(as)
}

// reportForeignSecret reports, as an event, that a Secret with the requested name was not issued
// here.
func (i *issuer) reportForeignSecret(ctx context.Context, service *metav1.PartialObjectMetadata, req ctrl.Request) {
	const note = "Secret %s has the name of the serving certificate of Service %s, but was not issued for it: webhooks cannot be trusted until it is deleted"
	i.events.Eventf(service, nil, corev1.EventTypeWarning, reasonForeign, "Issue", note, req.Name, service.Name)
	ctrl.LoggerFrom(ctx).Info("A Secret that was not issued here is in the way of a serving certificate; delete it",
		"secret", req.String(), "service", service.Name)
}

// findRequestingService returns the Service that requests the Secret, and the account of the
// revision that controls it. It returns nil if there is none.
func (i *issuer) findRequestingService(ctx context.Context, req ctrl.Request) (*metav1.PartialObjectMetadata, account.Account, error) {
	found, err := i.listMetadata(ctx, serviceKind, client.InNamespace(req.Namespace))
	if err != nil {
		return nil, account.Account{}, err
	}

	for _, service := range found {
		if !slices.Contains(mapServiceToSecret(&service), req) || service.DeletionTimestamp != nil {
			continue
		}

		set, err := i.findOwningRevision(ctx, &service)
		if err != nil {
			return nil, account.Account{}, err
		}

		service.SetGroupVersionKind(serviceKind)
		if set == nil {
			const note = "No certificate is issued for Service %s to Secret %s: no ClusterObjectSet that controls the Service holds it with annotation %s"
			i.events.Eventf(&service, nil, corev1.EventTypeWarning, reasonRefused, "Issue", note, service.Name, req.Name, render.AnnotationServingCertificate)
			continue
		}

		return &service, account.ForRevision(set), nil
	}

	return nil, account.Account{}, nil
}

// findOwningRevision returns the revision that controls a Service and contains it with the annotation
// that requests the certificate. It returns nil if there is none. Labels, annotations and owner
// references alone prove nothing: everyone who may write Services may set them, and could have a
// Secret of any name written.
func (i *issuer) findOwningRevision(ctx context.Context, service *metav1.PartialObjectMetadata) (*olmv1.ClusterObjectSet, error) {
	owner := metav1.GetControllerOfNoCopy(service)
	if owner == nil || owner.Kind != olmv1.ClusterObjectSetKind || owner.APIVersion != olmv1.GroupVersion.String() {
		return nil, nil
	}

	set := &olmv1.ClusterObjectSet{}
	// A cache might not have it yet, and nothing would enqueue this Service again.
	err := i.reader.Get(ctx, client.ObjectKey{Name: owner.Name}, set)
	if apierrors.IsNotFound(err) || err == nil && set.UID != owner.UID {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the revision that controls Service %s/%s: %w", service.Namespace, service.Name, err)
	}

	reader, err := i.accounts.For(account.ForRevision(set))
	if err != nil {
		return nil, err
	}

	content, err := apply.Load(ctx, &account.ContentReader{Reader: reader, Own: i.reader, SystemNamespace: i.systemNamespace}, set, i.systemNamespace)
	if err != nil {
		return nil, fmt.Errorf("reading the objects of revision %q: %w", set.Name, err)
	}
	if !holdsService(content, service) {
		return nil, nil
	}

	return set, nil
}

// holdsService reports whether a revision contains the Service with the same requested
// certificate.
func holdsService(content *apply.Content, service *metav1.PartialObjectMetadata) bool {
	return slices.ContainsFunc(content.Phases, func(phase apply.Phase) bool {
		return slices.ContainsFunc(phase.Objects, func(object apply.Object) bool {
			m := object.Manifest
			return m.GroupVersionKind() == serviceKind && m.GetNamespace() == service.Namespace && m.GetName() == service.Name &&
				m.GetAnnotations()[render.AnnotationServingCertificate] == service.Annotations[render.AnnotationServingCertificate]
		})
	})
}

// listConsumers reads the objects of the Service's extension whose webhooks need the authorities
// of the Secret.
func (i *issuer) listConsumers(ctx context.Context, req ctrl.Request, service *metav1.PartialObjectMetadata) ([]*unstructured.Unstructured, error) {
	var consumers []*unstructured.Unstructured
	for _, kind := range consumerKinds {
		found, err := i.listMetadata(ctx, kind, client.MatchingLabels{olmv1.LabelOwnerName: service.Labels[olmv1.LabelOwnerName]})
		if err != nil {
			return nil, err
		}
		for _, metadata := range found {
			if !slices.Contains(mapConsumerToSecret(&metadata), req) {
				continue
			}

			consumer := &unstructured.Unstructured{}
			consumer.SetGroupVersionKind(kind)
			err := i.reader.Get(ctx, client.ObjectKeyFromObject(&metadata), consumer)
			switch {
			case apierrors.IsNotFound(err):
			case err != nil:
				return nil, fmt.Errorf("reading the webhooks of %s %q: %w", kind.Kind, metadata.Name, err)
			// It may no longer request a caBundle, which the cache has not observed yet.
			case slices.Contains(mapConsumerToSecret(consumer), req) && len(trustedBundles(consumer)) > 0:
				consumers = append(consumers, consumer)
			}
		}
	}

	return consumers, nil
}

func (i *issuer) listMetadata(ctx context.Context, kind schema.GroupVersionKind, options ...client.ListOption) ([]metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := i.metadata.List(ctx, list, options...); err != nil {
		return nil, fmt.Errorf("listing %s objects: %w", kind.Kind, err)
	}
	return list.Items, nil
}

// renewSecret creates the Secret, or performs the next step of a renewal that is due. It returns
// the resulting Secret and the time until the next reconciliation.
func (i *issuer) renewSecret(ctx context.Context, writer client.Client, req ctrl.Request, service *metav1.PartialObjectMetadata, live *corev1.Secret, consumers []*unstructured.Unstructured) (*corev1.Secret, time.Duration, error) {
	now, hosts := i.clock.Now(), serviceHostNames(service)
	secret := live.DeepCopy()
	setSecretMetadata(secret, req, service)
	s := parseSecretState(secret, hosts, now)
	step, next := decideRenewalStep(s, isTrustedByAll(consumers, secret.Data[keyAuthorities]), now)
	if err := performRenewalStep(step, secret, s, hosts, collectTrustedBundles(consumers), now); err != nil {
		return nil, 0, fmt.Errorf("issuing the certificate of Service %s/%s: %w", service.Namespace, service.Name, err)
	}

	resyncAfter := min(next.Sub(now), certificateResyncInterval)
	if step != stepKeep {
		resyncAfter = trustPropagationDelay
	}

	var err error
	switch {
	case live.UID == "":
		err = writer.Create(ctx, secret, client.FieldOwner(FieldManager))
	case !equality.Semantic.DeepEqual(live, secret):
		// The resource version protects concurrent changes of other clients.
		err = writer.Update(ctx, secret, client.FieldOwner(FieldManager))
	}

	if err != nil {
		return nil, 0, fmt.Errorf("writing the Secret of a serving certificate: %w", err)
	}
	if step != stepKeep {
		ctrl.LoggerFrom(ctx).Info("The serving certificate of webhooks changed", "step", step.String(), "secret", req.String())
	}

	return secret, resyncAfter, nil
}

// setSecretMetadata sets the name, the type, the identifying annotation, the labels and the owner
// reference of the Secret. The Service may have been recreated since the Secret was issued.
func setSecretMetadata(secret *corev1.Secret, req ctrl.Request, service *metav1.PartialObjectMetadata) {
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

// serviceHostNames returns the host names of a Service. API servers use the first.
func serviceHostNames(service *metav1.PartialObjectMetadata) []string {
	host := service.Name + "." + service.Namespace
	return []string{host + ".svc", host, host + ".svc.cluster.local"}
}

// isTrustedByAll reports whether every webhook has the bundle.
func isTrustedByAll(consumers []*unstructured.Unstructured, bundle []byte) bool {
	return !slices.ContainsFunc(consumers, func(c *unstructured.Unstructured) bool { return lacksCABundle(c, bundle) })
}

// lacksCABundle reports whether a webhook of the object has another bundle.
func lacksCABundle(consumer *unstructured.Unstructured, bundle []byte) bool {
	return slices.ContainsFunc(trustedBundles(consumer), func(has []byte) bool { return !equalCABundles(has, bundle) })
}

// collectTrustedBundles returns the bundles of all webhooks, in PEM.
func collectTrustedBundles(consumers []*unstructured.Unstructured) []byte {
	var former []byte
	for _, consumer := range consumers {
		for _, bundle := range trustedBundles(consumer) {
			former = append(append(former, bundle...), '\n')
		}
	}
	return former
}

// injectCABundle sets the bundle on every webhook. It continues after a failure. It returns complete
// false if an object was changed or deleted since it was read.
func injectCABundle(ctx context.Context, writer client.Client, consumers []*unstructured.Unstructured, bundle []byte) (complete bool, err error) {
	var failed []error
	complete = true
	for _, consumer := range consumers {
		if !lacksCABundle(consumer, bundle) {
			continue
		}
		err := writer.Apply(ctx, client.ApplyConfigurationFromUnstructured(newCABundleConfiguration(consumer, bundle)), client.FieldOwner(FieldManager), client.ForceOwnership)
		switch {
		case apierrors.IsConflict(err):
			complete = false
		case err != nil:
			failed = append(failed, fmt.Errorf("writing caBundle of %s %q: %w", consumer.GetKind(), consumer.GetName(), err))
		}
	}

	return complete, errors.Join(failed...)
}
