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

// maxReason is how long the reason on a node may be.
const maxReason = 2048

// degrade says that the daemon could not do what it should, and why.
func (d *Daemon) degrade(ctx context.Context, node *corev1.Node, why error) error {
	return d.say(ctx, node, mcfgv1.NodeDegraded, why)
}

// say writes a state and its reason.
func (d *Daemon) say(ctx context.Context, node *corev1.Node, state mcfgv1.NodeState, why error) error {
	reason := ""
	if why != nil {
		reason = clip(why.Error())
		if node.Annotations[mcfgv1.AnnotationReason] != reason {
			d.Events.Eventf(node, nil, corev1.EventTypeWarning, "Failed"+string(state), "Update", "%s", reason)
		}
	}

	return d.report(ctx, node, map[string]string{mcfgv1.AnnotationState: string(state), mcfgv1.AnnotationReason: reason})
}

// report writes annotations of the node that are not as they should be. An empty value is not
// written where there is none.
func (d *Daemon) report(ctx context.Context, node *corev1.Node, wanted map[string]string) error {
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

	d.disk.change("report as", node.Name)
	if err := d.Client.Patch(ctx, node, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("reporting on node %q: %w", node.Name, err)
	}

	return nil
}

// clip keeps the beginning of a reason that is too long.
func clip(s string) string {
	if len(s) <= maxReason {
		return s
	}

	s = s[:maxReason]
	for !utf8.ValidString(s[len(s)-min(len(s), utf8.UTFMax):]) && len(s) > maxReason-utf8.UTFMax {
		s = s[:len(s)-1]
	}
	return strings.ToValidUTF8(s, "") + " …"
}
