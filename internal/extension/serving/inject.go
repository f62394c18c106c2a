package serving

import (
	"encoding/base64"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// consumerKinds are the kinds of objects whose webhooks trust authorities.
var consumerKinds = []schema.GroupVersionKind{
	crdKind,
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingWebhookConfiguration"},
}

var crdKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// bundlesOf returns what the webhooks of an object trust, one bundle for each. An object
// without webhooks gives none.
func bundlesOf(object *unstructured.Unstructured) [][]byte {
	var bundles [][]byte
	if object.GroupVersionKind() == crdKind {
		if converts(object) {
			value, _, _ := unstructured.NestedString(object.Object, "spec", "conversion", "webhook", "clientConfig", "caBundle")
			bundles = append(bundles, decode(value))
		}
		return bundles
	}

	for _, webhook := range webhooksOf(object) {
		value, _, _ := unstructured.NestedString(webhook, "clientConfig", "caBundle")
		bundles = append(bundles, decode(value))
	}
	return bundles
}

// injection is what is applied so that every webhook of an object trusts a bundle. It
// holds for the object as it was read: one that is gone is not made anew, and one whose
// webhooks went, or ask for no trust any more, is not written.
func injection(object *unstructured.Unstructured, bundle []byte) *unstructured.Unstructured {
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
	for _, webhook := range webhooksOf(object) {
		webhooks = append(webhooks, map[string]any{"name": webhook["name"], "clientConfig": client})
	}

	result.Object["webhooks"] = webhooks
	return result
}

func converts(crd *unstructured.Unstructured) bool {
	strategy, _, _ := unstructured.NestedString(crd.Object, "spec", "conversion", "strategy")
	return strategy == "Webhook"
}

func webhooksOf(object *unstructured.Unstructured) []map[string]any {
	list, _, _ := unstructured.NestedSlice(object.Object, "webhooks")
	var webhooks []map[string]any
	for _, item := range list {
		if webhook, ok := item.(map[string]any); ok {
			webhooks = append(webhooks, webhook)
		}
	}
	return webhooks
}

// decode reads bytes as they stand in JSON. What cannot be read is empty.
func decode(value string) []byte {
	decoded, _ := base64.StdEncoding.DecodeString(value)
	return decoded
}
