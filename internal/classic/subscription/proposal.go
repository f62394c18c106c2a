package subscription

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/resolution"
	"github.com/mainstay-dev/mainstay/internal/classic/steps"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// proposal is what a plan is to bring.
type proposal struct {
	bundles []resolution.Choice
	// subscriptions are made for bundles that none asks for.
	subscriptions []*v1alpha1.Step
	// chosen returns, for each Subscription whose choice is another than before, by name, the
	// ClusterServiceVersion.
	chosen map[string]string
}

// isNews reports whether there is something to do.
func (p *proposal) isNews() bool { return len(p.chosen) > 0 }

// propose says what to do about what was chosen.
func propose(choices []resolution.Choice, namespace string, subs []*v1alpha1.Subscription, isThere func(csv string) bool) (*proposal, error) {
	p := &proposal{chosen: map[string]string{}}
	for _, c := range choices {
		asking, known := 0, 0
		for _, sub := range subs {
			if !asksFor(sub, &c) {
				continue
			}
			if asking++; sub.Status.CurrentCSV == c.Name {
				known++
			}
		}

		if asking > 0 && asking == known && isThere(c.Name) {
			continue
		}

		p.bundles = append(p.bundles, c)
		if asking == 0 {
			step, err := subscribe(&c, namespace)
			if err != nil {
				return nil, err
			}
			p.subscriptions = append(p.subscriptions, step)
		}

		for _, sub := range subs {
			if asksFor(sub, &c) && sub.Status.CurrentCSV != c.Name {
				p.chosen[sub.Name] = c.Name
			}
		}
	}

	return p, nil
}

// asksFor reports whether a Subscription is one to what was chosen.
func asksFor(sub *v1alpha1.Subscription, c *resolution.Choice) bool {
	s, catalog := &sub.Spec, c.Catalog()
	return s.Package == c.Package && (s.Channel == "" || s.Channel == c.Channel) &&
		s.CatalogSource == catalog.Name && s.CatalogSourceNamespace == catalog.Namespace
}

// subscribe makes the step of the Subscription to a dependency.
func subscribe(c *resolution.Choice, namespace string) (*v1alpha1.Step, error) {
	catalog := c.Catalog()
	sub := &v1alpha1.Subscription{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.SubscriptionKind},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprintf("%s-%s-%s-%s", c.Package, c.Channel, catalog.Name, catalog.Namespace),
		},
		Spec: v1alpha1.SubscriptionSpec{
			CatalogSource: catalog.Name, CatalogSourceNamespace: catalog.Namespace, Package: c.Package, Channel: c.Channel,
			StartingCSV: c.Name, InstallPlanApproval: v1alpha1.ApprovalAutomatic,
		},
	}

	return steps.Of(sub, c.Name, place(c, namespace))
}

func place(c *resolution.Choice, namespace string) steps.Place {
	return steps.Place{Namespace: namespace, Catalog: c.Catalog().Name, CatalogNamespace: c.Catalog().Namespace}
}

// properties are those of a bundle, as the annotation of its ClusterServiceVersion has them.
func properties(c *resolution.Choice) (string, error) {
	text, err := json.Marshal(struct {
		Properties []fbc.Property `json:"properties"`
	}{c.Properties})
	if err != nil {
		return "", fmt.Errorf("the properties of bundle %s: %w", c.Name, err)
	}
	return string(text), nil
}

// newPlan makes a plan for a namespace, without its steps.
func newPlan(namespace string, subs []*v1alpha1.Subscription, plans []v1alpha1.InstallPlan, all []*v1alpha1.Step) *v1alpha1.InstallPlan {
	plan := &v1alpha1.InstallPlan{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "install-"},
		Spec:       v1alpha1.InstallPlanSpec{Approval: v1alpha1.ApprovalAutomatic, Approved: true, ClusterServiceVersionNames: []string{}},
	}
	for i := range plans {
		plan.Spec.Generation = max(plan.Spec.Generation, plans[i].Spec.Generation)
	}

	for _, sub := range subs {
		plan.Spec.Generation = max(plan.Spec.Generation, sub.Status.InstallPlanGeneration)
		if sub.Spec.InstallPlanApproval == v1alpha1.ApprovalManual {
			plan.Spec.Approval, plan.Spec.Approved = v1alpha1.ApprovalManual, false
		}
		no := false
		plan.OwnerReferences = append(plan.OwnerReferences, metav1.OwnerReference{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.SubscriptionKind, Name: sub.Name, UID: sub.UID,
			Controller: &no, BlockOwnerDeletion: &no,
		})
	}

	plan.Spec.Generation++
	for _, step := range all {
		if step.Resource.Kind == v1alpha1.ClusterServiceVersionKind {
			plan.Spec.ClusterServiceVersionNames = append(plan.Spec.ClusterServiceVersionNames, step.Resource.Name)
		}
	}

	return plan
}

// planStatus is the status of a new plan.
func planStatus(plan *v1alpha1.InstallPlan, all []*v1alpha1.Step, lookups []v1alpha1.BundleLookup) v1alpha1.InstallPlanStatus {
	status := v1alpha1.InstallPlanStatus{
		Phase: v1alpha1.InstallPlanPhaseRequiresApproval, CatalogSources: []string{}, Plan: all, BundleLookups: lookups,
	}
	if plan.Spec.Approved {
		status.Phase = v1alpha1.InstallPlanPhaseInstalling
	}
	return status
}
