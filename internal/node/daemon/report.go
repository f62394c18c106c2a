package daemon

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
)

// maxReasonLength limits the reason on a node, in bytes.
const maxReasonLength = 2048

// reportDegraded reports state Degraded and the reason.
func (d *Daemon) reportDegraded(ctx context.Context, node *corev1.Node, why error) error {
	return d.reportState(ctx, node, mcfgv1.NodeDegraded, why)
}

// reportState reports a state and its reason, and records an event for a new reason.
func (d *Daemon) reportState(ctx context.Context, node *corev1.Node, state mcfgv1.NodeState, why error) error {
	reason := ""
	if why != nil {
		reason = truncateReason(why.Error())
		if node.Annotations[mcfgv1.AnnotationReason] != reason {
			d.Events.Eventf(node, nil, corev1.EventTypeWarning, "Failed"+string(state), "Update", "%s", reason)
		}
	}

	return d.patchAnnotations(ctx, node, map[string]string{mcfgv1.AnnotationState: string(state), mcfgv1.AnnotationReason: reason})
}

// patchAnnotations patches the annotations of the node that differ from the wanted ones. A wanted empty value does
// not create an annotation.
func (d *Daemon) patchAnnotations(ctx context.Context, node *corev1.Node, wanted map[string]string) error {
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

	d.disk.beforeChange("report as", node.Name)
	if err := d.Client.Patch(ctx, node, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("reporting on node %q: %w", node.Name, err)
	}

	return nil
}

// truncateReason truncates a reason that is too long.
func truncateReason(s string) string {
	if len(s) <= maxReasonLength {
		return s
	}

	s = s[:maxReasonLength]
	for !utf8.ValidString(s[len(s)-min(len(s), utf8.UTFMax):]) && len(s) > maxReasonLength-utf8.UTFMax {
		s = s[:len(s)-1]
	}
	return strings.ToValidUTF8(s, "") + " …"
}
