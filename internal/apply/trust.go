package apply

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mainstay-dev/mainstay/internal/render"
)

// ServingFieldManager is the name under which the issuer of webhooks' certificates
// applies caBundle to objects that carry the annotation render.AnnotationCAFrom.
//
// It is known here because nobody but who applies an object knows when a webhook
// goes. The issuer never gives up a field by itself, and a webhook of which others
// own a field does not go, but stays as a fragment that is not valid.
const ServingFieldManager = "mainstay-serving"

const admissionGroup = "admissionregistration.k8s.io"

// webhookFields are, by the kinds of objects with webhooks, the fields where these
// stand.
var webhookFields = map[schema.GroupKind]string{
	crdKind: "spec.conversion",
	{Group: admissionGroup, Kind: "ValidatingWebhookConfiguration"}: "webhooks",
	{Group: admissionGroup, Kind: "MutatingWebhookConfiguration"}:   "webhooks",
}

// webhook is one webhook of an object. That of a CRD has no name.
type webhook struct{ name, caBundle string }

func (w webhook) String() string {
	if w.name == "" {
		return "conversion webhook"
	}
	return fmt.Sprintf("webhook %q", w.name)
}

// webhooksOf returns the webhooks of an object; none for other kinds.
func webhooksOf(u *unstructured.Unstructured) []webhook {
	kind := u.GroupVersionKind().GroupKind()
	switch {
	case kind == crdKind && stringAt(u, "spec", "conversion", "strategy") == "Webhook":
		return []webhook{{caBundle: stringAt(u, "spec", "conversion", "webhook", "clientConfig", "caBundle")}}
	case kind == crdKind || webhookFields[kind] == "":
		return nil
	}

	items, _ := u.Object["webhooks"].([]any)
	var webhooks []webhook
	for _, item := range items {
		if fields, ok := item.(map[string]any); ok {
			client, _ := fields["clientConfig"].(map[string]any)
			webhooks = append(webhooks, webhook{name: text(fields["name"]), caBundle: text(client["caBundle"])})
		}
	}

	return webhooks
}

// probeTrust holds when the API server trusts every webhook of an object that asks for
// it. The certificate is issued for a Service, which a later phase may bring: CRDs come
// early. So no phase waits for it, only the revision.
func probeTrust(u *unstructured.Unstructured) Probe {
	if annotations := u.GetAnnotations(); annotations[render.AnnotationCAFrom] == "" && annotations[render.AnnotationCAIssuer] == "" {
		return ready()
	}

	for _, webhook := range webhooksOf(u) {
		if webhook.caBundle == "" {
			return Probe{Later: true, Message: fmt.Sprintf("its %s is not trusted yet: it has no caBundle", webhook)}
		}
	}
	return ready()
}

// holdsTrust reports whether the issuer owns fields of the object.
func holdsTrust(live *unstructured.Unstructured) bool {
	return slices.ContainsFunc(live.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Manager == ServingFieldManager && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == ""
	})
}

// mustDistrust reports whether an object could not be applied only for what the issuer
// owns of webhooks that the manifest has no more. That is found from the refusal, not
// foreseen: a manifest with other faults is never written, and must not cost the live
// webhooks their trust.
func mustDistrust(err error, live, wanted *unstructured.Unstructured) bool {
	if live == nil || !apierrors.IsInvalid(err) || !holdsTrust(live) || len(kept(live, wanted)) == len(webhooksOf(live)) {
		return false
	}
	where := webhookFields[live.GroupVersionKind().GroupKind()]
	return onlyAbout(err, func(field string) bool {
		return field == where || strings.HasPrefix(field, where+".") || strings.HasPrefix(field, where+"[")
	})
}

// kept returns the live webhooks that the manifest has too.
func kept(live, wanted *unstructured.Unstructured) []webhook {
	staying := webhooksOf(wanted)
	return slices.DeleteFunc(webhooksOf(live), func(w webhook) bool {
		return !slices.ContainsFunc(staying, func(other webhook) bool { return other.name == w.name })
	})
}

// distrust returns up, in the name of the issuer, the fields of webhooks that go, and
// applies the object again.
func (o *objects) distrust(ctx context.Context, at location, wanted, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	live, err := o.trustOnly(ctx, at, live, kept(live, wanted))
	if err != nil {
		return nil, err
	}
	expect(wanted, live)
	return o.write(ctx, at, wanted, true)
}

// dropTrust removes the caBundle that the issuer left in an object whose webhooks ask
// for none any more. Where cert-manager sees to it now, it stays until that replaces it:
// webhooks go on serving with the old certificate for a while.
func (o *objects) dropTrust(ctx context.Context, at location, after *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	annotations := after.GetAnnotations()
	if annotations[render.AnnotationCAFrom] != "" || annotations[render.AnnotationCAIssuer] != "" || !holdsTrust(after) {
		return after, nil
	}
	return o.trustOnly(ctx, at, after, nil)
}

// trustOnly applies, in the name of the issuer, what webhooks have, and no more. It
// gives the object as it is then.
func (o *objects) trustOnly(ctx context.Context, at location, live *unstructured.Unstructured, webhooks []webhook) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(live.GroupVersionKind())
	u.SetName(live.GetName())
	expect(u, live)
	var items []any
	for _, w := range webhooks {
		if w.name != "" && w.caBundle != "" {
			items = append(items, map[string]any{"name": w.name, "clientConfig": map[string]any{"caBundle": w.caBundle}})
		}
	}

	if len(items) > 0 {
		u.Object["webhooks"] = items
	}

	return o.store.apply(ctx, at, u, ServingFieldManager, true)
}
