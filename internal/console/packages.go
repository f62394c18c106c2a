package console

import (
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/klauspost/compress/gzhttp"

	"github.com/mainstay-dev/mainstay/internal/action/catalog/clustercatalog"
	"github.com/mainstay-dev/mainstay/internal/action/catalog/clusterhub"
	"github.com/mainstay-dev/mainstay/internal/action/catalog/hub"
	"github.com/mainstay-dev/mainstay/internal/action/leastprivilege"
	"github.com/mainstay-dev/mainstay/internal/console/session"
)

// packageInput selects a package of a catalog.
type packageInput struct {
	Catalog   string `path:"catalog" maxLength:"318" pattern:"^[a-z0-9][a-z0-9.-]*(:[a-z0-9][a-z0-9.-]*)?$" doc:"Name of a ClusterCatalog, or NAMESPACE:NAME of a CatalogSource."`
	Name      string `path:"name" maxLength:"253" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]*$"`
	Namespace string `query:"namespace" maxLength:"63" pattern:"^[a-z0-9-]*$" doc:"Namespace in which a package of OLM Classic is offered. Empty means that of its catalog."`
}

// packageRightsInput selects a version of a package.
type packageRightsInput struct {
	Catalog   string `path:"catalog" maxLength:"318" pattern:"^[a-z0-9][a-z0-9.-]*(:[a-z0-9][a-z0-9.-]*)?$" doc:"Name of a ClusterCatalog, or NAMESPACE:NAME of a CatalogSource."`
	Name      string `path:"name" maxLength:"253" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]*$"`
	Namespace string `query:"namespace" maxLength:"63" pattern:"^[a-z0-9-]*$" doc:"Namespace of the installation. Empty means one with the name of the package."`
	Version   string `query:"version" maxLength:"253" doc:"Empty means the version that would be installed."`
}

// PackageCounts are the numbers of packages.
type PackageCounts struct {
	// Catalogs are the numbers by the name of a ClusterCatalog, or by NAMESPACE:NAME of a CatalogSource. Catalogs that are not read are
	// missing.
	Catalogs map[string]int `json:"catalogs"`
}

func countPackages(packages clusterhub.Packages) PackageCounts {
	counts := PackageCounts{Catalogs: map[string]int{}}
	for _, catalog := range packages.Catalogs {
		if catalog.State == clusterhub.StateReady {
			counts.Catalogs[catalog.Name] = 0
		}
	}
	for i := range packages.Items {
		counts.Catalogs[packages.Items[i].Catalog]++
	}
	return counts
}

// iconInput selects an icon by its digest.
type iconInput struct {
	Name string `path:"name" maxLength:"80" pattern:"^[0-9a-f]{64}\\.[a-z]{3,4}$"`
}

// manifestIconInput selects the icon of a package of OLM Classic.
type manifestIconInput struct {
	Namespace string `path:"namespace" maxLength:"63" pattern:"^[a-z0-9-]+$"`
	Name      string `path:"name" maxLength:"253" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]*$"`
}

// iconResponse is an icon. It comes from a catalog: the policy keeps an SVG that is opened as a page from doing anything.
type iconResponse struct {
	ContentType           string `header:"Content-Type"`
	ContentSecurityPolicy string `header:"Content-Security-Policy"`
	CacheControl          string `header:"Cache-Control"`
	Body                  []byte
}

// registerPackages adds the operations about the packages of catalogs.
func (s *Server) registerPackages() {
	get(s.api, "listPackages", "/packages", "The packages that the user can install",
		func(ctx context.Context, user *session.Session, input *namespaceInput) (clusterhub.Packages, error) {
			list := &clusterhub.List{Cache: s.packages, User: packageUser(user), Namespace: input.Namespace}
			return list.Run(ctx), ctx.Err()
		})
	get(s.api, "countPackages", "/package-counts", "The number of packages of each catalog",
		func(ctx context.Context, user *session.Session, input *namespaceInput) (PackageCounts, error) {
			list := &clusterhub.List{Cache: s.packages, User: packageUser(user), Namespace: input.Namespace}
			return countPackages(list.Run(ctx)), ctx.Err()
		})
	get(s.api, "getPackage", "/packages/{catalog}/{name}", "A package of a catalog",
		func(ctx context.Context, user *session.Session, input *packageInput) (*hub.PackageDetails, error) {
			show := &clusterhub.Show{Cache: s.packages, User: packageUser(user), Catalog: input.Catalog, Package: input.Name, Namespace: input.Namespace}
			return show.Run(ctx)
		})
	get(s.api, "getPackageRights", "/packages/{catalog}/{name}/rights", "The rights that an installation of a package needs", s.readPackageRights)
	registerIcon(s.api, "getIcon", "/icons/{name}", "public, max-age=31536000, immutable",
		func(_ context.Context, _ *session.Session, input *iconInput) (hub.Icon, error) {
			icon, ok := s.packages.Icon(input.Name)
			if !ok {
				return icon, newProblem(http.StatusNotFound, "No catalog has this icon.", "")
			}
			return icon, nil
		})
	registerIcon(s.api, "getManifestIcon", "/icons/{namespace}/{name}", "private, max-age=600",
		func(ctx context.Context, user *session.Session, input *manifestIconInput) (hub.Icon, error) {
			return clusterhub.ManifestIcon(ctx, packageUser(user), input.Namespace, input.Name)
		})
}

// compressPackages compresses the responses about packages: the list of a large catalog has megabytes. Other responses stay as
// they are, because the length of a compressed response can reveal content that it shares with a request.
func compressPackages(next http.Handler) (http.Handler, error) {
	compress, err := gzhttp.NewWrapper(gzhttp.MinSize(256), gzhttp.ContentTypes([]string{"application/json"}))
	if err != nil {
		return nil, err
	}

	compressed := compress(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, apiPrefix+"/packages") {
			compressed(w, r)
			return
		}
		next.ServeHTTP(w, r)
	}), nil
}

func packageUser(user *session.Session) clusterhub.User {
	return clusterhub.User{Name: user.User, Client: user.Client, Config: user.Config}
}

// readPackageRights reads the bundle of a version and computes the rights of its service account.
func (s *Server) readPackageRights(ctx context.Context, user *session.Session, input *packageRightsInput) (leastprivilege.Rights, error) {
	if strings.Contains(input.Catalog, ":") {
		return leastprivilege.Rights{}, newProblem(http.StatusUnprocessableEntity, "OLM Classic grants an operator what its ClusterServiceVersion asks for.", "The InstallPlan lists its roles before you approve it.")
	}

	generate := &leastprivilege.Generate{
		Registry: s.options.Registry, Package: input.Name, Catalog: clustercatalog.Prefix + input.Catalog, Version: input.Version, Namespace: input.Namespace,
		Cluster: clusterOf(user),
	}
	generated, err := generate.Run(ctx)
	if err != nil {
		return leastprivilege.Rights{}, err
	}
	return generated.Rights(), nil
}

// registerIcon registers an operation that sends an icon.
func registerIcon[I any](api huma.API, id, path, cacheControl string, read func(ctx context.Context, user *session.Session, input *I) (hub.Icon, error)) {
	operation := huma.Operation{
		OperationID: id, Method: http.MethodGet, Path: apiPrefix + path, Summary: "An icon",
		Responses: map[string]*huma.Response{"200": {Description: "The image", Content: map[string]*huma.MediaType{"image/*": {Schema: &huma.Schema{Type: "string", Format: "binary"}}}}},
	}
	huma.Register(api, operation, func(ctx context.Context, input *I) (*iconResponse, error) {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		icon, err := read(ctx, sessionOf(ctx), input)
		if err != nil {
			return nil, toProblem(err)
		}
		return &iconResponse{
			ContentType: icon.Type, CacheControl: cacheControl, Body: icon.Data,
			ContentSecurityPolicy: "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox",
		}, nil
	})
}
