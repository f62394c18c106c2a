package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// defaultCatalogManifest returns the CatalogSource of the release's default catalog. Its image
// contains only files, which the opm of the release serves.
func (p *platformFixture) defaultCatalogManifest() string {
	return fmt.Sprintf(`apiVersion: operators.coreos.com/v1alpha1
kind: CatalogSource
metadata: {name: kitchen, namespace: openshift-marketplace}
spec:
  sourceType: grpc
  image: %s
  displayName: The Kitchen
  publisher: Mainstay
  grpcPodConfig:
    securityContextConfig: restricted
    extractContent: {catalogDir: /configs}
`, p.Registry+"/e2e/kitchen:latest")
}

// pushCatalog returns a step that pushes the sample operator, and the default catalog with
// versions of it.
func (p *platformFixture) pushCatalog(versions ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, version := range versions {
			if _, err := p.runWithRegistry(ctx, "image", "build", "--binary", filepath.Join(p.root, "bin", "hello-operator"), "--push", p.operatorImage()+":v"+version); err != nil {
				return err
			}
		}
		return p.publishCatalog(ctx, p.Registry+"/e2e/kitchen:latest", versions...)
	}
}

// checkClassicVersion returns a step that checks that the ClusterOperators of OLM Classic report
// a version.
func (p *platformFixture) checkClassicVersion(version string) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, name := range []string{"marketplace", "operator-lifecycle-manager", "operator-lifecycle-manager-catalog", "operator-lifecycle-manager-packageserver"} {
			err := p.checkOutput(ctx, version+" True False False", "get", "clusteroperator", name, "-o",
				`jsonpath={.status.versions[?(@.name=="operator")].version} {.status.conditions[?(@.type=="Available")].status} {.status.conditions[?(@.type=="Progressing")].status} {.status.conditions[?(@.type=="Degraded")].status}`)
			if err != nil {
				return fmt.Errorf("ClusterOperator %s: %w", name, err)
			}
		}
		return nil
	}
}

// waitForPackageManifests waits until every namespace sees the packages of the default catalog.
func (p *platformFixture) waitForPackageManifests(ctx context.Context) error {
	return p.waitFor(ctx, func(ctx context.Context) error {
		var errs []error
		for _, namespace := range []string{"default", "openshift-marketplace"} {
			errs = append(errs, p.checkOutput(ctx, namespace+" The Kitchen hello-operator.v1.0.0", "get", "packagemanifest", "hello-operator", "-n", namespace, "-o",
				"jsonpath={.metadata.namespace} {.status.catalogSourceDisplayName} {.status.channels[0].currentCSV}"))
		}
		return errors.Join(errs...)
	})
}

// createSubscription subscribes to an operator of the default catalog in its own namespace.
func (p *platformFixture) createSubscription(ctx context.Context) error {
	// The packageserver has two replicas, and each reads the catalog by itself. After the update, which restarted the
	// catalog as well, one of them can know the package before the other does.
	var channel string
	err := p.waitFor(ctx, func(ctx context.Context) (err error) {
		channel, err = p.Kubectl(ctx, "get", "packagemanifest", "hello-operator", "-o", "jsonpath={.status.defaultChannel}")
		return err
	})
	if err != nil {
		return err
	}

	err = p.Apply(ctx, fmt.Sprintf(`
{apiVersion: v1, kind: Namespace, metadata: {name: hello}}
---
{apiVersion: operators.coreos.com/v1, kind: OperatorGroup, metadata: {name: everywhere, namespace: hello}}
---
apiVersion: operators.coreos.com/v1alpha1
kind: Subscription
metadata: {name: hello, namespace: hello}
spec: {name: hello-operator, channel: %q, source: kitchen, sourceNamespace: openshift-marketplace}
`, channel))
	if err != nil {
		return err
	}

	return p.waitForCSV(ctx, "hello-operator.v1.0.0")
}

// waitForCSV waits until an operator is installed and its pod runs.
func (p *platformFixture) waitForCSV(ctx context.Context, csv string) error {
	return p.waitFor(ctx, func(ctx context.Context) error {
		return errors.Join(
			p.checkOutput(ctx, csv+" AtLatestKnown", "get", "subscription.operators.coreos.com", "hello", "-n", "hello", "-o", "jsonpath={.status.installedCSV} {.status.state}"),
			p.checkOutput(ctx, "Succeeded", "get", "clusterserviceversion", csv, "-n", "hello", "-o", "jsonpath={.status.phase}"),
			p.checkOutput(ctx, "1", "get", "deployment", "hello-operator", "-n", "hello", "-o", "jsonpath={.status.availableReplicas}"),
			// The CSV is copied to the namespaces of its operator group.
			p.checkOutput(ctx, "Copied", "get", "clusterserviceversion", csv, "-n", "default", "-o", "jsonpath={.status.reason}"),
		)
	})
}

// deleteSubscription removes the operator as users do, and checks that none of its pods runs.
func (p *platformFixture) deleteSubscription(ctx context.Context) error {
	if _, err := p.Kubectl(ctx, "delete", "subscription.operators.coreos.com,clusterserviceversion", "-n", "hello", "--all"); err != nil {
		return err
	}
	return p.waitFor(ctx, func(ctx context.Context) error {
		out, err := p.Kubectl(ctx, "get", "deployments,clusterserviceversions,clusterroles,clusterrolebindings", "-A", "-o", "name")
		if err != nil {
			return err
		}
		for line := range strings.Lines(out) {
			if strings.Contains(line, "hello-operator") {
				err = errors.Join(err, fmt.Errorf("%s still exists", strings.TrimSpace(line)))
			}
		}
		return err
	})
}

// disableDefaultCatalogs disables the default catalogs of the marketplace.
func (p *platformFixture) disableDefaultCatalogs(ctx context.Context) error {
	if _, err := p.Kubectl(ctx, "patch", "operatorhub", "cluster", "--type=merge", "-p", `{"spec":{"disableAllDefaultSources":true}}`); err != nil {
		return err
	}
	return p.waitFor(ctx, func(ctx context.Context) error {
		return errors.Join(
			p.checkOutput(ctx, "", "get", "catalogsources,pods", "-n", "openshift-marketplace", "-l", "olm.catalogSource", "-o", "name"),
			p.checkOutput(ctx, "", "get", "packagemanifests", "-n", "default", "-o", "name"),
		)
	})
}
