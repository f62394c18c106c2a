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

// ServingFieldManager is the field manager of the issuer of webhook certificates. It applies
// caBundle to objects with the annotation render.AnnotationCAFrom.
//
// It is declared here because only the applier of an object knows when a webhook is removed. The
// issuer never releases a field by itself. A webhook with fields of another manager is not
// removed, but stays as an invalid fragment.
const ServingFieldManager = "mainstay-serving"

const admissionGroup = "admissionregistration.k8s.io"

// webhookFields are the fields that contain the webhooks, by kind.
var webhookFields = map[schema.GroupKind]string{
	crdKind: "spec.conversion",
	{Group: admissionGroup, Kind: "ValidatingWebhookConfiguration"}: "webhooks",
	{Group: admissionGroup, Kind: "MutatingWebhookConfiguration"}:   "webhooks",
}

// webhook is one webhook of an object. The conversion webhook of a CRD has no name.
type webhook struct{ name, caBundle string }

// String implements fmt.Stringer.
func (w webhook) String() string {
	if w.name == "" {
		return "conversion webhook"
	}
	return fmt.Sprintf("webhook %q", w.name)
}

// listWebhooks returns the webhooks of an object. Objects of other kinds have none.
func listWebhooks(u *unstructured.Unstructured) []webhook {
	kind := u.GroupVersionKind().GroupKind()
	switch {
	case kind == crdKind && nestedString(u, "spec", "conversion", "strategy") == "Webhook":
		return []webhook{{caBundle: nestedString(u, "spec", "conversion", "webhook", "clientConfig", "caBundle")}}
	case kind == crdKind || webhookFields[kind] == "":
		return nil
	}

	items, _ := u.Object["webhooks"].([]any)
	var webhooks []webhook
	for _, item := range items {
		if fields, ok := item.(map[string]any); ok {
			client, _ := fields["clientConfig"].(map[string]any)
			webhooks = append(webhooks, webhook{name: toString(fields["name"]), caBundle: toString(client["caBundle"])})
		}
	}

	return webhooks
}

// probeCABundle succeeds if every webhook of an object that requests a caBundle has one. The
// certificate is issued for a Service that a later phase may contain, since CRDs come early. So no
// phase waits for it, only the revision.
func probeCABundle(u *unstructured.Unstructured) Probe {
	if annotations := u.GetAnnotations(); annotations[render.AnnotationCAFrom] == "" && annotations[render.AnnotationCAIssuer] == "" {
		return readyProbe()
	}

	for _, webhook := range listWebhooks(u) {
		if webhook.caBundle == "" {
			return Probe{AwaitsLaterPhase: true, Message: fmt.Sprintf("its %s is not trusted yet: it has no caBundle", webhook)}
		}
	}
	return readyProbe()
}

// hasIssuerFields reports whether the issuer owns fields of the object.
func hasIssuerFields(live *unstructured.Unstructured) bool {
	return slices.ContainsFunc(live.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Manager == ServingFieldManager && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == ""
	})
}

// mustReleaseWebhooks reports whether an object could not be applied only because the issuer owns
// fields of webhooks that the manifest no longer has. It is determined from the API server's
// error: a manifest with other errors is never written, and must not cost the live webhooks their
// caBundle.
func mustReleaseWebhooks(err error, live, wanted *unstructured.Unstructured) bool {
	if live == nil || !apierrors.IsInvalid(err) || !hasIssuerFields(live) || len(remainingWebhooks(live, wanted)) == len(listWebhooks(live)) {
		return false
	}
	where := webhookFields[live.GroupVersionKind().GroupKind()]
	return hasOnlyCausesIn(err, func(field string) bool {
		return field == where || strings.HasPrefix(field, where+".") || strings.HasPrefix(field, where+"[")
	})
}

// remainingWebhooks returns the live webhooks that the manifest has too.
func remainingWebhooks(live, wanted *unstructured.Unstructured) []webhook {
	staying := listWebhooks(wanted)
	return slices.DeleteFunc(listWebhooks(live), func(w webhook) bool {
		return !slices.ContainsFunc(staying, func(other webhook) bool { return other.name == w.name })
	})
}

// releaseRemovedWebhooks releases the issuer's fields of webhooks that are removed, and applies
// the object again.
func (o *objectEngine) releaseRemovedWebhooks(ctx context.Context, at location, wanted, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	live, err := o.applyCABundles(ctx, at, live, remainingWebhooks(live, wanted))
	if err != nil {
		return nil, err
	}
	setPrecondition(wanted, live)
	return o.writeObject(ctx, at, wanted, true)
}

// removeStaleCABundle removes the issuer's caBundle from an object that no longer requests one. If
// cert-manager issues the certificate now, it stays until cert-manager replaces it: webhooks serve
// with the old certificate for a while.
func (o *objectEngine) removeStaleCABundle(ctx context.Context, at location, after *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	annotations := after.GetAnnotations()
	if annotations[render.AnnotationCAFrom] != "" || annotations[render.AnnotationCAIssuer] != "" || !hasIssuerFields(after) {
		return after, nil
	}
	return o.applyCABundles(ctx, at, after, nil)
}

// applyCABundles applies, with the issuer's field manager, the caBundle of the given webhooks
// only. It returns the resulting object.
func (o *objectEngine) applyCABundles(ctx context.Context, at location, live *unstructured.Unstructured, webhooks []webhook) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(live.GroupVersionKind())
	u.SetName(live.GetName())
	setPrecondition(u, live)
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
