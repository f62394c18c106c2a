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

// Labels of the configurations of admission webhooks, beside those of their owner.
const (
	// LabelGenerateName is the generateName of the description.
	LabelGenerateName = "olm.webhook-description-generate-name"
	// LabelHash is the hash of the description.
	LabelHash = "olm.webhook-description-hash"
	// AnnotationNamespaces is the hash of the selector of the namespaces that the webhook is asked
	// about: a group that is made anew has another one, though nothing else has changed.
	AnnotationNamespaces = "mainstay.dev/webhook-namespaces-hash"
)

// defaultPort is the port of a webhook that names none.
const defaultPort = 443

// namespaceSelector says of which namespaces a webhook is asked: those that the group names, or those
// that it selects. Nil means all.
func namespaceSelector(group *operatorsv1.OperatorGroup) *metav1.LabelSelector {
	if len(group.Spec.TargetNamespaces) > 0 {
		return &metav1.LabelSelector{MatchLabels: map[string]string{group.NamespaceLabel(): ""}}
	}
	return group.Spec.Selector
}

// mark says what the configuration of an admission webhook was made of.
type mark struct{ name, description, namespaces string }

func markOf(d *v1alpha1.WebhookDescription, group *operatorsv1.OperatorGroup) (mark, error) {
	description, err := csvinfo.Hash(d)
	if err != nil {
		return mark{}, err
	}
	namespaces, err := csvinfo.Hash(namespaceSelector(group))
	return mark{d.GenerateName, description, namespaces}, err
}

// markOn reads the mark of a configuration.
func markOn(object client.Object) mark {
	return mark{object.GetLabels()[LabelGenerateName], object.GetLabels()[LabelHash], object.GetAnnotations()[AnnotationNamespaces]}
}

// service is where a webhook is reached.
func service(csv *v1alpha1.ClusterServiceVersion, d *v1alpha1.WebhookDescription) *admissionregistrationv1.ServiceReference {
	return &admissionregistrationv1.ServiceReference{
		Namespace: csv.Namespace, Name: csvinfo.ServiceName(d.DeploymentName),
		Path: d.WebhookPath, Port: ptr.To(cmp.Or(d.ContainerPort, defaultPort)),
	}
}

// configurationOf is the configuration of an admission webhook.
func configurationOf(csv *v1alpha1.ClusterServiceVersion, d *v1alpha1.WebhookDescription, group *operatorsv1.OperatorGroup, ca []byte) (client.Object, error) {
	mark, err := markOf(d, group)
	if err != nil {
		return nil, err
	}

	meta := metav1.ObjectMeta{
		GenerateName: d.GenerateName + "-",
		Labels: csvinfo.With(csvinfo.OwnerLabels(csv.Namespace, csv.Name), map[string]string{
			LabelGenerateName: mark.name, LabelHash: mark.description, csvinfo.LabelManaged: "true",
		}),
		Annotations: map[string]string{AnnotationNamespaces: mark.namespaces},
	}

	config := admissionregistrationv1.WebhookClientConfig{Service: service(csv, d), CABundle: ca}
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

// overwrite makes a configuration that is there what it should be, apart from what others put on its
// metadata.
func overwrite(found, wanted client.Object) {
	found.SetLabels(csvinfo.With(found.GetLabels(), wanted.GetLabels()))
	found.SetAnnotations(csvinfo.With(found.GetAnnotations(), wanted.GetAnnotations()))
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
