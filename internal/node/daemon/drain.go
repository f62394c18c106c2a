package daemon

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	"github.com/mainstay-dev/mainstay/internal/node/pools"
)

// drainRequest is a requested drain, and when this process requested it first.
type drainRequest struct {
	what  string
	since time.Time
}

// isDrained reports whether a requested drain of a node is complete.
func isDrained(node *corev1.Node, ask string) bool {
	return node.Annotations[mcfgv1.AnnotationDesiredDrain] == ask && node.Annotations[mcfgv1.AnnotationLastAppliedDrain] == ask
}

// drainAnnotations returns the annotations of a node with a requested drain that is not complete. failed says that an
// update to the same configuration has failed before. The drain controller writes into the reason what blocks the drain.
// The daemon therefore clears only older reasons, and sets one only when the drain controller has not.
func drainAnnotations(node *corev1.Node, request drainRequest, now time.Time, failed bool) map[string]string {
	ask, since := request.what, request.since
	if started := pools.DrainStarted(node); !started.IsZero() && started.Before(since) {
		since = started // before a restart of the daemon
	}

	changes := map[string]string{mcfgv1.AnnotationDesiredDrain: ask}
	switch {
	case now.Sub(since) >= drainTimeout:
		changes[mcfgv1.AnnotationState] = string(mcfgv1.NodeDegraded)
		if node.Annotations[mcfgv1.AnnotationReason] == "" {
			changes[mcfgv1.AnnotationReason] = fmt.Sprintf(
				"failed to drain node: %s after 1 hour. The machine-config-controller does not say what keeps its pods: check that it runs", node.Name)
		}
	case !failed:
		changes[mcfgv1.AnnotationState] = string(mcfgv1.NodeWorking)
		if node.Annotations[mcfgv1.AnnotationDesiredDrain] != ask || node.Annotations[mcfgv1.AnnotationState] != string(mcfgv1.NodeWorking) {
			changes[mcfgv1.AnnotationReason] = ""
		}
	}

	return changes
}

// uncordonRequest returns the drain annotation after an update: a request to uncordon the node if a drain was
// requested before, and the present value otherwise.
func uncordonRequest(node *corev1.Node, current string) string {
	asked := node.Annotations[mcfgv1.AnnotationDesiredDrain]
	if !strings.HasPrefix(asked, mcfgv1.DrainPrefix) {
		return asked
	}
	return mcfgv1.UncordonPrefix + cmp.Or(current, strings.TrimPrefix(asked, mcfgv1.DrainPrefix))
}
