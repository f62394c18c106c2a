package rollout_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
)

func withServiceAccount(set *olmv1.ClusterObjectSet, namespace, name string) *olmv1.ClusterObjectSet {
	set.Annotations = map[string]string{
		olmv1.AnnotationServiceAccountName:      name,
		olmv1.AnnotationServiceAccountNamespace: namespace,
	}
	return set
}

// grantConfigMaps grants the account all verbs on config maps in its namespace.
func (c *fixture) grantConfigMaps(namespace, account string) *rbacv1.RoleBinding {
	c.T.Helper()
	// The group shows that the impersonated account is in its groups.
	group := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:serviceaccounts:" + namespace}
	role, binding := builder.Role(metav1.ObjectMeta{Namespace: namespace, Name: account}, builder.Rules("* core configmaps"), group)
	c.CreateAll(role, binding)

	return binding
}

func TestServiceAccountMissingThenWithoutRightsThenGranted(t *testing.T) {
	c := newFixture(t)
	ns := c.NewNamespace("rollout-")
	c.startController()
	c.CreateAll(withServiceAccount(newRevision("account", 1, newPhase("configuration", configMapManifest(ns, "config", "x"))), ns, "installer"))

	got := c.waitForCondition("account-1", olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRetrying)
	want := `installation cannot proceed due to missing ServiceAccount: create ServiceAccount "installer" in namespace "` + ns + `"`
	if got.Message != want {
		t.Errorf("message:\n got %s\nwant %s", got.Message, want)
	}

	c.CreateAll(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "installer"}})
	c.Eventually("the missing rights are reported", func() error {
		got := c.waitForCondition("account-1", olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRetrying)
		want := `phase "configuration" (1 of 1): ConfigMap "` + ns + `/config": configmaps "config" is forbidden: User "system:serviceaccount:` + ns +
			`:installer" cannot patch resource "configmaps" in API group "" in the namespace "` + ns + `": give the account this right`
		return errorUnless(got.Message == want, "message is %s", got.Message)
	})

	c.grantConfigMaps(ns, "installer")
	c.waitUntilSucceeded("account-1")
}

func TestTeardownWithoutTheServiceAccount(t *testing.T) {
	c := newFixture(t)
	ns := c.NewNamespace("rollout-")
	c.startController()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "installer"}}
	c.CreateAll(account)
	binding := c.grantConfigMaps(ns, "installer")
	set := withServiceAccount(newRevision("orphan", 1, newPhase("configuration", configMapManifest(ns, "config", "x"))), ns, "installer")
	c.CreateAll(set)
	c.waitUntilSucceeded("orphan-1")

	// Withdrawn rights apply: the controller does not delete objects with its own rights.
	if err := c.Delete(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), set); err != nil {
		t.Fatal(err)
	}

	got := c.waitForCondition("orphan-1", olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRetrying)
	if !strings.Contains(got.Message, "is forbidden") {
		t.Errorf("got message %s", got.Message)
	}
	// A deleted account does not block the removal.
	if err := c.Delete(t.Context(), account); err != nil {
		t.Fatal(err)
	}

	c.WaitUntilGone(set, "", "orphan-1")
	c.WaitUntilGone(&corev1.ConfigMap{}, ns, "config")
}

func TestMissingNamespaceHeals(t *testing.T) {
	c := newFixture(t)
	c.startController()
	c.CreateAll(newRevision("homeless", 1, newPhase("configuration", configMapManifest("no-such-place", "config", "x"))))
	got := c.waitForCondition("homeless-1", olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRetrying)
	want := `phase "configuration" (1 of 1): ConfigMap "no-such-place/config": namespaces "no-such-place" not found: create the namespace "no-such-place"`
	if got.Message != want {
		t.Errorf("message:\n got %s\nwant %s", got.Message, want)
	}

	c.CreateAll(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "no-such-place"}})
	c.waitUntilSucceeded("homeless-1")
}

func TestTeardownInReverseOrder(t *testing.T) {
	c := newFixture(t)
	ns := c.NewNamespace("rollout-")
	c.startController()
	held := configMapManifest(ns, "third", "x")
	set := newRevision("reverse", 1,
		newPhase("first", configMapManifest(ns, "first", "x")),
		newPhase("crds", crdManifest("Widget", "widgets")),
		newPhase("third", held))
	set.Spec.Phases[2].Objects[0].Object.SetFinalizers([]string{"example.com/hold"})
	c.CreateAll(set)
	c.waitUntilSucceeded("reverse-1")
	instance := builder.FromYAML(customResourceManifest("Widget", ns, "one"))
	instance.SetFinalizers([]string{"example.com/widget"})
	c.CreateAll(instance)

	if err := c.Delete(t.Context(), set); err != nil {
		t.Fatal(err)
	}

	c.expectWaiting("reverse-1", `removing phase "third" (3 of 3) waits for ConfigMap "`+ns+`/third": it is being deleted, held by finalizer example.com/hold`)
	for name, object := range map[string]client.Object{"first": &corev1.ConfigMap{}, "widgets.rollout.example.com": builder.FromYAML(crdManifest("Widget", "widgets"))} {
		where := ""
		if name == "first" {
			where = ns
		}
		if c.get(object, where, name); object.GetDeletionTimestamp() != nil {
			t.Errorf("%s is deleted before the objects of the later phase", name)
		}
	}

	third := &corev1.ConfigMap{}
	c.get(third, ns, "third")
	c.PatchObject(third, func() { third.SetFinalizers(nil) })
	c.expectWaiting("reverse-1", `removing phase "crds" (2 of 3) waits for CustomResourceDefinition "widgets.rollout.example.com": `+
		`it is waiting for 1 instance of its kind to be deleted: Widget "`+ns+`/one" (held by finalizer example.com/widget)`)
	c.get(instance, ns, "one")
	c.PatchObject(instance, func() { instance.SetFinalizers(nil) })
	c.WaitUntilGone(set, "", "reverse-1")
	c.WaitUntilGone(&corev1.ConfigMap{}, ns, "first")
}

func (c *fixture) expectWaiting(set, message string) {
	c.T.Helper()
	c.Eventually(set+" reports "+message, func() error {
		got := c.waitForCondition(set, olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRollingOut)
		return errorUnless(got.Message == message, "message is %s", got.Message)
	})
}

func TestProgressDeadline(t *testing.T) {
	c := newFixture(t)
	ns := c.NewNamespace("rollout-")
	fake := clocktesting.NewFakePassiveClock(time.Now())
	stop := c.startController(fake)
	set := newRevision("late", 1, newPhase("deploy", deploymentManifest(ns, "app")))
	minutes := int32(10)
	set.Spec.ProgressDeadlineMinutes = &minutes
	c.CreateAll(set)
	c.waitForCondition("late-1", olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRollingOut)
	stop()

	fake.SetTime(time.Now().Add(11 * time.Minute))
	c.startController(fake)
	got := c.waitForCondition("late-1", olmv1.TypeProgressing, metav1.ConditionFalse, olmv1.ReasonProgressDeadlineExceeded)
	want := `Revision has not rolled out for 10 minute(s). Last status: phase "deploy" (1 of 1) waits for Deployment "` + ns + `/app": its controller has not seen the latest change yet`
	if got.Message != want {
		t.Errorf("message:\n got %s\nwant %s", got.Message, want)
	}

	// A late rollout can still succeed.
	c.makeDeploymentAvailable(ns, "app")
	c.waitUntilSucceeded("late-1")
}

func TestRestartGoesOn(t *testing.T) {
	c := newFixture(t)
	ns := c.NewNamespace("rollout-")
	stop := c.startController()
	set := newRevision("restart", 1, newPhase("deploy", deploymentManifest(ns, "app")), newPhase("publish", configMapManifest(ns, "config", "x")))
	c.CreateAll(set)
	c.waitForCondition("restart-1", olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRollingOut)
	stop()
	c.makeDeploymentAvailable(ns, "app")
	stop = c.startController()
	c.waitUntilSucceeded("restart-1")
	stop()

	// Later changes of the objects and of the set are detected.
	if err := c.Delete(t.Context(), builder.FromYAML(configMapManifest(ns, "config", "x"))); err != nil {
		t.Fatal(err)
	}

	stop = c.startController()
	c.WaitUntilExists(&corev1.ConfigMap{}, ns, "config")
	stop()
	if err := c.Delete(t.Context(), set); err != nil {
		t.Fatal(err)
	}

	c.startController()
	c.WaitUntilGone(set, "", "restart-1")
	c.WaitUntilGone(&corev1.ConfigMap{}, ns, "config")
}

func TestObjectsInSecrets(t *testing.T) {
	c := newFixture(t)
	ns := c.NewNamespace("rollout-")
	c.startController()
	secret := func(plain, compressed string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: "packed-1-objects"},
			Type:       olmv1.SecretTypeObjectData,
			Immutable:  ptr.To(true),
			Data:       map[string][]byte{"plain": toJSON(t, plain), "compressed": compress(t, toJSON(t, compressed))},
		}
	}

	set := newRevision("packed", 1, olmv1.ClusterObjectSetPhase{Name: "configuration", Objects: []olmv1.ClusterObjectSetObject{
		{Ref: &olmv1.ObjectSourceRef{Name: "packed-1-objects", Key: "plain"}},
		{Ref: &olmv1.ObjectSourceRef{Name: "packed-1-objects", Namespace: systemNamespace, Key: "compressed"}},
	}})
	c.CreateAll(set)
	got := c.waitForCondition("packed-1", olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRetrying)
	if want := "there is no Secret default/packed-1-objects"; !strings.Contains(got.Message, want) {
		t.Errorf("message:\n got %s\nwant %s", got.Message, want)
	}

	first := secret(configMapManifest(ns, "one", "x"), configMapManifest(ns, "two", "x"))
	c.CreateAll(first)
	c.waitUntilSucceeded("packed-1")

	// The Secret is replaced while the revision is unchanged.
	if err := c.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}

	second := secret(configMapManifest(ns, "one", "y"), configMapManifest(ns, "two", "x"))
	second.Labels = set.Labels
	second.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, olmv1.GroupVersion.WithKind(olmv1.ClusterObjectSetKind))}
	c.CreateAll(second)
	got = c.waitForCondition("packed-1", olmv1.TypeProgressing, metav1.ConditionFalse, olmv1.ReasonBlocked)
	if want := `resolved content of 1 phase(s) has changed: phase "configuration": `; !strings.HasPrefix(got.Message, want) {
		t.Errorf("message:\n got %s\nwant %s", got.Message, want)
	}

	one := &corev1.ConfigMap{}
	c.get(one, ns, "one")
	if one.Data["key"] == "y" {
		t.Error("the changed content was applied")
	}

	// Without its Secret the set is still deleted.
	if err := c.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), set); err != nil {
		t.Fatal(err)
	}

	c.WaitUntilGone(set, "", "packed-1")
}

// TestMutableSecretsAreRefused expects that no object of a revision is applied while one of its Secrets
// can still change.
func TestMutableSecretsAreRefused(t *testing.T) {
	c := newFixture(t)
	ns := c.NewNamespace("rollout-")
	c.startController()
	secret := func(name string, immutable *bool, typ corev1.SecretType) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: name},
			Type:       typ, Immutable: immutable,
			Data: map[string][]byte{"manifest": toJSON(t, configMapManifest(ns, name, "x"))},
		}
	}

	mutable := secret("mutable-b", ptr.To(false), olmv1.SecretTypeObjectData)
	untyped := secret("mutable-c", nil, "")
	c.CreateAll(secret("mutable-a", ptr.To(true), olmv1.SecretTypeObjectData), mutable, untyped)
	first := newPhase("first", configMapManifest(ns, "inline", "x"))
	second := olmv1.ClusterObjectSetPhase{Name: "second"}
	for _, name := range []string{"mutable-a", "mutable-b", "mutable-c"} {
		second.Objects = append(second.Objects, olmv1.ClusterObjectSetObject{Ref: &olmv1.ObjectSourceRef{Name: name, Key: "manifest"}})
	}

	c.CreateAll(newRevision("mutable", 1, first, second))

	got := c.waitForCondition("mutable-1", olmv1.TypeProgressing, metav1.ConditionFalse, olmv1.ReasonBlocked)
	want := "the following secrets are not immutable (referenced secrets must have immutable set to true): default/mutable-b, default/mutable-c"
	if got.Message != want {
		t.Errorf("message:\n got %s\nwant %s", got.Message, want)
	}

	for _, name := range []string{"inline", "mutable-a", "mutable-b", "mutable-c"} {
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
			t.Errorf("ConfigMap %s: got error %v, want it not to be applied", name, err)
		}
	}
}

// TestContentIsPinnedAtTheFirstLoad replaces a Secret while the first rollout still waits.
func TestContentIsPinnedAtTheFirstLoad(t *testing.T) {
	c := newFixture(t)
	ns := c.NewNamespace("rollout-")
	stop := c.startController()
	secret := func(value string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: "pinned-1-objects"},
			Type:       olmv1.SecretTypeObjectData, Immutable: ptr.To(true),
			Data: map[string][]byte{"manifest": toJSON(t, configMapManifest(ns, "later", value))},
		}
	}

	original := secret("x")
	c.CreateAll(original)
	c.CreateAll(newRevision("pinned", 1, newPhase("deploy", deploymentManifest(ns, "app")),
		olmv1.ClusterObjectSetPhase{Name: "publish", Objects: []olmv1.ClusterObjectSetObject{
			{Ref: &olmv1.ObjectSourceRef{Name: "pinned-1-objects", Key: "manifest"}},
		}}))
	// The content is recorded before anything is applied.
	c.WaitUntilExists(&appsv1.Deployment{}, ns, "app")
	set := &olmv1.ClusterObjectSet{}
	if c.get(set, "", "pinned-1"); len(set.Status.ObservedPhases) != 2 {
		t.Errorf("got observed phases %v while objects are applied, want 2", set.Status.ObservedPhases)
	}

	stop()
	if err := c.Delete(t.Context(), original); err != nil {
		t.Fatal(err)
	}

	c.CreateAll(secret("y"))
	c.startController()

	got := c.waitForCondition("pinned-1", olmv1.TypeProgressing, metav1.ConditionFalse, olmv1.ReasonBlocked)
	if want := `resolved content of 1 phase(s) has changed: phase "publish": `; !strings.HasPrefix(got.Message, want) {
		t.Errorf("message:\n got %s\nwant %s…", got.Message, want)
	}
}

func TestOtherSecretsAreNotRead(t *testing.T) {
	c := newFixture(t)
	ns := c.NewNamespace("rollout-")
	c.startController()
	c.CreateAll(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: "private"},
		Immutable:  ptr.To(true),
		Data:       map[string][]byte{"manifest": toJSON(t, configMapManifest(ns, "one", "x"))},
	}, newRevision("curious", 1, olmv1.ClusterObjectSetPhase{Name: "configuration", Objects: []olmv1.ClusterObjectSetObject{
		{Ref: &olmv1.ObjectSourceRef{Name: "private", Key: "manifest"}},
	}}))

	got := c.waitForCondition("curious-1", olmv1.TypeProgressing, metav1.ConditionFalse, olmv1.ReasonBlocked)
	if want := `Secret "default/private" is of type "Opaque", not "olm.operatorframework.io/object-data"`; !strings.Contains(got.Message, want) {
		t.Errorf("message:\n got %s\nwant %s", got.Message, want)
	}
}

func toJSON(t *testing.T, manifest string) []byte {
	t.Helper()
	data, err := json.Marshal(builder.FromYAML(manifest).Object)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func compress(t *testing.T, data []byte) []byte {
	t.Helper()
	var buffer bytes.Buffer
	w := gzip.NewWriter(&buffer)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}

	return buffer.Bytes()
}
