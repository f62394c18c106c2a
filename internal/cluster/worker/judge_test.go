package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/release"
)

// operator returns a ClusterOperator with conditions such as "Available=True" and versions such as "operator@1.0.0".
func operator(parts ...string) *configv1.ClusterOperator {
	o := &configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: "etcd"}}
	for _, part := range parts {
		if name, version, ok := strings.Cut(part, "@"); ok {
			o.Status.Versions = append(o.Status.Versions, configv1.OperandVersion{Name: name, Version: version})
			continue
		}
		kind, status, _ := strings.Cut(part, "=")
		o.Status.Conditions = append(o.Status.Conditions, configv1.ClusterOperatorStatusCondition{Type: kind, Status: metav1.ConditionStatus(status)})
	}

	return o
}

func TestJudgeOperator(t *testing.T) {
	const well = "Available=True Degraded=False Progressing=False operator@2 etcd@3"
	for name, tc := range map[string]struct {
		wanted, reported string
		mode             release.Mode
		want             string
	}{
		"as wanted":                               {"operator@2 etcd@3", well, release.Updating, ""},
		"as wanted, with other work":              {"operator@2", "Available=True Degraded=False Progressing=True operator@2", release.Updating, ""},
		"no versions in the manifest":             {"", well, release.Updating, "ClusterOperatorNoVersions 3 Cluster operator etcd does not declare expected versions"},
		"reports nothing":                         {"operator@2", "", release.Updating, "ClusterOperatorNotAvailable 3 Cluster operator etcd is not available"},
		"not available":                           {"operator@2", "Available=False Degraded=True operator@1", release.Updating, "ClusterOperatorNotAvailable 3 Cluster operator etcd is not available"},
		"not available, initially":                {"operator@2", "Available=Unknown", release.Initializing, "ClusterOperatorNotAvailable 3 Cluster operator etcd is not available"},
		"degraded":                                {"operator@2", "Available=True Degraded=True operator@2", release.Updating, "ClusterOperatorDegraded 2 Cluster operator etcd is degraded"},
		"degraded is missing":                     {"operator@2", "Available=True operator@2", release.Reconciling, "ClusterOperatorDegraded 2 Cluster operator etcd is degraded"},
		"degraded, initially":                     {"operator@2", "Available=True Degraded=True", release.Initializing, "ClusterOperatorDegraded 0 Cluster operator etcd is degraded"},
		"old version":                             {"operator@2", "Available=True Degraded=False operator@1", release.Updating, "ClusterOperatorUpdating 1 Cluster operator etcd is updating versions"},
		"old version, initially":                  {"operator@2", "Available=True Degraded=False operator@1", release.Initializing, ""},
		"one of the versions is old":              {"operator@2 etcd@3", "Available=True Degraded=False operator@2 etcd@1", release.Updating, "ClusterOperatorUpdating 1 Cluster operator etcd is updating versions"},
		"one of the versions is missing":          {"operator@2 etcd@3", "Available=True Degraded=False operator@2", release.Reconciling, "ClusterOperatorUpdating 1 Cluster operator etcd is updating versions"},
		"a version more than the manifest states": {"operator@2", well, release.Updating, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := checkClusterOperator(operator(strings.Fields(tc.wanted)...), operator(strings.Fields(tc.reported)...), tc.mode); err != nil {
				e := toWorkerError(err)
				got = fmt.Sprintf("%s %d %s", e.Reason, e.Effect, e.Message)
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestHasAwaitedChange(t *testing.T) {
	before := operator("Available=True", "Degraded=False", "Progressing=False", "operator@1", "etcd@1")
	for after, want := range map[string]bool{
		"Available=True Degraded=False Progressing=True operator@1 etcd@2":   false,
		"Available=True Degraded=False Progressing=False operator@2 etcd@1":  true,
		"Available=True Degraded=True Progressing=False operator@1 etcd@1":   true,
		"Available=False Degraded=False Progressing=False operator@1 etcd@1": true,
	} {
		if got := hasAwaitedChange(before, operator(strings.Fields(after)...)); got != want {
			t.Errorf("%s: got %v, want %v", after, got, want)
		}
	}
}

func TestJudgeDeployment(t *testing.T) {
	for name, tc := range map[string]struct {
		conditions []appsv1.DeploymentCondition
		want       string
	}{
		"no conditions yet":    {nil, ""},
		"in the middle":        {[]appsv1.DeploymentCondition{{Type: "Available", Status: "False"}, {Type: "Progressing", Status: "True", Reason: "ReplicaSetUpdated"}}, ""},
		"not available alone":  {[]appsv1.DeploymentCondition{{Type: "Available", Status: "False"}}, ""},
		"neither":              {[]appsv1.DeploymentCondition{{Type: "Available", Status: "False", Reason: "A", Message: "a"}, {Type: "Progressing", Status: "False", Reason: "B", Message: "b"}}, "WorkloadNotAvailable deployment ns/a is not available A (a) and not progressing B (b)"},
		"deadline exceeded":    {[]appsv1.DeploymentCondition{{Type: "Available", Status: "False"}, {Type: "Progressing", Status: "False", Reason: "ProgressDeadlineExceeded", Message: "b"}}, "WorkloadNotProgressing deployment ns/a is Progressing=False: ProgressDeadlineExceeded: b"},
		"replicas are refused": {[]appsv1.DeploymentCondition{{Type: "ReplicaFailure", Status: "True", Reason: "FailedCreate", Message: "quota"}}, "WorkloadNotProgressing deployment ns/a has a replica failure FailedCreate: quota"},
	} {
		t.Run(name, func(t *testing.T) {
			deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}, Status: appsv1.DeploymentStatus{Conditions: tc.conditions}}
			got := ""
			if err := checkDeployment(deployment); err != nil {
				got = toWorkerError(err).Reason + " " + err.Error()
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}

	going := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}}
	if err := checkDeployment(going); err == nil || !isTerminalError(err) {
		t.Errorf("being deleted: got error %v, want a terminal one", err)
	}
}

func TestJudgeJob(t *testing.T) {
	for want, conditions := range map[string][]batchv1.JobCondition{
		"": {{Type: batchv1.JobComplete, Status: corev1.ConditionFalse}, {Type: batchv1.JobFailed, Status: corev1.ConditionFalse}},
		"deadline exceeded, reason: DeadlineExceeded, message: m": {{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "DeadlineExceeded", Message: "m"}},
		"job failed, reason: BackoffLimitExceeded, message: m":    {{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "BackoffLimitExceeded", Message: "m"}},
	} {
		if got := errorText(checkJob(&batchv1.Job{Status: batchv1.JobStatus{Conditions: conditions}})); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestJudgeWorkload(t *testing.T) {
	for text, want := range map[string]bool{
		`{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"name":"a","deletionTimestamp":"2026-01-01T00:00:00Z"}}`:                                  false,
		`{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"name":"a"},"status":{"numberUnavailable":3}}`:                                            true,
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"status":{"conditions":[{"type":"ReplicaFailure","status":"True"}]}}`:        false,
		`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"a"},"status":{"active":1}}`:                                                            true,
		`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"a"},"status":{"conditions":[{"type":"Failed","status":"True"}]}}`:                      false,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","deletionTimestamp":"2026-01-01T00:00:00Z"}}`:                                       true,
		`{"apiVersion":"example.com/v1","kind":"Deployment","metadata":{"name":"a"},"status":{"conditions":[{"type":"ReplicaFailure","status":"True"}]}}`: true,
	} {
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON([]byte(text)); err != nil {
			t.Fatal(err)
		}
		kind := u.GroupVersionKind()
		if err := checkWorkload(&item{key: release.Key{Group: kind.Group, Kind: kind.Kind, Name: "a"}}, u); (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// task is the twelfth manifest of 345.
func task(kind, namespace, name string) release.Task {
	u := unstructured.Unstructured{}
	u.SetAPIVersion("v1")
	u.SetKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return release.Task{Manifest: release.Manifest{Object: u}, Number: 12, Total: 345}
}

func TestNewTaskError(t *testing.T) {
	resource := schema.GroupResource{Resource: "deployments"}
	for name, tc := range map[string]struct {
		err                   error
		reason, message, text string
	}{
		"not found":      {apierrors.NewNotFound(resource, "a"), "UpdatePayloadResourceNotFound", ": resource may have been deleted", "some resources could not be updated"},
		"already exists": {apierrors.NewAlreadyExists(resource, "a"), "UpdatePayloadResourceNotFound", ": resource may have been deleted", "some resources could not be updated"},
		"conflict":       {apierrors.NewConflict(resource, "a", nil), "UpdatePayloadResourceConflict", ": someone else is updating this resource", "some resources could not be updated"},
		"timeout":        {apierrors.NewTimeoutError("a", 1), "UpdatePayloadClusterDown", ": the server is down or not responding", "the control plane is down or not responding"},
		"unavailable":    {apierrors.NewServiceUnavailable("a"), "UpdatePayloadClusterDown", ": the server is down or not responding", "the control plane is down or not responding"},
		"no answer":      {syscall.ECONNREFUSED, "UpdatePayloadClusterDown", ": the server is down or not responding", "the control plane is down or not responding"},
		"internal":       {apierrors.NewInternalError(errors.New("a")), "UpdatePayloadClusterError", ": the server is reporting an internal error", "the control plane is reporting an internal error"},
		"invalid":        {apierrors.NewInvalid(schema.GroupKind{}, "a", nil), "UpdatePayloadResourceInvalid", ": the object is invalid, possibly due to local cluster configuration", "some cluster configuration is invalid"},
		"unauthorized":   {apierrors.NewUnauthorized("a"), "UpdatePayloadClusterUnauthorized", ": could not authenticate to the server", "could not authenticate to the server"},
		"forbidden":      {apierrors.NewForbidden(resource, "a", nil), "UpdatePayloadResourceForbidden", ": the server has forbidden updates to this resource", "the server is rejecting updates"},
		"server timeout": {apierrors.NewServerTimeout(resource, "a", 1), "UpdatePayloadClusterOverloaded", ": the server is overloaded and is not accepting updates", "the control plane is overloaded and is not accepting updates"},
		"too many":       {apierrors.NewTooManyRequests("a", 1), "UpdatePayloadClusterOverloaded", ": the server is overloaded and is not accepting updates", "the control plane is overloaded and is not accepting updates"},
		"no such kind":   {&meta.NoKindMatchError{}, "UpdatePayloadResourceTypeMissing", ": the server does not recognize this resource, check extension API servers", "a required extension is not available to update"},
		"anything else":  {errors.New("socket 17"), "UpdatePayloadFailed", "", "the update could not be applied"},
		"a bad manifest": {manifestError{errors.New("it is wrong")}, "UpdatePayloadFailed", ": it is wrong", "the update could not be applied"},
	} {
		t.Run(name, func(t *testing.T) {
			err := newTaskError(task("Deployment", "ns", "name"), fmt.Errorf("writing: %w", tc.err))
			got := toWorkerError(err)
			if want := `Could not update deployment "ns/name" (12 of 345)` + tc.message; got.Reason != tc.reason || got.Message != want || got.Effect != EffectFail {
				t.Errorf("got %q, %q, %d; want %q, %q", got.Reason, got.Message, got.Effect, tc.reason, want)
			}
			if text := summarizeError(got); text != tc.text {
				t.Errorf("got summary %q, want %q", text, tc.text)
			}
			if !errors.Is(err, tc.err) {
				t.Error("got an error without its cause, want it wrapped")
			}
		})
	}
}

func TestSummary(t *testing.T) {
	for want, of := range map[string][2]string{
		"the cluster operator a is degraded":                        {"ClusterOperatorDegraded", "a"},
		"the cluster operator a is not available":                   {"ClusterOperatorNotAvailable", "a"},
		"the cluster operator a does not declare expected versions": {"ClusterOperatorNoVersions", "a"},
		"some cluster operators are not available":                  {"ClusterOperatorsNotAvailable", "a, b"},
		"the workload ns/a has not yet successfully rolled out":     {"WorkloadNotAvailable", "ns/a"},
		"the workload ns/a cannot roll out":                         {"WorkloadNotProgressing", "ns/a"},
		"the contents of the update are invalid":                    {"UpdatePayloadIntegrity", ""},
		"the image may not be safe to use":                          {"ImageVerificationFailed", ""},
		"the update could not be applied":                           {"UpdatePayloadSomething", "a"},
		"a has an unknown error: Other":                             {"Other", "a"},
		"an unknown error has occurred: MultipleErrors":             {"MultipleErrors", ""},
	} {
		if got := Summary(of[0], of[1]); got != want {
			t.Errorf("%v: %q, want %q", of, got, want)
		}
	}
}

func newTestError(reason string, effect Effect, name string, number int) *Error {
	text := map[string]string{
		ReasonOperatorNotAvailable: "is not available", ReasonOperatorDegraded: "is degraded", ReasonOperatorUpdating: "is updating versions",
		ReasonOperatorNoVersions: "does not declare expected versions",
	}[reason]
	return &Error{Reason: reason, Effect: effect, Message: "Cluster operator " + name + " " + text, Names: []string{name}, Number: number}
}

func TestSummarize(t *testing.T) {
	ended := fmt.Errorf("3 of 7 nodes of the task graph were not done: %w", context.DeadlineExceeded)
	forbidden := newTaskError(task("ConfigMap", "ns", "a"), apierrors.NewForbidden(schema.GroupResource{}, "a", nil))
	for name, tc := range map[string]struct {
		errs []error
		want string
	}{
		"nothing":                         {nil, ""},
		"one":                             {[]error{&release.NodeError{Err: forbidden}}, `UpdatePayloadResourceForbidden 3 [ns/a] Could not update configmap "ns/a" (12 of 345): the server has forbidden updates to this resource`},
		"the end of the pass is left out": {[]error{ended, forbidden}, `UpdatePayloadResourceForbidden 3 [ns/a] Could not update configmap "ns/a" (12 of 345): the server has forbidden updates to this resource`},
		"the end of the pass alone":       {[]error{ended}, `UpdatePayloadFailed 3 [] 3 of 7 nodes of the task graph were not done: context deadline exceeded`},
		"two that are not available": {
			[]error{newTestError(ReasonOperatorNotAvailable, EffectFail, "b", 1), newTestError(ReasonOperatorNotAvailable, EffectFail, "a", 2)},
			"ClusterOperatorsNotAvailable 3 [a b] Cluster operators a, b are not available",
		},
		"two degraded, of which one is only reported": {
			[]error{newTestError(ReasonOperatorDegraded, EffectFailAfterInterval, "b", 1), newTestError(ReasonOperatorDegraded, EffectReport, "a", 2)},
			"ClusterOperatorsDegraded 2 [a b] Cluster operators a, b are degraded",
		},
		"two that update": {
			[]error{newTestError(ReasonOperatorUpdating, EffectNone, "b", 1), newTestError(ReasonOperatorUpdating, EffectNone, "a", 2)},
			"ClusterOperatorsUpdating 1 [a b] Cluster operators a, b are updating versions",
		},
		"two without versions": {
			[]error{newTestError(ReasonOperatorNoVersions, EffectFail, "b", 1), newTestError(ReasonOperatorNoVersions, EffectFail, "a", 2)},
			"ClusterOperatorsNoVersions 3 [a b] Cluster operators a, b do not declare expected versions",
		},
		"several": {
			[]error{newTestError(ReasonOperatorUpdating, EffectNone, "b", 1), forbidden, forbidden, newTestError(ReasonOperatorUpdating, EffectNone, "a", 2)},
			"MultipleErrors 3 [] Multiple errors are preventing progress:\n" +
				"* Cluster operators a, b are updating versions\n" +
				`* Could not update configmap "ns/a" (12 of 345): the server has forbidden updates to this resource`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, errs := range [][]error{tc.errs, reverseErrors(tc.errs)} {
				got := ""
				if err := summarizePassErrors(errs); err != nil {
					e := toWorkerError(err)
					got = fmt.Sprintf("%s %d %v %s", e.Reason, e.Effect, e.Names, e.Message)
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			}
		})
	}
}

func reverseErrors(errs []error) []error {
	errs = slices.Clone(errs)
	slices.Reverse(errs)
	return errs
}

func TestJudge(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	updating := newTestError(ReasonOperatorUpdating, EffectNone, "etcd", 1)
	nodes := newTestError(ReasonOperatorUpdating, EffectNone, "machine-config", 2)
	degraded := newTestError(ReasonOperatorDegraded, EffectFailAfterInterval, "dns", 3)
	absent := newTestError(ReasonOperatorNotAvailable, EffectFail, "dns", 4)
	reported := newTestError(ReasonOperatorDegraded, EffectReport, "dns", 3)
	refused := newTaskError(task("ConfigMap", "ns", "a"), apierrors.NewForbidden(schema.GroupResource{}, "a", nil))
	for name, tc := range map[string]struct {
		errs        []error
		minutes     map[string]int
		reconciling bool
		want        Verdict
	}{
		"nothing": {want: Verdict{Failing: "False"}},
		"an update for 29 minutes": {errs: []error{updating}, minutes: map[string]int{"etcd": 29},
			want: Verdict{Failing: "False", ProgressingReason: "ClusterOperatorUpdating", Waiting: "waiting on etcd"}},
		"an update for 31 minutes": {errs: []error{updating}, minutes: map[string]int{"etcd": 31},
			want: Verdict{Failing: "Unknown", Reason: "SlowClusterOperator", Message: "waiting on etcd over 30 minutes which is longer than expected",
				ProgressingReason: "ClusterOperatorUpdating", Waiting: "waiting on etcd over 30 minutes which is longer than expected"}},
		"nodes for 89 minutes": {errs: []error{nodes}, minutes: map[string]int{"machine-config": 89},
			want: Verdict{Failing: "False", ProgressingReason: "ClusterOperatorUpdating", Waiting: "waiting on machine-config"}},
		"nodes for 91 minutes": {errs: []error{nodes}, minutes: map[string]int{"machine-config": 91},
			want: Verdict{Failing: "Unknown", Reason: "SlowClusterOperator", Message: "waiting on machine-config over 90 minutes which is longer than expected",
				ProgressingReason: "ClusterOperatorUpdating", Waiting: "waiting on machine-config over 90 minutes which is longer than expected"}},
		"both": {errs: []error{updating, nodes}, minutes: map[string]int{"etcd": 31, "machine-config": 91},
			want: Verdict{Failing: "Unknown", Reason: "SlowClusterOperator", Message: "waiting on etcd over 30 minutes and machine-config over 90 minutes which is longer than expected",
				ProgressingReason: "ClusterOperatorsUpdating", Waiting: "waiting on etcd over 30 minutes and machine-config over 90 minutes which is longer than expected"}},
		"unknown start times": {errs: []error{updating, nodes},
			want: Verdict{Failing: "False", ProgressingReason: "ClusterOperatorsUpdating", Waiting: "waiting on etcd, machine-config"}},
		"degraded for 39 minutes": {errs: []error{degraded}, minutes: map[string]int{"dns": 39},
			want: Verdict{Failing: "False", ProgressingReason: "ClusterOperatorDegraded", Waiting: "waiting up to 40 minutes on dns"}},
		"degraded for 41 minutes": {errs: []error{degraded}, minutes: map[string]int{"dns": 41},
			want: Verdict{Failing: "True", Reason: "ClusterOperatorDegraded", Message: "Cluster operator dns is degraded",
				ProgressingReason: "ClusterOperatorDegraded", Summary: "wait has exceeded 40 minutes for these operators: dns"}},
		"not available": {errs: []error{absent}, minutes: map[string]int{"dns": 1},
			want: Verdict{Failing: "True", Reason: "ClusterOperatorNotAvailable", Message: "Cluster operator dns is not available",
				ProgressingReason: "ClusterOperatorNotAvailable", Summary: "the cluster operator dns is not available"}},
		"reported": {errs: []error{reported},
			want: Verdict{Failing: "True", Reason: "ClusterOperatorDegraded", Message: "Cluster operator dns is degraded",
				ProgressingReason: "ClusterOperatorDegraded", Summary: "the cluster operator dns is degraded"}},
		"degraded and an update": {errs: []error{degraded, updating}, minutes: map[string]int{"dns": 39, "etcd": 39},
			want: Verdict{Failing: "False", ProgressingReason: "ClusterOperatorDegraded", Waiting: "waiting up to 40 minutes on dns"}},
		"not available and an update": {errs: []error{absent, updating},
			want: Verdict{Failing: "True", Reason: "ClusterOperatorNotAvailable", Message: "Cluster operator dns is not available",
				ProgressingReason: "ClusterOperatorNotAvailable", Summary: "the cluster operator dns is not available"}},
		"two that are wrong and an update": {errs: []error{absent, refused, updating},
			want: Verdict{Failing: "True", Reason: "MultipleErrors",
				Message:           "Multiple errors are preventing progress:\n* Cluster operator dns is not available\n* Could not update configmap \"ns/a\" (12 of 345): the server has forbidden updates to this resource",
				ProgressingReason: "MultipleErrors", Summary: "an unknown error has occurred: MultipleErrors"}},
		"not available and an update, reconciling": {errs: []error{absent, updating}, reconciling: true,
			want: Verdict{Failing: "True", Reason: "MultipleErrors",
				Message:           "Multiple errors are preventing progress:\n* Cluster operator dns is not available\n* Cluster operator etcd is updating versions",
				ProgressingReason: "MultipleErrors", Summary: "an unknown error has occurred: MultipleErrors"}},
		"an update, reconciling": {errs: []error{updating}, minutes: map[string]int{"etcd": 1}, reconciling: true,
			want: Verdict{Failing: "True", Reason: "ClusterOperatorUpdating", Message: "Cluster operator etcd is updating versions",
				ProgressingReason: "ClusterOperatorUpdating", Summary: "etcd has an unknown error: ClusterOperatorUpdating"}},
	} {
		t.Run(name, func(t *testing.T) {
			status := Status{Reconciling: tc.reconciling, Failure: summarizePassErrors(tc.errs), Waiting: map[string]time.Time{}}
			for name, minutes := range tc.minutes {
				status.Waiting[name] = now.Add(-time.Duration(minutes) * time.Minute)
			}
			if diff := cmp.Diff(tc.want, status.Judge(now)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestNextPassDelay(t *testing.T) {
	w := New(Options{ResyncInterval: 160 * time.Second})
	for failures, want := range []time.Duration{160 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 160 * time.Second} {
		w.failures = failures
		for range 100 {
			got := w.nextPassDelay()
			if most := time.Duration(float64(want) * 1.2); got < want || got > most || failures == 0 && got != want {
				t.Fatalf("after %d failures: %s, want between %s and %s", failures, got, want, most)
			}
		}
	}

	for range 100 {
		if period := New(Options{}).period; period < 2*time.Minute || period >= 4*time.Minute {
			t.Fatalf("got period %s, want one from 2 to 4 minutes", period)
		}
	}
}

func TestMaxParallelNodes(t *testing.T) {
	graph := release.Graph{Nodes: make([]release.Node, 100)}
	for mode, want := range map[release.Mode]int{release.Initializing: 100, release.Updating: 16, release.Reconciling: 2} {
		if got := (&pass{mode: mode}).maxParallelNodes(graph); got != want {
			t.Errorf("%s: got %d, want %d", mode, got, want)
		}
		if got := (Status{Initial: mode == release.Initializing, Reconciling: mode == release.Reconciling}).State(); got != mode {
			t.Errorf("got state %s, want %s", got, mode)
		}
	}
}

func TestStatusIsCopy(t *testing.T) {
	w := New(Options{})
	w.progress.waitingSince["a"] = time.Now()
	w.progress.deleting["b"] = true
	w.progress.inFlight[2], w.progress.inFlight[1] = "two", "one"
	status := w.Status()
	clear(status.Waiting)
	if got := slices.Collect(maps.Keys(w.Status().Waiting)); len(got) != 1 {
		t.Errorf("got entries %q after a change of the returned status, want 1", got)
	}
	if diff := cmp.Diff([]string{"one", "two"}, status.Tasks); diff != "" {
		t.Errorf("tasks (-want +got):\n%s", diff)
	}
}
