package csv_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// newCRD returns a CRD whose objects can have any field.
func newCRD(group, plural, kind string, scope apiextensionsv1.ResourceScope) *apiextensionsv1.CustomResourceDefinition {
	crd := builder.OpenCRD(group, plural, kind)
	crd.Spec.Scope, crd.Annotations = scope, map[string]string{"api-approved.kubernetes.io": "unapproved, in a test"}
	return crd
}

// createCRD creates a CRD until the test ends, and waits until it is served. At the end it waits until it is no longer
// served: an olm-operator that starts before would watch the kind, and would not get ready without it.
func (c *fixture) createCRD(crd *apiextensionsv1.CustomResourceDefinition) {
	c.T.Helper()
	api, err := discovery.NewDiscoveryClientForConfig(env.Start(c.T))
	c.Must(err)
	c.T.Cleanup(func() {
		c.EventuallyTrue("CRD "+crd.Name+" is no longer served", func() bool {
			served, err := api.ServerResourcesForGroupVersion(crd.Spec.Group + "/v1")
			if err != nil {
				return apierrors.IsNotFound(err)
			}
			return !slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Kind == crd.Spec.Names.Kind })
		}, nil)
	})
	c.CreateForTest(crd) // It is deleted before the wait.
	c.EventuallyTrue("CRD "+crd.Name+" is served", func() bool {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(crd.Spec.Group + "/v1")
		list.SetKind(crd.Spec.Names.Kind + "List")
		return c.List(c.T.Context(), list) == nil
	}, nil)
}

// editCSV changes a ClusterServiceVersion.
func (c *fixture) editCSV(name string, edit func(*v1alpha1.ClusterServiceVersion)) {
	c.T.Helper()
	csv := c.get(name)
	c.PatchObject(csv, func() { edit(csv) })
}

// A ClusterServiceVersion names each requirement that cannot be met, and is installed when none is left.
func TestImpossibleRequirements(t *testing.T) {
	c := newFixture(t)
	c.createGroup()
	c.createServiceAccount()
	group := c.namespace + ".example.com"
	c.CreateAll(c.newCSV("etcd.v1.0.0", func(csv *v1alpha1.ClusterServiceVersion) {
		csv.Spec.MinKubeVersion = "99.0.0"
		csv.Spec.CustomResourceDefinitions.Required = []v1alpha1.CRDDescription{{Name: "widgets." + group, Version: "v1", Kind: "Widget"}}
		csv.Spec.APIServiceDefinitions.Required = []v1alpha1.APIServiceDescription{{Name: "gadgets", Group: "gadgets." + group, Version: "v1", Kind: "Gadget"}}
		csv.Spec.NativeAPIs = []metav1.GroupVersionKind{{Group: group, Version: "v1", Kind: "Widget"}}
	}))
	waitForUnmet := func(want ...string) {
		t.Helper()
		c.eventually(fmt.Sprintf("%q is unmet", want), func() bool {
			csv := c.get("etcd.v1.0.0")
			var unmet []string
			for _, s := range csv.Status.RequirementStatus {
				if s.Status != v1alpha1.RequirementPresent {
					unmet = append(unmet, s.Kind+" "+s.Status)
				}
			}
			return csv.Status.Phase == v1alpha1.CSVPhasePending && csv.Status.Reason == v1alpha1.CSVReasonRequirementsNotMet && slices.Equal(unmet, want)
		})
	}

	waitForUnmet("ClusterServiceVersion PresentNotSatisfied", "CustomResourceDefinition NotPresent", "APIService NotPresent", "Widget NotPresent")
	c.createCRD(newCRD(group, "widgets", "Widget", apiextensionsv1.NamespaceScoped))
	waitForUnmet("ClusterServiceVersion PresentNotSatisfied", "APIService NotPresent")
	c.editCSV("etcd.v1.0.0", func(csv *v1alpha1.ClusterServiceVersion) { csv.Spec.MinKubeVersion = "1.0.0" })
	waitForUnmet("APIService NotPresent")
	c.editCSV("etcd.v1.0.0", func(csv *v1alpha1.ClusterServiceVersion) { csv.Spec.APIServiceDefinitions.Required = nil })
	c.waitUntilSucceeded("etcd.v1.0.0", "etcd")
}

// A webhook for the API of OLM, for all APIs or for webhooks is refused, because it could prevent its own removal. Without
// it, the operator is installed.
func TestProhibitedWebhooks(t *testing.T) {
	c := newFixture(t)
	c.createGroup()
	c.createServiceAccount()
	newWebhook := func(group, resource string) []v1alpha1.WebhookDescription {
		return []v1alpha1.WebhookDescription{{
			GenerateName: c.namespace + ".example.com", Type: v1alpha1.ValidatingAdmissionWebhook, DeploymentName: "etcd", AdmissionReviewVersions: []string{"v1"},
			SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), WebhookPath: ptr.To("/"),
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{resource}},
			}},
		}}
	}
	c.CreateAll(c.newCSV("etcd.v1.0.0", func(csv *v1alpha1.ClusterServiceVersion) {
		csv.Spec.WebhookDefinitions = newWebhook("operators.coreos.com", "subscriptions")
	}))
	for _, test := range []struct{ group, resource, want string }{
		{"operators.coreos.com", "subscriptions", "webhook rules cannot include the OLM group"},
		{"*", "*", "webhook rules cannot include all groups"},
		{"admissionregistration.k8s.io", "validatingwebhookconfigurations", "webhook rules cannot include MutatingWebhookConfiguration or ValidatingWebhookConfiguration resources"},
	} {
		c.editCSV("etcd.v1.0.0", func(csv *v1alpha1.ClusterServiceVersion) {
			csv.Spec.WebhookDefinitions = newWebhook(test.group, test.resource)
		})
		c.waitForMessage("etcd.v1.0.0", v1alpha1.CSVPhaseFailed, test.want)
		if reason := c.get("etcd.v1.0.0").Status.Reason; reason != v1alpha1.CSVReasonInvalidWebhookDescription {
			t.Errorf("%s: got reason %s, want %s", test.group, reason, v1alpha1.CSVReasonInvalidWebhookDescription)
		}

		var found admissionregistrationv1.ValidatingWebhookConfigurationList
		c.Must(c.List(t.Context(), &found, client.MatchingLabels{"olm.owner.namespace": c.namespace}))
		if len(found.Items) > 0 {
			t.Errorf("%s: got %d webhook configurations, want none", test.group, len(found.Items))
		}
	}

	c.editCSV("etcd.v1.0.0", func(csv *v1alpha1.ClusterServiceVersion) { csv.Spec.WebhookDefinitions = nil })
	c.waitUntilSucceeded("etcd.v1.0.0", "etcd")
}

// The proxy of the cluster is in the environment of all operators, and follows it. An operator whose Subscription sets one
// of the variables gets only its own ones. An empty value removes the variable's effect.
func TestClusterProxy(t *testing.T) {
	c := &fixture{Fixture: env.NewFixture(t, kinds...)}
	c.namespace = c.NewNamespace("csv-")
	c.createCRD(newCRD("config.openshift.io", "proxies", "Proxy", apiextensionsv1.ClusterScoped))
	proxy := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "config.openshift.io/v1", "kind": "Proxy", "metadata": map[string]any{"name": "cluster"},
		"status": map[string]any{"httpProxy": "http://proxy.example.com", "noProxy": ".local"},
	}}
	c.CreateAll(proxy)
	c.startManager()
	c.createGroup()
	c.createServiceAccount()
	c.CreateAll(c.newCSV("etcd.v1.0.0"))
	waitForEnv := func(want map[string]string) {
		t.Helper()
		c.waitForRollout(fmt.Sprint("the environment has ", want), "etcd.v1.0.0", func(d *appsv1.Deployment) bool {
			got := map[string]string{}
			for _, variable := range d.Spec.Template.Spec.Containers[0].Env {
				if variable.Name != "OPERATOR_CONDITION_NAME" {
					got[variable.Name] = variable.Value
				}
			}
			return cmp.Equal(got, want)
		})
	}

	waitForEnv(map[string]string{"HTTP_PROXY": "http://proxy.example.com", "NO_PROXY": ".local"})
	c.PatchObject(proxy, func() {
		c.Must(unstructured.SetNestedField(proxy.Object, "https://proxy.example.com", "status", "httpsProxy"))
	})
	all := map[string]string{"HTTP_PROXY": "http://proxy.example.com", "HTTPS_PROXY": "https://proxy.example.com", "NO_PROXY": ".local"}
	waitForEnv(all)

	sub := c.createSubscription("etcd.v1.0.0", &v1alpha1.SubscriptionConfig{Env: []corev1.EnvVar{{Name: "HTTP_PROXY", Value: "http://own.example.com"}}})
	waitForEnv(map[string]string{"HTTP_PROXY": "http://own.example.com"})
	c.updateSubscriptionConfig(sub, &v1alpha1.SubscriptionConfig{Env: []corev1.EnvVar{{Name: "NO_PROXY"}}})
	waitForEnv(map[string]string{"NO_PROXY": ""})
	c.updateSubscriptionConfig(sub, nil)
	waitForEnv(all)
	c.Must(c.Delete(t.Context(), proxy))
	waitForEnv(map[string]string{})
}

// A service account that an OperatorGroup gets later installs what is installed later. Installed operators stay as they
// are. Without it, OLM installs with its own rights again.
func TestGroupGetsAndLosesAccount(t *testing.T) {
	c := newFixture(t)
	g := c.createGroup()
	c.createServiceAccount()
	c.CreateAll(c.newCSV("etcd.v1.0.0"), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "scoped"}})
	c.waitUntilSucceeded("etcd.v1.0.0", "etcd")
	installed := c.waitForDeployment("etcd")
	setAccount := func(name string) {
		t.Helper()
		c.Must(c.Get(t.Context(), client.ObjectKeyFromObject(g), g))
		c.PatchObject(g, func() { g.Spec.ServiceAccountName = name })
		c.eventually("the status of the group names account "+name, func() bool {
			now := &operatorsv1.OperatorGroup{}
			c.Must(c.Get(t.Context(), client.ObjectKeyFromObject(g), now))
			return (now.Status.ServiceAccountRef != nil) == (name != "")
		})
	}

	setAccount("scoped")
	c.CreateAll(c.newCSV("other.v1.0.0"))
	c.waitForPhase("other.v1.0.0", v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonComponentFailedNoRetry)
	if phase, now := c.get("etcd.v1.0.0").Status.Phase, c.waitForDeployment("etcd"); phase != v1alpha1.CSVPhaseSucceeded || now.UID != installed.UID || now.Generation != installed.Generation {
		t.Errorf("the installed operator is %s, with generation %d of its Deployment, want Succeeded and %d", phase, now.Generation, installed.Generation)
	}

	setAccount("")
	c.waitUntilSucceeded("other.v1.0.0", "other")
}
