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

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
	"github.com/mainstay-dev/mainstay/internal/resolve"
	"github.com/mainstay-dev/mainstay/internal/resolve/dependency"
)

// maxVersionBytes is the longest spec.source.catalog.version.
const maxVersionBytes = 64

// installDependencies creates an extension for each package that is to meet a missing
// requirement, and waits for them. What was created is never changed or removed by us:
// from then on it is an extension as any other.
func (a *attempt) installDependencies(ctx context.Context, ext *olmv1.ClusterExtension, around *surroundings,
	problem *dependency.Problem, o *offers, missing error,
) error {
	// Another choice while the first is on its way would install both.
	if waiting := createdFor(ext, around); len(waiting) > 0 {
		return awaitExtensions(waiting)
	}

	plan, err := problem.Plan()
	var impossible *dependency.UnsatisfiableError
	if errors.As(err, &impossible) {
		return reconcile.Wait(olmv1.ReasonRetrying, rechoose, fmt.Errorf("%w. spec.install.dependencies.policy is Install, but %w", missing, err))
	}
	if err != nil {
		return err
	}

	var waiting []string
	for _, b := range plan {
		if existing := extensionOf(around, b.Package); existing != "" {
			waiting = append(waiting, existing)
			continue
		}

		created := extensionFor(ext, b, rangeOf(b.Package, append(plan, problem.Wanted)), o.of(b.Package))
		taken := reconcile.Wait(olmv1.ReasonRetrying, rechoose, fmt.Errorf(
			"%w. Package %q would provide it, but there is an extension %q of another package: install %q under another name", missing, b.Package, b.Package, b.Package))
		if a.planned != nil {
			if around.has(created.Name) {
				return taken
			}
			a.planned.created = append(a.planned.created, plannedExtension{created.Name, b.Package, b.Name, b.Version.String(), b.Catalog})
			continue
		}

		err := a.Client.Create(ctx, created)
		if apierrors.IsAlreadyExists(err) {
			return taken
		}
		if err != nil {
			return fmt.Errorf("creating extension %q, a dependency of %q: %w", created.Name, ext.Name, err)
		}

		waiting = append(waiting, created.Name)
	}

	if a.planned != nil && len(waiting) == 0 {
		return nil
	}

	return awaitExtensions(waiting)
}

// awaitExtensions returns the wait for extensions. The names are sorted, so that the condition does not change with the
// order of a cache.
func awaitExtensions(names []string) error {
	slices.Sort(names)
	return reconcile.Wait(olmv1.ReasonRollingOut, rechoose, fmt.Errorf("waiting for its dependencies, to be installed as extensions of their own: %s", strings.Join(names, ", ")))
}

// createdFor names the extensions that were created for another one and are not
// installed yet.
func createdFor(ext *olmv1.ClusterExtension, around *surroundings) []string {
	var names []string
	for i := range around.extensions {
		other := &around.extensions[i]
		if other.Annotations[olmv1.AnnotationCreatedFor] == ext.Name && other.Status.Install == nil {
			names = append(names, other.Name)
		}
	}

	return names
}

// extensionOf names the extension of a package; empty when there is none.
func extensionOf(around *surroundings, pkg string) string {
	for i := range around.extensions {
		if catalog := around.extensions[i].Spec.Source.Catalog; catalog != nil && catalog.PackageName == pkg {
			return around.extensions[i].Name
		}
	}
	return ""
}

// extensionFor makes the extension of a dependency: in the same place, as the same
// account and from the same catalogs as the one that needs it. It follows the updates of
// its channel, within the range that is needed; when that would not choose the bundle of
// the plan it is pinned to that.
func extensionFor(ext *olmv1.ClusterExtension, b *dependency.Bundle, versions string, catalogs []resolve.Catalog) *olmv1.ClusterExtension {
	filter := &olmv1.CatalogFilter{
		PackageName: b.Package, Selector: ext.Spec.Source.Catalog.Selector.DeepCopy(),
		UpgradeConstraintPolicy: olmv1.UpgradeConstraintPolicyCatalogProvided,
	}
	if b.Channel != "" {
		filter.Channels = []string{b.Channel}
	}

	for _, version := range []string{translateRange(versions), b.Version.String()} {
		filter.Version = version
		result, err := resolve.Resolve(resolve.Request{Package: b.Package, Version: version, Channels: filter.Channels}, catalogs)
		var ambiguous *resolve.AmbiguousError
		if errors.As(err, &ambiguous) {
			selectCatalog(filter, b.Catalog)
			result, err = resolve.Resolve(resolve.Request{Package: b.Package, Version: version, Channels: filter.Channels}, only(catalogs, b.Catalog))
		}
		if err == nil && result.Bundle.Name == b.Name {
			break
		}
		if version == b.Version.String() {
			selectCatalog(filter, b.Catalog)
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

// selectCatalog narrows a selector to one catalog.
func selectCatalog(filter *olmv1.CatalogFilter, catalog string) {
	if filter.Selector == nil {
		filter.Selector = &metav1.LabelSelector{}
	}
	if filter.Selector.MatchLabels == nil {
		filter.Selector.MatchLabels = map[string]string{}
	}
	filter.Selector.MatchLabels[olmv1.LabelMetadataName] = catalog
}

func only(catalogs []resolve.Catalog, name string) []resolve.Catalog {
	var result []resolve.Catalog
	for _, c := range catalogs {
		if c.Name == name {
			result = append(result, c)
		}
	}
	return result
}

// rangeOf is the first range of versions in which one of the bundles wants a package.
func rangeOf(pkg string, bundles []*dependency.Bundle) string {
	for i := len(bundles) - 1; i >= 0; i-- {
		requirements, _ := bundles[i].Requires() // It was read when it was chosen.
		for _, r := range requirements {
			if text := r.Range(pkg); text != "" {
				return text
			}
		}
	}

	return ""
}

// comparison is a part of a range that means the same to bundles, which write ranges for
// github.com/blang/semver, and to extensions.
var comparison = regexp.MustCompile(`^(==?|!=?|>=?|<=?)?(\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?)$`)

// translateRange writes a range of versions as extensions do. It gives none, which means
// every version, when that cannot be done.
func translateRange(text string) string {
	var words []string
	for _, word := range strings.Fields(text) {
		if word == "||" {
			words = append(words, word)
			continue
		}

		parts := comparison.FindStringSubmatch(word)
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
