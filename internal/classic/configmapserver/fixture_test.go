package configmapserver_test

import (
	"fmt"
	"strings"
	"testing"
)

// newCRD returns an entry of customResourceDefinitions.
func newCRD(plural, kind string) string {
	return fmt.Sprintf(`- apiVersion: apiextensions.k8s.io/v1
  kind: CustomResourceDefinition
  metadata:
    name: %[1]s.example.com
  spec:
    group: example.com
    scope: Namespaced
    names: {plural: %[1]s, singular: %[3]s, kind: %[2]s, listKind: %[2]sList}
    versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object}}
`, plural, kind, strings.ToLower(kind))
}

// newCSV returns an entry of clusterServiceVersions. It has the name NAME.vVERSION.
func newCSV(name, version, more string) string {
	return fmt.Sprintf(`- apiVersion: operators.coreos.com/v1alpha1
  kind: ClusterServiceVersion
  metadata:
    name: %[1]s.v%[2]s
  spec:
    displayName: The %[1]s
    version: %[2]s
    installModes:
    - {type: AllNamespaces, supported: true}
    install:
      strategy: deployment
      spec: {deployments: []}
%[3]s`, name, version, more)
}

// owned returns the part of a ClusterServiceVersion that owns a CRD.
func owned(plural, kind string) string {
	return fmt.Sprintf("    customresourcedefinitions:\n      owned:\n      - {name: %s.example.com, version: v1, kind: %s}\n", plural, kind)
}

// twoPackages returns the data of a ConfigMap with two packages and three channels.
func twoPackages() map[string]string {
	return map[string]string{
		"customResourceDefinitions": newCRD("kettles", "Kettle") + newCRD("toasters", "Toaster"),
		"clusterServiceVersions": newCSV("kettle", "1.0.0", owned("kettles", "Kettle")) +
			newCSV("kettle", "1.1.0", "    replaces: kettle.v1.0.0\n"+owned("kettles", "Kettle")) +
			newCSV("kettle", "2.0.0", "    replaces: kettle.v1.1.0\n    skips: [kettle.v1.0.0]\n"+owned("kettles", "Kettle")) +
			newCSV("toaster", "0.1.0", "    replaces: toaster.v0.0.9\n"+owned("toasters", "Toaster")),
		"packages": `- packageName: kettle
  defaultChannel: stable
  channels:
  - {name: stable, currentCSV: kettle.v1.1.0}
  - {name: next, currentCSV: kettle.v2.0.0}
- packageName: toaster
  channels:
  - {name: alpha, currentCSV: toaster.v0.1.0}
`,
	}
}

// with returns the data of twoPackages with one key changed.
func with(key string, change func(string) string) map[string]string {
	data := twoPackages()
	data[key] = change(data[key])
	return data
}

// replaced returns a change that replaces a text, which must exist.
func replaced(t *testing.T, old, text string) func(string) string {
	t.Helper()
	return func(value string) string {
		if !strings.Contains(value, old) {
			t.Fatalf("%q is not in:\n%s", old, value)
		}
		return strings.Replace(value, old, text, 1)
	}
}
