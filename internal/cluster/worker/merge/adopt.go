package merge

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// AnnotationInjectBundle with the value "true" states that another component writes the CA
// bundle into the object.
const AnnotationInjectBundle = "service.beta.openshift.io/inject-cabundle"

// keepConversionCABundle keeps the CA bundle of a conversion webhook.
func keepConversionCABundle(wanted, live map[string]any, annotations map[string]string) {
	keepCABundle(nestedObject(wanted, "spec", "conversion", "webhook", "clientConfig"), nestedObject(live, "spec", "conversion", "webhook", "clientConfig"), annotations)
}

// keepAPIServiceCABundle keeps the CA bundle of an extension API server.
func keepAPIServiceCABundle(wanted, live map[string]any, annotations map[string]string) {
	keepCABundle(nestedObject(wanted, "spec"), nestedObject(live, "spec"), annotations)
}

// keepWebhookCABundles keeps the CA bundles of admission webhooks.
func keepWebhookCABundles(wanted, live map[string]any, annotations map[string]string) {
	wantedList, ok := indexElementsByName(wanted["webhooks"])
	liveList, both := indexElementsByName(live["webhooks"])
	if !ok || !both {
		return
	}

	for _, webhook := range wantedList.elements {
		keepCABundle(nestedObject(webhook, "clientConfig"), nestedObject(liveList.byName[elementName(webhook)], "clientConfig"), annotations)
	}
}

// keepCABundle keeps the live CA bundle of a client configuration if the manifest leaves it to
// another component, by the annotation or by stating none.
func keepCABundle(wanted, live map[string]any, annotations map[string]string) {
	if wanted == nil || live["caBundle"] == nil {
		return
	}
	if annotations[AnnotationInjectBundle] == "true" || wanted["caBundle"] == nil {
		wanted["caBundle"] = live["caBundle"]
	}
}

// keepAggregatedRules keeps the rules that the cluster aggregates from other roles.
func keepAggregatedRules(wanted, live map[string]any, _ map[string]string) {
	if wanted["aggregationRule"] == nil {
		return
	}
	delete(wanted, "rules")
	if rules, ok := live["rules"]; ok {
		wanted["rules"] = rules
	}
}

func nestedObject(object map[string]any, path ...string) map[string]any {
	value, _, _ := unstructured.NestedFieldNoCopy(object, path...)
	result, _ := value.(map[string]any)
	return result
}
