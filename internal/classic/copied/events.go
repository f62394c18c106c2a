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

// reasonDisabled is the reason of the event that explains missing copies to users.
const reasonDisabled = "DisabledCopiedCSVs"

// disabledEvents creates one event for each ClusterServiceVersion that is not copied because copies are disabled.
type disabledEvents struct {
	client client.Client
	clock  clock.PassiveClock

	mu sync.Mutex
	// states has for each ClusterServiceVersion whether its event exists.
	states map[types.NamespacedName]eventState
}

type eventState struct {
	uid    types.UID
	exists bool
}

// ensureEvent creates or deletes the event of a ClusterServiceVersion. csv is nil when it was deleted: its events expire
// by themselves.
func (n *disabledEvents) ensureEvent(ctx context.Context, key types.NamespacedName, csv *v1alpha1.ClusterServiceVersion, disabled bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if csv == nil {
		delete(n.states, key)
		return nil
	}
	if _, hasTargets := csv.Annotations[csvinfo.AnnotationTargetNamespaces]; !hasTargets || csvinfo.IsUncopiable(csv) {
		return nil
	}

	wanted := eventState{uid: csv.UID, exists: disabled && watchesAllNamespaces(csv)}
	current, ok := n.states[key]
	if ok && current == wanted || !ok && !watchesAllNamespaces(csv) {
		return nil
	}

	event := n.newEvent(csv)
	if wanted.exists {
		if err := n.client.Create(ctx, event); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating the event that ClusterServiceVersion %s is not copied: %w", key, err)
		}
	} else if err := n.client.Delete(ctx, event); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the event that ClusterServiceVersion %s is not copied: %w", key, err)
	}

	n.states[key] = wanted
	return nil
}

// newEvent returns the event for a ClusterServiceVersion. Its fixed name ensures that there is only one.
func (n *disabledEvents) newEvent(csv *v1alpha1.ClusterServiceVersion) *corev1.Event {
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
