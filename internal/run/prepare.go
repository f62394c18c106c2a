package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/action"
)

// crdEstablishedTimeout is the timeout until the API server serves the kind of a CRD.
const crdEstablishedTimeout = 30 * time.Second

// preparedKinds are the kinds of an installation that servers outside of the cluster require. Service accounts,
// roles and Deployments are not created then.
var preparedKinds = []string{"CustomResourceDefinition", "Namespace", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}

// prepareCluster applies the CRDs, the system namespace and the admission policies of an installation, and what else is named.
// It creates the CRDs for mirrors unless they exist, and waits until the API server serves the kinds. For servers in a cluster,
// 'mainstay install' applies these objects.
func prepareCluster(ctx context.Context, config *rest.Config, installation action.Installation, others []*unstructured.Unstructured) error {
	s, err := newScheme()
	if err != nil {
		return err
	}

	c, err := client.New(config, client.Options{Scheme: s})
	if err != nil {
		return fmt.Errorf("preparing the cluster: %w", err)
	}

	objects, err := installation.Manifests()
	if err != nil {
		return fmt.Errorf("preparing the cluster: %w", err)
	}

	objects = append(objects, others...)
	for _, object := range objects {
		if !slices.Contains(preparedKinds, object.GetKind()) {
			continue
		}
		err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(action.InstallFieldManager), client.ForceOwnership)
		if err != nil {
			return fmt.Errorf("preparing the cluster: applying %s %q: %w", object.GetKind(), object.GetName(), err)
		}
	}

	platform, err := action.CreatePlatformKinds(ctx, c, false)
	if err != nil {
		return fmt.Errorf("preparing the cluster: %w", err)
	}

	for _, object := range append(objects, platform...) {
		if object.GetKind() != "CustomResourceDefinition" {
			continue
		}
		if err := waitForKind(ctx, c, object.GetName()); err != nil {
			return fmt.Errorf("preparing the cluster: %w", err)
		}
	}

	return nil
}

// waitForKind waits until the objects of a CRD can be listed. A watch that starts earlier is rejected and retried
// only after a backoff.
func waitForKind(ctx context.Context, c client.Client, name string) error {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := c.Get(ctx, client.ObjectKey{Name: name}, &crd); err != nil {
		return fmt.Errorf("reading CustomResourceDefinition %q: %w", name, err)
	}

	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{
		Group: crd.Spec.Group, Version: crd.Spec.Versions[0].Name, Kind: crd.Spec.Names.ListKind,
	})
	var last error
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, crdEstablishedTimeout, true, func(ctx context.Context) (bool, error) {
		last = c.List(ctx, list, client.Limit(1))
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for CustomResourceDefinition %q to be served: %w", name, errors.Join(err, last))
	}

	return nil
}
