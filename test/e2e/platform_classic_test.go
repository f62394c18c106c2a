package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// defaultCatalog is the default catalog of the release: an image that holds files alone, which the
// opm of the release serves.
func (p *platform) defaultCatalog() string {
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

// stock pushes the sample operator, and the default catalog with a version of it.
func (p *platform) stock(versions ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, version := range versions {
			if _, err := p.push(ctx, "image", "build", "--binary", filepath.Join(p.root, "bin", "hello-operator"), "--push", p.operator()+":v"+version); err != nil {
				return err
			}
		}
		return p.publish(ctx, p.Registry+"/e2e/kitchen:latest", versions...)
	}
}

// classicReports checks that the parts of OLM Classic say of themselves that they run in a version.
func (p *platform) classicReports(version string) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, name := range []string{"marketplace", "operator-lifecycle-manager", "operator-lifecycle-manager-catalog", "operator-lifecycle-manager-packageserver"} {
			err := p.prints(ctx, version+" True False False", "get", "clusteroperator", name, "-o",
				`jsonpath={.status.versions[?(@.name=="operator")].version} {.status.conditions[?(@.type=="Available")].status} {.status.conditions[?(@.type=="Progressing")].status} {.status.conditions[?(@.type=="Degraded")].status}`)
			if err != nil {
				return fmt.Errorf("ClusterOperator %s: %w", name, err)
			}
		}
		return nil
	}
}

// classicShows waits until every namespace sees what the default catalog holds.
func (p *platform) classicShows(ctx context.Context) error {
	return p.eventually(ctx, func(ctx context.Context) error {
		var errs []error
		for _, namespace := range []string{"default", "openshift-marketplace"} {
			errs = append(errs, p.prints(ctx, namespace+" The Kitchen hello-operator.v1.0.0", "get", "packagemanifest", "hello-operator", "-n", namespace, "-o",
				"jsonpath={.metadata.namespace} {.status.catalogSourceDisplayName} {.status.channels[0].currentCSV}"))
		}
		return errors.Join(errs...)
	})
}

// subscribe has an operator of the default catalog be installed in a namespace of its own.
func (p *platform) subscribe(ctx context.Context) error {
	channel, err := p.Kubectl(ctx, "get", "packagemanifest", "hello-operator", "-o", "jsonpath={.status.defaultChannel}")
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

	return p.succeeds(ctx, "hello-operator.v1.0.0")
}

// succeeds waits until an operator is installed and its pod runs.
func (p *platform) succeeds(ctx context.Context, csv string) error {
	return p.eventually(ctx, func(ctx context.Context) error {
		return errors.Join(
			p.prints(ctx, csv+" AtLatestKnown", "get", "subscription.operators.coreos.com", "hello", "-n", "hello", "-o", "jsonpath={.status.installedCSV} {.status.state}"),
			p.prints(ctx, "Succeeded", "get", "clusterserviceversion", csv, "-n", "hello", "-o", "jsonpath={.status.phase}"),
			p.prints(ctx, "1", "get", "deployment", "hello-operator", "-n", "hello", "-o", "jsonpath={.status.availableReplicas}"),
			// It is copied to where it works.
			p.prints(ctx, "Copied", "get", "clusterserviceversion", csv, "-n", "default", "-o", "jsonpath={.status.reason}"),
		)
	})
}

// unsubscribe removes the operator, as its users do, and checks that nothing of it runs.
func (p *platform) unsubscribe(ctx context.Context) error {
	if _, err := p.Kubectl(ctx, "delete", "subscription.operators.coreos.com,clusterserviceversion", "-n", "hello", "--all"); err != nil {
		return err
	}
	return p.eventually(ctx, func(ctx context.Context) error {
		out, err := p.Kubectl(ctx, "get", "deployments,clusterserviceversions,clusterroles,clusterrolebindings", "-A", "-o", "name")
		if err != nil {
			return err
		}
		for line := range strings.Lines(out) {
			if strings.Contains(line, "hello-operator") {
				err = errors.Join(err, fmt.Errorf("%s is there", strings.TrimSpace(line)))
			}
		}
		return err
	})
}

// switchOff has the marketplace go without its default catalogs.
func (p *platform) switchOff(ctx context.Context) error {
	if _, err := p.Kubectl(ctx, "patch", "operatorhub", "cluster", "--type=merge", "-p", `{"spec":{"disableAllDefaultSources":true}}`); err != nil {
		return err
	}
	return p.eventually(ctx, func(ctx context.Context) error {
		return errors.Join(
			p.prints(ctx, "", "get", "catalogsources,pods", "-n", "openshift-marketplace", "-l", "olm.catalogSource", "-o", "name"),
			p.prints(ctx, "", "get", "packagemanifests", "-n", "default", "-o", "name"),
		)
	})
}
