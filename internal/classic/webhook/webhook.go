package webhook

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/owned"
)

// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations;validatingwebhookconfigurations,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;patch

// Webhooks makes and removes what has the API server call the webhooks of ClusterServiceVersions.
type Webhooks struct {
	// Client writes. What it reads, metadata of webhook configurations, may come from a cache.
	Client client.Client
	// Reader reads from the API server itself what must not be out of date: what is there before
	// more is made, and CRDs. Nil means Client.
	Reader client.Reader
}

func (w *Webhooks) reader() client.Reader {
	if w.Reader != nil {
		return w.Reader
	}
	return w.Client
}

// Ensure makes the configurations of the admission webhooks of a ClusterServiceVersion and has its
// conversion webhooks convert. group is the OperatorGroup of the namespace, whose namespaces the
// admission webhooks are asked about; caBundle gives the authority, PEM encoded, that issued the
// certificate of a Deployment.
func (w *Webhooks) Ensure(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, group *operatorsv1.OperatorGroup, caBundle func(deployment string) []byte) error {
	if group == nil && len(csv.Spec.WebhookDefinitions) > 0 {
		return errNoGroup
	}

	for i := range csv.Spec.WebhookDefinitions {
		d := &csv.Spec.WebhookDefinitions[i]
		var err error
		if d.Type == v1alpha1.ConversionWebhook {
			err = w.ensureConversion(ctx, csv, d, caBundle(d.DeploymentName))
		} else {
			err = w.ensureAdmission(ctx, csv, d, group, caBundle(d.DeploymentName))
		}
		if err != nil {
			return err
		}
	}

	return nil
}

// ensureAdmission updates the configuration of an admission webhook, or makes it. Its name is made up
// by the API server, so that several may be there when two processes ran at once: one is kept.
func (w *Webhooks) ensureAdmission(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, d *v1alpha1.WebhookDescription, group *operatorsv1.OperatorGroup, ca []byte) error {
	wanted, err := configurationOf(csv, d, group, ca)
	if err != nil {
		return fmt.Errorf("webhook %q: %w", d.GenerateName, err)
	}

	found, err := w.list(ctx, csv, d)
	if err != nil {
		return fmt.Errorf("listing the configurations of webhook %q: %w", d.GenerateName, err)
	}

	if len(found) == 0 {
		if err := w.Client.Create(ctx, wanted); err != nil {
			return fmt.Errorf("making the configuration of webhook %q: %w", d.GenerateName, err)
		}
		return nil
	}

	overwrite(found[0], wanted)
	if err := w.Client.Update(ctx, found[0]); err != nil {
		return fmt.Errorf("updating the configuration %s of webhook %q: %w", found[0].GetName(), d.GenerateName, err)
	}

	for _, surplus := range found[1:] {
		if err := client.IgnoreNotFound(w.Client.Delete(ctx, surplus)); err != nil {
			return fmt.Errorf("deleting the surplus configuration %s of webhook %q: %w", surplus.GetName(), d.GenerateName, err)
		}
	}

	return nil
}

// list returns the configurations that were made for an admission webhook, the oldest first.
func (w *Webhooks) list(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, d *v1alpha1.WebhookDescription) ([]client.Object, error) {
	of := client.MatchingLabels(csvinfo.With(csvinfo.OwnerLabels(csv.Namespace, csv.Name), map[string]string{LabelGenerateName: d.GenerateName}))
	var found []client.Object
	if d.Type == v1alpha1.MutatingAdmissionWebhook {
		var list admissionregistrationv1.MutatingWebhookConfigurationList
		if err := w.reader().List(ctx, &list, of); err != nil {
			return nil, err
		}
		for i := range list.Items {
			found = append(found, &list.Items[i])
		}
	} else {
		var list admissionregistrationv1.ValidatingWebhookConfigurationList
		if err := w.reader().List(ctx, &list, of); err != nil {
			return nil, err
		}
		for i := range list.Items {
			found = append(found, &list.Items[i])
		}
	}

	slices.SortFunc(found, func(a, b client.Object) int {
		created, other := a.GetCreationTimestamp(), b.GetCreationTimestamp()
		return cmp.Or(created.Compare(other.Time), cmp.Compare(a.GetName(), b.GetName()))
	})
	return found, nil
}

// Check reports whether every webhook of a ClusterServiceVersion is in place, and deletes the
// configurations of those that it does not describe any more. An error is one of what is in the
// cluster, among others that a conversion webhook does not convert yet.
func (w *Webhooks) Check(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, group *operatorsv1.OperatorGroup) (ready bool, err error) {
	if group == nil && len(csv.Spec.WebhookDefinitions) > 0 {
		return false, errNoGroup
	}

	there := map[mark]bool{}
	for _, kind := range kinds {
		if err := w.sweep(ctx, csv, kind, there); err != nil {
			return false, err
		}
	}

	ready = true
	for i := range csv.Spec.WebhookDefinitions {
		d := &csv.Spec.WebhookDefinitions[i]
		if d.Type == v1alpha1.ConversionWebhook {
			if err := w.checkConversion(ctx, d); err != nil {
				return false, err
			}
			continue
		}

		wanted, err := markOf(d, group)
		if err != nil {
			return false, fmt.Errorf("webhook %q: %w", d.GenerateName, err)
		}

		ready = ready && there[wanted]
	}

	return ready, nil
}

// kinds are the kinds of configurations of admission webhooks.
var kinds = map[v1alpha1.WebhookAdmissionType]string{
	v1alpha1.MutatingAdmissionWebhook:   "MutatingWebhookConfiguration",
	v1alpha1.ValidatingAdmissionWebhook: "ValidatingWebhookConfiguration",
}

// sweep finds the configurations of one kind that were made for a ClusterServiceVersion, and deletes
// those that no description is left for.
func (w *Webhooks) sweep(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, kind string, there map[mark]bool) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind(kind + "List"))
	if err := w.Client.List(ctx, list, client.MatchingLabels(csvinfo.OwnerLabels(csv.Namespace, csv.Name))); err != nil {
		return fmt.Errorf("listing each %s of ClusterServiceVersion %s/%s: %w", kind, csv.Namespace, csv.Name, err)
	}

	for i := range list.Items {
		found := &list.Items[i]
		name, ok := found.Labels[LabelGenerateName]
		if !ok {
			return fmt.Errorf("%s %s of ClusterServiceVersion %s/%s has no label %s: delete it", kind, found.Name, csv.Namespace, csv.Name, LabelGenerateName)
		}

		if slices.ContainsFunc(csv.Spec.WebhookDefinitions, func(d v1alpha1.WebhookDescription) bool {
			return d.GenerateName == name && kinds[d.Type] == kind
		}) {
			there[markOn(found)] = true
			continue
		}

		gone := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: found.Name}}
		gone.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind(kind))
		if err := w.Client.Delete(ctx, gone, client.Preconditions{UID: &found.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting %s %s, which ClusterServiceVersion %s/%s does not describe any more: %w", kind, found.Name, csv.Namespace, csv.Name, err)
		}
	}

	return nil
}

// Remove deletes the configurations of the admission webhooks of a ClusterServiceVersion.
// Conversions stay: see ResetConversions.
func (w *Webhooks) Remove(ctx context.Context, csv *v1alpha1.ClusterServiceVersion) error {
	for _, kind := range kinds {
		gvk := admissionregistrationv1.SchemeGroupVersion.WithKind(kind)
		if _, err := owned.Delete(ctx, w.reader(), w.Client, gvk, client.ObjectKeyFromObject(csv)); err != nil {
			return err
		}
	}
	return nil
}

// ensureConversion has a conversion webhook convert the objects of its CRDs.
func (w *Webhooks) ensureConversion(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, d *v1alpha1.WebhookDescription, ca []byte) error {
	if err := validateConversion(csv, d); err != nil {
		return err
	}

	for _, name := range d.ConversionCRDs {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := w.reader().Get(ctx, client.ObjectKey{Name: name}, crd); err != nil {
			return fmt.Errorf("unable to get CRD %s specified in Conversion Webhook: %w", name, err)
		}
		if !owns(csv, name) {
			return fmt.Errorf("csv %s does not own CRD %s", csv.Name, name)
		}
		if crd.Spec.PreserveUnknownFields {
			return errPreserve
		}

		at := service(csv, d)
		before := crd.DeepCopy()
		crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
			Strategy: apiextensionsv1.WebhookConverter,
			Webhook: &apiextensionsv1.WebhookConversion{
				ConversionReviewVersions: d.AdmissionReviewVersions,
				ClientConfig: &apiextensionsv1.WebhookClientConfig{
					CABundle: ca,
					Service: &apiextensionsv1.ServiceReference{
						Namespace: at.Namespace, Name: at.Name, Port: at.Port, Path: ptr.To(cmp.Or(ptr.Deref(at.Path, ""), "/")),
					},
				},
			},
		}
		if err := w.patch(ctx, crd, before); err != nil {
			return fmt.Errorf("having CRD %s converted by webhook %q: %w", name, d.GenerateName, err)
		}
	}

	return nil
}

func (w *Webhooks) checkConversion(ctx context.Context, d *v1alpha1.WebhookDescription) error {
	for _, name := range d.ConversionCRDs {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := w.reader().Get(ctx, client.ObjectKey{Name: name}, crd); err != nil {
			return fmt.Errorf("unable to get CRD %s specified in Conversion Webhook: %w", name, err)
		}
		if !converts(crd) {
			return errNotReady
		}
	}

	return nil
}

// ResetConversions has the API server convert objects by no webhook any more where a
// ClusterServiceVersion had it do that. It is for one that is deleted and that no other replaces:
// without the webhook, objects could not be read any more.
func (w *Webhooks) ResetConversions(ctx context.Context, csv *v1alpha1.ClusterServiceVersion) error {
	for i := range csv.Spec.WebhookDefinitions {
		d := &csv.Spec.WebhookDefinitions[i]
		if d.Type != v1alpha1.ConversionWebhook {
			continue
		}
		for _, name := range d.ConversionCRDs {
			crd := &apiextensionsv1.CustomResourceDefinition{}
			if err := w.reader().Get(ctx, client.ObjectKey{Name: name}, crd); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("reading CRD %s: %w", name, err)
			} else if err != nil || !isConvertedBy(crd, service(csv, d)) {
				continue
			}

			before := crd.DeepCopy()
			crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
			if err := w.patch(ctx, crd, before); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("ending the conversion of CRD %s by webhook %q: %w", name, d.GenerateName, err)
			}
		}
	}

	return nil
}

// isConvertedBy reports whether a CRD is converted by the webhook behind a Service, and not by
// somebody else's.
func isConvertedBy(crd *apiextensionsv1.CustomResourceDefinition, at *admissionregistrationv1.ServiceReference) bool {
	if crd.Spec.Conversion == nil || crd.Spec.Conversion.Webhook == nil || crd.Spec.Conversion.Webhook.ClientConfig == nil {
		return false
	}
	s := crd.Spec.Conversion.Webhook.ClientConfig.Service
	return s != nil && s.Namespace == at.Namespace && s.Name == at.Name
}

// patch writes what changed of a CRD, if anything did.
func (w *Webhooks) patch(ctx context.Context, crd, before *apiextensionsv1.CustomResourceDefinition) error {
	patch := client.MergeFrom(before)
	if data, err := patch.Data(crd); err != nil || string(data) == "{}" {
		return err
	}
	return w.Client.Patch(ctx, crd, patch)
}
