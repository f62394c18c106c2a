package plan

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/apply"
	"github.com/mainstay-dev/mainstay/internal/crdsafety"
	"github.com/mainstay-dev/mainstay/internal/rbac"
	"github.com/mainstay-dev/mainstay/internal/render"
)

const (
	kindCRD        = "CustomResourceDefinition"
	kindDeployment = "Deployment"
)

// bundleChecks are the checks of the bundle as its extension would render it.
var bundleChecks = []func(f *Facts, o Options, rendered []unstructured.Unstructured) []Finding{
	checkSameBundle, checkForeignObjects, checkPodTemplates, checkProxy, checkCRDs, checkWebhooks, checkServiceAccount,
}

// renderBundle renders the installed bundle as the extension would render it.
func renderBundle(f *Facts) ([]unstructured.Unstructured, []Finding) {
	objects, err := render.Render(f.Bundle, renderOptions(f, newConfig(f)))
	var config *render.ConfigError
	switch {
	case errors.As(err, &config):
		return nil, []Finding{newBlocker("Configuration", f.subscriptionText(), "change the OperatorGroup or spec.config of the Subscription", "%v", err)}
	case err != nil:
		return nil, []Finding{newBlocker("Bundle", f.csvText(), "use a version of the operator that OLM v1 can install", "%v", err)}
	}
	return objects, nil
}

// checkSameBundle compares the bundle of the catalog with the installed CSV. A name and a version
// do not prove that the content is the same.
func checkSameBundle(f *Facts, _ Options, _ []unstructured.Unstructured) []Finding {
	var c comparison
	for _, part := range []struct {
		path         string
		wanted, live any
	}{
		{"spec.install", f.Bundle.CSV.Spec.InstallStrategy, f.CSV.Spec.InstallStrategy},
		{"spec.webhookdefinitions", f.Bundle.CSV.Spec.WebhookDefinitions, f.CSV.Spec.WebhookDefinitions},
	} {
		if equality.Semantic.DeepEqual(part.wanted, part.live) {
			continue
		}
		if err := c.compareValues(part.path, part.wanted, part.live); err != nil {
			return []Finding{newBlocker("SameBundle", f.csvText(), "correct the bundle", "%v", err)}
		}
		if err := c.compareValues(part.path, part.live, part.wanted); err != nil {
			return []Finding{newBlocker("SameBundle", f.csvText(), "correct the bundle", "%v", err)}
		}
	}

	changes := c.sortedChanges()
	if len(changes) == 0 {
		return nil
	}
	return []Finding{newQuestion("SameBundle", f.csvText(), AcknowledgeDifferentBundle,
		"serve a catalog with the bundle image that OLM Classic installed", "it differs from the bundle %s at %s", f.bestOffer().Image, joinNames(changes))}
}

// checkForeignObjects refuses objects that exist and do not belong to the operator.
func checkForeignObjects(f *Facts, _ Options, rendered []unstructured.Unstructured) []Finding {
	var findings []Finding
	for i := range rendered {
		key := apply.KeyOf(&rendered[i])
		live := f.Live[key]
		if live == nil {
			continue
		}

		text := describe(key.Kind, key.Namespace, key.Name)
		controller := metav1.GetControllerOf(live)
		switch {
		case controller != nil:
			findings = append(findings, newBlocker("ForeignObjects", text, "remove it from its controller first", "it is controlled by %s %s", controller.Kind, controller.Name))
		case !live.GetDeletionTimestamp().IsZero():
			findings = append(findings, newBlocker("ForeignObjects", text, "wait until it is gone", "it is being deleted"))
		case !key.IsCRD() && !f.belongsToCSV(live):
			findings = append(findings, newBlocker("ForeignObjects", text, "delete or rename it, if the operator does not need it", "it exists, and does not belong to %s", f.CSV.Name))
		}
	}
	return findings
}

// checkPodTemplates finds Deployments whose pods would restart.
func checkPodTemplates(f *Facts, _ Options, rendered []unstructured.Unstructured) []Finding {
	var findings []Finding
	for i := range rendered {
		wanted := &rendered[i]
		live := f.Live[apply.KeyOf(wanted)]
		if wanted.GetKind() != kindDeployment || live == nil {
			continue
		}

		text := describe(kindDeployment, wanted.GetNamespace(), wanted.GetName())
		selector, err := SelectorChanges(wanted, live)
		if err != nil {
			findings = append(findings, newBlocker("PodTemplate", text, "correct the Deployment in the bundle", "%v", err))
			continue
		}
		if selector {
			findings = append(findings, newBlocker("PodTemplate", text, "delete the Deployment before the migration, which stops the operator", "its selector differs, and cannot be changed"))
		}

		changes, err := TemplateChanges(wanted, live)
		switch {
		case err != nil:
			findings = append(findings, newBlocker("PodTemplate", text, "correct the Deployment in the bundle", "%v", err))
		case len(changes) > 0:
			findings = append(findings, newQuestion("PodTemplate", text, AcknowledgeRestart,
				"accept that its pods restart once", "its pod template changes at %s", joinNames(changes)))
		}

		if wanted, current, differs := replicaChange(wanted, live); differs {
			findings = append(findings, newWarning("Replicas", text, "set the number again after the migration", "it has %d replicas, and the bundle %d", current, wanted))
		}
	}
	return findings
}

// proxyVariables are the environment variables that OLM Classic sets from the proxy of the cluster.
var proxyVariables = []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"}

// checkProxy finds proxy variables that OLM Classic has set and that the bundle does not have. They
// stay until the next version rolls out.
func checkProxy(f *Facts, _ Options, rendered []unstructured.Unstructured) []Finding {
	var findings []Finding
	for i := range rendered {
		live := f.Live[apply.KeyOf(&rendered[i])]
		if rendered[i].GetKind() != kindDeployment || live == nil {
			continue
		}

		wanted, err := decodeDeployment(&rendered[i])
		if err != nil {
			continue // checkPodTemplates reports it.
		}
		current, err := decodeDeployment(live)
		if err != nil {
			continue
		}

		have := environmentNames(current.Spec.Template.Spec.Containers)
		set := environmentNames(wanted.Spec.Template.Spec.Containers)
		lost := slices.DeleteFunc(slices.Clone(proxyVariables), func(name string) bool { return !have[name] || set[name] })
		if len(lost) > 0 {
			findings = append(findings, newWarning("Proxy", describe(kindDeployment, live.GetNamespace(), live.GetName()),
				"add them to spec.config.inline.deploymentConfig.env of the extension before its next update", "OLM v1 does not set %s", strings.Join(lost, ", ")))
		}
	}
	return findings
}

func environmentNames(containers []corev1.Container) map[string]bool {
	names := map[string]bool{}
	for _, container := range containers {
		for _, variable := range container.Env {
			names[variable.Name] = true
		}
	}
	return names
}

// checkCRDs refuses CRDs that would make stored objects invalid, and warns that an extension owns
// its CRDs.
func checkCRDs(f *Facts, o Options, rendered []unstructured.Unstructured) []Finding {
	var findings []Finding
	var names []string
	for i := range rendered {
		live := f.Live[apply.KeyOf(&rendered[i])]
		if rendered[i].GetKind() != kindCRD || live == nil {
			continue
		}

		names = append(names, live.GetName())
		text := describe(kindCRD, "", live.GetName())
		var current, wanted apiextensionsv1.CustomResourceDefinition
		err := errors.Join(runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, &current),
			runtime.DefaultUnstructuredConverter.FromUnstructured(rendered[i].Object, &wanted))
		if err == nil {
			err = crdsafety.Check(&current, &wanted)
		}
		if err != nil {
			findings = append(findings, newBlocker("CRDSafety", text, "serve a catalog with the bundle that matches the CustomResourceDefinition on the cluster", "%v", err))
		}
	}

	if len(names) > 0 {
		findings = append(findings, newWarning("CRDOwnership", describe("ClusterExtension", "", extensionName(f, o)),
			"keep them with 'mainstay extension uninstall --keep-crds'", "deleting the extension later deletes %s and all their objects, which OLM Classic never did", joinNames(names)))
	}
	return findings
}

// checkWebhooks warns about new certificates of webhooks.
func checkWebhooks(f *Facts, _ Options, _ []unstructured.Unstructured) []Finding {
	if len(f.CSV.Spec.WebhookDefinitions) == 0 || f.Issuer == render.IssuerClassic {
		return nil
	}

	kinds := map[string]bool{}
	for _, webhook := range f.CSV.Spec.WebhookDefinitions {
		if webhook.Type == v1alpha1.ConversionWebhook {
			kinds["conversion"] = true
		} else {
			kinds["admission"] = true
		}
	}

	return []Finding{newWarning("Webhooks", f.csvText(), "migrate while the objects of the operator are not changed",
		"its %s webhooks get new certificates: requests to them may fail until the pods have the new ones", strings.Join(slices.Sorted(maps.Keys(kinds)), " and "))}
}

// checkServiceAccount checks the rights of the extension's service account.
func checkServiceAccount(f *Facts, o Options, rendered []unstructured.Unstructured) []Finding {
	if o.ServiceAccount == "" {
		return nil
	}

	text := describe("ServiceAccount", f.installNamespace(), o.ServiceAccount)
	if !f.HasServiceAccount {
		return []Finding{newBlocker("ServiceAccount", text, "create it", "it does not exist")}
	}

	required := rbac.Required(rendered, rbac.Options{Resource: rbac.BundleResource, Policy: f.Policy, Extension: extensionName(f, o)})
	if err := rbac.Missing(required, f.Policy.Granted(rbac.ServiceAccount(f.installNamespace(), o.ServiceAccount))); err != nil {
		return []Finding{newBlocker("ServiceAccount", text, fmt.Sprintf("grant the rights; 'mainstay rbac generate %s' prints them", f.Subscription.Spec.Package), "%v", err)}
	}
	return nil
}
