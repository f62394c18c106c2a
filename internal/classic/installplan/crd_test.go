package installplan_test

import (
	"strings"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/certificate"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// installCRDWithObject installs a CRD by a plan, and creates an object of its kind.
func (w *fixture) installCRDWithObject(plural string, size int64) {
	w.T.Helper()
	w.createPlan("definition", v1alpha1.ApprovalAutomatic, w.newBundleSteps(csvManifest("kettle.v1"), crdManifest(plural, "v1", "")))
	w.waitForPhase("definition", v1alpha1.InstallPlanPhaseComplete)
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": kindOf(plural), "metadata": map[string]any{"namespace": w.namespace, "name": "one"}, "size": size,
	}}
	w.waitUntil("an object", func() bool { return w.Create(w.T.Context(), object.DeepCopy()) == nil })
}

func (w *fixture) getCRD(plural string) *apiextensionsv1.CustomResourceDefinition {
	w.T.Helper()
	var crd apiextensionsv1.CustomResourceDefinition
	w.Must(w.Get(w.T.Context(), client.ObjectKey{Name: plural + ".example.com"}, &crd))
	return &crd
}

// A CRD by which existing objects are invalid is rejected.
func TestRestrictiveDefinition(t *testing.T) {
	w := newFixture(t, 0)
	w.installCRDWithObject("teapots", 7)
	w.createPlan("update", v1alpha1.ApprovalAutomatic, w.newBundleSteps(csvManifest("kettle.v2"), crdManifest("teapots", "v1", `,"maximum":5`)))
	plan := w.waitForPhase("update", v1alpha1.InstallPlanPhaseFailed)
	want := `error validating existing CRs against new CRD's schema for "teapots.example.com": error validating example.com/v1, Kind=Teapot "` + w.namespace + `/one": updated validation is too restrictive: `
	if !strings.HasPrefix(plan.Status.Message, want) || !strings.Contains(plan.Status.Message, "size") {
		t.Errorf("got the message %q, want %q", plan.Status.Message, want)
	}
	if w.getCRD("teapots").Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["size"].Maximum != nil {
		t.Error("the definition was updated")
	}

	// A CRD by which the object is valid is accepted.
	w.createPlan("other", v1alpha1.ApprovalAutomatic, w.newBundleSteps(csvManifest("kettle.v3"), crdManifest("teapots", "v1", `,"maximum":9`)))
	w.waitForPhase("other", v1alpha1.InstallPlanPhaseComplete)
	if m := w.getCRD("teapots").Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["size"].Maximum; m == nil || *m != 9 {
		t.Errorf("got the maximum %v", m)
	}
}

// With a conversion webhook it is accepted, and an event is emitted.
func TestRestrictiveDefinitionWithWebhook(t *testing.T) {
	w := newFixture(t, 0)
	w.installCRDWithObject("samovars", 7)
	updated := strings.Replace(crdManifest("samovars", "v1", `,"maximum":5`), `"scope":"Namespaced"`,
		`"scope":"Namespaced","conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"caBundle":"Cg==","service":{"namespace":"a","name":"b"}}}}`, 1)
	w.createPlan("update", v1alpha1.ApprovalAutomatic, w.newBundleSteps(csvManifest("kettle.v2"), updated))
	w.waitForPhase("update", v1alpha1.InstallPlanPhaseComplete)
	w.WaitForEvent("CRDValidation", func(e *eventsv1.Event) bool {
		return e.Reason == "CRDValidation" && strings.Contains(e.Note, "samovars.example.com") && strings.Contains(e.Note, "too restrictive")
	}, client.InNamespace(w.namespace))
}

// An update of a CRD keeps the conversion webhook that olm-operator has set, if the ClusterServiceVersion of the plan has one
// for the CRD. Any other conversion is that of the manifest.
func TestUpdateKeepsConversionWebhook(t *testing.T) {
	const manifestConversion = `"scope":"Namespaced","conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"service":{"namespace":"author","name":"webhook"}}}}`
	const described = `"spec":{"webhookdefinitions":[{"type":"ConversionWebhook","generateName":"c.example.com","deploymentName":"d","admissionReviewVersions":["v1"],"sideEffects":"None","conversionCRDs":["decanters.example.com"]}],`
	authority, err := certificate.NewAuthority("test", time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}

	w := newFixture(t, 0)
	w.installCRDWithObject("decanters", 7)
	w.Must(reconcile.RetryStale(func() error {
		crd := w.getCRD("decanters")
		crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
			ConversionReviewVersions: []string{"v1"},
			ClientConfig:             &apiextensionsv1.WebhookClientConfig{CABundle: authority.CertificatePEM(), Service: &apiextensionsv1.ServiceReference{Namespace: w.namespace, Name: "kettle-service"}},
		}}
		return w.Update(t.Context(), crd)
	}))

	without := crdManifest("decanters", "v1", `,"maximum":9`)
	updated := strings.Replace(without, `"scope":"Namespaced"`, manifestConversion, 1)
	for _, test := range []struct{ name, csv, crd, wantService string }{
		{"with", strings.Replace(csvManifest("kettle.v2"), `"spec":{`, described, 1), updated, "kettle-service"},
		{"with-alone", strings.Replace(csvManifest("kettle.v2"), `"spec":{`, described, 1), without, "kettle-service"},
		{"without", csvManifest("kettle.v3"), updated, "webhook"},
	} {
		w.createPlan(test.name, v1alpha1.ApprovalAutomatic, w.newBundleSteps(test.csv, test.crd))
		w.waitForPhase(test.name, v1alpha1.InstallPlanPhaseComplete)
		crd := w.getCRD("decanters")
		if got := crd.Spec.Conversion.Webhook.ClientConfig.Service.Name; got != test.wantService {
			t.Errorf("%s a conversion webhook of the ClusterServiceVersion: got the conversion by %q, want %q", test.name, got, test.wantService)
		}
		if m := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["size"].Maximum; m == nil || *m != 9 {
			t.Errorf("%s: got the maximum %v, want 9", test.name, m)
		}
	}
}

// A CRD without a stored version is rejected.
func TestStoredVersions(t *testing.T) {
	w := newFixture(t, 0)
	w.installCRDWithObject("carafes", 1)
	w.createPlan("update", v1alpha1.ApprovalAutomatic, w.newBundleSteps(csvManifest("kettle.v2"), crdManifest("carafes", "v2", "")))
	plan := w.waitForPhase("update", v1alpha1.InstallPlanPhaseFailed)
	const want = `risk of data loss updating "carafes.example.com": new CRD removes version v1 that is listed as a stored version on the existing CRD`
	if plan.Status.Message != want || plan.Status.Conditions[0].Message != want {
		t.Errorf("got the message %q, want %q", plan.Status.Message, want)
	}
}

// A CRD names the ClusterServiceVersions that it was installed with, as long as they exist.
func TestInstalledAlongside(t *testing.T) {
	w := newFixture(t, time.Hour)
	w.installCRDWithObject("jugs", 1)
	w.Must(w.Create(t.Context(), &v1alpha1.ClusterServiceVersion{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "copy.v1", Labels: map[string]string{"olm.copiedFrom": "x"}},
		Spec:       v1alpha1.ClusterServiceVersionSpec{InstallStrategy: v1alpha1.NamedInstallStrategy{StrategyName: "deployment"}, InstallModes: []v1alpha1.InstallMode{}},
	}))
	crd := w.getCRD("jugs")
	own := w.namespace + "/kettle.v1"
	if got := crd.Annotations[csvinfo.AlongsideKey(w.namespace, "kettle.v1")]; got != own {
		t.Errorf("got the ClusterServiceVersions %q, want %q", got, own)
	}

	crd.Annotations[csvinfo.AlongsideKey(w.namespace, "gone.v1")] = w.namespace + "/gone.v1"
	crd.Annotations[csvinfo.AlongsideKey(w.namespace, "copy.v1")] = w.namespace + "/copy.v1"
	crd.Annotations["mine"] = "stays"
	w.Must(w.Update(t.Context(), crd))
	w.createPlan("second", v1alpha1.ApprovalAutomatic, w.newBundleSteps(csvManifest("kettle.v2"), crdManifest("jugs", "v1", "")))
	w.waitForPhase("second", v1alpha1.InstallPlanPhaseComplete)
	got := map[string]string{}
	for key, value := range w.getCRD("jugs").Annotations {
		if key == "mine" || strings.HasPrefix(key, csvinfo.AnnotationInstalledAlongside) {
			got[key] = value
		}
	}

	want := map[string]string{
		"mine": "stays",
		csvinfo.AlongsideKey(w.namespace, "kettle.v1"): own,
		csvinfo.AlongsideKey(w.namespace, "kettle.v2"): w.namespace + "/kettle.v2",
	}
	if len(got) != len(want) || !csvinfo.HasLabels(got, want) {
		t.Errorf("got the annotations %v, want %v", got, want)
	}
}
