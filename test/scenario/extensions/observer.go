package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// clusterObserver reads the cluster as its administrator.
type clusterObserver struct {
	client.Client
	metadata  metadata.Interface
	discovery discovery.DiscoveryInterface
}

func newObserver(kubeconfig string) (*clusterObserver, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}

	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{} // Deprecated kinds are listed too.
	scheme := runtime.NewScheme()
	if err := olmv1.AddToScheme(scheme); err != nil {
		return nil, err
	}

	o := &clusterObserver{}
	if o.Client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return nil, err
	}
	if o.metadata, err = metadata.NewForConfig(config); err != nil {
		return nil, err
	}

	o.discovery, err = discovery.NewDiscoveryClientForConfig(config)
	return o, err
}

// listableResources returns all resources that can be listed and deleted.
func (o *clusterObserver) listableResources() ([]schema.GroupVersionResource, error) {
	lists, err := o.discovery.ServerPreferredResources()
	if err != nil {
		return nil, err
	}

	var found []schema.GroupVersionResource
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for i := range list.APIResources {
			if slices.Contains(list.APIResources[i].Verbs, "list") && slices.Contains(list.APIResources[i].Verbs, "delete") {
				found = append(found, gv.WithResource(list.APIResources[i].Name))
			}
		}
	}

	return found, nil
}

// listOwnedObjects returns the objects of every kind with the labels of an extension.
func (o *clusterObserver) listOwnedObjects(ctx context.Context, extension string) ([]string, error) {
	return o.listObjects(ctx, olmv1.LabelOwnerKind+"="+olmv1.ClusterExtensionKind+","+olmv1.LabelOwnerName+"="+extension)
}

// listObjects returns the objects of every kind that match a selector.
func (o *clusterObserver) listObjects(ctx context.Context, selector string) ([]string, error) {
	resources, err := o.listableResources()
	if err != nil {
		return nil, err
	}

	var found []string
	for _, resource := range resources {
		list, err := o.metadata.Resource(resource).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
			continue // The kind has just been removed.
		}
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", resource.GroupResource(), err)
		}
		for i := range list.Items {
			found = append(found, strings.TrimPrefix(resource.GroupResource().String()+" "+list.Items[i].Namespace+"/"+list.Items[i].Name, "/"))
		}
	}

	return found, nil
}

// volatileResources are resources whose objects the cluster creates and deletes by itself.
var volatileResources = []string{"events", "events.events.k8s.io", "leases.coordination.k8s.io", "endpointslices.discovery.k8s.io", "endpoints", "pods", "replicasets.apps", "controllerrevisions.apps"}

// listStableObjects returns all objects of the cluster except those of volatile resources.
func (o *clusterObserver) listStableObjects(ctx context.Context) (map[string]bool, error) {
	all, err := o.listObjects(ctx, "")
	if err != nil {
		return nil, err
	}

	names := map[string]bool{}
	for _, name := range all {
		if kind, _, _ := strings.Cut(name, " "); !slices.Contains(volatileResources, kind) {
			names[name] = true
		}
	}

	return names, nil
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
	namespace := &unstructured.Unstructured{}
	namespace.SetAPIVersion("v1")
	namespace.SetKind("Namespace")
	namespace.SetName(name)
	if err := o.Delete(ctx, namespace); err != nil {
		return client.IgnoreNotFound(err)
	}

	return waitFor(ctx, func(ctx context.Context) error {
		err := o.Get(ctx, client.ObjectKeyFromObject(namespace), namespace)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("namespace %s is still there", name)
		}
		return err
	})
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
	ctx, cancel := context.WithTimeout(ctx, rolloutTimeout)
	defer cancel()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil {
			last = err // The error of a check that timed out is not useful.
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("within %s: %w", rolloutTimeout, last)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
