package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// TestBadInput creates invalid input for each part of the system, checks the condition that reports it,
// removes the cause, and checks that the part recovers.
func TestBadInput(t *testing.T) {
	f := newFixture(t, false)
	f.runStep("Mainstay runs", f.startMainstay)
	catalog := f.Registry + "/e2e/catalog:latest"
	f.runStep("a catalog is served", func(ctx context.Context) error {
		if err := f.publishCatalog(ctx, catalog, "1.0.0"); err != nil {
			return err
		}
		_, err := f.Mainstay(ctx, "catalog", "add", "e2e", "--image", catalog, "--wait")
		return err
	})

	const crd = `CustomResourceDefinition 'greetings.hello.example.com' already exists in namespace '' and cannot be managed by operator-controller`
	cases := []struct {
		name string
		// prepare and extension are manifests.
		prepare, extension string
		want               string
		mend               func(ctx context.Context) error
	}{
		{
			name:      "no-namespace",
			extension: extensionManifest("no-namespace", ""),
			want:      `True Retrying namespace "no-namespace" does not exist`,
			mend:      f.createNamespace("no-namespace"),
		},
		{
			name:      "no-account",
			prepare:   namespaceManifest("no-account"),
			extension: extensionManifest("no-account", "serviceAccount: {name: absent}"),
			want:      `True Retrying installation cannot proceed due to missing ServiceAccount`,
			mend: func(ctx context.Context) error {
				return f.Apply(ctx, administratorManifest("no-account", "absent"))
			},
		},
		{
			name:      "no-rights",
			prepare:   namespaceManifest("no-rights") + "---\n" + "{apiVersion: v1, kind: ServiceAccount, metadata: {name: poor, namespace: no-rights}}",
			extension: extensionManifest("no-rights", "serviceAccount: {name: poor}"),
			want: "True Retrying pre-authorization failed: service account requires the following permissions to manage cluster extension:\n" +
				`  Namespace:"" APIGroups:[] Resources:[namespaces] Verbs:[get,list,watch]`,
			mend: func(ctx context.Context) error { return f.Apply(ctx, administratorManifest("no-rights", "poor")) },
		},
		{
			name:    "never-ready",
			prepare: namespaceManifest("never-ready"),
			extension: extensionManifest("never-ready",
				"config: {configType: Inline, inline: {deploymentConfig: {annotations: {devcluster.mainstay.dev/pod-behavior: unready}}}}"),
			want: "True RollingOut",
			mend: func(ctx context.Context) error {
				_, err := f.Kubectl(ctx, "patch", "clusterextension", "never-ready", "--type=json", "-p", `[{"op": "remove", "path": "/spec/config"}]`)
				return err
			},
		},
		{
			name:      "taken",
			prepare:   namespaceManifest("first") + "---" + extensionManifest("first", "") + "---\n" + namespaceManifest("taken"),
			extension: extensionManifest("taken", ""),
			want:      `True Retrying revision object collisions: phase "crds" (2 of 6): ` + crd,
			mend: func(ctx context.Context) error {
				_, err := f.Mainstay(ctx, "extension", "uninstall", "first", "--delete-custom-resources", "--wait")
				return err
			},
		},
		{
			name:      "bad-configuration",
			prepare:   namespaceManifest("bad-configuration"),
			extension: extensionManifest("bad-configuration", "config: {configType: Inline, inline: {replicas: 3}}"),
			want:      "False InvalidConfiguration",
			mend: func(ctx context.Context) error {
				_, err := f.Kubectl(ctx, "patch", "clusterextension", "bad-configuration", "--type=json", "-p", `[{"op": "remove", "path": "/spec/config"}]`)
				return err
			},
		},
	}
	for _, tc := range cases {
		f.runStep(tc.name, func(ctx context.Context) error {
			if tc.prepare != "" {
				if err := f.Apply(ctx, tc.prepare); err != nil {
					return err
				}
			}
			if tc.name == "taken" {
				if err := f.waitForInstalled(ctx, "first"); err != nil {
					return err
				}
			}
			if err := f.Apply(ctx, tc.extension); err != nil {
				return err
			}
			if err := f.waitForProgressing(ctx, "clusterextension", tc.name, tc.want); err != nil {
				return err
			}
			if err := tc.mend(ctx); err != nil {
				return err
			}
			if err := f.waitForInstalled(ctx, tc.name); err != nil {
				return err
			}
			_, err := f.Mainstay(ctx, "extension", "uninstall", tc.name, "--delete-custom-resources", "--wait")
			return err
		})
	}
	f.runStep("a catalog image without configs", func(ctx context.Context) error { return f.fixCatalogImage(ctx) })
	f.runStep("an unreachable registry", func(ctx context.Context) error {
		if _, err := f.Mainstay(ctx, "catalog", "add", "unreachable", "--image", "localhost:1/none:v1"); err != nil {
			return err
		}
		return f.waitForProgressing(ctx, "clustercatalog", "unreachable", "True Retrying")
	})
}

// fixCatalogImage adds an image that is not a catalog, and then pushes a catalog to its tag.
func (f *fixture) fixCatalogImage(ctx context.Context) error {
	tag := f.Registry + "/e2e/broken:latest"
	if _, err := f.runWithRegistry(ctx, "image", "build", "--binary", f.root+"/bin/hello-operator", "--push", tag); err != nil {
		return err
	}
	if _, err := f.Mainstay(ctx, "catalog", "add", "broken", "--image", tag); err != nil {
		return err
	}
	if err := f.waitForProgressing(ctx, "clustercatalog", "broken", "False Blocked"); err != nil {
		return err
	}
	if err := f.publishCatalog(ctx, tag, "1.0.0"); err != nil {
		return err
	}
	if _, err := f.Mainstay(ctx, "catalog", "refresh", "broken"); err != nil {
		return err
	}

	return f.waitForProgressing(ctx, "clustercatalog", "broken", "True Succeeded")
}

// waitForProgressing waits for a Progressing condition with the wanted status, reason, and start
// of the message.
func (f *fixture) waitForProgressing(ctx context.Context, kind, name, want string) error {
	const condition = `{.status.conditions[?(@.type=="Progressing")].%s}`
	path := "jsonpath=" + fmt.Sprintf(condition, "status") + " " + fmt.Sprintf(condition, "reason") + " " + fmt.Sprintf(condition, "message")
	return f.waitFor(ctx, func(ctx context.Context) error {
		out, err := f.Kubectl(ctx, "get", kind, name, "-o", path)
		if err == nil && !strings.HasPrefix(out, want) {
			err = fmt.Errorf("%s %s: got Progressing %q, want %q", kind, name, out, want)
		}
		return err
	})
}

func (f *fixture) waitForInstalled(ctx context.Context, name string) error {
	return f.waitForProgressing(ctx, "clusterextension", name, "True Succeeded")
}

func (f *fixture) createNamespace(name string) func(context.Context) error {
	return func(ctx context.Context) error { return f.Apply(ctx, namespaceManifest(name)) }
}

func namespaceManifest(name string) string {
	return fmt.Sprintf("\n{apiVersion: v1, kind: Namespace, metadata: {name: %s}}\n", name)
}

func extensionManifest(name, more string) string {
	return fmt.Sprintf(`
apiVersion: olm.operatorframework.io/v1
kind: ClusterExtension
metadata: {name: %s}
spec:
  namespace: %[1]s
  source: {sourceType: Catalog, catalog: {packageName: hello-operator, selector: {matchLabels: {olm.operatorframework.io/metadata.name: e2e}}}}
  %s
`, name, more)
}

// administratorManifest returns a service account with all rights.
func administratorManifest(namespace, name string) string {
	return fmt.Sprintf(`
{apiVersion: v1, kind: ServiceAccount, metadata: {name: %[2]s, namespace: %[1]s}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: %[2]s, namespace: %[1]s}]
`, namespace, name)
}
