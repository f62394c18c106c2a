package subscription

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/action/report"
)

// Plan describes an InstallPlan that waits for an approval.
type Plan struct {
	Name string `json:"name"`
	// Operators are the ClusterServiceVersions that the plan installs.
	Operators []string `json:"operators"`
	// Subscriptions are the Subscriptions that the plan fulfills.
	Subscriptions []string `json:"subscriptions"`
	// CRDs are the names of the CRDs that the plan creates or changes.
	CRDs []string `json:"crds,omitempty"`
	// Objects are the numbers of the other objects that it writes.
	Objects []KindCount `json:"objects,omitempty"`
	// Steps are all objects of the plan, in its order.
	Steps []PlanStep `json:"steps,omitempty"`
	// ResourceVersion identifies the plan that was previewed.
	ResourceVersion string `json:"resourceVersion"`

	plan *v1alpha1.InstallPlan
}

// PlanStep is an object of an InstallPlan.
type PlanStep struct {
	APIVersion string              `json:"apiVersion"`
	Kind       string              `json:"kind"`
	Name       string              `json:"name"`
	Status     v1alpha1.StepStatus `json:"status"`
}

// KindCount is the number of objects of a kind.
type KindCount struct {
	Kind  string `json:"kind"`
	Count int    `json:"count"`
}

// Approve approves the InstallPlan that a Subscription waits for.
type Approve struct {
	Client   client.Client
	Progress report.Progress

	// Namespace and Name identify the Subscription. Name may also be the name of its package.
	Namespace, Name string
	// Wait, if not nil, makes Run wait until the approved version runs.
	Wait *action.Wait

	subscription *v1alpha1.Subscription
}

// Preview returns what the approval would install.
func (a *Approve) Preview(ctx context.Context) (*Plan, error) {
	sub, err := getSubscription(ctx, a.Client, a.Namespace, a.Name)
	if err != nil {
		return nil, err
	}

	a.subscription = sub
	object := describeSubscription(a.Namespace, sub.Name)
	facts, err := readFacts(ctx, a.Client, sub)
	if err != nil {
		return nil, action.NewServerError(object, err)
	}

	if plan := facts.Plan; plan == nil || plan.Spec.Approved || plan.Status.Phase != v1alpha1.InstallPlanPhaseRequiresApproval {
		v := assessFacts(&facts)
		return nil, &report.Error{Object: object, Err: fmt.Errorf("no InstallPlan waits for an approval: %s", cmp.Or(v.oneLineMessage(), v.summary)),
			Advice: fmt.Sprintf("'mainstay subscription explain %s -n %s' explains its state", sub.Name, sub.Namespace)}
	}

	return describePlan(&facts), nil
}

// describePlan returns what a plan installs.
func describePlan(f *Facts) *Plan {
	p := &Plan{Name: f.Plan.Name, ResourceVersion: f.Plan.ResourceVersion, Operators: f.Plan.Spec.ClusterServiceVersionNames, Subscriptions: []string{f.Subscription.Name}, plan: f.Plan}
	for i := range f.Siblings {
		if ref := f.Siblings[i].Status.InstallPlanRef; ref != nil && ref.Name == f.Plan.Name {
			p.Subscriptions = append(p.Subscriptions, f.Siblings[i].Name)
		}
	}

	counts := map[string]int{}
	for _, step := range f.Plan.Status.Plan {
		apiVersion := schema.GroupVersion{Group: step.Resource.Group, Version: step.Resource.Version}.String()
		p.Steps = append(p.Steps, PlanStep{APIVersion: apiVersion, Kind: step.Resource.Kind, Name: step.Resource.Name, Status: step.Status})
		switch kind := step.Resource.Kind; kind {
		case "CustomResourceDefinition":
			p.CRDs = append(p.CRDs, step.Resource.Name)
		case v1alpha1.ClusterServiceVersionKind:
		default:
			counts[kind]++
		}
	}

	slices.Sort(p.CRDs)
	p.CRDs = slices.Compact(p.CRDs)
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		p.Objects = append(p.Objects, KindCount{Kind: kind, Count: counts[kind]})
	}

	return p
}

// Run approves the plan of Preview and waits if requested. It refuses a plan that installs something
// else since.
func (a *Approve) Run(ctx context.Context, p *Plan) (*v1alpha1.Subscription, error) {
	if a.subscription == nil {
		return nil, errors.New("Run needs the plan of Preview")
	}

	if err := a.approvePlan(ctx, p.plan); err != nil {
		return nil, action.NewServerError(fmt.Sprintf("installplan %q", p.Name), err)
	}

	report.OrQuiet(a.Progress).Done(fmt.Sprintf("installplan %q approved", p.Name))
	if a.Wait == nil {
		return a.subscription, nil
	}

	return a.subscription, waitUntilReady(ctx, a.Client, a.Wait, a.Progress, a.subscription)
}

// maxApprovalAttempts limits how often an approval is tried while other clients write to the plan.
const maxApprovalAttempts = 5

// approvePlan approves a plan that still installs the same. catalog-operator may write to the plan at
// any time, such as its conditions.
func (a *Approve) approvePlan(ctx context.Context, shown *v1alpha1.InstallPlan) error {
	live := shown.DeepCopy()
	var err error
	for range maxApprovalAttempts {
		approved := live.DeepCopy()
		approved.Spec.Approved = true
		err = a.Client.Patch(ctx, approved, client.MergeFromWithOptions(live, client.MergeFromWithOptimisticLock{}))
		if !apierrors.IsConflict(err) {
			return err
		}
		if readErr := a.Client.Get(ctx, client.ObjectKeyFromObject(shown), live); readErr != nil {
			return readErr
		}
		if !installsSame(live, shown) {
			break
		}
	}
	return err
}

// installsSame reports whether two states of an InstallPlan install the same objects.
func installsSame(a, b *v1alpha1.InstallPlan) bool {
	return a.UID == b.UID && equality.Semantic.DeepEqual(a.Spec, b.Spec) &&
		slices.EqualFunc(a.Status.Plan, b.Status.Plan, func(x, y *v1alpha1.Step) bool { return equality.Semantic.DeepEqual(x.Resource, y.Resource) })
}
