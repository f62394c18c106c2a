package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// TestBadInput returns the whole system what it cannot work with, looks for the
// condition that says so, takes the cause away, and sees it go on by itself.
func TestBadInput(t *testing.T) {
	j := start(t, false)
	j.step("Mainstay runs", j.runMainstay)
	catalog := j.Registry + "/e2e/catalog:latest"
	j.step("a catalog is served", func(ctx context.Context) error {
		if err := j.publish(ctx, catalog, "1.0.0"); err != nil {
			return err
		}
		_, err := j.Mainstay(ctx, "catalog", "add", "e2e", "--image", catalog, "--wait")
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
			extension: extension("no-namespace", ""),
			want:      `True Retrying namespace "no-namespace" does not exist`,
			mend:      j.namespace("no-namespace"),
		},
		{
			name:      "no-account",
			prepare:   namespace("no-account"),
			extension: extension("no-account", "serviceAccount: {name: absent}"),
			want:      `True Retrying installation cannot proceed due to missing ServiceAccount`,
			mend: func(ctx context.Context) error {
				return j.Apply(ctx, administrator("no-account", "absent"))
			},
		},
		{
			name:      "no-rights",
			prepare:   namespace("no-rights") + "---\n" + "{apiVersion: v1, kind: ServiceAccount, metadata: {name: poor, namespace: no-rights}}",
			extension: extension("no-rights", "serviceAccount: {name: poor}"),
			want: "True Retrying pre-authorization failed: service account requires the following permissions to manage cluster extension:\n" +
				`  Namespace:"" APIGroups:[] Resources:[namespaces] Verbs:[get,list,watch]`,
			mend: func(ctx context.Context) error { return j.Apply(ctx, administrator("no-rights", "poor")) },
		},
		{
			name:    "never-ready",
			prepare: namespace("never-ready"),
			extension: extension("never-ready",
				"config: {configType: Inline, inline: {deploymentConfig: {annotations: {devcluster.mainstay.dev/pod-behavior: unready}}}}"),
			want: "True RollingOut",
			mend: func(ctx context.Context) error {
				_, err := j.Kubectl(ctx, "patch", "clusterextension", "never-ready", "--type=json", "-p", `[{"op": "remove", "path": "/spec/config"}]`)
				return err
			},
		},
		{
			name:      "taken",
			prepare:   namespace("first") + "---" + extension("first", "") + "---\n" + namespace("taken"),
			extension: extension("taken", ""),
			want:      `True Retrying revision object collisions: phase "crds" (2 of 6): ` + crd,
			mend: func(ctx context.Context) error {
				_, err := j.Mainstay(ctx, "extension", "uninstall", "first", "--delete-custom-resources", "--wait")
				return err
			},
		},
		{
			name:      "bad-configuration",
			prepare:   namespace("bad-configuration"),
			extension: extension("bad-configuration", "config: {configType: Inline, inline: {replicas: 3}}"),
			want:      "False InvalidConfiguration",
			mend: func(ctx context.Context) error {
				_, err := j.Kubectl(ctx, "patch", "clusterextension", "bad-configuration", "--type=json", "-p", `[{"op": "remove", "path": "/spec/config"}]`)
				return err
			},
		},
	}
	for _, tc := range cases {
		j.step(tc.name, func(ctx context.Context) error {
			if tc.prepare != "" {
				if err := j.Apply(ctx, tc.prepare); err != nil {
					return err
				}
			}
			if tc.name == "taken" {
				if err := j.installed(ctx, "first"); err != nil {
					return err
				}
			}
			if err := j.Apply(ctx, tc.extension); err != nil {
				return err
			}
			if err := j.progressing(ctx, "clusterextension", tc.name, tc.want); err != nil {
				return err
			}
			if err := tc.mend(ctx); err != nil {
				return err
			}
			if err := j.installed(ctx, tc.name); err != nil {
				return err
			}
			_, err := j.Mainstay(ctx, "extension", "uninstall", tc.name, "--delete-custom-resources", "--wait")
			return err
		})
	}
	j.step("a catalog image without configs", func(ctx context.Context) error { return j.mendsCatalog(ctx) })
	j.step("an unreachable registry", func(ctx context.Context) error {
		if _, err := j.Mainstay(ctx, "catalog", "add", "unreachable", "--image", "localhost:1/none:v1"); err != nil {
			return err
		}
		return j.progressing(ctx, "clustercatalog", "unreachable", "True Retrying")
	})
}

// mendsCatalog adds an image that is no catalog, and then pushes one to its tag.
func (j *journey) mendsCatalog(ctx context.Context) error {
	tag := j.Registry + "/e2e/broken:latest"
	if _, err := j.push(ctx, "image", "build", "--binary", j.root+"/bin/hello-operator", "--push", tag); err != nil {
		return err
	}
	if _, err := j.Mainstay(ctx, "catalog", "add", "broken", "--image", tag); err != nil {
		return err
	}
	if err := j.progressing(ctx, "clustercatalog", "broken", "False Blocked"); err != nil {
		return err
	}
	if err := j.publish(ctx, tag, "1.0.0"); err != nil {
		return err
	}
	if _, err := j.Mainstay(ctx, "catalog", "refresh", "broken"); err != nil {
		return err
	}

	return j.progressing(ctx, "clustercatalog", "broken", "True Succeeded")
}

// progressing waits until the condition reads as wanted: its status, its reason, and
// the start of its message.
func (j *journey) progressing(ctx context.Context, kind, name, want string) error {
	const condition = `{.status.conditions[?(@.type=="Progressing")].%s}`
	path := "jsonpath=" + fmt.Sprintf(condition, "status") + " " + fmt.Sprintf(condition, "reason") + " " + fmt.Sprintf(condition, "message")
	return j.eventually(ctx, func(ctx context.Context) error {
		out, err := j.Kubectl(ctx, "get", kind, name, "-o", path)
		if err == nil && !strings.HasPrefix(out, want) {
			err = fmt.Errorf("%s %s is Progressing %q, want %q", kind, name, out, want)
		}
		return err
	})
}

func (j *journey) installed(ctx context.Context, name string) error {
	return j.progressing(ctx, "clusterextension", name, "True Succeeded")
}

func (j *journey) namespace(name string) func(context.Context) error {
	return func(ctx context.Context) error { return j.Apply(ctx, namespace(name)) }
}

func namespace(name string) string {
	return fmt.Sprintf("\n{apiVersion: v1, kind: Namespace, metadata: {name: %s}}\n", name)
}

func extension(name, more string) string {
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

// administrator is an account that may do everything.
func administrator(namespace, name string) string {
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
