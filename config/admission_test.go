package config_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// The editor may write extensions and revisions, and may impersonate one service account.
const (
	editor       = "admission-editor"
	accountsHome = "admission"
	ownAccount   = "own"
	otherAccount = "other"
)

// admission is an API server with the shipped policies.
type admission struct {
	admin, editor, controller client.Client
}

func newAdmission(t *testing.T) *admission {
	t.Helper()
	a := &admission{admin: env.Client(t, clientgoscheme.AddToScheme, olmv1.AddToScheme)}
	as := func(config *rest.Config) client.Client {
		c, err := client.New(config, client.Options{Scheme: a.admin.Scheme()})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}

	a.controller = as(env.ConfigWithRoles(t, filepath.Join("config", "rbac", "operator-controller", "role.yaml")))
	config := env.Start(t)
	config.Impersonate.UserName = editor
	a.editor = as(config)

	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: editor}}
	meta, inNamespace := metav1.ObjectMeta{Name: editor}, metav1.ObjectMeta{Namespace: accountsHome, Name: editor}
	objects := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: accountsHome}},
		&rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{olmv1.GroupVersion.Group}, Resources: []string{"clusterextensions", "clusterobjectsets"}, Verbs: []string{"*"},
		}}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: editor}, Subjects: subjects},
		&rbacv1.Role{ObjectMeta: inNamespace, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, ResourceNames: []string{ownAccount}, Verbs: []string{"impersonate"},
		}}},
		&rbacv1.RoleBinding{ObjectMeta: inNamespace, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: editor}, Subjects: subjects},
	}

	for _, object := range objects {
		a.create(t, object)
	}

	a.apply(t, "operator-controller", "admission.yaml")
	a.awaitPolicies(t)
	return a
}

// apply applies the objects of a file like an installation, and removes them when the test ends.
func (a *admission) apply(t *testing.T, path ...string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}

	for document := range strings.SplitSeq(string(data), "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			t.Fatal(err)
		}
		if err := a.admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("mainstay-install"), client.ForceOwnership); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := client.IgnoreNotFound(a.admin.Delete(context.Background(), object)); err != nil {
				t.Error(err)
			}
		})
	}
}

func (a *admission) create(t *testing.T, object client.Object) {
	t.Helper()
	if err := a.admin.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := client.IgnoreNotFound(a.admin.Delete(context.Background(), object)); err != nil {
			t.Error(err)
		}
	})
}

// awaitPolicies waits until the API server refuses the forbidden requests of the editor, and allows the others. New
// policies and roles take effect after a moment.
func (a *admission) awaitPolicies(t *testing.T) {
	t.Helper()
	dryRun := func(object client.Object) error { return a.editor.Create(t.Context(), object, client.DryRunAll) }
	env.Eventually(t, "the policies come into force", func() error {
		extension, set, own := dryRun(extensionAs("probe", otherAccount)), dryRun(setAs("probe", otherAccount)), dryRun(extensionAs("probe", ownAccount))
		if !isRefused(extension) || !isRefused(set) || own != nil {
			return fmt.Errorf("an extension that names a foreign account: %w, a revision: %w, an own account: %w", extension, set, own)
		}
		return nil
	})
}

// isRefused reports whether a request was refused because the user may not impersonate the account, and the
// message names the account.
func isRefused(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), editor+" may not impersonate ServiceAccount "+accountsHome+"/"+otherAccount)
}

func extensionAs(name, account string) *olmv1.ClusterExtension {
	extension := &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: name}}
	extension.Spec.Namespace = accountsHome
	extension.Spec.Source = olmv1.SourceConfig{SourceType: olmv1.ExtensionSourceTypeCatalog, Catalog: &olmv1.CatalogFilter{PackageName: "hello"}}
	if account != "" {
		extension.Spec.ServiceAccount = &olmv1.ServiceAccountReference{Name: account}
	}
	return extension
}

func setAs(name, account string) *olmv1.ClusterObjectSet {
	set := &olmv1.ClusterObjectSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
	set.Spec.LifecycleState, set.Spec.Revision, set.Spec.CollisionProtection = olmv1.LifecycleStateActive, 1, olmv1.CollisionProtectionPrevent
	if account != "" {
		set.Annotations = map[string]string{
			olmv1.AnnotationServiceAccountNamespace: accountsHome, olmv1.AnnotationServiceAccountName: account,
		}
	}
	return set
}

// A user who may not impersonate a service account must not be able to use its permissions by naming it, or by changing an
// object that names it.
func TestNamingAnAccountRequiresImpersonation(t *testing.T) {
	a := newAdmission(t)
	t.Run("created extensions", a.testCreatedExtensions)
	t.Run("changed extensions", a.testChangedExtensions)
	t.Run("revisions", a.testRevisions)
	t.Run("ignored accounts", a.testIgnoredAccounts)
}

func (a *admission) testCreatedExtensions(t *testing.T) {
	for name, test := range map[string]struct {
		as      client.Client
		account string
		refused bool
	}{
		"own account":                        {a.editor, ownAccount, false},
		"foreign account":                    {a.editor, otherAccount, true},
		"no account":                         {a.editor, "", false},
		"administrator":                      {a.admin, otherAccount, false},
		"operator-controller for dependency": {a.controller, otherAccount, false},
	} {
		t.Run(name, func(t *testing.T) {
			checkRefused(t, test.as.Create(t.Context(), extensionAs("created", test.account), client.DryRunAll), test.refused)
		})
	}
}

func (a *admission) testChangedExtensions(t *testing.T) {
	follow := func(e *olmv1.ClusterExtension) { e.Spec.Source.Catalog.Version = "1.x" }
	for name, test := range map[string]struct {
		before  string
		as      client.Client
		change  func(*olmv1.ClusterExtension)
		refused bool
	}{
		"adds a foreign account": {"", a.editor, func(e *olmv1.ClusterExtension) {
			e.Spec.ServiceAccount = &olmv1.ServiceAccountReference{Name: otherAccount}
		}, true},
		"adds the own account": {"", a.editor, func(e *olmv1.ClusterExtension) {
			e.Spec.ServiceAccount = &olmv1.ServiceAccountReference{Name: ownAccount}
		}, false},
		"changes an extension with a foreign account":                     {otherAccount, a.editor, follow, true},
		"changes an extension with the own account":                       {ownAccount, a.editor, follow, false},
		"changes an extension without an account":                         {"", a.editor, follow, false},
		"changes metadata alone":                                          {otherAccount, a.editor, func(e *olmv1.ClusterExtension) { e.Labels = map[string]string{"team": "a"} }, false},
		"administrator changes an extension with a foreign account":       {otherAccount, a.admin, follow, false},
		"operator-controller changes an extension with a foreign account": {otherAccount, a.controller, follow, false},
		"operator-controller sets its finalizer":                          {otherAccount, a.controller, func(e *olmv1.ClusterExtension) { e.Finalizers = []string{"example.com/test"} }, false},
		"an empty change of an extension with a foreign account":          {otherAccount, a.editor, func(*olmv1.ClusterExtension) {}, false},
		"requests a plan": {otherAccount, a.editor, func(e *olmv1.ClusterExtension) { e.Annotations = map[string]string{olmv1.AnnotationPlan: "{}"} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			extension := extensionAs("changed", test.before)
			a.create(t, extension)
			before := extension.DeepCopy()
			test.change(extension)
			checkRefused(t, test.as.Patch(t.Context(), extension, client.MergeFrom(before), client.DryRunAll), test.refused)
		})
	}
}

// testRevisions checks that a revision that a user writes is refused in the same cases as an extension.
func (a *admission) testRevisions(t *testing.T) {
	name := func(account string) func(*olmv1.ClusterObjectSet) {
		return func(set *olmv1.ClusterObjectSet) { set.Annotations = setAs("", account).Annotations }
	}
	archive := func(set *olmv1.ClusterObjectSet) { set.Spec.LifecycleState = olmv1.LifecycleStateArchived }
	for name, test := range map[string]struct {
		before  string
		as      client.Client
		change  func(*olmv1.ClusterObjectSet)
		refused bool
	}{
		"adds a foreign account":                     {"", a.editor, name(otherAccount), true},
		"replaces the own account by a foreign one":  {ownAccount, a.editor, name(otherAccount), true},
		"replaces a foreign account by the own":      {otherAccount, a.editor, name(ownAccount), false},
		"archives a revision of a foreign account":   {otherAccount, a.editor, archive, true},
		"archives a revision of the own account":     {ownAccount, a.editor, archive, false},
		"changes labels alone":                       {otherAccount, a.editor, func(set *olmv1.ClusterObjectSet) { set.Labels = map[string]string{"team": "a"} }, false},
		"operator-controller archives":               {otherAccount, a.controller, archive, false},
		"operator-controller changes the annotation": {otherAccount, a.controller, name(ownAccount), false},
	} {
		t.Run(name, func(t *testing.T) {
			set := setAs("changed", test.before)
			a.create(t, set)
			before := set.DeepCopy()
			test.change(set)
			checkRefused(t, test.as.Patch(t.Context(), set, client.MergeFrom(before), client.DryRunAll), test.refused)
		})
	}

	t.Run("removes the account", func(t *testing.T) {
		set := setAs("changed", ownAccount)
		a.create(t, set)
		before := set.DeepCopy()
		set.Annotations = nil
		err := a.editor.Patch(t.Context(), set, client.MergeFrom(before), client.DryRunAll)
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "may not be removed") {
			t.Errorf("got %v, want that the account may not be removed", err)
		}
	})

	t.Run("operator-controller creates", func(t *testing.T) {
		if err := a.controller.Create(t.Context(), setAs("created", otherAccount), client.DryRunAll); err != nil {
			t.Error(err)
		}
	})
}

func checkRefused(t *testing.T, err error, want bool) {
	t.Helper()
	if isRefused(err) != want || err != nil && !want {
		t.Errorf("refused: got %v, want %v", err, want)
	}
}

// testIgnoredAccounts checks that an extension that names an account is created on a cluster that ignores accounts, and
// that the response has a warning.
func (a *admission) testIgnoredAccounts(t *testing.T) {
	a.apply(t, "options", "ignore-service-account.yaml")
	warnings := &warnings{}
	config := env.Start(t)
	config.Impersonate.UserName, config.WarningHandler = editor, warnings
	asEditor, err := client.New(config, client.Options{Scheme: a.admin.Scheme()})
	if err != nil {
		t.Fatal(err)
	}

	create := func(account string) (warned []string, err error) {
		warnings.texts = nil
		err = asEditor.Create(t.Context(), extensionAs("ignored", account), client.DryRunAll)
		return warnings.texts, err
	}
	want := "spec.serviceAccount is ignored on this cluster: the extension is installed with the rights of operator-controller, " +
		"and not with those of ServiceAccount " + accountsHome + "/" + otherAccount
	env.Eventually(t, "the user is warned", func() error {
		warned, err := create(otherAccount)
		if err != nil || len(warned) != 1 || !strings.Contains(warned[0], want) {
			return fmt.Errorf("got %q (error %w), want %q", warned, err, want)
		}
		return nil
	})
	if warned, err := create(""); err != nil || len(warned) > 0 {
		t.Errorf("an extension without an account: got the warnings %q and %v, want none", warned, err)
	}
	if err := a.editor.Create(t.Context(), setAs("created", otherAccount), client.DryRunAll); !isRefused(err) {
		t.Errorf("a revision with a foreign account: got %v, want that it is refused", err)
	}
}

// warnings collects the warnings of the API server.
type warnings struct{ texts []string }

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _ string, text string) { w.texts = append(w.texts, text) }
