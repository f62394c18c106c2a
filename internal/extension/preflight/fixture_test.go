package preflight_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/extension/preflight"
	"github.com/mainstay-dev/mainstay/internal/rbac"
	"github.com/mainstay-dev/mainstay/internal/render"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

const installer = "installer"

// fixture is a namespace of a real API server, with an account that has no permissions.
type fixture struct {
	*env.Fixture
	account   types.NamespacedName
	asAccount client.WithWatch
	checker   *preflight.Checker
	config    *rest.Config
	// accessRoles adds roles for users to rendered bundles.
	accessRoles bool
	// issuer is the issuer of the certificates of webhooks.
	issuer render.Issuer
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	config := env.Start(t)
	config.QPS = -1 // the tests send many requests to their own server
	w := &fixture{Fixture: &env.Fixture{T: t, Client: newClient(t, config)}}
	w.account = types.NamespacedName{Namespace: w.NewNamespace("preflight-"), Name: installer}
	w.CreateAll(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.account.Namespace, Name: installer}})
	w.config = config
	w.switchAccount(installer)
	w.checker = preflight.New(w.Client, w.RESTMapper())

	return w
}

// switchAccount makes the checks use another account of the namespace.
func (w *fixture) switchAccount(account string) {
	w.T.Helper()
	w.account.Name = account
	config := rest.CopyConfig(w.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: fmt.Sprintf("system:serviceaccount:%s:%s", w.account.Namespace, account)}
	w.asAccount = newClient(w.T, config)
}

func newClient(t testing.TB, config *rest.Config) client.WithWatch {
	t.Helper()
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// grantGaps grants the account the missing rules until the end of the test.
func (w *fixture) grantGaps(gaps ...rbac.Gap) {
	w.T.Helper()
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: w.account.Namespace, Name: w.account.Name}}
	for _, gap := range gaps {
		meta := metav1.ObjectMeta{GenerateName: "granted-", Namespace: gap.Namespace}
		ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName}
		if gap.Namespace == "" {
			role := &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{gap.Rule}}
			w.CreateAll(role)
			ref.Kind, ref.Name = "ClusterRole", role.Name
			binding := &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}
			w.CreateAll(binding)
			w.T.Cleanup(func() { w.deleteObjects(role, binding) })
			continue
		}

		role := &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{gap.Rule}}
		w.CreateAll(role)
		ref.Kind, ref.Name = "Role", role.Name
		w.CreateAll(&rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects})
	}
}

func (w *fixture) deleteObjects(objects ...client.Object) {
	for _, object := range objects {
		if err := w.Delete(context.Background(), object); client.IgnoreNotFound(err) != nil {
			w.T.Errorf("deleting %T %s: %v", object, object.GetName(), err)
		}
	}
}

// waitUntilGone waits until a deleted CRD does not exist. An API server that could not list its objects,
// which may happen for a new CRD, retries when the CRD changes.
func (w *fixture) waitUntilGone(crd *unstructured.Unstructured) {
	w.T.Helper()
	eventually(w.T, crd.GetName()+" is being deleted", func(ctx context.Context) error {
		if err := w.Get(ctx, client.ObjectKeyFromObject(crd), crd); err != nil {
			return client.IgnoreNotFound(err)
		}
		conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
		for _, condition := range conditions {
			if fields, ok := condition.(map[string]any); ok && fields["reason"] == "InstanceDeletionFailed" {
				patch := fmt.Sprintf(`{"metadata":{"annotations":{"seen":%q}}}`, crd.GetResourceVersion())
				if err := w.Patch(ctx, crd, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
					return client.IgnoreNotFound(err)
				}
			}
		}
		return errors.New("it is still there")
	})
}

// eventually retries until there is no error. The API server's authorizer lags some milliseconds
// because it uses watches.
func eventually(t testing.TB, what string, try func(context.Context) error) {
	t.Helper()
	env.Eventually(t, what, func() error { return try(t.Context()) })
}

// parseReport parses the gaps of a report.
func parseReport(t *testing.T, report string) []rbac.Gap {
	t.Helper()
	lines := strings.Split(report, "\n")
	if want := "pre-authorization failed: service account requires the following permissions to manage cluster extension:"; lines[0] != want {
		t.Fatalf("got the first line %q of the report, want %q", lines[0], want)
	}

	var gaps []rbac.Gap
	for _, line := range lines[1:] {
		rest, ok := strings.CutPrefix(line, "  ")
		if !ok {
			t.Fatalf("got the line %q in the report, want it indented", line)
		}

		var gap rbac.Gap
		for part := range strings.FieldsSeq(rest) {
			name, value, _ := strings.Cut(part, ":")
			values := strings.Split(strings.Trim(value, "[]"), ",")
			switch name {
			case "Namespace":
				gap.Namespace = strings.Trim(value, `"`)
			case "APIGroups":
				gap.Rule.APIGroups = values
			case "Resources":
				gap.Rule.Resources = values
			case "ResourceNames":
				gap.Rule.ResourceNames = values
			case "Verbs":
				gap.Rule.Verbs = values
			case "NonResourceURLs":
				gap.Rule.NonResourceURLs = values
			default:
				t.Fatalf("got the line %q in the report with the unknown part %q", line, name)
			}
		}

		gaps = append(gaps, gap)
	}

	return gaps
}
