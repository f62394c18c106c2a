package marketplace

import (
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// isDisabled reports whether the spec turns a default catalog off. An entry of its own counts more
// than what is said of all, and the last one of several counts.
func isDisabled(spec *configv1.OperatorHubSpec, name string) bool {
	is := spec.DisableAllDefaultSources
	for _, s := range spec.Sources {
		if s.Name == name {
			is = s.Disabled
		}
	}
	return is
}

// isDefaultCatalog reports whether a catalog of the name of a default one that is turned off is that default
// catalog, and not what somebody made in its place. While the status still says that it is on,
// nobody could have made another: it would have been changed back. A status that says nothing was
// never written, and the annotation tells.
func isDefaultCatalog(status *configv1.OperatorHubStatus, catalog *v1alpha1.CatalogSource) bool {
	for _, s := range status.Sources {
		if s.Name == catalog.Name {
			return !s.Disabled
		}
	}
	return catalog.Annotations[annotationManagedBy] == managedBy
}

// restoreDefault makes of a catalog in the cluster the default one, and tells whether it was another. The
// image of a catalog with an image template is left alone: it follows the template.
func restoreDefault(catalog, want *v1alpha1.CatalogSource) bool {
	before := catalog.DeepCopy()
	spec := *want.Spec.DeepCopy()
	if _, ok := want.Annotations[v1alpha1.AnnotationCatalogImageTemplate]; ok {
		spec.Image = catalog.Spec.Image
	}

	catalog.Spec = spec
	catalog.Labels, catalog.Annotations = mergeMaps(catalog.Labels, want.Labels), mergeMaps(catalog.Annotations, want.Annotations)
	return !equality.Semantic.DeepEqual(before, catalog)
}

// mergeMaps returns what there is with what is wanted over it.
func mergeMaps(is, wanted map[string]string) map[string]string {
	if len(is)+len(wanted) == 0 {
		return is
	}

	all := maps.Clone(is)
	if all == nil {
		all = map[string]string{}
	}

	maps.Copy(all, wanted)
	return all
}

// newHubStatus tells of all default catalogs in their order, and then of entries of the spec that name
// none. failed holds what kept a catalog from being as the spec wants it.
func newHubStatus(hub *configv1.OperatorHub, names []string, failed map[string]error) configv1.OperatorHubStatus {
	var status configv1.OperatorHubStatus
	told := map[string]bool{}
	for _, name := range names {
		told[name] = true
		source := configv1.HubSourceStatus{Name: name, Disabled: isDisabled(&hub.Spec, name), Status: configv1.HubSourceSuccess}
		if err := failed[name]; err != nil {
			source.Status, source.Message = configv1.HubSourceError, err.Error()
			source.Disabled = !source.Disabled && wasDisabled(&hub.Status, name)
		}
		status.Sources = append(status.Sources, source)
	}

	for _, s := range hub.Spec.Sources {
		if told[s.Name] {
			continue
		}
		told[s.Name] = true
		status.Sources = append(status.Sources, configv1.HubSourceStatus{
			Name: s.Name, Disabled: isDisabled(&hub.Spec, s.Name), Status: configv1.HubSourceError, Message: unknownDefaultMessage(names),
		})
	}

	return status
}

// wasDisabled reports whether a catalog was turned off when the status was written.
func wasDisabled(status *configv1.OperatorHubStatus, name string) bool {
	for _, s := range status.Sources {
		if s.Name == name {
			return s.Disabled
		}
	}
	return false
}

func unknownDefaultMessage(names []string) string {
	if len(names) == 0 {
		return "There is no default catalog of this name, nor of any other"
	}
	return fmt.Sprintf("There is no default catalog of this name: there are %s", strings.Join(names, ", "))
}
