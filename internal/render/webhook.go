package render

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/bundle"
)

// olmGroup is the API group of the objects that install extensions: an extension must
// not stand between a person and them.
const olmGroup = "olm.operatorframework.io"

// checkWebhooks says what is wrong with a bundle's webhooks, and that webhooks are not
// rendered yet.
func checkWebhooks(b *bundle.Bundle) []string {
	webhooks := b.CSV.Spec.WebhookDefinitions
	if len(webhooks) == 0 {
		return nil
	}
	var names []string
	for _, webhook := range webhooks {
		names = append(names, webhook.GenerateName)
	}
	reasons := []string{fmt.Sprintf("unsupported bundle: webhookDefinitions are not supported yet: %s", quoted(names))}
	reasons = append(reasons, checkWebhookNames(webhooks)...)
	reasons = append(reasons, checkWebhookDeployments(webhooks, deploymentNames(b))...)
	reasons = append(reasons, checkWebhookRules(webhooks)...)
	reasons = append(reasons, checkConversion(b)...)
	return reasons
}

func checkWebhookNames(webhooks []v1alpha1.WebhookDescription) []string {
	byType := map[v1alpha1.WebhookAdmissionType][]string{}
	var reasons []string
	for _, webhook := range webhooks {
		byType[webhook.Type] = append(byType[webhook.Type], webhook.GenerateName)
		if problems := validation.IsDNS1123Subdomain(webhook.GenerateName); len(problems) > 0 {
			reasons = append(reasons, fmt.Sprintf("invalid webhook name %q: %s", webhook.GenerateName, strings.Join(problems, ", ")))
		}
	}
	for _, webhookType := range []v1alpha1.WebhookAdmissionType{
		v1alpha1.ValidatingAdmissionWebhook, v1alpha1.MutatingAdmissionWebhook, v1alpha1.ConversionWebhook,
	} {
		if twice := duplicates(byType[webhookType]); len(twice) > 0 {
			reasons = append(reasons, fmt.Sprintf("duplicate webhooks of type %s: %s", webhookType, quoted(twice)))
		}
		delete(byType, webhookType)
	}
	for unknown, names := range byType {
		reasons = append(reasons, fmt.Sprintf("webhook %s has the unknown type %q", quoted(names), unknown))
	}
	slices.Sort(reasons)
	return reasons
}

func checkWebhookDeployments(webhooks []v1alpha1.WebhookDescription, deployments []string) []string {
	var reasons []string
	for _, webhook := range webhooks {
		if !slices.Contains(deployments, webhook.DeploymentName) {
			reasons = append(reasons, fmt.Sprintf("webhook %q is served by the deployment %q, which the ClusterServiceVersion does not have",
				webhook.GenerateName, webhook.DeploymentName))
		}
	}
	return reasons
}

// checkWebhookRules refuses webhooks that could stop the cluster from being repaired:
// those asked about everything, about extensions, or about webhooks.
func checkWebhookRules(webhooks []v1alpha1.WebhookDescription) []string {
	var reasons []string
	for _, webhook := range webhooks {
		for _, rule := range webhook.Rules {
			groups := rule.APIGroups
			switch {
			case slices.Contains(groups, "*"):
				reasons = append(reasons, fmt.Sprintf("webhook %q has a rule for all API groups", webhook.GenerateName))
			case slices.Contains(groups, olmGroup):
				reasons = append(reasons, fmt.Sprintf("webhook %q has a rule for the API group %q", webhook.GenerateName, olmGroup))
			case slices.Contains(groups, admissionregistrationv1.GroupName) && slices.ContainsFunc(rule.Resources, isWebhookConfiguration):
				reasons = append(reasons, fmt.Sprintf("webhook %q has a rule for webhook configurations", webhook.GenerateName))
			}
		}
	}
	return slices.Compact(reasons)
}

// isWebhookConfiguration takes the plural, which is what rules hold, and the kind,
// which some authors write; either may have a subresource.
func isWebhookConfiguration(resource string) bool {
	resource, _, _ = strings.Cut(strings.ToLower(resource), "/")
	switch strings.TrimSuffix(resource, "s") {
	case "*", "mutatingwebhookconfiguration", "validatingwebhookconfiguration":
		return true
	}
	return false
}

// checkConversion refuses conversion webhooks that could not work: a CRD is one for
// the whole cluster, and so must be what converts its objects.
func checkConversion(b *bundle.Bundle) []string {
	var converted, reasons []string
	for _, webhook := range b.CSV.Spec.WebhookDefinitions {
		if webhook.Type != v1alpha1.ConversionWebhook {
			continue
		}
		if modes := b.InstallModes(); !slices.Equal(modes, []v1alpha1.InstallModeType{v1alpha1.InstallModeTypeAllNamespaces}) {
			reasons = append(reasons, fmt.Sprintf("conversion webhook %q needs a bundle that supports AllNamespaces only, this one supports %v", webhook.GenerateName, modes))
		}
		if len(webhook.ConversionCRDs) == 0 {
			reasons = append(reasons, fmt.Sprintf("conversion webhook %q names no CustomResourceDefinition", webhook.GenerateName))
		}
		for _, name := range webhook.ConversionCRDs {
			if !slices.Contains(ownedCRDs(b), name) {
				reasons = append(reasons, fmt.Sprintf("conversion webhook %q converts CustomResourceDefinition %q, which the bundle does not own", webhook.GenerateName, name))
			}
		}
		converted = append(converted, webhook.ConversionCRDs...)
	}
	if twice := duplicates(converted); len(twice) > 0 {
		reasons = append(reasons, fmt.Sprintf("more than one conversion webhook for CustomResourceDefinition %s", quoted(twice)))
	}
	for _, crd := range b.CRDs {
		preserve, _, _ := unstructured.NestedBool(crd.Object, "spec", "preserveUnknownFields")
		if preserve && slices.Contains(converted, crd.GetName()) {
			reasons = append(reasons, fmt.Sprintf("CustomResourceDefinition %q has a conversion webhook and must not set preserveUnknownFields", crd.GetName()))
		}
	}
	return reasons
}
