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

// Validate refuses descriptions of webhooks that must not be installed: two of one name, and such as
// could keep the cluster from being repaired because they are asked about everything, about operators
// or about webhooks. The error is the message of the failed ClusterServiceVersion.
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

// isConfiguration takes the plural, which is what rules hold, and the kind, which some authors write
// and which OLM Classic looks for; either may have a subresource.
func isConfiguration(resource string) bool {
	resource, _, _ = strings.Cut(strings.ToLower(resource), "/")
	switch strings.TrimSuffix(resource, "s") {
	case "*", "mutatingwebhookconfiguration", "validatingwebhookconfiguration":
		return true
	}
	return false
}

// validateConversion refuses a conversion webhook that could not work: a CRD is one for the whole
// cluster, and so must be what converts its objects.
func validateConversion(csv *v1alpha1.ClusterServiceVersion, d *v1alpha1.WebhookDescription) error {
	for _, mode := range csv.Spec.InstallModes {
		if mode.Supported != (mode.Type == v1alpha1.InstallModeTypeAllNamespaces) {
			return errInstallModes
		}
	}

	if !csvinfo.SupportsMode(csv.Spec.InstallModes, v1alpha1.InstallModeTypeAllNamespaces) {
		return errInstallModes
	}
	if len(d.ConversionCRDs) == 0 {
		return errNoCRD
	}
	return nil
}

// owns reports whether a ClusterServiceVersion owns a CRD.
func owns(csv *v1alpha1.ClusterServiceVersion, crd string) bool {
	return slices.ContainsFunc(csv.Spec.CustomResourceDefinitions.Owned, func(d v1alpha1.CRDDescription) bool { return d.Name == crd })
}

// converts reports whether objects of a CRD are converted by a webhook.
func converts(crd *apiextensionsv1.CustomResourceDefinition) bool {
	c := crd.Spec.Conversion
	return c != nil && c.Strategy == apiextensionsv1.WebhookConverter &&
		c.Webhook != nil && c.Webhook.ClientConfig != nil && len(c.Webhook.ClientConfig.CABundle) > 0
}
