package validate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/api/equality"
	objectmeta "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
)

// The rules for CRDs are those of an API server of Kubernetes 1.36 for a new CRD, with its
// texts. The rules for schemas and for the status are left out, as in existing tools. This
// is a copy because the API server's library links much of the server: 6 MiB of memory and
// 8 ms at every start. A test compares the two.

// crdDocument is a CRD of a bundle.
type crdDocument struct {
	// name, kind and versions are what the CSV refers to.
	name, kind string
	versions   []string
	v1beta1    bool
	internal   *apiextensions.CustomResourceDefinition
}

// decodeCRD decodes a CRD of version v1 or v1beta1, with the defaults that the API server
// sets. The second result reports whether the version is unknown.
func decodeCRD(content map[string]any) (*crdDocument, bool, error) {
	raw, err := json.Marshal(content)
	if err != nil {
		return nil, false, err
	}

	document := &crdDocument{internal: &apiextensions.CustomResourceDefinition{}}
	switch content["apiVersion"] {
	case apiextensionsv1.SchemeGroupVersion.String():
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, crd); err != nil {
			return nil, false, err
		}
		apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(crd)
		err = apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, document.internal, nil)
	case apiextensionsv1beta1.SchemeGroupVersion.String():
		crd := &apiextensionsv1beta1.CustomResourceDefinition{}
		if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, crd); err != nil {
			return nil, false, err
		}
		document.v1beta1 = true
		apiextensionsv1beta1.SetObjectDefaults_CustomResourceDefinition(crd)
		err = apiextensionsv1beta1.Convert_v1beta1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, document.internal, nil)
	default:
		return nil, true, nil
	}

	if err != nil {
		return nil, false, fmt.Errorf("error converting crd: %w", err)
	}

	document.name = document.internal.Name
	document.kind = document.internal.Spec.Names.Kind
	for _, version := range document.internal.Spec.Versions {
		document.versions = append(document.versions, version.Name)
	}

	return document, false, nil
}

// validateCRD validates a CRD.
func validateCRD(crd *apiextensions.CustomResourceDefinition) field.ErrorList {
	var faults field.ErrorList
	faults = append(faults, validateCRDMetadata(crd)...)
	faults = append(faults, validateCRDSpec(&crd.Spec, field.NewPath("spec"))...)
	faults = append(faults, validateCRDApproval(crd)...)
	if crd.Spec.PreserveUnknownFields != nil && *crd.Spec.PreserveUnknownFields {
		faults = append(faults, field.Invalid(field.NewPath("spec", "preserveUnknownFields"), true,
			"cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"))
	}

	return slices.DeleteFunc(faults, func(fault *field.Error) bool {
		return strings.Contains(fault.Field, "openAPIV3Schema") || strings.Contains(fault.Field, "status")
	})
}

func validateCRDMetadata(crd *apiextensions.CustomResourceDefinition) field.ErrorList {
	checkName := func(name string, prefix bool) []string {
		faults := objectmeta.NameIsDNSSubdomain(name, prefix)
		if name != crd.Spec.Names.Plural+"."+crd.Spec.Group {
			faults = append(faults, `must be spec.names.plural+"."+spec.group`)
		}
		return faults
	}

	faults := objectmeta.ValidateObjectMeta(&crd.ObjectMeta, false, checkName, field.NewPath("metadata"))
	return sortErrors(faults)
}

// sortErrors sorts errors, some of which come from maps.
func sortErrors(faults field.ErrorList) field.ErrorList {
	slices.SortStableFunc(faults, func(a, b *field.Error) int {
		return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Error(), b.Error()))
	})
	return faults
}

func validateCRDSpec(spec *apiextensions.CustomResourceDefinitionSpec, at *field.Path) field.ErrorList {
	var faults field.ErrorList
	add := func(more ...*field.Error) { faults = append(faults, more...) }

	if group := at.Child("group"); spec.Group == "" {
		add(field.Required(group, ""))
	} else if wrong := validation.IsDNS1123Subdomain(spec.Group); len(wrong) > 0 {
		add(field.Invalid(group, spec.Group, strings.Join(wrong, ",")))
	} else if !strings.Contains(spec.Group, ".") {
		add(field.Invalid(group, spec.Group, "should be a domain with at least one dot"))
	}

	add(validateOneOf(at.Child("scope"), spec.Scope, apiextensions.ClusterScoped, apiextensions.NamespaceScoped)...)
	prunes := spec.PreserveUnknownFields != nil && !*spec.PreserveUnknownFields
	if !prunes && hasDefaults(spec) {
		add(field.Invalid(at.Child("preserveUnknownFields"), true, "must be false in order to use defaults in the schema"))
	}

	for i := range spec.Versions {
		add(validateCRDVersion(&spec.Versions[i], at.Child("versions").Index(i))...)
	}

	add(validateCRDVersionsTogether(spec, at)...)
	if spec.Version != "" {
		add(validateDNSLabel(at.Child("version"), spec.Version)...)
		if len(spec.Versions) > 0 && spec.Versions[0].Name != spec.Version {
			add(field.Invalid(at.Child("version"), spec.Version, "must match the first version in spec.versions"))
		}
	}

	add(validateCRDNames(&spec.Names, at.Child("names"))...)
	add(validateScale(spec.Subresources, at.Child("subresources"))...)
	add(validatePrinterColumns(spec.AdditionalPrinterColumns, at.Child("additionalPrinterColumns"))...)
	if len(spec.SelectableFields) > 0 {
		selectable := at.Child("selectableFields")
		if spec.Validation == nil {
			add(field.Invalid(selectable, "", "may only be set when validations.schema is included"))
		} else {
			add(validateSelectableFields(spec.SelectableFields, spec.Validation.OpenAPIV3Schema, selectable)...)
		}
	}

	if spec.Conversion != nil {
		conversion := at.Child("conversion")
		if spec.Conversion.Strategy != apiextensions.NoneConverter && !prunes {
			add(field.Invalid(conversion.Child("strategy"), spec.Conversion.Strategy, "must be None if spec.preserveUnknownFields is true"))
		}
		add(validateConversion(spec.Conversion, conversion)...)
	}

	return faults
}

// validateCRDVersionsTogether checks the rules that concern all versions.
func validateCRDVersionsTogether(spec *apiextensions.CustomResourceDefinitionSpec, at *field.Path) field.ErrorList {
	var faults field.ErrorList
	versions := spec.Versions
	type part struct {
		name, names, top string
		atTop            bool
		of               func(*apiextensions.CustomResourceDefinitionVersion) (value any, set bool)
	}
	parts := []part{
		{"validation", "schemas", "validation", spec.Validation != nil, func(v *apiextensions.CustomResourceDefinitionVersion) (any, bool) {
			return v.Schema, v.Schema != nil
		}},
		{"subresources", "subresources", "subresources", spec.Subresources != nil, func(v *apiextensions.CustomResourceDefinitionVersion) (any, bool) {
			return v.Subresources, v.Subresources != nil
		}},
		{"additionalPrinterColumns", "additionalPrinterColumns", "additionalPrinterColumns", len(spec.AdditionalPrinterColumns) > 0,
			func(v *apiextensions.CustomResourceDefinitionVersion) (any, bool) {
				return v.AdditionalPrinterColumns, len(v.AdditionalPrinterColumns) > 0
			}},
	}

	for _, p := range parts {
		if p.atTop && slices.ContainsFunc(versions, func(v apiextensions.CustomResourceDefinitionVersion) bool { _, set := p.of(&v); return set }) {
			faults = append(faults, field.Forbidden(at.Child(p.name), fmt.Sprintf("top-level and per-version %s are mutually exclusive", p.names)))
		}
	}

	// The library's text contains the whole versions. Their names are sufficient.
	names := make([]string, 0, len(versions))
	stored := 0
	for _, v := range versions {
		names = append(names, v.Name)
		if v.Storage {
			stored++
		}
	}

	invalid := func(detail string) {
		faults = append(faults, field.Invalid(at.Child("versions"), names, detail))
	}
	for _, p := range parts {
		if isIdenticalInAllVersions(versions, p.of) {
			invalid(fmt.Sprintf("per-version %s may not all be set to identical values (top-level %s should be used instead)", p.names, p.top))
		}
	}

	if sorted := slices.Sorted(slices.Values(names)); len(slices.Compact(sorted)) < len(names) {
		invalid("must contain unique version names")
	}
	if stored != 1 {
		invalid("must have exactly one version marked as storage version")
	}

	return faults
}

// isIdenticalInAllVersions reports whether a part is set, and the same, in all versions.
func isIdenticalInAllVersions(versions []apiextensions.CustomResourceDefinitionVersion, of func(*apiextensions.CustomResourceDefinitionVersion) (any, bool)) bool {
	for i := range versions {
		value, set := of(&versions[i])
		first, _ := of(&versions[0])
		if !set || !equality.Semantic.DeepEqual(value, first) {
			return false
		}
	}

	return len(versions) > 0
}

func validateCRDNames(names *apiextensions.CustomResourceDefinitionNames, at *field.Path) field.ErrorList {
	var faults field.ErrorList
	for _, name := range []struct {
		child, value string
		mixed        bool
	}{{"plural", names.Plural, false}, {"singular", names.Singular, false}, {"kind", names.Kind, true}, {"listKind", names.ListKind, true}} {
		switch child := at.Child(name.child); {
		case name.value == "":
			faults = append(faults, field.Required(child, ""))
		case !name.mixed:
			faults = append(faults, validateDNSLabel(child, name.value)...)
		default:
			if wrong := validation.IsDNS1035Label(strings.ToLower(name.value)); len(wrong) > 0 {
				faults = append(faults, field.Invalid(child, name.value, "may have mixed case, but should otherwise match: "+strings.Join(wrong, ",")))
			}
		}
	}

	if names.Kind != "" && names.Kind == names.ListKind {
		faults = append(faults, field.Invalid(at.Child("listKind"), names.ListKind, "kind and listKind may not be the same"))
	}

	for i, name := range names.ShortNames {
		faults = append(faults, validateDNSLabel(at.Child("shortNames").Index(i), name)...)
	}

	for i, name := range names.Categories {
		faults = append(faults, validateDNSLabel(at.Child("categories").Index(i), name)...)
	}

	return faults
}

// groupApproval is the annotation that is required in the protected API groups of
// Kubernetes.
const groupApproval = "api-approved.kubernetes.io"

func validateCRDApproval(crd *apiextensions.CustomResourceDefinition) field.ErrorList {
	group := "." + crd.Spec.Group
	if !strings.HasSuffix(group, ".k8s.io") && !strings.HasSuffix(group, ".kubernetes.io") {
		return nil
	}

	const where = ", see https://github.com/kubernetes/enhancements/pull/1111"
	at := field.NewPath("metadata", "annotations").Key(groupApproval)
	approval := crd.Annotations[groupApproval]
	link, err := url.ParseRequestURI(approval)
	switch {
	case approval == "":
		return field.ErrorList{field.Required(at, fmt.Sprintf("protected groups must have approval annotation %q", groupApproval)+where)}
	case strings.HasPrefix(approval, "unapproved"), err == nil && link.Host != "" && link.Scheme != "":
		return nil
	default:
		return field.ErrorList{field.Invalid(at, approval,
			fmt.Sprintf("protected groups must have approval annotation %q with either a URL or a reason starting with \"unapproved\"", groupApproval)+where)}
	}
}

func validateDNSLabel(at *field.Path, name string) field.ErrorList {
	if wrong := validation.IsDNS1035Label(name); len(wrong) > 0 {
		return field.ErrorList{field.Invalid(at, name, strings.Join(wrong, ","))}
	}
	return nil
}

// validateOneOf checks that a required value is in a list.
func validateOneOf[T ~string](at *field.Path, value T, accepted ...T) field.ErrorList {
	switch {
	case value == "":
		return field.ErrorList{field.Required(at, "")}
	case slices.Contains(accepted, value):
		return nil
	default:
		return field.ErrorList{field.NotSupported(at, value, accepted)}
	}
}
