package apply

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Probe reports whether an object is ready.
type Probe struct {
	Ready bool
	// Later: the object is not ready, but what it lacks may come of a later phase. So it
	// does not hold up the phases after its own, only the end of the roll-out.
	Later bool
	// Message says, to a person, what an object that is not ready lacks. Empty when it
	// is ready.
	Message string
	// Failure names the object and the probe of the revision that fails, in the words that
	// scripts look for. Empty when it is ready, and for every other probe.
	Failure string
}

func ready() Probe { return Probe{Ready: true} }

func notReady(format string, args ...any) Probe {
	return Probe{Message: fmt.Sprintf(format, args...)}
}

var (
	secretKind = schema.GroupKind{Kind: "Secret"}
	crdKind    = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
)

// builtIn are the probes of well-known kinds.
var builtIn = map[schema.GroupKind]func(u *unstructured.Unstructured) Probe{
	{Group: "apps", Kind: "Deployment"}:                   probeDeployment,
	{Group: "apps", Kind: "StatefulSet"}:                  probeStatefulSet,
	{Group: "apps", Kind: "DaemonSet"}:                    probeDaemonSet,
	{Group: "apps", Kind: "ReplicaSet"}:                   probeReplicaSet,
	{Group: "batch", Kind: "Job"}:                         probeJob,
	{Kind: "Pod"}:                                         probePod,
	{Kind: "Namespace"}:                                   probeNamespace,
	{Kind: "PersistentVolumeClaim"}:                       probeClaim,
	{Kind: "Service"}:                                     exists,
	crdKind:                                               probeCRD,
	{Group: "apiregistration.k8s.io", Kind: "APIService"}: requires("Available"),
	{Group: "cert-manager.io", Kind: "Certificate"}:       requires("Ready"),
	{Group: "cert-manager.io", Kind: "Issuer"}:            requires("Ready"),
	{Group: "cert-manager.io", Kind: "ClusterIssuer"}:     requires("Ready"),
}

// builtInProbe asks the probe of the object's kind. An object of any other kind is
// ready unless it says itself that it is not.
func builtInProbe(u *unstructured.Unstructured) Probe {
	if u.GetDeletionTimestamp() != nil {
		return notReady("%s", beingDeleted(u))
	}
	if probe, ok := builtIn[u.GroupVersionKind().GroupKind()]; ok {
		return probe(u)
	}
	return probeGeneric(u)
}

func exists(*unstructured.Unstructured) Probe { return ready() }

// probeGeneric fails only on a condition Ready or Available that is False for the
// object's present generation. A condition that is absent, Unknown or of an earlier
// generation proves nothing: many kinds have none, and some are reported only by a
// controller that a later phase brings.
func probeGeneric(u *unstructured.Unstructured) Probe {
	for _, name := range []string{"Ready", "Available"} {
		c, ok := findCondition(u, name)
		if ok && c.status == "False" && !c.outdated {
			return notReady("%s", c)
		}
	}
	return ready()
}

// requires makes a probe that holds when a condition is True for the object's present
// generation.
func requires(name string) func(*unstructured.Unstructured) Probe {
	return func(u *unstructured.Unstructured) Probe {
		return probeCondition(u, name, "True")
	}
}

func probeCondition(u *unstructured.Unstructured, name, status string) Probe {
	c, ok := findCondition(u, name)
	switch {
	case !ok:
		return notReady("its condition %s is not reported yet", name)
	case c.outdated:
		return notReady("its condition %s is not reported for its latest change yet", name)
	case c.status != status:
		return notReady("%s", c)
	default:
		return ready()
	}
}

// condition is one of an object's status conditions.
type condition struct {
	name, status, reason, message string
	// outdated: it was reported for an earlier generation of the object.
	outdated bool
}

func (c condition) String() string {
	text := fmt.Sprintf("its condition %s is %s", c.name, c.status)
	if c.reason != "" {
		text += " (" + c.reason + ")"
	}
	if c.message != "" {
		text += ": " + oneLine(c.message)
	}
	return text
}

// findCondition looks for a status condition. What does not have the shape of one is
// passed over.
func findCondition(u *unstructured.Unstructured, name string) (condition, bool) {
	status, _ := u.Object["status"].(map[string]any)
	items, _ := status["conditions"].([]any)
	for _, item := range items {
		fields, _ := item.(map[string]any)
		if text(fields["type"]) != name {
			continue
		}

		observed, ok := integer(fields["observedGeneration"])
		if !ok || observed == 0 {
			observed, ok = integer(status["observedGeneration"])
		}

		return condition{
			name: name, status: text(fields["status"]), reason: text(fields["reason"]), message: text(fields["message"]),
			outdated: ok && observed != 0 && observed < u.GetGeneration(),
		}, true
	}

	return condition{}, false
}

// number returns an integer field, or the fallback when it is absent.
func number(u *unstructured.Unstructured, fallback int64, path ...string) int64 {
	value, ok, _ := unstructured.NestedFieldNoCopy(u.Object, path...)
	if !ok {
		return fallback
	}
	if n, ok := integer(value); ok {
		return n
	}
	return fallback
}

func integer(value any) (int64, bool) {
	switch n := value.(type) {
	case int64:
		return n, true
	case float64:
		return int64(n), true
	default:
		return 0, false
	}
}

func text(value any) string {
	s, _ := value.(string)
	return s
}

func stringAt(u *unstructured.Unstructured, path ...string) string {
	s, _, _ := unstructured.NestedString(u.Object, path...)
	return s
}

// unobserved reports whether a workload's controller has not seen its latest change.
func unobserved(u *unstructured.Unstructured) bool {
	return number(u, 0, "status", "observedGeneration") < u.GetGeneration()
}
