package copied

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// reasonDisabled is the reason of the event that tells people where the copies are gone.
const reasonDisabled = "DisabledCopiedCSVs"

// notices tells, by one event for each ClusterServiceVersion of an operator that watches all namespaces,
// that it is not copied.
type notices struct {
	client client.Client
	clock  clock.PassiveClock

	mu sync.Mutex
	// told says for each ClusterServiceVersion whether the event is there.
	told map[types.NamespacedName]notice
}

type notice struct {
	uid     types.UID
	isThere bool
}

// settle makes or deletes the event of a ClusterServiceVersion, nil for one that is gone, whose events
// end by themselves.
func (n *notices) settle(ctx context.Context, key types.NamespacedName, csv *v1alpha1.ClusterServiceVersion, disabled bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if csv == nil {
		delete(n.told, key)
		return nil
	}
	if _, hasTargets := csv.Annotations[csvinfo.AnnotationTargetNamespaces]; !hasTargets || csvinfo.IsUncopiable(csv) {
		return nil
	}

	wanted := notice{uid: csv.UID, isThere: disabled && isGlobal(csv)}
	told, ok := n.told[key]
	if ok && told == wanted || !ok && !isGlobal(csv) {
		return nil
	}

	event := n.event(csv)
	if wanted.isThere {
		if err := n.client.Create(ctx, event); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("telling that ClusterServiceVersion %s is not copied: %w", key, err)
		}
	} else if err := n.client.Delete(ctx, event); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the event that ClusterServiceVersion %s is not copied: %w", key, err)
	}

	n.told[key] = wanted
	return nil
}

// event has a name of its own, so that there is one.
func (n *notices) event(csv *v1alpha1.ClusterServiceVersion) *corev1.Event {
	now := metav1.NewTime(n.clock.Now())
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: csv.Namespace, Name: csv.Name + ".copies-" + csvinfo.TextHash(string(csv.UID))},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.ClusterServiceVersionKind,
			Namespace: csv.Namespace, Name: csv.Name, UID: csv.UID, ResourceVersion: csv.ResourceVersion,
		},
		Type: corev1.EventTypeWarning, Reason: reasonDisabled, Message: fmt.Sprintf("CSV copying disabled for %s/%s", csv.Namespace, csv.Name),
		Source:         corev1.EventSource{Component: "operator-lifecycle-manager"},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
}
