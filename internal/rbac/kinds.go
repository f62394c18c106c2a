package rbac

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// bundleKinds are the kinds of objects in registry+v1 bundles and of those rendered for them,
// including those for cert-manager. As in that format, only the kind counts, not the group.
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

// BundleResource returns the resource of a kind that bundles contain. It is for [Options] without
// a cluster. It returns an error for other kinds.
func BundleResource(kind schema.GroupVersionKind) (Resource, error) {
	if found, ok := bundleKinds[kind.Kind]; ok {
		return found, nil
	}
	return Resource{}, fmt.Errorf("bundles have no objects of kind %s", kind)
}
