package serving

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/apply"
	"github.com/mainstay-dev/mainstay/internal/impersonation"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
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
	accounts *impersonation.Clients
	secrets  *secretWatches
	events   events.EventRecorder
	clock    clock.PassiveClock
	// systemNamespace is the namespace of the Secrets with the objects of large revisions.
	systemNamespace string
}

// newReconciler returns the reconciler of the Secrets, and of the caBundle of the webhooks that use
// them.
func (i *issuer) newReconciler() *reconcile.KeyReconciler[*facts, *decision] {
	return &reconcile.KeyReconciler[*facts, *decision]{
		Gather:      i.gatherFacts,
		Decide:      decideCertificate,
		Execute:     i.executeDecision,
		ResyncAfter: func(_ *facts, d *decision) time.Duration { return d.resyncAfter },
	}
}

// executeDecision carries a decision out, and reports what a user must know.
func (i *issuer) executeDecision(ctx context.Context, f *facts, d *decision) error {
	for _, service := range f.refused {
		i.warn(service, reasonRefused, "No certificate is issued for Service %s to Secret %s: no ClusterObjectSet that controls the Service holds it with annotation %s",
			service.Name, f.req.Name, render.AnnotationServingCertificate)
	}

	switch {
	case d.release:
		i.secrets.release(f.req)
		return nil
	case d.foreign:
		i.warn(f.service, reasonForeign, "Secret %s has the name of the serving certificate of Service %s, but was not issued for it: webhooks cannot be trusted until it is deleted",
			f.req.Name, f.service.Name)
		ctrl.LoggerFrom(ctx).Info("A Secret that was not issued here is in the way of a serving certificate; delete it",
			"secret", f.req.String(), "service", f.service.Name)
		return nil
	}

	err := d.stop
	if err == nil {
		err = issueCertificate(ctx, f, d)
	}
	if apierrors.IsForbidden(err) {
		i.warn(f.service, reasonForbidden, "The certificate of Service %s in Secret %s is not issued or renewed, as %s lacks a right: %v",
			f.service.Name, f.req.Name, f.account, err)
	}

	return err
}

// warn records an event about a Service.
func (i *issuer) warn(service *metav1.PartialObjectMetadata, reason, note string, args ...any) {
	reconcile.Record(i.events, service, reconcile.Event{Warning: true, Reason: reason, Action: "Issue", Note: fmt.Sprintf(note, args...)})
}

// issueCertificate performs the next step on the Secret, and sets the caBundle of the webhooks.
func issueCertificate(ctx context.Context, f *facts, d *decision) error {
	if err := performRenewalStep(d.step, d.secret, d.state, d.hosts, collectTrustedBundles(f.consumers), f.now); err != nil {
		return fmt.Errorf("issuing the certificate of Service %s/%s: %w", f.service.Namespace, f.service.Name, err)
	}
	if err := writeSecret(ctx, f, d); err != nil {
		return err
	}

	complete, err := injectCABundle(ctx, f.writer, f.consumers, d.secret.Data[keyAuthorities])
	if err != nil {
		return err
	}
	if !complete {
		d.resyncAfter = firstRetryInterval
	}

	return nil
}

// writeSecret creates the Secret, or updates it if it differs.
func writeSecret(ctx context.Context, f *facts, d *decision) error {
	var err error
	switch {
	case f.live.UID == "":
		err = f.writer.Create(ctx, d.secret, client.FieldOwner(FieldManager))
	case !equality.Semantic.DeepEqual(f.live, d.secret):
		// The resource version protects concurrent changes of other clients.
		err = f.writer.Update(ctx, d.secret, client.FieldOwner(FieldManager))
	}

	if err != nil {
		return fmt.Errorf("writing the Secret of a serving certificate: %w", err)
	}
	if d.step != stepKeep {
		ctrl.LoggerFrom(ctx).Info("The serving certificate of webhooks changed", "step", d.step.String(), "secret", f.req.String())
	}

	return nil
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
		case reconcile.IsStale(err):
			complete = false
		case err != nil:
			failed = append(failed, fmt.Errorf("writing caBundle of %s %q: %w", consumer.GetKind(), consumer.GetName(), err))
		}
	}

	return complete, errors.Join(failed...)
}
