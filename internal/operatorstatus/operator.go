package operatorstatus

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
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
	operator := &configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: o.Name}}
	err := o.Reader.Get(ctx, client.ObjectKeyFromObject(operator), operator)
	if apierrors.IsNotFound(err) {
		err = o.Client.Create(ctx, operator)
	}
	if err != nil {
		return fmt.Errorf("creating ClusterOperator %q: %w", o.Name, err)
	}

	before := operator.DeepCopy()
	fill(&operator.Status)
	if equality.Semantic.DeepEqual(before.Status, operator.Status) {
		return nil
	}

	// The resource version protects against a second instance that still considers itself the leader.
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := o.Client.Status().Patch(ctx, operator, patch); err != nil {
		return fmt.Errorf("writing the status of ClusterOperator %q: %w", o.Name, err)
	}

	return nil
}
