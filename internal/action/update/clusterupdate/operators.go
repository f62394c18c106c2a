package clusterupdate

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/action"
)

// OperatorState is the state of a ClusterOperator in one word.
type OperatorState string

// States of ClusterOperators, in the order in which they are looked for. The first that applies is the state.
const (
	OperatorCannotUpdate OperatorState = "CannotUpdate"
	OperatorUnavailable  OperatorState = "Unavailable"
	OperatorDegraded     OperatorState = "Degraded"
	OperatorProgressing  OperatorState = "Progressing"
	OperatorAvailable    OperatorState = "Available"
	OperatorUnknown      OperatorState = "Unknown"
)

// operatorStates are the conditions behind the states, and the words for them.
var operatorStates = []struct {
	state     OperatorState
	condition string
	status    metav1.ConditionStatus
	text      string
}{
	{OperatorCannotUpdate, configv1.OperatorUpgradeable, metav1.ConditionFalse, "The operator blocks updates to another minor version."},
	{OperatorUnavailable, configv1.OperatorAvailable, metav1.ConditionFalse, "The operator does not work."},
	{OperatorDegraded, configv1.OperatorDegraded, metav1.ConditionTrue, "The operator works, but not as it should."},
	{OperatorProgressing, configv1.OperatorProgressing, metav1.ConditionTrue, "The operator is applying a change."},
	{OperatorAvailable, configv1.OperatorAvailable, metav1.ConditionTrue, "The operator works."},
}

// OperatorView is a ClusterOperator for display.
type OperatorView struct {
	Name  string        `json:"name"`
	State OperatorState `json:"state" enum:"CannotUpdate,Unavailable,Degraded,Progressing,Available,Unknown"`
	// Text is a sentence for people. Reason and Message are those of the condition behind the state.
	Text    string `json:"text"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Version is the version of the operator. It is empty if the operator reports none.
	Version    string              `json:"version,omitempty"`
	Versions   []OperandVersion    `json:"versions,omitempty"`
	Conditions []OperatorCondition `json:"conditions,omitempty"`
	// Related are the objects that the operator has to do with.
	Related []RelatedObject `json:"related,omitempty"`
}

// OperandVersion is the version of a part of an operator.
type OperandVersion struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// RelatedObject is an object that an operator has to do with.
type RelatedObject struct {
	Group     string `json:"group,omitempty"`
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

// NeedsPerson reports whether the state of the operator lasts until a person does something.
func (o *OperatorView) NeedsPerson() bool {
	return o.State == OperatorUnavailable || o.State == OperatorDegraded
}

// Operators lists the ClusterOperators.
type Operators struct {
	// Client is the client of the cluster.
	Client client.Client
	// Name limits the list to one operator. Empty means all.
	Name string
}

// Run returns the ClusterOperators, sorted by name. A cluster that does not serve the kind has none.
func (a *Operators) Run(ctx context.Context) ([]OperatorView, error) {
	var list configv1.ClusterOperatorList
	if a.Name != "" {
		list.Items = make([]configv1.ClusterOperator, 1)
		if err := a.Client.Get(ctx, client.ObjectKey{Name: a.Name}, &list.Items[0]); err != nil {
			return nil, action.NewNotFoundError(fmt.Sprintf("clusteroperator %q", a.Name), "kubectl get clusteroperators", err)
		}
	} else if err := a.Client.List(ctx, &list); err != nil {
		if action.IsUnknownKind(err) {
			return nil, nil
		}
		return nil, action.NewServerError("clusteroperators", err)
	}

	views := make([]OperatorView, 0, len(list.Items))
	for i := range list.Items {
		views = append(views, DescribeOperator(&list.Items[i]))
	}
	slices.SortFunc(views, func(a, b OperatorView) int { return cmp.Compare(a.Name, b.Name) })
	return views, nil
}

// DescribeOperator returns a ClusterOperator for display.
func DescribeOperator(o *configv1.ClusterOperator) OperatorView {
	view := OperatorView{Name: o.Name, State: OperatorUnknown, Text: "The operator does not report whether it works.", Conditions: describeConditions(o.Status.Conditions)}
	for _, s := range operatorStates {
		if c := configv1.FindCondition(o.Status.Conditions, s.condition); c != nil && c.Status == s.status {
			view.State, view.Text, view.Reason, view.Message = s.state, s.text, c.Reason, c.Message
			break
		}
	}

	for _, v := range o.Status.Versions {
		if v.Name == "operator" {
			view.Version = v.Version
		}
		view.Versions = append(view.Versions, OperandVersion{Name: v.Name, Version: v.Version})
	}
	for _, r := range o.Status.RelatedObjects {
		view.Related = append(view.Related, RelatedObject{Group: r.Group, Resource: r.Resource, Namespace: r.Namespace, Name: r.Name})
	}
	return view
}
