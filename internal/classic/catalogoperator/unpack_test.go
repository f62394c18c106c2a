package catalogoperator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/catalogoperator"
	"github.com/mainstay-dev/mainstay/internal/classic/steps"
	"github.com/mainstay-dev/mainstay/internal/classic/unpack"
	registries "github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
	"github.com/mainstay-dev/mainstay/internal/testing/catalogserver"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
	"github.com/mainstay-dev/mainstay/internal/testing/ociregistry"
)

// operatorNamespace is the namespace of the program in its generated role.
const operatorNamespace = "olm"

// csvOf is a ClusterServiceVersion that requires cluster-wide permissions.
func csvOf(name, title, clusterVerb string) string {
	return fmt.Sprintf(`{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":{"name":%q},"spec":{
		"displayName":%q,"version":"1.0.0","install":{"strategy":"deployment","spec":{"deployments":[],
		"clusterPermissions":[{"serviceAccountName":"pear","rules":[{"apiGroups":[""],"resources":["pods"],"verbs":[%q]}]}]}}}}`, name, title, clusterVerb)
}

// pushBundle pushes a bundle to a registry and returns its reference.
func pushBundle(t *testing.T, host, name, csv string) string {
	t.Helper()
	spec, err := registries.BundleSpec(fstest.MapFS{
		"manifests/csv.yaml":        {Data: []byte(csv)},
		"metadata/annotations.yaml": {Data: []byte("annotations:\n  operators.operatorframework.io.bundle.package.v1: pear\n")},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}

	return ociregistry.Push(t, host+"/"+name+":v1", spec)
}

// tenantFixture has a namespace with a catalog of one bundle image, an OperatorGroup and an
// editor.
type tenantFixture struct {
	*fixture
	image string
	// editor has the permissions of the role "edit" in the namespace, and can read its plans.
	editor client.Client
}

// newTenantFixture runs the component and creates the tenant's objects.
func newTenantFixture(t *testing.T) *tenantFixture {
	t.Helper()
	return newUnpackFixture(t, func(*catalogoperator.Options) {})
}

// newUnpackFixture runs the component with changed options and creates the tenant's objects.
func newUnpackFixture(t *testing.T, change func(*catalogoperator.Options)) *tenantFixture {
	t.Helper()
	host := ociregistry.Start(t).Host
	puller := registries.NewClient(registries.Options{Insecure: true, Limits: unpack.ImageLimits})
	options := catalogoperator.Options{
		InstallPlanRetryTimeout: time.Second, Namespace: operatorNamespace,
		Registries: func(context.Context, ...client.ObjectKey) (*registries.Client, error) { return puller, nil },
	}
	change(&options)
	f := newFixture(t, options)
	// The name of the image is the test's own: the objects for unpacking are in one namespace
	// for all tests.
	x := &tenantFixture{fixture: f, image: pushBundle(t, host, f.namespace, csvOf("pear.v1.0.0", "Pear", "get"))}
	group := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "group"}}
	f.Must(f.Create(t.Context(), group))
	now := metav1.Now()
	group.Status = operatorsv1.OperatorGroupStatus{Namespaces: []string{f.namespace}, LastUpdated: &now}
	f.Must(f.Status().Update(t.Context(), group))
	x.editor = x.editorOf(f.namespace)
	f.DeleteAllAtEnd(f.namespace, &v1alpha1.Subscription{}, &v1alpha1.InstallPlan{})
	return x
}

// editorOf returns the client of a user with the permissions of the role "edit" in a namespace.
func (x *tenantFixture) editorOf(namespace string) client.Client {
	x.T.Helper()
	user := "editor-of-" + namespace
	role, binding := builder.Role(metav1.ObjectMeta{Namespace: namespace, Name: "editor"}, builder.Rules(
		"get,list,watch,create,update,patch,delete core,batch,apps *",
		"get,list,watch,create,update,patch,delete operators.coreos.com subscriptions",
		"get,list,watch,update,patch,delete operators.coreos.com installplans",
	), rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user})
	x.CreateAll(role, binding)
	config := env.Start(x.T)
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	editor, err := client.New(config, client.Options{Scheme: x.Scheme()})
	x.Must(err)

	x.Eventually("the user has the rights of the role", func() error {
		return editor.List(x.T.Context(), &v1alpha1.SubscriptionList{}, client.InNamespace(namespace))
	})
	return editor
}

// subscribe creates the catalog and a Subscription to its operator, whose plan has to be approved.
func (x *tenantFixture) subscribe() { x.subscribeTo(x.namespace) }

// subscribeTo is subscribe with a catalog in a namespace.
func (x *tenantFixture) subscribeTo(namespace string) {
	x.T.Helper()
	dir := x.T.TempDir()
	catalog := fmt.Sprintf(`{"schema":"olm.package","name":"pear","defaultChannel":"stable"}
{"schema":"olm.channel","package":"pear","name":"stable","entries":[{"name":"pear.v1.0.0"}]}
{"schema":"olm.bundle","package":"pear","name":"pear.v1.0.0","image":%q,"properties":[{"type":"olm.package","value":{"packageName":"pear","version":"1.0.0"}}]}
`, x.image)
	x.Must(os.WriteFile(filepath.Join(dir, "catalog.json"), []byte(catalog), 0o600))
	source := &v1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "fruit"}}
	source.Spec = v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeGrpc, Address: catalogserver.ServeFolder(x.T, dir)}
	x.CreateForTest(source)
	x.Must(x.editor.Create(x.T.Context(), &v1alpha1.Subscription{
		ObjectMeta: metav1.ObjectMeta{Namespace: x.namespace, Name: "pear"},
		Spec: v1alpha1.SubscriptionSpec{
			CatalogSource: "fruit", CatalogSourceNamespace: namespace, Package: "pear", InstallPlanApproval: v1alpha1.ApprovalManual,
		},
	}))
}

// forge writes an object that an editor can write in place of the Job: the ConfigMap of the image, with
// content of the editor's.
func (x *tenantFixture) forge(name string) *corev1.ConfigMap {
	x.T.Helper()
	forged := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: x.namespace, Name: name, Labels: map[string]string{"olm.managed": "true"},
			Annotations: map[string]string{"olm.sourceImage": x.image, unpack.AnnotationCatalog: x.namespace + "/fruit"},
		},
		Data: map[string]string{"csv.yaml": csvOf("pear.v1.0.0", "Worm", "delete")},
	}

	x.Must(x.editor.Create(x.T.Context(), forged))
	return forged
}

// plan waits for the plan with steps.
func (x *tenantFixture) plan() *v1alpha1.InstallPlan {
	x.T.Helper()
	var plans v1alpha1.InstallPlanList
	x.eventually(func() error {
		if err := x.List(x.T.Context(), &plans, client.InNamespace(x.namespace)); err != nil {
			return err
		}
		if len(plans.Items) != 1 || len(plans.Items[0].Status.Plan) == 0 {
			sub := &v1alpha1.Subscription{}
			err := x.Get(x.T.Context(), client.ObjectKey{Namespace: x.namespace, Name: "pear"}, sub)
			return errors.Join(fmt.Errorf("got %d InstallPlans, want 1 with steps; the Subscription has the conditions %+v", len(plans.Items), sub.Status.Conditions), err)
		}
		return nil
	})

	return &plans.Items[0]
}

// approve has the editor approve a plan, and waits for a phase.
func (x *tenantFixture) approve(plan *v1alpha1.InstallPlan, phase v1alpha1.InstallPlanPhase) {
	x.T.Helper()
	x.eventually(func() error {
		if err := x.editor.Get(x.T.Context(), client.ObjectKeyFromObject(plan), plan); err != nil {
			return err
		}
		plan.Spec.Approved = true
		return x.editor.Update(x.T.Context(), plan)
	})

	x.eventually(func() error {
		if err := x.get(plan); err != nil {
			return err
		}
		if plan.Status.Phase != phase {
			return fmt.Errorf("the plan is %s (%s), want %s", plan.Status.Phase, plan.Status.Message, phase)
		}
		return nil
	})
}

// rights returns the verbs that the operators of the namespace have cluster-wide.
func (x *tenantFixture) rights() string {
	x.T.Helper()
	var roles rbacv1.ClusterRoleList
	x.Must(x.List(x.T.Context(), &roles, client.MatchingLabels{"olm.owner.namespace": x.namespace}))
	var verbs []string
	for _, role := range roles.Items {
		for _, rule := range role.Rules {
			verbs = append(verbs, rule.Verbs...)
		}
	}

	return strings.Join(verbs, ",")
}

// A user with edit permissions for a namespace cannot change the content of the bundles of
// its catalogs, neither before nor after they are unpacked.
func TestEditorCannotForgeBundle(t *testing.T) {
	x := newTenantFixture(t)
	// The name was computable when Jobs unpacked the image in this namespace.
	x.forge(unpack.Name(x.image))
	x.subscribe()
	plan := x.plan()
	ref, ok := steps.ReferenceOf(plan.Status.Plan[0])
	if !ok || ref.Namespace != operatorNamespace || ref.Digest == "" {
		t.Fatalf("the step refers to %+v, want content in namespace %s with a digest", ref, operatorNamespace)
	}

	x.forge(ref.Name)
	inOperatorNamespace := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name}}
	if err := x.editor.Delete(t.Context(), inOperatorNamespace); !apierrors.IsForbidden(err) {
		t.Errorf("deleting the content: got %v, want Forbidden", err)
	}

	x.approve(plan, v1alpha1.InstallPlanPhaseComplete)
	csv := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: x.namespace, Name: "pear.v1.0.0"}}
	x.Must(x.get(csv))
	if csv.Spec.DisplayName != "Pear" {
		t.Errorf("got the ClusterServiceVersion %q, want that of the bundle", csv.Spec.DisplayName)
	}
	if got := x.rights(); got != "get" {
		t.Errorf("got the verbs %q for the operator, want get", got)
	}

	var jobs batchv1.JobList
	x.Must(x.List(t.Context(), &jobs, client.InNamespace(x.namespace)))
	if len(jobs.Items) > 0 {
		t.Errorf("got %d Jobs in the tenant's namespace, want none", len(jobs.Items))
	}
}

// A plan whose steps refer to content that an editor can write installs nothing, regardless of
// who created the plan.
func TestUntrustedReferencesAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		change func(x *tenantFixture, ref *steps.Reference)
		want   string
	}{
		"the namespace of the tenant": {
			func(x *tenantFixture, ref *steps.Reference) {
				x.forge(ref.Name)
				ref.Namespace, ref.Digest = x.namespace, ""
			}, "can have written it",
		},
		"content of another catalog": {
			func(_ *tenantFixture, ref *steps.Reference) { ref.CatalogSourceName = "vegetables" }, "it was not unpacked for CatalogSource",
		},
		"a catalog of another namespace": {
			func(_ *tenantFixture, ref *steps.Reference) { ref.CatalogSourceNamespace = "kube-system" }, "a catalog in namespace kube-system, which namespace",
		},
		"other content than before": {
			func(_ *tenantFixture, ref *steps.Reference) { ref.Digest = "sha256:0" }, "it has changed since the plan was made",
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := newTenantFixture(t)
			x.subscribe()
			plan := x.plan()
			before := plan.DeepCopy()
			for _, step := range plan.Status.Plan {
				ref, _ := steps.ReferenceOf(step)
				if step == plan.Status.Plan[0] {
					test.change(x, &ref)
				}

				manifest, err := json.Marshal(ref)
				x.Must(err)
				step.Resource.Manifest = string(manifest)
			}

			x.Must(x.Status().Patch(t.Context(), plan, client.MergeFrom(before)))

			x.approve(plan, v1alpha1.InstallPlanPhaseFailed)
			if !strings.Contains(plan.Status.Message, test.want) || !strings.Contains(plan.Status.Message, "delete the InstallPlan") {
				t.Errorf("got the message %q, want %q and what to do", plan.Status.Message, test.want)
			}

			csv := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: x.namespace, Name: "pear.v1.0.0"}}
			if err := x.get(csv); !apierrors.IsNotFound(err) {
				t.Errorf("reading the ClusterServiceVersion: got %v, want NotFound", err)
			}
			if got := x.rights(); got != "" {
				t.Errorf("got the verbs %q for the operator, want none", got)
			}
		})
	}
}

// In the mode inline, a bundle of a global catalog is installed without a Job, in a cluster without nodes.
func TestGlobalCatalogInline(t *testing.T) {
	x := newUnpackFixture(t, func(o *catalogoperator.Options) {
		o.UnpackMode, o.GlobalNamespace = unpack.ModeInline, operatorNamespace
	})
	x.subscribeTo(operatorNamespace)
	plan := x.plan()
	ref, ok := steps.ReferenceOf(plan.Status.Plan[0])
	if !ok || ref.Namespace != operatorNamespace || ref.Digest == "" || ref.CatalogSourceNamespace != operatorNamespace {
		t.Errorf("the step refers to %+v, want content of the global catalog with a digest", ref)
	}

	x.approve(plan, v1alpha1.InstallPlanPhaseComplete)
	x.Must(x.get(&v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: x.namespace, Name: "pear.v1.0.0"}}))
	var jobs batchv1.JobList
	x.Must(x.List(t.Context(), &jobs, client.InNamespace(operatorNamespace)))
	if len(jobs.Items) > 0 {
		t.Errorf("got %d Jobs, want none", len(jobs.Items))
	}
}
