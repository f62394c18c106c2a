package leastprivilege

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"k8s.io/client-go/discovery"

	"github.com/mainstay-dev/mainstay/internal/action/catalogs"
	"github.com/mainstay-dev/mainstay/internal/action/clustercatalog"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/resolve"
)

// images are the references of the bundles that the account is for, the wanted one first.
func (a *Generate) images(ctx context.Context) ([]string, error) {
	if a.Bundle != "" {
		return append([]string{a.Bundle}, a.UpdatesFrom...), nil
	}

	offers, err := a.offers(ctx)
	if err != nil {
		return nil, err
	}

	wanted, err := a.choose(offers, resolve.Request{Package: a.Package, Version: a.Version, Channels: a.Channels})
	if err != nil {
		return nil, err
	}

	images := []string{wanted}
	for _, version := range a.UpdatesFrom {
		image, err := a.choose(offers, resolve.Request{Package: a.Package, Version: version})
		if err != nil {
			return nil, err
		}
		images = append(images, image)
	}

	return images, nil
}

// choose resolves a request as the operator-controller does.
func (a *Generate) choose(offers []resolve.Catalog, request resolve.Request) (string, error) {
	request.RunsOn = a.runsOn
	result, err := resolve.Resolve(request, offers)
	if err != nil {
		return "", &report.Error{Object: fmt.Sprintf("package %q", a.Package), Err: err, Advice: strings.Join(resolve.Hints(err), "; ")}
	}

	for _, warning := range result.Warnings {
		report.OrQuiet(a.Progress).Warn(warning)
	}

	if result.Bundle.Image == "" {
		return "", &report.Error{
			Object: fmt.Sprintf("bundle %q", result.Bundle.Name), Err: errors.New("the catalog names no image of it"),
			Advice: "name a folder or an image of it with --bundle",
		}
	}

	return result.Bundle.Image, nil
}

// runsOn reports whether the cluster is as new as a minKubeVersion asks, where the catalog is the
// cluster's. What cannot be told is no reason to choose another bundle.
func (a *Generate) runsOn(least string) bool {
	if _, onCluster := clusterCatalog(a.Catalog); !onCluster {
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

// offers reads what the catalogs say of the package.
func (a *Generate) offers(ctx context.Context) ([]resolve.Catalog, error) {
	name, onCluster := clusterCatalog(a.Catalog)
	if !onCluster {
		offer, err := a.read(a.Catalog, catalogs.Metas(ctx, a.Registry, a.Catalog))
		return []resolve.Catalog{offer}, err
	}

	config, err := a.Cluster()
	if err != nil {
		return nil, err
	}

	reader := &clustercatalog.Reader{Config: config, SystemNamespace: a.SystemNamespace}
	served := []clustercatalog.Served{{Name: name}}
	if name == "" {
		if served, err = reader.List(ctx); err != nil {
			return nil, err
		}
	}

	var offers []resolve.Catalog
	for _, catalog := range served {
		offer, err := a.read(catalog.Name, reader.Metas(ctx, catalog.Name))
		if err != nil {
			return nil, err
		}
		offer.Priority = catalog.Priority
		offers = append(offers, offer)
	}

	return offers, nil
}

func (a *Generate) read(name string, metas iter.Seq2[fbc.Meta, error]) (resolve.Catalog, error) {
	content, err := fbc.LoadContent(a.Package, metas)
	if err != nil {
		err = fmt.Errorf("reading package %q from catalog %q: %w", a.Package, name, err)
	}
	return resolve.Catalog{Name: name, Content: content}, err
}

// clusterCatalog reports whether a catalog is one of the cluster, and its name, which is
// empty for all of them. A path and the reference of an image have one of the characters
// that a plain name has not.
func clusterCatalog(ref string) (string, bool) {
	if name, ok := strings.CutPrefix(ref, clustercatalog.Prefix); ok {
		return name, true
	}
	return ref, !strings.ContainsAny(ref, "/.:@")
}
