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
	"github.com/mainstay-dev/mainstay/internal/action/update/alerts"
	"github.com/mainstay-dev/mainstay/internal/release"
)

// Status is the status of a cluster update.
type Status struct {
	// Updating reports whether an update is in progress.
	Updating bool `json:"updating"`
	// Refused is a requested update that the operator refuses. It is nil if there is none.
	Refused *UpdateRefusal `json:"refused,omitempty"`
	// ControlPlane is the part of the update that the cluster-version-operator performs.
	ControlPlane *ControlPlane `json:"controlPlane,omitempty"`
	// Operators are the operators that are updating.
	Operators []OperatorUpdate `json:"operators,omitempty"`
	// ControlPlaneNodes is the pool of control plane nodes. It is nil if that pool has no
	// nodes.
	ControlPlaneNodes *Pool `json:"controlPlaneNodes,omitempty"`
	// WorkerPools are the other pools with nodes, sorted by name.
	WorkerPools []Pool `json:"workerPools,omitempty"`
	// Health are the insights, the most severe first.
	Health []Insight `json:"health,omitempty"`
}

// Assessment summarizes progress in a word.
type Assessment string

// Assessments of both the control plane and pools.
const (
	Progressing Assessment = "Progressing"
	Completed   Assessment = "Completed"
)

// Assessments of the control plane only: the estimate is exceeded, and exceeded by far.
const (
	Slow    Assessment = "Progressing - Slow"
	Stalled Assessment = "Stalled"
)

// Assessments of pools only.
const (
	// Degraded means that nodes have failed.
	Degraded Assessment = "Degraded"
	// Excluded means that the pool is paused.
	Excluded Assessment = "Excluded"
	// Pending means that no node has started to update.
	Pending Assessment = "Pending"
)

// ControlPlane is the status of the release's operators.
type ControlPlane struct {
	// Assessment summarizes the progress.
	Assessment Assessment `json:"assessment"`
	// Version is the target version. It is empty while that is unknown.
	Version string `json:"version,omitempty"`
	// Target describes the target version and the version that the cluster updates from.
	Target string `json:"target"`
	// Updating are the names of the operators that are updating.
	Updating []string `json:"updating,omitempty"`
	// Updated, InUpdate and Waiting are numbers of operators of the release.
	Updated  int `json:"updated"`
	InUpdate int `json:"inUpdate"`
	Waiting  int `json:"waiting"`
	// Unavailable and Degraded are numbers of unhealthy operators. An unavailable operator
	// does not count as degraded.
	Unavailable int `json:"unavailable"`
	Degraded    int `json:"degraded"`
	// Started is when the update started. Finished is when it completed.
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished,omitzero"`
	// Duration is the time from the start until now, or until completion.
	Duration metav1.Duration `json:"duration"`
	// Remaining is the estimated remaining time. It is negative if the estimate is
	// exceeded.
	Remaining metav1.Duration `json:"remaining"`
	// Estimate is the estimated duration of the whole update.
	Estimate metav1.Duration `json:"estimate"`
	// MultiArch reports whether the update adds architectures to the same version. The
	// duration of such an update cannot be estimated.
	MultiArch bool `json:"multiArch,omitempty"`
}

// Operators returns the number of the release's operators.
func (c *ControlPlane) Operators() int { return c.Updated + c.InUpdate + c.Waiting }

// Percent returns the percentage of updated operators.
func (c *ControlPlane) Percent() int { return roundedPercent(c.Updated, c.Operators()) }

// roundedPercent returns part as a percentage of whole, rounded to the nearest integer.
func roundedPercent(part, whole int) int {
	return int(math.Round(100 * float64(part) / float64(max(whole, 1))))
}

// OperatorUpdate is an operator that is updating.
type OperatorUpdate struct {
	Name string `json:"name"`
	// Since is when the operator reported that it is progressing.
	Since   time.Time `json:"since"`
	Reason  string    `json:"reason,omitempty"`
	Message string    `json:"message,omitempty"`
}

// Input contains the objects that a status is computed from.
type Input struct {
	ClusterVersion *configv1.ClusterVersion
	Operators      []configv1.ClusterOperator
	Pools          []mcfgv1.MachineConfigPool
	Nodes          []corev1.Node
	// Versions are the release versions of machine configs by name. A machine config that
	// is missing has an unknown version.
	Versions map[string]string
	// MachineConfigImage is the image of the machine-config-operator. It is empty if that
	// is unknown.
	MachineConfigImage string
	// Alerts are the firing alerts.
	Alerts []alerts.Alert
	Now    time.Time
}

// Assess returns the status of an update.
func Assess(in Input) *Status {
	cv := in.ClusterVersion
	status := &Status{Refused: findRefusal(cv)}
	if len(cv.Status.History) == 0 {
		return status
	}

	status.ControlPlaneNodes, status.WorkerPools = assessPools(&in)
	progressing := configv1.FindCondition(cv.Status.Conditions, configv1.OperatorProgressing)
	status.Updating = progressing != nil && progressing.Status == metav1.ConditionTrue ||
		slices.ContainsFunc(status.WorkerPools, func(p Pool) bool { return p.Completed < p.Total })
	if !status.Updating {
		return &Status{Refused: status.Refused}
	}

	in.Operators = slices.DeleteFunc(slices.Clone(in.Operators), func(o configv1.ClusterOperator) bool { return !isReleaseOperator(&o) })
	slices.SortFunc(in.Operators, func(a, b configv1.ClusterOperator) int { return cmp.Compare(a.Name, b.Name) })
	status.ControlPlane, status.Operators = assessControlPlane(&in)
	status.Health = slices.Concat(clusterVersionInsights(cv), operatorInsights(in.Operators, in.Now), poolInsights(status), alertInsights(in.Alerts))
	slices.SortStableFunc(status.Health, compareInsights)

	return status
}

// isReleaseOperator reports whether an operator belongs to the release. Operators from
// other sources have none of the annotations by which releases include or exclude
// manifests.
func isReleaseOperator(o *configv1.ClusterOperator) bool {
	for name := range o.Annotations {
		if strings.HasPrefix(name, release.AnnotationIncludePrefix) || strings.HasPrefix(name, release.AnnotationExcludePrefix) {
			return true
		}
	}
	return false
}

// assessControlPlane returns the status of the control plane and the operators that are
// updating.
func assessControlPlane(in *Input) (*ControlPlane, []OperatorUpdate) {
	history := in.ClusterVersion.Status.History
	current := history[0]
	c := &ControlPlane{Version: current.Version, Started: current.StartedTime.Time, Target: describeTarget(history), MultiArch: isMultiArchMigration(history)}
	observed := c.Started
	var updates []OperatorUpdate
	for i := range in.Operators {
		o := &in.Operators[i]
		progressing := configv1.FindCondition(o.Status.Conditions, configv1.OperatorProgressing)
		switch {
		case in.isOperatorUpdated(o, current.Version):
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
		if available := configv1.FindCondition(o.Status.Conditions, configv1.OperatorAvailable); available != nil && available.Status == metav1.ConditionFalse {
			c.Unavailable++
		} else if degraded := configv1.FindCondition(o.Status.Conditions, configv1.OperatorDegraded); degraded != nil && degraded.Status == metav1.ConditionTrue {
			c.Degraded++
		}
	}

	if current.State == configv1.CompletedUpdate && current.CompletionTime != nil {
		c.Finished = current.CompletionTime.Time
		c.Duration.Duration, c.Assessment = c.Finished.Sub(c.Started), Completed
		return c, updates
	}

	c.Duration.Duration = in.Now.Sub(c.Started)
	if nodes := nodeUpdateStart(c, updates); nodes.After(observed) {
		observed = nodes
	}

	c.Estimate.Duration = estimateUpdateDuration(previousUpdateDuration(history), c.Duration.Duration, observed.Sub(c.Started), c.updatedFraction())
	c.Remaining.Duration = stretchEstimate(c.Estimate.Duration - c.Duration.Duration)
	c.Assessment = assessRemainingTime(c.Remaining.Duration)

	return c, updates
}

// nodeUpdateStart returns when the machine-config-operator started to update if it is the
// only operator left, and zero otherwise. Nodes are then updated one after the other, and
// the start of that counts as progress.
func nodeUpdateStart(c *ControlPlane, updates []OperatorUpdate) time.Time {
	if c.Waiting > 0 || len(updates) != 1 || updates[0].Name != machineConfigOperator {
		return time.Time{}
	}
	return updates[0].Since
}

// updatedFraction returns the fraction of updated operators, from 0 to 1.
func (c *ControlPlane) updatedFraction() float64 {
	return float64(c.Updated) / float64(max(c.Operators(), 1))
}

// isOperatorUpdated reports whether an operator reports a version. For the
// machine-config-operator it also compares the image, because a migration to several
// architectures keeps the version.
func (in *Input) isOperatorUpdated(o *configv1.ClusterOperator, version string) bool {
	has := func(name string, is func(string) bool) bool {
		return slices.ContainsFunc(o.Status.Versions, func(v configv1.OperandVersion) bool { return v.Name == name && is(v.Version) })
	}
	if o.Name == machineConfigOperator && in.MachineConfigImage != "" && has(operatorImage, func(image string) bool { return image != in.MachineConfigImage }) {
		return false
	}
	return has("operator", func(v string) bool { return v == version })
}

// isMultiArchMigration reports whether the current update changes only the image of the
// release and not its version.
func isMultiArchMigration(history []configv1.UpdateHistory) bool {
	return len(history) > 1 && history[0].Version == history[1].Version && history[0].Image != history[1].Image
}

// describeTarget returns the target version and the version that the cluster updates from.
func describeTarget(history []configv1.UpdateHistory) string {
	current := describeRelease(history[0])
	switch {
	case len(history) == 1:
		return current + " (installation)"
	case isMultiArchMigration(history):
		return current + " to Multi-Architecture"
	case history[1].State == configv1.PartialUpdate:
		return fmt.Sprintf("%s (from incomplete %s)", current, describeRelease(history[1]))
	}

	return fmt.Sprintf("%s (from %s)", current, describeRelease(history[1]))
}

// describeRelease returns the version of a release, or its image if the version is unknown.
func describeRelease(entry configv1.UpdateHistory) string { return cmp.Or(entry.Version, entry.Image) }
