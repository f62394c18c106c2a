package install

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
	"github.com/mainstay-dev/mainstay/internal/resolve"
	"github.com/mainstay-dev/mainstay/internal/resolve/dependency"
)

// maxVersionBytes is the maximum length of spec.source.catalog.version.
const maxVersionBytes = 64

// dependencyExtension is an extension to create for a requirement.
type dependencyExtension struct {
	extension *olmv1.ClusterExtension
	// bundle is what it will install.
	bundle *dependency.Bundle
	// taken is the error if an extension of another package has its name.
	taken error
}

// planDependencies finds an extension for each package that provides a missing requirement: one
// that exists, or one to create.
func planDependencies(ext *olmv1.ClusterExtension, peers *peerSet, problem *dependency.Problem, offers *catalogContents, missing *dependency.MissingError) *dependencyFindings {
	found := &dependencyFindings{missing: missing.Missing}

	// Resolving again while the first solution is being installed could install both.
	if found.awaited = listPendingDependencies(ext, peers); len(found.awaited) > 0 {
		return found
	}

	chosen, err := problem.Plan()
	var impossible *dependency.UnsatisfiableError
	if errors.As(err, &impossible) {
		err = reconcile.Wait(olmv1.ReasonRetrying, resolutionRetryInterval, fmt.Errorf("%w. spec.install.dependencies.policy is Install, but %w", missing, err))
	}
	if err != nil {
		found.err = err
		return found
	}

	for _, b := range chosen {
		if existing := findExtensionForPackage(peers, b.Package); existing != "" {
			found.awaited = append(found.awaited, existing)
			continue
		}

		taken := reconcile.Wait(olmv1.ReasonRetrying, resolutionRetryInterval, fmt.Errorf(
			"%w. Package %q would provide it, but there is an extension %q of another package: install %q under another name", missing, b.Package, b.Package, b.Package))
		created := newDependencyExtension(ext, b, requiredVersionRange(b.Package, append(chosen, problem.Wanted)), offers.catalogsForPackage(b.Package))
		if peers.hasExtension(created.Name) {
			found.err = taken
			return found
		}

		found.create = append(found.create, dependencyExtension{created, b, taken})
	}

	return found
}

// createDependencies creates extensions for requirements. They are never changed or deleted
// afterwards: they belong to the user.
func createDependencies(ctx context.Context, c client.Client, extension string, dependencies []dependencyExtension) error {
	for _, d := range dependencies {
		err := c.Create(ctx, d.extension)
		switch {
		case apierrors.IsAlreadyExists(err):
			return d.taken
		case err != nil:
			return fmt.Errorf("creating extension %q, a dependency of %q: %w", d.extension.Name, extension, err)
		}
	}

	return nil
}

// waitForExtensions returns the error that waits for the named extensions. The names are sorted,
// so that the condition does not depend on the order of the cache.
func waitForExtensions(names []string) error {
	return reconcile.Wait(olmv1.ReasonRollingOut, resolutionRetryInterval, fmt.Errorf(
		"waiting for its dependencies, to be installed as extensions of their own: %s", strings.Join(slices.Sorted(slices.Values(names)), ", ")))
}

// listPendingDependencies returns the names of the extensions that were created for the given one
// and are not installed yet.
func listPendingDependencies(ext *olmv1.ClusterExtension, peers *peerSet) []string {
	var names []string
	for i := range peers.extensions {
		other := &peers.extensions[i]
		if other.Annotations[olmv1.AnnotationCreatedFor] == ext.Name && other.Status.Install == nil {
			names = append(names, other.Name)
		}
	}

	return names
}

// findExtensionForPackage returns the name of the extension that installs a package, or an empty
// string.
func findExtensionForPackage(peers *peerSet, pkg string) string {
	for i := range peers.extensions {
		if catalog := peers.extensions[i].Spec.Source.Catalog; catalog != nil && catalog.PackageName == pkg {
			return peers.extensions[i].Name
		}
	}
	return ""
}

// newDependencyExtension returns the extension that installs a dependency. It has the namespace,
// the service account and the catalogs of the extension that needs it. It follows its channel
// within the required range of versions. If that would not resolve to the planned bundle, its
// version is pinned.
func newDependencyExtension(ext *olmv1.ClusterExtension, b *dependency.Bundle, versions string, catalogs []resolve.Catalog) *olmv1.ClusterExtension {
	filter := &olmv1.CatalogFilter{
		PackageName: b.Package, Selector: ext.Spec.Source.Catalog.Selector.DeepCopy(),
		UpgradeConstraintPolicy: olmv1.UpgradeConstraintPolicyCatalogProvided,
	}
	if b.Channel != "" {
		filter.Channels = []string{b.Channel}
	}

	for _, version := range []string{translateVersionRange(versions), b.Version.String()} {
		filter.Version = version
		result, err := resolve.Resolve(resolve.Request{Package: b.Package, Version: version, Channels: filter.Channels}, catalogs)
		var ambiguous *resolve.AmbiguousError
		if errors.As(err, &ambiguous) {
			narrowSelectorToCatalog(filter, b.Catalog)
			result, err = resolve.Resolve(resolve.Request{Package: b.Package, Version: version, Channels: filter.Channels}, filterCatalogsByName(catalogs, b.Catalog))
		}
		if err == nil && result.Bundle.Name == b.Name {
			break
		}
		if version == b.Version.String() {
			narrowSelectorToCatalog(filter, b.Catalog)
		}
	}

	return &olmv1.ClusterExtension{
		ObjectMeta: metav1.ObjectMeta{Name: b.Package, Annotations: map[string]string{olmv1.AnnotationCreatedFor: ext.Name}},
		Spec: olmv1.ClusterExtensionSpec{
			Namespace: ext.Spec.Namespace, ServiceAccount: ext.Spec.ServiceAccount.DeepCopy(),
			Source: olmv1.SourceConfig{SourceType: olmv1.ExtensionSourceTypeCatalog, Catalog: filter},
		},
	}
}

// narrowSelectorToCatalog restricts a selector to one catalog.
func narrowSelectorToCatalog(filter *olmv1.CatalogFilter, catalog string) {
	if filter.Selector == nil {
		filter.Selector = &metav1.LabelSelector{}
	}
	if filter.Selector.MatchLabels == nil {
		filter.Selector.MatchLabels = map[string]string{}
	}
	filter.Selector.MatchLabels[olmv1.LabelMetadataName] = catalog
}

func filterCatalogsByName(catalogs []resolve.Catalog, name string) []resolve.Catalog {
	var result []resolve.Catalog
	for _, c := range catalogs {
		if c.Name == name {
			result = append(result, c)
		}
	}
	return result
}

// requiredVersionRange returns a range of versions in which one of the bundles requires a package.
// Later bundles take precedence.
func requiredVersionRange(pkg string, bundles []*dependency.Bundle) string {
	for i := len(bundles) - 1; i >= 0; i-- {
		requirements, _ := bundles[i].Requires() // It was parsed during resolution.
		for _, r := range requirements {
			if text := r.Range(pkg); text != "" {
				return text
			}
		}
	}

	return ""
}

// comparisonPattern matches a comparison that means the same in ranges of bundles, which
// github.com/blang/semver parses, and in ranges of extensions.
var comparisonPattern = regexp.MustCompile(`^(==?|!=?|>=?|<=?)?(\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?)$`)

// translateVersionRange translates a bundle's range of versions to the syntax of extensions. It
// returns an empty string, which matches every version, if it cannot.
func translateVersionRange(text string) string {
	var words []string
	for _, word := range strings.Fields(text) {
		if word == "||" {
			words = append(words, word)
			continue
		}

		parts := comparisonPattern.FindStringSubmatch(word)
		if parts == nil {
			return ""
		}

		operator := parts[1]
		switch operator {
		case "==":
			operator = "="
		case "!":
			operator = "!="
		}

		words = append(words, operator+parts[2])
	}

	if result := strings.Join(words, " "); len(result) <= maxVersionBytes {
		return result
	}
	return ""
}
