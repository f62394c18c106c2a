package migration_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/action/migration/plan"
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

	stop := f.watchConversion()
	rights := f.watchRights()
	f.must(f.newMigration(plan.Options{Acknowledged: []plan.Acknowledgement{plan.AcknowledgeRestart}}).Run(t.Context()))
	f.expectMigrated("1.0.0")
	f.expectOneWebhook()
	before.templates++ // the one restart
	f.expectIdentities(before)

	f.must(f.newRollback(true).Run(t.Context()))
	stop()
	rights()
	f.expectClassic("1.0.0")
	before.templates++ // and back
	f.expectIdentities(before)
}

func (f *fixture) crdName() string { return "greetings." + f.name + ".example.com" }

// expectOneWebhook checks that only the extension has a configuration of the validating webhook, and
// that it and the CRD have an authority.
func (f *fixture) expectOneWebhook() {
	f.t.Helper()
	var list admissionregistrationv1.ValidatingWebhookConfigurationList
	f.must(f.List(f.t.Context(), &list))
	found := 0
	for i := range list.Items {
		for _, webhook := range list.Items[i].Webhooks {
			if !strings.HasSuffix(webhook.Name, f.name+".example.com") {
				continue
			}
			found++
			if list.Items[i].Labels[olmv1.LabelOwnerName] != f.name {
				f.t.Errorf("the configuration %s does not belong to the extension", list.Items[i].Name)
			}
			if len(webhook.ClientConfig.CABundle) == 0 {
				f.t.Errorf("the configuration %s has no authority", list.Items[i].Name)
			}
		}
	}
	if found != 1 {
		f.t.Errorf("got %d configurations of the webhook, want 1", found)
	}

	binding := &rbacv1.RoleBinding{}
	err := f.Get(f.t.Context(), client.ObjectKey{Namespace: "kube-system", Name: f.name + "-service-auth-reader"}, binding)
	if !apierrors.IsNotFound(err) {
		f.t.Errorf("got %v and the binding %+v in kube-system, want none", err, binding.ObjectMeta)
	}

	crd := get(f, &apiextensionsv1.CustomResourceDefinition{}, f.crdName())
	if c := crd.Spec.Conversion; c == nil || c.Webhook == nil || c.Webhook.ClientConfig == nil || len(c.Webhook.ClientConfig.CABundle) == 0 {
		f.t.Errorf("got the conversion %+v, want a webhook with an authority", c)
	}
}

// watchConversion looks all the time at the conversion of the CRD, until stop is called. The test
// fails if it ever is None.
func (f *fixture) watchConversion() (stop func()) {
	ctx, cancel := context.WithCancel(f.t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			crd := &apiextensionsv1.CustomResourceDefinition{}
			if err := f.Get(ctx, f.keyOf(crd, f.crdName()), crd); err != nil {
				continue
			}
			if c := crd.Spec.Conversion; c == nil || c.Strategy != apiextensionsv1.WebhookConverter {
				f.t.Errorf("the conversion of the CRD is %+v", c)
				return
			}
		}
	})
	return func() {
		cancel()
		done.Wait()
	}
}
