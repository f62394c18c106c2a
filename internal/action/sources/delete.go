package sources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/action/inventory"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/resolve"
)

// Dependent is something installed that gets its updates from a source.
type Dependent struct {
	Kind      string `json:"kind" enum:"ClusterExtension,Subscription"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Package   string `json:"package"`
	// Text states what the deletion of the source means for it.
	Text string `json:"text"`
}

// DeletionPlan is what the deletion of a source means.
type DeletionPlan struct {
	// Text is a sentence for people.
	Text string `json:"text"`
	// Dependents are what is installed from the source.
	Dependents []Dependent `json:"dependents,omitempty"`
	// Typed is what a person has to type to confirm. It is empty if nothing depends on the source.
	Typed string `json:"typed,omitempty"`
	// Revision is that of the source. The deletion repeats it.
	Revision string `json:"revision"`
	// Problems are the kinds that could not be listed, so that dependents may be missing.
	Problems []inventory.Problem `json:"problems,omitempty"`
}

// Delete deletes a source.
type Delete struct {
	Client client.Client
	// Namespace and Name name a CatalogSource. Without a namespace, Name is that of a ClusterCatalog.
	Namespace, Name string
	// Typed is what the person has typed to confirm.
	Typed string
	// Revision is the revision that the person has seen. Empty means any.
	Revision string
}

// Plan returns what Run would mean. It writes nothing.
func (a *Delete) Plan(ctx context.Context) (*DeletionPlan, error) {
	plan, _, err := a.planDeletion(ctx)
	return plan, err
}

// Run deletes the source. It returns an error if something depends on it and the person has not typed its name.
func (a *Delete) Run(ctx context.Context) error {
	plan, object, err := a.planDeletion(ctx)
	if err != nil {
		return err
	}
	if plan.Typed != "" && plan.Typed != a.Typed {
		return &report.Error{
			Object: describeSource(a.Namespace, a.Name), Err: fmt.Errorf("%d installed extensions or operators depend on it", len(plan.Dependents)),
			Advice: fmt.Sprintf("type its name %q to delete it nevertheless", plan.Typed),
		}
	}
	if err := checkRevision(describeSource(a.Namespace, a.Name), object, a.Revision); err != nil {
		return err
	}

	uid := object.GetUID()
	err = a.Client.Delete(ctx, object, client.Preconditions{UID: new(uid)})
	return action.NewServerError(describeSource(a.Namespace, a.Name), err)
}

// planDeletion returns the plan and the object that it is about.
func (a *Delete) planDeletion(ctx context.Context) (*DeletionPlan, client.Object, error) {
	object := newObject(a.Namespace, a.Name)
	if err := a.Client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return nil, nil, newMissingError(a.Namespace, a.Name, err)
	}

	plan := &DeletionPlan{Revision: revisionOf(object)}
	var listing Listing
	var err error
	switch o := object.(type) {
	case *olmv1.ClusterCatalog:
		plan.Text = "The catalog and its stored content are deleted. Extensions that are installed from it stay."
		plan.Dependents, err = a.findExtensions(ctx, o)
		listing.addProblem("clusterextensions", err)
	case *v1alpha1.CatalogSource:
		plan.Text = "The catalog and the pod that serves it are deleted. Operators that are installed from it stay."
		plan.Dependents, err = a.findSubscriptions(ctx)
		listing.addProblem("subscriptions", err)
	}

	plan.Problems = listing.Problems
	if len(plan.Dependents) > 0 || len(plan.Problems) > 0 {
		plan.Typed = a.Name
	}
	return plan, object, nil
}

// findExtensions returns the extensions whose selector includes the catalog.
func (a *Delete) findExtensions(ctx context.Context, catalog *olmv1.ClusterCatalog) ([]Dependent, error) {
	var list olmv1.ClusterExtensionList
	if err := a.Client.List(ctx, &list); err != nil {
		return nil, err
	}

	var found []Dependent
	for i := range list.Items {
		e := &list.Items[i]
		filter := e.Spec.Source.Catalog
		if filter == nil {
			continue
		}
		selected, err := resolve.SelectCatalogs(filter.Selector, []olmv1.ClusterCatalog{*catalog})
		if invalid := (*resolve.InvalidSelectorError)(nil); errors.As(err, &invalid) || len(selected) == 0 {
			continue
		}
		text := "It may take its updates from this catalog, as from every other."
		if filter.Selector != nil {
			text = "It selects this catalog, and gets no updates from it any more."
		}
		found = append(found, Dependent{Kind: olmv1.ClusterExtensionKind, Name: e.Name, Package: filter.PackageName, Text: text})
	}
	return found, nil
}

// findSubscriptions returns the Subscriptions that name the catalog.
func (a *Delete) findSubscriptions(ctx context.Context) ([]Dependent, error) {
	var list v1alpha1.SubscriptionList
	if err := a.Client.List(ctx, &list); err != nil {
		return nil, err
	}

	var found []Dependent
	for i := range list.Items {
		s := &list.Items[i]
		if s.Spec.CatalogSource == a.Name && s.Spec.CatalogSourceNamespace == a.Namespace {
			found = append(found, Dependent{
				Kind: v1alpha1.SubscriptionKind, Namespace: s.Namespace, Name: s.Name, Package: s.Spec.Package,
				Text: "It gets no updates any more, and no other operator of its namespace is installed or updated while the catalog is missing.",
			})
		}
	}
	slices.SortFunc(found, func(x, y Dependent) int {
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	return found, nil
}
