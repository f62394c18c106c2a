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

	"github.com/mainstay-dev/mainstay/internal/excerpt"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// maxNamedPods limits the pods that a message names.
const maxNamedPods = 5

// evictionTimeout limits one eviction request. Without it, the client would retry for minutes when the API server asks
// it to, and block a worker.
const evictionTimeout = 10 * time.Second

// podPageSize is the number of pods in one page of a list.
const podPageSize = 500

// mustEvict reports whether a drain evicts a pod: all pods but static pods and those of DaemonSets. Pods without a
// controller, and pods with local storage, are evicted too.
func mustEvict(pod *corev1.Pod) bool {
	if _, isStatic := pod.Annotations[corev1.MirrorPodAnnotationKey]; isStatic {
		return false
	}
	owner := metav1.GetControllerOf(pod)
	return owner == nil || owner.Kind != "DaemonSet"
}

// listPodsToEvict returns the pods of a node that a drain still has to evict.
func listPodsToEvict(ctx context.Context, reader client.Reader, node string) ([]corev1.Pod, error) {
	var pods []corev1.Pod
	options := &client.ListOptions{Limit: podPageSize}
	client.MatchingFields{"spec.nodeName": node}.ApplyToList(options)
	for {
		var list corev1.PodList
		if err := reader.List(ctx, &list, options); err != nil {
			return nil, fmt.Errorf("listing the pods of node %q: %w", node, err)
		}

		for i := range list.Items {
			if mustEvict(&list.Items[i]) {
				pods = append(pods, list.Items[i])
			}
		}

		if list.Continue == "" {
			return pods, nil
		}

		options.Continue = list.Continue
	}
}

// refusedEviction is a pod that could not be evicted, and the reason.
type refusedEviction struct{ pod, why string }

// evictPods evicts pods through the API server, and returns those whose budgets do not allow it. It skips pods that are
// terminating.
func evictPods(ctx context.Context, c client.Client, pods []corev1.Pod) ([]refusedEviction, error) {
	var refused []refusedEviction
	for i := range pods {
		pod := &pods[i]
		if pod.DeletionTimestamp != nil {
			continue
		}

		eviction := &policyv1.Eviction{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
			// Evict the listed pod, not a newer one with the same name.
			DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))},
		}
		one, cancel := context.WithTimeout(ctx, evictionTimeout)
		err := c.SubResource("eviction").Create(one, pod, eviction)
		cancel()
		switch {
		case reconcile.IgnoreStale(err) == nil:
			// The pod is evicted, or a new pod with the same name has replaced it.
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case isTerminating(err):
			// The pod goes with its namespace.
		default:
			refused = append(refused, refusedEviction{pod: pod.Namespace + "/" + pod.Name, why: evictionRefusalReason(err)})
		}
	}

	slices.SortFunc(refused, func(a, b refusedEviction) int { return cmp.Compare(a.pod, b.pod) })
	return refused, nil
}

func isTerminating(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// evictionRefusalReason returns why an eviction was refused: the message of the budget, if there is one.
func evictionRefusalReason(err error) string {
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

// describeRemainingPods returns a description of the pods that block a drain.
func describeRemainingPods(going int, refused []refusedEviction) string {
	var refusals, said []string
	for _, b := range refused {
		refusals = append(refusals, fmt.Sprintf("pod %s cannot be evicted: %s", b.pod, b.why))
	}

	if len(refusals) > 0 {
		said = append(said, excerpt.Join(refusals, maxNamedPods, "; ", "; and "))
	}
	if left := going - len(refused); left > 0 {
		said = append(said, fmt.Sprintf("%d pods have not ended yet", left))
	}

	return strings.Join(said, "; ")
}
