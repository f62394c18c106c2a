package resolution

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// installedCatalogName is the catalog name of installed operators in messages.
const installedCatalogName = "@existing"

// IsUpdateInProgress reports whether an update is in progress in a namespace: a CSV is being replaced by
// one that has neither succeeded nor failed. Nothing can be resolved until then. A replacement
// whose requirements are not met counts only while an InstallPlan that may provide them is
// executed, or has just been executed, which isInstalling reports.
func IsUpdateInProgress(csvs []v1alpha1.ClusterServiceVersion, isInstalling bool) bool {
	return len(UpdatesInProgress(csvs, isInstalling)) > 0
}

// UpdatesInProgress returns the names of the CSVs that are replacing others, as in IsUpdateInProgress.
func UpdatesInProgress(csvs []v1alpha1.ClusterServiceVersion, isInstalling bool) []string {
	var names []string
	for i := range csvs {
		if replacement := findUnfinishedReplacement(&csvs[i], csvs, isInstalling); replacement != nil {
			names = append(names, replacement.Name)
		}
	}
	return names
}

// findUnfinishedReplacement returns the CSV that is replacing a CSV, or nil.
func findUnfinishedReplacement(csv *v1alpha1.ClusterServiceVersion, csvs []v1alpha1.ClusterServiceVersion, isInstalling bool) *v1alpha1.ClusterServiceVersion {
	if csvinfo.IsCopied(csv) {
		return nil
	}
	replacement := csvinfo.Replacement(csv, csvs)
	if replacement == nil || csvinfo.IsObsolete(replacement) {
		return nil
	}

	switch replacement.Status.Phase {
	case v1alpha1.CSVPhaseSucceeded, v1alpha1.CSVPhaseFailed:
		return nil
	case v1alpha1.CSVPhasePending:
		if !isInstalling && replacement.Status.Reason == v1alpha1.CSVReasonRequirementsNotMet {
			return nil
		}
	}
	return replacement
}

// FindUnsubscribedCSV returns the name of the only CSV of a package that no Subscription refers to. It
// returns "" if there is none, or more than one.
func FindUnsubscribedCSV(pkg string, csvs []v1alpha1.ClusterServiceVersion, subscriptions []*v1alpha1.Subscription) string {
	found := ""
	for i := range csvs {
		csv := &csvs[i]
		if csvinfo.IsCopied(csv) || csv.Annotations[csvinfo.AnnotationProperties] == "" || slices.ContainsFunc(subscriptions, func(s *v1alpha1.Subscription) bool {
			return s.Status.InstalledCSV == csv.Name || s.Status.CurrentCSV == csv.Name
		}) {
			continue
		}

		properties, err := propertiesOfCSV(csv, nil)
		b := &Bundle{Name: csv.Name, Version: string(csv.Spec.Version), Properties: properties}
		if b.parsePackageProperty(); err != nil || b.Package != pkg {
			continue
		}
		if found != "" {
			return ""
		}

		found = csv.Name
	}

	return found
}

// selectActiveCSVs returns the CSVs that take part in resolution, sorted by name. It leaves out
// copied CSVs and CSVs whose replacement has succeeded or is in progress. With failForward set, it also leaves
// out CSVs whose chain of replacements ends in a failed one.
func selectActiveCSVs(csvs []v1alpha1.ClusterServiceVersion, failForward, isInstalling bool) ([]*v1alpha1.ClusterServiceVersion, error) {
	var all []*v1alpha1.ClusterServiceVersion
	for i := range csvs {
		csv := &csvs[i]
		if csvinfo.IsCopied(csv) {
			continue
		}

		replacement := csvinfo.Replacement(csv, csvs)
		if replacement != nil && replacement.Status.Phase == v1alpha1.CSVPhaseSucceeded {
			continue
		}

		if failForward && csv.Status.Phase == v1alpha1.CSVPhaseReplacing {
			hasFailed, err := replacementChainFailed(csv, csvs)
			if err != nil {
				return nil, err
			}
			if hasFailed {
				continue
			}
		}
		if findUnfinishedReplacement(csv, csvs, isInstalling) != nil {
			continue
		}

		all = append(all, csv)
	}

	slices.SortFunc(all, func(a, b *v1alpha1.ClusterServiceVersion) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// replacementChainFailed reports whether the chain of replacements of a CSV ends in a failed
// one. It returns an error if a CSV in the chain is not in the phase Replacing.
func replacementChainFailed(csv *v1alpha1.ClusterServiceVersion, csvs []v1alpha1.ClusterServiceVersion) (bool, error) {
	last, err := csvinfo.LastReplacement(csv, csvs)
	if err != nil {
		return false, err
	}

	for current := csv; current != last; current = csvinfo.Replacement(current, csvs) {
		if current.Status.Phase != v1alpha1.CSVPhaseReplacing {
			return false, fmt.Errorf("ClusterServiceVersion %s/%s is replaced by %s but is in phase %q, not %q: "+
				"cannot determine the outcome of the replacement of %s", current.Namespace, current.Name,
				csvinfo.Replacement(current, csvs).Name, current.Status.Phase, v1alpha1.CSVPhaseReplacing, csv.Name)
		}
	}

	return last.Status.Phase == v1alpha1.CSVPhaseFailed, nil
}

// newInstalledSnapshot returns a snapshot of the installed operators.
func newInstalledSnapshot(namespace string, csvs []*v1alpha1.ClusterServiceVersion, subscriptions []*v1alpha1.Subscription) (*Snapshot, error) {
	entries := make([]*Entry, 0, len(csvs))
	for _, csv := range csvs {
		properties, err := propertiesOfCSV(csv, subscriptions)
		if err != nil {
			return nil, err
		}
		entries = append(entries, &Entry{Bundle: &Bundle{Name: csv.Name, Version: string(csv.Spec.Version), Properties: properties}})
	}

	key := types.NamespacedName{Namespace: namespace, Name: installedCatalogName}
	singleChannel := func(_ string, entries []*Entry) []*channel { return []*channel{{entries: entries}} }
	return newSnapshot(key, nil, entries, singleChannel), nil
}

// propertiesOfCSV returns the properties that the bundle of a CSV had in its catalog. If they
// were not recorded, it derives them from the spec of the CSV.
func propertiesOfCSV(csv *v1alpha1.ClusterServiceVersion, subscriptions []*v1alpha1.Subscription) ([]fbc.Property, error) {
	if text, ok := csv.Annotations[csvinfo.AnnotationProperties]; ok {
		var value struct {
			Properties []fbc.Property `json:"properties"`
		}
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			return nil, fmt.Errorf("annotation %s of ClusterServiceVersion %s/%s is not a list of properties: %w: delete it to use the APIs of the spec instead",
				csvinfo.AnnotationProperties, csv.Namespace, csv.Name, err)
		}
		return value.Properties, nil
	}

	provided, err := csvinfo.ProvidedAPIs(csv)
	if err != nil {
		return nil, fmt.Errorf("ClusterServiceVersion %s/%s: %w", csv.Namespace, csv.Name, err)
	}

	required, err := csvinfo.RequiredAPIs(csv)
	if err != nil {
		return nil, fmt.Errorf("ClusterServiceVersion %s/%s: %w", csv.Namespace, csv.Name, err)
	}

	properties, err := PropertiesFromAPIs(provided, required)
	if err != nil {
		return nil, fmt.Errorf("ClusterServiceVersion %s/%s: %w", csv.Namespace, csv.Name, err)
	}

	if name := packageOfCSV(csv.Name, subscriptions); name != "" {
		value, err := json.Marshal(fbc.PackageProperty{PackageName: name, Version: string(csv.Spec.Version)})
		if err != nil {
			return nil, fmt.Errorf("ClusterServiceVersion %s/%s: %w", csv.Namespace, csv.Name, err)
		}
		properties = append(properties, fbc.Property{Type: fbc.PropertyPackage, Value: value})
	}

	return properties, nil
}

// packageOfCSV returns the package that a CSV was installed from. It returns "" if no
// Subscription has installed it, or if the Subscriptions disagree.
func packageOfCSV(csv string, subscriptions []*v1alpha1.Subscription) string {
	name := ""
	for _, sub := range subscriptions {
		switch {
		case sub.Status.InstalledCSV != csv:
		case name == "":
			name = sub.Spec.Package
		case name != sub.Spec.Package:
			return ""
		}
	}

	return name
}

// PropertiesFromAPIs returns the properties of a bundle of which only the APIs are known.
func PropertiesFromAPIs(provided, required csvinfo.APIs) ([]fbc.Property, error) {
	var properties []fbc.Property
	for _, some := range []struct {
		kind string
		apis csvinfo.APIs
	}{{fbc.PropertyGVK, provided}, {fbc.PropertyGVKRequired, required}} {
		for _, gvk := range sortedKeys(some.apis, func(a, b schema.GroupVersionKind) int {
			return strings.Compare(csvinfo.FormatAPI(a), csvinfo.FormatAPI(b))
		}) {
			value, err := json.Marshal(bundle.GVKProperty{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind})
			if err != nil {
				return nil, err
			}
			properties = append(properties, fbc.Property{Type: some.kind, Value: value})
		}
	}

	return properties, nil
}
