package config_test

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// maxAppliedBytes is the limit of all annotations of an object. kubectl apply writes the object into one of them.
const maxAppliedBytes = 256 << 10

// foreignProperties are patterns of properties that other projects describe. The properties below them are not checked
// either.
var foreignProperties = []string{
	"metadata",                                    // The API server describes it.
	"spec/install/spec/deployments/spec/*",        // trimcrd removes them, for the limit above.
	"spec/nativeAPIs/*",                           // A GroupVersionKind of Kubernetes has none.
	"status/channels/currentCSVDesc/nativeApis/*", // The same.
	"spec/config/volumes/ephemeral/volumeClaimTemplate/metadata/*", // Metadata of Kubernetes has none.
}

// Each property of the kinds of OLM Classic has a description, so that kubectl explain helps.
func TestClassicKindsAreDescribed(t *testing.T) {
	for file, crd := range classicCRDs(t) {
		for _, version := range crd.Spec.Versions {
			root := version.Schema.OpenAPIV3Schema
			if root.Description == "" {
				t.Errorf("%s: version %s has no description", file, version.Name)
			}
			for _, property := range listUndescribed(root, "") {
				t.Errorf("%s: version %s: property %s has no description: write a comment on its field, and run make generate", file, version.Name, property)
			}
		}
	}
}

// The CRDs stay small enough for kubectl apply.
func TestClassicKindsCanBeApplied(t *testing.T) {
	for file, crd := range classicCRDs(t) {
		data, err := json.Marshal(crd)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) > maxAppliedBytes {
			t.Errorf("%s: got %d bytes of JSON, want at most %d: remove descriptions with trimcrd", file, len(data), maxAppliedBytes)
		}
	}
}

func TestListUndescribed(t *testing.T) {
	described := func(properties map[string]apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Description: "It is described.", Properties: properties}
	}

	missing := map[string]apiextensionsv1.JSONSchemaProps{"missing": {}}
	item, value := described(missing), described(missing)
	list, dictionary := described(nil), described(nil)
	list.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &item}
	dictionary.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Schema: &value}
	root := described(map[string]apiextensionsv1.JSONSchemaProps{
		"metadata": {},
		"spec": described(map[string]apiextensionsv1.JSONSchemaProps{
			"list": list, "dictionary": dictionary, "nativeAPIs": described(missing), "metadata": {},
		}),
	})

	want := []string{"spec/dictionary/missing", "spec/list/missing", "spec/metadata"}
	if got := listUndescribed(&root, ""); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// kubectl explain shows the description of a field, as soon as the API server has published the schema.
func TestExplainClassic(t *testing.T) {
	var out string
	env.Eventually(t, "the schema is published", func() (err error) {
		out, err = tryKubectl(t, "explain", "subscription.spec.installPlanApproval")
		return err
	})

	text := strings.Join(strings.Fields(out), " ")
	for _, want := range []string{"KIND: Subscription", "FIELD: installPlanApproval <string>", "each new InstallPlan of the namespace then waits until its spec.approved is true."} {
		if !strings.Contains(text, want) {
			t.Errorf("got %q, want it to contain %q", text, want)
		}
	}
}

// classicCRDs returns the CRDs of OLM Classic by file.
func classicCRDs(t *testing.T) map[string]*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	files, err := filepath.Glob("classic/crd/*_*.yaml")
	if err != nil || len(files) < 7 {
		t.Fatalf("got the CRDs %v (%v), want at least seven", files, err)
	}

	files = append(files, "classic/marketplace/config.openshift.io_operatorhubs.yaml", "../internal/classic/packageserver/serve/openapi/packages.operators.coreos.com_packagemanifests.yaml")
	crds := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}

		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(data, crd); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		crds[file] = crd
	}

	return crds
}

// listUndescribed returns the sorted paths of the properties below a schema that have no description and are not
// foreign.
func listUndescribed(schema *apiextensionsv1.JSONSchemaProps, parent string) []string {
	var found []string
	for name, property := range schema.Properties {
		at := path.Join(parent, name)
		if isForeignProperty(at) {
			continue
		}
		if property.Description == "" {
			found = append(found, at)
		}
		found = append(found, listUndescribed(&property, at)...)
	}

	if schema.Items != nil && schema.Items.Schema != nil {
		found = append(found, listUndescribed(schema.Items.Schema, parent)...)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		found = append(found, listUndescribed(schema.AdditionalProperties.Schema, parent)...)
	}

	slices.Sort(found)
	return found
}

// isForeignProperty reports whether the description of a property is not ours.
func isForeignProperty(property string) bool {
	return slices.ContainsFunc(foreignProperties, func(pattern string) bool {
		matched, err := path.Match(pattern, property)
		return err == nil && matched
	})
}
