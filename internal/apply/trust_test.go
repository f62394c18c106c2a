package apply

import (
	"encoding/base64"
	"encoding/pem"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mainstay-dev/mainstay/internal/certificate"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
)

// caBundle is the base64 encoded certificate of an authority. The API server validates it.
var caBundle = func() string {
	for {
		pair, err := certificate.NewAuthority("test", time.Hour, time.Now())
		if err != nil {
			panic(err)
		}
		text := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate.Raw}))
		if !strings.Contains(text, "NS") { // the placeholder of a namespace in manifests
			return text
		}
	}
}()

const (
	requestsTrust = "annotations: {mainstay.dev/ca-from: NS/cert}"

	// plainCRD has no conversion webhook, convertedCRD one.
	plainCRD = `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: kettles.NS.example.com, METADATA}, spec: {
  group: NS.example.com, names: {plural: kettles, singular: kettle, kind: Kettle, listKind: KettleList}, scope: Namespaced, CONVERSION
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}}`
	convertedBy = `conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {namespace: NS, name: hooks}}}},`

	crdTrust = `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: kettles.NS.example.com},
  spec: {conversion: {webhook: {clientConfig: {caBundle: CA}}}}}`

	configuration = `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: hooks-NS, METADATA}, webhooks: [WEBHOOKS]}`
	admissionHook = `{name: NAME.example.com, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {service: {namespace: NS, name: hooks}}}`
	hookTrust     = `{name: NAME.example.com, clientConfig: {caBundle: CA}}`
)

// crdManifest returns a CRD of a namespace's own group, optionally with a conversion webhook that
// requests a caBundle.
func crdManifest(converted bool) string {
	if converted {
		return strings.NewReplacer("METADATA", requestsTrust, "CONVERSION", convertedBy).Replace(plainCRD)
	}
	return strings.NewReplacer(", METADATA", "", "CONVERSION", "").Replace(plainCRD)
}

// webhookConfiguration returns a configuration with one webhook of the template for each name.
func webhookConfiguration(metadata, template string, names ...string) string {
	items := make([]string, len(names))
	for i, name := range names {
		items[i] = strings.ReplaceAll(template, "NAME", name)
	}
	return strings.NewReplacer("METADATA", metadata, "WEBHOOKS", strings.Join(items, ", ")).Replace(configuration)
}

// injectCABundle injects caBundle as the issuer does.
func (b *fixture) injectCABundle(manifest string) {
	b.t.Helper()
	b.writeAs(ServingFieldManager, strings.ReplaceAll(manifest, "CA}", caBundle+"}"))
}

// waitForCRDStatus waits until the API server has written the status of a CRD, and returns the
// CRD.
func (b *fixture) waitForCRDStatus(manifest string) *unstructured.Unstructured {
	b.t.Helper()
	live := b.readObject(manifest)
	for !builtInProbe(live).Ready {
		if err := b.t.Context().Err(); err != nil {
			b.t.Fatal(err)
		}
		live = b.readObject(manifest)
	}

	return live
}

// withoutServerFields returns an object without the fields that the API server sets.
func withoutServerFields(u *unstructured.Unstructured) map[string]any {
	return map[string]any{
		"generation": u.GetGeneration(), "owners": u.GetOwnerReferences(), "labels": u.GetLabels(), "annotations": u.GetAnnotations(),
		"spec": u.Object["spec"], "webhooks": u.Object["webhooks"], "held": hasIssuerFields(u),
	}
}

func TestRemovedWebhooks(t *testing.T) {
	both := webhookConfiguration(requestsTrust, admissionHook, "a", "b")
	for name, test := range map[string]struct {
		first, trust, second string
		// trusted are the webhooks that keep their caBundle. held is whether the issuer
		// still owns fields.
		trusted []webhook
		held    bool
	}{
		"the conversion webhook of a CRD": {first: crdManifest(true), trust: crdTrust, second: crdManifest(false)},
		"the conversion of a CRD, explicit": {first: crdManifest(true), trust: crdTrust,
			second: strings.NewReplacer("METADATA", requestsTrust, "CONVERSION", "conversion: {strategy: None},").Replace(plainCRD)},
		"the request for trust of a CRD": {first: crdManifest(true), trust: crdTrust,
			second: strings.NewReplacer(", METADATA", "", "CONVERSION", convertedBy).Replace(plainCRD), trusted: []webhook{{}}},
		"one of two webhooks": {first: both, trust: webhookConfiguration("", hookTrust, "a", "b"), second: webhookConfiguration(requestsTrust, admissionHook, "b"),
			trusted: []webhook{{"b.example.com", caBundle}}, held: true},
		"a webhook under another name": {first: both, trust: webhookConfiguration("", hookTrust, "a", "b"), second: webhookConfiguration(requestsTrust, admissionHook, "c", "b"),
			trusted: []webhook{{"c.example.com", ""}, {"b.example.com", caBundle}}, held: true},
		"all webhooks": {first: both, trust: webhookConfiguration("", hookTrust, "a", "b"), second: webhookConfiguration(requestsTrust, admissionHook)},
		"the request for trust of webhooks": {first: both, trust: webhookConfiguration("", hookTrust, "a", "b"), second: webhookConfiguration("", admissionHook, "a", "b"),
			trusted: []webhook{{"a.example.com", ""}, {"b.example.com", ""}}},
		"the request, replaced by a caBundle": {first: crdManifest(true), trust: crdTrust, trusted: []webhook{{caBundle: caBundle}},
			second: strings.NewReplacer(", METADATA", "", "CONVERSION", strings.Replace(convertedBy, "clientConfig: {", "clientConfig: {caBundle: "+caBundle+", ", 1)).Replace(plainCRD)},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFixture(t)
			memory := NewMemory(10)
			if result := b.applyObject(1, memory, test.first); result.Err != nil || result.Action != ActionCreated {
				t.Fatalf("%s: %v", result.Action, result.Err)
			}

			b.waitForCRDStatus(test.first)
			b.injectCABundle(test.trust)
			if result := b.applyObject(1, memory, test.first); result.Err != nil || result.Action != ActionUnchanged || result.Probe.AwaitsLaterPhase {
				t.Fatalf("before: %s %v %v", result.Action, result.Probe, result.Err)
			}
			if result := b.applyObject(2, memory, test.second); result.Err != nil || result.Action != ActionRecovered {
				t.Fatalf("%s: %v", result.Action, result.Err)
			}

			live := b.readObject(test.second)
			if diff := cmp.Diff(test.trusted, listWebhooks(live), cmp.AllowUnexported(webhook{})); diff != "" {
				t.Errorf("webhooks (-want +got):\n%s", diff)
			}
			if hasIssuerFields(live) != test.held {
				t.Errorf("want that the issuer owns fields: %t; got %v", test.held, live.GetManagedFields())
			}
			if !isControlledBy(live, ptr(b.newOwner(2))) {
				t.Errorf("got the owners %v", live.GetOwnerReferences())
			}

			writes := b.writes
			if result := b.applyObject(2, memory, test.second); result.Action != ActionUnchanged || b.writes != writes {
				t.Errorf("a second time: got %s after %d writes", result.Action, b.writes-writes)
			}
		})
	}
}

// A manifest that is rejected also for another fault does not remove the caBundle: the live
// webhooks continue to work.
func TestAnInvalidManifestTakesNoTrust(t *testing.T) {
	for name, test := range map[string]struct{ first, trust, second string }{
		"crd": {crdManifest(true), crdTrust, strings.Replace(crdManifest(false), "scope: Namespaced", "scope: Nowhere", 1)},
		"webhooks, none of them removed": {webhookConfiguration(requestsTrust, admissionHook, "a"), webhookConfiguration("", hookTrust, "a"),
			webhookConfiguration("", strings.Replace(admissionHook, "sideEffects: None", "sideEffects: Some", 1), "a")},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFixture(t)
			b.applyObject(1, nil, test.first)
			b.injectCABundle(test.trust)
			before := b.waitForCRDStatus(test.first)
			if result := b.applyObject(2, nil, test.second); result.Err == nil || result.Err.Cause != CauseInvalid {
				t.Errorf("%s: %v", result.Action, result.Err)
			}
			if diff := cmp.Diff(withoutServerFields(before), withoutServerFields(b.readObject(test.first))); diff != "" {
				t.Errorf("the object was changed: %s", diff)
			}
		})
	}
}

// While the webhook is removed, the issuer may read the object in between, and inject the caBundle again.
func TestDistrustRace(t *testing.T) {
	b := newFixture(t)
	b.applyObject(1, nil, crdManifest(true))
	b.waitForCRDStatus(crdManifest(true))
	b.injectCABundle(crdTrust)
	attempts := 0
	b.refuse = func(u *unstructured.Unstructured) error {
		if attempts == 1 {
			b.injectCABundle(strings.Replace(crdTrust, "CA}", "''}", 1))
		}
		if len(u.GetLabels()) == 0 {
			attempts++
		}
		return nil
	}
	if result := b.applyObject(2, nil, crdManifest(false)); result.Err != nil || result.Action != ActionRecovered || attempts != 2 {
		t.Errorf("got %s after %d times: %v", result.Action, attempts, result.Err)
	}
	if live := b.readObject(crdManifest(false)); hasIssuerFields(live) || len(listWebhooks(live)) > 0 {
		t.Errorf("the conversion still exists: %v", live.Object["spec"])
	}
}

// Objects of other owners keep the fields that others have set.
func TestOthersKeepTheirTrust(t *testing.T) {
	b := newFixture(t)
	b.writeAs("someone", crdManifest(true))
	b.injectCABundle(crdTrust)
	before := b.waitForCRDStatus(crdManifest(true))
	if result := b.applyObject(1, nil, crdManifest(false)); result.Action != ActionCollision {
		t.Errorf("%s: %v", result.Action, result.Err)
	}
	if diff := cmp.Diff(withoutServerFields(before), withoutServerFields(b.readObject(crdManifest(true)))); diff != "" {
		t.Errorf("the CRD of another client was changed: %s", diff)
	}
}

// A webhook that moves to cert-manager keeps its caBundle until cert-manager replaces it.
func TestTrustStaysForCertManager(t *testing.T) {
	b := newFixture(t)
	b.applyObject(1, nil, crdManifest(true))
	b.injectCABundle(crdTrust)
	b.waitForCRDStatus(crdManifest(true))
	b.applyObject(1, nil, strings.ReplaceAll(crdManifest(true), "mainstay.dev/ca-from", "mainstay.dev/ca-issuer"))
	live := b.readObject(crdManifest(true))
	if got := listWebhooks(live); len(got) != 1 || got[0].caBundle != caBundle {
		t.Errorf("got the webhooks %v", got)
	}
	if _, asksAnother := live.GetAnnotations()["mainstay.dev/ca-issuer"]; !asksAnother {
		t.Errorf("got the annotations %v", live.GetAnnotations())
	}
}

func TestCABundleIsReleased(t *testing.T) {
	refusal := func(fields ...string) error {
		var causes field.ErrorList
		for _, path := range fields {
			causes = append(causes, field.Forbidden(field.NewPath(path), "so it is"))
		}
		return apierrors.NewInvalid(schema.GroupKind{Kind: "X"}, "x", causes)
	}

	held := `managedFields: [{manager: mainstay-serving, operation: Apply}]`
	live := func(metadata string) *unstructured.Unstructured {
		return builder.FromYAML(strings.NewReplacer("METADATA", metadata, "CONVERSION", convertedBy).Replace(plainCRD))
	}
	for name, test := range map[string]struct {
		err          error
		live, wanted *unstructured.Unstructured
		want         bool
	}{
		"the conversion":              {refusal("spec.conversion.webhookClientConfig"), live(held), builder.FromYAML(crdManifest(false)), true},
		"all of the conversion":       {refusal("spec.conversion", "spec.conversion.x"), live(held), builder.FromYAML(crdManifest(false)), true},
		"something else too":          {refusal("spec.conversion.webhookClientConfig", "spec.scope"), live(held), builder.FromYAML(crdManifest(false)), false},
		"a field with a similar name": {refusal("spec.conversions"), live(held), builder.FromYAML(crdManifest(false)), false},
		"the issuer owns no fields":   {refusal("spec.conversion"), live(""), builder.FromYAML(crdManifest(false)), false},
		"it wrote, but does not own":  {refusal("spec.conversion"), live(strings.Replace(held, "Apply", "Update", 1)), builder.FromYAML(crdManifest(false)), false},
		"the webhook stays":           {refusal("spec.conversion"), live(held), builder.FromYAML(crdManifest(true)), false},
		"there is no object":          {refusal("spec.conversion"), nil, builder.FromYAML(crdManifest(false)), false},
		"no refusal":                  {nil, live(held), builder.FromYAML(crdManifest(false)), false},
		"the connection broke":        {errors.New("spec.conversion"), live(held), builder.FromYAML(crdManifest(false)), false},
		"an object without webhooks":  {refusal("spec.conversion"), builder.FromYAML("{apiVersion: v1, kind: Secret, metadata: {" + held + "}}"), builder.FromYAML("{apiVersion: v1, kind: Secret}"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := mustReleaseWebhooks(test.err, test.live, test.wanted); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestTrustIsAwaited(t *testing.T) {
	established := "\nstatus: {conditions: [{type: NamesAccepted, status: 'True'}, {type: Established, status: 'True'}]}"
	convertedCRD := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {" + requestsTrust + "}\nspec: {conversion: {strategy: Webhook, webhook: {clientConfig: {CA}}}}"
	configured := "apiVersion: admissionregistration.k8s.io/v1\nkind: KIND\nmetadata: {" + requestsTrust + "}\nwebhooks: [{name: a, clientConfig: {caBundle: eA==}}, {name: b, clientConfig: {CA}}]"
	injected := func(manifest string) string { return strings.ReplaceAll(manifest, "{CA}", "{caBundle: eA==}") }
	missing := func(manifest string) string { return strings.ReplaceAll(manifest, "{CA}", "{url: 'https://x'}") }
	validating := strings.ReplaceAll(configured, "KIND", "ValidatingWebhookConfiguration")
	mutating := strings.ReplaceAll(configured, "KIND", "MutatingWebhookConfiguration")
	byCertManager := func(manifest string) string {
		return strings.ReplaceAll(manifest, "mainstay.dev/ca-from", "mainstay.dev/ca-issuer")
	}
	requestedByAuthor := func(manifest string) string {
		return strings.ReplaceAll(manifest, "mainstay.dev/ca-from", "cert-manager.io/inject-ca-from")
	}
	withoutRequest := func(manifest string) string { return strings.ReplaceAll(manifest, requestsTrust, "name: x") }
	for name, test := range map[string]struct {
		manifest string
		want     Probe
	}{
		"crd":                             {injected(convertedCRD) + established, readyProbe()},
		"crd without trust":               {missing(convertedCRD) + established, Probe{AwaitsLaterPhase: true, Message: "its conversion webhook is not trusted yet: it has no caBundle"}},
		"crd, new, without trust":         {missing(convertedCRD), notReadyProbe("it is not established yet")},
		"crd without a request":           {withoutRequest(missing(convertedCRD)) + established, readyProbe()},
		"crd without conversion":          {"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {" + requestsTrust + "}" + established, readyProbe()},
		"webhooks":                        {injected(validating), readyProbe()},
		"webhook without trust":           {missing(validating), Probe{AwaitsLaterPhase: true, Message: `its webhook "b" is not trusted yet: it has no caBundle`}},
		"mutating webhook without trust":  {missing(mutating), Probe{AwaitsLaterPhase: true, Message: `its webhook "b" is not trusted yet: it has no caBundle`}},
		"cert-manager has not injected":   {byCertManager(missing(validating)), Probe{AwaitsLaterPhase: true, Message: `its webhook "b" is not trusted yet: it has no caBundle`}},
		"cert-manager has injected":       {byCertManager(injected(validating)), readyProbe()},
		"a request of the author":         {requestedByAuthor(missing(convertedCRD)) + established, readyProbe()},
		"webhooks without a request":      {withoutRequest(missing(validating)), readyProbe()},
		"odd webhooks":                    {"apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {" + requestsTrust + "}\nwebhooks: [7, {name: c, clientConfig: 8}]", Probe{AwaitsLaterPhase: true, Message: `its webhook "c" is not trusted yet: it has no caBundle`}},
		"another kind with a request":     {"apiVersion: v1\nkind: ConfigMap\nmetadata: {" + requestsTrust + "}\nwebhooks: [{name: a}]", readyProbe()},
		"a webhook of another API's kind": {"apiVersion: example.com/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {" + requestsTrust + "}\nwebhooks: [{name: a}]", readyProbe()},
	} {
		t.Run(name, func(t *testing.T) {
			var none *Probes
			if diff := cmp.Diff(test.want, none.Probe(builder.FromYAML(test.manifest))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A CRD comes before the Service of its conversion webhook: the rollout continues with
// it, and is complete when the webhook has a caBundle.
func TestTrustHoldsUpTheEndOnly(t *testing.T) {
	b := newFixture(t)
	rev := &Revision{Owner: b.newOwner(1), Phases: []Phase{
		{Name: "crds", Objects: []Object{{Manifest: b.parseManifest(crdManifest(true))}}},
		{Name: "later", Objects: []Object{{Manifest: b.parseManifest(config)}}},
	}}
	engine := newEngineForStore(b, nil)
	engine.Apply(t.Context(), rev)
	b.waitForCRDStatus(crdManifest(true))
	result := engine.Apply(t.Context(), rev)
	want := `phase "crds" (1 of 2) waits for CustomResourceDefinition "kettles.` + b.ns + `.example.com": its conversion webhook is not trusted yet: it has no caBundle`
	if len(result.Phases) < 2 {
		t.Fatalf("the second phase has not started: %s %v", result.Waiting(), result.Err())
	}
	if result.Done() || result.Waiting() != want || result.Phases[1].Objects[0].Err != nil {
		t.Errorf("got done %t, %s, waiting %q", result.Done(), result.Phases[1].Objects[0].Action, result.Waiting())
	}

	b.injectCABundle(crdTrust)
	if result = engine.Apply(t.Context(), rev); !result.Done() || result.Waiting() != "" {
		t.Errorf("got done %t, waiting %q", result.Done(), result.Waiting())
	}
}
