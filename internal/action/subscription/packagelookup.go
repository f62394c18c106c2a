package subscription

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	packagesv1 "github.com/mainstay-dev/mainstay/api/packages/v1"
	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/action/report"
)

// packageLookup finds a package among those of the catalogs that a namespace sees.
type packageLookup struct {
	client    client.Client
	namespace string
	name      string
	// catalog is the catalog, as NAME or NAMESPACE/NAME. Empty means the only one with the package.
	catalog string
}

// findPackage returns the package in the chosen catalog.
func (l packageLookup) findPackage(ctx context.Context) (*packagesv1.PackageManifest, error) {
	object := fmt.Sprintf("package %q", l.name)
	found, err := listPackages(ctx, l.client, l.namespace, l.name)
	if err != nil {
		e := action.NewServerError("packagemanifests", err)
		if action.IsUnknownKind(err) {
			e = &report.Error{Object: object, Err: &report.Reworded{Text: "the cluster does not serve the packages of its catalogs", Cause: err},
				Advice: "run package-server; config/classic has its manifests"}
		}
		return nil, e
	}

	matching := slices.DeleteFunc(slices.Clone(found), func(p packagesv1.PackageManifest) bool { return !l.isChosenCatalog(&p) })
	switch {
	case len(matching) == 1:
		return &matching[0], nil
	case len(found) == 0:
		return nil, &report.Error{Object: object, Err: fmt.Errorf("no catalog that namespace %s sees contains it", l.namespace),
			Advice: "correct the name: 'kubectl get packagemanifests -n " + l.namespace + "' lists the packages"}
	case len(matching) == 0:
		return nil, &report.Error{Object: object, Err: fmt.Errorf("catalog %s does not contain it", l.catalog),
			Advice: "choose another with --catalog: " + strings.Join(catalogNames(found), ", ")}
	default:
		return nil, &report.Error{Object: object, Err: errors.New("several catalogs contain it"),
			Advice: "choose one with --catalog: " + strings.Join(catalogNames(matching), ", ")}
	}
}

// isChosenCatalog reports whether a package is in the chosen catalog.
func (l packageLookup) isChosenCatalog(p *packagesv1.PackageManifest) bool {
	return l.catalog == "" || l.catalog == p.Status.CatalogSource || l.catalog == p.Status.CatalogSourceNamespace+"/"+p.Status.CatalogSource
}

func catalogNames(packages []packagesv1.PackageManifest) []string {
	var names []string
	for i := range packages {
		names = append(names, packages[i].Status.CatalogSourceNamespace+"/"+packages[i].Status.CatalogSource)
	}
	slices.Sort(names)
	return names
}

func channelNames(p *packagesv1.PackageManifest) []string {
	var names []string
	for i := range p.Status.Channels {
		names = append(names, p.Status.Channels[i].Name)
	}
	return names
}

// channelOf returns a channel of a package.
func channelOf(p *packagesv1.PackageManifest, name string) (*packagesv1.PackageChannel, error) {
	for i := range p.Status.Channels {
		if p.Status.Channels[i].Name == name {
			return &p.Status.Channels[i], nil
		}
	}
	return nil, &report.Error{Object: fmt.Sprintf("package %q", p.Name), Err: fmt.Errorf("it has no channel %q", name),
		Advice: "choose one with --channel: " + strings.Join(channelNames(p), ", ")}
}
