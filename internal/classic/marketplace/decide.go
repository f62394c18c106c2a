package marketplace

import (
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// isSourceDisabled reports whether the spec disables a default catalog. An entry for the catalog
// takes precedence over disableAllDefaultSources, and the last of several entries counts.
func isSourceDisabled(spec *configv1.OperatorHubSpec, name string) bool {
	is := spec.DisableAllDefaultSources
	for _, s := range spec.Sources {
		if s.Name == name {
			is = s.Disabled
		}
	}
	return is
}

// isDefaultCatalog reports whether a catalog with the name of a disabled default catalog is
// that default catalog, and not one that a user has created instead. As long as the status says
// that the default catalog is enabled, a user cannot have replaced it, because changes are
// reverted. If the status has no entry, the annotation decides.
func isDefaultCatalog(status *configv1.OperatorHubStatus, catalog *v1alpha1.CatalogSource) bool {
	for _, s := range status.Sources {
		if s.Name == catalog.Name {
			return !s.Disabled
		}
	}
	return catalog.Annotations[annotationManagedBy] == managedBy
}

// restoreDefault changes a catalog to the default one, and reports whether it has changed. The
// image of a catalog with an image template is kept, because it follows the template.
func restoreDefault(catalog, want *v1alpha1.CatalogSource) bool {
	before := catalog.DeepCopy()
	spec := *want.Spec.DeepCopy()
	if _, ok := want.Annotations[v1alpha1.AnnotationCatalogImageTemplate]; ok {
		spec.Image = catalog.Spec.Image
	}

	catalog.Spec = spec
	catalog.Labels, catalog.Annotations = mergeStringMaps(catalog.Labels, want.Labels), mergeStringMaps(catalog.Annotations, want.Annotations)
	return !equality.Semantic.DeepEqual(before, catalog)
}

// mergeStringMaps returns the entries of both maps; wanted takes precedence.
func mergeStringMaps(existing, wanted map[string]string) map[string]string {
	if len(existing)+len(wanted) == 0 {
		return existing
	}

	all := maps.Clone(existing)
	if all == nil {
		all = map[string]string{}
	}

	maps.Copy(all, wanted)
	return all
}

// newHubStatus returns the status with all default catalogs in order, followed by entries of
// the spec that name no default catalog. failed are the errors by catalog.
func newHubStatus(hub *configv1.OperatorHub, names []string, failed map[string]error) configv1.OperatorHubStatus {
	var status configv1.OperatorHubStatus
	listed := map[string]bool{}
	for _, name := range names {
		listed[name] = true
		source := configv1.HubSourceStatus{Name: name, Disabled: isSourceDisabled(&hub.Spec, name), Status: configv1.HubSourceSuccess}
		if err := failed[name]; err != nil {
			source.Status, source.Message = configv1.HubSourceError, err.Error()
			source.Disabled = !source.Disabled && wasSourceDisabled(&hub.Status, name)
		}
		status.Sources = append(status.Sources, source)
	}

	for _, s := range hub.Spec.Sources {
		if listed[s.Name] {
			continue
		}
		listed[s.Name] = true
		status.Sources = append(status.Sources, configv1.HubSourceStatus{
			Name: s.Name, Disabled: isSourceDisabled(&hub.Spec, s.Name), Status: configv1.HubSourceError, Message: unknownDefaultMessage(names),
		})
	}

	return status
}

// wasSourceDisabled reports whether the status says that a catalog is disabled.
func wasSourceDisabled(status *configv1.OperatorHubStatus, name string) bool {
	for _, s := range status.Sources {
		if s.Name == name {
			return s.Disabled
		}
	}
	return false
}

func unknownDefaultMessage(names []string) string {
	if len(names) == 0 {
		return "There are no default catalogs"
	}
	return fmt.Sprintf("There is no default catalog with this name: the default catalogs are %s", strings.Join(names, ", "))
}
