package trial

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/testing/steps"
)

// RolloutTimeout is the timeout of everything that the controllers do. On a simulated node it takes
// a second or two. A busy machine needs a hundred times as long.
const RolloutTimeout = 10 * time.Minute

// WaitFor waits for a state of the cluster.
func WaitFor(ctx context.Context, check func(context.Context) error) error {
	return steps.Eventually(ctx, RolloutTimeout, check)
}

// Observer reads the cluster as its administrator.
type Observer struct {
	client.Client
	metadata  metadata.Interface
	discovery discovery.DiscoveryInterface
}

// NewObserver returns an observer. add are functions that register types in its scheme.
func NewObserver(kubeconfig string, add ...func(*runtime.Scheme) error) (*Observer, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}

	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{} // Deprecated kinds are listed too.
	scheme := runtime.NewScheme()
	for _, register := range add {
		if err := register(scheme); err != nil {
			return nil, err
		}
	}

	o := &Observer{}
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
func (o *Observer) listableResources() ([]schema.GroupVersionResource, error) {
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

// ListObjects returns the objects of every kind that match a selector.
func (o *Observer) ListObjects(ctx context.Context, selector string) ([]string, error) {
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

// volatileResources are resources whose objects the cluster creates and deletes by itself, and the ClusterOperators in which the
// servers report on themselves.
var volatileResources = []string{"clusteroperators.config.openshift.io", "events", "events.events.k8s.io", "leases.coordination.k8s.io", "endpointslices.discovery.k8s.io", "endpoints", "pods", "replicasets.apps", "controllerrevisions.apps"}

// ListStableObjects returns all objects of the cluster except those of volatile resources.
func (o *Observer) ListStableObjects(ctx context.Context) (map[string]bool, error) {
	all, err := o.ListObjects(ctx, "")
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

// CheckNothingLeft waits until the cluster has only stable objects that may stay.
func (o *Observer) CheckNothingLeft(ctx context.Context, mayStay func(object string) bool) error {
	return WaitFor(ctx, func(ctx context.Context) error {
		names, err := o.ListStableObjects(ctx)
		if err != nil {
			return err
		}

		var more []string
		for name := range names {
			if !mayStay(name) {
				more = append(more, name)
			}
		}

		if len(more) > 0 {
			slices.Sort(more)
			return fmt.Errorf("left behind: %s", strings.Join(more, ", "))
		}

		return nil
	})
}

// DeleteNamespace deletes a namespace. It does not wait until the namespace is gone.
func (o *Observer) DeleteNamespace(ctx context.Context, name string) error {
	namespace := &unstructured.Unstructured{}
	namespace.SetAPIVersion("v1")
	namespace.SetKind("Namespace")
	namespace.SetName(name)
	return client.IgnoreNotFound(o.Delete(ctx, namespace))
}

// WaitForNamespaceRemoval waits until a deleted namespace is gone.
func (o *Observer) WaitForNamespaceRemoval(ctx context.Context, name string) error {
	namespace := &unstructured.Unstructured{}
	namespace.SetAPIVersion("v1")
	namespace.SetKind("Namespace")
	return WaitFor(ctx, func(ctx context.Context) error {
		err := o.Get(ctx, client.ObjectKey{Name: name}, namespace)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("namespace %s is still there", name)
		}
		return err
	})
}
