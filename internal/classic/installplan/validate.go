package installplan

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pageSize is the number of objects in one page of a list.
const pageSize = 500

// restrictiveError is the error for an object that is invalid by a new schema.
type restrictiveError struct {
	kind   schema.GroupVersionKind
	object string
	faults []string
}

func (e *restrictiveError) Error() string {
	return fmt.Sprintf("error validating %s %q: updated validation is too restrictive: %s", e.kind, e.object, strings.Join(e.faults, "; "))
}

// changedVersions returns the versions of an updated CRD whose objects must be validated: those that both CRDs serve
// with different schemas.
func changedVersions(old, updated *apiextensionsv1.CustomResourceDefinition) []apiextensionsv1.CustomResourceDefinitionVersion {
	var changed []apiextensionsv1.CustomResourceDefinitionVersion
	for _, version := range updated.Spec.Versions {
		i := slices.IndexFunc(old.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == version.Name })
		if i < 0 || !old.Spec.Versions[i].Served || !version.Served || equality.Semantic.DeepEqual(old.Spec.Versions[i].Schema, version.Schema) {
			continue
		}
		changed = append(changed, version)
	}

	return changed
}

// validateVersion validates all objects of a version, as they are served now.
func (w *crdWriter) validateVersion(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition, version apiextensionsv1.CustomResourceDefinitionVersion) error {
	kind := schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind}
	check, err := newValidator(version.Schema)
	if err != nil {
		return fmt.Errorf("the schema of %s: %w", kind, err)
	}

	list := &unstructured.UnstructuredList{}
	for {
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := w.client.List(ctx, list, client.Limit(pageSize), client.Continue(list.GetContinue())); err != nil {
			return fmt.Errorf("error listing %s: %w", kind, err)
		}

		for i := range list.Items {
			object := &list.Items[i]
			if faults := check(object.Object); len(faults) > 0 {
				name := object.GetName()
				if object.GetNamespace() != "" {
					name = object.GetNamespace() + "/" + name
				}
				return &restrictiveError{kind, name, faults}
			}
		}

		if list.GetContinue() == "" {
			return nil
		}

		next := list.GetContinue()
		list = &unstructured.UnstructuredList{}
		list.SetContinue(next)
	}
}

// newValidator returns a function that returns the sorted faults of an object.
func newValidator(of *apiextensionsv1.CustomResourceValidation) (func(map[string]any) []string, error) {
	var converted spec.Schema
	if of != nil && of.OpenAPIV3Schema != nil {
		encoded, err := json.Marshal(of.OpenAPIV3Schema)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(encoded, &converted); err != nil {
			return nil, err
		}
	}

	check := validate.NewSchemaValidator(&converted, nil, "", strfmt.Default)
	return func(object map[string]any) []string {
		var faults []string
		for _, err := range check.Validate(object).Errors {
			// The library's messages refer to the body of a request; there is none here.
			faults = append(faults, strings.Replace(err.Error(), " in body ", " ", 1))
		}
		slices.Sort(faults)
		return slices.Compact(faults)
	}, nil
}
