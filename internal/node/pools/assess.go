package pools

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
)

// Assessment is how a node is, in one word.
type Assessment string

// Assessments of nodes.
const (
	// AssessedDegraded: its daemon could not do what it should.
	AssessedDegraded Assessment = "Degraded"
	// AssessedUnavailable: it takes no pods though no update keeps it from that.
	AssessedUnavailable Assessment = "Unavailable"
	// AssessedProgressing: it is being updated.
	AssessedProgressing Assessment = "Progressing"
	// AssessedExcluded: its pool is paused.
	AssessedExcluded Assessment = "Excluded"
	// AssessedOutdated: its turn has not come.
	AssessedOutdated Assessment = "Outdated"
	// AssessedCompleted: it has what it is to have.
	AssessedCompleted Assessment = "Completed"
)

// The orders in which nodes are listed: those that need a look come first.
var (
	assessments = []Assessment{AssessedDegraded, AssessedUnavailable, AssessedProgressing, AssessedExcluded, AssessedOutdated, AssessedCompleted}
	phases      = []Phase{PhasePending, PhaseDraining, PhaseUpdating, PhaseRebooting, PhasePaused, PhaseUpdated}
)

// NodeState is how far a node is, for people.
type NodeState struct {
	Name       string     `json:"name"`
	Assessment Assessment `json:"assessment"`
	Phase      Phase      `json:"phase"`
	// Config is what the node has.
	Config string `json:"config,omitempty"`
	// Message says what there is to know; empty when all is well.
	Message string `json:"message,omitempty"`
}

// IsUnderWay reports whether the node is being updated.
func (s *NodeState) IsUnderWay() bool {
	return s.Phase == PhaseDraining || s.Phase == PhaseUpdating || s.Phase == PhaseRebooting
}

// CompareNodeStates has those that need a look first, then those that have the longest way to
// go, then goes by name.
func CompareNodeStates(a, b NodeState) int {
	return cmp.Or(
		slices.Index(assessments, a.Assessment)-slices.Index(assessments, b.Assessment),
		slices.Index(phases, a.Phase)-slices.Index(phases, b.Phase),
		cmp.Compare(a.Name, b.Name),
	)
}

// Assess says how far a node of a pool is.
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

// assessmentOf judges a node that is well by how far it is.
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

// Behind is the state of a node that has what its pool is to have, when the pool itself does not
// yet ask for what is to come: the node waits for its turn.
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
