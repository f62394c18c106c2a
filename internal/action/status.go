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

// ExtensionState is an extension as a tree: what it says of itself, its active
// revisions, their phases, and each object with its readiness.
type ExtensionState struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Package   string `json:"package"`
	// ServiceAccount that its objects are written as; empty for that of operator-controller.
	ServiceAccount string `json:"serviceAccount,omitempty"`
	// Bundle and Version are what is installed; empty while nothing is.
	Bundle     string             `json:"bundle,omitempty"`
	Version    string             `json:"version,omitempty"`
	Deleting   bool               `json:"deleting,omitempty"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Revisions are the active ones, oldest first.
	Revisions []RevisionState `json:"revisions,omitempty"`
}

// RevisionState is one active revision of an extension.
type RevisionState struct {
	Name       string             `json:"name"`
	Revision   int64              `json:"revision"`
	Bundle     string             `json:"bundle,omitempty"`
	Version    string             `json:"version,omitempty"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Problems say why objects of the revision cannot be shown.
	Problems []string     `json:"problems,omitempty"`
	Phases   []PhaseState `json:"phases,omitempty"`
}

// PhaseState is one phase of a revision. A phase that is current or failed holds up the ones
// after it, which are waiting, unless all that it lacks may come of these.
type PhaseState struct {
	Name  string       `json:"name"`
	State report.State `json:"state"`
	// Message says what failed, as the controller reports it. Empty when nothing did.
	Message string        `json:"message,omitempty"`
	Objects []ObjectState `json:"objects,omitempty"`
}

// ObjectState is one object of a phase, as it stands in the cluster.
type ObjectState struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	Ready      bool   `json:"ready"`
	// Message says what the object lacks. Empty when it is ready.
	Message string `json:"message,omitempty"`

	// failed: it cannot be the extension's, as it belongs to something else.
	failed bool
	// later: what it lacks may come of a later phase, which does not wait for it.
	later bool
}

// ExtensionStatus looks at an extension and at everything it manages.
type ExtensionStatus struct {
	Client client.Client
	Name   string
}

// Run returns the state of the extension.
func (a *ExtensionStatus) Run(ctx context.Context) (*ExtensionState, error) {
	extension := &olmv1.ClusterExtension{}
	if err := a.Client.Get(ctx, client.ObjectKey{Name: a.Name}, extension); err != nil {
		return nil, missing(extensionName(a.Name), "mainstay extension list", err)
	}
	state, err := extensionState(ctx, a.Client, extension)
	return state, serverError(extensionName(a.Name), err)
}

// subject is the extension as advice is given about it.
func (s *ExtensionState) subject() diagnosis.Subject {
	return diagnosis.Subject{Name: s.Name, Package: s.Package, Namespace: s.Namespace, ServiceAccount: s.ServiceAccount}
}

// extensionState reads what belongs to an extension.
func extensionState(ctx context.Context, c client.Client, extension *olmv1.ClusterExtension) (*ExtensionState, error) {
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

	sets, err := revisionsOf(ctx, c, extension.Name)
	if err != nil {
		return nil, err
	}

	for i := range sets {
		set := &sets[i]
		if set.Spec.LifecycleState != olmv1.LifecycleStateActive {
			continue
		}

		revision, err := revisionState(ctx, c, set, sets)
		if err != nil {
			return nil, fmt.Errorf("revision %s: %w", set.Name, err)
		}

		state.Revisions = append(state.Revisions, *revision)
	}

	return state, nil
}

// revisionState reads the objects of a revision. The siblings are all revisions of the extension.
func revisionState(ctx context.Context, c client.Client, set *olmv1.ClusterObjectSet, siblings []olmv1.ClusterObjectSet) (*RevisionState, error) {
	state := &RevisionState{
		Name:       set.Name,
		Revision:   set.Spec.Revision,
		Bundle:     set.Annotations[olmv1.AnnotationBundleName],
		Version:    set.Annotations[olmv1.AnnotationBundleVersion],
		Conditions: set.Status.Conditions,
	}

	// A reference without a namespace means that of the controller, which nobody tells.
	content, err := apply.Load(ctx, c, set, DefaultSystemNamespace)
	if apierrors.IsForbidden(err) {
		state.Problems = []string{"its objects stand in Secrets that you may not read"}
		return state, nil
	}
	if err != nil {
		return nil, err
	}

	for _, missing := range content.Missing {
		state.Problems = append(state.Problems, "Secret "+missing+", which holds objects of it, is missing")
	}

	for _, malformed := range content.Malformed {
		state.Problems = append(state.Problems, malformed.Error())
	}

	probes, err := apply.CompileProbes(set.Spec.ProgressionProbes)
	if err != nil {
		state.Problems = append(state.Problems, "spec."+err.Error())
	}

	owner := owner{set: set, siblings: siblings}
	for _, phase := range content.Phases {
		p := PhaseState{Name: phase.Name, Message: failureOf(set, phase.Name)}
		for _, object := range phase.Objects {
			o, err := objectState(ctx, c, probes, object.Manifest, owner)
			if err != nil {
				return nil, fmt.Errorf("phase %s: %w", phase.Name, err)
			}
			p.Objects = append(p.Objects, o)
		}
		state.Phases = append(state.Phases, p)
	}

	markPhases(state.Phases, meta.IsStatusConditionTrue(set.Status.Conditions, olmv1.TypeSucceeded))
	return state, nil
}

// markPhases sets the state of each phase: failed when the controller says so or an object
// belongs to something else, done when all its objects are ready, and else current. While the
// revision is still being rolled out, everything after the first phase that lacks what no later
// phase brings is waiting, whatever state its objects have from before.
func markPhases(phases []PhaseState, rolledOut bool) {
	held := false
	for i := range phases {
		phase := &phases[i]
		failed := phase.Message != "" || slices.ContainsFunc(phase.Objects, func(o ObjectState) bool { return o.failed })
		lacking := slices.ContainsFunc(phase.Objects, func(o ObjectState) bool { return !o.Ready })
		holding := slices.ContainsFunc(phase.Objects, func(o ObjectState) bool { return !o.Ready && !o.later })
		switch {
		case held:
			phase.State = report.StateWaiting
		case failed:
			phase.State = report.StateFailed
			held = !rolledOut
		case lacking:
			phase.State = report.StateCurrent
			held = !rolledOut && holding
		default:
			phase.State = report.StateDone
		}
	}
}

func objectState(ctx context.Context, c client.Client, probes *apply.Probes, wanted *unstructured.Unstructured, owner owner) (ObjectState, error) {
	state := ObjectState{
		APIVersion: wanted.GetAPIVersion(), Kind: wanted.GetKind(),
		Namespace: wanted.GetNamespace(), Name: wanted.GetName(),
	}
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(wanted.GroupVersionKind())
	err := c.Get(ctx, client.ObjectKeyFromObject(wanted), live)
	switch {
	case unknownKind(err):
		state.Message = "the cluster does not know the kind yet"
	case apierrors.IsNotFound(err):
		state.Message = "not created yet"
	case apierrors.IsForbidden(err):
		state.Message = "you may not read it"
	case err != nil:
		return ObjectState{}, fmt.Errorf("reading %s: %w", describe(state), err)
	case owner.describeForeign(live) != "":
		state.Message, state.failed = owner.describeForeign(live), owner.isRefused(live)
	default:
		probe := probes.Probe(live)
		state.Ready, state.Message, state.later = probe.Ready, probe.Message, probe.Later
	}

	return state, nil
}

// describe names an object as a person would: its kind, namespace and name.
func describe(o ObjectState) string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// waitForExtension waits until an extension is as its spec asks. It keeps the
// extension up to date with what it sees.
func waitForExtension(ctx context.Context, c client.Client, wait *Wait, progress report.Progress, extension *olmv1.ClusterExtension) error {
	key := client.ObjectKeyFromObject(extension)
	return wait.until(ctx, extensionName(extension.Name), progress, func(ctx context.Context) (outlook, error) {
		if err := c.Get(ctx, key, extension); err != nil {
			return outlook{}, err
		}

		state, err := extensionState(ctx, c, extension)
		if err != nil {
			return outlook{}, err
		}

		o := extensionOutlook(state, extension.Generation)
		if extension.Annotations[olmv1.AnnotationPlan] == olmv1.PlanOnly {
			o.done, o.failed = false, fmt.Errorf("nothing is done about it, as its annotation %s asks for a plan only", olmv1.AnnotationPlan)
			o.advice = fmt.Sprintf("see the plan with 'mainstay extension plan %s'; to have it done, remove the annotation", extension.Name)
		}

		return o, nil
	})
}

// extensionOutlook decides how far an extension is from what its spec of a generation
// asks for.
func extensionOutlook(state *ExtensionState, generation int64) outlook {
	progressing := current(state.Conditions, olmv1.TypeProgressing, generation)
	installed := current(state.Conditions, olmv1.TypeInstalled, generation)
	if progressing == nil {
		pending := "the operator-controller has not looked at it yet"
		return outlook{
			parts:   []report.Part{{Name: "resolve", State: report.StateCurrent, Detail: pending}},
			pending: pending,
			advice:  "check that it runs: 'kubectl get deployments -A -l app.kubernetes.io/name=operator-controller'",
		}
	}

	o := outlook{
		done: progressing.Reason == olmv1.ReasonSucceeded && progressing.Status == metav1.ConditionTrue &&
			installed != nil && installed.Status == metav1.ConditionTrue,
		pending: reasonAndMessage(progressing),
		advice:  diagnosis.Advice(state.subject(), progressing.Reason, progressing.Message),
	}
	if progressing.Status == metav1.ConditionFalse || diagnosis.IsRefused(progressing.Message) {
		o.failed = fmt.Errorf("%s", reasonAndMessage(progressing))
	}

	o.parts = extensionParts(state, progressing, o.done)
	return o
}

// extensionParts shows an extension as parts: choosing the bundle, then the phases of
// the newest revision.
func extensionParts(state *ExtensionState, progressing *metav1.Condition, done bool) []report.Part {
	var newest RevisionState
	if n := len(state.Revisions); n > 0 {
		newest = state.Revisions[n-1]
	}

	rollingOut := progressing.Reason == olmv1.ReasonRollingOut
	awaited := newest.Name != "" && !meta.IsStatusConditionTrue(newest.Conditions, olmv1.TypeSucceeded)
	if !done && !rollingOut && !awaited {
		// The revision that there is, if any, is in place: the next one has not come about.
		return []report.Part{{Name: "resolve", State: report.StateCurrent, Detail: reasonAndMessage(progressing)}}
	}

	parts := []report.Part{{Name: "resolve", State: report.StateDone, Detail: newest.Bundle}}
	for _, phase := range newest.Phases {
		parts = append(parts, phasePart(phase))
	}

	if !done && !rollingOut {
		parts = append(parts, report.Part{Name: "roll-out", State: report.StateCurrent, Detail: reasonAndMessage(progressing)})
	}

	return parts
}

func phasePart(phase PhaseState) report.Part {
	part := report.Part{Name: phase.Name, State: phase.State}
	ready := 0
	var lacking []string
	for _, object := range phase.Objects {
		if object.Ready {
			ready++
			continue
		}
		lacking = append(lacking, describe(object)+": "+object.Message)
	}

	part.Detail = fmt.Sprintf("%d/%d", ready, len(phase.Objects))
	if phase.State == report.StateFailed && phase.Message != "" {
		part.Detail += " " + phase.Message
		return part
	}

	if (phase.State == report.StateCurrent || phase.State == report.StateFailed) && len(lacking) > 0 {
		part.Detail += " " + lacking[0]
		if more := len(lacking) - 1; more > 0 {
			part.Detail += fmt.Sprintf(" (and %d more)", more)
		}
		part.Detail = strings.TrimSpace(part.Detail)
	}

	if phase.State == report.StateWaiting {
		part.Detail = ""
	}

	return part
}
