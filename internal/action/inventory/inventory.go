package inventory

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/action/diagnosis"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/action/subscription"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// System is the system that installs an item.
type System string

// Systems.
const (
	// SystemV1 is OLM v1. The item is a ClusterExtension.
	SystemV1 System = "v1"
	// SystemClassic is OLM Classic. The item is a Subscription, or a ClusterServiceVersion without one.
	SystemClassic System = "classic"
)

// Item is an installed extension or operator.
type Item struct {
	System System `json:"system" enum:"v1,classic"`
	// Kind is ClusterExtension, Subscription or ClusterServiceVersion.
	Kind string `json:"kind" enum:"ClusterExtension,Subscription,ClusterServiceVersion"`
	// Namespace is the namespace of the object. It is empty for a ClusterExtension.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// InstallNamespace is the namespace of the operator's workload.
	InstallNamespace string `json:"installNamespace"`
	Package          string `json:"package,omitempty"`
	DisplayName      string `json:"displayName,omitempty"`
	// Version is the installed version. It is empty while nothing is installed.
	Version string `json:"version,omitempty"`
	// Channels are the channels that updates come from. Empty means all.
	Channels []string `json:"channels,omitempty"`
	// Catalog is the catalog, as NAMESPACE/NAME for a CatalogSource. It is empty for a ClusterExtension, which may change it.
	Catalog string `json:"catalog,omitempty"`
	// State is the state in a word. Message states why the item is not ready.
	State   string `json:"state"`
	Message string `json:"message,omitempty"`
	// Urgency states whether the state lasts until a person does something.
	Urgency Urgency `json:"urgency" enum:"None,Busy,Person"`
	// Installation states how far the installation of the package is.
	Installation Installation `json:"installation" enum:"Installed,Installing,Failed"`
	// NeedsApproval is the name of the InstallPlan that waits for a person.
	NeedsApproval string `json:"needsApproval,omitempty"`
	// Deprecation is what the catalog says about a deprecated package, channel or version. It is empty if none is.
	Deprecation string `json:"deprecation,omitempty"`
	// Changed is when a condition changed last.
	Changed *time.Time `json:"changed,omitempty"`

	// Watched are the namespaces that an operator of OLM Classic manages.
	subscription.Watched
}

// Problem is a kind that could not be listed.
type Problem struct {
	// Kind is the plural name of the kind.
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Advice  string `json:"advice,omitempty"`
	// Forbidden means that the user lacks the permission.
	Forbidden bool `json:"forbidden,omitempty"`
}

// Inventory is what is installed.
type Inventory struct {
	// Items are sorted by name and namespace.
	Items []Item `json:"items"`
	// Problems are the kinds that could not be listed. A system that is not installed is no problem.
	Problems []Problem `json:"problems,omitempty"`
}

// List lists what is installed.
type List struct {
	Client client.Client
	// Namespace limits the list to operators of OLM Classic that are in a namespace or manage it, and to ClusterExtensions that
	// install into it. Empty means all.
	Namespace string
}

// Run returns the inventory. It returns no error for what the user may not read.
func (a *List) Run(ctx context.Context) Inventory {
	inventory := Inventory{Items: []Item{}}
	extensions, err := a.listExtensions(ctx)
	inventory.addItems("clusterextensions", extensions, err)
	operators, err := a.listOperators(ctx)
	inventory.addItems("subscriptions", operators, err)
	slices.SortStableFunc(inventory.Items, func(x, y Item) int {
		return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Kind, y.Kind))
	})
	return inventory
}

// addItems adds the items of a kind, or the reason why there are none.
func (i *Inventory) addItems(kind string, items []Item, err error) {
	for _, item := range items {
		item.Urgency = urgencyOf(item.State)
		i.Items = append(i.Items, item)
	}
	if err == nil || action.IsUnknownKind(err) {
		return
	}
	i.Problems = append(i.Problems, Problem{Kind: kind, Message: err.Error(), Advice: report.AdviceOf(err), Forbidden: apierrors.IsForbidden(err)})
}

func (a *List) listExtensions(ctx context.Context) ([]Item, error) {
	extensions, err := (&action.ExtensionList{Client: a.Client}).Run(ctx)
	if err != nil {
		return nil, err
	}

	var items []Item
	for i := range extensions {
		if a.Namespace == "" || extensions[i].Spec.Namespace == a.Namespace {
			items = append(items, newExtensionItem(&extensions[i]))
		}
	}
	return items, nil
}

// newExtensionItem returns the item of a ClusterExtension.
func newExtensionItem(e *olmv1.ClusterExtension) Item {
	state, why := diagnosis.StateOf(e)
	item := Item{
		System: SystemV1, Kind: olmv1.ClusterExtensionKind, Name: e.Name, InstallNamespace: e.Spec.Namespace, State: string(state), Message: why,
		Changed: newestTransition(e.Status.Conditions),
	}
	if c := meta.FindStatusCondition(e.Status.Conditions, olmv1.TypeDeprecated); c != nil && c.Status == metav1.ConditionTrue {
		item.Deprecation = strings.Join(strings.Fields(c.Message), " ")
	}
	if catalog := e.Spec.Source.Catalog; catalog != nil {
		item.Package, item.Channels = catalog.PackageName, catalog.Channels
	}
	if install := e.Status.Install; install != nil {
		item.Version = install.Bundle.Version
	}
	item.decideInstallation(e.Status.Install != nil)
	return item
}

// newestTransition returns when a condition changed last.
func newestTransition(conditions []metav1.Condition) *time.Time {
	var newest *time.Time
	for _, c := range conditions {
		if newest == nil || c.LastTransitionTime.After(*newest) {
			newest = new(c.LastTransitionTime.Time)
		}
	}
	return newest
}

// listSubscriptions returns the Subscriptions, and the ClusterServiceVersions without one.
func (a *List) listSubscriptions(ctx context.Context) ([]Item, error) {
	summaries, err := (&subscription.List{Client: a.Client, Namespace: a.Namespace}).Run(ctx)
	if err != nil {
		return nil, err
	}

	notCopied, err := labels.NewRequirement(csvinfo.LabelCopiedFrom, selection.DoesNotExist, nil)
	if err != nil {
		return nil, err
	}

	var list v1alpha1.ClusterServiceVersionList
	if err := a.Client.List(ctx, &list, client.InNamespace(a.Namespace), client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*notCopied)}); err != nil {
		return nil, action.NewServerError("clusterserviceversions", err)
	}

	csvs := map[client.ObjectKey]*v1alpha1.ClusterServiceVersion{}
	for i := range list.Items {
		csvs[client.ObjectKeyFromObject(&list.Items[i])] = &list.Items[i]
	}

	var items []Item
	for i := range summaries {
		sub := summaries[i].Subscription
		installed := client.ObjectKey{Namespace: sub.Namespace, Name: sub.Status.InstalledCSV}
		items = append(items, newSubscriptionItem(&summaries[i], csvs[installed]))
		delete(csvs, installed)
		delete(csvs, client.ObjectKey{Namespace: sub.Namespace, Name: sub.Status.CurrentCSV})
	}

	for _, csv := range csvs {
		items = append(items, newCSVItem(csv))
	}
	return items, nil
}

// newSubscriptionItem returns the item of a Subscription. The ClusterServiceVersion is the installed one, or nil.
func newSubscriptionItem(s *subscription.Summary, csv *v1alpha1.ClusterServiceVersion) Item {
	sub := s.Subscription
	item := Item{
		System: SystemClassic, Kind: v1alpha1.SubscriptionKind, Namespace: sub.Namespace, Name: sub.Name, InstallNamespace: sub.Namespace,
		Package: sub.Spec.Package, Catalog: sub.Spec.CatalogSourceNamespace + "/" + sub.Spec.CatalogSource, State: string(s.State), Message: s.Message,
	}
	if sub.Spec.Channel != "" {
		item.Channels = []string{sub.Spec.Channel}
	}
	if s.State == subscription.StateAwaitingApproval && sub.Status.InstallPlanRef != nil {
		item.NeedsApproval = sub.Status.InstallPlanRef.Name
	}
	for _, c := range sub.Status.Conditions {
		if c.Type == v1alpha1.SubscriptionDeprecated && c.Status == corev1.ConditionTrue {
			item.Deprecation = strings.Join(strings.Fields(c.Message), " ")
		}
	}
	if csv != nil {
		item.describeCSV(csv)
	}
	item.decideInstallation(csv != nil && csv.Status.Phase == v1alpha1.CSVPhaseSucceeded)
	if changed := sub.Status.LastUpdated; !changed.IsZero() && (item.Changed == nil || changed.After(*item.Changed)) {
		item.Changed = new(changed.Time)
	}
	return item
}

// newCSVItem returns the item of a ClusterServiceVersion without a Subscription.
func newCSVItem(csv *v1alpha1.ClusterServiceVersion) Item {
	item := Item{
		System: SystemClassic, Kind: v1alpha1.ClusterServiceVersionKind, Namespace: csv.Namespace, Name: csv.Name, InstallNamespace: csv.Namespace,
		State: cmp.Or(string(csv.Status.Phase), "Unknown"), Message: "It has no Subscription and receives no updates.",
	}
	if csv.Status.Phase != v1alpha1.CSVPhaseSucceeded {
		item.Message = strings.Join(strings.Fields(csv.Status.Message), " ")
	}
	item.describeCSV(csv)
	item.decideInstallation(csv.Status.Phase == v1alpha1.CSVPhaseSucceeded)
	return item
}

func (i *Item) describeCSV(csv *v1alpha1.ClusterServiceVersion) {
	i.DisplayName, i.Version = csv.Spec.DisplayName, string(csv.Spec.Version)
	i.Watched = subscription.WatchedBy(csv)
	if t := csv.Status.LastTransitionTime; t != nil {
		i.Changed = new(t.Time)
	}
}
