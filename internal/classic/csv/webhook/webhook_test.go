package webhook_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/certificate"
	"github.com/mainstay-dev/mainstay/internal/classic/csv/webhook"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

func TestValidate(t *testing.T) {
	const all, olm = "webhook rules cannot include all groups", "webhook rules cannot include the OLM group"
	const hooks = "webhook rules cannot include MutatingWebhookConfiguration or ValidatingWebhookConfiguration resources"
	for name, c := range map[string]struct {
		groups, resources string
		want              string
	}{
		"an API":                         {"apps", "deployments", ""},
		"all groups":                     {"apps,*", "deployments", all},
		"the group of operators":         {"operators.coreos.com", "subscriptions", olm},
		"webhooks, by their plural":      {"admissionregistration.k8s.io", "mutatingwebhookconfigurations", hooks},
		"webhooks, by their kind":        {"admissionregistration.k8s.io", "ValidatingWebhookConfiguration", hooks},
		"webhooks, with a subresource":   {"admissionregistration.k8s.io", "validatingwebhookconfigurations/*", hooks},
		"all of the group of webhooks":   {"admissionregistration.k8s.io", "*", hooks},
		"all with all subresources":      {"apps,admissionregistration.k8s.io", "*/*", hooks},
		"policies":                       {"admissionregistration.k8s.io", "validatingadmissionpolicies", ""},
		"webhooks of some other group":   {"example.com", "mutatingwebhookconfigurations", ""},
		"all resources of another group": {"apps", "*", ""},
		"a group whose name is similar":  {"my.operators.coreos.com", "*", ""},
	} {
		t.Run(name, func(t *testing.T) {
			csv := &v1alpha1.ClusterServiceVersion{}
			d := description("a.example.com", v1alpha1.ValidatingAdmissionWebhook)
			d.Rules = []admissionregistrationv1.RuleWithOperations{{Rule: admissionregistrationv1.Rule{
				APIGroups: strings.Split(c.groups, ","), Resources: strings.Split(c.resources, ","),
			}}}
			csv.Spec.WebhookDefinitions = []v1alpha1.WebhookDescription{description("b.example.com", v1alpha1.MutatingAdmissionWebhook), d}
			if got := textOf(webhook.Validate(csv)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}

	csv := &v1alpha1.ClusterServiceVersion{}
	csv.Spec.WebhookDefinitions = []v1alpha1.WebhookDescription{
		description("a.example.com", v1alpha1.MutatingAdmissionWebhook), description("a.example.com", v1alpha1.ValidatingAdmissionWebhook),
	}
	if got := textOf(webhook.Validate(csv)); got != "CSV contains repeated WebhookDescription name" {
		t.Errorf("two with the same name: got %q", got)
	}
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func description(name string, kind v1alpha1.WebhookAdmissionType) v1alpha1.WebhookDescription {
	d := v1alpha1.WebhookDescription{
		GenerateName: name, Type: kind, DeploymentName: "my.operator", AdmissionReviewVersions: []string{"v1"},
		SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), WebhookPath: ptr.To("/check"),
	}
	if kind != v1alpha1.ConversionWebhook {
		d.Rules = []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{"nobody.example.com"}, APIVersions: []string{"v1"}, Resources: []string{"things"}},
		}}
	}

	return d
}

// fixture holds an API server and the Webhooks under test.
type fixture struct {
	*env.Fixture
	*webhook.Webhooks
	ca []byte
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	c := &fixture{Fixture: env.NewFixture(t, corev1.AddToScheme, admissionregistrationv1.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme)}
	limited, err := client.New(env.ConfigWithRoles(t, "config/classic/olm-operator/role.yaml"), client.Options{Scheme: c.Scheme()})
	c.Must(err)
	c.Webhooks = &webhook.Webhooks{Client: limited}
	pair, err := certificate.NewAuthority("test", time.Hour, time.Now())
	c.Must(err)
	c.ca = pair.CertificatePEM()

	return c
}

// newCSV returns a ClusterServiceVersion with webhooks. Its objects are deleted at the end of the test.
func (c *fixture) newCSV(name string, webhooks ...v1alpha1.WebhookDescription) *v1alpha1.ClusterServiceVersion {
	c.T.Helper()
	csv := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: name}}
	csv.Spec.WebhookDefinitions = webhooks
	csv.Spec.InstallModes = []v1alpha1.InstallMode{{Type: v1alpha1.InstallModeTypeAllNamespaces, Supported: true}}
	c.T.Cleanup(func() {
		if err := c.Remove(context.Background(), csv); err != nil {
			c.T.Error(err)
		}
	})

	return csv
}

func (c *fixture) ensureWebhooks(csv *v1alpha1.ClusterServiceVersion, group *operatorsv1.OperatorGroup) error {
	c.T.Helper()
	return c.Ensure(c.T.Context(), csv, group, func(deployment string) []byte {
		if deployment != "my.operator" {
			c.T.Errorf("the authority of %q is requested", deployment)
		}
		return c.ca
	})
}

// isReady reports whether all webhooks are installed.
func (c *fixture) isReady(csv *v1alpha1.ClusterServiceVersion, group *operatorsv1.OperatorGroup) bool {
	c.T.Helper()
	ready, err := c.CheckAndPrune(c.T.Context(), csv, group)
	c.Must(err)
	return ready
}

func (c *fixture) listValidating(csv *v1alpha1.ClusterServiceVersion) []admissionregistrationv1.ValidatingWebhookConfiguration {
	c.T.Helper()
	var list admissionregistrationv1.ValidatingWebhookConfigurationList
	c.Must(c.List(c.T.Context(), &list, client.MatchingLabels(csvinfo.OwnerLabels(csv.Namespace, csv.Name))))
	return list.Items
}

func (c *fixture) listMutating(csv *v1alpha1.ClusterServiceVersion) []admissionregistrationv1.MutatingWebhookConfiguration {
	c.T.Helper()
	var list admissionregistrationv1.MutatingWebhookConfigurationList
	c.Must(c.List(c.T.Context(), &list, client.MatchingLabels(csvinfo.OwnerLabels(csv.Namespace, csv.Name))))
	return list.Items
}

// The configurations of admission webhooks are created, updated and deleted.
func TestAdmission(t *testing.T) {
	c := newFixture(t)
	group := &operatorsv1.OperatorGroup{}
	group.UID, group.Spec.TargetNamespaces = "group-uid", []string{"a"}
	validating := description("v.admission.example.com", v1alpha1.ValidatingAdmissionWebhook)
	validating.FailurePolicy = ptr.To(admissionregistrationv1.Ignore)
	validating.MatchPolicy = ptr.To(admissionregistrationv1.Exact)
	validating.TimeoutSeconds = ptr.To[int32](7)
	validating.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"x": "y"}}
	validating.ContainerPort = 8443
	mutating := description("m.admission.example.com", v1alpha1.MutatingAdmissionWebhook)
	mutating.ReinvocationPolicy = ptr.To(admissionregistrationv1.IfNeededReinvocationPolicy)
	csv := c.newCSV("admission", validating, mutating)
	other := c.newCSV("admission-other", validating)
	if c.isReady(csv, group) {
		t.Fatal("webhooks are ready before they were created")
	}
	c.Must(c.ensureWebhooks(csv, group))
	c.Must(c.ensureWebhooks(other, group))
	if !c.isReady(csv, group) || !c.isReady(other, group) {
		t.Fatal("webhooks are not ready after they were created")
	}
	found := c.listValidating(csv)
	if len(found) != 1 || !strings.HasPrefix(found[0].Name, "v.admission.example.com-") {
		t.Fatalf("got %d configurations: %v", len(found), found)
	}
	hash, err := csvinfo.Hash(validating)
	c.Must(err)
	labels := map[string]string{
		"olm.owner": "admission", "olm.owner.namespace": "admission", "olm.owner.kind": "ClusterServiceVersion", "olm.managed": "true",
		"olm.webhook-description-generate-name": "v.admission.example.com", "olm.webhook-description-hash": hash,
	}
	want := []admissionregistrationv1.ValidatingWebhook{{
		Name: "v.admission.example.com", Rules: slices.Clone(validating.Rules), FailurePolicy: validating.FailurePolicy, MatchPolicy: validating.MatchPolicy,
		ObjectSelector: validating.ObjectSelector, SideEffects: validating.SideEffects, TimeoutSeconds: validating.TimeoutSeconds, AdmissionReviewVersions: []string{"v1"},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"olm.operatorgroup.uid/group-uid": ""}},
		ClientConfig: admissionregistrationv1.WebhookClientConfig{CABundle: c.ca, Service: &admissionregistrationv1.ServiceReference{
			Namespace: "admission", Name: "my-operator-service", Path: ptr.To("/check"), Port: ptr.To[int32](8443),
		}},
	}}
	want[0].Rules[0].Scope = ptr.To(admissionregistrationv1.AllScopes) // as the API server completes it
	if diff := cmp.Diff([]any{labels, want}, []any{found[0].Labels, found[0].Webhooks}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if m := c.listMutating(csv); len(m) != 1 || *m[0].Webhooks[0].ReinvocationPolicy != admissionregistrationv1.IfNeededReinvocationPolicy ||
		*m[0].Webhooks[0].ClientConfig.Service.Port != 443 {
		t.Errorf("got the mutating webhooks %+v", m)
	}

	// Ensuring again creates no second configuration and deletes a surplus one.
	twin := found[0].DeepCopy()
	twin.ObjectMeta = metav1.ObjectMeta{GenerateName: "twin-", Labels: found[0].Labels}
	c.Must(c.Create(t.Context(), twin))
	c.Must(c.ensureWebhooks(csv, group))
	if n := len(c.listValidating(csv)); n != 1 {
		t.Errorf("got %d configurations, want 1", n)
	}

	// A webhook with a changed description is not installed until it is ensured again.
	csv.Spec.WebhookDefinitions[0].TimeoutSeconds = ptr.To[int32](9)
	if c.isReady(csv, group) {
		t.Error("a changed webhook is ready")
	}
	c.Must(c.ensureWebhooks(csv, group))
	if found := c.listValidating(csv); !c.isReady(csv, group) || *found[0].Webhooks[0].TimeoutSeconds != 9 {
		t.Error("the changed webhook is not ready, or does not have the new timeout")
	}
	// The same is true for a recreated group.
	recreated := group.DeepCopy()
	recreated.UID = "another-uid"
	if c.isReady(csv, recreated) {
		t.Error("webhooks for the namespaces of another group are ready")
	}
	c.Must(c.ensureWebhooks(csv, recreated))
	if found := c.listValidating(csv); !c.isReady(csv, recreated) || len(found[0].Webhooks[0].NamespaceSelector.MatchLabels) != 1 {
		t.Error("the webhooks do not select the namespaces of the recreated group")
	}

	// The configuration of a removed description is deleted.
	csv.Spec.WebhookDefinitions = csv.Spec.WebhookDefinitions[1:]
	if !c.isReady(csv, recreated) || len(c.listValidating(csv)) != 0 || len(c.listMutating(csv)) != 1 {
		t.Error("the configuration of the removed description exists, or another one is missing")
	}
	c.Must(c.Remove(t.Context(), csv))
	if len(c.listMutating(csv)) != 0 || len(c.listValidating(other)) != 1 {
		t.Error("the webhooks exist, or those of the other ClusterServiceVersion are missing")
	}
}

// A configuration without the label of its description is an error.
func TestForeignConfiguration(t *testing.T) {
	c := newFixture(t)
	csv := c.newCSV("foreign")
	c.Must(c.Create(t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{
		Name: "foreign", Labels: csvinfo.OwnerLabels("foreign", "foreign"),
	}}))
	if _, err := c.CheckAndPrune(t.Context(), csv, nil); err == nil || !strings.Contains(err.Error(), "has no label olm.webhook-description-generate-name") {
		t.Errorf("got error %v", err)
	}
}

func TestNamespaces(t *testing.T) {
	c := newFixture(t)
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"team": "x"}}
	for name, x := range map[string]struct {
		spec operatorsv1.OperatorGroupSpec
		want *metav1.LabelSelector
	}{
		"listed":   {operatorsv1.OperatorGroupSpec{TargetNamespaces: []string{"a"}, Selector: selector}, &metav1.LabelSelector{MatchLabels: map[string]string{"olm.operatorgroup.uid/u": ""}}},
		"selected": {operatorsv1.OperatorGroupSpec{Selector: selector}, selector},
		"all":      {operatorsv1.OperatorGroupSpec{}, &metav1.LabelSelector{}},
	} {
		t.Run(name, func(t *testing.T) {
			csv := c.newCSV("namespaces-"+name, description("v.namespaces.example.com", v1alpha1.ValidatingAdmissionWebhook))
			group := &operatorsv1.OperatorGroup{Spec: x.spec}
			group.UID = "u"
			c.Must(c.ensureWebhooks(csv, group))
			if diff := cmp.Diff(x.want, c.listValidating(csv)[0].Webhooks[0].NamespaceSelector); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if err := c.ensureWebhooks(csv, nil); textOf(err) != "error retrieving OperatorGroup info" {
				t.Errorf("without a group: got %v", err)
			}
			if _, err := c.CheckAndPrune(t.Context(), csv, nil); textOf(err) != "error retrieving OperatorGroup info" {
				t.Errorf("without a group: got %v", err)
			}
		})
	}
}

// createCRD creates a CRD, which is deleted at the end of the test.
func (c *fixture) createCRD(of string) *apiextensionsv1.CustomResourceDefinition {
	c.T.Helper()
	crd := builder.CRD(of, "things", "Thing")
	c.CreateForTest(crd)
	return crd
}

func TestConversion(t *testing.T) {
	c := newFixture(t)
	group := &operatorsv1.OperatorGroup{}
	crd := c.createCRD("conversion.example.com")
	d := description("c.conversion.example.com", v1alpha1.ConversionWebhook)
	d.ConversionCRDs, d.WebhookPath = []string{crd.Name}, nil
	csv := c.newCSV("conversion", d)
	csv.Spec.CustomResourceDefinitions.Owned = []v1alpha1.CRDDescription{{Name: crd.Name, Version: "v1", Kind: "Thing"}}
	now := func() *apiextensionsv1.CustomResourceConversion {
		t.Helper()
		c.Must(c.Get(t.Context(), client.ObjectKeyFromObject(crd), crd))
		return crd.Spec.Conversion
	}

	const modes = "unable to manage conversion webhook: CSVs with conversion webhooks must support only AllNamespaces"
	for name, x := range map[string]struct {
		change func(*v1alpha1.ClusterServiceVersion)
		want   string
	}{
		"another mode": {func(csv *v1alpha1.ClusterServiceVersion) {
			csv.Spec.InstallModes = append(csv.Spec.InstallModes, v1alpha1.InstallMode{Type: v1alpha1.InstallModeTypeOwnNamespace, Supported: true})
		}, modes},
		"not the mode": {func(csv *v1alpha1.ClusterServiceVersion) { csv.Spec.InstallModes[0].Supported = false }, modes},
		"no mode":      {func(csv *v1alpha1.ClusterServiceVersion) { csv.Spec.InstallModes = nil }, modes},
		"no CRD": {func(csv *v1alpha1.ClusterServiceVersion) { csv.Spec.WebhookDefinitions[0].ConversionCRDs = nil },
			"unable to manager conversion webhook: conversion webhook must have at least one CRD specified"},
		"a CRD that does not exist": {func(csv *v1alpha1.ClusterServiceVersion) {
			csv.Spec.WebhookDefinitions[0].ConversionCRDs = []string{"none.example.com"}
		}, `unable to get CRD none.example.com specified in Conversion Webhook: customresourcedefinitions.apiextensions.k8s.io "none.example.com" not found`},
		"a CRD that is not owned": {func(csv *v1alpha1.ClusterServiceVersion) { csv.Spec.CustomResourceDefinitions.Owned = nil },
			"csv conversion does not own CRD things.conversion.example.com"},
	} {
		t.Run(name, func(t *testing.T) {
			bad := csv.DeepCopy()
			x.change(bad)
			if got := textOf(c.ensureWebhooks(bad, group)); got != x.want {
				t.Errorf("got %q, want %q", got, x.want)
			}
		})
	}

	if _, err := c.CheckAndPrune(t.Context(), csv, group); textOf(err) != "conversionWebhook not ready" {
		t.Errorf("before: %v", err)
	}

	c.Must(c.ensureWebhooks(csv, group))
	want := &apiextensionsv1.CustomResourceConversion{Strategy: "Webhook", Webhook: &apiextensionsv1.WebhookConversion{
		ConversionReviewVersions: []string{"v1"},
		ClientConfig: &apiextensionsv1.WebhookClientConfig{CABundle: c.ca, Service: &apiextensionsv1.ServiceReference{
			Namespace: "conversion", Name: "my-operator-service", Path: ptr.To("/"), Port: ptr.To[int32](443),
		}},
	}}
	if diff := cmp.Diff(want, now()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !c.isReady(csv, group) {
		t.Error("the conversion is not ready")
	}

	version := crd.ResourceVersion
	c.Must(c.ensureWebhooks(csv, group))
	if now(); crd.ResourceVersion != version {
		t.Error("an unchanged CRD was written")
	}

	// The conversion webhook of another operator stays.
	elsewhere := csv.DeepCopy()
	elsewhere.Namespace = "elsewhere"
	c.Must(c.ResetConversions(t.Context(), elsewhere))
	if now().Strategy != "Webhook" {
		t.Error("the conversion by another webhook was removed")
	}

	c.Must(c.ResetConversions(t.Context(), csv))
	if diff := cmp.Diff(&apiextensionsv1.CustomResourceConversion{Strategy: "None"}, now()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
