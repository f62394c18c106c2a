package apply

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const unobservedMessage = "its controller has not seen the latest change yet"

// probeDeployment holds when every replica is of the latest template and available,
// and no older one is left.
func probeDeployment(u *unstructured.Unstructured) Probe {
	if unobserved(u) {
		return notReady(unobservedMessage)
	}

	wanted := number(u, 1, "spec", "replicas")
	total := number(u, 0, "status", "replicas")
	updated := number(u, 0, "status", "updatedReplicas")
	available := number(u, 0, "status", "availableReplicas")
	var problem string
	switch {
	case updated < wanted:
		problem = count(updated, wanted, "updated")
	case total > updated:
		problem = fmt.Sprintf("%d old %s still being removed", total-updated, are(total-updated, "replica"))
	case available < updated:
		problem = count(available, wanted, "available")
	default:
		return ready()
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

// probeStatefulSet holds when every replica above the partition is of the latest
// template, and all are available. With the strategy OnDelete replicas are replaced
// by hand, so that old ones are no fault.
func probeStatefulSet(u *unstructured.Unstructured) Probe {
	if unobserved(u) {
		return notReady(unobservedMessage)
	}

	wanted := number(u, 1, "spec", "replicas")
	available := number(u, 0, "status", "availableReplicas")
	if stringAt(u, "spec", "updateStrategy", "type") != "OnDelete" {
		toUpdate := max(0, wanted-number(u, 0, "spec", "updateStrategy", "rollingUpdate", "partition"))
		if updated := number(u, 0, "status", "updatedReplicas"); updated < toUpdate {
			return notReady("%s", count(updated, toUpdate, "updated"))
		}
	}

	if available < wanted {
		return notReady("%s", count(available, wanted, "available"))
	}

	return ready()
}

// probeDaemonSet holds when the pod of every node is of the latest template and
// available. No node is no fault.
func probeDaemonSet(u *unstructured.Unstructured) Probe {
	if unobserved(u) {
		return notReady(unobservedMessage)
	}

	wanted := number(u, 0, "status", "desiredNumberScheduled")
	if updated := number(u, 0, "status", "updatedNumberScheduled"); updated < wanted && stringAt(u, "spec", "updateStrategy", "type") != "OnDelete" {
		return notReady("the pods of %d of %d nodes are updated", updated, wanted)
	}
	if available := number(u, 0, "status", "numberAvailable"); available < wanted {
		return notReady("the pods of %d of %d nodes are available", available, wanted)
	}

	return ready()
}

func probeReplicaSet(u *unstructured.Unstructured) Probe {
	if unobserved(u) {
		return notReady(unobservedMessage)
	}

	wanted := number(u, 1, "spec", "replicas")
	if available := number(u, 0, "status", "availableReplicas"); available < wanted {
		return notReady("%s", count(available, wanted, "available"))
	}
	return ready()
}

// probeJob holds when the job is complete.
func probeJob(u *unstructured.Unstructured) Probe {
	if c, ok := findCondition(u, "Complete"); ok && c.status == "True" {
		return ready()
	}
	if c, ok := findCondition(u, "Failed"); ok && c.status == "True" {
		return notReady("it has failed (%s): %s", c.reason, oneLine(c.message))
	}
	if suspended, _, _ := unstructured.NestedBool(u.Object, "spec", "suspend"); suspended {
		return notReady("it is suspended")
	}

	wanted := number(u, 1, "spec", "completions")
	return notReady("%d of %d completions are done", number(u, 0, "status", "succeeded"), wanted)
}

// probePod holds when the pod is ready, or has done its work.
func probePod(u *unstructured.Unstructured) Probe {
	switch phase := stringAt(u, "status", "phase"); phase {
	case "Succeeded":
		return ready()
	case "Failed":
		return notReady("it has failed: %s", either(oneLine(stringAt(u, "status", "message")), stringAt(u, "status", "reason"), "no reason is given"))
	}

	if c, ok := findCondition(u, "Ready"); ok && c.status == "True" {
		return ready()
	}

	statuses, _, _ := unstructured.NestedSlice(u.Object, "status", "containerStatuses")
	for _, item := range statuses {
		container, _ := item.(map[string]any)
		if reason, _, _ := unstructured.NestedString(container, "state", "waiting", "reason"); reason != "" {
			return notReady("its container %s is waiting: %s", text(container["name"]), reason)
		}
	}

	if c, ok := findCondition(u, "PodScheduled"); ok && c.status == "False" {
		return notReady("it is not scheduled: %s", either(oneLine(c.message), c.reason))
	}

	return notReady("it is not ready yet")
}

func probeNamespace(u *unstructured.Unstructured) Probe {
	if phase := stringAt(u, "status", "phase"); phase != "Active" {
		return notReady("it is %s, not Active", either(phase, "new"))
	}
	return ready()
}

// probeClaim holds for a claim that is bound or pending. A pending one may wait for
// its first consumer, a pod of a later phase, which only its storage class tells; a
// claim that cannot be bound shows in that pod.
func probeClaim(u *unstructured.Unstructured) Probe {
	if stringAt(u, "status", "phase") == "Lost" {
		return notReady("its volume is lost")
	}
	return ready()
}

// probeCRD holds when instances can be created.
func probeCRD(u *unstructured.Unstructured) Probe {
	if c, ok := findCondition(u, "NamesAccepted"); ok && c.status == "False" {
		return notReady("its names are not accepted: %s", either(oneLine(c.message), c.reason))
	}

	switch c, ok := findCondition(u, "Established"); {
	case ok && c.status == "True":
		return ready()
	case ok && c.reason != "Installing" && c.message != "":
		return notReady("it is not established: %s", oneLine(c.message))
	default:
		return notReady("it is not established yet")
	}
}

// count says how far a workload is: 1 of 2 replicas are available.
func count(have, wanted int64, what string) string {
	return fmt.Sprintf("%d of %d %s %s", have, wanted, are(wanted, "replica"), what)
}

func are(count int64, noun string) string {
	if count == 1 {
		return noun + " is"
	}
	return noun + "s are"
}

// either returns the first that is not empty.
func either(values ...string) string {
	for _, value := range values {
		if value != "" {
			return value
		}
	}
	return ""
}
