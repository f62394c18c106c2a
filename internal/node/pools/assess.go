package pools

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
)

// Assessment summarizes the state of a node in one word.
type Assessment string

// Assessments of nodes.
const (
	// AssessedDegraded means that the daemon of the node reports a failure.
	AssessedDegraded Assessment = "Degraded"
	// AssessedUnavailable means that the node cannot take pods, for another reason than an update.
	AssessedUnavailable Assessment = "Unavailable"
	// AssessedProgressing means that the node is being updated.
	AssessedProgressing Assessment = "Progressing"
	// AssessedExcluded means that the pool of the node is paused.
	AssessedExcluded Assessment = "Excluded"
	// AssessedOutdated means that the update of the node has not begun.
	AssessedOutdated Assessment = "Outdated"
	// AssessedCompleted means that the node has the configuration of its pool.
	AssessedCompleted Assessment = "Completed"
)

// The order in which nodes are listed: nodes that need attention are first.
var (
	assessments = []Assessment{AssessedDegraded, AssessedUnavailable, AssessedProgressing, AssessedExcluded, AssessedOutdated, AssessedCompleted}
	phases      = []Phase{PhasePending, PhaseDraining, PhaseUpdating, PhaseRebooting, PhasePaused, PhaseUpdated}
)

// NodeState is the progress of a node, for display.
type NodeState struct {
	Name       string     `json:"name"`
	Assessment Assessment `json:"assessment"`
	Phase      Phase      `json:"phase"`
	// Config is the configuration that the node has.
	Config string `json:"config,omitempty"`
	// Message explains a problem; empty when there is none.
	Message string `json:"message,omitempty"`
}

// IsUnderWay reports whether the node is being updated.
func (s *NodeState) IsUnderWay() bool {
	return s.Phase == PhaseDraining || s.Phase == PhaseUpdating || s.Phase == PhaseRebooting
}

// CompareNodeStates orders nodes that need attention first, then those with the least progress, then by name.
func CompareNodeStates(a, b NodeState) int {
	return cmp.Or(
		slices.Index(assessments, a.Assessment)-slices.Index(assessments, b.Assessment),
		slices.Index(phases, a.Phase)-slices.Index(phases, b.Phase),
		cmp.Compare(a.Name, b.Name),
	)
}

// Assess returns the progress of a node of a pool.
func Assess(node *corev1.Node, pool *mcfgv1.MachineConfigPool) NodeState {
	s := NodeState{Name: node.Name, Config: Current(node), Phase: PhaseOf(node, pool.Spec.Configuration.Name, pool.Spec.Paused)}
	why := NotReady(node)
	switch {
	case IsFailing(node):
		s.Assessment, s.Message = AssessedDegraded, node.Annotations[mcfgv1.AnnotationReason]
	case State(node) == "":
		s.Assessment, s.Message = AssessedUnavailable, "its machine-config-daemon has not reported"
	case s.IsUnderWay() && why != "" && !node.Spec.Unschedulable && s.Phase != PhaseRebooting:
		s.Assessment, s.Message = AssessedUnavailable, why
	case s.IsUnderWay():
		s.Assessment, s.Message = AssessedProgressing, DrainBlocker(node)
	case why != "":
		s.Assessment, s.Message = AssessedUnavailable, why
	default:
		s.Assessment = assessmentOf(s.Phase)
	}

	return s
}

// assessmentOf returns the assessment of a healthy node by its phase.
func assessmentOf(phase Phase) Assessment {
	switch phase {
	case PhaseUpdated:
		return AssessedCompleted
	case PhasePaused:
		return AssessedExcluded
	case PhasePending:
		return AssessedOutdated
	}

	return AssessedProgressing
}

// Behind returns the state of a node that has the present configuration of its pool, when the pool is about to get another
// one: the update of the node has not begun.
func (s NodeState) Behind(paused bool) NodeState {
	if s.Phase != PhaseUpdated {
		return s
	}
	if s.Phase = PhasePending; paused {
		s.Phase = PhasePaused
	}
	if s.Assessment == AssessedCompleted {
		s.Assessment = assessmentOf(s.Phase)
	}
	return s
}
