package action

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/action/diagnosis"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/apply"
)

// ExtensionState describes an extension as a tree: its conditions, its active revisions,
// their phases, and each object with its readiness.
type ExtensionState struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Package   string `json:"package"`
	// ServiceAccount is the service account that writes its objects. Empty means that of
	// operator-controller.
	ServiceAccount string `json:"serviceAccount,omitempty"`
	// Bundle and Version are the installed ones. They are empty while nothing is installed.
	Bundle     string             `json:"bundle,omitempty"`
	Version    string             `json:"version,omitempty"`
	Deleting   bool               `json:"deleting,omitempty"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Revisions are the active revisions, the oldest first.
	Revisions []RevisionState `json:"revisions,omitempty"`
}

// RevisionState describes an active revision of an extension.
type RevisionState struct {
	Name       string             `json:"name"`
	Revision   int64              `json:"revision"`
	Bundle     string             `json:"bundle,omitempty"`
	Version    string             `json:"version,omitempty"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Problems are the reasons why objects of the revision cannot be shown.
	Problems []string     `json:"problems,omitempty"`
	Phases   []PhaseState `json:"phases,omitempty"`
}

// PhaseState describes a phase of a revision. A current or failed phase blocks the
// following phases, which are then waiting. The exception is a phase that only lacks what a
// later phase may provide.
type PhaseState struct {
	Name  string       `json:"name"`
	State report.State `json:"state"`
	// Message is the failure that the controller reports. It is empty if there is none.
	Message string        `json:"message,omitempty"`
	Objects []ObjectState `json:"objects,omitempty"`
}

// ObjectState describes an object of a phase on the cluster.
type ObjectState struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	Ready      bool   `json:"ready"`
	// Message says why the object is not ready. It is empty if the object is ready.
	Message string `json:"message,omitempty"`

	// foreign means that another owner controls the object.
	foreign bool
	// mayComeLater means that a later phase may provide what the object lacks. The later
	// phase does not wait for it.
	mayComeLater bool
}

// ExtensionStatus reads the state of an extension and of all objects that it manages.
type ExtensionStatus struct {
	Client client.Client
	Name   string
}

// Run returns the state of the extension.
func (a *ExtensionStatus) Run(ctx context.Context) (*ExtensionState, error) {
	extension := &olmv1.ClusterExtension{}
	if err := a.Client.Get(ctx, client.ObjectKey{Name: a.Name}, extension); err != nil {
		return nil, NewNotFoundError(describeExtension(a.Name), "mainstay extension list", err)
	}
	state, err := readExtensionState(ctx, a.Client, extension)
	return state, NewServerError(describeExtension(a.Name), err)
}

// diagnosisSubject returns the extension as the subject of advice.
func (s *ExtensionState) diagnosisSubject() diagnosis.Subject {
	return diagnosis.Subject{Name: s.Name, Package: s.Package, Namespace: s.Namespace, ServiceAccount: s.ServiceAccount}
}

// readExtensionState reads the revisions and objects of an extension.
func readExtensionState(ctx context.Context, c client.Client, extension *olmv1.ClusterExtension) (*ExtensionState, error) {
	state := &ExtensionState{
		Name:       extension.Name,
		Namespace:  extension.Spec.Namespace,
		Deleting:   !extension.DeletionTimestamp.IsZero(),
		Conditions: extension.Status.Conditions,
	}

	subject := diagnosis.SubjectOf(extension)
	state.Package, state.ServiceAccount = subject.Package, subject.ServiceAccount
	if installed := extension.Status.Install; installed != nil {
		state.Bundle, state.Version = installed.Bundle.Name, installed.Bundle.Version
	}

	sets, err := listRevisions(ctx, c, extension.Name)
	if err != nil {
		return nil, err
	}

	for i := range sets {
		set := &sets[i]
		if set.Spec.LifecycleState != olmv1.LifecycleStateActive {
			continue
		}

		revision, err := readRevisionState(ctx, c, set, sets)
		if err != nil {
			return nil, fmt.Errorf("revision %s: %w", set.Name, err)
		}

		state.Revisions = append(state.Revisions, *revision)
	}

	return state, nil
}

// readRevisionState reads the objects of a revision. The siblings are all revisions of the
// extension.
func readRevisionState(ctx context.Context, c client.Client, set *olmv1.ClusterObjectSet, siblings []olmv1.ClusterObjectSet) (*RevisionState, error) {
	state := &RevisionState{
		Name:       set.Name,
		Revision:   set.Spec.Revision,
		Bundle:     set.Annotations[olmv1.AnnotationBundleName],
		Version:    set.Annotations[olmv1.AnnotationBundleVersion],
		Conditions: set.Status.Conditions,
	}

	// A reference without a namespace means the namespace of the controller, which is not
	// known here. The default is used.
	content, err := apply.Load(ctx, c, set, DefaultSystemNamespace)
	if apierrors.IsForbidden(err) {
		state.Problems = []string{"its objects are in Secrets that you are not allowed to read"}
		return state, nil
	}
	if err != nil {
		return nil, err
	}

	for _, missing := range content.Missing {
		state.Problems = append(state.Problems, "Secret "+missing+", which contains objects of it, is missing")
	}

	for _, malformed := range content.Malformed {
		state.Problems = append(state.Problems, malformed.Error())
	}

	probes, err := apply.CompileProbes(set.Spec.ProgressionProbes)
	if err != nil {
		state.Problems = append(state.Problems, "spec."+err.Error())
	}

	owner := revisionOwner{set: set, siblings: siblings}
	for _, phase := range content.Phases {
		p := PhaseState{Name: phase.Name, Message: findPhaseFailure(set, phase.Name)}
		for _, object := range phase.Objects {
			o, err := readObjectState(ctx, c, probes, object.Manifest, owner)
			if err != nil {
				return nil, fmt.Errorf("phase %s: %w", phase.Name, err)
			}
			p.Objects = append(p.Objects, o)
		}
		state.Phases = append(state.Phases, p)
	}

	setPhaseStates(state.Phases, meta.IsStatusConditionTrue(set.Status.Conditions, olmv1.TypeSucceeded))
	return state, nil
}

// setPhaseStates sets the state of each phase. A phase is failed if the controller reports
// it or another owner controls one of its objects. It is done if all its objects are ready,
// and current otherwise. During the rollout of the revision, all phases after a blocking
// one are waiting, regardless of their objects.
func setPhaseStates(phases []PhaseState, rolledOut bool) {
	blocked := false
	for i := range phases {
		phase := &phases[i]
		failed := phase.Message != "" || slices.ContainsFunc(phase.Objects, func(o ObjectState) bool { return o.foreign })
		notReady := slices.ContainsFunc(phase.Objects, func(o ObjectState) bool { return !o.Ready })
		blocking := slices.ContainsFunc(phase.Objects, func(o ObjectState) bool { return !o.Ready && !o.mayComeLater })
		switch {
		case blocked:
			phase.State = report.StateWaiting
		case failed:
			phase.State = report.StateFailed
			blocked = !rolledOut
		case notReady:
			phase.State = report.StateCurrent
			blocked = !rolledOut && blocking
		default:
			phase.State = report.StateDone
		}
	}
}

// readObjectState reads an object from the cluster and probes it.
func readObjectState(ctx context.Context, c client.Client, probes *apply.Probes, wanted *unstructured.Unstructured, owner revisionOwner) (ObjectState, error) {
	state := ObjectState{
		APIVersion: wanted.GetAPIVersion(), Kind: wanted.GetKind(),
		Namespace: wanted.GetNamespace(), Name: wanted.GetName(),
	}
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(wanted.GroupVersionKind())
	err := c.Get(ctx, client.ObjectKeyFromObject(wanted), live)
	switch {
	case IsUnknownKind(err):
		state.Message = "the cluster does not know the kind yet"
	case apierrors.IsNotFound(err):
		state.Message = "not created yet"
	case apierrors.IsForbidden(err):
		state.Message = "you are not allowed to read it"
	case err != nil:
		return ObjectState{}, fmt.Errorf("reading %s: %w", describeObject(state), err)
	case owner.describeForeignOwner(live) != "":
		state.Message, state.foreign = owner.describeForeignOwner(live), owner.isOwnedByOthers(live)
	default:
		probe := probes.Probe(live)
		state.Ready, state.Message, state.mayComeLater = probe.Ready, probe.Message, probe.AwaitsLaterPhase
	}

	return state, nil
}

// describeObject returns the kind, namespace and name of an object.
func describeObject(o ObjectState) string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// waitForExtension waits until an extension has reached the state of its spec. It updates
// the extension while it waits. rollbackCommand is the command of the rollback that it waits
// for, for advice. It is empty for other changes.
func waitForExtension(ctx context.Context, c client.Client, wait *Wait, progress report.Progress, extension *olmv1.ClusterExtension, rollbackCommand string) error {
	key := client.ObjectKeyFromObject(extension)
	return wait.Poll(ctx, describeExtension(extension.Name), progress, func(ctx context.Context) (Outcome, error) {
		if err := c.Get(ctx, key, extension); err != nil {
			return Outcome{}, err
		}

		state, err := readExtensionState(ctx, c, extension)
		if err != nil {
			return Outcome{}, err
		}

		o := extensionWaitOutcome(state, extension.Generation, rollbackCommand)
		if extension.Annotations[olmv1.AnnotationPlan] == olmv1.PlanOnly {
			o.Done, o.Failed = false, fmt.Errorf("it is not reconciled, because its annotation %s requests only a plan", olmv1.AnnotationPlan)
			o.Advice = fmt.Sprintf("see the plan with 'mainstay extension plan %s'; remove the annotation to carry it out", extension.Name)
		}

		return o, nil
	})
}

// extensionWaitOutcome compares an extension with its spec of a generation. rollbackCommand is
// that of waitForExtension.
func extensionWaitOutcome(state *ExtensionState, generation int64, rollbackCommand string) Outcome {
	progressing := findCurrentCondition(state.Conditions, olmv1.TypeProgressing, generation)
	installed := findCurrentCondition(state.Conditions, olmv1.TypeInstalled, generation)
	if progressing == nil {
		pending := "operator-controller has not reconciled it yet"
		return Outcome{
			Parts:   []report.Part{{Name: "resolve", State: report.StateCurrent, Detail: pending}},
			Pending: pending,
			Advice:  "check that it runs: 'kubectl get deployments -A -l app.kubernetes.io/name=operator-controller'",
		}
	}

	subject := state.diagnosisSubject()
	subject.RollbackCommand = rollbackCommand
	o := Outcome{
		Done: progressing.Reason == olmv1.ReasonSucceeded && progressing.Status == metav1.ConditionTrue &&
			installed != nil && installed.Status == metav1.ConditionTrue,
		Pending: formatReasonAndMessage(progressing),
		Advice:  diagnosis.Advice(subject, progressing.Reason, progressing.Message),
	}
	if progressing.Status == metav1.ConditionFalse || diagnosis.IsRefused(progressing.Message) {
		o.Failed = fmt.Errorf("%s", formatReasonAndMessage(progressing))
	}

	o.Parts = newExtensionParts(state, progressing, o.Done)
	return o
}

// newExtensionParts returns the progress of an extension: the resolution of the bundle,
// then the phases of the newest revision.
func newExtensionParts(state *ExtensionState, progressing *metav1.Condition, done bool) []report.Part {
	var newest RevisionState
	if n := len(state.Revisions); n > 0 {
		newest = state.Revisions[n-1]
	}

	rollingOut := progressing.Reason == olmv1.ReasonRollingOut
	awaited := newest.Name != "" && !meta.IsStatusConditionTrue(newest.Conditions, olmv1.TypeSucceeded)
	if !done && !rollingOut && !awaited {
		// The existing revision, if any, is rolled out. The next one does not exist yet.
		return []report.Part{{Name: "resolve", State: report.StateCurrent, Detail: formatReasonAndMessage(progressing)}}
	}

	parts := []report.Part{{Name: "resolve", State: report.StateDone, Detail: newest.Bundle}}
	for _, phase := range newest.Phases {
		parts = append(parts, newPhasePart(phase))
	}

	if !done && !rollingOut {
		parts = append(parts, report.Part{Name: "roll-out", State: report.StateCurrent, Detail: formatReasonAndMessage(progressing)})
	}

	return parts
}

// newPhasePart returns the progress of a phase: how many objects are ready, and what the
// first other one lacks.
func newPhasePart(phase PhaseState) report.Part {
	part := report.Part{Name: phase.Name, State: phase.State}
	ready := 0
	var notReady []string
	for _, object := range phase.Objects {
		if object.Ready {
			ready++
			continue
		}
		notReady = append(notReady, describeObject(object)+": "+object.Message)
	}

	part.Detail = fmt.Sprintf("%d/%d", ready, len(phase.Objects))
	if phase.State == report.StateFailed && phase.Message != "" {
		part.Detail += " " + phase.Message
		return part
	}

	if (phase.State == report.StateCurrent || phase.State == report.StateFailed) && len(notReady) > 0 {
		part.Detail += " " + notReady[0]
		if more := len(notReady) - 1; more > 0 {
			part.Detail += fmt.Sprintf(" (and %d more)", more)
		}
		part.Detail = strings.TrimSpace(part.Detail)
	}

	if phase.State == report.StateWaiting {
		part.Detail = ""
	}

	return part
}
