package serving

import (
	"encoding/base64"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// consumerKinds are the kinds of objects with webhooks that need a caBundle.
var consumerKinds = []schema.GroupVersionKind{
	crdKind,
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingWebhookConfiguration"},
}

var crdKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// trustedBundles returns the caBundle of each webhook of an object.
func trustedBundles(object *unstructured.Unstructured) [][]byte {
	var bundles [][]byte
	if object.GroupVersionKind() == crdKind {
		if hasConversionWebhook(object) {
			value, _, _ := unstructured.NestedString(object.Object, "spec", "conversion", "webhook", "clientConfig", "caBundle")
			bundles = append(bundles, decodeBase64(value))
		}
		return bundles
	}

	for _, webhook := range listWebhooks(object) {
		value, _, _ := unstructured.NestedString(webhook, "clientConfig", "caBundle")
		bundles = append(bundles, decodeBase64(value))
	}
	return bundles
}

// newCABundleConfiguration returns the apply configuration that sets the caBundle of every webhook
// of an object. Its UID and resource version are preconditions: a deleted object is not
// created again, and one whose webhooks have changed is not written.
func newCABundleConfiguration(object *unstructured.Unstructured, bundle []byte) *unstructured.Unstructured {
	result := &unstructured.Unstructured{}
	result.SetGroupVersionKind(object.GroupVersionKind())
	result.SetName(object.GetName())
	result.SetUID(object.GetUID())
	result.SetResourceVersion(object.GetResourceVersion())
	client := map[string]any{"caBundle": base64.StdEncoding.EncodeToString(bundle)}
	if object.GroupVersionKind() == crdKind {
		result.Object["spec"] = map[string]any{"conversion": map[string]any{"webhook": map[string]any{"clientConfig": client}}}
		return result
	}

	var webhooks []any
	for _, webhook := range listWebhooks(object) {
		webhooks = append(webhooks, map[string]any{"name": webhook["name"], "clientConfig": client})
	}

	result.Object["webhooks"] = webhooks
	return result
}

func hasConversionWebhook(crd *unstructured.Unstructured) bool {
	strategy, _, _ := unstructured.NestedString(crd.Object, "spec", "conversion", "strategy")
	return strategy == "Webhook"
}

func listWebhooks(object *unstructured.Unstructured) []map[string]any {
	list, _, _ := unstructured.NestedSlice(object.Object, "webhooks")
	var webhooks []map[string]any
	for _, item := range list {
		if webhook, ok := item.(map[string]any); ok {
			webhooks = append(webhooks, webhook)
		}
	}
	return webhooks
}

// decodeBase64 decodes bytes from JSON. It returns nothing for a value that is not base64.
func decodeBase64(value string) []byte {
	decoded, _ := base64.StdEncoding.DecodeString(value)
	return decoded
}
