package rbac

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// bundleKinds are the kinds of objects that bundles of the format registry+v1 have and
// that are made for them, those for cert-manager included. As in that format, kinds alone decide, whatever their group.
var bundleKinds = map[string]Resource{
	"Certificate":                    {Name: "certificates", Namespaced: true},
	"ClusterRole":                    {Name: "clusterroles"},
	"ClusterRoleBinding":             {Name: "clusterrolebindings"},
	"ConfigMap":                      {Name: "configmaps", Namespaced: true},
	"ConsoleCLIDownload":             {Name: "consoleclidownloads"},
	"ConsoleLink":                    {Name: "consolelinks"},
	"ConsolePlugin":                  {Name: "consoleplugins"},
	"ConsoleQuickStart":              {Name: "consolequickstarts"},
	"ConsoleYAMLSample":              {Name: "consoleyamlsamples"},
	"CustomResourceDefinition":       {Name: "customresourcedefinitions"},
	"Deployment":                     {Name: "deployments", Namespaced: true},
	"Issuer":                         {Name: "issuers", Namespaced: true},
	"MutatingWebhookConfiguration":   {Name: "mutatingwebhookconfigurations"},
	"NetworkPolicy":                  {Name: "networkpolicies", Namespaced: true},
	"PodDisruptionBudget":            {Name: "poddisruptionbudgets", Namespaced: true},
	"PodMonitor":                     {Name: "podmonitors", Namespaced: true},
	"PriorityClass":                  {Name: "priorityclasses"},
	"PrometheusRule":                 {Name: "prometheusrules", Namespaced: true},
	"Role":                           {Name: "roles", Namespaced: true},
	"RoleBinding":                    {Name: "rolebindings", Namespaced: true},
	"Secret":                         {Name: "secrets", Namespaced: true},
	"Service":                        {Name: "services", Namespaced: true},
	"ServiceAccount":                 {Name: "serviceaccounts", Namespaced: true},
	"ServiceMonitor":                 {Name: "servicemonitors", Namespaced: true},
	"ValidatingWebhookConfiguration": {Name: "validatingwebhookconfigurations"},
	"VerticalPodAutoscaler":          {Name: "verticalpodautoscalers", Namespaced: true},
}

// BundleResource says where API servers keep the kinds that bundles have. It is for
// [Options] where no cluster can be asked.
func BundleResource(kind schema.GroupVersionKind) (Resource, error) {
	if found, ok := bundleKinds[kind.Kind]; ok {
		return found, nil
	}
	return Resource{}, fmt.Errorf("bundles have no objects of kind %s", kind)
}
