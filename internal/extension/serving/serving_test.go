package serving

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/apply"
	"github.com/mainstay-dev/mainstay/internal/certificate"
	"github.com/mainstay-dev/mainstay/internal/render"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestWebhooksAreServed(t *testing.T) {
	s := newFixture(t)
	s.install()
	secret, caBundle := s.waitUntilTrusted("a certificate is issued", anyCertificate)
	if err := s.checkWebhookAnswers(secret, caBundle); err != nil {
		t.Error(err)
	}
	if secret.Type != corev1.SecretTypeTLS {
		t.Errorf("got the type %s of the Secret", secret.Type)
	}

	service := &corev1.Service{}
	if err := s.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: serviceName}, service); err != nil {
		t.Fatal(err)
	}

	wantOwners := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: serviceName, UID: service.UID}}
	if diff := cmp.Diff(wantOwners, secret.OwnerReferences); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(s.owner.Labels, secret.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}

	// Applying the same objects again changes nothing. (The API server may put the managers
	// into another order, which results in a new resource version.)
	before := s.listConsumers()
	s.install()
	for i, consumer := range s.listConsumers() {
		if before[i].GetGeneration() != consumer.GetGeneration() {
			t.Errorf("applying %s %s again changes it", consumer.GetKind(), consumer.GetName())
		}
	}

	// The next revision takes over the fields of its objects, except caBundle.
	s.owner.Siblings = map[types.UID]int64{s.owner.Reference.UID: 1}
	s.owner.Reference, s.owner.Revision = s.createRevision(), 2
	s.install()
	for _, consumer := range s.listConsumers() {
		if owner := metav1.GetControllerOf(consumer); owner == nil || owner.UID != s.owner.Reference.UID {
			t.Errorf("%s %s was not taken over: %v", consumer.GetKind(), consumer.GetName(), owner)
		}
		for _, has := range trustedBundles(consumer) {
			if !bytes.Equal(has, caBundle) {
				t.Errorf("taking over %s %s changes its caBundle", consumer.GetKind(), consumer.GetName())
			}
		}
		for manager, want := range map[string]bool{apply.FieldManager: false, FieldManager: true} {
			fields := managedFieldsOf(consumer, manager)
			if len(fields) != 1 || strings.Contains(fields[0].FieldsV1.GetRawString(), "f:caBundle") != want {
				t.Errorf("%s: want that %s owns caBundle: %v; got %v", consumer.GetKind(), manager, want, fields)
			}
		}
	}
}

func TestDamageIsHealed(t *testing.T) {
	s := newFixture(t)
	s.install()
	first, _ := s.waitUntilTrusted("a certificate is issued", anyCertificate)

	for _, consumer := range s.listConsumers() {
		env.EditObject[client.Object](s.Fixture, consumer, func(object client.Object) { removeCABundles(object.(*unstructured.Unstructured)) })
	}

	same, _ := s.waitUntilTrusted("caBundle is back", anyCertificate)
	if diff := cmp.Diff(first.Data, same.Data); diff != "" {
		t.Error("the certificate changed with caBundle")
	}

	if err := s.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}

	second, caBundle := s.waitUntilTrusted("the Secret is back", func(secret *corev1.Secret) error {
		if secret.UID == first.UID {
			return errors.New("it is the old one")
		}
		return nil
	})

	for name, secret := range map[string]*corev1.Secret{"new": second, "old, which pods still have": first} {
		if err := s.checkWebhookAnswers(secret, caBundle); err != nil {
			t.Errorf("with the %s certificate: got error %v", name, err)
		}
	}

	for name, damage := range map[string]func(*corev1.Secret){
		"certificate": func(secret *corev1.Secret) { secret.Data[corev1.TLSCertKey] = []byte("damaged") },
		"key": func(secret *corev1.Secret) {
			secret.Data[corev1.TLSPrivateKeyKey] = first.Data[corev1.TLSPrivateKeyKey]
		},
		"authorities": func(secret *corev1.Secret) { secret.Data[keyAuthorities] = first.Data[keyAuthorities] },
		"labels":      func(secret *corev1.Secret) { secret.Labels = nil },
		"owner":       func(secret *corev1.Secret) { secret.OwnerReferences = nil },
	} {
		before, err := s.getSecret()
		if err != nil {
			t.Fatal(err)
		}

		env.EditObject[client.Object](s.Fixture, before, func(object client.Object) { damage(object.(*corev1.Secret)) })
		after, caBundle := s.waitUntilTrusted("the damaged "+name+" is healed", func(secret *corev1.Secret) error {
			if secret.ResourceVersion == before.ResourceVersion || len(secret.OwnerReferences) != 1 || secret.Labels[olmv1.LabelOwnerName] != "hooks" {
				return fmt.Errorf("the Secret is still damaged: %v", secret.ObjectMeta)
			}
			return s.checkWebhookAnswers(secret, secret.Data[keyAuthorities])
		})
		if err := s.checkWebhookAnswers(after, caBundle); err != nil {
			t.Errorf("after the damage to the %s: got error %v", name, err)
		}
	}
}

func removeCABundles(object *unstructured.Unstructured) {
	unstructured.RemoveNestedField(object.Object, "spec", "conversion", "webhook", "clientConfig", "caBundle")
	list, _, _ := unstructured.NestedSlice(object.Object, "webhooks")
	for _, webhook := range list {
		unstructured.RemoveNestedField(webhook.(map[string]any), "clientConfig", "caBundle")
	}

	if list != nil {
		object.Object["webhooks"] = list
	}
}

func TestRenewal(t *testing.T) {
	s := newFixture(t)
	s.install()
	serving, _ := s.waitUntilTrusted("a certificate is issued", anyCertificate)
	first := serving
	for range 2 {
		pair, err := certificate.Parse(serving.Data[corev1.TLSCertKey], serving.Data[corev1.TLSPrivateKeyKey])
		if err != nil {
			t.Fatal(err)
		}

		s.advanceClock(pair.RenewAt())
		waiting, caBundle := s.waitUntilTrusted("the next authority is trusted", func(secret *corev1.Secret) error {
			if len(secret.Data[keyNextCertificate]) == 0 {
				return errors.New("there is no next certificate")
			}
			return nil
		})

		authorities, err := certificate.ParseBundle(caBundle)
		if err != nil || len(authorities) != 2 {
			t.Errorf("got %d trusted authorities, want the old and the new (error %v)", len(authorities), err)
		}
		if !bytes.Equal(waiting.Data[corev1.TLSCertKey], serving.Data[corev1.TLSCertKey]) {
			t.Error("the certificate changed before trustPropagationDelay had passed")
		}
		if err := s.checkWebhookAnswers(waiting, caBundle); err != nil {
			t.Errorf("during the renewal: got error %v", err)
		}

		s.advanceClock(pair.RenewAt().Add(trustPropagationDelay))
		renewed, caBundle := s.waitUntilTrusted("the next certificate is used", func(secret *corev1.Secret) error {
			if len(secret.Data[keyNextCertificate])+len(secret.Data[keyNextKey])+len(secret.Annotations[annotationRenewing]) > 0 {
				return errors.New("the renewal has not ended")
			}
			return nil
		})
		if !bytes.Equal(renewed.Data[corev1.TLSCertKey], waiting.Data[keyNextCertificate]) {
			t.Error("another certificate than the prepared one is used")
		}

		for name, secret := range map[string]*corev1.Secret{"new": renewed, "old, which pods still have": serving} {
			if err := s.checkWebhookAnswers(secret, caBundle); err != nil {
				t.Errorf("after the renewal, with the %s certificate: got error %v", name, err)
			}
		}

		serving = renewed
	}

	if err := s.checkWebhookAnswers(first, serving.Data[keyAuthorities]); err == nil {
		t.Error("the certificate before the last is still trusted")
	}
}

func TestForeignSecretIsLeftAlone(t *testing.T) {
	s := newFixture(t)
	foreign := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: secretName},
		Data:       map[string][]byte{"mine": []byte("1")},
	}
	if err := s.Create(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}

	s.install()
	s.waitForEvent(reasonForeign, serviceName, secretName)

	now, err := s.getSecret()
	if err != nil || now.ResourceVersion != foreign.ResourceVersion {
		t.Errorf("the Secret was changed: %v, %v", now, err)
	}

	for _, consumer := range s.listConsumers() {
		if got := bytes.Join(trustedBundles(consumer), nil); len(got) > 0 {
			t.Errorf("%s %s trusts %s", consumer.GetKind(), consumer.GetName(), got)
		}
	}

	if err := s.Delete(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}

	secret, caBundle := s.waitUntilTrusted("a certificate is issued once nothing is in the way", anyCertificate)
	if err := s.checkWebhookAnswers(secret, caBundle); err != nil {
		t.Error(err)
	}
}

// A user who may write Services of a namespace cannot have a Secret written: a certificate is issued
// only for a Service that a revision controls and holds with the annotation.
func TestOtherServicesGetNoCertificate(t *testing.T) {
	s := newFixture(t)
	service := func(name string, owners ...metav1.OwnerReference) *corev1.Service {
		return &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: s.namespace, Name: name, Labels: s.owner.Labels, OwnerReferences: owners,
				Annotations: map[string]string{render.AnnotationServingCertificate: name + "-chosen"},
			},
			Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}},
		}
	}

	controlled := func(reference metav1.OwnerReference) metav1.OwnerReference {
		reference.Controller = ptr.To(true)
		return reference
	}
	gone := s.owner.Reference
	gone.UID = "00000000-0000-0000-0000-000000000002"
	for _, other := range []*corev1.Service{
		service("uncontrolled"),
		service("owned", s.owner.Reference),
		service("controlled-by-another-kind", metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "any", UID: "1", Controller: ptr.To(true)}),
		service("controlled-by-what-does-not-hold-it", controlled(s.owner.Reference)),
		service("controlled-by-what-is-gone", controlled(gone)),
	} {
		s.CreateAll(other)
		s.waitForRefusal(other.Name)
	}

	s.install()
	s.waitUntilTrusted("the certificate of the extension is issued", anyCertificate)
	// Nor can the Service of an extension request another Secret than its revision states.
	env.EditObject[client.Object](s.Fixture, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: serviceName}}, func(object client.Object) {
		object.SetAnnotations(map[string]string{render.AnnotationServingCertificate: serviceName + "-chosen"})
	})
	s.waitForRefusal(serviceName)

	var secrets corev1.SecretList
	if err := s.List(t.Context(), &secrets, client.InNamespace(s.namespace)); err != nil {
		t.Fatal(err)
	}
	if len(secrets.Items) != 1 || secrets.Items[0].Name != secretName {
		t.Errorf("got %d Secrets, the first %q; want only %s", len(secrets.Items), secrets.Items[0].Name, secretName)
	}
}

// An account that lacks the rights to the Secret, as one from before these were required, is reported
// by an Event, and the certificate is issued once it has them.
func TestAccountWithoutRightsToTheSecretIsReported(t *testing.T) {
	s := newFixture(t)
	binding := &rbacv1.RoleBinding{}
	if err := s.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: s.namespace + "-installer-binding"}, binding); err != nil {
		t.Fatal(err)
	}

	granted := binding.DeepCopy()
	granted.ResourceVersion, granted.UID = "", ""
	if err := s.Delete(t.Context(), binding); err != nil {
		t.Fatal(err)
	}

	s.install()
	s.waitForEvent(reasonForbidden, serviceName, s.namespace+"/"+installer+" lacks a right")
	s.CreateAll(granted)
	s.waitUntilTrusted("the certificate is issued", anyCertificate)
}

// waitForRefusal waits for the event that no certificate is issued for a Service.
func (s *fixture) waitForRefusal(service string) {
	s.T.Helper()
	s.waitForEvent(reasonRefused, service, service+"-chosen")
}

// waitForEvent waits for an event about a Service.
func (s *fixture) waitForEvent(reason, service, note string) {
	s.T.Helper()
	s.WaitForEvent(reason, func(e *eventsv1.Event) bool {
		return e.Reason == reason && e.Regarding.Kind == "Service" && e.Regarding.Name == service && strings.Contains(e.Note, note)
	}, client.InNamespace(s.namespace))
}

// TestInjectionMakesNothing: an object may be deleted between the read and the write.
func TestInjectionMakesNothing(t *testing.T) {
	s := newFixture(t)
	s.install()
	_, caBundle := s.waitUntilTrusted("a certificate is issued", anyCertificate)
	for _, gone := range s.listConsumers() {
		gone.SetName("gone." + gone.GetName())
		err := s.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(newCABundleConfiguration(gone, caBundle)), client.FieldOwner(FieldManager))
		if !apierrors.IsConflict(err) {
			t.Errorf("%s: got error %v, want a conflict", gone.GetKind(), err)
		}
	}
}

// TestRemovedWebhooks: the next version has no conversion webhook, and sets the caBundle of its
// admission webhooks itself. No field that the issuer applied stays.
func TestRemovedWebhooks(t *testing.T) {
	s := newFixture(t)
	s.install()
	s.waitUntilTrusted("a certificate is issued", anyCertificate)
	before := s.listConsumers()
	for i := range s.objects {
		annotations := s.objects[i].GetAnnotations()
		delete(annotations, render.AnnotationCAFrom)
		s.objects[i].SetAnnotations(annotations)
		if s.objects[i].GroupVersionKind() == crdKind {
			unstructured.RemoveNestedField(s.objects[i].Object, "spec", "conversion")
		}
	}

	s.install()
	for _, was := range before {
		now := was.DeepCopy()
		if err := s.Get(t.Context(), client.ObjectKeyFromObject(was), now); err != nil {
			t.Fatal(err)
		}
		if left := managedFieldsOf(now, FieldManager); len(left) > 0 || len(bytes.Join(trustedBundles(now), nil)) > 0 || hasConversionWebhook(now) {
			t.Errorf("%s %s: got the remaining applied fields %v", now.GetKind(), now.GetName(), left)
		}
	}
}
