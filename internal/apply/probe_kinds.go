package apply

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const unobservedMessage = "its controller has not seen the latest change yet"

// probeDeployment succeeds if every replica has the current template and is available, and no old
// replica is left.
func probeDeployment(u *unstructured.Unstructured) Probe {
	if isGenerationUnobserved(u) {
		return notReadyProbe(unobservedMessage)
	}

	wanted := nestedIntOrDefault(u, 1, "spec", "replicas")
	total := nestedIntOrDefault(u, 0, "status", "replicas")
	updated := nestedIntOrDefault(u, 0, "status", "updatedReplicas")
	available := nestedIntOrDefault(u, 0, "status", "availableReplicas")
	var problem string
	switch {
	case updated < wanted:
		problem = describeReplicas(updated, wanted, "updated")
	case total > updated:
		problem = fmt.Sprintf("%d old %s still being removed", total-updated, pluralizeWithVerb(total-updated, "replica"))
	case available < updated:
		problem = describeReplicas(available, wanted, "available")
	default:
		return readyProbe()
	}

	if paused, _, _ := unstructured.NestedBool(u.Object, "spec", "paused"); paused {
		problem += ", and it is paused"
	}
	if c, ok := findCondition(u, "Progressing"); ok && c.status == "False" {
		problem += ": " + c.String()
	}
	if c, ok := findCondition(u, "ReplicaFailure"); ok && c.status == "True" {
		problem += ": " + c.String()
	}

	return Probe{Message: problem}
}

// probeStatefulSet succeeds if every replica above the partition has the current template, and all
// are available. With the strategy OnDelete users replace replicas, so old ones are accepted.
func probeStatefulSet(u *unstructured.Unstructured) Probe {
	if isGenerationUnobserved(u) {
		return notReadyProbe(unobservedMessage)
	}

	wanted := nestedIntOrDefault(u, 1, "spec", "replicas")
	available := nestedIntOrDefault(u, 0, "status", "availableReplicas")
	if nestedString(u, "spec", "updateStrategy", "type") != "OnDelete" {
		toUpdate := max(0, wanted-nestedIntOrDefault(u, 0, "spec", "updateStrategy", "rollingUpdate", "partition"))
		if updated := nestedIntOrDefault(u, 0, "status", "updatedReplicas"); updated < toUpdate {
			return notReadyProbe("%s", describeReplicas(updated, toUpdate, "updated"))
		}
	}

	if available < wanted {
		return notReadyProbe("%s", describeReplicas(available, wanted, "available"))
	}

	return readyProbe()
}

// probeDaemonSet succeeds if the pod of every node has the current template and is available. It
// also succeeds without nodes.
func probeDaemonSet(u *unstructured.Unstructured) Probe {
	if isGenerationUnobserved(u) {
		return notReadyProbe(unobservedMessage)
	}

	wanted := nestedIntOrDefault(u, 0, "status", "desiredNumberScheduled")
	if updated := nestedIntOrDefault(u, 0, "status", "updatedNumberScheduled"); updated < wanted && nestedString(u, "spec", "updateStrategy", "type") != "OnDelete" {
		return notReadyProbe("the pods of %d of %d nodes are updated", updated, wanted)
	}
	if available := nestedIntOrDefault(u, 0, "status", "numberAvailable"); available < wanted {
		return notReadyProbe("the pods of %d of %d nodes are available", available, wanted)
	}

	return readyProbe()
}

func probeReplicaSet(u *unstructured.Unstructured) Probe {
	if isGenerationUnobserved(u) {
		return notReadyProbe(unobservedMessage)
	}

	wanted := nestedIntOrDefault(u, 1, "spec", "replicas")
	if available := nestedIntOrDefault(u, 0, "status", "availableReplicas"); available < wanted {
		return notReadyProbe("%s", describeReplicas(available, wanted, "available"))
	}
	return readyProbe()
}

// probeJob succeeds if the job is complete.
func probeJob(u *unstructured.Unstructured) Probe {
	if c, ok := findCondition(u, "Complete"); ok && c.status == "True" {
		return readyProbe()
	}
	if c, ok := findCondition(u, "Failed"); ok && c.status == "True" {
		return notReadyProbe("it has failed (%s): %s", c.reason, collapseWhitespace(c.message))
	}
	if suspended, _, _ := unstructured.NestedBool(u.Object, "spec", "suspend"); suspended {
		return notReadyProbe("it is suspended")
	}

	wanted := nestedIntOrDefault(u, 1, "spec", "completions")
	return notReadyProbe("%d of %d completions are done", nestedIntOrDefault(u, 0, "status", "succeeded"), wanted)
}

// probePod succeeds if the pod is ready, or has succeeded.
func probePod(u *unstructured.Unstructured) Probe {
	switch phase := nestedString(u, "status", "phase"); phase {
	case "Succeeded":
		return readyProbe()
	case "Failed":
		return notReadyProbe("it has failed: %s", firstNonEmpty(collapseWhitespace(nestedString(u, "status", "message")), nestedString(u, "status", "reason"), "no reason is given"))
	}

	if c, ok := findCondition(u, "Ready"); ok && c.status == "True" {
		return readyProbe()
	}

	statuses, _, _ := unstructured.NestedSlice(u.Object, "status", "containerStatuses")
	for _, item := range statuses {
		container, _ := item.(map[string]any)
		if reason, _, _ := unstructured.NestedString(container, "state", "waiting", "reason"); reason != "" {
			return notReadyProbe("its container %s is waiting: %s", toString(container["name"]), reason)
		}
	}

	if c, ok := findCondition(u, "PodScheduled"); ok && c.status == "False" {
		return notReadyProbe("it is not scheduled: %s", firstNonEmpty(collapseWhitespace(c.message), c.reason))
	}

	return notReadyProbe("it is not ready yet")
}

func probeNamespace(u *unstructured.Unstructured) Probe {
	if phase := nestedString(u, "status", "phase"); phase != "Active" {
		return notReadyProbe("it is %s, not Active", firstNonEmpty(phase, "new"))
	}
	return readyProbe()
}

// probeVolumeClaim succeeds for a claim that is bound or pending. A pending claim may wait for its
// first consumer, a pod of a later phase, depending on its storage class. If a claim cannot be
// bound, that pod shows it.
func probeVolumeClaim(u *unstructured.Unstructured) Probe {
	if nestedString(u, "status", "phase") == "Lost" {
		return notReadyProbe("its volume is lost")
	}
	return readyProbe()
}

// probeCRD succeeds if instances can be created.
func probeCRD(u *unstructured.Unstructured) Probe {
	if c, ok := findCondition(u, "NamesAccepted"); ok && c.status == "False" {
		return notReadyProbe("its names are not accepted: %s", firstNonEmpty(collapseWhitespace(c.message), c.reason))
	}

	switch c, ok := findCondition(u, "Established"); {
	case ok && c.status == "True":
		return readyProbe()
	case ok && c.reason != "Installing" && c.message != "":
		return notReadyProbe("it is not established: %s", collapseWhitespace(c.message))
	default:
		return notReadyProbe("it is not established yet")
	}
}

// describeReplicas describes the progress of a workload: 1 of 2 replicas are available.
func describeReplicas(have, wanted int64, what string) string {
	return fmt.Sprintf("%d of %d %s %s", have, wanted, pluralizeWithVerb(wanted, "replica"), what)
}

func pluralizeWithVerb(count int64, noun string) string {
	if count == 1 {
		return noun + " is"
	}
	return noun + "s are"
}

// firstNonEmpty returns the first value that is not empty.
func firstNonEmpty(values ...string) string {
	for _, value := range values {
		if value != "" {
			return value
		}
	}
	return ""
}
