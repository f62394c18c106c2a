package clusterupdate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/action/report"
)

// StatusReader tells how far an update of the cluster is.
type StatusReader struct {
	// Client reaches the cluster.
	Client client.Client
	// Now is the time.
	Now time.Time
}

// Run reads the ClusterVersion, the operators and the nodes, and judges them.
func (a *StatusReader) Run(ctx context.Context) (*Status, error) {
	cv, err := Read(ctx, a.Client)
	if err != nil {
		return nil, err
	}
	operators := &configv1.ClusterOperatorList{}
	if err := a.Client.List(ctx, operators); err != nil {
		return nil, &report.Error{Object: "clusteroperators", Err: err}
	}
	return Assess(cv, operators.Items, a.Now), nil
}

// Status is how far an update of the cluster is.
type Status struct {
	// Updating tells whether there is anything to tell.
	Updating bool `json:"updating"`
	// ControlPlane is the part of the update that the cluster-version-operator does.
	ControlPlane *ControlPlane `json:"controlPlane,omitempty"`
	// Operators are those that are being updated.
	Operators []OperatorUpdate `json:"operators,omitempty"`
	// Health is what a person should look at, the worst first.
	Health []Insight `json:"health,omitempty"`
}

// Assessment says in a word how something goes.
type Assessment string

// The assessments of a control plane.
const (
	Progressing Assessment = "Progressing"
	Slow        Assessment = "Progressing - Slow"
	Stalled     Assessment = "Stalled"
	Completed   Assessment = "Completed"
)

// ControlPlane is the update of what the release holds.
type ControlPlane struct {
	// Assessment in a word.
	Assessment Assessment `json:"assessment"`
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
	Duration time.Duration `json:"duration"`
	// Remaining is the estimate of what is left; negative when the estimate has passed.
	Remaining time.Duration `json:"remaining"`
	// Estimate is the estimate of the whole.
	Estimate time.Duration `json:"estimate"`
	// MultiArch says that the update is to the same version for more architectures, of
	// which nothing can be estimated.
	MultiArch bool `json:"multiArch,omitempty"`
}

// Operators counts the operators of the release.
func (c *ControlPlane) Operators() int { return c.Updated + c.InUpdate + c.Waiting }

// Percent is how many operators of a hundred are updated.
func (c *ControlPlane) Percent() int {
	if c.Operators() == 0 {
		return 100
	}
	return c.Updated * 100 / c.Operators()
}

// OperatorUpdate is an operator that is being updated.
type OperatorUpdate struct {
	Name string `json:"name"`
	// Since is when it said that it was at it.
	Since   time.Time `json:"since"`
	Reason  string    `json:"reason,omitempty"`
	Message string    `json:"message,omitempty"`
}

// Assess judges how far an update is.
func Assess(cv *configv1.ClusterVersion, operators []configv1.ClusterOperator, now time.Time) *Status {
	progressing := findingOf(cv, configv1.OperatorProgressing)
	if len(cv.Status.History) == 0 || progressing == nil || progressing.status != string(metav1.ConditionTrue) {
		return &Status{}
	}
	operators = slices.DeleteFunc(slices.Clone(operators), func(o configv1.ClusterOperator) bool { return !ofRelease(&o) })
	slices.SortFunc(operators, func(a, b configv1.ClusterOperator) int { return cmp.Compare(a.Name, b.Name) })
	status := &Status{Updating: true}
	status.ControlPlane, status.Operators = assessControlPlane(cv, operators, now)
	status.Health = append(clusterVersionInsights(cv, now), operatorInsights(operators, now)...)
	slices.SortStableFunc(status.Health, compareInsights)
	return status
}

// ofRelease tells whether an operator belongs to the release: those that others install
// carry none of the annotations by which releases include or exclude manifests.
func ofRelease(o *configv1.ClusterOperator) bool {
	for name := range o.Annotations {
		if strings.HasPrefix(name, "include.release.openshift.io/") || strings.HasPrefix(name, "exclude.release.openshift.io/") {
			return true
		}
	}
	return false
}

func assessControlPlane(cv *configv1.ClusterVersion, operators []configv1.ClusterOperator, now time.Time) (*ControlPlane, []OperatorUpdate) {
	current := cv.Status.History[0]
	c := &ControlPlane{Started: current.StartedTime.Time, Target: targetOf(cv), MultiArch: isMultiArch(cv.Status.History)}
	observed := c.Started
	var updates []OperatorUpdate
	for i := range operators {
		o := &operators[i]
		progressing := Condition(o.Status.Conditions, configv1.OperatorProgressing)
		switch {
		case updated(o, current.Version):
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
		if available := Condition(o.Status.Conditions, configv1.OperatorAvailable); available != nil && available.Status == metav1.ConditionFalse {
			c.Unavailable++
		} else if degraded := Condition(o.Status.Conditions, configv1.OperatorDegraded); degraded != nil && degraded.Status == metav1.ConditionTrue {
			c.Degraded++
		}
	}
	if current.State == configv1.CompletedUpdate && current.CompletionTime != nil {
		c.Finished = current.CompletionTime.Time
		c.Duration, c.Assessment = c.Finished.Sub(c.Started), Completed
		return c, updates
	}
	c.Duration = now.Sub(c.Started)
	c.Estimate = estimate(baseline(cv.Status.History), observed.Sub(c.Started), c.completion())
	c.Remaining = generous(c.Estimate - c.Duration)
	c.Assessment = assessmentOf(c.Remaining)
	return c, updates
}

func (c *ControlPlane) completion() float64 {
	if c.Operators() == 0 {
		return 1
	}
	return float64(c.Updated) / float64(c.Operators())
}

// updated tells whether an operator is at a version.
func updated(o *configv1.ClusterOperator, version string) bool {
	return slices.ContainsFunc(o.Status.Versions, func(v configv1.OperandVersion) bool { return v.Name == "operator" && v.Version == version })
}

func isMultiArch(history []configv1.UpdateHistory) bool {
	return len(history) > 1 && history[0].Version == history[1].Version && history[0].Image != history[1].Image
}

// targetOf names the version to be reached, and that which the cluster comes from.
func targetOf(cv *configv1.ClusterVersion) string {
	history := cv.Status.History
	current := history[0].Version
	switch {
	case len(history) == 1:
		return current + " (installation)"
	case isMultiArch(history):
		return current + " to Multi-Architecture"
	case history[1].State == configv1.PartialUpdate:
		return fmt.Sprintf("%s (from incomplete %s)", current, history[1].Version)
	}
	return fmt.Sprintf("%s (from %s)", current, history[1].Version)
}
