package migration

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/action/migration/plan"
	"github.com/mainstay-dev/mainstay/internal/apply"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/render"
)

// canKeepCertificates reports whether an extension can keep the serving certificates of a CSV. The
// Secrets must have the names that OLM v1 would mount, and certificates of their authority.
func (g *gatherer) canKeepCertificates(ctx context.Context, csv *v1alpha1.ClusterServiceVersion) (bool, error) {
	if len(csv.Spec.WebhookDefinitions) == 0 {
		return false, nil
	}

	for _, webhook := range csv.Spec.WebhookDefinitions {
		name := csvinfo.SecretName(webhook.DeploymentName)
		if name != render.IssuerClassic.CertificateName(webhook.DeploymentName) {
			return false, nil
		}
		secret := &corev1.Secret{}
		ok, err := getOptional(ctx, g.client, client.ObjectKey{Namespace: csv.Namespace, Name: name}, secret)
		if err != nil || !ok {
			return false, err
		}
		if verifyCertificate(secret.Data[csvinfo.KeyServingCA], secret.Data[corev1.TLSCertKey]) != "" {
			return false, nil
		}
	}

	return true, nil
}

// listServingSecrets returns the names of the serving Secrets that the extension keeps, with those of
// their Services.
func (s *snapshot) listServingSecrets() map[string]string {
	services := map[string]string{}
	if s.keepsCertificates() {
		for _, webhook := range s.CSV.Spec.WebhookDefinitions {
			services[csvinfo.SecretName(webhook.DeploymentName)] = csvinfo.ServiceName(webhook.DeploymentName)
		}
	}
	return services
}

// servingSecretOf returns the name of the serving Secret of a Service.
func (s *snapshot) servingSecretOf(service string) string {
	for secret, of := range s.listServingSecrets() {
		if of == service {
			return secret
		}
	}
	return ""
}

// offerCertificates prepares the serving Secrets of OLM Classic for the issuer of OLM v1. It continues
// to use their certificates until they are due for renewal.
func (m *adoption) offerCertificates(ctx context.Context, s *snapshot) error {
	services := s.listServingSecrets()
	for _, name := range slices.Sorted(maps.Keys(services)) {
		secret, err := m.readServingSecret(ctx, s, name)
		if err != nil {
			return err
		}
		if secret.Annotations[render.AnnotationServingCertificateOf] == services[name] {
			continue
		}

		before := secret.DeepCopy()
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, render.AnnotationServingCertificateOf, services[name])
		secret.Data[render.KeyServingAuthorities] = secret.Data[csvinfo.KeyServingCA]
		if err := m.patchSecret(ctx, secret, before); err != nil {
			return err
		}
		m.reportDone("serving certificate in secret %s/%s kept", secret.Namespace, secret.Name)
	}
	return nil
}

func (o *Operation) readServingSecret(ctx context.Context, s *snapshot, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: s.CSV.Namespace, Name: name}
	if err := o.Client.Get(ctx, key, secret); err != nil {
		return nil, fmt.Errorf("reading the serving certificate in secret %s: %w", key, err)
	}
	return secret, nil
}

func (o *Operation) patchSecret(ctx context.Context, secret, before *corev1.Secret) error {
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := o.Client.Patch(ctx, secret, patch, client.FieldOwner(apply.ServingFieldManager)); err != nil {
		return fmt.Errorf("patching secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	return nil
}

// isWebhookConfiguration reports whether an object configures admission webhooks.
func isWebhookConfiguration(u *unstructured.Unstructured) bool {
	return slices.Equal(clientConfigPaths[u.GetKind()], []string{"webhooks"})
}

// offerWebhooks creates the webhook configurations of the extension with the authorities of the
// serving certificates. If a revision created them, the API server would refuse requests until the
// issuer has added the authorities.
func (m *adoption) offerWebhooks(ctx context.Context, s *snapshot) error {
	for i := range s.Webhooks {
		u := &s.Webhooks[i]
		live := newWebhookMetadata(u)
		_, err := getOptional(ctx, m.Client, client.ObjectKeyFromObject(u), live)
		if err != nil {
			return err
		}
		if metav1.GetControllerOf(live) != nil {
			continue // A revision has taken it over.
		}
		if live.UID != "" && live.Labels[olmv1.LabelOwnerName] != s.Extension.Name {
			return fmt.Errorf("%s %s was created by another client since the migration began", u.GetKind(), u.GetName())
		}
		if err := m.offerWebhook(ctx, s, u, live); err != nil {
			return fmt.Errorf("creating %s %s: %w", u.GetKind(), u.GetName(), err)
		}
	}
	return nil
}

// offerWebhook applies one webhook configuration with the labels of the extension's objects, unless
// that is done. In the end the issuer owns the authorities, and the field manager of revisions
// everything else.
func (m *adoption) offerWebhook(ctx context.Context, s *snapshot, rendered *unstructured.Unstructured, live metav1.Object) error {
	wanted := rendered.DeepCopy()
	wanted.SetLabels(plan.OwnerLabels(s.Extension.Name))
	trusting := wanted.DeepCopy()
	authorities, err := m.addAuthorities(ctx, s, trusting)
	if err != nil {
		return err
	}

	isCreated, isOffered := live.GetUID() != "", hasApplied(live)
	for _, request := range []struct {
		done    bool
		content *unstructured.Unstructured
		manager client.FieldOwner
	}{
		{isCreated, trusting, apply.ServingFieldManager},
		{isOffered, wanted, apply.FieldManager},
		{isOffered && !managesLabels(live, apply.ServingFieldManager), authorities, apply.ServingFieldManager},
	} {
		if request.done {
			continue
		}
		err := m.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(request.content), request.manager, client.ForceOwnership)
		if err != nil {
			return err
		}
	}
	if !isCreated {
		m.reportDone("%s %s created", rendered.GetKind(), rendered.GetName())
	}
	return nil
}

// managesLabels reports whether a field manager has applied labels of an object.
func managesLabels(live metav1.Object, manager string) bool {
	return slices.ContainsFunc(live.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationApply &&
			entry.FieldsV1 != nil && strings.Contains(entry.FieldsV1.GetRawString(), `"f:labels"`)
	})
}

// addAuthorities adds the authorities of the serving certificates to the webhooks of a configuration.
// It returns a configuration with only these fields.
func (m *adoption) addAuthorities(ctx context.Context, s *snapshot, u *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	only := &unstructured.Unstructured{}
	only.SetGroupVersionKind(u.GroupVersionKind())
	only.SetName(u.GetName())
	var fields []any
	webhooks, _, _ := unstructured.NestedSlice(u.Object, "webhooks")
	for _, item := range webhooks {
		webhook, _ := item.(map[string]any)
		service, _, _ := unstructured.NestedString(webhook, "clientConfig", "service", "name")
		secret, err := m.readServingSecret(ctx, s, s.servingSecretOf(service))
		if err != nil {
			return nil, err
		}

		authorities := base64.StdEncoding.EncodeToString(secret.Data[render.KeyServingAuthorities])
		if err := unstructured.SetNestedField(webhook, authorities, "clientConfig", "caBundle"); err != nil {
			return nil, err
		}
		fields = append(fields, map[string]any{"name": webhook["name"], "clientConfig": map[string]any{"caBundle": authorities}})
	}

	u.Object["webhooks"], only.Object["webhooks"] = webhooks, fields
	return only, nil
}

func newWebhookMetadata(u *unstructured.Unstructured) *metav1.PartialObjectMetadata {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(u.GroupVersionKind())
	return live
}

// releaseCertificates removes the marks of OLM v1 from the serving Secrets, after the extension is
// gone. It deletes webhook configurations that no revision has taken over.
func (o *restoration) releaseCertificates(ctx context.Context, s *snapshot) error {
	services := s.listServingSecrets()
	for _, name := range slices.Sorted(maps.Keys(services)) {
		secret, err := o.readServingSecret(ctx, s, name)
		if err != nil {
			return err
		}
		before := secret.DeepCopy()
		if removeIssuerMarks(secret, services[name]) {
			if err := o.patchSecret(ctx, secret, before); err != nil {
				return err
			}
		}
	}

	for i := range s.Webhooks {
		u := &s.Webhooks[i]
		live := newWebhookMetadata(u)
		ok, err := getOptional(ctx, o.Client, client.ObjectKeyFromObject(u), live)
		if err != nil {
			return err
		}
		if !ok || live.Labels[olmv1.LabelOwnerName] != s.Extension.Name || metav1.GetControllerOf(live) != nil {
			continue
		}
		if err := o.Client.Delete(ctx, live, client.Preconditions{UID: &live.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting %s %s: %w", u.GetKind(), u.GetName(), err)
		}
	}
	return nil
}

// removeIssuerMarks removes from a serving Secret what the issuer of OLM v1 has added for a Service.
// It reports whether there was anything.
func removeIssuerMarks(secret *corev1.Secret, service string) bool {
	if secret.Annotations[render.AnnotationServingCertificateOf] != service {
		return false
	}
	delete(secret.Annotations, render.AnnotationServingCertificateOf)
	delete(secret.Labels, olmv1.LabelOwnerName)
	delete(secret.Labels, olmv1.LabelOwnerKind)
	delete(secret.Data, render.KeyServingAuthorities)
	secret.OwnerReferences = slices.DeleteFunc(secret.OwnerReferences, func(r metav1.OwnerReference) bool {
		return r.Kind == "Service" && r.Name == service
	})
	return true
}
