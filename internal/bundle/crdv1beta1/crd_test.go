package crdv1beta1

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	theirs "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// definitions are compared with the conversion of Kubernetes.
var definitions = map[string]string{
	"nothing": "{}",
	"little":  "{metadata: {name: foos.example.com}, spec: {group: example.com, version: v1, names: {plural: foos, kind: Foo}}}",
	"all of it": `
apiVersion: apiextensions.k8s.io/v1beta1
kind: CustomResourceDefinition
metadata: {name: foos.example.com, annotations: {a: b}}
spec:
  group: example.com
  version: v1
  scope: Cluster
  preserveUnknownFields: false
  names: {plural: foos, singular: foo, kind: Foo, listKind: Foos, shortNames: [f], categories: [all]}
  validation: {openAPIV3Schema: {type: object, description: a foo, properties: {spec: {type: object, default: {a: 1}, x-kubernetes-preserve-unknown-fields: true}}}}
  subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas, labelSelectorPath: .status.selector}}
  additionalPrinterColumns: [{name: Age, type: date, format: date, description: d, priority: 1, JSONPath: .metadata.creationTimestamp}]
  selectableFields: [{jsonPath: .spec.color}]
  versions:
  - {name: v2, served: true, storage: false, deprecated: true, deprecationWarning: old}
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, items: [{type: string}], enum: [1, a, null], example: null}},
     subresources: {status: {}}, additionalPrinterColumns: [], selectableFields: [{jsonPath: .x}]}
  conversion: {strategy: Webhook, webhookClientConfig: {url: "https://a.example", caBundle: YQ==, service: {namespace: n, name: s, path: /p}}}
status: {storedVersions: [v0], conditions: [{type: Established, status: "True"}], acceptedNames: {plural: foos, kind: Foo}}`,
	"versions only":  "{spec: {versions: [{name: v1, storage: true}, {name: v2, storage: true}], conversion: {strategy: Webhook, conversionReviewVersions: [v1], webhookClientConfig: {service: {name: s, namespace: n, port: 8443}}}}}",
	"of another":     "{spec: {group: 1}}",
	"a bad default":  "{spec: {validation: {openAPIV3Schema: {default: [1, {a: null}]}}}}",
	"columns as v1":  "{spec: {additionalPrinterColumns: [{name: a, jsonPath: .x}]}}",
	"webhook as v1":  "{spec: {conversion: {strategy: Webhook, webhook: {clientConfig: {url: x}}}}}",
	"unknown fields": "{spec: {unknown: 1, versions: [{x: 1}]}, more: 2}",
}

func TestInternalIsWhatKubernetesMakesOfIt(t *testing.T) {
	for name, text := range definitions {
		raw, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		compareWithLibrary(t, name, raw)
	}
}

func FuzzInternal(f *testing.F) {
	for _, text := range definitions {
		raw, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}

	f.Fuzz(func(t *testing.T, raw []byte) { compareWithLibrary(t, "fuzzed", raw) })
}

func compareWithLibrary(t *testing.T, name string, raw []byte) {
	t.Helper()
	ours, their, want := &CustomResourceDefinition{}, &theirs.CustomResourceDefinition{}, &apiextensions.CustomResourceDefinition{}
	err, wantErr := kjson.UnmarshalCaseSensitivePreserveInts(raw, ours), kjson.UnmarshalCaseSensitivePreserveInts(raw, their)
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%s: decoding says %v, Kubernetes %v", name, err, wantErr)
	}
	if err != nil {
		return
	}

	theirs.SetObjectDefaults_CustomResourceDefinition(their)
	wantErr = theirs.Convert_v1beta1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(their, want, nil)
	got, err := ours.Internal()
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%s: converting says %v, Kubernetes %v", name, err, wantErr)
	}
	if diff := cmp.Diff(want, got); err == nil && diff != "" {
		t.Errorf("%s (-Kubernetes +ours):\n%s", name, diff)
	}
}
