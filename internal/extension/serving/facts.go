package serving

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/apply"
	"github.com/mainstay-dev/mainstay/internal/extension/account"
	"github.com/mainstay-dev/mainstay/internal/impersonation"
	"github.com/mainstay-dev/mainstay/internal/render"
)

// facts are what a pass over a Secret depends on.
type facts struct {
	req ctrl.Request
	now time.Time
	// refused are the Services that request the Secret and have no right to it.
	refused []*metav1.PartialObjectMetadata
	// service is the Service that requests the Secret. It is nil if there is none.
	service *metav1.PartialObjectMetadata
	// account is that of the revision that controls the Service.
	account impersonation.Account
	// err is why the facts below could not be read.
	err error

	// writer is the client of the account.
	writer *impersonation.Client
	// consumers are the objects whose webhooks need the authorities of the Secret.
	consumers []*unstructured.Unstructured
	// live is the Secret. It has no UID if it does not exist.
	live *corev1.Secret
}

// gatherFacts reads what a Secret depends on.
func (i *issuer) gatherFacts(ctx context.Context, key types.NamespacedName) (*facts, error) {
	f := &facts{req: ctrl.Request{NamespacedName: key}, now: i.clock.Now()}
	if err := i.findRequestingService(ctx, f); err != nil {
		return nil, err
	}
	if f.service != nil {
		f.err = i.readSecretFacts(ctx, f)
	}
	return f, nil
}

// readSecretFacts reads the Secret and the webhooks that use it, with the rights of the account.
func (i *issuer) readSecretFacts(ctx context.Context, f *facts) error {
	var err error
	if f.writer, err = i.accounts.For(ctx, f.account); err != nil {
		return fmt.Errorf("issuing a serving certificate: %w", err)
	}

	i.secrets.ensureWatch(f.req, f.account, f.writer.Metadata) //nolint:contextcheck // the watch outlives this reconciliation

	if f.consumers, err = i.listConsumers(ctx, f.req, f.service); err != nil {
		return err
	}

	f.live = &corev1.Secret{}
	if err := f.writer.Get(ctx, f.req.NamespacedName, f.live); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the Secret of a serving certificate: %w", err)
	}
	return nil
}

// findRequestingService sets the Service that requests the Secret, and the account of the revision
// that controls it. It sets none if there is none.
func (i *issuer) findRequestingService(ctx context.Context, f *facts) error {
	found, err := i.listMetadata(ctx, serviceKind, client.InNamespace(f.req.Namespace))
	if err != nil {
		return err
	}

	for _, service := range found {
		if !slices.Contains(mapServiceToSecret(&service), f.req) || service.DeletionTimestamp != nil {
			continue
		}

		set, err := i.findOwningRevision(ctx, &service)
		if err != nil {
			return err
		}

		service.SetGroupVersionKind(serviceKind)
		if set == nil {
			f.refused = append(f.refused, &service)
			continue
		}

		f.service, f.account = &service, account.ForRevision(set)
		return nil
	}

	return nil
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

	reader, err := i.accounts.For(ctx, account.ForRevision(set))
	switch {
	case errors.Is(err, impersonation.ErrMissingAccount):
		reader = i.accounts.Own() // Whether the revision contains the Service does not depend on the account.
	case err != nil:
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
