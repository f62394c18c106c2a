package render

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/bundle"
)

// injectors are annotations by which other programs inject their authorities into a CRD. Authors
// leave them in. They would revert what the issuer does.
var injectors = []string{
	"cert-manager.io/inject-apiserver-ca",
	AnnotationInjectCAFrom,
	"cert-manager.io/inject-ca-from-secret",
	"service.beta.openshift.io/inject-cabundle",
}

// webhookName returns the name of an admission webhook and of its configuration. generateName
// normally is the prefix of a name. Here the name is fixed, so that an update finds it.
func webhookName(webhook v1alpha1.WebhookDescription) string {
	return strings.TrimSuffix(webhook.GenerateName, "-")
}

// renderWebhookConfigurations returns the configurations of admission webhooks, each with one
// webhook.
func renderWebhookConfigurations(b *bundle.Bundle, opts Options, targets []string) []runtime.Object {
	namespace := opts.InstallNamespace
	var objects []runtime.Object
	for _, webhook := range b.CSV.Spec.WebhookDefinitions {
		meta := metav1.ObjectMeta{
			Name:        webhookName(webhook),
			Annotations: opts.Issuer.consumerAnnotations(namespace, webhook.DeploymentName),
		}
		service := admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{
			Namespace: namespace, Name: ServiceName(webhook.DeploymentName),
			Path: webhook.WebhookPath, Port: ptr.To(webhookServicePort(webhook).Port),
		}}
		switch webhook.Type {
		case v1alpha1.ValidatingAdmissionWebhook:
			objects = append(objects, &admissionregistrationv1.ValidatingWebhookConfiguration{
				TypeMeta:   metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: "ValidatingWebhookConfiguration"},
				ObjectMeta: meta,
				Webhooks: []admissionregistrationv1.ValidatingWebhook{{
					Name: meta.Name, ClientConfig: service, Rules: webhook.Rules, FailurePolicy: webhook.FailurePolicy,
					MatchPolicy: webhook.MatchPolicy, NamespaceSelector: namespaceSelector(targets), ObjectSelector: webhook.ObjectSelector,
					SideEffects: webhook.SideEffects, TimeoutSeconds: webhook.TimeoutSeconds, AdmissionReviewVersions: webhook.AdmissionReviewVersions,
				}},
			})
		case v1alpha1.MutatingAdmissionWebhook:
			objects = append(objects, &admissionregistrationv1.MutatingWebhookConfiguration{
				TypeMeta:   metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: "MutatingWebhookConfiguration"},
				ObjectMeta: meta,
				Webhooks: []admissionregistrationv1.MutatingWebhook{{
					Name: meta.Name, ClientConfig: service, Rules: webhook.Rules, FailurePolicy: webhook.FailurePolicy,
					MatchPolicy: webhook.MatchPolicy, NamespaceSelector: namespaceSelector(targets), ObjectSelector: webhook.ObjectSelector,
					SideEffects: webhook.SideEffects, TimeoutSeconds: webhook.TimeoutSeconds, AdmissionReviewVersions: webhook.AdmissionReviewVersions,
					ReinvocationPolicy: webhook.ReinvocationPolicy,
				}},
			})
		}
	}

	return objects
}

// namespaceSelector restricts a webhook to the namespaces that the extension watches. Nil means
// all.
func namespaceSelector(targets []string) *metav1.LabelSelector {
	if slices.Contains(targets, metav1.NamespaceAll) {
		return nil
	}
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: targets},
	}}
}

// addConversionWebhooks adds conversion webhooks to their CRDs. It replaces a conversion that the
// author left in a CRD, because that names the author's own Service.
func addConversionWebhooks(b *bundle.Bundle, opts Options, objects []unstructured.Unstructured) {
	byCRD := map[string]v1alpha1.WebhookDescription{}
	for _, webhook := range b.CSV.Spec.WebhookDefinitions {
		for _, name := range webhook.ConversionCRDs {
			if webhook.Type == v1alpha1.ConversionWebhook {
				byCRD[name] = webhook
			}
		}
	}

	for _, object := range objects {
		webhook, converted := byCRD[object.GetName()]
		spec, ok := object.Object["spec"].(map[string]any)
		if object.GetKind() != kindCRD || !converted || !ok {
			continue
		}

		versions := make([]any, 0, len(webhook.AdmissionReviewVersions))
		for _, version := range webhook.AdmissionReviewVersions {
			versions = append(versions, version)
		}

		spec["conversion"] = map[string]any{
			"strategy": "Webhook",
			"webhook": map[string]any{
				"conversionReviewVersions": versions,
				"clientConfig": map[string]any{"service": map[string]any{
					"namespace": opts.InstallNamespace, "name": ServiceName(webhook.DeploymentName),
					"path": cmp.Or(ptr.Deref(webhook.WebhookPath, ""), "/"), "port": int64(webhookServicePort(webhook).Port),
				}},
			},
		}

		annotations := object.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}

		for _, injector := range injectors {
			delete(annotations, injector)
		}

		maps.Copy(annotations, opts.Issuer.consumerAnnotations(opts.InstallNamespace, webhook.DeploymentName))
		object.SetAnnotations(annotations)
	}
}
