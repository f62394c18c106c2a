package marketplace

import (
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// facts determine what must be done with the default catalogs.
type facts struct {
	// hub is the OperatorHub in the cache. lacksHub is true when it does not exist.
	hub      *configv1.OperatorHub
	lacksHub bool
	// latest is the OperatorHub on the API server. It is read if a disabled default catalog exists.
	latest *configv1.OperatorHub
	// catalogs are the existing catalogs with names of default ones.
	catalogs map[string]*v1alpha1.CatalogSource
}

// catalogAction is what is done with a catalog.
type catalogAction string

const (
	createCatalog catalogAction = "create"
	updateCatalog catalogAction = "update"
	deleteCatalog catalogAction = "delete"
)

// catalogChange is a change of a default catalog.
type catalogChange struct {
	action  catalogAction
	catalog *v1alpha1.CatalogSource
}

// decideChanges returns the changes that create and restore the enabled default catalogs and delete the disabled ones.
// A catalog that a user has created instead of a disabled one is kept, and one that is being deleted is created again
// when it does not exist.
func decideChanges(defaults *defaultCatalogs, f *facts) []catalogChange {
	var changes []catalogChange
	for _, name := range defaults.sortedNames() {
		catalog := f.catalogs[name]
		isDeleted := catalog != nil && !catalog.DeletionTimestamp.IsZero()
		switch {
		case isDeleted:
		case isSourceDisabled(&f.hub.Spec, name):
			if catalog != nil && f.latest != nil && isSourceDisabled(&f.latest.Spec, name) && isDefaultCatalog(&f.latest.Status, catalog) {
				changes = append(changes, catalogChange{deleteCatalog, catalog})
			}
		case catalog == nil:
			changes = append(changes, catalogChange{createCatalog, defaults.catalogs[name].DeepCopy()})
		default:
			restored := catalog.DeepCopy()
			if restoreDefault(restored, defaults.catalogs[name]) {
				changes = append(changes, catalogChange{updateCatalog, restored})
			}
		}
	}

	return changes
}

// hasDisabledCatalog reports whether a catalog exists whose default is disabled.
func hasDisabledCatalog(f *facts) bool {
	for name, catalog := range f.catalogs {
		if catalog.DeletionTimestamp.IsZero() && isSourceDisabled(&f.hub.Spec, name) {
			return true
		}
	}
	return false
}

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
