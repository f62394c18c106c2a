package apply

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
)

// An empty message means that the object is ready.
func TestBuiltInProbes(t *testing.T) {
	cases := []struct{ name, kind, content, message string }{
		{"deployment not observed", "apps/v1 Deployment", "metadata: {generation: 2}\nstatus: {observedGeneration: 1, replicas: 1, updatedReplicas: 1, availableReplicas: 1}",
			"its controller has not seen the latest change yet"},
		{"deployment without status", "apps/v1 Deployment", "metadata: {generation: 1}", "its controller has not seen the latest change yet"},
		{"deployment not updated", "apps/v1 Deployment", "spec: {replicas: 2}\nstatus: {replicas: 2, updatedReplicas: 1, availableReplicas: 2}",
			"1 of 2 replicas are updated"},
		{"deployment with old replicas", "apps/v1 Deployment", "spec: {replicas: 2}\nstatus: {replicas: 3, updatedReplicas: 2, availableReplicas: 3}",
			"1 old replica is still being removed"},
		{"deployment not available", "apps/v1 Deployment", "spec: {replicas: 2}\nstatus: {replicas: 2, updatedReplicas: 2, availableReplicas: 1}",
			"1 of 2 replicas are available"},
		{"deployment of one by default", "apps/v1 Deployment", "status: {replicas: 1, updatedReplicas: 1}", "0 of 1 replica is available"},
		{"deployment paused", "apps/v1 Deployment", "spec: {paused: true}", "0 of 1 replica is updated, and it is paused"},
		{"deployment over its deadline", "apps/v1 Deployment",
			"status: {updatedReplicas: 1, replicas: 1, conditions: [{type: Progressing, status: 'False', reason: ProgressDeadlineExceeded, message: took long}]}",
			"0 of 1 replica is available: its condition Progressing is False (ProgressDeadlineExceeded): took long"},
		{"deployment without rights to pods", "apps/v1 Deployment", "status: {conditions: [{type: ReplicaFailure, status: 'True', reason: FailedCreate, message: quota}]}",
			"0 of 1 replica is updated: its condition ReplicaFailure is True (FailedCreate): quota"},
		{"deployment of none", "apps/v1 Deployment", "spec: {replicas: 0}", ""},
		{"deployment ready", "apps/v1 Deployment", "metadata: {generation: 3}\nspec: {replicas: 2}\nstatus: {observedGeneration: 3, replicas: 2, updatedReplicas: 2, availableReplicas: 2}", ""},
		{"deployment being deleted", "apps/v1 Deployment", "metadata: {deletionTimestamp: '2026-01-01T00:00:00Z', finalizers: [a/b, c/d]}\nspec: {replicas: 0}",
			"it is being deleted, held by finalizers a/b, c/d"},

		{"statefulset not updated", "apps/v1 StatefulSet", "spec: {replicas: 3}\nstatus: {updatedReplicas: 1, availableReplicas: 3}", "1 of 3 replicas are updated"},
		{"statefulset with partition", "apps/v1 StatefulSet",
			"spec: {replicas: 3, updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 2}}}\nstatus: {updatedReplicas: 1, availableReplicas: 3}", ""},
		{"statefulset updated by hand", "apps/v1 StatefulSet", "spec: {updateStrategy: {type: OnDelete}}\nstatus: {availableReplicas: 1}", ""},
		{"statefulset not available", "apps/v1 StatefulSet", "spec: {replicas: 2}\nstatus: {updatedReplicas: 2}", "0 of 2 replicas are available"},
		{"daemonset not observed", "apps/v1 DaemonSet", "metadata: {generation: 1}", "its controller has not seen the latest change yet"},
		{"daemonset without nodes", "apps/v1 DaemonSet", "status: {desiredNumberScheduled: 0}", ""},
		{"daemonset not updated", "apps/v1 DaemonSet", "status: {desiredNumberScheduled: 3, updatedNumberScheduled: 2, numberAvailable: 3}", "the pods of 2 of 3 nodes are updated"},
		{"daemonset not available", "apps/v1 DaemonSet", "status: {desiredNumberScheduled: 3, updatedNumberScheduled: 3, numberAvailable: 1}", "the pods of 1 of 3 nodes are available"},
		{"replicaset not available", "apps/v1 ReplicaSet", "spec: {replicas: 2}", "0 of 2 replicas are available"},
		{"replicaset ready", "apps/v1 ReplicaSet", "spec: {replicas: 0}", ""},

		{"job at work", "batch/v1 Job", "spec: {completions: 3}\nstatus: {succeeded: 1}", "1 of 3 completions are done"},
		{"job suspended", "batch/v1 Job", "spec: {suspend: true}", "it is suspended"},
		{"job failed", "batch/v1 Job", "status: {conditions: [{type: Failed, status: 'True', reason: BackoffLimitExceeded, message: reached}]}", "it has failed (BackoffLimitExceeded): reached"},
		{"job complete", "batch/v1 Job", "status: {conditions: [{type: Complete, status: 'True'}]}", ""},

		{"pod new", "v1 Pod", "{}", "it is not ready yet"},
		{"pod not scheduled", "v1 Pod", "status: {conditions: [{type: PodScheduled, status: 'False', reason: Unschedulable, message: no nodes}]}", "it is not scheduled: no nodes"},
		{"pod without image", "v1 Pod", "status: {containerStatuses: [{name: main, state: {waiting: {reason: ImagePullBackOff}}}]}", "its container main is waiting: ImagePullBackOff"},
		{"pod failed", "v1 Pod", "status: {phase: Failed, reason: Evicted}", "it has failed: Evicted"},
		{"pod done", "v1 Pod", "status: {phase: Succeeded}", ""},
		{"pod ready", "v1 Pod", "status: {phase: Running, conditions: [{type: Ready, status: 'True'}]}", ""},

		{"namespace terminating", "v1 Namespace", "status: {phase: Terminating}", "it is Terminating, not Active"},
		{"namespace active", "v1 Namespace", "status: {phase: Active}", ""},
		{"service", "v1 Service", "spec: {type: LoadBalancer}", ""},
		{"claim pending", "v1 PersistentVolumeClaim", "status: {phase: Pending}", ""},
		{"claim lost", "v1 PersistentVolumeClaim", "status: {phase: Lost}", "its volume is lost"},

		{"crd new", "apiextensions.k8s.io/v1 CustomResourceDefinition", "{}", "it is not established yet"},
		{"crd with taken names", "apiextensions.k8s.io/v1 CustomResourceDefinition",
			"status: {conditions: [{type: NamesAccepted, status: 'False', reason: PluralConflict, message: foos is in use}]}", "its names are not accepted: foos is in use"},
		{"crd established", "apiextensions.k8s.io/v1 CustomResourceDefinition", "status: {conditions: [{type: NamesAccepted, status: 'True'}, {type: Established, status: 'True'}]}", ""},
		{"api service new", "apiregistration.k8s.io/v1 APIService", "{}", "its condition Available is not reported yet"},
		{"api service down", "apiregistration.k8s.io/v1 APIService", "status: {conditions: [{type: Available, status: 'False', reason: MissingEndpoints, message: none}]}",
			"its condition Available is False (MissingEndpoints): none"},
		{"certificate of an earlier generation", "cert-manager.io/v1 Certificate", "metadata: {generation: 2}\nstatus: {conditions: [{type: Ready, status: 'True', observedGeneration: 1}]}",
			"its condition Ready is not reported for its latest change yet"},
		{"certificate ready", "cert-manager.io/v1 Certificate", "metadata: {generation: 2}\nstatus: {conditions: [{type: Ready, status: 'True', observedGeneration: 2}]}", ""},

		{"any kind without conditions", "example.com/v1 Gadget", "{}", ""},
		{"any kind not ready", "example.com/v1 Gadget", "metadata: {generation: 1}\nstatus: {conditions: [{type: Ready, status: 'False', reason: Broken, message: \"two\\nlines\", observedGeneration: 1}]}",
			"its condition Ready is False (Broken): two lines"},
		{"any kind not available", "example.com/v1 Gadget", "status: {conditions: [{type: Available, status: 'False'}]}", "its condition Available is False"},
		{"any kind not ready before", "example.com/v1 Gadget", "metadata: {generation: 2}\nstatus: {conditions: [{type: Ready, status: 'False', observedGeneration: 1}]}", ""},
		{"any kind not ready before by its status", "example.com/v1 Gadget", "metadata: {generation: 2}\nstatus: {observedGeneration: 1, conditions: [{type: Ready, status: 'False'}]}", ""},
		{"any kind unknown", "example.com/v1 Gadget", "status: {conditions: [{type: Ready, status: Unknown}]}", ""},
		{"any kind with odd conditions", "example.com/v1 Gadget", "status: {conditions: [7, {type: 8}]}", ""},
		{"any kind with an odd status", "example.com/v1 Gadget", "status: fine", ""},
	}
	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			u := builder.FromYAML("apiVersion: x\nkind: x\n")
			setKind(u, test.kind)
			for key, value := range builder.FromYAML("apiVersion: x\nkind: x\n" + unlessEmpty(test.content)).Object {
				if key != "apiVersion" && key != "kind" {
					u.Object[key] = value
				}
			}
			got := builtInProbe(u)
			if got.Message != test.message || got.Ready != (test.message == "") {
				t.Errorf("got ready %t, message:\n got %s\nwant %s", got.Ready, got.Message, test.message)
			}
		})
	}
}

func setKind(u *unstructured.Unstructured, versionAndKind string) {
	for i := range versionAndKind {
		if versionAndKind[i] == ' ' {
			u.SetAPIVersion(versionAndKind[:i])
			u.SetKind(versionAndKind[i+1:])
		}
	}
}

func unlessEmpty(content string) string {
	if content == "{}" {
		return ""
	}
	return content
}

// A pending claim is ready by the built-in probe of its kind, so that the failing assertion of the revision is reported.
func TestProbeFailureOfPendingClaim(t *testing.T) {
	probes, err := CompileProbes([]olmv1.ProgressionProbe{{
		Selector: selectKind("", "PersistentVolumeClaim"),
		Assertions: []olmv1.ProbeAssertion{{
			Type: olmv1.ProbeAssertionTypeFieldValue, FieldValue: &olmv1.FieldValueProbe{FieldPath: "status.phase", Value: "Bound"},
		}},
	}})
	if err != nil {
		t.Fatal(err)
	}

	for phase, want := range map[string]string{
		"{phase: Pending}": `Object PersistentVolumeClaim.v1 ns/data: value at key "status.phase" != "Bound"; expected: "Bound" got: "Pending"`,
		"{}":               `Object PersistentVolumeClaim.v1 ns/data: missing key: "status.phase"`,
		"{phase: Bound}":   "",
	} {
		claim := builder.FromYAML("apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {namespace: ns, name: data}\nstatus: " + phase)
		if got := probes.Probe(claim); got.Failure != want || got.Ready != (want == "") {
			t.Errorf("status %s: got ready %t, failure:\n got %s\nwant %s", phase, got.Ready, got.Failure, want)
		}
	}
}

func TestProgressionProbes(t *testing.T) {
	condition := func(name, status string) olmv1.ProbeAssertion {
		return olmv1.ProbeAssertion{Type: olmv1.ProbeAssertionTypeConditionEqual, ConditionEqual: &olmv1.ConditionEqualProbe{Type: name, Status: status}}
	}
	fields := func(a, b string) olmv1.ProbeAssertion {
		return olmv1.ProbeAssertion{Type: olmv1.ProbeAssertionTypeFieldsEqual, FieldsEqual: &olmv1.FieldsEqualProbe{FieldA: a, FieldB: b}}
	}
	value := func(path, wanted string) olmv1.ProbeAssertion {
		return olmv1.ProbeAssertion{Type: olmv1.ProbeAssertionTypeFieldValue, FieldValue: &olmv1.FieldValueProbe{FieldPath: path, Value: wanted}}
	}
	u := builder.FromYAML(`
apiVersion: example.com/v1
kind: Gadget
metadata: {namespace: ns, name: one, generation: 2, labels: {tier: front}}
spec: {replicas: 2, weight: 1.5, enabled: true, list: [1], name: x}
status:
  readyReplicas: 2
  floatReplicas: 2.0
  updated: 1
  list: [1]
  conditions:
  - {type: Synced, status: "True", observedGeneration: 2}
  - {type: Old, status: "True", observedGeneration: 1}
`)

	cases := []struct {
		name      string
		assertion olmv1.ProbeAssertion
		message   string
	}{
		{"condition holds", condition("Synced", "True"), ""},
		{"condition differs", condition("Synced", "False"), "its condition Synced is True"},
		{"condition of an earlier generation", condition("Old", "True"), "its condition Old is not reported for its latest change yet"},
		{"condition absent", condition("None", "True"), "its condition None is not reported yet"},
		{"fields equal", fields("spec.replicas", ".status.readyReplicas"), ""},
		{"fields equal as numbers", fields("spec.replicas", "status.floatReplicas"), ""},
		{"lists equal", fields("spec.list", "status.list"), ""},
		{"fields differ", fields("spec.replicas", "status.updated"), `its fields spec.replicas and status.updated differ: "2" and "1"`},
		{"both fields absent", fields("spec.no", "status.no"), "its field spec.no is not set"},
		{"one field absent", fields("spec.replicas", "status.no"), "its field status.no is not set"},
		{"string", value("spec.name", "x"), ""},
		{"integer", value("spec.replicas", "2"), ""},
		{"fraction", value("spec.weight", "1.5"), ""},
		{"boolean", value("spec.enabled", "true"), ""},
		{"other value", value("spec.name", "y"), `its field spec.name is "x", not "y"`},
		{"list is not a value", value("spec.list", "[1]"), `its field spec.list is not a single value, not "[1]"`},
		{"path through a scalar", value("spec.name.more", "x"), "its field spec.name.more is not set"},
	}

	// Scripts match these texts.
	failures := map[string]string{
		"other value":           `Object Gadget.example.com/v1 ns/one: value at key "spec.name" != "y"; expected: "y" got: "x"`,
		"list is not a value":   `Object Gadget.example.com/v1 ns/one: value at key "spec.list" != "[1]"; expected: "[1]" got: not a single value`,
		"path through a scalar": `Object Gadget.example.com/v1 ns/one: missing key: "spec.name.more"`,
	}
	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			probes, err := CompileProbes([]olmv1.ProgressionProbe{{
				Selector:   selectKind("example.com", "Gadget"),
				Assertions: []olmv1.ProbeAssertion{test.assertion},
			}})
			if err != nil {
				t.Fatal(err)
			}

			got := probes.Probe(u)
			if want := failures[test.name]; got.Failure != want {
				t.Errorf("failure:\n got %s\nwant %s", got.Failure, want)
			}
			if got.Message != test.message || got.Ready != (test.message == "") {
				t.Errorf("got ready %t, message:\n got %s\nwant %s", got.Ready, got.Message, test.message)
			}
		})
	}
}
