package webhook

import (
	"cmp"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// Labels of the configurations of admission webhooks, in addition to those of their owner.
const (
	// LabelGenerateName is the generateName of the description.
	LabelGenerateName = "olm.webhook-description-generate-name"
	// LabelHash is the hash of the description.
	LabelHash = "olm.webhook-description-hash"
	// AnnotationNamespaces is the hash of the webhook's namespace selector. A recreated group has
	// another selector, although nothing else has changed.
	AnnotationNamespaces = "mainstay.dev/webhook-namespaces-hash"
)

// defaultPort is the port of a webhook whose description has none.
const defaultPort = 443

// namespaceSelector returns the selector of the namespaces that a webhook is called for: the target namespaces
// of the group. Nil means all.
func namespaceSelector(group *operatorsv1.OperatorGroup) *metav1.LabelSelector {
	if len(group.Spec.TargetNamespaces) > 0 {
		return &metav1.LabelSelector{MatchLabels: map[string]string{group.NamespaceLabel(): ""}}
	}
	return group.Spec.Selector
}

// fingerprint identifies the input of an admission webhook's configuration.
type fingerprint struct{ name, description, namespaces string }

func newFingerprint(d *v1alpha1.WebhookDescription, group *operatorsv1.OperatorGroup) (fingerprint, error) {
	description, err := csvinfo.Hash(d)
	if err != nil {
		return fingerprint{}, err
	}
	namespaces, err := csvinfo.Hash(namespaceSelector(group))
	return fingerprint{d.GenerateName, description, namespaces}, err
}

// fingerprintOf returns the fingerprint in the metadata of a configuration.
func fingerprintOf(object client.Object) fingerprint {
	return fingerprint{object.GetLabels()[LabelGenerateName], object.GetLabels()[LabelHash], object.GetAnnotations()[AnnotationNamespaces]}
}

// newServiceReference returns the reference to the Service of a webhook.
func newServiceReference(csv *v1alpha1.ClusterServiceVersion, d *v1alpha1.WebhookDescription) *admissionregistrationv1.ServiceReference {
	return &admissionregistrationv1.ServiceReference{
		Namespace: csv.Namespace, Name: csvinfo.ServiceName(d.DeploymentName),
		Path: d.WebhookPath, Port: ptr.To(cmp.Or(d.ContainerPort, defaultPort)),
	}
}

// newConfiguration returns the configuration of an admission webhook.
func newConfiguration(csv *v1alpha1.ClusterServiceVersion, d *v1alpha1.WebhookDescription, group *operatorsv1.OperatorGroup, ca []byte) (client.Object, error) {
	fp, err := newFingerprint(d, group)
	if err != nil {
		return nil, err
	}

	meta := metav1.ObjectMeta{
		GenerateName: d.GenerateName + "-",
		Labels: csvinfo.MergeLabels(csvinfo.OwnerLabels(csv.Namespace, csv.Name), map[string]string{
			LabelGenerateName: fp.name, LabelHash: fp.description, csvinfo.LabelManaged: "true",
		}),
		Annotations: map[string]string{AnnotationNamespaces: fp.namespaces},
	}

	config := admissionregistrationv1.WebhookClientConfig{Service: newServiceReference(csv, d), CABundle: ca}
	if d.Type == v1alpha1.MutatingAdmissionWebhook {
		return &admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: meta,
			Webhooks: []admissionregistrationv1.MutatingWebhook{{
				Name: d.GenerateName, ClientConfig: config, Rules: d.Rules, FailurePolicy: d.FailurePolicy,
				MatchPolicy: d.MatchPolicy, NamespaceSelector: namespaceSelector(group), ObjectSelector: d.ObjectSelector,
				SideEffects: d.SideEffects, TimeoutSeconds: d.TimeoutSeconds, AdmissionReviewVersions: d.AdmissionReviewVersions,
				ReinvocationPolicy: d.ReinvocationPolicy,
			}},
		}, nil
	}

	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: meta,
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: d.GenerateName, ClientConfig: config, Rules: d.Rules, FailurePolicy: d.FailurePolicy,
			MatchPolicy: d.MatchPolicy, NamespaceSelector: namespaceSelector(group), ObjectSelector: d.ObjectSelector,
			SideEffects: d.SideEffects, TimeoutSeconds: d.TimeoutSeconds, AdmissionReviewVersions: d.AdmissionReviewVersions,
		}},
	}, nil
}

// updateConfiguration sets the wanted webhooks in an existing configuration. It keeps labels and annotations that
// others have set.
func updateConfiguration(found, wanted client.Object) {
	found.SetLabels(csvinfo.MergeLabels(found.GetLabels(), wanted.GetLabels()))
	found.SetAnnotations(csvinfo.MergeLabels(found.GetAnnotations(), wanted.GetAnnotations()))
	switch found := found.(type) {
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		if wanted, ok := wanted.(*admissionregistrationv1.MutatingWebhookConfiguration); ok {
			found.Webhooks = wanted.Webhooks
		}
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		if wanted, ok := wanted.(*admissionregistrationv1.ValidatingWebhookConfiguration); ok {
			found.Webhooks = wanted.Webhooks
		}
	}
}
