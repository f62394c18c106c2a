package updatestatus

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	"github.com/mainstay-dev/mainstay/internal/action/alerts"
	"github.com/mainstay-dev/mainstay/internal/action/clusterupdate"
	"github.com/mainstay-dev/mainstay/internal/release"
)

// Status is how far an update of the cluster is.
type Status struct {
	// Updating reports whether there is anything to tell.
	Updating bool `json:"updating"`
	// Refused is a requested update that the operator does not carry out; nil for none.
	Refused *Refusal `json:"refused,omitempty"`
	// ControlPlane is the part of the update that the cluster-version-operator does.
	ControlPlane *ControlPlane `json:"controlPlane,omitempty"`
	// Operators are those that are being updated.
	Operators []OperatorUpdate `json:"operators,omitempty"`
	// ControlPlaneNodes are the nodes of the control plane; nil where no pool has any.
	ControlPlaneNodes *Pool `json:"controlPlaneNodes,omitempty"`
	// WorkerPools are the other pools that have nodes, by name.
	WorkerPools []Pool `json:"workerPools,omitempty"`
	// Health is what a person should look at, the worst first.
	Health []Insight `json:"health,omitempty"`
}

// Assessment says in a word how something goes.
type Assessment string

// The assessments of a control plane and of pools.
const (
	Progressing Assessment = "Progressing"
	Completed   Assessment = "Completed"
)

// The assessments of a control plane alone: the estimate has passed, and passed by far.
const (
	Slow    Assessment = "Progressing - Slow"
	Stalled Assessment = "Stalled"
)

// The assessments of pools alone.
const (
	// Degraded: nodes have failed.
	Degraded Assessment = "Degraded"
	// Excluded: the pool is paused.
	Excluded Assessment = "Excluded"
	// Pending: no node has begun.
	Pending Assessment = "Pending"
)

// ControlPlane is the update of what the release holds.
type ControlPlane struct {
	// Assessment in a word.
	Assessment Assessment `json:"assessment"`
	// Version is the one to be reached; empty while that is not known.
	Version string `json:"version,omitempty"`
	// Target is the version to be reached, with where from.
	Target string `json:"target"`
	// Updating are the names of the operators that are being updated.
	Updating []string `json:"updating,omitempty"`
	// Updated, InUpdate and Waiting count the operators of the release.
	Updated  int `json:"updated"`
	InUpdate int `json:"inUpdate"`
	Waiting  int `json:"waiting"`
	// Unavailable and Degraded count those that are not well; a degraded one is available.
	Unavailable int `json:"unavailable"`
	Degraded    int `json:"degraded"`
	// Started is when the update was begun, Finished when it was complete.
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished,omitzero"`
	// Duration until now, or until it was complete.
	Duration metav1.Duration `json:"duration"`
	// Remaining is the estimate of what is left; negative when the estimate has passed.
	Remaining metav1.Duration `json:"remaining"`
	// Estimate is the estimate of the whole.
	Estimate metav1.Duration `json:"estimate"`
	// MultiArch says that the update is to the same version for more architectures, of
	// which nothing can be estimated.
	MultiArch bool `json:"multiArch,omitempty"`
}

// Operators counts the operators of the release.
func (c *ControlPlane) Operators() int { return c.Updated + c.InUpdate + c.Waiting }

// Percent is how many operators of a hundred are updated.
func (c *ControlPlane) Percent() int { return percent(c.Updated, c.Operators()) }

// percent is rounded to the nearest.
func percent(part, whole int) int {
	return int(math.Round(100 * float64(part) / float64(max(whole, 1))))
}

// OperatorUpdate is an operator that is being updated.
type OperatorUpdate struct {
	Name string `json:"name"`
	// Since is when it said that it was at it.
	Since   time.Time `json:"since"`
	Reason  string    `json:"reason,omitempty"`
	Message string    `json:"message,omitempty"`
}

// Input is what is judged.
type Input struct {
	ClusterVersion *configv1.ClusterVersion
	Operators      []configv1.ClusterOperator
	Pools          []mcfgv1.MachineConfigPool
	Nodes          []corev1.Node
	// Versions are the versions of the releases that configurations of nodes are of, by their
	// names. One that is not there is not known.
	Versions map[string]string
	// MachineConfigImage is the image that runs the operator of the nodes' configuration. Empty
	// when that is not known.
	MachineConfigImage string
	// Alerts that fire.
	Alerts []alerts.Alert
	Now    time.Time
}

// Assess judges how far an update is.
func Assess(in Input) *Status {
	cv := in.ClusterVersion
	status := &Status{Refused: refusalOf(cv)}
	if len(cv.Status.History) == 0 {
		return status
	}

	status.ControlPlaneNodes, status.WorkerPools = assessPools(&in)
	progressing := clusterupdate.Condition(cv.Status.Conditions, configv1.OperatorProgressing)
	status.Updating = progressing != nil && progressing.Status == metav1.ConditionTrue ||
		slices.ContainsFunc(status.WorkerPools, func(p Pool) bool { return p.Completed < p.Total })
	if !status.Updating {
		return &Status{Refused: status.Refused}
	}

	in.Operators = slices.DeleteFunc(slices.Clone(in.Operators), func(o configv1.ClusterOperator) bool { return !ofRelease(&o) })
	slices.SortFunc(in.Operators, func(a, b configv1.ClusterOperator) int { return cmp.Compare(a.Name, b.Name) })
	status.ControlPlane, status.Operators = assessControlPlane(&in)
	status.Health = slices.Concat(clusterVersionInsights(cv), operatorInsights(in.Operators, in.Now), poolInsights(status), alertInsights(in.Alerts))
	slices.SortStableFunc(status.Health, compareInsights)

	return status
}

// ofRelease reports whether an operator belongs to the release: those that others install
// carry none of the annotations by which releases include or exclude manifests.
func ofRelease(o *configv1.ClusterOperator) bool {
	for name := range o.Annotations {
		if strings.HasPrefix(name, release.AnnotationIncludePrefix) || strings.HasPrefix(name, release.AnnotationExcludePrefix) {
			return true
		}
	}
	return false
}

func assessControlPlane(in *Input) (*ControlPlane, []OperatorUpdate) {
	history := in.ClusterVersion.Status.History
	current := history[0]
	c := &ControlPlane{Version: current.Version, Started: current.StartedTime.Time, Target: targetOf(history), MultiArch: isMultiArch(history)}
	observed := c.Started
	var updates []OperatorUpdate
	for i := range in.Operators {
		o := &in.Operators[i]
		progressing := clusterupdate.Condition(o.Status.Conditions, configv1.OperatorProgressing)
		switch {
		case in.updated(o, current.Version):
			c.Updated++
			if progressing != nil && progressing.LastTransitionTime.After(observed) {
				observed = progressing.LastTransitionTime.Time
			}
		case progressing != nil && progressing.Status == metav1.ConditionTrue:
			c.InUpdate++
			c.Updating = append(c.Updating, o.Name)
			updates = append(updates, OperatorUpdate{o.Name, progressing.LastTransitionTime.Time, progressing.Reason, progressing.Message})
		default:
			c.Waiting++
		}
		if available := clusterupdate.Condition(o.Status.Conditions, configv1.OperatorAvailable); available != nil && available.Status == metav1.ConditionFalse {
			c.Unavailable++
		} else if degraded := clusterupdate.Condition(o.Status.Conditions, configv1.OperatorDegraded); degraded != nil && degraded.Status == metav1.ConditionTrue {
			c.Degraded++
		}
	}

	if current.State == configv1.CompletedUpdate && current.CompletionTime != nil {
		c.Finished = current.CompletionTime.Time
		c.Duration.Duration, c.Assessment = c.Finished.Sub(c.Started), Completed
		return c, updates
	}

	c.Duration.Duration = in.Now.Sub(c.Started)
	if nodes := lastNodes(c, updates); nodes.After(observed) {
		observed = nodes
	}

	c.Estimate.Duration = estimate(baseline(history), c.Duration.Duration, observed.Sub(c.Started), c.completion())
	c.Remaining.Duration = generous(c.Estimate.Duration - c.Duration.Duration)
	c.Assessment = assessmentOf(c.Remaining.Duration)

	return c, updates
}

// lastNodes returns when the operator of the nodes' configuration began to update, if it is the only
// one left: nodes are updated one after the other then, and the beginning of that is progress too.
// It is zero otherwise.
func lastNodes(c *ControlPlane, updates []OperatorUpdate) time.Time {
	if c.Waiting > 0 || len(updates) != 1 || updates[0].Name != machineConfigOperator {
		return time.Time{}
	}
	return updates[0].Since
}

// completion is the part of the operators that are updated, from 0 to 1.
func (c *ControlPlane) completion() float64 {
	return float64(c.Updated) / float64(max(c.Operators(), 1))
}

// updated reports whether an operator is at a version. That of the nodes' configuration tells by
// its image, too: it is of the same version when a cluster goes over to more architectures.
func (in *Input) updated(o *configv1.ClusterOperator, version string) bool {
	has := func(name string, is func(string) bool) bool {
		return slices.ContainsFunc(o.Status.Versions, func(v configv1.OperandVersion) bool { return v.Name == name && is(v.Version) })
	}
	if o.Name == machineConfigOperator && in.MachineConfigImage != "" && has(operatorImage, func(image string) bool { return image != in.MachineConfigImage }) {
		return false
	}
	return has("operator", func(v string) bool { return v == version })
}

func isMultiArch(history []configv1.UpdateHistory) bool {
	return len(history) > 1 && history[0].Version == history[1].Version && history[0].Image != history[1].Image
}

// targetOf names the version to be reached, and that which the cluster comes from.
func targetOf(history []configv1.UpdateHistory) string {
	current := nameOf(history[0])
	switch {
	case len(history) == 1:
		return current + " (installation)"
	case isMultiArch(history):
		return current + " to Multi-Architecture"
	case history[1].State == configv1.PartialUpdate:
		return fmt.Sprintf("%s (from incomplete %s)", current, nameOf(history[1]))
	}

	return fmt.Sprintf("%s (from %s)", current, nameOf(history[1]))
}

// nameOf names a release: by its image while its version is not known.
func nameOf(entry configv1.UpdateHistory) string { return cmp.Or(entry.Version, entry.Image) }
