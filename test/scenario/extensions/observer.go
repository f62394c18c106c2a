package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/test/scenario/trial"
)

// clusterObserver reads the cluster as its administrator.
type clusterObserver struct {
	*trial.Observer
}

func newObserver(kubeconfig string) (*clusterObserver, error) {
	o, err := trial.NewObserver(kubeconfig, olmv1.AddToScheme)
	return &clusterObserver{Observer: o}, err
}

// listOwnedObjects returns the objects of every kind with the labels of an extension.
func (o *clusterObserver) listOwnedObjects(ctx context.Context, extension string) ([]string, error) {
	return o.ListObjects(ctx, olmv1.LabelOwnerKind+"="+olmv1.ClusterExtensionKind+","+olmv1.LabelOwnerName+"="+extension)
}

// deleteManifest deletes the objects of a manifest, except namespaces.
func (o *clusterObserver) deleteManifest(ctx context.Context, manifest string) error {
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(manifest)), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if len(object.Object) == 0 || object.GetKind() == "Namespace" {
			continue
		}
		if err := o.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
}

// touchTerminating annotates the CRDs that are being deleted. It returns their Terminating
// conditions.
func (o *clusterObserver) touchTerminating(ctx context.Context) ([]string, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinitionList"})
	if err := o.List(ctx, list); err != nil {
		return nil, err
	}

	var touched []string
	for i := range list.Items {
		crd := &list.Items[i]
		if crd.GetDeletionTimestamp() == nil {
			continue
		}

		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"scenario":"touched"}}}`))
		if err := o.Patch(ctx, crd, patch); client.IgnoreNotFound(err) != nil {
			return touched, err
		}

		conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
		for _, condition := range conditions {
			if fields, ok := condition.(map[string]any); ok && fields["type"] == "Terminating" {
				touched = append(touched, fmt.Sprintf("%s: %v: %v", crd.GetName(), fields["reason"], fields["message"]))
			}
		}
	}

	return touched, nil
}

// getExtension returns a ClusterExtension.
func (o *clusterObserver) getExtension(ctx context.Context, name string) (*olmv1.ClusterExtension, error) {
	extension := &olmv1.ClusterExtension{}
	return extension, o.Get(ctx, client.ObjectKey{Name: name}, extension)
}

// patchExtensionSpec patches the spec of an extension.
func (o *clusterObserver) patchExtensionSpec(ctx context.Context, name string, edit func(*olmv1.ClusterExtensionSpec)) error {
	extension, err := o.getExtension(ctx, name)
	if err != nil {
		return err
	}
	before := extension.DeepCopy()
	edit(&extension.Spec)
	return o.Patch(ctx, extension, client.MergeFrom(before))
}

// waitForArchivedRevisions waits until the objects of replaced revisions are released.
func (o *clusterObserver) waitForArchivedRevisions(ctx context.Context, name string) error {
	return waitFor(ctx, func(ctx context.Context) error {
		var sets olmv1.ClusterObjectSetList
		if err := o.List(ctx, &sets, client.MatchingLabels{olmv1.LabelOwnerName: name}); err != nil {
			return err
		}

		active := 0
		for i := range sets.Items {
			set := &sets.Items[i]
			progressing := findCondition(set.Status.Conditions, olmv1.TypeProgressing)
			switch {
			case set.Spec.LifecycleState != olmv1.LifecycleStateArchived:
				active++
			case progressing.Reason != olmv1.ReasonArchived:
				return fmt.Errorf("the replaced revision %s is not removed: %s", set.Name, progressing.Message)
			}
		}

		if active != 1 {
			return errors.New("more than one revision is active")
		}

		return nil
	})
}

// deleteNamespace deletes a namespace and waits until it is gone.
func (o *clusterObserver) deleteNamespace(ctx context.Context, name string) error {
	if err := o.DeleteNamespace(ctx, name); err != nil {
		return err
	}
	return o.WaitForNamespaceRemoval(ctx, name)
}

// findCondition returns a condition, or an empty one if there is none.
func findCondition(conditions []metav1.Condition, of string) metav1.Condition {
	if found := meta.FindStatusCondition(conditions, of); found != nil {
		return *found
	}
	return metav1.Condition{}
}

// waitFor waits for a state of the cluster.
func waitFor(ctx context.Context, check func(context.Context) error) error {
	return trial.WaitFor(ctx, check)
}
