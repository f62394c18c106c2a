package validate

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	columnTypes   = []string{"boolean", "date", "integer", "number", "string"}
	columnFormats = []string{"byte", "date", "date-time", "double", "float", "int32", "int64", "password"}
)

// maxSelectableFields is the maximum number of selectable fields of a version.
const maxSelectableFields = 8

func validateCRDVersion(version *apiextensions.CustomResourceDefinitionVersion, at *field.Path) field.ErrorList {
	faults := validateDNSLabel(at.Child("name"), version.Name)
	for _, wrong := range validateDeprecationWarning(version) {
		faults = append(faults, field.Invalid(at.Child("deprecationWarning"), *version.DeprecationWarning, wrong))
	}

	faults = append(faults, validateScale(version.Subresources, at.Child("subresources"))...)
	faults = append(faults, validatePrinterColumns(version.AdditionalPrinterColumns, at.Child("additionalPrinterColumns"))...)
	if len(version.SelectableFields) == 0 {
		return faults
	}

	selectable := at.Child("selectableFields")
	if version.Schema == nil || version.Schema.OpenAPIV3Schema == nil {
		return append(faults, field.Invalid(selectable, "", "may only be set when `version.schema.openAPIV3Schema` is not included"))
	}

	return append(faults, validateSelectableFields(version.SelectableFields, version.Schema.OpenAPIV3Schema, selectable)...)
}

func validateDeprecationWarning(version *apiextensions.CustomResourceDefinitionVersion) []string {
	if version.DeprecationWarning == nil {
		return nil
	}
	if !version.Deprecated {
		return []string{"can only be set for deprecated versions"}
	}

	text := *version.DeprecationWarning
	var wrong []string
	if len(text) > 256 {
		wrong = append(wrong, "must be <= 256 characters long")
	}
	if text == "" {
		wrong = append(wrong, "must not be an empty string")
	}
	if i := strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
		wrong = append(wrong, fmt.Sprintf("must only contain printable UTF-8 characters; non-printable character found at index %d", i))
	}
	if !utf8.ValidString(text) {
		wrong = append(wrong, "must only contain printable UTF-8 characters")
	}

	return wrong
}

// validateScale validates the paths of the scale subresource. The path of the status
// replicas is not checked, as nothing of a status is.
func validateScale(subresources *apiextensions.CustomResourceSubresources, at *field.Path) field.ErrorList {
	if subresources == nil || subresources.Scale == nil {
		return nil
	}

	scale := subresources.Scale
	var faults field.ErrorList
	switch path := at.Child("scale.specReplicasPath"); {
	case scale.SpecReplicasPath == "":
		faults = append(faults, field.Required(path, ""))
	case !strings.HasPrefix(scale.SpecReplicasPath, "."):
		faults = append(faults, field.Invalid(path, scale.SpecReplicasPath, "must be a simple json path starting with ."))
	case !strings.HasPrefix(scale.SpecReplicasPath, ".spec."):
		faults = append(faults, field.Invalid(path, scale.SpecReplicasPath, "should be a json path under .spec"))
	}

	if scale.LabelSelectorPath == nil || *scale.LabelSelectorPath == "" {
		return faults
	}

	switch path, selector := at.Child("scale.labelSelectorPath"), *scale.LabelSelectorPath; {
	case !strings.HasPrefix(selector, "."):
		faults = append(faults, field.Invalid(path, selector, "must be a simple json path starting with ."))
	case !strings.HasPrefix(selector, ".spec.") && !strings.HasPrefix(selector, ".status."):
		faults = append(faults, field.Invalid(path, selector, "should be a json path under either .spec or .status"))
	}

	return faults
}

func validatePrinterColumns(columns []apiextensions.CustomResourceColumnDefinition, at *field.Path) field.ErrorList {
	var faults field.ErrorList
	for i, column := range columns {
		at := at.Index(i)
		if column.Name == "" {
			faults = append(faults, field.Required(at.Child("name"), ""))
		}

		types := "must be one of " + strings.Join(columnTypes, ",")
		if column.Type == "" {
			faults = append(faults, field.Required(at.Child("type"), types))
		} else if !slices.Contains(columnTypes, column.Type) {
			faults = append(faults, field.Invalid(at.Child("type"), column.Type, types))
		}

		if column.Format != "" && !slices.Contains(columnFormats, column.Format) {
			faults = append(faults, field.Invalid(at.Child("format"), column.Format, "must be one of "+strings.Join(columnFormats, ",")))
		}

		if column.JSONPath == "" {
			faults = append(faults, field.Required(at.Child("JSONPath"), ""))
		} else if !strings.HasPrefix(column.JSONPath, ".") {
			faults = append(faults, field.Invalid(at.Child("JSONPath"), column.JSONPath, "must be a simple json path starting with ."))
		}
	}

	return faults
}

func validateSelectableFields(selectable []apiextensions.SelectableField, schema *apiextensions.JSONSchemaProps, at *field.Path) field.ErrorList {
	var faults field.ErrorList
	seen := sets.New[string]()
	for i, selected := range selectable {
		path := at.Index(i).Child("jsonPath")
		if selected.JSONPath == "" {
			faults = append(faults, field.Required(path, ""))
			continue
		}

		steps, found, err := resolveFieldPath(schema, selected.JSONPath)
		if err != nil {
			faults = append(faults, field.Invalid(path, selected.JSONPath, fmt.Sprintf("is an invalid path: %v", err)))
			continue
		}
		if steps[0] == "metadata" {
			faults = append(faults, field.Invalid(path, selected.JSONPath, "must not point to fields in metadata"))
		}
		if found == nil || !slices.Contains([]string{"string", "boolean", "integer"}, found.Type) {
			faults = append(faults, field.Invalid(path, selected.JSONPath, "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."))
		}

		if joined := strings.Join(steps, "."); seen.Has(joined) {
			faults = append(faults, field.Duplicate(path, selected.JSONPath))
		} else {
			seen.Insert(joined)
		}
	}

	if seen.Len() > maxSelectableFields {
		faults = append(faults, field.TooMany(at, seen.Len(), maxSelectableFields))
	}

	return faults
}

var errNoField = errors.New("does not refer to a valid field")

// resolveFieldPath follows a path such as .spec.color through a schema. It returns the
// steps and the schema of the field. The schema may be nil, which allows anything.
func resolveFieldPath(schema *apiextensions.JSONSchemaProps, path string) ([]string, *apiextensions.JSONSchemaProps, error) {
	if path[0] == '[' {
		return nil, nil, errors.New("array notation is not allowed")
	}
	if path[0] != '.' {
		token := path[:strings.IndexAny(path+".", ".[")]
		return nil, nil, fmt.Errorf("expected [ or . but got: %s", token)
	}

	steps := strings.Split(path[1:], ".")
	for i, step := range steps {
		if step == "" && i == len(steps)-1 {
			return nil, nil, errors.New("unexpected end of JSON path")
		}
		if schema == nil {
			return nil, nil, errNoField
		}

		step, _, array := strings.Cut(step, "[")
		property, ok := schema.Properties[step]
		switch {
		case ok:
			schema = &property
		case len(schema.Properties) > 0 || schema.AdditionalProperties == nil:
			return nil, nil, errNoField
		default:
			schema = schema.AdditionalProperties.Schema
		}

		if array {
			return nil, nil, errors.New("array notation is not allowed")
		}
	}

	return steps, schema, nil
}

func validateConversion(conversion *apiextensions.CustomResourceConversion, at *field.Path) field.ErrorList {
	faults := validateOneOf(at.Child("strategy"), conversion.Strategy, apiextensions.NoneConverter, apiextensions.WebhookConverter)
	config := at.Child("webhookClientConfig")
	reviews := at.Child("conversionReviewVersions")
	if conversion.Strategy != apiextensions.WebhookConverter {
		const only = "should not be set when strategy is not set to Webhook"
		if conversion.WebhookClientConfig != nil {
			faults = append(faults, field.Forbidden(config, only))
		}
		if len(conversion.ConversionReviewVersions) > 0 {
			faults = append(faults, field.Forbidden(reviews, only))
		}
		return faults
	}

	switch client := conversion.WebhookClientConfig; {
	case client == nil:
		faults = append(faults, field.Required(config, "required when strategy is set to Webhook"))
	case (client.URL == nil) == (client.Service == nil):
		faults = append(faults, field.Required(config, "exactly one of url or service is required"))
	case client.URL != nil:
		faults = append(faults, validateWebhookURL(*client.URL, config.Child("url"))...)
	default:
		faults = append(faults, validateWebhookService(client.Service, config.Child("service"))...)
	}

	return append(faults, validateReviewVersions(conversion.ConversionReviewVersions, reviews)...)
}

func validateReviewVersions(versions []string, at *field.Path) field.ErrorList {
	if len(versions) == 0 {
		return field.ErrorList{field.Required(at, "")}
	}

	var faults field.ErrorList
	for i, version := range versions {
		if slices.Contains(versions[:i], version) {
			faults = append(faults, field.Invalid(at.Index(i), version, "duplicate version"))
			continue
		}
		for _, wrong := range validation.IsDNS1035Label(version) {
			faults = append(faults, field.Invalid(at.Index(i), version, wrong))
		}
	}

	if !slices.Contains(versions, "v1") && !slices.Contains(versions, "v1beta1") {
		faults = append(faults, field.Invalid(at, versions, "must include at least one of v1, v1beta1"))
	}

	return faults
}

func validateWebhookURL(text string, at *field.Path) field.ErrorList {
	const form = "; desired format: https://host[/path]"
	link, err := url.Parse(text)
	if err != nil {
		return field.ErrorList{field.Required(at, "url must be a valid URL: "+err.Error()+form)}
	}

	var faults field.ErrorList
	if link.Scheme != "https" {
		faults = append(faults, field.Invalid(at, link.Scheme, "'https' is the only allowed URL scheme"+form))
	}
	if link.Host == "" {
		faults = append(faults, field.Invalid(at, link.Host, "host must be specified"+form))
	}
	if link.User != nil {
		// Do not print the password.
		faults = append(faults, field.Invalid(at, link.User.Username(), "user information is not permitted in the URL"))
	}
	if link.Fragment != "" {
		faults = append(faults, field.Invalid(at, link.Fragment, "fragments are not permitted in the URL"))
	}
	if link.RawQuery != "" {
		faults = append(faults, field.Invalid(at, link.RawQuery, "query parameters are not permitted in the URL"))
	}

	return faults
}

func validateWebhookService(service *apiextensions.ServiceReference, at *field.Path) field.ErrorList {
	var faults field.ErrorList
	// The library confuses the two fields here and reports the one that is set.
	if service.Name == "" {
		faults = append(faults, field.Required(at.Child("name"), ""))
	}
	if service.Namespace == "" {
		faults = append(faults, field.Required(at.Child("namespace"), ""))
	}
	if wrong := validation.IsValidPortNum(int(service.Port)); len(wrong) > 0 {
		faults = append(faults, field.Invalid(at.Child("port"), service.Port, "port is not valid: "+strings.Join(wrong, ", ")))
	}
	if service.Path == nil || *service.Path == "" || *service.Path == "/" {
		return faults
	}

	path := at.Child("path")
	text := *service.Path
	if text == "//" {
		return append(faults, field.Invalid(path, text, "segment[0] may not be empty"))
	}
	if !strings.HasPrefix(text, "/") {
		faults = append(faults, field.Invalid(path, text, "must start with a '/'"))
	}

	for i, segment := range strings.Split(strings.TrimSuffix(text[1:], "/"), "/") {
		if segment == "" {
			faults = append(faults, field.Invalid(path, text, fmt.Sprintf("segment[%d] may not be empty", i)))
			continue
		}
		for _, wrong := range validation.IsDNS1123Subdomain(segment) {
			faults = append(faults, field.Invalid(path, text, fmt.Sprintf("segment[%d]: %v", i, wrong)))
		}
	}

	return faults
}

// hasDefaults reports whether any schema of the CRD has a default.
func hasDefaults(spec *apiextensions.CustomResourceDefinitionSpec) bool {
	if spec.Validation != nil && schemaHasDefaults(spec.Validation.OpenAPIV3Schema) {
		return true
	}
	return slices.ContainsFunc(spec.Versions, func(v apiextensions.CustomResourceDefinitionVersion) bool {
		return v.Schema != nil && schemaHasDefaults(v.Schema.OpenAPIV3Schema)
	})
}

func schemaHasDefaults(schema *apiextensions.JSONSchemaProps) bool {
	if schema == nil {
		return false
	}
	if schema.Default != nil {
		return true
	}

	below := []*apiextensions.JSONSchemaProps{schema.Not}
	for _, list := range [][]apiextensions.JSONSchemaProps{schema.AllOf, schema.AnyOf, schema.OneOf} {
		for i := range list {
			below = append(below, &list[i])
		}
	}

	for _, named := range []map[string]apiextensions.JSONSchemaProps{schema.Properties, schema.PatternProperties, schema.Definitions} {
		for _, s := range named {
			below = append(below, &s)
		}
	}

	if schema.Items != nil {
		below = append(below, schema.Items.Schema)
		for i := range schema.Items.JSONSchemas {
			below = append(below, &schema.Items.JSONSchemas[i])
		}
	}

	for _, either := range []*apiextensions.JSONSchemaPropsOrBool{schema.AdditionalProperties, schema.AdditionalItems} {
		if either != nil {
			below = append(below, either.Schema)
		}
	}

	for _, dependency := range schema.Dependencies {
		below = append(below, dependency.Schema)
	}

	return slices.ContainsFunc(below, schemaHasDefaults)
}
