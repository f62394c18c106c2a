package action

import (
	"context"
	"fmt"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/excerpt"
)

// operandRemovalTimeout is how long DeleteCustomResources waits for finalizers.
const operandRemovalTimeout = 20 * time.Second

// maxNamedOperands limits the custom resources that an error names.
const maxNamedOperands = 5

// DeleteCustomResources deletes the custom resources of a CRD and waits until they are gone, so
// that the operator still runs and removes their finalizers. The error names those that are left.
func DeleteCustomResources(ctx context.Context, c client.Client, progress report.Progress, name string) error {
	object := fmt.Sprintf("customresourcedefinition %q", name)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, crd); err != nil {
		return NewServerError(object, client.IgnoreNotFound(err))
	}

	kind, ok := servedListKind(crd)
	if !ok {
		return nil // nothing can be read or deleted
	}

	isRequested := map[client.ObjectKey]bool{}
	wait := &Wait{Timeout: operandRemovalTimeout}
	return wait.Poll(ctx, object, progress, func(ctx context.Context) (Outcome, error) {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		if err := c.List(ctx, list, client.Limit(customResourcePageSize)); err != nil {
			return Outcome{}, err
		}

		var left []string
		for i := range list.Items {
			item := &list.Items[i]
			key := client.ObjectKeyFromObject(item)
			left = append(left, strings.TrimPrefix(key.String(), "/"))
			if isRequested[key] || item.DeletionTimestamp != nil {
				continue
			}
			item.SetGroupVersionKind(crdKind(crd, kind.Version))
			err := c.Delete(ctx, item, client.PropagationPolicy(metav1.DeletePropagationForeground))
			if err != nil && !apierrors.IsNotFound(err) {
				return Outcome{}, fmt.Errorf("deleting %s %s: %w", crd.Spec.Names.Kind, key, err)
			}
			isRequested[key] = true
		}

		return Outcome{
			Done: len(left) == 0, Pending: "custom resources are left: " + excerpt.Join(left, maxNamedOperands, ", ", " and "),
			Advice: "see their finalizers, which the operator must remove; the operator was not removed",
		}, nil
	})
}

// servedListKind returns the kind of a list of custom resources in a served version.
func servedListKind(crd *apiextensionsv1.CustomResourceDefinition) (schema.GroupVersionKind, bool) {
	for i := range crd.Spec.Versions {
		if v := &crd.Spec.Versions[i]; v.Served {
			kind := crdKind(crd, v.Name)
			kind.Kind += "List"
			return kind, true
		}
	}
	return schema.GroupVersionKind{}, false
}

func crdKind(crd *apiextensionsv1.CustomResourceDefinition, version string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: crd.Spec.Group, Version: version, Kind: crd.Spec.Names.Kind}
}
