package crdsafety

import (
	"cmp"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/mainstay-dev/mainstay/internal/excerpt"
)

// Check compares the CRD on a cluster with the one that replaces it. It returns nil if the change
// is safe, otherwise an *UnsafeError with every violation. Neither CRD is changed.
//
// Versions that only one of the CRDs has are not compared: a new version is always allowed, and a
// removed one is refused only if objects may be stored in it.
func Check(old, updated *apiextensionsv1.CustomResourceDefinition) error {
	r := &report{}
	compareScope(old, updated, r)
	after := versionsByName(updated)
	checkStoredVersions(old, after, r)
	compareUnversionedFields(old, updated, r)
	for i := range old.Spec.Versions {
		version := &old.Spec.Versions[i]
		if same := after[version.Name]; same != nil {
			compareVersions(old.Name, version, same, r)
		}
	}

	return r.toUnsafeError(old.Name)
}

func compareScope(old, updated *apiextensionsv1.CustomResourceDefinition, r *report) {
	if old.Spec.Scope != updated.Spec.Scope {
		r.add(Violation{Validator: NoScopeChange, Message: describeChange("scope", old.Spec.Scope, updated.Spec.Scope)})
	}
}

// checkStoredVersions reports removed versions in which objects may be stored: those that the API
// server lists, and the current storage version, which it may not list yet.
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

// compareUnversionedFields compares the fields that apply to all versions.
func compareUnversionedFields(old, updated *apiextensionsv1.CustomResourceDefinition, r *report) {
	add := func(unknown bool, message string) {
		if unknown {
			message = unknownChangeMessage("definition", message)
		}
		r.add(Violation{Validator: ChangeValidator, Unknown: unknown, Message: message})
	}
	if a, b := old.Spec.Names.Kind, updated.Spec.Names.Kind; a != b {
		add(false, describeChange("spec.names.kind", a, b))
	}
	if a, b := listKind(old), listKind(updated); a != b && old.Spec.Names.Kind == updated.Spec.Names.Kind {
		add(true, describeChange("spec.names.listKind", a, b))
	}
	if old.Spec.PreserveUnknownFields && !updated.Spec.PreserveUnknownFields {
		add(false, "spec.preserveUnknownFields changed from true to false: fields that the schema does not name would be lost")
	}
	if a, b := conversionStrategy(old), conversionStrategy(updated); a != b && b == apiextensionsv1.NoneConverter && !hasIdenticalVersions(updated) {
		add(true, describeChange("spec.conversion.strategy", a, b))
	}
}

// listKind returns the list kind, with the default of the API server.
func listKind(crd *apiextensionsv1.CustomResourceDefinition) string {
	if name := crd.Spec.Names.ListKind; name != "" {
		return name
	}
	return crd.Spec.Names.Kind + "List"
}

func conversionStrategy(crd *apiextensionsv1.CustomResourceDefinition) apiextensionsv1.ConversionStrategyType {
	if crd.Spec.Conversion == nil || crd.Spec.Conversion.Strategy == "" {
		return apiextensionsv1.NoneConverter
	}
	return crd.Spec.Conversion.Strategy
}

// hasIdenticalVersions reports whether all versions have the same schema, so that no conversion is
// needed.
func hasIdenticalVersions(crd *apiextensionsv1.CustomResourceDefinition) bool {
	for i := range crd.Spec.Versions {
		if !equalValues(rootSchemaOf(&crd.Spec.Versions[0]), rootSchemaOf(&crd.Spec.Versions[i])) {
			return false
		}
	}
	return true
}

// versions are the versions of a CRD by name.
type versions map[string]*apiextensionsv1.CustomResourceDefinitionVersion

func versionsByName(crd *apiextensionsv1.CustomResourceDefinition) versions {
	result := versions{}
	for i := range crd.Spec.Versions {
		result[crd.Spec.Versions[i].Name] = &crd.Spec.Versions[i]
	}
	return result
}

// rootSchemaOf returns the schema of a version. Its root is always an object.
func rootSchemaOf(version *apiextensionsv1.CustomResourceDefinitionVersion) *apiextensionsv1.JSONSchemaProps {
	var root apiextensionsv1.JSONSchemaProps
	if version.Schema != nil && version.Schema.OpenAPIV3Schema != nil {
		root = *version.Schema.OpenAPIV3Schema
	}
	root.Type = cmp.Or(root.Type, "object")
	return &root
}

func compareVersions(crd string, old, updated *apiextensionsv1.CustomResourceDefinitionVersion, r *report) {
	w := &walker{report: r, crd: crd, version: old.Name, path: []string{"^"}}
	compareSubresources(old, updated, w)
	w.compareSchemas(rootSchemaOf(old), rootSchemaOf(updated))
}

// compareSubresources checks that clients can still use the subresources and selectable fields.
func compareSubresources(old, updated *apiextensionsv1.CustomResourceDefinitionVersion, w *walker) {
	var before, after apiextensionsv1.CustomResourceSubresources
	if old.Subresources != nil {
		before = *old.Subresources
	}
	if updated.Subresources != nil {
		after = *updated.Subresources
	}

	unknown := func(change string) {
		w.report.add(Violation{Validator: ChangeValidator, Version: w.version, Unknown: true,
			Message: unknownChangeMessage(fmt.Sprintf("version %q", w.version), change)})
	}
	if before.Status != nil && after.Status == nil {
		unknown("subresource status removed")
	}

	switch {
	case before.Scale == nil:
	case after.Scale == nil:
		unknown("subresource scale removed")
	case !equalValues(before.Scale, after.Scale):
		unknown("subresource scale changed")
	}

	for _, field := range old.SelectableFields {
		if !slices.Contains(updated.SelectableFields, field) {
			unknown(fmt.Sprintf("selectable field %q removed", excerpt.Start(field.JSONPath, maxTextBytes)))
		}
	}
}
