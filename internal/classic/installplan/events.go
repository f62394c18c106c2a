package installplan

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// planEvents emits events about a plan.
type planEvents struct {
	recorder events.EventRecorder
	plan     *v1alpha1.InstallPlan
}

// emitWarnings emits an event with the API server's warnings about a step.
func (e planEvents) emitWarnings(at int, step *v1alpha1.Step, texts []string) {
	if len(texts) == 0 {
		return
	}

	warningsTotal.Inc()
	operation := "operator installation"
	if step.Resolving != "" {
		operation = fmt.Sprintf("installation of operator %q", step.Resolving)
	}

	e.emitWarningEvent(fmt.Sprintf("status.plan[%d]", at), "AppliedWithWarnings", fmt.Sprintf("%d warning(s) generated during %s (%s %q): %s",
		len(texts), operation, step.Resource.Kind, step.Resource.Name, strings.Join(texts, ", ")))
}

// emitWarningEvent emits a warning event about a field of the plan.
func (e planEvents) emitWarningEvent(field, reason, note string) {
	about := &corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.InstallPlanKind, Namespace: e.plan.Namespace, Name: e.plan.Name,
		UID: e.plan.UID, ResourceVersion: e.plan.ResourceVersion, FieldPath: field,
	}
	reconcile.Record(e.recorder, about, reconcile.Event{Warning: true, Reason: reason, Action: "Install", Note: note})
}
