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
	"github.com/mainstay-dev/mainstay/internal/classic/csv/owned"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations;validatingwebhookconfigurations,verbs=list;watch;create;update;delete
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;patch

// Webhooks creates and deletes the webhook configurations of ClusterServiceVersions.
type Webhooks struct {
	// Client writes. It may read the metadata of webhook configurations from a cache.
	Client client.Client
	// Reader reads from the API server without the cache what must not be stale: CRDs, and existing
	// configurations before new ones are created. Nil means Client.
	Reader client.Reader
}

func (w *Webhooks) liveReader() client.Reader {
	if w.Reader != nil {
		return w.Reader
	}
	return w.Client
}

// Ensure creates or updates the configurations of a ClusterServiceVersion's admission webhooks, and sets its
// conversion webhooks in CRDs. The admission webhooks are called for the target namespaces of group, the OperatorGroup
// of the namespace. caBundle returns the PEM-encoded authority of a Deployment's certificate.
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

// ensureAdmission creates or updates the configuration of an admission webhook. The API server generates its name,
// so two concurrent instances may create several. All but the oldest are deleted.
func (w *Webhooks) ensureAdmission(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, d *v1alpha1.WebhookDescription, group *operatorsv1.OperatorGroup, ca []byte) error {
	wanted, err := newConfiguration(csv, d, group, ca)
	if err != nil {
		return fmt.Errorf("webhook %q: %w", d.GenerateName, err)
	}

	found, err := w.listConfigurations(ctx, csv, d)
	if err != nil {
		return fmt.Errorf("listing the configurations of webhook %q: %w", d.GenerateName, err)
	}

	if len(found) == 0 {
		if err := w.Client.Create(ctx, wanted); err != nil {
			return fmt.Errorf("creating the configuration of webhook %q: %w", d.GenerateName, err)
		}
		return nil
	}

	updateConfiguration(found[0], wanted)
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

// listConfigurations returns the configurations of an admission webhook, the oldest first.
func (w *Webhooks) listConfigurations(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, d *v1alpha1.WebhookDescription) ([]client.Object, error) {
	selector := client.MatchingLabels(csvinfo.MergeLabels(csvinfo.OwnerLabels(csv.Namespace, csv.Name), map[string]string{LabelGenerateName: d.GenerateName}))
	var found []client.Object
	if d.Type == v1alpha1.MutatingAdmissionWebhook {
		var list admissionregistrationv1.MutatingWebhookConfigurationList
		if err := w.liveReader().List(ctx, &list, selector); err != nil {
			return nil, err
		}
		for i := range list.Items {
			found = append(found, &list.Items[i])
		}
	} else {
		var list admissionregistrationv1.ValidatingWebhookConfigurationList
		if err := w.liveReader().List(ctx, &list, selector); err != nil {
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

// CheckAndPrune reports whether every webhook of a ClusterServiceVersion is installed. It deletes the configurations of
// webhooks that are no longer described. It returns an error if the state of the cluster cannot be read or is
// invalid, or if a conversion webhook is not set yet.
func (w *Webhooks) CheckAndPrune(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, group *operatorsv1.OperatorGroup) (ready bool, err error) {
	if group == nil && len(csv.Spec.WebhookDefinitions) > 0 {
		return false, errNoGroup
	}

	existing := map[fingerprint]bool{}
	for _, kind := range kinds {
		if err := w.pruneConfigurations(ctx, csv, kind, existing); err != nil {
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

		wanted, err := newFingerprint(d, group)
		if err != nil {
			return false, fmt.Errorf("webhook %q: %w", d.GenerateName, err)
		}

		ready = ready && existing[wanted]
	}

	return ready, nil
}

// kinds are the kinds of configurations of admission webhooks.
var kinds = map[v1alpha1.WebhookAdmissionType]string{
	v1alpha1.MutatingAdmissionWebhook:   "MutatingWebhookConfiguration",
	v1alpha1.ValidatingAdmissionWebhook: "ValidatingWebhookConfiguration",
}

// pruneConfigurations adds the configurations of one kind that belong to a ClusterServiceVersion to existing. It
// deletes those whose webhook is no longer described.
func (w *Webhooks) pruneConfigurations(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, kind string, existing map[fingerprint]bool) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind(kind + "List"))
	if err := w.Client.List(ctx, list, client.MatchingLabelsSelector{Selector: csvinfo.SelectOwned(csv.Namespace, csv.Name)}); err != nil {
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
			existing[fingerprintOf(found)] = true
			continue
		}

		obsolete := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: found.Name}}
		obsolete.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind(kind))
		if err := w.Client.Delete(ctx, obsolete, client.Preconditions{UID: &found.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting %s %s, which ClusterServiceVersion %s/%s no longer describes: %w", kind, found.Name, csv.Namespace, csv.Name, err)
		}
	}

	return nil
}

// Remove deletes the configurations of the admission webhooks of a ClusterServiceVersion.
// Conversions stay: see ResetConversions.
func (w *Webhooks) Remove(ctx context.Context, csv *v1alpha1.ClusterServiceVersion) error {
	for _, kind := range kinds {
		gvk := admissionregistrationv1.SchemeGroupVersion.WithKind(kind)
		if _, err := owned.Delete(ctx, w.liveReader(), w.Client, gvk, client.ObjectKeyFromObject(csv)); err != nil {
			return err
		}
	}
	return nil
}

// ensureConversion sets a conversion webhook in its CRDs.
func (w *Webhooks) ensureConversion(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, d *v1alpha1.WebhookDescription, ca []byte) error {
	if err := validateConversion(csv, d); err != nil {
		return err
	}

	for _, name := range d.ConversionCRDs {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := w.liveReader().Get(ctx, client.ObjectKey{Name: name}, crd); err != nil {
			return fmt.Errorf("unable to get CRD %s specified in Conversion Webhook: %w", name, err)
		}
		if !ownsCRD(csv, name) {
			return fmt.Errorf("csv %s does not own CRD %s", csv.Name, name)
		}
		if crd.Spec.PreserveUnknownFields {
			return errPreserve
		}

		at := newServiceReference(csv, d)
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
		if err := w.patchCRD(ctx, crd, before); err != nil {
			return fmt.Errorf("setting the conversion webhook of CRD %s to %q: %w", name, d.GenerateName, err)
		}
	}

	return nil
}

func (w *Webhooks) checkConversion(ctx context.Context, d *v1alpha1.WebhookDescription) error {
	for _, name := range d.ConversionCRDs {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := w.liveReader().Get(ctx, client.ObjectKey{Name: name}, crd); err != nil {
			return fmt.Errorf("unable to get CRD %s specified in Conversion Webhook: %w", name, err)
		}
		if !hasConversionWebhook(crd) {
			return errNotReady
		}
	}

	return nil
}

// ResetConversions removes the conversion webhooks of a ClusterServiceVersion from CRDs. It is called when the
// ClusterServiceVersion is deleted and not replaced, because custom resources cannot be read without the webhook.
func (w *Webhooks) ResetConversions(ctx context.Context, csv *v1alpha1.ClusterServiceVersion) error {
	for i := range csv.Spec.WebhookDefinitions {
		d := &csv.Spec.WebhookDefinitions[i]
		if d.Type != v1alpha1.ConversionWebhook {
			continue
		}
		for _, name := range d.ConversionCRDs {
			crd := &apiextensionsv1.CustomResourceDefinition{}
			if err := w.liveReader().Get(ctx, client.ObjectKey{Name: name}, crd); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("reading CRD %s: %w", name, err)
			} else if err != nil || !isConvertedBy(crd, newServiceReference(csv, d)) {
				continue
			}

			before := crd.DeepCopy()
			crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
			if err := w.patchCRD(ctx, crd, before); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("removing the conversion of CRD %s by webhook %q: %w", name, d.GenerateName, err)
			}
		}
	}

	return nil
}

// isConvertedBy reports whether the conversion webhook of a CRD is behind the given Service.
func isConvertedBy(crd *apiextensionsv1.CustomResourceDefinition, at *admissionregistrationv1.ServiceReference) bool {
	if crd.Spec.Conversion == nil || crd.Spec.Conversion.Webhook == nil || crd.Spec.Conversion.Webhook.ClientConfig == nil {
		return false
	}
	s := crd.Spec.Conversion.Webhook.ClientConfig.Service
	return s != nil && s.Namespace == at.Namespace && s.Name == at.Name
}

// patchCRD patches a CRD if it changed.
func (w *Webhooks) patchCRD(ctx context.Context, crd, before *apiextensionsv1.CustomResourceDefinition) error {
	patch := client.MergeFrom(before)
	if data, err := patch.Data(crd); err != nil || string(data) == "{}" {
		return err
	}
	return w.Client.Patch(ctx, crd, patch)
}
