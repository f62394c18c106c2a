package crdsafety

import (
	"errors"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// parse reads YAML.
func parse[T any](t testing.TB, text string) *T {
	t.Helper()
	value := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), value); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	return value
}

// sample returns a CRD with one version that has the schema.
func sample(t testing.TB, schema string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crd := parse[apiextensionsv1.CustomResourceDefinition](t, `
metadata: {name: samples.test.example.com}
spec:
  group: test.example.com
  names: {kind: Sample, plural: samples}
  scope: Namespaced
  versions: [{name: v1alpha1, served: true, storage: true}]
`)

	crd.Spec.Versions[0].Schema = &apiextensionsv1.CustomResourceValidation{
		OpenAPIV3Schema: parse[apiextensionsv1.JSONSchemaProps](t, schema),
	}
	return crd
}

// messages returns the messages of an error of Check, each with its validator.
func messages(t testing.TB, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}

	var unsafe *UnsafeError
	if !errors.As(err, &unsafe) {
		t.Fatalf("got unexpected error %v of type %T", err, err)
	}
	if len(unsafe.Violations) == 0 {
		t.Fatal("got an error without violations, want at least one")
	}

	var result []string
	for i := range unsafe.Violations {
		result = append(result, unsafe.Violations[i].String())
	}

	return result
}
