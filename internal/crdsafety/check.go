package crdsafety

import (
	"cmp"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Check compares a definition as it is on a cluster with the one that is to replace it.
// The error is nil when the change is safe, and else an *UnsafeError with every violation
// there is. Neither definition is changed.
//
// Versions that only one of the definitions has are not compared: a new version is always
// allowed, and one that goes is refused only if objects may be stored in it.
func Check(old, updated *apiextensionsv1.CustomResourceDefinition) error {
	r := &report{}
	checkScope(old, updated, r)
	after := versionsOf(updated)
	checkStoredVersions(old, after, r)
	checkDefinition(old, updated, r)
	for i := range old.Spec.Versions {
		version := &old.Spec.Versions[i]
		if same := after[version.Name]; same != nil {
			checkVersion(old.Name, version, same, r)
		}
	}

	return r.err(old.Name)
}

func checkScope(old, updated *apiextensionsv1.CustomResourceDefinition, r *report) {
	if old.Spec.Scope != updated.Spec.Scope {
		r.add(Violation{Validator: NoScopeChange, Message: changed("scope", old.Spec.Scope, updated.Spec.Scope)})
	}
}

// checkStoredVersions: objects may be stored in each version that the API server lists,
// and in the one that it writes now, which it may not have listed yet.
func checkStoredVersions(old *apiextensionsv1.CustomResourceDefinition, updated versions, r *report) {
	stored := slices.Clone(old.Status.StoredVersions)
	for i := range old.Spec.Versions {
		if old.Spec.Versions[i].Storage {
			stored = append(stored, old.Spec.Versions[i].Name)
		}
	}

	slices.Sort(stored)
	for _, version := range slices.Compact(stored) {
		if updated[version] == nil {
			r.add(Violation{Validator: NoStoredVersionRemoved, Version: version, Message: fmt.Sprintf("stored version %q removed", version)})
		}
	}
}

// checkDefinition judges what holds for all versions.
func checkDefinition(old, updated *apiextensionsv1.CustomResourceDefinition, r *report) {
	add := func(unknown bool, message string) {
		if unknown {
			message = unknownChange("definition", message)
		}
		r.add(Violation{Validator: ChangeValidator, Unknown: unknown, Message: message})
	}
	if a, b := old.Spec.Names.Kind, updated.Spec.Names.Kind; a != b {
		add(false, changed("spec.names.kind", a, b))
	}
	if a, b := listKind(old), listKind(updated); a != b && old.Spec.Names.Kind == updated.Spec.Names.Kind {
		add(true, changed("spec.names.listKind", a, b))
	}
	if old.Spec.PreserveUnknownFields && !updated.Spec.PreserveUnknownFields {
		add(false, "spec.preserveUnknownFields changed from true to false: fields that the schema does not name would be lost")
	}
	if a, b := strategy(old), strategy(updated); a != b && b == apiextensionsv1.NoneConverter && !alike(updated) {
		add(true, changed("spec.conversion.strategy", a, b))
	}
}

// listKind returns the kind of lists with the default of the API server.
func listKind(crd *apiextensionsv1.CustomResourceDefinition) string {
	if name := crd.Spec.Names.ListKind; name != "" {
		return name
	}
	return crd.Spec.Names.Kind + "List"
}

func strategy(crd *apiextensionsv1.CustomResourceDefinition) apiextensionsv1.ConversionStrategyType {
	if crd.Spec.Conversion == nil || crd.Spec.Conversion.Strategy == "" {
		return apiextensionsv1.NoneConverter
	}
	return crd.Spec.Conversion.Strategy
}

// alike reports whether an object of one version is one of every other as it stands, so
// that there is nothing to convert.
func alike(crd *apiextensionsv1.CustomResourceDefinition) bool {
	for i := range crd.Spec.Versions {
		if !sameValue(schemaOf(&crd.Spec.Versions[0]), schemaOf(&crd.Spec.Versions[i])) {
			return false
		}
	}
	return true
}

// versions are the versions of a definition by their names.
type versions map[string]*apiextensionsv1.CustomResourceDefinitionVersion

func versionsOf(crd *apiextensionsv1.CustomResourceDefinition) versions {
	result := versions{}
	for i := range crd.Spec.Versions {
		result[crd.Spec.Versions[i].Name] = &crd.Spec.Versions[i]
	}
	return result
}

// schemaOf returns the schema of a version. That what is stored is an object goes without
// saying.
func schemaOf(version *apiextensionsv1.CustomResourceDefinitionVersion) *apiextensionsv1.JSONSchemaProps {
	var root apiextensionsv1.JSONSchemaProps
	if version.Schema != nil && version.Schema.OpenAPIV3Schema != nil {
		root = *version.Schema.OpenAPIV3Schema
	}
	root.Type = cmp.Or(root.Type, "object")
	return &root
}

func checkVersion(crd string, old, updated *apiextensionsv1.CustomResourceDefinitionVersion, r *report) {
	w := &walk{report: r, crd: crd, version: old.Name, path: []string{"^"}}
	checkSubresources(old, updated, w)
	w.schema(schemaOf(old), schemaOf(updated))
}

// checkSubresources: what clients could ask for before, they can still ask for.
func checkSubresources(old, updated *apiextensionsv1.CustomResourceDefinitionVersion, w *walk) {
	var before, after apiextensionsv1.CustomResourceSubresources
	if old.Subresources != nil {
		before = *old.Subresources
	}
	if updated.Subresources != nil {
		after = *updated.Subresources
	}

	unknown := func(change string) {
		w.report.add(Violation{Validator: ChangeValidator, Version: w.version, Unknown: true,
			Message: unknownChange(fmt.Sprintf("version %q", w.version), change)})
	}
	if before.Status != nil && after.Status == nil {
		unknown("subresource status removed")
	}

	switch {
	case before.Scale == nil:
	case after.Scale == nil:
		unknown("subresource scale removed")
	case !sameValue(before.Scale, after.Scale):
		unknown("subresource scale changed")
	}

	for _, field := range old.SelectableFields {
		if !slices.Contains(updated.SelectableFields, field) {
			unknown(fmt.Sprintf("selectable field %q removed", shorten(field.JSONPath, maxText)))
		}
	}
}
