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

// pod is a pod on a node, in words: what a test changes of it stands in the options.
func pod(options ...func(*corev1.Pod)) *corev1.Pod {
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

func told(behavior string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Annotations = map[string]string{BehaviorAnnotation: behavior} }
}

func running(ready corev1.ConditionStatus) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
	}
}

func waiting(reason string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{
			{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}},
		}
	}
}

func ended(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Status.Phase = phase }
}

func ownedBy(kind string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "owner"}} }
}

func restarts(policy corev1.RestartPolicy) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.RestartPolicy = policy }
}

func deleted(pod *corev1.Pod) {
	pod.DeletionTimestamp = &metav1.Time{Time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
}

func TestWhichStageAPodIsIn(t *testing.T) {
	const (
		yes = corev1.ConditionTrue
		no  = corev1.ConditionFalse
	)
	for _, test := range []struct {
		name string
		pod  *corev1.Pod
		want string // "" when the pod is where it belongs
	}{
		{"new", pod(), "pod-ready"},
		{"ready", pod(running(yes)), ""},
		{"new, told something unknown", pod(told("dance")), "pod-ready"},
		{"deleted", pod(running(yes), deleted), "pod-ends"},
		{"deleted while it crashes", pod(running(no), told(Fail), waiting("CrashLoopBackOff"), deleted), "pod-ends"},

		{"new, told to be unready", pod(told(Unready)), "pod-unready"},
		{"unready", pod(running(no), told(Unready)), ""},
		{"told to be unready when it is ready", pod(running(yes), told(Unready)), "pod-becomes-unready"},
		{"told nothing any more when it is unready", pod(running(no)), "pod-ready"},

		{"new, told to fail", pod(told(Fail)), "pod-crashes"},
		{"told to fail when it is ready", pod(running(yes), told(Fail)), "pod-crashes"},
		{"crashing", pod(running(no), told(Fail), waiting("CrashLoopBackOff")), ""},
		{"told nothing any more when it crashes", pod(running(no), waiting("CrashLoopBackOff")), "pod-ready"},
		{"new, told to fail, not restarted", pod(told(Fail), restarts(corev1.RestartPolicyNever)), "pod-fails"},
		{"failed", pod(told(Fail), restarts(corev1.RestartPolicyNever), ended(corev1.PodFailed)), ""},
		{"told nothing any more when it has failed", pod(ended(corev1.PodFailed)), ""},

		{"of a Job, new", pod(ownedBy("Job")), "pod-ready"},
		{"of a Job, ready", pod(running(yes), ownedBy("Job")), "pod-completes"},
		{"of a Job, complete", pod(ended(corev1.PodSucceeded), ownedBy("Job")), ""},
		{"of a Job, told to be unready", pod(told(Unready), ownedBy("Job")), "pod-unready"},
		{
			"of a Job, told to fail, restarted by its kubelet",
			pod(told(Fail), ownedBy("Job"), restarts(corev1.RestartPolicyOnFailure)), "pod-fails",
		},
		{"of a ReplicaSet, ready", pod(running(yes), ownedBy("ReplicaSet")), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			matching := matchingStages(t, test.pod)
			if test.want == "" && len(matching) == 0 || slices.Equal(matching, []string{test.want}) {
				return
			}
			t.Errorf("stages %q, want %q and no other", matching, test.want)
		})
	}
}

// matchingStages returns the names of all stages that apply, each asked alone: kwok chooses one of several by chance.
func matchingStages(t *testing.T, pod *corev1.Pod) []string {
	t.Helper()
	var matching []string
	for _, candidate := range podStages() {
		stage, err := candidate.stage()
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
	all, err := stages()
	if err != nil {
		t.Fatal(err)
	}

	for ref, stages := range all {
		if _, err := lifecycle.NewLifecycle(stages); err != nil {
			t.Errorf("%s: %v", ref.Kind, err)
		}
	}

	if len(all) != 2 {
		t.Errorf("stages for %d kinds, want pods and nodes", len(all))
	}
}
