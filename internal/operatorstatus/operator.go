package operatorstatus

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// Operator is one ClusterOperator.
type Operator struct {
	// Name of the object.
	Name string
	// Reader reads it from the API server, or from a cache that contains it.
	Reader client.Reader
	// Client creates and patches it.
	Client client.Client
}

// IsKindServed reports whether the cluster serves the kind ClusterOperator.
func IsKindServed(mapper meta.RESTMapper) (bool, error) {
	kind := configv1.GroupVersion.WithKind(configv1.ClusterOperatorKind)
	_, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	switch {
	case meta.IsNoMatchError(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("looking for kind %s: %w", kind.GroupKind(), err)
	}

	return true, nil
}

// PatchStatus patches the status of the ClusterOperator with the changes of fill. It creates a missing
// object, and writes nothing if fill changes nothing.
func (o Operator) PatchStatus(ctx context.Context, fill func(*configv1.ClusterOperatorStatus)) error {
	operator, err := o.readOperator(ctx)
	if err != nil {
		return err
	}
	return o.writeStatus(ctx, operator, applyReport(operator, fill))
}

// readOperator returns the ClusterOperator. One that does not exist has no resource version.
func (o Operator) readOperator(ctx context.Context) (*configv1.ClusterOperator, error) {
	operator := &configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: o.Name}}
	if err := o.Reader.Get(ctx, client.ObjectKeyFromObject(operator), operator); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading ClusterOperator %q: %w", o.Name, err)
	}
	return operator, nil
}

// applyReport returns the status of a ClusterOperator with the changes of fill.
func applyReport(operator *configv1.ClusterOperator, fill func(*configv1.ClusterOperatorStatus)) *configv1.ClusterOperatorStatus {
	desired := operator.Status.DeepCopy()
	fill(desired)
	return desired
}

// writeStatus creates a ClusterOperator that does not exist, and patches its status if it differs from the
// desired one.
func (o Operator) writeStatus(ctx context.Context, operator *configv1.ClusterOperator, desired *configv1.ClusterOperatorStatus) error {
	if operator.ResourceVersion == "" {
		if err := o.Client.Create(ctx, operator); err != nil {
			return fmt.Errorf("creating ClusterOperator %q: %w", o.Name, err)
		}
	}

	before := operator.DeepCopy()
	operator.Status = *desired

	return reconcile.PatchStatus(ctx, o.Client, operator, before)
}
