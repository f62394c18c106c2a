package leastprivilege

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"k8s.io/client-go/discovery"

	"github.com/mainstay-dev/mainstay/internal/action/catalog/catalogs"
	"github.com/mainstay-dev/mainstay/internal/action/catalog/clustercatalog"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/resolve"
)

// bundleReferences returns the references of the bundles that the service account is for,
// the requested one first.
func (a *Generate) bundleReferences(ctx context.Context) ([]string, error) {
	if a.Bundle != "" {
		return append([]string{a.Bundle}, a.UpdatesFrom...), nil
	}

	candidates, err := a.readCatalogs(ctx)
	if err != nil {
		return nil, err
	}

	wanted, err := a.resolveBundleImage(candidates, resolve.Request{Package: a.Package, Version: a.Version, Channels: a.Channels})
	if err != nil {
		return nil, err
	}

	images := []string{wanted}
	for _, version := range a.UpdatesFrom {
		image, err := a.resolveBundleImage(candidates, resolve.Request{Package: a.Package, Version: version})
		if err != nil {
			return nil, err
		}
		images = append(images, image)
	}

	return images, nil
}

// resolveBundleImage resolves a request as operator-controller does and returns the image
// of the bundle.
func (a *Generate) resolveBundleImage(candidates []resolve.Catalog, request resolve.Request) (string, error) {
	request.RunsOn = a.satisfiesMinKubeVersion
	result, err := resolve.Resolve(request, candidates)
	if err != nil {
		return "", &report.Error{Object: fmt.Sprintf("package %q", a.Package), Err: err, Advice: strings.Join(resolve.Hints(err), "; ")}
	}

	for _, warning := range result.Warnings {
		report.OrQuiet(a.Progress).Warn(warning)
	}

	if result.Bundle.Image == "" {
		return "", &report.Error{
			Object: fmt.Sprintf("bundle %q", result.Bundle.Name), Err: errors.New("the catalog contains no image reference of it"),
			Advice: "name a folder or an image of it with --bundle",
		}
	}

	return result.Bundle.Image, nil
}

// satisfiesMinKubeVersion reports whether the cluster satisfies a minKubeVersion. It
// returns true if the catalog is not on the cluster or the version is unknown.
func (a *Generate) satisfiesMinKubeVersion(least string) bool {
	if _, onCluster := clusterCatalogName(a.Catalog); !onCluster {
		return true
	}

	config, err := a.Cluster()
	if err != nil {
		return true
	}

	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return true
	}

	info, err := client.ServerVersion()
	if err != nil {
		return true
	}

	suffices, err := resolve.Suffices(info.GitVersion, least)
	return suffices || err != nil
}

// readCatalogs reads the content of the package from the catalogs.
func (a *Generate) readCatalogs(ctx context.Context) ([]resolve.Catalog, error) {
	name, onCluster := clusterCatalogName(a.Catalog)
	if !onCluster {
		candidate, err := a.readPackageContent(a.Catalog, catalogs.Metas(ctx, a.Registry, a.Catalog))
		return []resolve.Catalog{candidate}, err
	}

	config, err := a.Cluster()
	if err != nil {
		return nil, err
	}

	reader := &clustercatalog.Reader{Config: config, SystemNamespace: a.SystemNamespace}
	served := []clustercatalog.ServedCatalog{{Name: name}}
	if name == "" {
		if served, err = reader.List(ctx); err != nil {
			return nil, err
		}
	}

	var candidates []resolve.Catalog
	for _, catalog := range served {
		candidate, err := a.readPackageContent(catalog.Name, reader.Metas(ctx, catalog.Name))
		if err != nil {
			return nil, err
		}
		candidate.Priority = catalog.Priority
		candidates = append(candidates, candidate)
	}

	return candidates, nil
}

// readPackageContent reads the content of the package from a catalog.
func (a *Generate) readPackageContent(name string, metas iter.Seq2[fbc.Meta, error]) (resolve.Catalog, error) {
	content, err := fbc.LoadContent(a.Package, metas)
	if err != nil {
		err = fmt.Errorf("reading package %q from catalog %q: %w", a.Package, name, err)
	}
	return resolve.Catalog{Name: name, Content: content}, err
}

// clusterCatalogName reports whether a reference names a catalog of the cluster, and
// returns its name, which is empty for all catalogs. Paths and image references contain a
// character that names do not contain.
func clusterCatalogName(ref string) (string, bool) {
	if name, ok := strings.CutPrefix(ref, clustercatalog.Prefix); ok {
		return name, true
	}
	return ref, !strings.ContainsAny(ref, "/.:@")
}
