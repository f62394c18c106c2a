package source

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/classic/source/objects"
)

// Grace periods of pods that are deleted, in seconds. A catalog has nothing to bring to an end.
const (
	graceReplaced = 1
	graceGone     = 0
)

// podPlan is what is to be done about the pods of a catalog.
type podPlan struct {
	bury, replace []corev1.Pod
	// keep is the pod that serves. Nil means that one is to be made.
	keep *corev1.Pod
}

func (p podPlan) isEmpty() bool { return len(p.bury) == 0 && len(p.replace) == 0 && p.keep != nil }

// planPods compares the pods that serve a catalog with the one that is meant to be. Of several
// that are right the newest stays: the others are what it was to replace.
func planPods(pods []corev1.Pod, want *corev1.Pod) podPlan {
	var plan podPlan
	var right []corev1.Pod
	for _, pod := range pods {
		switch objects.JudgePod(&pod, want) {
		case objects.Keep:
			right = append(right, pod)
		case objects.Replace:
			plan.replace = append(plan.replace, pod)
		case objects.Bury:
			plan.bury = append(plan.bury, pod)
		case objects.Leave:
		}
	}

	slices.SortFunc(right, newestFirst)
	if len(right) > 0 {
		plan.keep = &right[0]
		plan.replace = append(plan.replace, right[1:]...)
	}

	return plan
}

// newestFirst orders pods. One that was run to show an image is newer than one of the same second.
func newestFirst(a, b corev1.Pod) int {
	if order := b.CreationTimestamp.Compare(a.CreationTimestamp.Time); order != 0 {
		return order
	}

	_, showedA := a.Labels[objects.LabelUpdate]
	_, showedB := b.Labels[objects.LabelUpdate]
	switch {
	case showedA == showedB:
		return 0
	case showedA:
		return -1
	}

	return 1
}

// ensurePod has one pod serve a catalog. It gives since when that is there.
func (r *reconciler) ensurePod(ctx context.Context, c *objects.Catalog) (metav1.Time, error) {
	want, err := c.Pod()
	if err != nil {
		return metav1.Time{}, err
	}

	pods, err := r.pods(ctx, r.client, c, objects.LabelCatalog)
	if err != nil {
		return metav1.Time{}, err
	}

	plan := planPods(pods, want)
	if plan.isEmpty() {
		return plan.keep.CreationTimestamp, nil
	}
	// What was just made may not have been seen yet.
	if pods, err = r.pods(ctx, r.reader, c, objects.LabelCatalog); err != nil {
		return metav1.Time{}, err
	}

	plan = planPods(pods, want)
	if err := r.deletePods(ctx, graceGone, plan.bury); err != nil {
		return metav1.Time{}, err
	}
	if err := r.deletePods(ctx, graceReplaced, plan.replace); err != nil {
		return metav1.Time{}, err
	}

	if plan.keep == nil {
		if err := r.create(ctx, want); err != nil {
			return metav1.Time{}, fmt.Errorf("making the pod: %w", err)
		}
		r.failedPolls.forget(client.ObjectKeyFromObject(c.CatalogSource)) // They were of the one before.
		plan.keep = want
	}

	return plan.keep.CreationTimestamp, nil
}

// pods returns the pods of a catalog that have its name in a label.
func (r *reconciler) pods(ctx context.Context, reader client.Reader, c *objects.Catalog, label string) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := reader.List(ctx, &list, client.InNamespace(c.Namespace), client.MatchingLabels{label: c.Name}); err != nil {
		return nil, fmt.Errorf("listing the pods: %w", err)
	}
	owner := c.Owner()
	return slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return !objects.IsOwnedBy(&pod, owner) }), nil
}

func (r *reconciler) deletePods(ctx context.Context, grace int64, pods []corev1.Pod) error {
	for i := range pods {
		pod := &pods[i]
		err := r.client.Delete(ctx, pod, client.GracePeriodSeconds(grace), client.Preconditions{UID: &pod.UID})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting pod %q: %w", pod.Name, err)
		}
	}

	return nil
}
