package daemon

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	"github.com/mainstay-dev/mainstay/internal/excerpt"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// maxReasonBytes limits the reason on a node.
const maxReasonBytes = 2048

// reporter writes the annotations and events of a node.
type reporter struct {
	client client.Client
	events events.EventRecorder
	disk   *disk
}

// reportState reports a state and its reason, and records an event for a new reason.
func (r *reporter) reportState(ctx context.Context, node *corev1.Node, state mcfgv1.NodeState, why error) error {
	reason := ""
	if why != nil {
		reason = excerpt.Start(why.Error(), maxReasonBytes)
		if node.Annotations[mcfgv1.AnnotationReason] != reason {
			reconcile.Record(r.events, node, reconcile.Event{Warning: true, Reason: "Failed" + string(state), Action: "Update", Note: reason})
		}
	}

	return r.patchAnnotations(ctx, node, map[string]string{mcfgv1.AnnotationState: string(state), mcfgv1.AnnotationReason: reason})
}

// reportDone reports that the node has its configuration.
func (r *reporter) reportDone(ctx context.Context, node *corev1.Node, current string) error {
	return r.patchAnnotations(ctx, node, map[string]string{
		mcfgv1.AnnotationCurrentConfig: current,
		mcfgv1.AnnotationState:         string(mcfgv1.NodeDone),
		mcfgv1.AnnotationReason:        "",
		mcfgv1.AnnotationDesiredDrain:  uncordonRequest(node, current),
	})
}

// recordReboot records an event for a reboot.
func (r *reporter) recordReboot(node *corev1.Node, config string) {
	reconcile.Record(r.events, node, reconcile.Event{Reason: "Reboot", Action: "Update", Note: "Node will reboot into config " + config})
}

// patchAnnotations patches the annotations of the node that differ from the wanted ones. A wanted empty value does
// not create an annotation.
func (r *reporter) patchAnnotations(ctx context.Context, node *corev1.Node, wanted map[string]string) error {
	before := node.DeepCopy()
	changed := false
	for key, value := range wanted {
		if node.Annotations[key] == value {
			continue
		}
		if node.Annotations == nil {
			node.Annotations = map[string]string{}
		}
		node.Annotations[key] = value
		changed = true
	}

	if !changed {
		return nil
	}

	r.disk.beforeChange("report as", node.Name)
	if err := r.client.Patch(ctx, node, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("reporting on node %q: %w", node.Name, err)
	}

	return nil
}
