package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	controller "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

const (
	// copiedOperators is the number of operators that watch all namespaces, and copyNamespaces that of the
	// namespaces that are created at once.
	copiedOperators, copyNamespaces = 10, 500
	// copiesNamespace is the namespace of these operators.
	copiesNamespace = "operators"
)

// measureClassicCopies measures the copied CSVs in new namespaces, beside a client that only creates the same objects
// while no server of OLM Classic runs.
func measureClassicCopies(ctx context.Context, dir string, _ int) error {
	return runClassic(ctx, dir, copiedOperators, 0, func(ctx context.Context, c *classicServer) error {
		sources, err := c.installCopiedOperators(ctx)
		if err != nil {
			return err
		}

		var list metav1.PartialObjectMetadataList
		list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.ClusterServiceVersionKind + "List"))
		if err := c.client.List(ctx, &list); err != nil {
			return err
		}

		seconds, used, err := c.measureUsage(ctx, func() error {
			if err := c.createNamespaces(ctx, copyNamespaceNames("copied")...); err != nil {
				return err
			}
			return c.waitForSucceeded(ctx, len(list.Items)+copiedOperators*copyNamespaces)
		})
		if err != nil {
			return err
		}

		what := fmt.Sprintf("%d operators copied into %d new namespaces", copiedOperators, copyNamespaces)
		fmt.Printf("%-62s %10.2f s, %s, %.0f requests\n", what, seconds, used, used.requests)
		if err := c.stopServers(); err != nil {
			return err
		}

		began := time.Now()
		if err := c.createPlainCopies(ctx, sources); err != nil {
			return err
		}
		fmt.Printf("%-62s %10.2f s\n", "  the same by a client that only creates them", secondsSince(began))
		return nil
	})
}

// installCopiedOperators installs operators that watch all namespaces, and returns their ClusterServiceVersions.
func (c *classicServer) installCopiedOperators(ctx context.Context) ([]*v1alpha1.ClusterServiceVersion, error) {
	err := c.createNamespaces(ctx, copiesNamespace)
	if err == nil {
		err = c.createGroup(ctx, copiesNamespace)
	}
	for i := range copiedOperators {
		if err == nil {
			err = c.client.Create(ctx, newSubscription(copiesNamespace, operatorWord(i)))
		}
	}
	if err == nil {
		err = c.waitForSucceeded(ctx, copiedOperators)
	}
	if err != nil {
		return nil, err
	}

	sleepContext(ctx, idleMeasureTime) // The copies in existing namespaces follow.
	var list v1alpha1.ClusterServiceVersionList
	if err := c.client.List(ctx, &list, controller.InNamespace(copiesNamespace)); err != nil {
		return nil, err
	}
	var sources []*v1alpha1.ClusterServiceVersion
	for i := range list.Items {
		sources = append(sources, &list.Items[i])
	}
	return sources, nil
}

// stopServers stops olm-operator and catalog-operator.
func (c *classicServer) stopServers() error {
	if err := c.olm.stopProgram(); err != nil {
		return err
	}
	return c.catalog.stopProgram()
}

// createPlainCopies creates namespaces with copies of ClusterServiceVersions, and sets their statuses.
func (c *classicServer) createPlainCopies(ctx context.Context, sources []*v1alpha1.ClusterServiceVersion) error {
	return forEach(ctx, copyNamespaceNames("plain"), func(ctx context.Context, namespace string) error {
		if err := c.createNamespaces(ctx, namespace); err != nil {
			return err
		}
		for _, source := range sources {
			copied := &v1alpha1.ClusterServiceVersion{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: source.Name, Labels: source.Labels, Annotations: source.Annotations},
				Spec:       source.Spec,
			}
			if err := c.client.Create(ctx, copied); err != nil {
				return err
			}
			source.Status.DeepCopyInto(&copied.Status)
			if err := c.client.Status().Update(ctx, copied); err != nil {
				return err
			}
		}
		return nil
	})
}

func copyNamespaceNames(prefix string) []string {
	names := make([]string, copyNamespaces)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%04d", prefix, i)
	}
	return names
}
