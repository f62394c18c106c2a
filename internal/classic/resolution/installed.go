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

// installedCatalog is the name, in messages, of the catalog that installed operators are taken to be in.
const installedCatalog = "@existing"

// Settling reports whether an update is going on in a namespace: whether a ClusterServiceVersion is being
// replaced by one that has neither succeeded nor failed yet. Until it has, nothing can be chosen. One that misses
// what it requires only counts while a plan that may bring that is executed.
func Settling(csvs []v1alpha1.ClusterServiceVersion, isInstalling bool) bool {
	return slices.ContainsFunc(csvs, func(csv v1alpha1.ClusterServiceVersion) bool {
		if csvinfo.IsCopied(&csv) {
			return false
		}
		by := csvinfo.Replacement(&csv, csvs)
		if by == nil || csvinfo.IsObsolete(by) {
			return false
		}
		switch by.Status.Phase {
		case v1alpha1.CSVPhaseSucceeded, v1alpha1.CSVPhaseFailed:
			return false
		case v1alpha1.CSVPhasePending:
			return isInstalling || by.Status.Reason != v1alpha1.CSVReasonRequirementsNotMet
		default:
			return true
		}
	})
}

// Orphan returns the name of the one ClusterServiceVersion of a package that no Subscription has installed; empty when
// there is none, or more than one.
func Orphan(pkg string, csvs []v1alpha1.ClusterServiceVersion, subscriptions []*v1alpha1.Subscription) string {
	found := ""
	for i := range csvs {
		csv := &csvs[i]
		if csvinfo.IsCopied(csv) || csv.Annotations[csvinfo.AnnotationProperties] == "" || slices.ContainsFunc(subscriptions, func(s *v1alpha1.Subscription) bool {
			return s.Status.InstalledCSV == csv.Name || s.Status.CurrentCSV == csv.Name
		}) {
			continue
		}

		properties, err := propertiesOf(csv, nil)
		b := &Bundle{Name: csv.Name, Version: string(csv.Spec.Version), Properties: properties}
		if b.prepare(); err != nil || b.Package != pkg {
			continue
		}
		if found != "" {
			return ""
		}

		found = csv.Name
	}

	return found
}

// standing returns the ClusterServiceVersions that count: copies do not, nor what was replaced and is about
// to go. Where what failed may be replaced, neither does what it has replaced.
func standing(csvs []v1alpha1.ClusterServiceVersion, failForward bool) ([]*v1alpha1.ClusterServiceVersion, error) {
	var all []*v1alpha1.ClusterServiceVersion
	for i := range csvs {
		csv := &csvs[i]
		if csvinfo.IsCopied(csv) {
			continue
		}

		by := csvinfo.Replacement(csv, csvs)
		if by != nil && by.Status.Phase == v1alpha1.CSVPhaseSucceeded {
			continue
		}

		if failForward && csv.Status.Phase == v1alpha1.CSVPhaseReplacing {
			hasFailed, err := endsInFailure(csv, csvs)
			if err != nil {
				return nil, err
			}
			if hasFailed {
				continue
			}
		}

		all = append(all, csv)
	}

	slices.SortFunc(all, func(a, b *v1alpha1.ClusterServiceVersion) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// endsInFailure reports whether what replaces a ClusterServiceVersion, and so on, ends in one that has failed.
func endsInFailure(csv *v1alpha1.ClusterServiceVersion, among []v1alpha1.ClusterServiceVersion) (bool, error) {
	last, err := csvinfo.Last(csv, among)
	if err != nil {
		return false, err
	}

	for at := csv; at != last; at = csvinfo.Replacement(at, among) {
		if at.Status.Phase != v1alpha1.CSVPhaseReplacing {
			return false, fmt.Errorf("ClusterServiceVersion %s/%s is replaced by %s and yet is in phase %q, not %q: "+
				"it takes part in the replacement of %s, which cannot be judged", at.Namespace, at.Name,
				csvinfo.Replacement(at, among).Name, at.Status.Phase, v1alpha1.CSVPhaseReplacing, csv.Name)
		}
	}

	return last.Status.Phase == v1alpha1.CSVPhaseFailed, nil
}

// installed makes a snapshot of what is installed.
func installed(namespace string, csvs []*v1alpha1.ClusterServiceVersion, subscriptions []*v1alpha1.Subscription) (*Snapshot, error) {
	entries := make([]*Entry, 0, len(csvs))
	for _, csv := range csvs {
		properties, err := propertiesOf(csv, subscriptions)
		if err != nil {
			return nil, err
		}
		entries = append(entries, &Entry{Bundle: &Bundle{Name: csv.Name, Version: string(csv.Spec.Version), Properties: properties}})
	}

	key := types.NamespacedName{Namespace: namespace, Name: installedCatalog}
	asTheyAre := func(_ string, entries []*Entry) []*channel { return []*channel{{entries: entries}} }
	return newSnapshot(key, nil, entries, asTheyAre), nil
}

// propertiesOf returns the properties that the bundle of a ClusterServiceVersion had in its catalog, or else
// what it says itself.
func propertiesOf(csv *v1alpha1.ClusterServiceVersion, subscriptions []*v1alpha1.Subscription) ([]fbc.Property, error) {
	if text, ok := csv.Annotations[csvinfo.AnnotationProperties]; ok {
		var value struct {
			Properties []fbc.Property `json:"properties"`
		}
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			return nil, fmt.Errorf("annotation %s of ClusterServiceVersion %s/%s is no list of properties: %w: delete it, and the APIs of its spec count",
				csvinfo.AnnotationProperties, csv.Namespace, csv.Name, err)
		}
		return value.Properties, nil
	}

	provided, err := csvinfo.Provided(csv)
	if err != nil {
		return nil, fmt.Errorf("ClusterServiceVersion %s/%s: %w", csv.Namespace, csv.Name, err)
	}

	required, err := csvinfo.Required(csv)
	if err != nil {
		return nil, fmt.Errorf("ClusterServiceVersion %s/%s: %w", csv.Namespace, csv.Name, err)
	}

	properties, err := FromAPIs(provided, required)
	if err != nil {
		return nil, fmt.Errorf("ClusterServiceVersion %s/%s: %w", csv.Namespace, csv.Name, err)
	}

	if name := packageOf(csv.Name, subscriptions); name != "" {
		value, err := json.Marshal(fbc.PackageProperty{PackageName: name, Version: string(csv.Spec.Version)})
		if err != nil {
			return nil, fmt.Errorf("ClusterServiceVersion %s/%s: %w", csv.Namespace, csv.Name, err)
		}
		properties = append(properties, fbc.Property{Type: fbc.PropertyPackage, Value: value})
	}

	return properties, nil
}

// packageOf is the package that a ClusterServiceVersion was installed from; empty when its Subscriptions do
// not agree, or there is none.
func packageOf(csv string, subscriptions []*v1alpha1.Subscription) string {
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

// FromAPIs returns the properties of a bundle of which only the APIs are known.
func FromAPIs(provided, required csvinfo.APIs) ([]fbc.Property, error) {
	var properties []fbc.Property
	for _, some := range []struct {
		kind string
		apis csvinfo.APIs
	}{{fbc.PropertyGVK, provided}, {fbc.PropertyGVKRequired, required}} {
		for _, gvk := range sortedBy(some.apis, func(a, b schema.GroupVersionKind) int { return strings.Compare(csvinfo.Text(a), csvinfo.Text(b)) }) {
			value, err := json.Marshal(bundle.GVKProperty{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind})
			if err != nil {
				return nil, err
			}
			properties = append(properties, fbc.Property{Type: some.kind, Value: value})
		}
	}

	return properties, nil
}
