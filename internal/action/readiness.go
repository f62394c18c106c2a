package action

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// wants are the conditions that kinds report when they are ready.
var wants = map[schema.GroupKind]string{
	{Group: "apps", Kind: "Deployment"}: "Available",
	{Group: "batch", Kind: "Job"}:       "Complete",
	{Kind: "Pod"}:                       "Ready",
	{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}: "Established",
	{Group: "apiregistration.k8s.io", Kind: "APIService"}:             "Available",
	{Group: "cert-manager.io", Kind: "Certificate"}:                   "Ready",
	{Group: "cert-manager.io", Kind: "Issuer"}:                        "Ready",
}

// readiness tells whether an object is ready, and what it lacks if not.
func readiness(live *unstructured.Unstructured) (bool, string) {
	if live.GetDeletionTimestamp() != nil {
		return false, "it is being deleted"
	}
	if observed, ok, _ := unstructured.NestedInt64(live.Object, "status", "observedGeneration"); ok && observed < live.GetGeneration() {
		return false, "its controller has not seen the latest change yet"
	}
	if short := shortOf(live); short != "" {
		return false, short
	}
	name, required := wants[live.GroupVersionKind().GroupKind()]
	names := []string{"Ready", "Available"}
	if required {
		names = []string{name}
	}
	items, _, _ := unstructured.NestedSlice(live.Object, "status", "conditions")
	seen := false
	for _, item := range items {
		c, _ := item.(map[string]any)
		kind, _ := c["type"].(string)
		if !slices.Contains(names, kind) {
			continue
		}
		seen = true
		if status := c["status"]; status == "False" || (required && status != "True") {
			return false, strings.TrimSuffix(fmt.Sprintf("its condition %s is %v (%v): %v", kind, status, c["reason"], c["message"]), ": <nil>")
		}
	}
	if required && !seen {
		return false, fmt.Sprintf("its condition %s is not reported yet", name)
	}
	return true, ""
}

// shortOf says how many replicas a workload still lacks, "" for none.
func shortOf(live *unstructured.Unstructured) string {
	kind := live.GroupVersionKind().GroupKind()
	if kind.Group != "apps" || !slices.Contains([]string{"Deployment", "StatefulSet"}, kind.Kind) {
		return ""
	}
	wanted, ok, _ := unstructured.NestedInt64(live.Object, "spec", "replicas")
	if !ok {
		wanted = 1
	}
	for _, field := range []string{"updatedReplicas", "availableReplicas"} {
		if have, _, _ := unstructured.NestedInt64(live.Object, "status", field); have < wanted {
			return fmt.Sprintf("%d of %d replicas are %s", have, wanted, strings.TrimSuffix(field, "Replicas"))
		}
	}
	return ""
}
