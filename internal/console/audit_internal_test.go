package console

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// Each write of a user is one line: operation, verb, object and result, without content.
func TestWritesAreLogged(t *testing.T) {
	f := env.NewFixture(t, clientgoscheme.AddToScheme)
	namespace := f.NewNamespace("audit-")
	plain, err := client.NewWithWatch(env.Start(t), client.Options{Scheme: f.Scheme()})
	f.Must(err)
	var lines []string
	log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	c := newAuditedClient(plain, log.WithValues("user", "alice"))
	ctx := context.WithValue(t.Context(), operationKey{}, "editThings")

	meta := metav1.ObjectMeta{Namespace: namespace, Name: "a"}
	newMap := func() *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"password": "hunter2"}}
	}
	untyped := &unstructured.Unstructured{}
	untyped.SetAPIVersion("v1")
	untyped.SetKind("ConfigMap")
	untyped.SetNamespace(namespace)
	untyped.SetName("b")
	owner := client.FieldOwner("test")
	for _, test := range []struct {
		write func() error
		want  string
	}{
		{func() error { return c.Create(ctx, newMap()) }, `"verb"="create" "kind"="ConfigMap" "namespace"="NS" "name"="a" "result"="ok"`},
		{func() error { return c.Create(ctx, newMap()) }, `"verb"="create" "kind"="ConfigMap" "namespace"="NS" "name"="a" "result"="AlreadyExists"`},
		{func() error { return c.Create(ctx, newMap(), client.DryRunAll) }, ""},
		{func() error { return c.Get(ctx, client.ObjectKeyFromObject(newMap()), newMap()) }, ""},
		{func() error {
			return c.Create(ctx, &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods"},
			}})
		}, ""},
		{func() error { return c.Update(ctx, newMap()) }, `"verb"="update" "kind"="ConfigMap" "namespace"="NS" "name"="a" "result"="ok"`},
		{func() error {
			return c.Patch(ctx, newMap(), client.RawPatch("application/merge-patch+json", []byte(`{"data":{"a":"b"}}`)))
		}, `"verb"="patch" "kind"="ConfigMap" "namespace"="NS" "name"="a" "result"="ok"`},
		{func() error { return c.Apply(ctx, corev1ac.ConfigMap("c", namespace), owner) }, `"verb"="apply" "kind"="ConfigMap" "namespace"="NS" "name"="c" "result"="ok"`},
		{func() error { return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(untyped), owner) }, `"verb"="apply" "kind"="ConfigMap" "namespace"="NS" "name"="b" "result"="ok"`},
		{func() error { return c.Delete(ctx, newMap(), client.DryRunAll) }, ""},
		{func() error { return c.Delete(ctx, newMap()) }, `"verb"="delete" "kind"="ConfigMap" "namespace"="NS" "name"="a" "result"="ok"`},
		{func() error { return c.Delete(ctx, newMap()) }, `"verb"="delete" "kind"="ConfigMap" "namespace"="NS" "name"="a" "result"="NotFound"`},
		{func() error { return c.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace(namespace)) }, `"verb"="deletecollection" "kind"="ConfigMap"`},
		{func() error {
			return c.Status().Patch(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, client.RawPatch("application/merge-patch+json", []byte(`{}`)))
		}, `"verb"="patch status" "kind"="Namespace" "namespace"="" "name"="NS" "result"="ok"`},
	} {
		lines = nil
		err := test.write()
		got, want := strings.ReplaceAll(strings.Join(lines, "\n"), namespace, "NS"), test.want
		if want == "" && got != "" || want != "" && (len(lines) != 1 || !strings.Contains(got, `"Write" "user"="alice" "operation"="editThings" `+want)) {
			t.Errorf("got %q (error %v), want one line with %q", got, err, want)
		}
		if strings.Contains(got, "hunter2") {
			t.Errorf("got %q, want no content", got)
		}
	}
}

func TestDescribeResult(t *testing.T) {
	if got := describeResult(fmt.Errorf("writing: %w", errors.New("token eyJ"))); got != "error" {
		t.Errorf("got %q, want no message", got)
	}
}
