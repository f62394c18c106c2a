package clusterhub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	packagesv1 "github.com/mainstay-dev/mainstay/api/packages/v1"
	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/action/catalog/hub"
	"github.com/mainstay-dev/mainstay/internal/action/report"
)

// Show shows one package.
type Show struct {
	Cache *Cache
	User  User

	// Catalog is the name of a ClusterCatalog, or NAMESPACE:NAME of a CatalogSource.
	Catalog string
	Package string
	// Namespace is where a package of OLM Classic is looked up. Empty means the namespace of its catalog.
	Namespace string
}

// Run returns the details of the package.
func (a *Show) Run(ctx context.Context) (*hub.PackageDetails, error) {
	find := a.findInClusterCatalog
	if isClassic(a.Catalog) {
		find = a.findManifest
	}

	details, err := find(ctx)
	if err != nil {
		return nil, err
	}
	if details == nil {
		missing := apierrors.NewNotFound(schema.GroupResource{Resource: "packages"}, a.Package)
		return nil, &report.Error{Object: fmt.Sprintf("package %q", a.Package), Err: &report.Reworded{Text: fmt.Sprintf("catalog %s does not contain it", a.Catalog), Cause: missing}}
	}
	details.Refusal = details.Refuse(serverVersion(a.User.Config), !isClassic(a.Catalog))
	details.OtherPlatform = details.WarnPlatform(nodePlatforms(ctx, a.User.Client))
	if details.HasTokenAuth() || slices.ContainsFunc(details.Releases, func(r hub.ReleaseDetails) bool { return len(r.TokenAuth) > 0 }) {
		details.AddTokenAuth(readTokenAuthCloud(ctx, a.User.Client))
	}
	return details, nil
}

// findInClusterCatalog returns a package of a ClusterCatalog, or nil.
func (a *Show) findInClusterCatalog(ctx context.Context) (*hub.PackageDetails, error) {
	var catalog olmv1.ClusterCatalog
	if err := a.User.Client.Get(ctx, client.ObjectKey{Name: a.Catalog}, &catalog); err != nil {
		return nil, action.NewServerError(fmt.Sprintf("clustercatalog %q", a.Catalog), err)
	}
	wanted, err := servedContent(&catalog)
	if err != nil {
		return nil, err
	}

	index, err := a.Cache.get(ctx, wanted, a.User.Name, a.User.Config)
	switch {
	case err != nil:
		return nil, err
	case index == nil:
		return nil, context.DeadlineExceeded
	}
	return index.Details(a.Package)
}

// findManifest returns a package of a CatalogSource, or nil.
func (a *Show) findManifest(ctx context.Context) (*hub.PackageDetails, error) {
	namespace, name, _ := strings.Cut(a.Catalog, ":")
	if a.Namespace == "" {
		a.Namespace = namespace
	}

	var list packagesv1.PackageManifestList
	err := a.User.Client.List(ctx, &list, client.InNamespace(a.Namespace), client.MatchingFields{"metadata.name": a.Package})
	if err != nil {
		return nil, action.NewServerError(fmt.Sprintf("packagemanifests of namespace %s", a.Namespace), err)
	}
	for i := range list.Items {
		m := &list.Items[i]
		if m.Name == a.Package && m.Status.CatalogSource == name && m.Status.CatalogSourceNamespace == namespace {
			details := hub.DescribeManifest(m)
			if details != nil {
				details.Icon = m.Namespace + "/" + m.Name
			}
			return details, nil
		}
	}
	return nil, nil
}

// maxManifestIcon limits an icon that package-server sends, in bytes.
const maxManifestIcon = 1 << 20

// ManifestIcon returns the icon of a package of OLM Classic.
func ManifestIcon(ctx context.Context, user User, namespace, name string) (hub.Icon, error) {
	api, err := rest.HTTPClientFor(user.Config)
	if err != nil {
		return hub.Icon{}, err
	}
	server, _, err := rest.DefaultServerUrlFor(user.Config)
	if err != nil {
		return hub.Icon{}, err
	}

	at := server.JoinPath("apis", packagesv1.GroupVersion.Group, packagesv1.GroupVersion.Version, "namespaces", namespace, "packagemanifests", name, "icon")
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), http.NoBody)
	if err != nil {
		return hub.Icon{}, err
	}
	response, err := api.Do(request)
	if err != nil {
		return hub.Icon{}, err
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	if response.StatusCode != http.StatusOK {
		resource := schema.GroupResource{Group: packagesv1.GroupVersion.Group, Resource: "packagemanifests"}
		return hub.Icon{}, apierrors.NewGenericServerResponse(response.StatusCode, "get", resource, name, "", 0, true)
	}

	data, err := io.ReadAll(io.LimitReader(response.Body, maxManifestIcon+1))
	if err != nil {
		return hub.Icon{}, err
	}
	icon, ok := hub.NewIcon(response.Header.Get("Content-Type"), data)
	if !ok {
		return hub.Icon{}, errors.New("package-server sent no image that can be shown")
	}
	return icon, nil
}
