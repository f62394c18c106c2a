package source

import (
	"context"
	"errors"
	"fmt"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
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

// rejectInvalidSpec stops the reconciliation of an invalid spec. When a spec has become valid,
// it resets the status, which describes the old spec.
func (r *reconciler) rejectInvalidSpec(_ context.Context, catalog *v1alpha1.CatalogSource) error {
	if err := validateSpec(&catalog.Spec); err != nil {
		return reconcile.Stop(v1alpha1.CatalogSourceSpecInvalidError, err)
	}
	if catalog.Status.Reason == v1alpha1.CatalogSourceSpecInvalidError {
		catalog.Status = v1alpha1.CatalogSourceStatus{Conditions: catalog.Status.Conditions}
	}
	return nil
}
