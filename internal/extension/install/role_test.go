package install_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/config"
	"github.com/mainstay-dev/mainstay/internal/extension/install"
	"github.com/mainstay-dev/mainstay/internal/extension/preflight"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

const (
	system       = "olmv1-system"
	shippedRole  = "operator-controller-manager-role"
	shippedUser  = "system:serviceaccount:" + system + ":plans"
	planInstall  = "plan-role"
	planAccount  = "installer"
	planProblems = 1 // the account that the extension names has no rights
)

// TestPlanWithTheShippedRole creates, changes and deletes a plan with the rights of the shipped
// role. It uses every right to ConfigMaps, because the role has these only for plans.
func TestPlanWithTheShippedRole(t *testing.T) {
	w := newFixtureWithoutController(t)
	w.createNamespace(system)
	w.createNamespace(planInstall)
	granted := w.grantShippedRole()
	reader, used := newShippedRoleClient(t)
	c := &install.Controller{
		Client: reader, Reader: reader, Catalogs: w, Bundles: w, SystemNamespace: system, Program: "test",
		Preflight: preflight.Checks{preflight.New(reader, reader.RESTMapper()).CheckExtension, preflight.NewCRDChecker(reader).Check},
	}
	catalog := w.createCatalog(planInstall, "1.0.0")
	w.CreateForTest(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: planInstall, Name: planAccount}})
	ext := newExtension(planInstall, planInstall)
	ext.Spec.ServiceAccount = &olmv1.ServiceAccountReference{Name: planAccount}
	ext.Annotations = map[string]string{olmv1.AnnotationPlan: olmv1.PlanOnly}
	w.CreateForTest(ext)
	reconcile := func() error {
		_, err := c.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(ext)})
		return err
	}
	// The authorizer of the API server sees new roles some milliseconds later.
	w.Eventually("the plan is written", reconcile)
	bundleOf := func() string {
		t.Helper()
		var plan corev1.ConfigMap
		if err := w.Get(t.Context(), client.ObjectKey{Namespace: system, Name: olmv1.PlanName(planInstall)}, &plan); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(plan.Data[olmv1.PlanText], "forbidden") || strings.Count(plan.Data[olmv1.PlanJSON], `"check":`) != planProblems {
			t.Errorf("got a plan with missing rights of the controller:\n%s", plan.Data[olmv1.PlanText])
		}

		_, text, _ := strings.Cut(plan.Data[olmv1.PlanText], "Bundle:")
		return strings.TrimSuffix(strings.Fields(text)[0], ",")
	}
	if got := bundleOf(); got != "hello-operator.v1.0.0" {
		t.Errorf("got planned %s", got)
	}

	w.setCatalogVersions(catalog, "1.0.0", "1.1.0")
	if err := reconcile(); err != nil {
		t.Fatal(err)
	}
	if got := bundleOf(); got != "hello-operator.v1.1.0" {
		t.Errorf("the plan was not changed: got %s", got)
	}

	w.annotatePlan(planInstall, "")
	_ = reconcile() // The account has no rights, so that nothing is installed.
	err := w.Get(t.Context(), client.ObjectKey{Namespace: system, Name: olmv1.PlanName(planInstall)}, &corev1.ConfigMap{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the plan still exists: %v", err)
	}
	if diff := cmp.Diff(granted, used()); diff != "" {
		t.Errorf("the rights to ConfigMaps (-granted +used):\n%s", diff)
	}
}

// grantShippedRole grants the test's account the rights of the shipped role. It returns the verbs
// on all ConfigMaps among them.
func (w *fixture) grantShippedRole() []string {
	w.T.Helper()
	text, err := config.Files.ReadFile("rbac/operator-controller/role.yaml")
	w.Must(err)

	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: shippedUser}}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: shippedRole}
	cluster, role := &rbacv1.ClusterRole{}, &rbacv1.Role{}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), len(text))
	w.Must(errors.Join(decoder.Decode(cluster), decoder.Decode(role)))

	// The controller reads extensions from a cache, by list and watch. The client of the test has
	// none.
	cluster.Rules = append(cluster.Rules, rbacv1.PolicyRule{
		APIGroups: []string{olmv1.GroupVersion.Group}, Resources: []string{"clusterextensions"}, Verbs: []string{"get"},
	})
	w.grant(cluster, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "plans"}, RoleRef: ref, Subjects: subjects})
	ref.Kind = "Role"
	w.grant(role, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "plans"}, RoleRef: ref, Subjects: subjects})
	var verbs []string
	for _, rule := range role.Rules {
		if slices.Contains(rule.Resources, "configmaps") && len(rule.ResourceNames) == 0 {
			verbs = append(verbs, rule.Verbs...)
		}
	}

	slices.Sort(verbs)
	return verbs
}

func (w *fixture) grant(objects ...client.Object) {
	w.T.Helper()
	admin := env.Client(w.T, clientgoscheme.AddToScheme)
	for _, object := range objects {
		w.Must(admin.Create(w.T.Context(), object))
		w.T.Cleanup(func() {
			if err := client.IgnoreNotFound(admin.Delete(context.Background(), object)); err != nil {
				w.T.Error(err)
			}
		})
	}
}

// newShippedRoleClient returns a client with the rights of the test's account. The function
// returns the verbs that it has used on ConfigMaps.
func newShippedRoleClient(t *testing.T) (client.Client, func() []string) {
	t.Helper()
	verbs := &recorder{used: map[string]bool{}}
	config := rest.CopyConfig(env.Start(t))
	config.Impersonate = rest.ImpersonationConfig{UserName: shippedUser}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { verbs.next = next; return verbs })
	// Discovery is done before: controllers always have the permission for it.
	httpClient, err := rest.HTTPClientFor(env.Start(t))
	if err != nil {
		t.Fatal(err)
	}

	mapper, err := apiutil.NewDynamicRESTMapper(env.Start(t), httpClient)
	if err != nil {
		t.Fatal(err)
	}

	c, err := client.New(config, client.Options{
		Mapper: mapper, Scheme: env.Scheme(t, olmv1.AddToScheme, clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme),
	})
	if err != nil {
		t.Fatal(err)
	}

	return c, verbs.list
}

// recorder notes the verbs of requests for ConfigMaps of the system namespace.
type recorder struct {
	next http.RoundTripper
	mu   sync.Mutex
	used map[string]bool
}

func (r *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	if _, rest, ok := strings.Cut(request.URL.Path, "/namespaces/"+system+"/configmaps"); ok {
		verb := map[string]string{http.MethodPost: "create", http.MethodPatch: "patch", http.MethodDelete: "delete", http.MethodPut: "update"}[request.Method]
		switch {
		case verb != "":
		case rest == "":
			verb = "list"
		default:
			verb = "get"
		}

		r.mu.Lock()
		r.used[verb] = true
		r.mu.Unlock()
	}

	return r.next.RoundTrip(request)
}

func (r *recorder) list() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var verbs []string
	for verb := range r.used {
		verbs = append(verbs, verb)
	}

	slices.Sort(verbs)
	return verbs
}
