package drain

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// facts are the input of a decision about a node.
type facts struct {
	now time.Time
	// progress is the progress of the requested drain.
	progress drainProgress
	// reason is what blocks the drain, as this process has reported it; empty for nothing.
	reason string
}

// action is what a pass does with a node.
type action int

const (
	// actionForget removes the progress of a node without a pending request.
	actionForget action = iota
	// actionIgnore ignores a request of an unknown form.
	actionIgnore
	actionUncordon
	actionDrain
)

// decision is what a pass does, and its outcome.
type decision struct {
	action action
	// cordoned means that the node stays cordoned when the request is done.
	cordoned bool
	// requeueAfter is when to continue the drain; zero for when the node changes.
	requeueAfter time.Duration
	events       []reconcile.Event
}

// eventsOrNone returns the events of a decision, which is nil if none was made.
func (d *decision) eventsOrNone() []reconcile.Event {
	if d == nil {
		return nil
	}
	return d.events
}

// desiredDrain returns the request of the daemon of a node.
func desiredDrain(node client.Object) string {
	return node.GetAnnotations()[mcfgv1.AnnotationDesiredDrain]
}

// hasPendingDrainRequest reports whether the daemon of a node requests a drain or uncordon that is not done.
func hasPendingDrainRequest(node client.Object) bool {
	desired := desiredDrain(node)
	return desired != "" && desired != node.GetAnnotations()[mcfgv1.AnnotationLastAppliedDrain]
}

// decideRequest decides what to do with a node. Between two attempts of a drain it only keeps the node cordoned.
func decideRequest(node *corev1.Node, f facts) *decision {
	desired := desiredDrain(node)
	switch {
	case !hasPendingDrainRequest(node):
		return &decision{action: actionForget}
	case strings.HasPrefix(desired, mcfgv1.UncordonPrefix):
		return &decision{action: actionUncordon}
	case strings.HasPrefix(desired, mcfgv1.DrainPrefix):
		return &decision{action: actionDrain, requeueAfter: max(0, f.progress.attempt.Sub(f.now))}
	default:
		return &decision{action: actionIgnore}
	}
}

// outcome is the outcome of an attempt that left pods on a node.
type outcome struct {
	progress     drainProgress
	requeueAfter time.Duration
	events       []reconcile.Event
}

// assessAttempt decides how to continue a drain that has left pods on a node, and which events to record: those of an attempt that has
// ended, and of a drain that takes long.
func assessAttempt(node string, p drainProgress, now time.Time, remaining int, refused []refusedEviction) outcome {
	why := describeRemainingPods(remaining, refused)
	pause, ended := p.nextCheck(now)
	p.updateReason(node, len(refused) > 0, ended, now, why)
	o := outcome{requeueAfter: pause}
	warn := func(reason, format string, args ...any) {
		o.events = append(o.events, reconcile.Event{Warning: true, Reason: reason, Action: "Drain", Note: fmt.Sprintf(format, args...)})
	}

	since := now.Sub(p.begun).Round(time.Second)
	if ended {
		warn("FailedToDrain", "The node is not drained after %s, and it is tried again: %s", since, why)
		p.attempt = now.Add(pause)
	}
	if ended && since >= slowAfter && !p.slow {
		p.slow = true
		warn("DrainThresholdExceeded", "The drain takes longer than %s; it is tried again every %s: %s", slowAfter, slowDrainRetryInterval, why)
	}
	if ended && since >= failedAfter && !p.failed {
		p.failed = true
		warn("DrainFailed", "The drain has failed for %s; it is tried on: %s", failedAfter, why)
	}

	o.progress = p
	return o
}
