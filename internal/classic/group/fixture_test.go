package group_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/group"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

var kinds = []func(*runtime.Scheme) error{
	corev1.AddToScheme, rbacv1.AddToScheme, apiextensionsv1.AddToScheme, operatorsv1.AddToScheme, v1alpha1.AddToScheme,
}

// namesCreated counts the results of uniqueName.
var namesCreated atomic.Int64

// uniqueName returns a name that no other test of the process uses, not even another run of the same test. The API
// server of the tests never removes a deleted namespace.
func uniqueName(name string) string { return fmt.Sprintf("%s-%d", name, namesCreated.Add(1)) }

// fixture holds an API server with the controllers of OperatorGroups.
type fixture struct {
	*env.Fixture
	// writes has the writes of the controllers, as VERB TYPE NAME.
	writes sync.Map
	// stop stops the controllers.
	stop func()
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	c := &fixture{Fixture: env.NewFixture(t, kinds...)}
	c.startControllers()
	return c
}

// startControllers runs the controllers until stop is called or the test ends.
func (c *fixture) startControllers() {
	c.T.Helper()
	note := func(verb string, o any) {
		name := ""
		switch o := o.(type) {
		case client.Object:
			name = o.GetName()
		case interface{ GetName() *string }:
			name = *o.GetName()
		}
		c.writes.Store(fmt.Sprintf("%s %T %s", verb, o, name), true)
	}

	noted := interceptor.Funcs{
		Patch: func(ctx context.Context, w client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			note("patch", o)
			return w.Patch(ctx, o, p, opts...)
		},
		SubResourcePatch: func(ctx context.Context, w client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			note(sub, o)
			return w.SubResource(sub).Patch(ctx, o, p, opts...)
		},
		Apply: func(ctx context.Context, w client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			note("apply", o)
			return w.Apply(ctx, o, opts...)
		},
		Create: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			note("create", o)
			return w.Create(ctx, o, opts...)
		},
		Delete: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			note("delete", o)
			return w.Delete(ctx, o, opts...)
		},
	}

	notCopied, err := labels.Parse("!olm.copiedFrom")
	c.Must(err)
	options := ctrl.Options{
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{&v1alpha1.ClusterServiceVersion{}: {Label: notCopied}}},
		NewClient: func(cfg *rest.Config, o client.Options) (client.Client, error) {
			w, err := client.NewWithWatch(cfg, o)
			if err != nil {
				return nil, err
			}
			return interceptor.NewClient(w, noted), nil
		},
	}
	_, c.stop = c.StartManager(env.Manager{
		Roles: "config/classic/olm-operator/role.yaml", Options: options,
		Setup: func(mgr ctrl.Manager) error { return group.Setup(mgr, group.Options{}) },
	})
}

// createNamespace creates a namespace with labels KEY=VALUE.
func (c *fixture) createNamespace(name string, labels ...string) {
	c.T.Helper()
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	for _, l := range labels {
		key, value, _ := strings.Cut(l, "=")
		n.Labels[key] = value
	}
	c.Must(c.Create(c.T.Context(), n))
}

// createGroup creates a group named og. It is deleted with the operators of its namespace at the end of the test.
func (c *fixture) createGroup(namespace string, edit ...func(*operatorsv1.OperatorGroup)) *operatorsv1.OperatorGroup {
	c.T.Helper()
	g := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "og"}}
	for _, e := range edit {
		e(g)
	}

	c.Must(c.Create(c.T.Context(), g))
	c.DeleteAllAtEnd(namespace, &operatorsv1.OperatorGroup{}, &v1alpha1.ClusterServiceVersion{})
	return g
}

func targets(names ...string) func(*operatorsv1.OperatorGroup) {
	return func(g *operatorsv1.OperatorGroup) { g.Spec.TargetNamespaces = names }
}

// createCSV creates a ClusterServiceVersion that can be a member of any group and owns a CRD for each kind.
func (c *fixture) createCSV(namespace, name string, phase v1alpha1.ClusterServiceVersionPhase, kinds ...string) *v1alpha1.ClusterServiceVersion {
	c.T.Helper()
	csv := c.newCSV(namespace, name)
	for _, kind := range kinds {
		csv.Spec.CustomResourceDefinitions.Owned = append(csv.Spec.CustomResourceDefinitions.Owned, v1alpha1.CRDDescription{
			Name: strings.ToLower(kind) + "s." + name + ".example.com", Version: "v1", Kind: kind,
		})
	}

	c.Must(c.Create(c.T.Context(), csv))
	c.setPhase(csv, phase)
	return csv
}

// newCSV returns a ClusterServiceVersion that can be a member of any group.
func (c *fixture) newCSV(namespace, name string) *v1alpha1.ClusterServiceVersion {
	csv := builder.CSV(namespace, name)
	csv.Spec.InstallModes = builder.AllInstallModes()
	return csv
}

func (c *fixture) setPhase(csv *v1alpha1.ClusterServiceVersion, phase v1alpha1.ClusterServiceVersionPhase) {
	c.T.Helper()
	data := fmt.Sprintf(`{"status":{"phase":%q}}`, phase)
	c.Must(c.Status().Patch(c.T.Context(), csv, client.RawPatch("application/merge-patch+json", []byte(data))))
}

func (c *fixture) getGroup(namespace string) *operatorsv1.OperatorGroup {
	c.T.Helper()
	g := &operatorsv1.OperatorGroup{}
	c.Find(g, namespace, "og")
	return g
}

// listGroupLabels returns the group labels of a namespace.
func (c *fixture) listGroupLabels(namespace string) []string {
	c.T.Helper()
	n := &corev1.Namespace{}
	c.Find(n, "", namespace)
	var keys []string
	for key := range n.Labels {
		if strings.HasPrefix(key, "olm.operatorgroup.uid/") {
			keys = append(keys, key)
		}
	}

	return keys
}

// createCRD creates a CRD of a kind.
func (c *fixture) createCRD(name, kind string) *apiextensionsv1.CustomResourceDefinition {
	c.T.Helper()
	plural, group, _ := strings.Cut(name, ".")
	crd := builder.CRD(group, plural, kind)
	c.Must(c.Create(c.T.Context(), crd))
	return crd
}

// createAPIService creates an APIService without a server.
func (c *fixture) createAPIService(version, of string) {
	c.T.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
		"metadata": map[string]any{"name": version + "." + of},
		"spec": map[string]any{
			"group": of, "version": version, "groupPriorityMinimum": int64(2000), "versionPriority": int64(15), "insecureSkipTLSVerify": true,
			"service": map[string]any{"namespace": "default", "name": "none"},
		},
	}}

	c.CreateForTest(object)
}
