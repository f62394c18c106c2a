package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mainstay-dev/mainstay/internal/testing/cluster"
)

// operatorFixture is a cluster with OLM v1 and OLM Classic, whose catalogs have no pods.
type operatorFixture struct {
	*fixture
	connection *rest.Config
}

// installBoth installs OLM v1 and OLM Classic from this build. catalog-operator serves catalogs itself.
func (o *operatorFixture) installBoth(ctx context.Context) error {
	image := o.Registry + "/mainstay:e2e"
	if _, err := o.runWithRegistry(ctx, "image", "build", "--binary", filepath.Join(o.root, "bin", "mainstay"), "--push", image); err != nil {
		return err
	}
	if _, err := o.Mainstay(ctx, "install", "--with", "classic", "--image", image, "--pull-ca", o.CA(), "--wait", "--timeout", stateTimeout.String()); err != nil {
		return err
	}

	inline, err := o.Kubectl(ctx, "kustomize", filepath.Join(o.root, "config", "classic", "inline"))
	if err != nil {
		return err
	}
	for document := range strings.SplitSeq(inline, "\n---\n") {
		if strings.Contains(document, "\nkind: Service\n") && strings.Contains(document, "name: catalog-operator-catalogs\n") {
			err = o.Apply(ctx, document)
		}
	}
	if err != nil {
		return err
	}

	const patch = `[
{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--catalog-serving=inline"},
{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--bundle-unpack=inline"},
{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--cache-dir=/tmp/cache"},
{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--inline-catalogs-host=catalog-operator-catalogs.olm.svc.cluster.local"},
{"op": "add", "path": "/spec/template/spec/containers/0/ports/-", "value": {"name": "grpc", "containerPort": 50051}}]`
	if _, err := o.Kubectl(ctx, "patch", "deployment", "catalog-operator", "-n", "olm", "--type=json", "-p", patch); err != nil {
		return err
	}
	_, err = o.Kubectl(ctx, "rollout", "status", "deployment/catalog-operator", "-n", "olm", "--timeout", stateTimeout.String())
	if err != nil {
		return err
	}

	o.connection, err = clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return err
	}
	o.connection.QPS = -1 // The traffic is not limited by the client.

	return nil
}

func (o *operatorFixture) operatorCatalog(tag string) string {
	return o.Registry + "/e2e/operators:" + tag
}

// pushOperators pushes catalogs of the sample operator: first has 1.0.0, second also 1.1.0, third also 1.2.0 and fourth
// also 1.3.0. From 1.2.0 on, it has webhooks of all kinds and an aggregated API.
func (o *operatorFixture) pushOperators(ctx context.Context) error {
	dir := filepath.Join(o.dir, "operators")
	pkg := filepath.Join(dir, "hello-operator")
	csv := func(version string) string {
		return filepath.Join(pkg, version, "manifests", "hello-operator.clusterserviceversion.yaml")
	}
	prepare := map[string]func() error{
		"1.0.0": func() error { return editOperator(csv("1.0.0"), `"--word=Hello"`) },
		"1.1.0": func() error { return editOperator(csv("1.1.0"), `"--word=Good day"`) },
		"1.2.0": func() error { return addAPIService(csv("1.2.0")) },
		"1.3.0": func() error {
			if err := os.CopyFS(filepath.Join(pkg, "1.3.0"), os.DirFS(filepath.Join(pkg, "1.2.0"))); err != nil {
				return err
			}
			return rewrite(csv("1.3.0"), "replaces: hello-operator.v1.1.0", "replaces: hello-operator.v1.2.0",
				"name: hello-operator.v1.2.0", "name: hello-operator.v1.3.0", "version: 1.2.0", "version: 1.3.0", "--word=Good day", "--word=Good evening")
		},
	}

	for i, tag := range []string{"first", "second", "third", "fourth"} {
		version := fmt.Sprintf("1.%d.0", i)
		if version != "1.3.0" { // It has the image of 1.2.0.
			if _, err := o.runWithRegistry(ctx, "image", "build", "--binary", filepath.Join(o.root, "bin", "hello-operator"), "--push", o.operatorImage()+":v"+version); err != nil {
				return err
			}
			if err := cluster.CopyExample(filepath.Join(o.root, "examples"), dir, o.operatorImage(), version); err != nil {
				return err
			}
		}
		if err := prepare[version](); err != nil {
			return err
		}
		if _, err := o.runWithRegistry(ctx, "catalog", "build", dir, "--push", o.operatorCatalog(tag)); err != nil {
			return err
		}
	}

	return nil
}

// editOperator makes a version support several namespaces, and respond to requests while its pods terminate.
func editOperator(csv, word string) error {
	return rewrite(csv, "{type: MultiNamespace, supported: false}", "{type: MultiNamespace, supported: true}", word, word+`, "--shutdown-delay=5s"`)
}

// addAPIService adds an aggregated API to a version with webhooks.
func addAPIService(csv string) error {
	return rewrite(csv, `"--webhook-port=9443"`, `"--webhook-port=9443", "--api-port=5443", "--shutdown-delay=5s"`, "  webhookdefinitions:\n", `  apiservicedefinitions:
    owned:
      - {name: words, group: words.hello.example.com, version: v1, kind: Word, deploymentName: hello-operator, containerPort: 5443, displayName: Word, description: The word that greetings start with.}
  webhookdefinitions:
`)
}

// offerOperators creates the CatalogSource, or changes its image.
func (o *operatorFixture) offerOperators(ctx context.Context, tag string) error {
	return o.Apply(ctx, fmt.Sprintf(`
apiVersion: operators.coreos.com/v1alpha1
kind: CatalogSource
metadata: {name: operators, namespace: olm}
spec: {sourceType: grpc, image: %q}
`, o.operatorCatalog(tag)))
}

// subscribe installs the operator in a namespace, for the target namespaces; none means all.
func (o *operatorFixture) subscribe(ctx context.Context, namespace string, targets ...string) error {
	spec := "{}"
	if len(targets) > 0 {
		spec = "{targetNamespaces: [" + strings.Join(targets, ", ") + "]}"
	}
	return o.Apply(ctx, fmt.Sprintf(`
apiVersion: operators.coreos.com/v1
kind: OperatorGroup
metadata: {name: group, namespace: %[1]s}
spec: %[2]s
---
apiVersion: operators.coreos.com/v1alpha1
kind: Subscription
metadata: {name: hello, namespace: %[1]s}
spec: {name: hello-operator, channel: stable, source: operators, sourceNamespace: olm}
`, namespace, spec))
}

// waitForOperator waits until a version of the operator is installed in a namespace, and no other version is left.
func (o *operatorFixture) waitForOperator(ctx context.Context, namespace, version string) error {
	return o.waitFor(ctx, func(ctx context.Context) error {
		if err := o.checkOutput(ctx, "hello-operator.v"+version+" AtLatestKnown", "get", "subscription.operators.coreos.com", "hello", "-n", namespace, "-o", "jsonpath={.status.installedCSV} {.status.state}"); err != nil {
			return err
		}
		if err := o.checkOutput(ctx, version+" Succeeded", "get", "clusterserviceversions", "-n", namespace, "-o", "jsonpath={.items[*].spec.version} {.items[*].status.phase}"); err != nil {
			return err
		}
		return o.checkOutput(ctx, "1 1", "get", "deployment", "hello-operator", "-n", namespace, "-o", "jsonpath={.status.replicas} {.status.availableReplicas}")
	})
}
