package migration_test

import (
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
      generateName: v.` + group + `
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
      generateName: c.` + group + `
      deploymentName: ` + name + `
      containerPort: 9443
      targetPort: 9443
      sideEffects: None
      admissionReviewVersions: [v1]
      webhookPath: /convert
      conversionCRDs: [greetings.` + group + `]
`
}

func TestMigrateWebhooks(t *testing.T) {
	f := newFixture(t, "lemon", addWebhooks, "1.0.0")
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

	secret := f.uidOf(&corev1.Secret{}, f.name+"-service-cert")
	stop := f.watchConversion()
	rights := f.watchRights()
	admission := f.watchAdmission()
	f.Must(f.newMigration(plan.Options{Acknowledged: []plan.Acknowledgement{plan.AcknowledgeRestart}}).Run(t.Context()))
	f.expectMigrated("1.0.0")
	f.expectOneWebhook()
	f.expectNotInRevisions("Secret", f.name+"-service-cert")
	before.templates++ // the one restart
	f.expectIdentities(before)

	f.Must(f.newRollback(true).Run(t.Context()))
	stop()
	rights()
	admission()
	f.expectClassic("1.0.0")
	before.templates++ // and back
	f.expectIdentities(before)

	// After an update the first revision is archived, and the Secret of OLM Classic stays.
	f.Must(f.newMigration(plan.Options{Acknowledged: []plan.Acknowledgement{plan.AcknowledgeRestart}}).Run(t.Context()))
	f.publish("1.1.0", addWebhooks)
	f.Must((&migration.Confirm{Operation: f.newOperation()}).Run(t.Context()))
	f.Eventually("the first revision is archived", func() error {
		set := &olmv1.ClusterObjectSet{}
		if err := f.Get(t.Context(), client.ObjectKey{Name: f.name + "-1"}, set); err != nil {
			return err
		}
		if c := meta.FindStatusCondition(set.Status.Conditions, olmv1.TypeProgressing); c == nil || c.Reason != olmv1.ReasonArchived {
			return fmt.Errorf("its condition is %+v", c)
		}
		return nil
	})
	if got := f.uidOf(&corev1.Secret{}, f.name+"-service-cert"); got != secret {
		t.Errorf("got the serving Secret %s, want %s", got, secret)
	}
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
		return strings.HasSuffix(w.Name, f.name+".example.com") && w.FailurePolicy != nil && *w.FailurePolicy == admissionregistrationv1.Fail && len(w.Rules) > 0
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
			if !strings.HasSuffix(webhook.Name, f.name+".example.com") {
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

// watchConversion looks all the time at the conversion of the CRD, until stop is called. The test
// fails if it ever is None.
func (f *fixture) watchConversion() (stop func()) {
	ctx, cancel := context.WithCancel(f.T.Context())
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			crd := &apiextensionsv1.CustomResourceDefinition{}
			if err := f.Get(ctx, f.keyOf(crd, f.crdName()), crd); err != nil {
				continue
			}
			if c := crd.Spec.Conversion; c == nil || c.Strategy != apiextensionsv1.WebhookConverter {
				f.T.Errorf("the conversion of the CRD is %+v", c)
				return
			}
		}
	})
	return func() {
		cancel()
		done.Wait()
	}
}
