package subscription

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// Tree describes a Subscription with its plan, its operator and the operator's Deployments.
type Tree struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Package   string `json:"package"`
	Channel   string `json:"channel,omitempty"`
	// Catalog is the catalog, as NAMESPACE/NAME.
	Catalog string `json:"catalog"`
	State   State  `json:"state"`
	// Message states why the operator is not ready.
	Message string `json:"message,omitempty"`
	// Progress are the parts of an installation or upgrade. It is empty for an operator that is ready.
	Progress []report.Part `json:"progress,omitempty"`
	// Conditions are the conditions of the Subscription that are True.
	Conditions []v1alpha1.SubscriptionCondition `json:"conditions,omitempty"`
	Plan       *PlanState                       `json:"installPlan,omitempty"`
	Operator   *OperatorState                   `json:"operator,omitempty"`
}

// PlanState is the state of an InstallPlan.
type PlanState struct {
	Name     string                    `json:"name"`
	Phase    v1alpha1.InstallPlanPhase `json:"phase"`
	Approved bool                      `json:"approved"`
	Installs []string                  `json:"installs,omitempty"`
	// Steps and Done are the numbers of objects in the plan and of those that exist.
	Steps int `json:"steps"`
	Done  int `json:"done"`
}

// OperatorState is the state of a ClusterServiceVersion.
type OperatorState struct {
	Name    string                              `json:"name"`
	Version string                              `json:"version,omitempty"`
	Phase   v1alpha1.ClusterServiceVersionPhase `json:"phase"`
	Reason  string                              `json:"reason,omitempty"`
	Message string                              `json:"message,omitempty"`
	// Unmet are the requirements that the cluster does not meet.
	Unmet       []string          `json:"unmetRequirements,omitempty"`
	Deployments []DeploymentState `json:"deployments,omitempty"`

	Watched
}

// Watched are the namespaces that an operator manages.
type Watched struct {
	// WatchesAll reports whether the operator manages all namespaces.
	WatchesAll bool `json:"watchesAll,omitempty"`
	// Watches are the namespaces that the operator manages. It is empty if these are all, or if they are unknown.
	Watches []string `json:"watches,omitempty"`
}

// WatchedBy returns the namespaces that an operator manages, as its OperatorGroup has decided.
func WatchedBy(csv *v1alpha1.ClusterServiceVersion) Watched {
	targets, ok := csv.Annotations[csvinfo.AnnotationTargetNamespaces]
	switch {
	case !ok:
		return Watched{}
	case targets == "":
		return Watched{WatchesAll: true}
	default:
		return Watched{Watches: strings.Split(targets, ",")}
	}
}

// DeploymentState is the state of a Deployment of an operator.
type DeploymentState struct {
	Name  string `json:"name"`
	Ready int32  `json:"ready"`
	Want  int32  `json:"want"`
	// Message states why it is not ready.
	Message string `json:"message,omitempty"`
}

// Status reads the state of a Subscription and of all that belongs to it.
type Status struct {
	Client client.Client
	// Namespace and Name identify the Subscription. Name may also be the name of its package.
	Namespace, Name string
}

// Run returns the state.
func (a *Status) Run(ctx context.Context) (*Tree, error) {
	sub, err := getSubscription(ctx, a.Client, a.Namespace, a.Name)
	if err != nil {
		return nil, err
	}

	object := describeSubscription(a.Namespace, sub.Name)
	facts, err := readFacts(ctx, a.Client, sub)
	if err != nil {
		return nil, action.NewServerError(object, err)
	}

	tree := newTree(&facts)
	if facts.CSV != nil {
		if tree.Operator.Deployments, err = a.readDeployments(ctx, facts.CSV); err != nil {
			return nil, action.NewServerError(object, err)
		}
	}

	return tree, nil
}

// newTree returns the state without the Deployments.
func newTree(f *Facts) *Tree {
	sub, v := f.Subscription, assessFacts(f)
	tree := &Tree{
		Name: sub.Name, Namespace: sub.Namespace, Package: sub.Spec.Package, Channel: sub.Spec.Channel,
		Catalog: sub.Spec.CatalogSourceNamespace + "/" + sub.Spec.CatalogSource, State: v.state, Message: v.oneLineMessage(),
	}
	if v.state != StateReady {
		tree.Progress = progressParts(f, v)
	}
	for _, c := range sub.Status.Conditions {
		if c.Status == corev1.ConditionTrue {
			tree.Conditions = append(tree.Conditions, c)
		}
	}

	if plan := f.Plan; plan != nil {
		tree.Plan = &PlanState{Name: plan.Name, Phase: plan.Status.Phase, Approved: plan.Spec.Approved, Installs: plan.Spec.ClusterServiceVersionNames, Steps: len(plan.Status.Plan)}
		for _, step := range plan.Status.Plan {
			if step.Status == v1alpha1.StepStatusCreated || step.Status == v1alpha1.StepStatusPresent {
				tree.Plan.Done++
			}
		}
	}

	if csv := f.CSV; csv != nil {
		tree.Operator = &OperatorState{Name: csv.Name, Version: string(csv.Spec.Version), Phase: csv.Status.Phase, Reason: csv.Status.Reason, Message: csv.Status.Message, Watched: WatchedBy(csv)}
		for _, r := range csv.Status.RequirementStatus {
			if r.Status != v1alpha1.RequirementPresent {
				tree.Operator.Unmet = append(tree.Operator.Unmet, fmt.Sprintf("%s %s: %s %s", r.Kind, r.Name, r.Status, r.Message))
			}
		}
	}

	return tree
}

// readDeployments returns the state of the operator's Deployments.
func (a *Status) readDeployments(ctx context.Context, csv *v1alpha1.ClusterServiceVersion) ([]DeploymentState, error) {
	var states []DeploymentState
	for _, spec := range csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		deployment := &appsv1.Deployment{}
		err := a.Client.Get(ctx, client.ObjectKey{Namespace: csv.Namespace, Name: spec.Name}, deployment)
		switch {
		case apierrors.IsNotFound(err):
			states = append(states, DeploymentState{Name: spec.Name, Want: 1, Message: "it does not exist"})
		case apierrors.IsForbidden(err):
			states = append(states, DeploymentState{Name: spec.Name, Message: "you are not allowed to read it"})
		case err != nil:
			return nil, err
		default:
			states = append(states, newDeploymentState(deployment))
		}
	}
	return states, nil
}

func newDeploymentState(d *appsv1.Deployment) DeploymentState {
	s := DeploymentState{Name: d.Name, Ready: d.Status.ReadyReplicas, Want: 1}
	if d.Spec.Replicas != nil {
		s.Want = *d.Spec.Replicas
	}
	if s.Ready >= s.Want {
		return s
	}

	for _, c := range d.Status.Conditions {
		isProblem := c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue ||
			c.Type != appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionFalse
		if isProblem && c.Message != "" {
			s.Message = c.Message
		}
	}
	return s
}
