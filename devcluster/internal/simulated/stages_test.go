package simulated

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/kwok/pkg/apis/internalversion"
	"sigs.k8s.io/kwok/pkg/utils/lifecycle"
)

// newPod returns a pending pod on a node, changed by the options.
func newPod(options ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec:       corev1.PodSpec{NodeName: "node-0", RestartPolicy: corev1.RestartPolicyAlways},
		Status:     corev1.PodStatus{Phase: corev1.PodPending},
	}
	for _, option := range options {
		option(pod)
	}
	return pod
}

func withBehavior(behavior string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Annotations = map[string]string{BehaviorAnnotation: behavior} }
}

func withPhaseRunning(ready corev1.ConditionStatus) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
	}
}

func withWaitingReason(reason string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{
			{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}},
		}
	}
}

func withPhase(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Status.Phase = phase }
}

func withOwnerKind(kind string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "owner"}} }
}

func withRestartPolicy(policy corev1.RestartPolicy) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.RestartPolicy = policy }
}

func withDeletionTimestamp(pod *corev1.Pod) {
	pod.DeletionTimestamp = &metav1.Time{Time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
}

func TestPodStages(t *testing.T) {
	const (
		yes = corev1.ConditionTrue
		no  = corev1.ConditionFalse
	)
	for _, test := range []struct {
		name string
		pod  *corev1.Pod
		want string // "" if no stage applies
	}{
		{"new", newPod(), "pod-ready"},
		{"ready", newPod(withPhaseRunning(yes)), ""},
		{"new, unknown behavior", newPod(withBehavior("dance")), "pod-ready"},
		{"deleted", newPod(withPhaseRunning(yes), withDeletionTimestamp), "pod-ends"},
		{"deleted while it crashes", newPod(withPhaseRunning(no), withBehavior(Fail), withWaitingReason("CrashLoopBackOff"), withDeletionTimestamp), "pod-ends"},

		{"new, annotated unready", newPod(withBehavior(Unready)), "pod-unready"},
		{"unready", newPod(withPhaseRunning(no), withBehavior(Unready)), ""},
		{"ready, annotated unready", newPod(withPhaseRunning(yes), withBehavior(Unready)), "pod-becomes-unready"},
		{"unready, annotation removed", newPod(withPhaseRunning(no)), "pod-ready"},

		{"new, annotated fail", newPod(withBehavior(Fail)), "pod-crashes"},
		{"ready, annotated fail", newPod(withPhaseRunning(yes), withBehavior(Fail)), "pod-crashes"},
		{"crashing", newPod(withPhaseRunning(no), withBehavior(Fail), withWaitingReason("CrashLoopBackOff")), ""},
		{"crashing, annotation removed", newPod(withPhaseRunning(no), withWaitingReason("CrashLoopBackOff")), "pod-ready"},
		{"new, annotated fail, not restarted", newPod(withBehavior(Fail), withRestartPolicy(corev1.RestartPolicyNever)), "pod-fails"},
		{"failed", newPod(withBehavior(Fail), withRestartPolicy(corev1.RestartPolicyNever), withPhase(corev1.PodFailed)), ""},
		{"failed, annotation removed", newPod(withPhase(corev1.PodFailed)), ""},

		{"of a Job, new", newPod(withOwnerKind("Job")), "pod-ready"},
		{"of a Job, ready", newPod(withPhaseRunning(yes), withOwnerKind("Job")), "pod-completes"},
		{"of a Job, complete", newPod(withPhase(corev1.PodSucceeded), withOwnerKind("Job")), ""},
		{"of a Job, annotated unready", newPod(withBehavior(Unready), withOwnerKind("Job")), "pod-unready"},
		{
			"of a Job, annotated fail, restarted by its kubelet",
			newPod(withBehavior(Fail), withOwnerKind("Job"), withRestartPolicy(corev1.RestartPolicyOnFailure)), "pod-fails",
		},
		{"of a ReplicaSet, ready", newPod(withPhaseRunning(yes), withOwnerKind("ReplicaSet")), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			matching := matchingStages(t, test.pod)
			if test.want == "" && len(matching) == 0 || slices.Equal(matching, []string{test.want}) {
				return
			}
			t.Errorf("got stages %q, want only %q", matching, test.want)
		})
	}
}

// matchingStages returns the names of all stages that apply to the pod. It tests each stage alone, because kwok chooses
// one of several at random.
func matchingStages(t *testing.T, pod *corev1.Pod) []string {
	t.Helper()
	var matching []string
	for _, candidate := range podStages() {
		stage, err := candidate.buildStage()
		if err != nil {
			t.Fatal(err)
		}

		alone, err := lifecycle.NewLifecycle([]*internalversion.Stage{stage})
		if err != nil {
			t.Fatal(err)
		}

		matched, err := alone.Match(t.Context(), &lifecycle.Event{
			Labels: pod.Labels, Annotations: pod.Annotations, Data: pod,
		})
		if err != nil {
			t.Fatal(err)
		}
		if matched != nil {
			matching = append(matching, candidate.name)
		}
	}

	return matching
}

func TestStagesLoad(t *testing.T) {
	all, err := loadStages()
	if err != nil {
		t.Fatal(err)
	}

	for ref, stages := range all {
		if _, err := lifecycle.NewLifecycle(stages); err != nil {
			t.Errorf("%s: %v", ref.Kind, err)
		}
	}

	if len(all) != 2 {
		t.Errorf("got stages for %d kinds, want pods and nodes", len(all))
	}
}
