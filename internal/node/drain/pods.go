package drain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maxNamed is how many pods a message names.
const maxNamed = 5

// evictTime is how long one request to evict may take: the client tries by itself for minutes where
// the API server asks it to, and holds up all other nodes.
const evictTime = 10 * time.Second

// page is how many pods are read at once.
const page = 500

// leaves reports whether a pod is moved away from a node: all are but those that come back to the
// node by themselves. Pods of nobody, and pods with data of their own on the node, are moved too.
func leaves(pod *corev1.Pod) bool {
	if _, isStatic := pod.Annotations[corev1.MirrorPodAnnotationKey]; isStatic {
		return false
	}
	owner := metav1.GetControllerOf(pod)
	return owner == nil || owner.Kind != "DaemonSet"
}

// podsToMove returns the pods of a node that are still to go.
func podsToMove(ctx context.Context, reader client.Reader, node string) ([]corev1.Pod, error) {
	var pods []corev1.Pod
	options := &client.ListOptions{Limit: page}
	client.MatchingFields{"spec.nodeName": node}.ApplyToList(options)
	for {
		var list corev1.PodList
		if err := reader.List(ctx, &list, options); err != nil {
			return nil, fmt.Errorf("listing the pods of node %q: %w", node, err)
		}

		for i := range list.Items {
			if leaves(&list.Items[i]) {
				pods = append(pods, list.Items[i])
			}
		}

		if list.Continue == "" {
			return pods, nil
		}

		options.Continue = list.Continue
	}
}

// blocked is a pod that could not be evicted, and why.
type blocked struct{ pod, why string }

// evict asks the API server to evict pods, which it does as far as their budgets allow, and gives
// those that it refuses. Those that are going already are left to go.
func evict(ctx context.Context, c client.Client, pods []corev1.Pod) ([]blocked, error) {
	var refused []blocked
	for i := range pods {
		pod := &pods[i]
		if pod.DeletionTimestamp != nil {
			continue
		}

		eviction := &policyv1.Eviction{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
			// The one that was listed, not one of its name that came since.
			DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))},
		}
		one, cancel := context.WithTimeout(ctx, evictTime)
		err := c.SubResource("eviction").Create(one, pod, eviction)
		cancel()
		switch {
		case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err):
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case isTerminating(err):
			// Its namespace goes, and it goes with it.
		default:
			refused = append(refused, blocked{pod: pod.Namespace + "/" + pod.Name, why: reasonOf(err)})
		}
	}

	slices.SortFunc(refused, func(a, b blocked) int { return cmp.Compare(a.pod, b.pod) })
	return refused, nil
}

func isTerminating(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// reasonOf says why an eviction was refused: the budget that refuses it, where there is one.
func reasonOf(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil {
		for _, cause := range status.Status().Details.Causes {
			if cause.Type == policyv1.DisruptionBudgetCause {
				return cause.Message
			}
		}
	}

	return err.Error()
}

// describe names what stands in the way of a drain.
func describe(going int, refused []blocked) string {
	var said []string
	for _, b := range refused[:min(len(refused), maxNamed)] {
		said = append(said, fmt.Sprintf("pod %s cannot be evicted: %s", b.pod, b.why))
	}

	if more := len(refused) - maxNamed; more > 0 {
		said = append(said, fmt.Sprintf("%d more cannot be evicted", more))
	}
	if left := going - len(refused); left > 0 {
		said = append(said, fmt.Sprintf("%d pods have not ended yet", left))
	}

	return strings.Join(said, "; ")
}
