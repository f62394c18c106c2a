package resolve

import (
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// InvalidSelectorError is the error for a catalog selector that cannot be parsed.
type InvalidSelectorError struct{ Err error }

// Error returns the message with the reason.
func (e *InvalidSelectorError) Error() string {
	return fmt.Sprintf("desired catalog selector is invalid: %v", e.Err)
}

// Unwrap returns the reason.
func (e *InvalidSelectorError) Unwrap() error { return e.Err }

// SelectCatalogs returns the catalogs that match the selector. A nil or empty selector
// matches all. Every catalog is treated as labelled with its own name, even before its
// controller has set that label. The error is an *InvalidSelectorError.
func SelectCatalogs(selector *metav1.LabelSelector, catalogs []olmv1.ClusterCatalog) ([]olmv1.ClusterCatalog, error) {
	matcher := labels.Everything()
	if selector != nil {
		var err error
		if matcher, err = metav1.LabelSelectorAsSelector(selector); err != nil {
			return nil, &InvalidSelectorError{Err: err}
		}
	}

	var selected []olmv1.ClusterCatalog
	for _, c := range catalogs {
		set := labels.Set{}
		maps.Copy(set, c.Labels)
		set[olmv1.LabelMetadataName] = c.Name
		if matcher.Matches(set) {
			selected = append(selected, c)
		}
	}

	return selected, nil
}
