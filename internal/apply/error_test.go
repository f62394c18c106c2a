package apply

import (
	"errors"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestErrorsNameObjectReasonAndRemedy(t *testing.T) {
	key := Key{GroupKind: schema.GroupKind{Group: "apps", Kind: "Deployment"}, Namespace: "ns", Name: "app"}
	resource := schema.GroupResource{Group: "apps", Resource: "deployments"}
	terminating := apierrors.NewForbidden(resource, "app", errors.New("unable to create new content in namespace ns because it is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	invalidError := func(message string) error {
		return apierrors.NewInvalid(key.GroupKind, "app", field.ErrorList{field.Invalid(field.NewPath("spec"), "x", message)})
	}
	cases := []struct {
		name  string
		err   error
		cause Cause
		text  string
	}{
		{"namespace missing", apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "ns"), CauseNamespaceMissing,
			`Deployment "ns/app": namespaces "ns" not found: create the namespace "ns"`},
		{"namespace terminating", terminating, CauseNamespaceTerminating,
			`Deployment "ns/app": deployments.apps "app" is forbidden: unable to create new content in namespace ns because it is being terminated: wait until the namespace "ns" is gone, then create it again`},
		{"kind unknown", &meta.NoKindMatchError{GroupKind: key.GroupKind, SearchedVersions: []string{"v1"}}, CauseKindMissing,
			`Deployment "ns/app": the API server does not serve the kind Deployment.apps: install what defines it`},
		{"kind not served", apierrors.NewGenericServerResponse(http.StatusNotFound, "patch", resource, "app", "", 0, true), CauseKindMissing,
			`Deployment "ns/app": the API server does not serve the kind Deployment.apps: install what defines it`},
		{"webhook down", apierrors.NewInternalError(errors.New(`failed calling webhook "w.example.com": failed to call webhook: dial tcp: connection refused`)), CauseWebhookFailed,
			`Deployment "ns/app": Internal error occurred: failed calling webhook "w.example.com": failed to call webhook: dial tcp: connection refused: see that the webhook's service runs, or remove its configuration`},
		{"webhook denies", apierrors.NewForbidden(resource, "app", errors.New(`admission webhook "w.example.com" denied the request: no`)), CauseDenied,
			`Deployment "ns/app": deployments.apps "app" is forbidden: admission webhook "w.example.com" denied the request: no`},
		{"no right", apierrors.NewForbidden(resource, "app", errors.New(`User "u" cannot patch resource "deployments" in API group "apps" in the namespace "ns"`)), CauseForbidden,
			`Deployment "ns/app": deployments.apps "app" is forbidden: User "u" cannot patch resource "deployments" in API group "apps" in the namespace "ns": give the account this right`},
		{"escalation", apierrors.NewForbidden(resource, "app", errors.New("user \"u\" is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"]}")), CauseForbidden,
			`Deployment "ns/app": deployments.apps "app" is forbidden: user "u" is attempting to grant RBAC permissions not currently held: {APIGroups:[""]}: give the account these permissions, or the verbs bind and escalate on roles`},
		{"quota", apierrors.NewForbidden(resource, "app", errors.New("exceeded quota: q")), CauseDenied,
			`Deployment "ns/app": deployments.apps "app" is forbidden: exceeded quota: q`},
		{"invalid", invalidError("must be y"), CauseInvalid,
			`Deployment "ns/app": Deployment.apps "app" is invalid: spec: Invalid value: "x": must be y: the manifest must be corrected`},
		{"immutable", invalidError("field is immutable"), CauseInvalid,
			`Deployment "ns/app": Deployment.apps "app" is invalid: spec: Invalid value: "x": field is immutable: delete the object to have it recreated`},
		{"duplicate keys", errors.New(`failed to create typed patch object (ns/app; apps/v1, Kind=Deployment): .spec.env: duplicate entries for key [name="A"]`), CauseInvalid,
			`Deployment "ns/app": failed to create typed patch object (ns/app; apps/v1, Kind=Deployment): .spec.env: duplicate entries for key [name="A"]: the manifest must be corrected`},
		{"conflict", apierrors.NewConflict(resource, "app", errors.New("modified")), CauseContended,
			`Deployment "ns/app": Operation cannot be fulfilled on deployments.apps "app": modified`},
		{"broken connection", errors.New("EOF"), CauseOther, `Deployment "ns/app": EOF`},
	}

	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			err := newObjectError(key, test.err)
			if err.Cause != test.cause || err.Error() != test.text {
				t.Errorf("got cause %s, text:\n got %s\nwant %s", err.Cause, err, test.text)
			}
			if !errors.Is(err, test.err) {
				t.Error("the error does not wrap the error of the API server")
			}
		})
	}
}

func TestCollisionMessage(t *testing.T) {
	cases := []struct {
		key     Key
		related relation
		want    string
	}{
		{Key{GroupKind: crdKind, Name: "foos.example.com"}, foreign,
			`CustomResourceDefinition 'foos.example.com' already exists in namespace '' and cannot be managed by operator-controller: it is controlled by X "x"; remove it from its owner first`},
		{Key{GroupKind: secretKind, Namespace: "ns", Name: "s"}, uncontrolled,
			`Secret 's' already exists in namespace 'ns' and cannot be managed by operator-controller: it is controlled by X "x"; delete it, or set collisionProtection to IfNoController to have it adopted`},
	}

	for _, test := range cases {
		if got := newCollisionError(test.key, `controlled by X "x"`, collisionAdvice(test.related)); got.Error() != test.want || got.Cause != CauseCollision {
			t.Errorf("message:\n got %s\nwant %s", got, test.want)
		}
	}
}
