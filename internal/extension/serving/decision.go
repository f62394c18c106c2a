package serving

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// decision is what must be done about a Secret.
type decision struct {
	// release reports whether nothing requests the Secret any more.
	release bool
	// foreign reports whether the Secret was not issued for the Service, and must not be written.
	foreign bool
	// stop is why the certificate cannot be issued.
	stop error
	// step is the next step of the renewal.
	step renewalStep
	// secret is the Secret before the step, with the wanted metadata.
	secret *corev1.Secret
	// state is what the Secret holds.
	state secretState
	// hosts are the host names of the certificate.
	hosts []string
	// resyncAfter is the time until the next pass. Zero means that only events cause one.
	resyncAfter time.Duration
}

// decideCertificate decides what must be done about a Secret and the webhooks that use it.
func decideCertificate(f *facts) *decision {
	switch {
	case f.service == nil:
		return &decision{release: true} // The Secret is deleted with its Service.
	case f.err != nil:
		return &decision{stop: f.err}
	case f.live.UID != "" && f.live.Annotations[annotationService] != f.service.Name:
		return &decision{foreign: true, resyncAfter: foreignSecretRetryInterval}
	}

	d := &decision{secret: f.live.DeepCopy(), hosts: serviceHostNames(f.service)}
	setSecretMetadata(d.secret, f.req, f.service)
	d.state = parseSecretState(d.secret, d.hosts, f.now)
	step, next := decideRenewalStep(d.state, isTrustedByAll(f.consumers, d.secret.Data[keyAuthorities]), f.now)
	d.step, d.resyncAfter = step, min(next.Sub(f.now), certificateResyncInterval)
	if step != stepKeep {
		d.resyncAfter = trustPropagationDelay
	}

	return d
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
