package migration_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	operatorsv2 "github.com/mainstay-dev/mainstay/api/operators/v2"
	"github.com/mainstay-dev/mainstay/internal/action/migration"
	"github.com/mainstay-dev/mainstay/internal/action/migration/plan"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
	"github.com/mainstay-dev/mainstay/internal/testing/mortal"
)

// identities identify the objects that must survive.
type identities struct {
	uids map[string]types.UID
	// templates is how many pod templates the Deployment has had.
	templates int
}

func (f *fixture) identities() identities {
	return identities{templates: f.templatesOf(f.name), uids: map[string]types.UID{
		"Greeting":       f.uidOf(f.newGreeting(), "hello"),
		"Deployment":     f.uidOf(&appsv1.Deployment{}, f.name),
		"ServiceAccount": f.uidOf(&corev1.ServiceAccount{}, f.name),
		"Service":        f.uidOf(&corev1.Service{}, f.name),
		"CRD":            f.uidOf(&apiextensionsv1.CustomResourceDefinition{}, f.crdName()),
	}}
}

// newGreeting returns a custom resource of the operator.
func (f *fixture) newGreeting() *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"name": "World"}}}
	u.SetAPIVersion(f.name + ".example.com/v1alpha1")
	u.SetKind("Greeting")
	u.SetNamespace(f.namespace)
	u.SetName("hello")
	return u
}

func (f *fixture) expectIdentities(want identities) {
	f.T.Helper()
	got := f.identities()
	for kind, uid := range got.uids {
		if uid != want.uids[kind] {
			f.T.Errorf("%s: got UID %s, want %s", kind, uid, want.uids[kind])
		}
	}
	if got.templates != want.templates {
		f.T.Errorf("got %d pod templates, want %d: the pods restarted", got.templates, want.templates)
	}
}

// expectMigrated checks that the extension manages the operator and that OLM Classic has left no
// objects.
func (f *fixture) expectMigrated(version string) {
	f.T.Helper()
	ext := get(f, &olmv1.ClusterExtension{}, f.name)
	if !meta.IsStatusConditionTrue(ext.Status.Conditions, olmv1.TypeInstalled) || ext.Status.Install == nil || ext.Status.Install.Bundle.Version != version {
		f.T.Errorf("got the status %+v, want version %s installed", ext.Status, version)
	}

	csv := f.name + ".v" + version
	for _, object := range []client.Object{&v1alpha1.ClusterServiceVersion{}, &operatorsv2.OperatorCondition{}} {
		if f.exists(object, csv) {
			f.T.Errorf("%T %s still exists", object, csv)
		}
	}
	if f.exists(&v1alpha1.Subscription{}, f.name) {
		f.T.Errorf("the Subscription still exists")
	}

	for _, object := range []client.Object{&appsv1.Deployment{}, &corev1.ServiceAccount{}, &corev1.Service{}} {
		f.Must(f.Get(f.T.Context(), f.keyOf(object, f.name), object))
		expectNoMarks(f.T, object)
	}
	crd := get(f, &apiextensionsv1.CustomResourceDefinition{}, f.crdName())
	expectNoMarks(f.T, crd)
	for key := range crd.Annotations {
		if strings.HasPrefix(key, "operatorframework.io/installed-alongside") {
			f.T.Errorf("the CRD still has the annotation %s", key)
		}
	}

	f.expectOneRole(ext)
}

func expectNoMarks(t testing.TB, object client.Object) {
	t.Helper()
	for key := range object.GetLabels() {
		if strings.HasPrefix(key, "olm.owner") || key == "olm.managed" || key == "olm.deployment-spec-hash" || strings.HasPrefix(key, "operators.coreos.com/") {
			t.Errorf("%T %s still has the label %s", object, object.GetName(), key)
		}
	}
	for _, reference := range object.GetOwnerReferences() {
		if reference.Kind == v1alpha1.ClusterServiceVersionKind {
			t.Errorf("%T %s still has an owner reference to %s", object, object.GetName(), reference.Name)
		}
	}
	if controller := metav1.GetControllerOf(object); controller == nil || controller.Kind != olmv1.ClusterObjectSetKind {
		t.Errorf("%T %s: got the controller %v, want a revision", object, object.GetName(), controller)
	}
}

// expectOneRole waits until the service account has the roles of the extension alone.
func (f *fixture) expectOneRole(ext *olmv1.ClusterExtension) {
	f.T.Helper()
	isSubject := func(subjects []rbacv1.Subject) bool {
		return slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool { return s.Namespace == f.namespace && s.Name == f.name })
	}

	f.Eventually("the operator has one binding", func() error {
		var bindings rbacv1.ClusterRoleBindingList
		var namespaced rbacv1.RoleBindingList
		if err := errors.Join(f.List(f.T.Context(), &bindings), f.List(f.T.Context(), &namespaced)); err != nil {
			return err
		}

		var found []string
		for i := range bindings.Items {
			if b := &bindings.Items[i]; isSubject(b.Subjects) {
				found = append(found, b.Labels[olmv1.LabelOwnerName])
			}
		}
		for i := range namespaced.Items {
			if b := &namespaced.Items[i]; isSubject(b.Subjects) {
				found = append(found, b.Labels[olmv1.LabelOwnerName])
			}
		}
		if !slices.Equal(found, []string{ext.Name}) {
			return fmt.Errorf("got the bindings of the extensions %q, want only %q", found, ext.Name)
		}
		return nil
	})
}

func TestMigrateAllNamespaces(t *testing.T) {
	f := newFixture(t, "apple", nil, "1.0.0", "1.1.0")
	f.installWithClassic(nil, "1.0.0", needsApproval)
	before := f.identities()
	role := f.bindGroupRole()

	p := f.checkWithoutWrites(acceptPending)
	if !p.Allowed() {
		t.Fatalf("got the findings %+v, want a plan", p.Findings)
	}
	if !slices.ContainsFunc(p.Findings, func(finding plan.Finding) bool {
		return finding.Check == "GroupBindings" && strings.Contains(finding.Object, f.namespace+"/viewers") && strings.Contains(finding.Message, role)
	}) {
		t.Errorf("got the findings %+v, want one about the binding to %s", p.Findings, role)
	}

	stop := f.watchRights()
	f.Must(f.newMigration(acceptPending).Run(t.Context()))
	stop()
	f.expectMigrated("1.0.0")
	f.expectIdentities(before)

	f.Must((&migration.Confirm{Operation: f.newOperation()}).Run(t.Context()))
	if version := get(f, &olmv1.ClusterExtension{}, f.name).Spec.Source.Catalog.Version; version != "1.0.0" {
		t.Errorf("got the version %q, want 1.0.0: updates need approval", version)
	}
}

// bindGroupRole binds users to a ClusterRole of the OperatorGroup, and returns its name.
func (f *fixture) bindGroupRole() string {
	f.T.Helper()
	var roles rbacv1.ClusterRoleList
	f.Eventually("the OperatorGroup has ClusterRoles", func() error {
		err := f.List(f.T.Context(), &roles, client.MatchingLabels{csvinfo.LabelOwnerKind: "OperatorGroup", csvinfo.LabelOwnerNamespace: f.namespace})
		if err == nil && len(roles.Items) == 0 {
			err = errors.New("it has none")
		}
		return err
	})
	f.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "viewers"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: roles.Items[0].Name},
	})
	return roles.Items[0].Name
}

// acceptPending are the options for an operator with a pending update.
var acceptPending = plan.Options{Acknowledged: []plan.Acknowledgement{plan.AcknowledgeNotSteady}}

func needsApproval(s *v1alpha1.Subscription) { s.Spec.InstallPlanApproval = v1alpha1.ApprovalManual }

// checkWithoutWrites checks the operator with a connection that fails at the first write.
func (f *fixture) checkWithoutWrites(options plan.Options) *plan.Plan {
	f.T.Helper()
	var p *plan.Plan
	var err error
	f.runProcess(0, func(ctx context.Context, c client.Client) {
		m := f.newMigration(options)
		m.Client = c
		p, err = m.Check(ctx)
	})
	f.Must(err)
	return p
}

// runProcess runs a program until it returns. Its connection fails after a number of writes. It
// reports whether the program reached that number.
func (f *fixture) runProcess(writes int64, program func(context.Context, client.Client)) (dead bool) {
	f.T.Helper()
	returned := make(chan struct{})
	p := mortal.Start(f.T.Context(), env.Start(f.T), writes, func(ctx context.Context, connection *rest.Config) {
		defer close(returned)
		c, err := client.New(connection, client.Options{Scheme: f.Scheme(), Mapper: f.RESTMapper()})
		if err != nil {
			f.T.Error(err)
			return
		}
		program(ctx, c)
	})
	<-returned
	dead = p.IsDead()
	p.Kill()
	return dead
}

const (
	// sampleInterval is the interval between two checks of a state that must persist.
	sampleInterval = 20 * time.Millisecond
	// pollInterval is how often a migration checks whether others have done their part.
	pollInterval = 100 * time.Millisecond
)

// watchRights checks continuously whether the operator has the rights of its roles, until stop is
// called. The test fails if it ever lacks them.
func (f *fixture) watchRights() (stop func()) { return f.watchRightsIn("") }

// watchRightsIn does so for one namespace. An empty name means all namespaces.
func (f *fixture) watchRightsIn(namespace string) (stop func()) {
	ctx, cancel := context.WithCancel(f.T.Context())
	var done sync.WaitGroup
	done.Go(func() {
		asked := 0
		for ; ctx.Err() == nil; time.Sleep(sampleInterval) {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User:               "system:serviceaccount:" + f.namespace + ":" + f.name,
				ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Group: f.name + ".example.com", Resource: "greetings", Verb: "list"},
			}}
			if err := f.Create(ctx, review); err != nil {
				continue
			}
			asked++
			if !review.Status.Allowed {
				f.T.Errorf("the operator lost its rights: %s", review.Status.Reason)
				return
			}
		}
		f.T.Logf("checked %d times", asked)
	})
	return func() {
		cancel()
		done.Wait()
	}
}

func TestMigrateRefuses(t *testing.T) {
	f := newFixture(t, "cherry", nil, "1.0.0")
	f.installWithClassic(nil, "1.0.0", func(s *v1alpha1.Subscription) {
		s.Annotations = map[string]string{v1alpha1.AnnotationGeneratedBy: "install-parent"}
	})

	var err error
	f.runProcess(0, func(ctx context.Context, c client.Client) {
		m := f.newMigration(plan.Options{})
		m.Client = c
		err = m.Run(ctx)
	})
	var refused *migration.RefusedError
	if !errors.As(err, &refused) {
		t.Fatalf("got %v, want a RefusedError", err)
	}
	if got := refused.Plan.Findings[0]; got.Check != "GeneratedSubscription" || !got.Blocks() || got.Remedy == "" {
		t.Errorf("got the finding %+v, want GeneratedSubscription with a remedy", got)
	}

	// The remedy helps, even if other operators need this one.
	sub := &v1alpha1.Subscription{}
	f.Must(f.Get(t.Context(), client.ObjectKey{Namespace: f.namespace, Name: f.name}, sub))
	delete(sub.Annotations, v1alpha1.AnnotationGeneratedBy)
	f.Must(f.Update(t.Context(), sub))
	if err := f.newMigration(plan.Options{}).Run(t.Context()); err != nil {
		t.Errorf("without the annotation: got error %v", err)
	}
}

// TestKilledAtEveryWrite runs the migration and the rollback as programs that die after each of
// their writes. Each next program continues.
func TestKilledAtEveryWrite(t *testing.T) {
	for name, test := range map[string]struct {
		files func(version, file, text string) string
		edit  func(*v1alpha1.Subscription)
	}{
		"melon": {edit: func(*v1alpha1.Subscription) {}},
		"guava": {edit: func(s *v1alpha1.Subscription) {
			s.Spec.Config = &v1alpha1.SubscriptionConfig{Env: []corev1.EnvVar{{Name: "COLOUR", Value: "pink"}}}
		}},
		"olive": {files: addWebhooks, edit: func(*v1alpha1.Subscription) {}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, name, test.files, "1.0.0")
			f.installWithClassic(nil, "1.0.0", test.edit)
			before := f.identities()
			stop := f.watchRights()
			lives := f.runUntilDone(func(ctx context.Context, c client.Client) error {
				m := f.newMigration(plan.Options{})
				m.Client = c
				return m.Run(ctx)
			})
			t.Logf("the migration took %d programs", lives)
			f.expectMigrated("1.0.0")
			f.expectIdentities(before)

			lives = f.runUntilDone(func(ctx context.Context, c client.Client) error {
				secret := &corev1.Secret{}
				if err := c.Get(ctx, f.keyOf(secret, "mainstay-migration-"+f.name), secret); apierrors.IsNotFound(err) {
					return nil // The last write was its deletion.
				}
				r := f.newRollback(true)
				r.Client = c
				return r.Run(ctx)
			})
			t.Logf("the rollback took %d programs", lives)
			stop()
			f.expectClassic("1.0.0")
			f.expectIdentities(before)
		})
	}
}

// runUntilDone runs programs that die after one write or two, until one of them succeeds. It returns
// their number. Only one write would never delete the CSV: olm-operator restores its finalizer between
// two programs.
func (f *fixture) runUntilDone(program func(context.Context, client.Client) error) int {
	f.T.Helper()
	const most = 200
	var err error
	for life := range most {
		dead := f.runProcess(1+int64(life%2), func(ctx context.Context, c client.Client) { err = program(ctx, c) })
		if err == nil {
			return life + 1
		}
		if !dead {
			f.T.Fatalf("program %d: %v", life+1, err)
		}
	}
	f.T.Fatalf("not done after %d programs: %v", most, err)
	return most
}

// TestKilledThenRolledBack kills the migration after each number of writes, and rolls it back.
func TestKilledThenRolledBack(t *testing.T) {
	f := newFixture(t, "grape", nil, "1.0.0")
	f.installWithClassic(nil, "1.0.0")
	before := f.identities()
	for writes := int64(1); ; writes += 3 {
		var err error
		f.runProcess(writes, func(ctx context.Context, c client.Client) {
			m := f.newMigration(plan.Options{})
			m.Client = c
			err = m.Run(ctx)
		})
		f.Must(f.newRollback(true).Run(t.Context()))
		f.expectClassic("1.0.0")
		f.expectIdentities(before)
		if err == nil || t.Failed() {
			return
		}
	}
}

func TestRollback(t *testing.T) {
	f := newFixture(t, "peach", nil, "1.0.0")
	f.installWithClassic(nil, "1.0.0")
	before := f.identities()
	f.Must(f.newMigration(plan.Options{}).Run(t.Context()))
	f.expectMigrated("1.0.0")

	if err := f.newRollback(false).Run(t.Context()); err == nil {
		t.Error("got no error without the acknowledgement")
	}
	f.Must(f.newRollback(true).Run(t.Context()))
	f.expectClassic("1.0.0")
	f.expectIdentities(before)

	f.Must(f.newMigration(plan.Options{}).Run(t.Context()))
	f.expectMigrated("1.0.0")
	f.expectIdentities(before)
	f.Must((&migration.Confirm{Operation: f.newOperation()}).Run(t.Context()))
	if f.exists(&corev1.Secret{}, "mainstay-migration-"+f.name) {
		t.Error("the snapshot still exists")
	}
	if version := get(f, &olmv1.ClusterExtension{}, f.name).Spec.Source.Catalog.Version; version != "" {
		t.Errorf("got the version %q, want none after the confirmation", version)
	}

	// The deletion of another CSV with the old name deletes no other objects.
	csv := builder.CSV(f.namespace, f.name+".v1.0.0")
	f.Must(f.Create(t.Context(), csv))
	f.Eventually("olm-operator adds its finalizer", func() error {
		if get(f, csv, csv.Name); len(csv.Finalizers) == 0 {
			return errors.New("it has none")
		}
		return nil
	})
	f.Must(f.Delete(t.Context(), csv))
	f.Eventually("the CSV is deleted", func() error {
		if f.exists(csv, csv.Name) {
			return fmt.Errorf("got the finalizers %v", csv.Finalizers)
		}
		return nil
	})
	f.expectOneRole(get(f, &olmv1.ClusterExtension{}, f.name))
	f.expectIdentities(before)
}

// startMigration runs a migration that is killed after a number of writes.
func (f *fixture) startMigration(writes int64) {
	f.T.Helper()
	dead := f.runProcess(writes, func(ctx context.Context, c client.Client) {
		m := f.newMigration(plan.Options{})
		m.Client = c
		_ = m.Run(ctx) // it is killed
	})
	if !dead {
		f.T.Fatalf("the migration ended before %d writes", writes)
	}
}

// TestForeignExtension creates an extension of the same name during the migration. It stays, and the
// Subscription is restored.
func TestForeignExtension(t *testing.T) {
	f := newFixture(t, "fig", nil, "1.0.0")
	f.installWithClassic(nil, "1.0.0")
	before := f.identities()
	f.startMigration(2)
	foreign := &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: f.name}}
	foreign.Spec = olmv1.ClusterExtensionSpec{
		Namespace: f.namespace, Source: olmv1.SourceConfig{SourceType: olmv1.ExtensionSourceTypeCatalog, Catalog: &olmv1.CatalogFilter{PackageName: "missing"}},
	}
	f.create(foreign)

	if err := f.newMigration(plan.Options{}).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "was not created by this migration") {
		t.Errorf("got %v, want an error about the extension", err)
	}
	f.waitForClassic("1.0.0")
	f.expectIdentities(before)
	if got := get(f, &olmv1.ClusterExtension{}, f.name); got.UID != foreign.UID || got.Generation != foreign.Generation {
		t.Errorf("the extension was changed: %+v", got)
	}
	if f.exists(&corev1.Secret{}, "mainstay-migration-"+f.name) {
		t.Error("the snapshot still exists")
	}
}

// TestRacingUpdate starts an update by an InstallPlan during the migration.
func TestRacingUpdate(t *testing.T) {
	f := newFixture(t, "mango", nil, "1.0.0")
	f.installWithClassic(nil, "1.0.0")
	f.startMigration(2)
	racing := get(f, &v1alpha1.ClusterServiceVersion{}, f.name+".v1.0.0")
	racing.ObjectMeta = metav1.ObjectMeta{Namespace: f.namespace, Name: f.name + ".v1.1.0"}
	racing.Spec.Replaces = f.name + ".v1.0.0"
	f.Must(f.Create(t.Context(), racing))

	err := f.newMigration(plan.Options{}).Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "replaces") || !strings.Contains(report.AdviceOf(err), "--rollback") {
		t.Errorf("got %v, want an error about the update with advice", err)
	}
	if f.exists(&olmv1.ClusterExtension{}, f.name) {
		t.Error("the extension was created")
	}
}

func (f *fixture) newOperation() migration.Operation {
	return migration.Operation{
		Client: f.Client, Namespace: f.namespace, Name: f.name, Timeout: env.WaitTimeout, PollInterval: pollInterval,
	}
}

func (f *fixture) newRollback(acknowledged bool) *migration.Rollback {
	return &migration.Rollback{Operation: f.newOperation(), AcknowledgeInstalled: acknowledged}
}

// expectClassic checks that OLM Classic manages the operator and that the extension has left no
// objects.
func (f *fixture) expectClassic(version string) {
	f.T.Helper()
	f.waitForClassic(version)
	if f.exists(&olmv1.ClusterExtension{}, f.name) {
		f.T.Error("the extension still exists")
	}
	if f.exists(&corev1.Secret{}, "mainstay-migration-"+f.name) {
		f.T.Error("the snapshot still exists")
	}

	csv := get(f, &v1alpha1.ClusterServiceVersion{}, f.name+".v"+version)
	for _, object := range []client.Object{&appsv1.Deployment{}, &corev1.ServiceAccount{}, &corev1.Service{}} {
		f.Must(f.Get(f.T.Context(), f.keyOf(object, f.name), object))
		if controller := metav1.GetControllerOf(object); controller != nil {
			f.T.Errorf("%T: got the controller %s %s", object, controller.Kind, controller.Name)
		}
		if name := object.GetLabels()[olmv1.LabelOwnerName]; name != "" {
			f.T.Errorf("%T: got the label of extension %s", object, name)
		}
		if !csvinfo.IsOwner(object.GetOwnerReferences(), csv) {
			f.T.Errorf("%T: got the owners %v, want the CSV", object, object.GetOwnerReferences())
		}
	}

	var sets olmv1.ClusterObjectSetList
	f.Must(f.List(f.T.Context(), &sets, client.MatchingLabels{olmv1.LabelOwnerName: f.name}))
	if len(sets.Items) > 0 {
		f.T.Errorf("got %d revisions, want none", len(sets.Items))
	}
}
