// Package e2e tests the main use cases on a cluster, with the built programs, as a user would run
// them. If possible it uses a real node. Mainstay then runs in the cluster from its own image,
// and the installed operator really runs.
//
// `make e2e` builds the programs and runs it.
package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// TestMainJob installs an operator from a catalog, updates it, corrects drift, rolls it back and
// removes it. It also checks that an unsafe update is refused.
func TestMainJob(t *testing.T) {
	f := newFixture(t, true)
	catalog := f.Registry + "/e2e/catalog:latest"

	f.runStep("Mainstay runs", f.startMainstay)
	f.runStep("the operator's images are pushed", func(ctx context.Context) error {
		for _, version := range []string{"v1.0.0", "v1.1.0", "v1.2.0"} {
			if _, err := f.runWithRegistry(ctx, "image", "build", "--binary", filepath.Join(f.root, "bin", "hello-operator"), "--push", f.operatorImage()+":"+version); err != nil {
				return err
			}
		}
		return nil
	})
	f.runStep("a catalog with 1.0.0 is served", func(ctx context.Context) error {
		if err := f.publishCatalog(ctx, catalog, "1.0.0"); err != nil {
			return err
		}
		_, err := f.Mainstay(ctx, "catalog", "add", "e2e", "--image", catalog, "--poll-interval", "10m", "--wait")
		return err
	})
	f.runStep("opm reads the catalog that the cluster serves", func(ctx context.Context) error {
		out, err := f.Run(ctx, "opm", "show", "hello-operator", "clustercatalog/e2e")
		if err == nil && !strings.Contains(out, "hello-operator.v1.0.0") {
			err = fmt.Errorf("got no version 1.0.0 in:\n%s", out)
		}
		return err
	})
	f.runStep("1.0.0 is installed, as an account with only the rights it needs", func(ctx context.Context) error {
		if err := f.Apply(ctx, installerManifest); err != nil {
			return err
		}
		// The controller writes the plan with the rights that it was installed with.
		out, err := f.Mainstay(ctx, "extension", "plan", "hello-operator", "--namespace", "hello", "--service-account", "installer")
		if err != nil || !strings.Contains(out, "installation of hello-operator.v1.0.0") {
			return fmt.Errorf("got the plan %q: %w", out, err)
		}
		_, err = f.Mainstay(ctx, "extension", "install", "hello-operator", "--namespace", "hello", "--service-account", "installer", "--wait", "--timeout", stateTimeout.String())
		return err
	})
	f.runStep("it responds: Hello", func(ctx context.Context) error { return f.checkGreeting(ctx, "Hello, world!") })
	f.runStep("1.1.0 is published, and the operator updates by itself", func(ctx context.Context) error {
		return f.publishAndAwaitUpdate(ctx, catalog, "1.0.0", "1.1.0")
	})
	f.runStep("it responds: Good day", func(ctx context.Context) error { return f.checkGreeting(ctx, "Good day, world!") })
	f.runStep("a deleted Deployment comes back", func(ctx context.Context) error {
		if _, err := f.Kubectl(ctx, "delete", "deployment", "hello-operator", "-n", "hello"); err != nil {
			return err
		}
		return f.waitFor(ctx, func(ctx context.Context) error {
			return f.checkOutput(ctx, "1", "get", "deployment", "hello-operator", "-n", "hello", "-o", "jsonpath={.status.availableReplicas}")
		})
	})
	f.runStep("1.2.0 is installed, with webhooks of all three kinds", func(ctx context.Context) error {
		return f.publishAndAwaitUpdate(ctx, catalog, "1.0.0", "1.1.0", "1.2.0")
	})
	f.runStep("they refuse, default and convert", f.checkWebhooks)
	f.runStep("1.3.0, whose CRD lost a field, is refused", func(ctx context.Context) error {
		if err := f.publishUnsafeVersion(ctx, catalog); err != nil {
			return err
		}
		err := f.waitForProgressing(ctx, "clusterextension", "hello-operator", `True Retrying validating upgrade for CRD "greetings.hello.example.com" failed`)
		if err != nil {
			return err
		}
		// Commands that wait for the update, or plan it, fail immediately.
		for _, args := range [][]string{{"plan", "hello-operator"}, {"upgrade", "hello-operator", "--version", ">=1.3.0", "--wait", "--timeout", stateTimeout.String()}} {
			if _, err := f.Mainstay(ctx, append([]string{"extension"}, args...)...); err == nil {
				return fmt.Errorf("mainstay extension %s: got no error, want one", args[0])
			} else if strings.Contains(err.Error(), "timed out") {
				return err
			}
		}
		return f.checkOutput(ctx, "1.2.0", "get", "clusterextension", "hello-operator", "-o", "jsonpath={.status.install.bundle.version}")
	})
	f.runStep("it is rolled back, to 1.1.0", func(ctx context.Context) error {
		if _, err := f.Mainstay(ctx, "extension", "rollback", "hello-operator", "--wait", "--timeout", stateTimeout.String()); err != nil {
			return err
		}
		return f.checkOutput(ctx, "1.1.0", "get", "clusterextension", "hello-operator", "-o", "jsonpath={.status.install.bundle.version}")
	})
	f.runStep("the webhooks are removed, and it responds as before", func(ctx context.Context) error {
		err := f.checkOutput(ctx, "", "get", "validatingwebhookconfigurations,mutatingwebhookconfigurations", "-l", ownedSelector, "-o", "name")
		if err != nil {
			return err
		}
		return f.checkGreeting(ctx, "Good day, world!")
	})
	f.runStep("it is removed, with its CRD, and nothing is left", func(ctx context.Context) error {
		if _, err := f.Mainstay(ctx, "extension", "uninstall", "hello-operator", "--delete-custom-resources", "--wait", "--timeout", stateTimeout.String()); err != nil {
			return err
		}
		return f.checkOutput(ctx, "", "get", "crds,clusterroles,clusterrolebindings,deployments,services,serviceaccounts,validatingwebhookconfigurations,mutatingwebhookconfigurations", "-A", "-l", ownedSelector, "-o", "name")
	})
}

// ownedSelector selects the objects of the operator.
const ownedSelector = "olm.operatorframework.io/owner-name=hello-operator"

// installerManifest is a service account with the minimal rights for the sample operator.
const installerManifest = `
apiVersion: v1
kind: Namespace
metadata: {name: hello}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: installer, namespace: hello}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: hello-installer}
rules:
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  verbs: [create, get, list, watch, update, patch, delete]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [clusterroles, clusterrolebindings]
  verbs: [create, get, list, watch, update, patch, delete]
- apiGroups: [admissionregistration.k8s.io]
  resources: [validatingwebhookconfigurations, mutatingwebhookconfigurations]
  verbs: [create, get, list, watch, update, patch, delete]
- apiGroups: [""]
  resources: [serviceaccounts, services]
  verbs: [create, get, list, watch, update, patch, delete]
- apiGroups: [""]
  resources: [secrets]
  verbs: [create, get, list, watch, update]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [create, get, list, watch, update, patch, delete]
- apiGroups: [hello.example.com]
  resources: [greetings]
  verbs: [get, list, watch]
- apiGroups: [hello.example.com]
  resources: [greetings/status]
  verbs: [patch]
- apiGroups: [""]
  resources: [namespaces]
  verbs: [get, list, watch]
- apiGroups: [olm.operatorframework.io]
  resources: [clusterextensions/finalizers, clusterobjectsets/finalizers]
  verbs: [update]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: hello-installer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: hello-installer}
subjects:
- {kind: ServiceAccount, name: installer, namespace: hello}
`

const greeting = `
apiVersion: hello.example.com/v1alpha1
kind: Greeting
metadata: {name: world, namespace: default}
spec: {name: world}
`

// startMainstay installs Mainstay in the cluster from its image, or runs it outside of a cluster with
// simulated nodes.
func (f *fixture) startMainstay(ctx context.Context) error {
	if !f.realNode {
		return f.Serve(ctx)
	}

	image := f.Registry + "/mainstay:e2e"
	if _, err := f.runWithRegistry(ctx, "image", "build", "--binary", filepath.Join(f.root, "bin", "mainstay"), "--push", image); err != nil {
		return err
	}

	// Without administrator rights, all writes use the service account of the extension.
	_, err := f.Mainstay(ctx, "install", "--image", image, "--pull-ca", f.CA(), "--require-service-account", "--wait", "--timeout", stateTimeout.String())
	return err
}

// publishAndAwaitUpdate publishes versions, and waits until the operator has updated to the last
// one.
func (f *fixture) publishAndAwaitUpdate(ctx context.Context, catalog string, versions ...string) error {
	if err := f.publishCatalog(ctx, catalog, versions...); err != nil {
		return err
	}
	if _, err := f.Mainstay(ctx, "catalog", "refresh", "e2e"); err != nil {
		return err
	}
	return f.waitFor(ctx, func(ctx context.Context) error {
		return f.checkOutput(ctx, versions[len(versions)-1]+" Succeeded", "get", "clusterextension", "hello-operator", "-o",
			`jsonpath={.status.install.bundle.version} {.status.conditions[?(@.type=="Progressing")].reason}`)
	})
}

// checkGreeting creates a Greeting and checks the operator's response, in its status and over
// HTTP through its Service. Simulated pods do not respond. The API version is explicit, as
// kubectl caches the preferred version for minutes.
func (f *fixture) checkGreeting(ctx context.Context, want string) error {
	if err := f.Apply(ctx, greeting); err != nil || !f.realNode {
		return err
	}
	return f.waitFor(ctx, func(ctx context.Context) error {
		if err := f.checkOutput(ctx, want, "get", "greetings.v1alpha1.hello.example.com", "world", "-o", "jsonpath={.status.message}"); err != nil {
			return err
		}
		return f.checkOutput(ctx, want+"\n", "get", "--raw", "/api/v1/namespaces/hello/services/hello-operator:80/proxy/default/world")
	})
}
