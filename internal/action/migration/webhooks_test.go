package migration_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/action/migration"
	"github.com/mainstay-dev/mainstay/internal/action/migration/plan"
	"github.com/mainstay-dev/mainstay/internal/apply"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// addWebhooks adds a validating and a conversion webhook to the sample operator.
func addWebhooks(_, file, text string) string {
	if !strings.HasSuffix(file, "clusterserviceversion.yaml") {
		return text
	}
	_, rest, _ := strings.Cut(text, "- name: greetings.")
	group, _, _ := strings.Cut(rest, "\n")
	name, _, _ := strings.Cut(group, ".")
	text = strings.NewReplacer("{type: OwnNamespace, supported: true}", "{type: OwnNamespace, supported: false}",
		"{type: SingleNamespace, supported: true}", "{type: SingleNamespace, supported: false}").Replace(text)
	return text + `
  webhookdefinitions:
    - type: ValidatingAdmissionWebhook
      generateName: v.` + name + `.io
      deploymentName: ` + name + `
      containerPort: 9443
      targetPort: 9443
      failurePolicy: Fail
      sideEffects: None
      admissionReviewVersions: [v1]
      webhookPath: /validate
      rules:
        - {apiGroups: [` + group + `], apiVersions: [v1alpha1], resources: [greetings], operations: [DELETE]}
    - type: ConversionWebhook
      generateName: c.` + name + `.io
      deploymentName: ` + name + `
      containerPort: 9443
      targetPort: 9443
      sideEffects: None
      admissionReviewVersions: [v1]
      webhookPath: /convert
      conversionCRDs: [greetings.` + group + `]
`
}

// TestMigrateWebhooks moves an operator that keeps its serving Secret: no pod restarts.
func TestMigrateWebhooks(t *testing.T) {
	f := newFixture(t, "lemon", addWebhooks, "1.0.0")
	f.installWithClassic(nil, "1.0.0")
	before := f.identities()
	secret := get(f, &corev1.Secret{}, f.name+"-service-cert")
	if p := f.checkWithoutWrites(plan.Options{}); !p.Allowed() {
		t.Fatalf("got the findings %+v, want none that blocks", p.Findings)
	}

	stop := f.watchAll()
	f.Must(f.newMigration(plan.Options{}).Run(t.Context()))
	f.expectMigrated("1.0.0")
	f.expectOneWebhook()
	f.expectNotInRevisions("Secret", secret.Name)
	f.expectIdentities(before)
	f.expectCertificateOf(secret)
	f.expectAuthoritiesManager()

	f.Must(f.newRollback(true).Run(t.Context()))
	f.expectClassic("1.0.0")
	f.expectIdentities(before)
	f.expectCertificateOf(secret)
	restored := get(f, &corev1.Secret{}, secret.Name)
	if got := restored.Annotations["mainstay.dev/serving-certificate-of"]; got != "" || restored.Labels[olmv1.LabelOwnerName] != "" || len(restored.OwnerReferences) != 1 {
		t.Errorf("got the metadata %+v, want no metadata of the extension", restored.ObjectMeta)
	}

	// The Secret stays when the first revision is archived.
	f.Must(f.newMigration(plan.Options{}).Run(t.Context()))
	f.updateAndArchive("1.1.0")
	stop()
	f.expectCertificateOf(secret)
}

// watchAll watches the conversion, the rights and the admission webhook of the operator until stop is
// called.
func (f *fixture) watchAll() (stop func()) {
	stops := []func(){f.watchConversion(), f.watchRights(), f.watchAdmission()}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// expectCertificateOf checks that the serving Secret is the same, with the same certificate.
func (f *fixture) expectCertificateOf(want *corev1.Secret) {
	f.T.Helper()
	got := get(f, &corev1.Secret{}, want.Name)
	if got.UID != want.UID || !bytes.Equal(got.Data[corev1.TLSCertKey], want.Data[corev1.TLSCertKey]) {
		f.T.Errorf("got another serving Secret %s or certificate, want %s unchanged", got.UID, want.UID)
	}
}

// expectAuthoritiesManager checks that the issuer manages nothing but the authorities of the webhook:
// otherwise a webhook that a later version drops would stay.
func (f *fixture) expectAuthoritiesManager() {
	f.T.Helper()
	config := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	f.Must(f.Get(f.T.Context(), client.ObjectKey{Name: "v." + f.name + ".io"}, config))
	for _, entry := range config.ManagedFields {
		if entry.Manager == apply.ServingFieldManager && strings.Contains(entry.FieldsV1.GetRawString(), "f:rules") {
			f.T.Errorf("the issuer manages %s, want only caBundle", entry.FieldsV1.GetRawString())
		}
	}
}

// updateAndArchive confirms the migration, publishes a version, and waits until the first revision is
// archived.
func (f *fixture) updateAndArchive(version string) {
	f.T.Helper()
	f.publish(version, addWebhooks)
	f.Must((&migration.Confirm{Operation: f.newOperation()}).Run(f.T.Context()))
	f.Eventually("the first revision is archived", func() error {
		set := &olmv1.ClusterObjectSet{}
		if err := f.Get(f.T.Context(), client.ObjectKey{Name: f.name + "-1"}, set); err != nil {
			return err
		}
		if c := meta.FindStatusCondition(set.Status.Conditions, olmv1.TypeProgressing); c == nil || c.Reason != olmv1.ReasonArchived {
			return fmt.Errorf("got the condition %+v", c)
		}
		return nil
	})
}

// TestMigrateWebhooksToNewCertificates moves an operator whose serving Secret has a name that OLM v1
// does not mount: its pods restart once in each direction.
func TestMigrateWebhooksToNewCertificates(t *testing.T) {
	f := newFixture(t, "quince-"+strings.Repeat("q", 46), addWebhooks, "1.0.0")
	f.installWithClassic(nil, "1.0.0")
	f.create(&rbacv1.RoleBinding{ // as other implementations create it for webhooks
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: f.name + "-service-auth-reader", Labels: map[string]string{"olm.managed": "true"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "extension-apiserver-authentication-reader"},
	})
	before := f.identities()

	p := f.checkWithoutWrites(plan.Options{})
	if p.Allowed() || !slices.ContainsFunc(p.Findings, func(finding plan.Finding) bool { return finding.Acknowledge == plan.AcknowledgeRestart }) {
		t.Fatalf("got the findings %+v, want a question about the restart", p.Findings)
	}

	secret := get(f, &corev1.Secret{}, csvinfo.SecretName(f.name))
	stop := f.watchAll()
	f.Must(f.newMigration(plan.Options{Acknowledged: []plan.Acknowledgement{plan.AcknowledgeRestart}}).Run(t.Context()))
	f.expectMigrated("1.0.0")
	f.expectOneWebhook()
	f.expectNotInRevisions("Secret", secret.Name)
	before.templates++ // the one restart
	f.expectIdentities(before)

	f.Must(f.newRollback(true).Run(t.Context()))
	stop()
	f.expectClassic("1.0.0")
	before.templates++ // and back
	f.expectIdentities(before)

	// After an update the first revision is archived, and the Secret of OLM Classic stays.
	f.Must(f.newMigration(plan.Options{Acknowledged: []plan.Acknowledgement{plan.AcknowledgeRestart}}).Run(t.Context()))
	f.updateAndArchive("1.1.0")
	f.expectCertificateOf(secret)
}

// expectNotInRevisions checks that no revision of the extension contains an object.
func (f *fixture) expectNotInRevisions(kind, name string) {
	f.T.Helper()
	var sets olmv1.ClusterObjectSetList
	f.Must(f.List(f.T.Context(), &sets, client.MatchingLabels{olmv1.LabelOwnerName: f.name}))
	if len(sets.Items) == 0 {
		f.T.Fatal("there is no revision")
	}
	for i := range sets.Items {
		for _, phase := range sets.Items[i].Spec.Phases {
			for _, object := range phase.Objects {
				if object.Object != nil && object.Object.GetKind() == kind && object.Object.GetName() == name {
					f.T.Errorf("revision %s contains %s %s", sets.Items[i].Name, kind, name)
				}
			}
		}
	}
}

// watchAdmission watches the configurations of the validating webhook until stop is called. The test
// fails if there ever is none that refuses requests: then the API server would accept an object that
// the webhook rejects.
func (f *fixture) watchAdmission() (stop func()) {
	f.T.Helper()
	watcher, err := client.NewWithWatch(env.Start(f.T), client.Options{Scheme: f.Scheme()})
	f.Must(err)
	var list admissionregistrationv1.ValidatingWebhookConfigurationList
	f.Must(watcher.List(f.T.Context(), &list))
	present := map[string]bool{}
	for i := range list.Items {
		if f.refusesRequests(&list.Items[i]) {
			present[list.Items[i].Name] = true
		}
	}
	if len(present) == 0 {
		f.T.Fatal("there is no webhook to watch")
	}

	ctx, cancel := context.WithCancel(f.T.Context())
	events, err := watcher.Watch(ctx, &admissionregistrationv1.ValidatingWebhookConfigurationList{}, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	f.Must(err)
	var done sync.WaitGroup
	done.Go(func() {
		for event := range events.ResultChan() {
			config, ok := event.Object.(*admissionregistrationv1.ValidatingWebhookConfiguration)
			if !ok {
				continue
			}
			delete(present, config.Name)
			if event.Type != watch.Deleted && f.refusesRequests(config) {
				present[config.Name] = true
			}
			if len(present) == 0 {
				f.T.Errorf("no configuration of the webhook is left after %s was %s", config.Name, strings.ToLower(string(event.Type)))
			}
		}
	})
	return func() {
		cancel()
		events.Stop()
		done.Wait()
	}
}

// refusesRequests reports whether a configuration has the webhook of the operator, and fails closed.
func (f *fixture) refusesRequests(config *admissionregistrationv1.ValidatingWebhookConfiguration) bool {
	return config.DeletionTimestamp.IsZero() && slices.ContainsFunc(config.Webhooks, func(w admissionregistrationv1.ValidatingWebhook) bool {
		return strings.HasSuffix(w.Name, f.name+".io") && w.FailurePolicy != nil && *w.FailurePolicy == admissionregistrationv1.Fail && len(w.Rules) > 0
	})
}

func (f *fixture) crdName() string { return "greetings." + f.name + ".example.com" }

// expectOneWebhook checks that only the extension has a configuration of the validating webhook, and
// that it and the CRD have an authority.
func (f *fixture) expectOneWebhook() {
	f.T.Helper()
	var list admissionregistrationv1.ValidatingWebhookConfigurationList
	f.Must(f.List(f.T.Context(), &list))
	found := 0
	for i := range list.Items {
		for _, webhook := range list.Items[i].Webhooks {
			if !strings.HasSuffix(webhook.Name, f.name+".io") {
				continue
			}
			found++
			if list.Items[i].Labels[olmv1.LabelOwnerName] != f.name {
				f.T.Errorf("the configuration %s does not belong to the extension", list.Items[i].Name)
			}
			if len(webhook.ClientConfig.CABundle) == 0 {
				f.T.Errorf("the configuration %s has no authority", list.Items[i].Name)
			}
		}
	}
	if found != 1 {
		f.T.Errorf("got %d configurations of the webhook, want 1", found)
	}

	binding := &rbacv1.RoleBinding{}
	err := f.Get(f.T.Context(), client.ObjectKey{Namespace: "kube-system", Name: f.name + "-service-auth-reader"}, binding)
	if !apierrors.IsNotFound(err) {
		f.T.Errorf("got %v and the binding %+v in kube-system, want none", err, binding.ObjectMeta)
	}

	crd := get(f, &apiextensionsv1.CustomResourceDefinition{}, f.crdName())
	if c := crd.Spec.Conversion; c == nil || c.Webhook == nil || c.Webhook.ClientConfig == nil || len(c.Webhook.ClientConfig.CABundle) == 0 {
		f.T.Errorf("got the conversion %+v, want a webhook with an authority", c)
	}
}

// watchConversion checks each conversion of the CRD until stop is called. The test fails if it ever is None.
func (f *fixture) watchConversion() (stop func()) {
	f.T.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: f.crdName()}}
	return env.CheckStates(f.Fixture, crd, func(crd *apiextensionsv1.CustomResourceDefinition) error {
		if c := crd.Spec.Conversion; c == nil || c.Strategy != apiextensionsv1.WebhookConverter {
			return fmt.Errorf("got the conversion %+v", c)
		}
		return nil
	})
}
