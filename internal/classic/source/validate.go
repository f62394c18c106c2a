package source

import (
	"errors"
	"fmt"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// validateSpec returns what is wrong with a spec, or nil.
func validateSpec(spec *v1alpha1.CatalogSourceSpec) error {
	switch spec.SourceType {
	case v1alpha1.SourceTypeConfigmap, v1alpha1.SourceTypeInternal:
		if spec.ConfigMap == "" {
			return fmt.Errorf("configmap name unset: must be set for sourcetype: %s", spec.SourceType)
		}
	case v1alpha1.SourceTypeGrpc:
		if spec.Image == "" && spec.Address == "" {
			return errors.New("image and address unset: at least one must be set for sourcetype: grpc")
		}
	default:
		return fmt.Errorf("unknown sourcetype: %s", spec.SourceType)
	}

	return nil
}
