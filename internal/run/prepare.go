package run

import (
	"context"
	"fmt"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/action"
)

// prepare makes the CRDs and the system namespace, which the servers need. In a
// cluster 'mainstay install' brings them; elsewhere nobody else does.
func prepare(ctx context.Context, config *rest.Config, namespace string) error {
	s, err := scheme()
	if err != nil {
		return err
	}
	c, err := client.New(config, client.Options{Scheme: s})
	if err != nil {
		return fmt.Errorf("preparing the cluster: %w", err)
	}
	installation := action.Installation{Namespace: namespace}
	objects, err := installation.Manifests()
	if err != nil {
		return fmt.Errorf("preparing the cluster: %w", err)
	}
	for _, object := range objects {
		if kind := object.GetKind(); kind != "CustomResourceDefinition" && kind != "Namespace" {
			continue
		}
		err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(action.InstallFieldManager), client.ForceOwnership)
		if err != nil {
			return fmt.Errorf("preparing the cluster: applying %s %q: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}
