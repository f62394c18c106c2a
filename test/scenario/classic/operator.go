package classic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/test/scenario/trial"
)

// Request selects an operator.
type Request struct {
	Package *Package
	Channel string
	// StartingCSV is installed first. Empty means the head of the channel.
	StartingCSV string
	// Namespace is created for the operator.
	Namespace string
	// WatchNamespaces are the namespaces that the operator watches; none means all. Those that do not
	// exist are created.
	WatchNamespaces []string
	Approval        v1alpha1.Approval
}

// Operator is an operator with a namespace of its own. Its Subscription has the name of its package.
type Operator struct {
	Request
	site *Site
}

// catalogName is the name of the CatalogSource in each namespace of an operator.
const catalogName = "scenario"

// Subscribe creates the namespace of an operator with a CatalogSource, an OperatorGroup and a
// Subscription.
func (s *Site) Subscribe(ctx context.Context, r Request) (*Operator, error) {
	o := &Operator{Request: r, site: s}
	for _, name := range o.ownNamespaces() {
		if err := s.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return nil, err
		}
	}

	catalog := &v1alpha1.CatalogSource{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: catalogName},
		Spec:       v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeGrpc, Address: s.catalogAddress},
	}
	group := &operatorsv1.OperatorGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: "group"},
		Spec:       operatorsv1.OperatorGroupSpec{TargetNamespaces: r.WatchNamespaces},
	}
	subscription := &v1alpha1.Subscription{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Package.Name},
		Spec: v1alpha1.SubscriptionSpec{
			CatalogSource: catalogName, CatalogSourceNamespace: r.Namespace, Package: r.Package.Name, Channel: r.Channel,
			StartingCSV: r.StartingCSV, InstallPlanApproval: r.Approval,
		},
	}
	if err := errors.Join(s.Create(ctx, catalog), s.Create(ctx, group)); err != nil {
		return nil, err
	}
	// Until the catalog is read, a Subscription reports that the catalog has no operators.
	if err := s.waitForCatalog(ctx, r.Namespace); err != nil {
		return nil, err
	}

	return o, s.Create(ctx, subscription)
}

// waitForCatalog waits until catalog-operator is connected to the CatalogSource of a namespace.
func (s *Site) waitForCatalog(ctx context.Context, namespace string) error {
	return trial.WaitFor(ctx, func(ctx context.Context) error {
		catalog := &v1alpha1.CatalogSource{}
		if err := s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: catalogName}, catalog); err != nil {
			return err
		}
		if state := catalog.Status.GRPCConnectionState; state == nil || state.LastObservedState != "READY" {
			return fmt.Errorf("the CatalogSource of namespace %s is not READY: %s", namespace, catalog.Status.Message)
		}
		return nil
	})
}

// ownNamespaces returns the namespace of the operator and those that it watches.
func (o *Operator) ownNamespaces() []string {
	return slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(o.WatchNamespaces), o.Namespace))))
}

// ReadFacts reads the objects of the operator.
func (o *Operator) ReadFacts(ctx context.Context) (*Facts, error) {
	f := &Facts{Subscription: &v1alpha1.Subscription{}}
	if err := o.site.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: o.Package.Name}, f.Subscription); err != nil {
		return nil, err
	}

	var plans v1alpha1.InstallPlanList
	var csvs v1alpha1.ClusterServiceVersionList
	if err := errors.Join(o.site.List(ctx, &plans, client.InNamespace(o.Namespace)), o.site.List(ctx, &csvs, client.InNamespace(o.Namespace))); err != nil {
		return nil, err
	}

	slices.SortFunc(plans.Items, func(a, b v1alpha1.InstallPlan) int { return a.Spec.Generation - b.Spec.Generation })
	f.Plans = plans.Items
	f.CSVs = slices.DeleteFunc(csvs.Items, func(csv v1alpha1.ClusterServiceVersion) bool { return csv.Status.Reason == v1alpha1.CSVReasonCopied })
	return f, nil
}

// WaitForOutcome waits until a ClusterServiceVersion is installed or refused.
func (o *Operator) WaitForOutcome(ctx context.Context, csv string) (trial.Outcome, string) {
	var result trial.Outcome
	var reason, alarm string
	err := trial.WaitFor(ctx, func(ctx context.Context) error {
		facts, err := o.ReadFacts(ctx)
		if err != nil {
			return err
		}

		alarm = cmp.Or(alarm, facts.falseAlarm())
		if result, reason = facts.Judge(csv); result == "" {
			return errors.New(reason)
		}
		return nil
	})
	switch {
	case err != nil:
		return trial.Unexpected, err.Error()
	case alarm != "":
		return trial.Unexpected, alarm
	}

	return result, reason
}

// WaitForPlan waits until an InstallPlan waits for approval, and returns the ClusterServiceVersion of
// the package in it. The outcome is not empty if the ClusterServiceVersion is refused, or if the wait
// fails.
func (o *Operator) WaitForPlan(ctx context.Context) (csv string, result trial.Outcome, reason string) {
	err := trial.WaitFor(ctx, func(ctx context.Context) error {
		facts, err := o.ReadFacts(ctx)
		if err != nil {
			return err
		}

		if plan := facts.PendingPlan(); plan != nil {
			csv, err = o.findPlannedCSV(plan)
			return err
		}
		if result, reason = facts.Judge(facts.Subscription.Status.CurrentCSV); result == trial.Refused {
			return nil
		}
		return fmt.Errorf("no InstallPlan waits for approval: %s", facts.describeSubscription())
	})
	switch {
	case err != nil:
		return "", trial.Unexpected, err.Error()
	case csv != "":
		return csv, "", ""
	}
	return "", result, reason
}

// findPlannedCSV returns the ClusterServiceVersion of the package in an InstallPlan.
func (o *Operator) findPlannedCSV(plan *v1alpha1.InstallPlan) (string, error) {
	for _, name := range plan.Spec.ClusterServiceVersionNames {
		if o.Package.Bundle(name) != nil {
			return name, nil
		}
	}
	return "", fmt.Errorf("InstallPlan %s installs %q, and nothing of package %s", plan.Name, plan.Spec.ClusterServiceVersionNames, o.Package.Name)
}

// WaitForHead waits until the head of the channel is installed by automatic upgrades, or one of the
// upgrades is refused. An InstallPlan from before the change to automatic approval is approved by hand.
// It returns the ClusterServiceVersion that was chosen last.
func (o *Operator) WaitForHead(ctx context.Context, head string) (reached string, result trial.Outcome, reason string) {
	err := trial.WaitFor(ctx, func(ctx context.Context) error {
		facts, err := o.ReadFacts(ctx)
		if err != nil {
			return err
		}
		if plan := facts.PendingPlan(); plan != nil && plan.Spec.Approval == v1alpha1.ApprovalManual {
			return errors.Join(o.Approve(ctx), errors.New("InstallPlan "+plan.Name+" has just been approved"))
		}

		reached = facts.Subscription.Status.CurrentCSV
		result, reason = facts.Judge(reached)
		if result == "" || (result == trial.Installed && reached != head) {
			return fmt.Errorf("on the way to %s: %s: %s", head, reached, reason)
		}
		return nil
	})
	if err != nil {
		return reached, trial.Unexpected, err.Error()
	}
	return reached, result, reason
}

// PlannedCSVs returns the ClusterServiceVersions of the package in the InstallPlans that are kept, the
// oldest first.
func (o *Operator) PlannedCSVs(ctx context.Context) ([]string, error) {
	facts, err := o.ReadFacts(ctx)
	if err != nil {
		return nil, err
	}

	var names []string
	for i := range facts.Plans {
		if name, err := o.findPlannedCSV(&facts.Plans[i]); err == nil {
			names = append(names, name)
		}
	}
	return slices.Compact(names), nil
}

// Approve approves the InstallPlan that waits.
func (o *Operator) Approve(ctx context.Context) error {
	_, err := o.site.Mainstay(ctx, "subscription", "approve", o.Package.Name, "--namespace", o.Namespace, "--yes")
	return err
}

// SetApproval changes how further InstallPlans are approved.
func (o *Operator) SetApproval(ctx context.Context, approval v1alpha1.Approval) error {
	_, err := o.site.Mainstay(ctx, "subscription", "upgrade", o.Package.Name, "--namespace", o.Namespace, "--approval", string(approval))
	return err
}

// CheckDependencies returns the ClusterServiceVersions that were installed for the operator, and an
// error if an API that its bundle requires is not provided by one of them.
func (o *Operator) CheckDependencies(ctx context.Context, csv string) ([]string, error) {
	facts, err := o.ReadFacts(ctx)
	if err != nil {
		return nil, err
	}

	var others []string
	provided := map[string]bool{}
	for i := range facts.CSVs {
		other := &facts.CSVs[i]
		if other.Name == csv {
			continue
		}
		others = append(others, other.Name)
		for _, owned := range other.Spec.CustomResourceDefinitions.Owned {
			_, group, _ := strings.Cut(owned.Name, ".")
			provided[group+"/"+owned.Kind] = true
		}
	}

	for _, api := range o.Package.Bundle(csv).Requires {
		if !provided[api.Group+"/"+api.Kind] {
			return others, fmt.Errorf("%s requires %s of group %s, which %q do not own", csv, api.Kind, api.Group, others)
		}
	}
	return others, nil
}

// Remove uninstalls the operator with its CRDs and its dependencies, and deletes its
// namespaces. CheckNothingLeft finds the objects that are left behind.
func (o *Operator) Remove(ctx context.Context) error {
	var subscriptions v1alpha1.SubscriptionList
	err := o.site.List(ctx, &subscriptions, client.InNamespace(o.Namespace))
	for i := range subscriptions.Items {
		_, failed := o.site.Mainstay(ctx, "subscription", "uninstall", subscriptions.Items[i].Name, "--namespace", o.Namespace,
			"--delete-crds", "--delete-custom-resources", "--yes", "--wait")
		err = errors.Join(err, failed)
	}

	for _, name := range o.ownNamespaces() {
		err = errors.Join(err, o.site.DeleteNamespace(ctx, name))
	}
	return errors.Join(err, o.site.deleteCRDs(ctx, o.Package))
}
