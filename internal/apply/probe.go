package apply

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Probe is the result of a readiness probe.
type Probe struct {
	Ready bool
	// AwaitsLaterPhase means that the object is not ready, but a later phase may provide what it lacks. So it
	// does not block the next phases, only the end of the rollout.
	AwaitsLaterPhase bool
	// Message states, for people, what an object that is not ready lacks. It is empty if the
	// object is ready.
	Message string
	// Failure names the object and the failing probe of the revision. Scripts match its wording.
	// It is empty if the object is ready, and for other probes.
	Failure string
}

func readyProbe() Probe { return Probe{Ready: true} }

func notReadyProbe(format string, args ...any) Probe {
	return Probe{Message: fmt.Sprintf(format, args...)}
}

var (
	secretKind = schema.GroupKind{Kind: "Secret"}
	crdKind    = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
)

// builtInProbes are the probes of well-known kinds.
var builtInProbes = map[schema.GroupKind]func(u *unstructured.Unstructured) Probe{
	{Group: "apps", Kind: "Deployment"}:                   probeDeployment,
	{Group: "apps", Kind: "StatefulSet"}:                  probeStatefulSet,
	{Group: "apps", Kind: "DaemonSet"}:                    probeDaemonSet,
	{Group: "apps", Kind: "ReplicaSet"}:                   probeReplicaSet,
	{Group: "batch", Kind: "Job"}:                         probeJob,
	{Kind: "Pod"}:                                         probePod,
	{Kind: "Namespace"}:                                   probeNamespace,
	{Kind: "PersistentVolumeClaim"}:                       probeVolumeClaim,
	{Kind: "Service"}:                                     probeExistence,
	crdKind:                                               probeCRD,
	{Group: "apiregistration.k8s.io", Kind: "APIService"}: newConditionProbe("Available"),
	{Group: "cert-manager.io", Kind: "Certificate"}:       newConditionProbe("Ready"),
	{Group: "cert-manager.io", Kind: "Issuer"}:            newConditionProbe("Ready"),
	{Group: "cert-manager.io", Kind: "ClusterIssuer"}:     newConditionProbe("Ready"),
}

// builtInProbe probes an object with the probe of its kind, or with probeGeneric.
func builtInProbe(u *unstructured.Unstructured) Probe {
	if u.GetDeletionTimestamp() != nil {
		return notReadyProbe("%s", describeDeletion(u))
	}
	if probe, ok := builtInProbes[u.GroupVersionKind().GroupKind()]; ok {
		return probe(u)
	}
	return probeGeneric(u)
}

func probeExistence(*unstructured.Unstructured) Probe { return readyProbe() }

// probeGeneric fails only if a condition Ready or Available is False for the object's current
// generation. A condition that is absent, Unknown or of an earlier generation proves nothing: many
// kinds have none, and some are reported only by a controller of a later phase.
func probeGeneric(u *unstructured.Unstructured) Probe {
	for _, name := range []string{"Ready", "Available"} {
		c, ok := findCondition(u, name)
		if ok && c.status == "False" && !c.outdated {
			return notReadyProbe("%s", c)
		}
	}
	return readyProbe()
}

// newConditionProbe returns a probe that succeeds if a condition is True for the object's current
// generation.
func newConditionProbe(name string) func(*unstructured.Unstructured) Probe {
	return func(u *unstructured.Unstructured) Probe {
		return probeCondition(u, name, "True")
	}
}

func probeCondition(u *unstructured.Unstructured, name, status string) Probe {
	c, ok := findCondition(u, name)
	switch {
	case !ok:
		return notReadyProbe("its condition %s is not reported yet", name)
	case c.outdated:
		return notReadyProbe("its condition %s is not reported for its latest change yet", name)
	case c.status != status:
		return notReadyProbe("%s", c)
	default:
		return readyProbe()
	}
}

// condition is a status condition of an object.
type condition struct {
	name, status, reason, message string
	// outdated means that it was reported for an earlier generation of the object.
	outdated bool
}

// String implements fmt.Stringer.
func (c condition) String() string {
	text := fmt.Sprintf("its condition %s is %s", c.name, c.status)
	if c.reason != "" {
		text += " (" + c.reason + ")"
	}
	if c.message != "" {
		text += ": " + collapseWhitespace(c.message)
	}
	return text
}

// findCondition returns a status condition. Entries that do not have the form of a condition are
// skipped.
func findCondition(u *unstructured.Unstructured, name string) (condition, bool) {
	status, _ := u.Object["status"].(map[string]any)
	items, _ := status["conditions"].([]any)
	for _, item := range items {
		fields, _ := item.(map[string]any)
		if toString(fields["type"]) != name {
			continue
		}

		observed, ok := toInt64(fields["observedGeneration"])
		if !ok || observed == 0 {
			observed, ok = toInt64(status["observedGeneration"])
		}

		return condition{
			name: name, status: toString(fields["status"]), reason: toString(fields["reason"]), message: toString(fields["message"]),
			outdated: ok && observed != 0 && observed < u.GetGeneration(),
		}, true
	}

	return condition{}, false
}

// nestedIntOrDefault returns an integer field, or the fallback if it is absent.
func nestedIntOrDefault(u *unstructured.Unstructured, fallback int64, path ...string) int64 {
	value, ok, _ := unstructured.NestedFieldNoCopy(u.Object, path...)
	if !ok {
		return fallback
	}
	if n, ok := toInt64(value); ok {
		return n
	}
	return fallback
}

func toInt64(value any) (int64, bool) {
	switch n := value.(type) {
	case int64:
		return n, true
	case float64:
		return int64(n), true
	default:
		return 0, false
	}
}

func toString(value any) string {
	s, _ := value.(string)
	return s
}

func nestedString(u *unstructured.Unstructured, path ...string) string {
	s, _, _ := unstructured.NestedString(u.Object, path...)
	return s
}

// isGenerationUnobserved reports whether a workload's controller has not observed its current
// generation.
func isGenerationUnobserved(u *unstructured.Unstructured) bool {
	return nestedIntOrDefault(u, 0, "status", "observedGeneration") < u.GetGeneration()
}
