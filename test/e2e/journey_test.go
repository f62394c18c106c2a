// Package e2e walks the main job through on a cluster, with the built programs, as a
// person would. Where it can, on a real node: then Mainstay runs in the cluster from
// its own image, and the operator that it installs really runs and answers.
//
// It is run by `make e2e`, which builds the programs.
package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// TestMainJob installs an operator from a catalog, updates, heals, rolls back and removes
// it, and sees an update refused.
func TestMainJob(t *testing.T) {
	j := start(t, true)
	catalog := j.Registry + "/e2e/catalog:latest"

	j.step("Mainstay runs", j.runMainstay)
	j.step("the operator's images are pushed", func(ctx context.Context) error {
		for _, version := range []string{"v1.0.0", "v1.1.0", "v1.2.0"} {
			if _, err := j.push(ctx, "image", "build", "--binary", filepath.Join(j.root, "bin", "hello-operator"), "--push", j.operator()+":"+version); err != nil {
				return err
			}
		}
		return nil
	})
	j.step("a catalog with 1.0.0 is served", func(ctx context.Context) error {
		if err := j.publish(ctx, catalog, "1.0.0"); err != nil {
			return err
		}
		_, err := j.Mainstay(ctx, "catalog", "add", "e2e", "--image", catalog, "--poll-interval", "10m", "--wait")
		return err
	})
	j.step("opm looks into the catalog that the cluster serves", func(ctx context.Context) error {
		out, err := j.Run(ctx, "opm", "show", "hello-operator", "clustercatalog/e2e")
		if err == nil && !strings.Contains(out, "hello-operator.v1.0.0") {
			err = fmt.Errorf("it shows no version 1.0.0:\n%s", out)
		}
		return err
	})
	j.step("1.0.0 is installed, as an account with only the rights it needs", func(ctx context.Context) error {
		if err := j.Apply(ctx, installer); err != nil {
			return err
		}
		// A plan first: the controller writes it with the rights that it was installed with.
		out, err := j.Mainstay(ctx, "extension", "plan", "hello-operator", "--namespace", "hello", "--service-account", "installer")
		if err != nil || !strings.Contains(out, "installation of hello-operator.v1.0.0") {
			return fmt.Errorf("the plan is %q: %w", out, err)
		}
		_, err = j.Mainstay(ctx, "extension", "install", "hello-operator", "--namespace", "hello", "--service-account", "installer", "--wait", "--timeout", limit.String())
		return err
	})
	j.step("it answers: Hello", func(ctx context.Context) error { return j.greets(ctx, "Hello, world!") })
	j.step("1.1.0 is published, and the operator updates by itself", func(ctx context.Context) error {
		return j.updates(ctx, catalog, "1.0.0", "1.1.0")
	})
	j.step("it answers: Good day", func(ctx context.Context) error { return j.greets(ctx, "Good day, world!") })
	j.step("a deleted Deployment comes back", func(ctx context.Context) error {
		if _, err := j.Kubectl(ctx, "delete", "deployment", "hello-operator", "-n", "hello"); err != nil {
			return err
		}
		return j.eventually(ctx, func(ctx context.Context) error {
			return j.prints(ctx, "1", "get", "deployment", "hello-operator", "-n", "hello", "-o", "jsonpath={.status.availableReplicas}")
		})
	})
	j.step("1.2.0 comes with webhooks of all three kinds", func(ctx context.Context) error {
		return j.updates(ctx, catalog, "1.0.0", "1.1.0", "1.2.0")
	})
	j.step("they refuse, default and convert", j.webhooks)
	j.step("1.3.0, whose definition lost a field, is refused", func(ctx context.Context) error {
		if err := j.publishUnsafe(ctx, catalog); err != nil {
			return err
		}
		err := j.progressing(ctx, "clusterextension", "hello-operator", `True Retrying validating upgrade for CRD "greetings.hello.example.com" failed`)
		if err != nil {
			return err
		}
		// Who waits for it, or plans it, is told at once.
		for _, args := range [][]string{{"plan", "hello-operator"}, {"upgrade", "hello-operator", "--version", ">=1.3.0", "--wait", "--timeout", limit.String()}} {
			if _, err := j.Mainstay(ctx, append([]string{"extension"}, args...)...); err == nil {
				return fmt.Errorf("mainstay extension %s succeeds", args[0])
			} else if strings.Contains(err.Error(), "timed out") {
				return err
			}
		}
		return j.prints(ctx, "1.2.0", "get", "clusterextension", "hello-operator", "-o", "jsonpath={.status.install.bundle.version}")
	})
	j.step("it is rolled back, to 1.1.0", func(ctx context.Context) error {
		if _, err := j.Mainstay(ctx, "extension", "rollback", "hello-operator", "--wait", "--timeout", limit.String()); err != nil {
			return err
		}
		return j.prints(ctx, "1.1.0", "get", "clusterextension", "hello-operator", "-o", "jsonpath={.status.install.bundle.version}")
	})
	j.step("nothing is left of the webhooks, and it answers as before", func(ctx context.Context) error {
		err := j.prints(ctx, "", "get", "validatingwebhookconfigurations,mutatingwebhookconfigurations", "-l", owned, "-o", "name")
		if err != nil {
			return err
		}
		return j.greets(ctx, "Good day, world!")
	})
	j.step("it is removed, with its CRD, and nothing is left", func(ctx context.Context) error {
		if _, err := j.Mainstay(ctx, "extension", "uninstall", "hello-operator", "--delete-custom-resources", "--wait", "--timeout", limit.String()); err != nil {
			return err
		}
		return j.prints(ctx, "", "get", "crds,clusterroles,clusterrolebindings,deployments,services,serviceaccounts,validatingwebhookconfigurations,mutatingwebhookconfigurations", "-A", "-l", owned, "-o", "name")
	})
}

// owned selects what belongs to the operator.
const owned = "olm.operatorframework.io/owner-name=hello-operator"

// installer is an account with what the sample operator needs, and no more.
const installer = `
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

// runMainstay installs Mainstay in the cluster from its image, or runs it beside a
// cluster whose nodes are played.
func (j *journey) runMainstay(ctx context.Context) error {
	if !j.real {
		return j.Serve(ctx)
	}

	image := j.Registry + "/mainstay:e2e"
	if _, err := j.push(ctx, "image", "build", "--binary", filepath.Join(j.root, "bin", "mainstay"), "--push", image); err != nil {
		return err
	}

	// Without the rights of an administrator: every write is the extension's account's.
	_, err := j.Mainstay(ctx, "install", "--image", image, "--pull-ca", j.CA(), "--require-service-account", "--wait", "--timeout", limit.String())
	return err
}

// updates publishes versions, and waits until the operator has the last one by itself.
func (j *journey) updates(ctx context.Context, catalog string, versions ...string) error {
	if err := j.publish(ctx, catalog, versions...); err != nil {
		return err
	}
	if _, err := j.Mainstay(ctx, "catalog", "refresh", "e2e"); err != nil {
		return err
	}
	return j.eventually(ctx, func(ctx context.Context) error {
		return j.prints(ctx, versions[len(versions)-1]+" Succeeded", "get", "clusterextension", "hello-operator", "-o",
			`jsonpath={.status.install.bundle.version} {.status.conditions[?(@.type=="Progressing")].reason}`)
	})
}

// greets makes a Greeting and looks at the operator's answer, in its status and over
// HTTP through its Service. Played pods do not answer. The version is named, for kubectl
// remembers for minutes which one the server preferred.
func (j *journey) greets(ctx context.Context, want string) error {
	if err := j.Apply(ctx, greeting); err != nil || !j.real {
		return err
	}
	return j.eventually(ctx, func(ctx context.Context) error {
		if err := j.prints(ctx, want, "get", "greetings.v1alpha1.hello.example.com", "world", "-o", "jsonpath={.status.message}"); err != nil {
			return err
		}
		return j.prints(ctx, want+"\n", "get", "--raw", "/api/v1/namespaces/hello/services/hello-operator:80/proxy/default/world")
	})
}
