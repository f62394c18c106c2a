// Package crdv1beta1 reads CRDs of apiextensions.k8s.io/v1beta1, the version before v1.
// Bundles for clusters below Kubernetes 1.22 contain it.
//
// It defines only what differs from v1. The package of Kubernetes for that version would
// add its protocol buffers to each program. Programs such as opm, which starts in
// milliseconds, would initialize them at every start. This package does not validate the
// definition.
package crdv1beta1

import (
	"cmp"
	"errors"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// APIVersion is the apiVersion of the CRDs.
const APIVersion = "apiextensions.k8s.io/v1beta1"

// CustomResourceDefinition is a CRD as written.
type CustomResourceDefinition struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   Spec                                           `json:"spec"`
	Status apiextensionsv1.CustomResourceDefinitionStatus `json:"status,omitempty"`
}

// Spec has fields for all versions that v1 has for each version.
type Spec struct {
	Group                    string                                        `json:"group"`
	Version                  string                                        `json:"version,omitempty"`
	Names                    apiextensionsv1.CustomResourceDefinitionNames `json:"names"`
	Scope                    apiextensionsv1.ResourceScope                 `json:"scope"`
	Validation               *apiextensionsv1.CustomResourceValidation     `json:"validation,omitempty"`
	Subresources             *apiextensionsv1.CustomResourceSubresources   `json:"subresources,omitempty"`
	Versions                 []Version                                     `json:"versions,omitempty"`
	AdditionalPrinterColumns []Column                                      `json:"additionalPrinterColumns,omitempty"`
	SelectableFields         []apiextensionsv1.SelectableField             `json:"selectableFields,omitempty"`
	Conversion               *Conversion                                   `json:"conversion,omitempty"`
	PreserveUnknownFields    *bool                                         `json:"preserveUnknownFields,omitempty"`
}

// Version is one version of the kind.
type Version struct {
	Name                     string                                      `json:"name"`
	Served                   bool                                        `json:"served"`
	Storage                  bool                                        `json:"storage"`
	Deprecated               bool                                        `json:"deprecated,omitempty"`
	DeprecationWarning       *string                                     `json:"deprecationWarning,omitempty"`
	Schema                   *apiextensionsv1.CustomResourceValidation   `json:"schema,omitempty"`
	Subresources             *apiextensionsv1.CustomResourceSubresources `json:"subresources,omitempty"`
	AdditionalPrinterColumns []Column                                    `json:"additionalPrinterColumns,omitempty"`
	SelectableFields         []apiextensionsv1.SelectableField           `json:"selectableFields,omitempty"`
}

// Column is a printer column. The JSON name of its path differs from v1.
type Column struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	Format      string `json:"format,omitempty"`
	Description string `json:"description,omitempty"`
	Priority    int32  `json:"priority,omitempty"`
	JSONPath    string `json:"JSONPath"`
}

// Conversion is the conversion between versions. In v1, the fields of a webhook are in a
// separate struct.
type Conversion struct {
	Strategy                 apiextensionsv1.ConversionStrategyType `json:"strategy"`
	WebhookClientConfig      *apiextensionsv1.WebhookClientConfig   `json:"webhookClientConfig,omitempty"`
	ConversionReviewVersions []string                               `json:"conversionReviewVersions,omitempty"`
}

// Internal returns the CRD in the internal version of the API server, with its defaults.
func (c *CustomResourceDefinition) Internal() (*apiextensions.CustomResourceDefinition, error) {
	c.setDefaults()
	out := &apiextensions.CustomResourceDefinition{ObjectMeta: c.ObjectMeta}
	to, from := &out.Spec, &c.Spec
	to.Group = from.Group
	to.Version = from.Version
	to.Scope = apiextensions.ResourceScope(from.Scope)
	to.PreserveUnknownFields = from.PreserveUnknownFields
	to.AdditionalPrinterColumns = convertColumns(from.AdditionalPrinterColumns)
	to.SelectableFields = convertSelectableFields(from.SelectableFields)
	err := apiextensionsv1.Convert_v1_CustomResourceDefinitionNames_To_apiextensions_CustomResourceDefinitionNames(&from.Names, &to.Names, nil)
	to.Validation, err = convertSchema(from.Validation, err)
	to.Subresources, err = convertSubresources(from.Subresources, err)
	to.Conversion, err = from.Conversion.toInternal(err)
	if from.Versions != nil {
		to.Versions = make([]apiextensions.CustomResourceDefinitionVersion, 0, len(from.Versions))
	}

	for _, version := range from.Versions {
		converted := apiextensions.CustomResourceDefinitionVersion{
			Name: version.Name, Served: version.Served, Storage: version.Storage,
			Deprecated: version.Deprecated, DeprecationWarning: version.DeprecationWarning,
			AdditionalPrinterColumns: convertColumns(version.AdditionalPrinterColumns), SelectableFields: convertSelectableFields(version.SelectableFields),
		}
		converted.Schema, err = convertSchema(version.Schema, err)
		converted.Subresources, err = convertSubresources(version.Subresources, err)
		to.Versions = append(to.Versions, converted)
	}

	return out, errors.Join(err, apiextensionsv1.Convert_v1_CustomResourceDefinitionStatus_To_apiextensions_CustomResourceDefinitionStatus(&c.Status, &out.Status, nil))
}

// setDefaults sets the defaults of the API server.
func (c *CustomResourceDefinition) setDefaults() {
	spec := &c.Spec
	spec.Scope = cmp.Or(spec.Scope, apiextensionsv1.NamespaceScoped)
	spec.Names.Singular = cmp.Or(spec.Names.Singular, strings.ToLower(spec.Names.Kind))
	if spec.Names.Kind != "" {
		spec.Names.ListKind = cmp.Or(spec.Names.ListKind, spec.Names.Kind+"List")
	}

	switch {
	case len(spec.Versions) == 0 && spec.Version != "":
		spec.Versions = []Version{{Name: spec.Version, Served: true, Storage: true}}
	case len(spec.Versions) > 0:
		spec.Version = cmp.Or(spec.Version, spec.Versions[0].Name)
	}

	if spec.Conversion == nil {
		spec.Conversion = &Conversion{Strategy: apiextensionsv1.NoneConverter}
	}
	if spec.Conversion.Strategy == apiextensionsv1.WebhookConverter && len(spec.Conversion.ConversionReviewVersions) == 0 {
		spec.Conversion.ConversionReviewVersions = []string{"v1beta1"}
	}
	if webhook := spec.Conversion.WebhookClientConfig; webhook != nil && webhook.Service != nil {
		apiextensionsv1.SetDefaults_ServiceReference(webhook.Service)
	}
	if spec.PreserveUnknownFields == nil {
		spec.PreserveUnknownFields = new(true)
	}

	for _, version := range spec.Versions {
		if version.Storage && len(c.Status.StoredVersions) == 0 {
			c.Status.StoredVersions = []string{version.Name}
		}
	}
}

func (c *Conversion) toInternal(err error) (*apiextensions.CustomResourceConversion, error) {
	out := &apiextensions.CustomResourceConversion{
		Strategy: apiextensions.ConversionStrategyType(c.Strategy), ConversionReviewVersions: c.ConversionReviewVersions,
	}
	if c.WebhookClientConfig == nil {
		return out, err
	}

	out.WebhookClientConfig = &apiextensions.WebhookClientConfig{}
	return out, errors.Join(err, apiextensionsv1.Convert_v1_WebhookClientConfig_To_apiextensions_WebhookClientConfig(c.WebhookClientConfig, out.WebhookClientConfig, nil))
}

func convertSchema(in *apiextensionsv1.CustomResourceValidation, err error) (*apiextensions.CustomResourceValidation, error) {
	if in == nil {
		return nil, err
	}
	out := &apiextensions.CustomResourceValidation{}
	return out, errors.Join(err, apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(in, out, nil))
}

func convertSubresources(in *apiextensionsv1.CustomResourceSubresources, err error) (*apiextensions.CustomResourceSubresources, error) {
	if in == nil {
		return nil, err
	}
	out := &apiextensions.CustomResourceSubresources{}
	return out, errors.Join(err, apiextensionsv1.Convert_v1_CustomResourceSubresources_To_apiextensions_CustomResourceSubresources(in, out, nil))
}

func convertColumns(in []Column) []apiextensions.CustomResourceColumnDefinition {
	if in == nil {
		return nil
	}

	out := make([]apiextensions.CustomResourceColumnDefinition, 0, len(in))
	for _, column := range in {
		out = append(out, apiextensions.CustomResourceColumnDefinition(column))
	}
	return out
}

func convertSelectableFields(in []apiextensionsv1.SelectableField) []apiextensions.SelectableField {
	if in == nil {
		return nil
	}

	out := make([]apiextensions.SelectableField, 0, len(in))
	for _, field := range in {
		out = append(out, apiextensions.SelectableField(field))
	}
	return out
}
