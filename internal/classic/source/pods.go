package source

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/classic/source/objects"
)

// Termination grace periods in seconds. Pods of catalogs need no graceful shutdown.
const (
	replacedPodGraceSeconds = 1
	failedPodGraceSeconds   = 0
)

// podPlan says what to do with the pods of a catalog.
type podPlan struct {
	remove, replace []corev1.Pod
	// keep is the pod that serves. If it is nil, a pod has to be created.
	keep *corev1.Pod
}

func (p podPlan) isComplete() bool { return len(p.remove) == 0 && len(p.replace) == 0 && p.keep != nil }

// planPodChanges compares the pods that serve a catalog with the desired pod. Of several matching
// pods it keeps the newest, which was created to replace the others.
func planPodChanges(pods []corev1.Pod, want *corev1.Pod) podPlan {
	var plan podPlan
	var matching []corev1.Pod
	for _, pod := range pods {
		switch objects.JudgePod(&pod, want) {
		case objects.Keep:
			matching = append(matching, pod)
		case objects.Replace:
			plan.replace = append(plan.replace, pod)
		case objects.Remove:
			plan.remove = append(plan.remove, pod)
		case objects.Ignore:
		}
	}

	slices.SortFunc(matching, compareNewestFirst)
	if len(matching) > 0 {
		plan.keep = &matching[0]
		plan.replace = append(plan.replace, matching[1:]...)
	}

	return plan
}

// compareNewestFirst orders pods by age. Of pods created in the same second, one that was
// created by a poll is newer.
func compareNewestFirst(a, b corev1.Pod) int {
	if order := b.CreationTimestamp.Compare(a.CreationTimestamp.Time); order != 0 {
		return order
	}

	_, polledA := a.Labels[objects.LabelUpdate]
	_, polledB := b.Labels[objects.LabelUpdate]
	switch {
	case polledA == polledB:
		return 0
	case polledA:
		return -1
	}

	return 1
}

// podWriter lists, creates and deletes the pods of catalogs.
type podWriter struct{ objectWriter }

// listOwnedPods returns the pods that a catalog owns and that have its name in a label.
func (w podWriter) listOwnedPods(ctx context.Context, reader client.Reader, c *objects.Catalog, label string) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := reader.List(ctx, &list, client.InNamespace(c.Namespace), client.MatchingLabels{label: c.Name}); err != nil {
		return nil, fmt.Errorf("listing the pods: %w", err)
	}
	owner := c.Owner()
	return slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return !objects.IsOwnedBy(&pod, owner) }), nil
}

func (w podWriter) deletePods(ctx context.Context, grace int64, pods []corev1.Pod) error {
	for i := range pods {
		pod := &pods[i]
		err := w.client.Delete(ctx, pod, client.GracePeriodSeconds(grace), client.Preconditions{UID: &pod.UID})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting pod %q: %w", pod.Name, err)
		}
	}

	return nil
}
