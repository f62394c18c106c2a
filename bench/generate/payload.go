package generate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A release has about 900 manifests of 60 components, of which 35 report through a
// ClusterOperator.
const (
	payloadComponents = 60
	payloadOperators  = 35
	// payloadFields is the number of fields of a CRD's schema. With their descriptions they
	// have 30 kB, which is the mean of real CRDs.
	payloadFields = 120
)

// Payload writes a payload of 900 manifests below dir and returns their number. Each component
// has a namespace, accounts and roles, configuration, a CRD with an object, a Deployment and its
// Service. Most components have a ClusterOperator.
func Payload(dir string) (int, error) {
	const version = "1.0.0"
	folder := filepath.Join(dir, "release-manifests")
	for _, name := range []string{filepath.Join(dir, "manifests"), folder} {
		if err := os.MkdirAll(name, 0o755); err != nil {
			return 0, err
		}
	}

	files := map[string]string{
		"release-metadata": fmt.Sprintf(`{"kind": "cincinnati-metadata-v0", "version": %q}`, version),
		"image-references": fmt.Sprintf(`{"kind": "ImageStream", "apiVersion": "image.openshift.io/v1", "metadata": {"name": %q}}`, version),
	}
	count := 0
	for i := range payloadComponents {
		name := fmt.Sprintf("part-%02d", i)
		for j, text := range componentManifests(i, name, version) {
			files[fmt.Sprintf("0000_%02d_%s_%02d.yaml", 10+i, name, j)] = text
			count++
		}
	}

	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			return 0, err
		}
	}

	return count, nil
}

// componentManifests returns the fifteen manifests of a component.
func componentManifests(i int, name, version string) []string {
	fill := strings.NewReplacer("NAME", name, "KIND", kindOfComponent(name), "VERSION", version,
		"META", `include.release.openshift.io/self-managed-high-availability: "true"`)
	var manifests []string
	for _, text := range strings.Split(componentText, "---\n") {
		manifests = append(manifests, fill.Replace(text))
	}

	manifests = append(manifests[:8:8], append([]string{generateCRD(name)}, manifests[8:]...)...)
	last := operatorText
	if i >= payloadOperators {
		last = configMapText
	}

	return append(manifests, fill.Replace(last))
}

func kindOfComponent(name string) string { return "Part" + strings.TrimPrefix(name, "part-") }

// generateCRD returns a CRD with a schema of typical size.
func generateCRD(name string) string {
	properties := map[string]any{"replicas": map[string]any{"type": "integer", "default": 1}}
	for i := range payloadFields {
		properties[fmt.Sprintf("setting%03d", i)] = map[string]any{
			"type": "object", "description": strings.Repeat("What the setting means, in which unit, and what it is when nobody gives it. ", 2),
			"properties": map[string]any{"mode": map[string]any{"type": "string", "enum": []string{"On", "Off"}}, "limit": map[string]any{"type": "integer"}},
		}
	}

	crd := map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{
			"name":        strings.ToLower(kindOfComponent(name)) + "s.bench.example.com",
			"annotations": map[string]string{"include.release.openshift.io/self-managed-high-availability": "true"},
		},
		"spec": map[string]any{
			"group": "bench.example.com", "scope": "Cluster",
			"names": map[string]string{"kind": kindOfComponent(name), "plural": strings.ToLower(kindOfComponent(name)) + "s"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true, "subresources": map[string]any{"status": map[string]any{}},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object", "properties": map[string]any{"spec": map[string]any{"type": "object", "properties": properties}},
				}},
			}},
		},
	}

	var text bytes.Buffer
	_ = json.NewEncoder(&text).Encode(crd) // Writing to a buffer cannot fail, and JSON is YAML.

	return text.String()
}

const componentText = `apiVersion: v1
kind: Namespace
metadata: {name: NAME, annotations: {META}, labels: {pod-security.kubernetes.io/enforce: privileged}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: operator, namespace: NAME, annotations: {META}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: bench-NAME, annotations: {META}}
rules:
- {apiGroups: [""], resources: [configmaps, secrets, services], verbs: [get, list, watch, create, update, patch, delete]}
- {apiGroups: [apps], resources: [deployments], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: bench-NAME, annotations: {META}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: bench-NAME}
subjects: [{kind: ServiceAccount, name: operator, namespace: NAME}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: operator, namespace: NAME, annotations: {META}}
rules: [{apiGroups: [coordination.k8s.io], resources: [leases], verbs: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: operator, namespace: NAME, annotations: {META}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: operator}
subjects: [{kind: ServiceAccount, name: operator, namespace: NAME}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: config, namespace: NAME, annotations: {META}}
data: {config.yaml: "apiVersion: operator.openshift.io/v1alpha1\nkind: GenericOperatorConfig\nservingInfo: {}\n"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: trusted-ca, namespace: NAME, annotations: {META}, labels: {config.openshift.io/inject-trusted-cabundle: "true"}}
---
apiVersion: v1
kind: Service
metadata: {name: metrics, namespace: NAME, annotations: {META}}
spec: {selector: {app: NAME}, ports: [{name: https, port: 443, targetPort: https}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: operator, namespace: NAME, annotations: {META}}
spec:
  replicas: 1
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec:
      serviceAccountName: operator
      containers:
      - name: operator
        image: registry.example.com/NAME@sha256:0000000000000000000000000000000000000000000000000000000000000000
        args: [start, --config=/config/config.yaml, -v=2]
        env: [{name: RELEASE_VERSION, value: VERSION}, {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
        ports: [{name: https, containerPort: 8443}]
        livenessProbe: {httpGet: {path: /healthz, port: https, scheme: HTTPS}}
        readinessProbe: {httpGet: {path: /readyz, port: https, scheme: HTTPS}}
        resources: {requests: {cpu: 10m, memory: 50Mi}}
        volumeMounts: [{name: config, mountPath: /config}]
      volumes: [{name: config, configMap: {name: config}}]
---
apiVersion: bench.example.com/v1
kind: KIND
metadata: {name: cluster, annotations: {META}}
spec: {setting001: {mode: "On"}, setting002: {mode: "Off", limit: 3}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: operator, namespace: NAME, annotations: {META}}
spec: {podSelector: {matchLabels: {app: NAME}}, ingress: [{ports: [{port: 8443}]}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: operator, namespace: NAME, annotations: {META}}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: NAME}}}
`

const operatorText = `apiVersion: config.openshift.io/v1
kind: ClusterOperator
metadata: {name: NAME, annotations: {META}}
spec: {}
status:
  versions: [{name: operator, version: VERSION}]
  relatedObjects: [{group: "", resource: namespaces, name: NAME}]
`

const configMapText = `apiVersion: v1
kind: ConfigMap
metadata: {name: dashboard, namespace: NAME, annotations: {META}, labels: {console.openshift.io/dashboard: "true"}}
data: {dashboard.json: "{}"}
`
