package webhook

import (
	"errors"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

var (
	errRepeated     = errors.New("CSV contains repeated WebhookDescription name")
	errAllGroups    = errors.New("webhook rules cannot include all groups")
	errOLMGroup     = errors.New("webhook rules cannot include the OLM group")
	errWebhookRules = errors.New("webhook rules cannot include MutatingWebhookConfiguration or ValidatingWebhookConfiguration resources")
	errInstallModes = errors.New("unable to manage conversion webhook: CSVs with conversion webhooks must support only AllNamespaces")
	errNoCRD        = errors.New("unable to manager conversion webhook: conversion webhook must have at least one CRD specified")
	errPreserve     = errors.New("crd.Spec.PreserveUnknownFields must be false to let API Server call webhook to do the conversion")
	errNotReady     = errors.New("conversionWebhook not ready")
	errNoGroup      = errors.New("error retrieving OperatorGroup info")
)

// Validate returns an error for webhooks that must not be installed: two with the same name, and webhooks for all
// API groups, for OLM's group or for webhook configurations. These could prevent a repair of the cluster. The
// error is the message of the failed ClusterServiceVersion.
func Validate(csv *v1alpha1.ClusterServiceVersion) error {
	names := sets.Set[string]{}
	for i := range csv.Spec.WebhookDefinitions {
		name := csv.Spec.WebhookDefinitions[i].GenerateName
		if names.Has(name) {
			return errRepeated
		}
		names.Insert(name)
	}

	for i := range csv.Spec.WebhookDefinitions {
		for _, rule := range csv.Spec.WebhookDefinitions[i].Rules {
			if err := validateRule(rule); err != nil {
				return err
			}
		}
	}

	return nil
}

func validateRule(rule admissionregistrationv1.RuleWithOperations) error {
	switch {
	case slices.Contains(rule.APIGroups, "*"):
		return errAllGroups
	case slices.Contains(rule.APIGroups, v1alpha1.GroupVersion.Group):
		return errOLMGroup
	case slices.Contains(rule.APIGroups, admissionregistrationv1.GroupName) && slices.ContainsFunc(rule.Resources, isConfiguration):
		return errWebhookRules
	}

	return nil
}

// isConfiguration reports whether a resource in a rule is a webhook configuration. It accepts the plural, which
// rules contain, and the kind, which some authors write and OLM Classic checks. Both may have a subresource.
func isConfiguration(resource string) bool {
	resource, _, _ = strings.Cut(strings.ToLower(resource), "/")
	switch strings.TrimSuffix(resource, "s") {
	case "*", "mutatingwebhookconfiguration", "validatingwebhookconfiguration":
		return true
	}
	return false
}

// validateConversion returns an error for a conversion webhook that cannot work. A CRD is cluster-scoped, so its
// conversion webhook must support all namespaces.
func validateConversion(csv *v1alpha1.ClusterServiceVersion, d *v1alpha1.WebhookDescription) error {
	for _, mode := range csv.Spec.InstallModes {
		if mode.Supported != (mode.Type == v1alpha1.InstallModeTypeAllNamespaces) {
			return errInstallModes
		}
	}

	if !csvinfo.SupportsInstallMode(csv.Spec.InstallModes, v1alpha1.InstallModeTypeAllNamespaces) {
		return errInstallModes
	}
	if len(d.ConversionCRDs) == 0 {
		return errNoCRD
	}
	return nil
}

// ownsCRD reports whether a ClusterServiceVersion owns a CRD.
func ownsCRD(csv *v1alpha1.ClusterServiceVersion, crd string) bool {
	return slices.ContainsFunc(csv.Spec.CustomResourceDefinitions.Owned, func(d v1alpha1.CRDDescription) bool { return d.Name == crd })
}

// hasConversionWebhook reports whether a CRD has a conversion webhook with a CA bundle.
func hasConversionWebhook(crd *apiextensionsv1.CustomResourceDefinition) bool {
	c := crd.Spec.Conversion
	return c != nil && c.Strategy == apiextensionsv1.WebhookConverter &&
		c.Webhook != nil && c.Webhook.ClientConfig != nil && len(c.Webhook.ClientConfig.CABundle) > 0
}
