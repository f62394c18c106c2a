package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	controller "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

const (
	// copiedOperators are copied into each of copyNamespaces.
	copiedOperators = 10
	copyNamespaces  = 500
	// copySource is the namespace of the operators that are copied.
	copySource = "operators"
	// labelCopiedFrom is the label of copied CSVs.
	labelCopiedFrom = "olm.copiedFrom"
)

// measureClassicCopies measures how olm-operator copies operators that watch all namespaces, and how long a client needs
// that only creates the same objects and their statuses.
func measureClassicCopies(ctx context.Context, dir string, _ int) (err error) {
	ctx, cancel := context.WithTimeout(ctx, fleetTimeout)
	defer cancel()
	home := filepath.Join(dir, "copies")
	defer func() { err = errors.Join(err, os.RemoveAll(home)) }()
	c, err := startClassicControlPlane(ctx, home)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stopAll()) }()

	targets, err := c.createCopyNamespaces(ctx, copyNamespaces)
	if err != nil {
		return err
	}

	began := time.Now()
	if err := forEach(ctx, targets, c.createPlainCopies); err != nil {
		return err
	}
	plain := secondsSince(began)
	if err := forEach(ctx, targets, c.deletePlainCopies); err != nil {
		return err
	}

	if err := c.startOLMOperator(ctx); err != nil {
		return err
	}
	sleepContext(ctx, idleSettleTime)
	seconds, used, err := c.measureUsage(ctx, func() error { return c.createCopiedOperators(ctx, copiedOperators) })
	if err != nil {
		return err
	}

	what := fmt.Sprintf("%d operators copied into %d namespaces", copiedOperators, copyNamespaces)
	fmt.Printf("%-62s %10.2f s, %.2f s by a client that only creates the copies\n", what, seconds, plain)
	used.printRequests(copiedOperators * copyNamespaces)
	return nil
}

// createCopyNamespaces creates the namespace of the operators, with an OperatorGroup that selects all namespaces, and
// target namespaces. It returns the names of the targets.
func (c *classicServer) createCopyNamespaces(ctx context.Context, count int) ([]string, error) {
	var targets []string
	for i := range count {
		targets = append(targets, fmt.Sprintf("target-%04d", i))
	}
	return targets, errors.Join(c.createNamespaces(ctx, append([]string{copySource}, targets...)...), c.createGroup(ctx, copySource))
}

// newCopyCSV returns a ClusterServiceVersion without Deployments, with a description of 24 kB.
func newCopyCSV(namespace string, number int) *v1alpha1.ClusterServiceVersion {
	csv := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("copied-%02d.v1.0.0", number)}}
	csv.Spec.DisplayName, csv.Spec.Description = csv.Name, strings.Repeat("description ", 2000)
	csv.Spec.InstallStrategy.StrategyName = v1alpha1.InstallStrategyDeployment
	csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = []v1alpha1.StrategyDeploymentSpec{}
	csv.Spec.InstallModes = []v1alpha1.InstallMode{{Type: v1alpha1.InstallModeTypeAllNamespaces, Supported: true}}
	return csv
}

// createPlainCopies creates copies in a namespace, and sets their statuses.
func (c *classicServer) createPlainCopies(ctx context.Context, namespace string) error {
	for i := range copiedOperators {
		csv := newCopyCSV(namespace, i)
		csv.Labels = map[string]string{labelCopiedFrom: copySource}
		if err := c.client.Create(ctx, csv); err != nil {
			return err
		}
		csv.Status.Phase, csv.Status.Reason = v1alpha1.CSVPhaseSucceeded, v1alpha1.CSVReasonCopied
		if err := c.client.Status().Update(ctx, csv); err != nil {
			return err
		}
	}
	return nil
}

func (c *classicServer) deletePlainCopies(ctx context.Context, namespace string) error {
	return c.client.DeleteAllOf(ctx, &v1alpha1.ClusterServiceVersion{}, controller.InNamespace(namespace))
}

// createCopiedOperators creates operators that watch all namespaces, and waits until they have succeeded copies in all
// namespaces but their own. These include the namespaces of the cluster itself.
func (c *classicServer) createCopiedOperators(ctx context.Context, operators int) error {
	namespaces := &corev1.NamespaceList{}
	if err := c.client.List(ctx, namespaces); err != nil {
		return err
	}
	for i := range operators {
		if err := c.client.Create(ctx, newCopyCSV(copySource, i)); err != nil {
			return err
		}
	}
	return c.waitForSucceeded(ctx, operators*(len(namespaces.Items)-1), controller.HasLabels{labelCopiedFrom})
}
