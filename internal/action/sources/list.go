package sources

import (
	"cmp"
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/action/inventory"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/action/subscription"
)

// State is the state of a source in one word.
type State string

// States.
const (
	// StateServing means that packages can be installed from the source.
	StateServing State = "Serving"
	// StateOutdated means that the source serves its previous content, because the present one cannot be read.
	StateOutdated State = "Outdated"
	// StateNotServing means that nothing can be installed from the source.
	StateNotServing State = "NotServing"
	// StateDisabled means that a person has turned the source off.
	StateDisabled State = "Disabled"
)

// PackageSource is a source of packages.
type PackageSource struct {
	// Kind is OperatorHub for a default catalog that is disabled, and so has no object of its own.
	Kind string `json:"kind" enum:"ClusterCatalog,CatalogSource,OperatorHub"`
	// Namespace is empty for a ClusterCatalog.
	Namespace   string `json:"namespace,omitempty"`
	Name        string `json:"name"`
	DisplayName string `json:"displayName,omitempty"`
	Publisher   string `json:"publisher,omitempty"`
	// Image, Address and ConfigMap are what the content comes from.
	Image     string `json:"image,omitempty"`
	Address   string `json:"address,omitempty"`
	ConfigMap string `json:"configMap,omitempty"`
	// Endpoint is where the content is served.
	Endpoint string `json:"endpoint,omitempty"`
	// Resolved is the image that is served, by its digest.
	Resolved string `json:"resolved,omitempty"`
	// Priority decides between sources with the same package. The highest wins.
	Priority int `json:"priority"`
	// PollInterval is how often the image is looked up again, as a duration. It is empty if it is not.
	PollInterval string `json:"pollInterval,omitempty"`
	// Updated is when the content changed last, or when the image was polled last.
	Updated *time.Time `json:"updated,omitempty"`
	State   State      `json:"state" enum:"Serving,Outdated,NotServing,Disabled"`
	// Text is a sentence for people. Message states what the system reports, and Advice what to do.
	Text    string `json:"text"`
	Message string `json:"message,omitempty"`
	Advice  string `json:"advice,omitempty"`
	// IsDefault reports whether an OperatorHub manages the source.
	IsDefault bool `json:"isDefault,omitempty"`
	// Revision changes with each change of the object but those of its status and its annotations. Requests for a change
	// repeat it, so that users do not overwrite changes that they have not read.
	Revision   string             `json:"revision,omitempty"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NeedsPerson reports whether the state lasts until a person does something.
func (s *PackageSource) NeedsPerson() bool {
	return s.State == StateNotServing || s.State == StateOutdated
}

// Listing is the sources of a cluster.
type Listing struct {
	// Items are sorted by name, kind and namespace.
	Items []PackageSource `json:"items"`
	// HubRevision is the revision of the OperatorHub. It is empty if the cluster has none.
	HubRevision string `json:"hubRevision,omitempty"`
	// Problems are the kinds that could not be listed. A kind that the cluster does not know is no problem.
	Problems []inventory.Problem `json:"problems,omitempty"`
}

// List lists the sources.
type List struct {
	Client client.Client
	// Namespace limits the list to CatalogSources of a namespace, and to ClusterCatalogs. Empty means all.
	Namespace string
}

// Run returns the sources. It returns no error for what the user may not read.
func (a *List) Run(ctx context.Context) Listing {
	listing := Listing{Items: []PackageSource{}}
	var catalogs olmv1.ClusterCatalogList
	listing.addProblem("clustercatalogs", a.Client.List(ctx, &catalogs))
	for i := range catalogs.Items {
		listing.Items = append(listing.Items, DescribeClusterCatalog(&catalogs.Items[i]))
	}

	hub := &configv1.OperatorHub{}
	if err := a.Client.Get(ctx, client.ObjectKey{Name: configv1.OperatorHubName}, hub); err != nil {
		hub = &configv1.OperatorHub{}
		if !apierrors.IsNotFound(err) {
			listing.addProblem("operatorhubs", err)
		}
	}
	listing.HubRevision = revisionOf(hub)

	var classic v1alpha1.CatalogSourceList
	err := a.Client.List(ctx, &classic, client.InNamespace(a.Namespace))
	listing.addProblem("catalogsources", err)
	for i := range classic.Items {
		source := DescribeCatalogSource(&classic.Items[i])
		source.IsDefault = subscription.IsDefaultCatalog(hub, &classic.Items[i])
		listing.Items = append(listing.Items, source)
	}

	for _, status := range hub.Status.Sources {
		if status.Disabled {
			listing.Items = append(listing.Items, newDisabledDefault(status.Name))
		}
	}
	slices.SortFunc(listing.Items, func(x, y PackageSource) int {
		return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Namespace, y.Namespace))
	})
	return listing
}

// addProblem adds a kind that could not be listed.
func (l *Listing) addProblem(kind string, err error) {
	if err == nil || action.IsUnknownKind(err) {
		return
	}
	failed := action.NewServerError(kind, err)
	l.Problems = append(l.Problems, inventory.Problem{Kind: kind, Message: failed.Error(), Advice: report.AdviceOf(failed), Forbidden: apierrors.IsForbidden(err)})
}

func newDisabledDefault(name string) PackageSource {
	return PackageSource{
		Kind: "OperatorHub", Name: name, State: StateDisabled, IsDefault: true,
		Text: "This default catalog is disabled. Its packages cannot be installed, and what was installed from it gets no updates.",
	}
}
