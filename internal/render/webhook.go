package render

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/bundle"
)

// olmGroup is the API group of the objects that install extensions. The webhooks of an extension
// must not block access to them.
const olmGroup = "olm.operatorframework.io"

// checkWebhooks returns the problems of a bundle's webhooks.
func checkWebhooks(b *bundle.Bundle) []string {
	webhooks := b.CSV.Spec.WebhookDefinitions
	return slices.Concat(
		checkWebhookNames(webhooks),
		checkWebhookDeployments(webhooks, deploymentNames(b)),
		checkWebhookServices(webhooks),
		checkWebhookPorts(webhooks),
		checkWebhookFields(webhooks),
		checkWebhookRules(webhooks),
		checkConversionWebhooks(b),
	)
}

// webhookTypes are the known types. Names of admission webhooks need at least three labels, such
// as v.example.com.
var webhookTypes = []v1alpha1.WebhookAdmissionType{
	v1alpha1.ValidatingAdmissionWebhook, v1alpha1.MutatingAdmissionWebhook, v1alpha1.ConversionWebhook,
}

func checkWebhookNames(webhooks []v1alpha1.WebhookDescription) []string {
	byType := map[v1alpha1.WebhookAdmissionType][]string{}
	var reasons []string
	for _, webhook := range webhooks {
		name := webhookName(webhook)
		byType[webhook.Type] = append(byType[webhook.Type], name)
		problems := validation.IsDNS1123Subdomain(name)
		if len(problems) == 0 && webhook.Type != v1alpha1.ConversionWebhook && strings.Count(name, ".") < 2 {
			problems = []string{"an admission webhook is named by a domain of at least three parts, such as v.example.com"}
		}
		if len(problems) > 0 {
			reasons = append(reasons, fmt.Sprintf("invalid webhook name %q: %s", webhook.GenerateName, strings.Join(problems, ", ")))
		}
	}

	for _, webhookType := range webhookTypes {
		if repeated := findDuplicates(byType[webhookType]); len(repeated) > 0 {
			reasons = append(reasons, fmt.Sprintf("duplicate webhooks of type %s: %s", webhookType, quoteNames(repeated)))
		}
		delete(byType, webhookType)
	}

	for unknown, names := range byType {
		reasons = append(reasons, fmt.Sprintf("webhook %s has the unknown type %q", quoteNames(names), unknown))
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

// checkWebhookServices refuses Deployments with different names whose Services would have the same
// name.
func checkWebhookServices(webhooks []v1alpha1.WebhookDescription) []string {
	byService := map[string][]string{}
	for _, webhook := range webhooks {
		service := ServiceName(webhook.DeploymentName)
		if !slices.Contains(byService[service], webhook.DeploymentName) {
			byService[service] = append(byService[service], webhook.DeploymentName)
		}
	}

	var reasons []string
	for service, deployments := range byService {
		if len(deployments) > 1 {
			reasons = append(reasons, fmt.Sprintf("the webhooks of the deployments %s would share the Service %q: one must be renamed", quoteNames(deployments), service))
		}
	}

	slices.Sort(reasons)
	return reasons
}

// checkWebhookPorts refuses ports that are invalid for a Service, and two targets for one port.
func checkWebhookPorts(webhooks []v1alpha1.WebhookDescription) []string {
	type address struct {
		deployment string
		port       int32
	}
	var reasons []string
	targets := map[address]intstr.IntOrString{}
	for _, webhook := range webhooks {
		port := webhookServicePort(webhook)
		problems := validation.IsValidPortNum(int(port.Port))
		if port.TargetPort.Type == intstr.String {
			problems = append(problems, validation.IsValidPortName(port.TargetPort.StrVal)...)
		} else if port.TargetPort.IntVal != port.Port {
			problems = append(problems, validation.IsValidPortNum(int(port.TargetPort.IntVal))...)
		}

		if len(problems) > 0 {
			reasons = append(reasons, fmt.Sprintf("webhook %q has an invalid port: %s", webhook.GenerateName, strings.Join(problems, ", ")))
		}

		at := address{webhook.DeploymentName, port.Port}
		if first, taken := targets[at]; taken && first != port.TargetPort {
			reasons = append(reasons, fmt.Sprintf("webhook %q leads the port %d of deployment %q to %s, another one to %s",
				webhook.GenerateName, at.port, at.deployment, port.TargetPort.String(), first.String()))
			continue
		}

		targets[at] = port.TargetPort
	}

	return reasons
}

// checkWebhookFields refuses values that the API server would reject only in the last phase of a
// rollout.
func checkWebhookFields(webhooks []v1alpha1.WebhookDescription) []string {
	var reasons []string
	addReason := func(webhook v1alpha1.WebhookDescription, format string, args ...any) {
		reasons = append(reasons, fmt.Sprintf("webhook %q ", webhook.GenerateName)+fmt.Sprintf(format, args...))
	}
	for _, webhook := range webhooks {
		if versions := webhook.AdmissionReviewVersions; !slices.Contains(versions, "v1") && !slices.Contains(versions, "v1beta1") {
			addReason(webhook, "understands the review versions %v, none of which is v1 or v1beta1", versions)
		}
		if path := ptr.Deref(webhook.WebhookPath, ""); path != "" && !strings.HasPrefix(path, "/") {
			addReason(webhook, "has the path %q, which does not begin with a slash", path)
		}
		if webhook.Type == v1alpha1.ConversionWebhook {
			continue
		}

		switch effects := ptr.Deref(webhook.SideEffects, ""); effects {
		case admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.SideEffectClassNoneOnDryRun:
		default:
			addReason(webhook, "has the side effects %q, only None and NoneOnDryRun are allowed", effects)
		}

		if seconds := ptr.Deref(webhook.TimeoutSeconds, 1); seconds < 1 || seconds > 30 {
			addReason(webhook, "has a timeout of %d seconds, which must be from 1 to 30", seconds)
		}
	}

	return reasons
}

// checkWebhookRules refuses webhooks that could prevent the repair of the cluster: those for
// everything, for extensions, or for webhook configurations.
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

// isWebhookConfiguration reports whether a resource is a webhook configuration. It accepts the
// plural, which is correct in rules, and the kind, which some authors use, each with an optional
// subresource.
func isWebhookConfiguration(resource string) bool {
	resource, _, _ = strings.Cut(strings.ToLower(resource), "/")
	switch strings.TrimSuffix(resource, "s") {
	case "*", "mutatingwebhookconfiguration", "validatingwebhookconfiguration":
		return true
	}
	return false
}

// checkConversionWebhooks refuses conversion webhooks that could not work. A CRD is cluster-wide,
// and so must be its conversion webhook.
func checkConversionWebhooks(b *bundle.Bundle) []string {
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
			if !slices.Contains(ownedCRDNames(b), name) {
				reasons = append(reasons, fmt.Sprintf("conversion webhook %q converts CustomResourceDefinition %q, which the bundle does not own", webhook.GenerateName, name))
			}
		}

		converted = append(converted, webhook.ConversionCRDs...)
	}

	if repeated := findDuplicates(converted); len(repeated) > 0 {
		reasons = append(reasons, fmt.Sprintf("more than one conversion webhook for CustomResourceDefinition %s", quoteNames(repeated)))
	}

	for _, crd := range b.CRDs {
		preserve, _, _ := unstructured.NestedBool(crd.Object, "spec", "preserveUnknownFields")
		if preserve && slices.Contains(converted, crd.GetName()) {
			reasons = append(reasons, fmt.Sprintf("CustomResourceDefinition %q has a conversion webhook and must not set preserveUnknownFields", crd.GetName()))
		}
	}

	return reasons
}
