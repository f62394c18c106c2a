package installplan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// addMissingRights returns the error of a step that the service account of the plan may not execute, with the resources
// that it may not create in later steps, so that all rights can be granted at once. It returns any other error unchanged.
func (x *execution) addMissingRights(ctx context.Context, err error, later []*v1alpha1.Step) error {
	account := x.plan.Status.AttenuatedServiceAccountRef
	if account == nil || !apierrors.IsForbidden(err) {
		return err
	}

	var missing []string
	for _, step := range later {
		resource, ok := x.findMissingRight(ctx, step)
		if ok && !slices.Contains(missing, resource) {
			missing = append(missing, resource)
		}
	}

	if len(missing) == 0 {
		return err
	}
	return fmt.Errorf("%w. Later steps also need rights to create %s: grant them to service account %s/%s",
		err, strings.Join(missing, ", "), account.Namespace, account.Name)
}

// findMissingRight returns the resource of a step if the service account of the plan may not create the object, for which
// it asks the API server. CRDs are created by the controller, and pull secrets are copied.
func (x *execution) findMissingRight(ctx context.Context, step *v1alpha1.Step) (string, bool) {
	if step == nil || isStepDone(step) || step.Resource.Kind == kindCRD || step.Resource.Kind == kindSecret {
		return "", false
	}
	if _, ok := kinds[step.Resource.Kind]; !ok {
		return "", false
	}

	object, err := x.decodeObject(ctx, step)
	if err != nil {
		return "", false // The step reports it when it is executed.
	}

	err = x.scoped.Create(ctx, object, client.DryRunAll)
	var status apierrors.APIStatus
	if !apierrors.IsForbidden(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return "", false
	}
	details := status.Status().Details
	resource := schema.GroupResource{Group: details.Group, Resource: details.Kind}.String()
	if strings.Contains(err.Error(), "is attempting to grant RBAC permissions") {
		resource += " with permissions that it does not have"
	}

	return resource, true
}
