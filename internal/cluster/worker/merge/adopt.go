package merge

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// AnnotationInjectBundle, with the value "true": somebody else writes the certificate
// authorities into the object.
const AnnotationInjectBundle = "service.beta.openshift.io/inject-cabundle"

// adoptConversionBundle keeps the certificate authorities of a conversion webhook.
func adoptConversionBundle(wanted, live map[string]any, annotations map[string]string) {
	adoptBundle(config(wanted, "spec", "conversion", "webhook", "clientConfig"), config(live, "spec", "conversion", "webhook", "clientConfig"), annotations)
}

// adoptServiceBundle keeps the certificate authorities of an extension API server.
func adoptServiceBundle(wanted, live map[string]any, annotations map[string]string) {
	adoptBundle(config(wanted, "spec"), config(live, "spec"), annotations)
}

// adoptWebhookBundles keeps the certificate authorities of admission webhooks.
func adoptWebhookBundles(wanted, live map[string]any, annotations map[string]string) {
	wantedList, ok := byName(wanted["webhooks"])
	liveList, both := byName(live["webhooks"])
	if !ok || !both {
		return
	}

	for _, webhook := range wantedList.elements {
		adoptBundle(config(webhook, "clientConfig"), config(liveList.byName[nameOf(webhook)], "clientConfig"), annotations)
	}
}

// adoptBundle keeps the certificate authorities that a client uses when the manifest leaves
// them to somebody else: by the annotation, or by naming none.
func adoptBundle(wanted, live map[string]any, annotations map[string]string) {
	if wanted == nil || live["caBundle"] == nil {
		return
	}
	if annotations[AnnotationInjectBundle] == "true" || wanted["caBundle"] == nil {
		wanted["caBundle"] = live["caBundle"]
	}
}

// adoptAggregatedRules keeps the rules that the cluster computes from other roles.
func adoptAggregatedRules(wanted, live map[string]any, _ map[string]string) {
	if wanted["aggregationRule"] == nil {
		return
	}
	delete(wanted, "rules")
	if rules, ok := live["rules"]; ok {
		wanted["rules"] = rules
	}
}

func config(object map[string]any, path ...string) map[string]any {
	value, _, _ := unstructured.NestedFieldNoCopy(object, path...)
	result, _ := value.(map[string]any)
	return result
}
