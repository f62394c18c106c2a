package clusterhub

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	packagesv1 "github.com/mainstay-dev/mainstay/api/packages/v1"
	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/action/catalog/hub"
	"github.com/mainstay-dev/mainstay/internal/action/report"
)

// States of a catalog.
const (
	// StateReady means that the packages of the catalog are listed.
	StateReady = "Ready"
	// StateReading means that the catalog is being read. Listing again later shows its packages.
	StateReading = "Reading"
	// StateUnavailable means that the catalog cannot be read.
	StateUnavailable = "Unavailable"
)

// CatalogState is a catalog and whether its packages are listed.
type CatalogState struct {
	// Name is the name of the ClusterCatalog, or NAMESPACE:NAME of the CatalogSource.
	Name        string `json:"name"`
	DisplayName string `json:"displayName,omitempty"`
	System      string `json:"system" enum:"v1,classic"`
	State       string `json:"state" enum:"Ready,Reading,Unavailable"`
	// Message is why the catalog cannot be read, or which of its packages are left out.
	Message string `json:"message,omitempty"`
	Advice  string `json:"advice,omitempty"`
}

// ListProblem is a kind that could not be listed.
type ListProblem struct {
	// Kind is the plural name of the kind.
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Advice  string `json:"advice,omitempty"`
	// Forbidden means that the user lacks the permission.
	Forbidden bool `json:"forbidden,omitempty"`
}

// Packages are the packages that a user can install.
type Packages struct {
	// Items are sorted by the name that people see.
	Items    []hub.PackageSummary `json:"items"`
	Catalogs []CatalogState       `json:"catalogs"`
	Problems []ListProblem        `json:"problems,omitempty"`
}

// User is a user of a cluster.
type User struct {
	Name   string
	Client client.Client
	Config *rest.Config
}

// maxWait is the time that a list waits for catalogs that are being read.
const maxWait = 5 * time.Second

// List lists packages.
type List struct {
	Cache *Cache
	User  User
	// Namespace limits the packages of OLM Classic to those that are offered in a namespace. Empty means all.
	Namespace string
}

// Run returns the packages. It returns no error for what the user may not read.
func (a *List) Run(ctx context.Context) Packages {
	result := Packages{Items: []hub.PackageSummary{}, Catalogs: []CatalogState{}}
	a.addClusterCatalogs(ctx, &result)
	a.addPackageManifests(ctx, &result)

	kubernetes := serverVersion(a.User.Config)
	nodes := nodePlatforms(ctx, a.User.Client)
	for i := range result.Items {
		p := &result.Items[i]
		p.Refusal = p.Refuse(kubernetes, !isClassic(p.Catalog))
		p.OtherPlatform = p.WarnPlatform(nodes)
	}
	a.addTokenAuth(ctx, &result)
	hub.SortSummaries(result.Items)
	slices.SortFunc(result.Catalogs, func(a, b CatalogState) int { return strings.Compare(a.Name, b.Name) })
	return result
}

// addTokenAuth adds the features of the cloud whose short-lived credentials the cluster uses. It reads the configuration of
// the cluster only if a package supports such credentials.
func (a *List) addTokenAuth(ctx context.Context, result *Packages) {
	if !slices.ContainsFunc(result.Items, func(p hub.PackageSummary) bool { return p.HasTokenAuth() }) {
		return
	}

	cloud := readTokenAuthCloud(ctx, a.User.Client)
	for i := range result.Items {
		result.Items[i].AddTokenAuth(cloud)
	}
}

// isClassic reports whether a catalog is a CatalogSource.
func isClassic(catalog string) bool { return strings.Contains(catalog, ":") }

// serverVersion returns the Kubernetes version of the cluster. It is empty if it cannot be read.
func serverVersion(config *rest.Config) string {
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return ""
	}
	info, err := d.ServerVersion()
	if err != nil {
		return ""
	}
	return info.GitVersion
}

// maxNodes limits the nodes that are read. More nodes count as unknown.
const maxNodes = 500

// nodePlatforms returns what the nodes have, sorted. It returns nothing if that is unknown, for example because the user may
// not list nodes.
func nodePlatforms(ctx context.Context, c client.Client) hub.Platforms {
	nodes := &metav1.PartialObjectMetadataList{}
	nodes.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	if err := c.List(ctx, nodes, client.Limit(maxNodes)); err != nil || nodes.Continue != "" {
		return hub.Platforms{}
	}
	return hub.Platforms{Architectures: labelValues(nodes, corev1.LabelArchStable), OperatingSystems: labelValues(nodes, corev1.LabelOSStable)}
}

// labelValues returns the different values of a label of the nodes, sorted.
func labelValues(nodes *metav1.PartialObjectMetadataList, label string) []string {
	var values []string
	for i := range nodes.Items {
		if value := nodes.Items[i].Labels[label]; value != "" {
			values = append(values, value)
		}
	}
	slices.Sort(values)
	return slices.Compact(values)
}

// addClusterCatalogs adds the packages of the ClusterCatalogs. All of them are read at the same time.
func (a *List) addClusterCatalogs(ctx context.Context, result *Packages) {
	var list olmv1.ClusterCatalogList
	if err := a.User.Client.List(ctx, &list); err != nil {
		result.addProblem("clustercatalogs", err)
		return
	}

	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	for i := range list.Items {
		if wanted, err := servedContent(&list.Items[i]); err == nil {
			a.Cache.findOrStart(wanted, a.User.Name, a.User.Config) //nolint:contextcheck // the load continues for other users
		}
	}
	for i := range list.Items {
		state, index := a.readCatalog(ctx, &list.Items[i])
		result.Catalogs = append(result.Catalogs, state)
		if index != nil {
			result.Items = append(result.Items, index.Packages...)
		}
	}
}

// readCatalog returns the index of a catalog, and its state. The index is nil if the catalog is not ready.
func (a *List) readCatalog(ctx context.Context, catalog *olmv1.ClusterCatalog) (CatalogState, *hub.Index) {
	state := CatalogState{Name: catalog.Name, System: "v1", State: StateReady}
	wanted, err := servedContent(catalog)
	var index *hub.Index
	if err == nil {
		index, err = a.Cache.get(ctx, wanted, a.User.Name, a.User.Config)
	}
	switch {
	case err != nil:
		state.State, state.Message, state.Advice = StateUnavailable, err.Error(), report.AdviceOf(err)
	case index == nil:
		state.State = StateReading
	case len(index.Problems) > 0:
		state.Message = fmt.Sprintf("%d packages are left out: %s", len(index.Problems), index.Problems[0])
	}
	return state, index
}

// servedContent returns the content that a catalog serves. The error says why it serves none.
func servedContent(catalog *olmv1.ClusterCatalog) (content, error) {
	serving := meta.FindStatusCondition(catalog.Status.Conditions, olmv1.TypeServing)
	switch {
	case serving == nil || catalog.Status.URLs == nil:
		return content{}, &report.Error{Object: catalog.Name, Err: fmt.Errorf("the catalog is not served yet"), Advice: "wait until catalogd has read its image"}
	case serving.Status != "True":
		return content{}, &report.Error{Object: catalog.Name, Err: fmt.Errorf("the catalog is not served: %s: %s", serving.Reason, serving.Message)}
	}

	key := content{catalog: catalog.Name, digest: string(catalog.UID)}
	if source := catalog.Status.ResolvedSource; source != nil && source.Image != nil {
		key.digest += " " + source.Image.Ref
	}
	return key, nil
}

// addPackageManifests adds the packages of OLM Classic, each once. A cluster without OLM Classic has none.
func (a *List) addPackageManifests(ctx context.Context, result *Packages) {
	var list packagesv1.PackageManifestList
	err := a.User.Client.List(ctx, &list, client.InNamespace(a.Namespace))
	if action.IsUnknownKind(err) {
		return
	}
	if err != nil {
		result.addProblem("packagemanifests", err)
		return
	}

	catalogs, packages := map[string]bool{}, map[string]bool{}
	for i := range list.Items {
		m := &list.Items[i]
		summary := hub.SummarizeManifest(m)
		if summary == nil || packages[summary.Catalog+"/"+summary.Name] {
			continue
		}
		packages[summary.Catalog+"/"+summary.Name] = true
		summary.Icon = m.Namespace + "/" + m.Name
		result.Items = append(result.Items, *summary)
		if !catalogs[summary.Catalog] {
			catalogs[summary.Catalog] = true
			result.Catalogs = append(result.Catalogs, CatalogState{
				Name: summary.Catalog, DisplayName: m.Status.CatalogSourceDisplayName, System: "classic", State: StateReady,
			})
		}
	}
}

// addProblem adds a kind that could not be listed.
func (p *Packages) addProblem(kind string, err error) {
	if action.IsUnknownKind(err) {
		return // OLM v1 is not installed
	}
	failed := action.NewServerError(kind, err)
	p.Problems = append(p.Problems, ListProblem{
		Kind: kind, Message: err.Error(), Advice: cmp.Or(report.AdviceOf(failed), ""), Forbidden: apierrors.IsForbidden(err),
	})
}
