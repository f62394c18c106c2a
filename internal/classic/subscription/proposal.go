package subscription

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/resolution"
	"github.com/mainstay-dev/mainstay/internal/classic/steps"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// proposal is the content of an InstallPlan to create.
type proposal struct {
	bundles []resolution.Choice
	// subscriptions are steps that create Subscriptions for dependencies without one.
	subscriptions []*v1alpha1.Step
	// newCSVs maps the name of each Subscription whose resolution changed to the name of the new
	// ClusterServiceVersion.
	newCSVs map[string]string
}

// hasChanges reports whether the resolution of a Subscription changed.
func (p *proposal) hasChanges() bool { return len(p.newCSVs) > 0 }

// newProposal compares the bundles of a unit with the Subscriptions and returns what to install.
func newProposal(v *view, u *unit) (*proposal, error) {
	p := &proposal{newCSVs: map[string]string{}}
	for i := range u.choices {
		c := &u.choices[i]
		subscribed := false
		var outdated []*v1alpha1.Subscription
		for _, sub := range v.subs {
			if !subscribesTo(sub, c) {
				continue
			}
			if subscribed = true; sub.Status.CurrentCSV != c.Name {
				outdated = append(outdated, sub)
			}
		}

		if subscribed && len(outdated) == 0 && v.hasCSV(c.Name) {
			continue
		}

		p.bundles = append(p.bundles, *c)
		if !subscribed {
			step, err := newSubscriptionStep(c, v.namespace, u.approvalPolicy())
			if err != nil {
				return nil, err
			}
			p.subscriptions = append(p.subscriptions, step)
		}
		for _, sub := range outdated {
			p.newCSVs[sub.Name] = c.Name
		}
	}

	return p, nil
}

// subscribesTo reports whether a Subscription asks for a chosen bundle.
func subscribesTo(sub *v1alpha1.Subscription, c *resolution.Choice) bool {
	s, catalog := &sub.Spec, c.Catalog()
	return s.Package == c.Package && (s.Channel == "" || c.IsIn(s.Channel)) &&
		s.CatalogSource == catalog.Name && s.CatalogSourceNamespace == catalog.Namespace
}

// newSubscriptionStep returns the step that creates the Subscription for a dependency. It has the approval of the unit, so
// that a dependency is not updated without approval while its dependents require it.
func newSubscriptionStep(c *resolution.Choice, namespace string, approval v1alpha1.Approval) (*v1alpha1.Step, error) {
	catalog := c.Catalog()
	var labels map[string]string
	if key, ok := csvinfo.ComponentKey(csvinfo.OperatorName(c.Package, namespace)); ok {
		labels = map[string]string{key: ""}
	}

	sub := &v1alpha1.Subscription{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.SubscriptionKind},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprintf("%s-%s-%s-%s", c.Package, c.Channel, catalog.Name, catalog.Namespace), Labels: labels,
		},
		Spec: v1alpha1.SubscriptionSpec{
			CatalogSource: catalog.Name, CatalogSourceNamespace: catalog.Namespace, Package: c.Package, Channel: c.Channel,
			StartingCSV: c.Name, InstallPlanApproval: approval,
		},
	}

	return steps.NewStep(sub, c.Name, newStepPlace(c, namespace))
}

func newStepPlace(c *resolution.Choice, namespace string) steps.Place {
	return steps.Place{Namespace: namespace, Catalog: c.Catalog().Name, CatalogNamespace: c.Catalog().Namespace}
}

// marshalProperties returns the properties of a bundle in the format of its ClusterServiceVersion's annotation.
func marshalProperties(c *resolution.Choice) (string, error) {
	text, err := json.Marshal(struct {
		Properties []fbc.Property `json:"properties"`
	}{c.Properties})
	if err != nil {
		return "", fmt.Errorf("the properties of bundle %s: %w", c.Name, err)
	}
	return string(text), nil
}

// newInstallPlan returns the InstallPlan of a unit, without its status. Its generation is greater than all before.
func newInstallPlan(v *view, u *unit, all []*v1alpha1.Step) *v1alpha1.InstallPlan {
	plan := &v1alpha1.InstallPlan{
		ObjectMeta: metav1.ObjectMeta{Namespace: v.namespace, GenerateName: "install-"},
		Spec:       v1alpha1.InstallPlanSpec{Approval: u.approvalPolicy(), Approved: !u.needsApproval, ClusterServiceVersionNames: []string{}},
	}
	for i := range v.plans {
		plan.Spec.Generation = max(plan.Spec.Generation, v.plans[i].Spec.Generation)
	}
	for _, sub := range v.subs {
		plan.Spec.Generation = max(plan.Spec.Generation, sub.Status.InstallPlanGeneration)
	}

	for _, sub := range u.owners {
		if key, ok := csvinfo.ComponentKey(csvinfo.OperatorName(sub.Spec.Package, sub.Namespace)); ok {
			metav1.SetMetaDataLabel(&plan.ObjectMeta, key, "")
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

// newInstallPlanStatus returns the status of a new InstallPlan.
func newInstallPlanStatus(plan *v1alpha1.InstallPlan, all []*v1alpha1.Step, lookups []v1alpha1.BundleLookup) v1alpha1.InstallPlanStatus {
	status := v1alpha1.InstallPlanStatus{
		Phase: v1alpha1.InstallPlanPhaseRequiresApproval, CatalogSources: []string{}, Plan: all, BundleLookups: lookups,
	}
	if plan.Spec.Approved {
		status.Phase = v1alpha1.InstallPlanPhaseInstalling
	}
	return status
}
