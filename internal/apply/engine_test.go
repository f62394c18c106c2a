package apply

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

// fixture is a real API server, with a hook before each write.
type fixture struct {
	store
	t  *testing.T
	ns string
	// before is called once, before the next write.
	before func()
	// refuse returns the error of a write, nil to allow it.
	refuse  func(u *unstructured.Unstructured) error
	writes  int
	reads   int
	samples int
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	config := env.Start(t)
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}

	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}

	mapper, err := apiutil.NewDynamicRESTMapper(config, httpClient)
	if err != nil {
		t.Fatal(err)
	}

	b := &fixture{store: &server{client: client, mapper: mapper}, t: t}
	ns := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"generateName": "apply-"}}}
	created, err := client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).Create(t.Context(), ns, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}

	b.ns = created.GetName()
	return b
}

func (b *fixture) get(ctx context.Context, at location, key Key) (*unstructured.Unstructured, error) {
	b.reads++
	return b.store.get(ctx, at, key)
}

func (b *fixture) apply(ctx context.Context, at location, u *unstructured.Unstructured, manager string, force bool) (*unstructured.Unstructured, error) {
	b.writes++
	b.runBeforeWrite()
	if b.refuse != nil {
		if err := b.refuse(u); err != nil {
			return nil, err
		}
	}
	return b.store.apply(ctx, at, u, manager, force)
}

func (b *fixture) sampleInstances(ctx context.Context, resource schema.GroupVersionResource) ([]unstructured.Unstructured, int64, error) {
	b.samples++
	return b.store.sampleInstances(ctx, resource)
}

func (b *fixture) delete(ctx context.Context, at location, key Key, uid types.UID, version string) error {
	b.runBeforeWrite()
	return b.store.delete(ctx, at, key, uid, version)
}

func (b *fixture) runBeforeWrite() {
	if hook := b.before; hook != nil {
		b.before = nil
		hook()
	}
}

// newOwner returns a revision of the extension "app". Its set need not exist.
func (b *fixture) newOwner(number int64) Owner {
	name := map[int64]string{1: "app-1", 2: "app-2", 3: "app-3"}[number]
	return Owner{
		Reference: metav1.OwnerReference{APIVersion: olmv1.GroupVersion.String(), Kind: set, Name: name, UID: types.UID("uid-" + name + "-" + b.ns)},
		Labels:    map[string]string{olmv1.LabelOwnerKind: extension, olmv1.LabelOwnerName: "app"},
		Revision:  number,
	}
}

// applyObject applies one object for a revision and returns its result.
func (b *fixture) applyObject(number int64, memory *Memory, manifest string, protection ...olmv1.CollisionProtection) ObjectResult {
	b.t.Helper()
	object := Object{Manifest: b.parseManifest(manifest)}
	if len(protection) > 0 {
		object.Protection = protection[0]
	}

	result := newEngineForStore(b, memory).Apply(b.t.Context(), &Revision{
		Owner: b.newOwner(number), Phases: []Phase{{Name: "only", Objects: []Object{object}}},
	})
	return result.Phases[0].Objects[0]
}

func (b *fixture) parseManifest(text string) *unstructured.Unstructured {
	b.t.Helper()
	return builder.FromYAML(strings.ReplaceAll(text, "NS", b.ns))
}

// writeAs writes an object as another field manager.
func (b *fixture) writeAs(manager, text string) {
	b.t.Helper()
	u := b.parseManifest(text)
	at, err := b.locate(u.GroupVersionKind())
	if err != nil {
		b.t.Fatal(err)
	}

	s := b.store.(*server)
	_, err = s.resourceClient(at, u.GetNamespace()).Apply(b.t.Context(), u.GetName(), u, metav1.ApplyOptions{FieldManager: manager, Force: true})
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *fixture) readObject(text string) *unstructured.Unstructured {
	b.t.Helper()
	u := b.parseManifest(text)
	at, err := b.locate(u.GroupVersionKind())
	if err != nil {
		b.t.Fatal(err)
	}

	live, err := b.store.get(b.t.Context(), at, KeyOf(u))
	if err != nil {
		b.t.Fatal(err)
	}

	return live
}

const config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: NS, name: config}\ndata: {ours: v1}"

func TestActions(t *testing.T) {
	b := newFixture(t)
	memory := NewMemory(10)
	expect := func(want Action, got ObjectResult) {
		t.Helper()
		if got.Action != want || got.Err != nil {
			t.Fatalf("got action %s (%v), want %s", got.Action, got.Err, want)
		}
	}

	expect(ActionCreated, b.applyObject(1, memory, config))
	written := b.writes
	expect(ActionUnchanged, b.applyObject(1, memory, config))
	if b.writes != written {
		t.Error("an unchanged object was written again")
	}

	expect(ActionUnchanged, b.applyObject(1, nil, config))
	if b.writes != written+1 {
		t.Error("without a memory the object was not written")
	}

	b.writeAs("someone", strings.ReplaceAll(config, "ours: v1", "ours: wrong, theirs: kept"))
	expect(ActionUpdated, b.applyObject(1, memory, config))
	expect(ActionUpdated, b.applyObject(1, memory, strings.ReplaceAll(config, "ours: v1", "other: v1")))
	if diff := cmp.Diff(map[string]any{"other": "v1", "theirs": "kept"}, b.readObject(config).Object["data"]); diff != "" {
		t.Errorf("a field that is no longer set stayed, or a field of another manager was removed: %s", diff)
	}

	expect(ActionRecovered, b.applyObject(2, memory, config))
	expect(ActionSuperseded, b.applyObject(1, memory, config))
	if references := b.readObject(config).GetOwnerReferences(); len(references) != 1 || references[0].Name != "app-2" {
		t.Errorf("got owner references %+v", references)
	}
}

// Another client creates the object between the read and the write.
func TestCreationRace(t *testing.T) {
	b := newFixture(t)
	theirs := strings.ReplaceAll(config, "ours: v1", "theirs: v1")
	b.before = func() { b.writeAs("someone", theirs) }
	got := b.applyObject(1, nil, config)
	if got.Action != ActionCollision || got.Err == nil || got.Err.Cause != CauseCollision {
		t.Errorf("got action %s (%v)", got.Action, got.Err)
	}

	live := b.readObject(config)
	if len(live.GetLabels()) > 0 || len(live.GetOwnerReferences()) > 0 || len(live.GetManagedFields()) != 1 {
		t.Errorf("the object of another client was changed: %+v", live)
	}
}

// A later revision takes the object over between the read and the write.
func TestTakeOverRace(t *testing.T) {
	b := newFixture(t)
	b.applyObject(1, nil, config)
	later := strings.ReplaceAll(config, "v1", "v2")
	changed := strings.ReplaceAll(config, "v1", "v1-changed")
	b.before = func() { b.applyObject(2, nil, strings.Replace(later, "apiVersion: v2", "apiVersion: v1", 1)) }
	if got := b.applyObject(1, nil, strings.Replace(changed, "apiVersion: v1-changed", "apiVersion: v1", 1)); got.Action != ActionSuperseded {
		t.Errorf("got action %s (%v)", got.Action, got.Err)
	}

	live := b.readObject(config)
	if value, _, _ := unstructured.NestedString(live.Object, "data", "ours"); value != "v2" {
		t.Errorf("the earlier revision took the object back: %s", value)
	}
}

// A later revision takes the object over between the read and the deletion.
func TestRemovalRace(t *testing.T) {
	b := newFixture(t)
	b.applyObject(1, nil, config)
	b.before = func() { b.applyObject(2, nil, config) }
	owner := b.newOwner(1)
	removal := newEngineForStore(b, nil).Remove(t.Context(), &Removal{Owner: &owner, Phases: []Phase{{Name: "only", Objects: []Object{{Manifest: b.parseManifest(config)}}}}})
	if got := removal.Phases[0].Objects[0]; got.State != RemovalLeft {
		t.Errorf("got state %s (%v)", got.State, got.Err)
	}
	if live := b.readObject(config); live.GetDeletionTimestamp() != nil {
		t.Error("the later revision's object was deleted")
	}

	// An object is deleted if its kind is not served, or if its namespace or the object
	// does not exist.
	for _, gone := range []string{
		"apiVersion: none.example.com/v1\nkind: Gadget\nmetadata: {namespace: NS, name: x}",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: no-such-namespace, name: x}",
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: no-such-namespace}",
	} {
		removal := newEngineForStore(b, nil).Remove(t.Context(), &Removal{Owner: &owner, Phases: []Phase{{Name: "only", Objects: []Object{{Manifest: b.parseManifest(gone)}}}}})
		if !removal.Done() {
			t.Errorf("%s is not reported as removed: %v", gone, removal.Err())
		}
	}
}

// An object that a watch has seen is deleted without a read. If the watch is
// outdated, the preconditions of the deletion fail, and the object is read.
func TestDeletionOfObservedObjects(t *testing.T) {
	cases := []struct {
		name string
		// outdate changes the observed state, or the object after that.
		outdate func(b *fixture, seen *ObservedObject)
		reads   int
		state   RemovalState
	}{
		{"up to date", nil, 0, RemovalGone},
		{"with a finalizer", func(_ *fixture, seen *ObservedObject) { seen.HasFinalizers = true }, 1, RemovalGone},
		{"changed later", func(b *fixture, _ *ObservedObject) {
			b.writeAs("person", strings.Replace(config, "ours: v1", "theirs: v1", 1))
		}, 1, RemovalGone},
		{"taken over later", func(b *fixture, _ *ObservedObject) { b.applyObject(2, nil, config) }, 1, RemovalLeft},
		{"another's", func(_ *fixture, seen *ObservedObject) { seen.Controller = "other" }, 1, RemovalGone},
		{"it was being deleted", func(_ *fixture, seen *ObservedObject) { seen.Deleting = true }, 1, RemovalGone},
		{"another object with this name", func(_ *fixture, seen *ObservedObject) { seen.UID = "other" }, 1, RemovalGone},
	}

	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			b := newFixture(t)
			b.applyObject(1, nil, config)
			live := b.readObject(config)
			seen := ObservedObject{UID: live.GetUID(), Version: live.GetResourceVersion(), Controller: metav1.GetControllerOf(live).UID}
			if test.outdate != nil {
				test.outdate(b, &seen)
			}

			b.reads = 0
			owner := b.newOwner(1)
			removal := newEngineForStore(b, nil).Remove(t.Context(), &Removal{
				Owner: &owner, Phases: []Phase{{Name: "only", Objects: []Object{{Manifest: b.parseManifest(config)}}}},
				LastSeen: func(schema.GroupVersionResource, string, string) (ObservedObject, bool) { return seen, true },
			})
			if got := removal.Phases[0].Objects[0]; got.State != test.state || b.reads != test.reads {
				t.Errorf("got state %s (%v) after %d reads, want %s after %d", got.State, got.Err, b.reads, test.state, test.reads)
			}
		})
	}
}

// The API server has created the storage of the instances before their CRD is deleted.
func TestDeletedCRDHasInstanceStorage(t *testing.T) {
	b := newFixture(t)
	manifest := strings.ReplaceAll(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: cups.NS.example.com}
spec:
  group: NS.example.com
  scope: Namespaced
  names: {kind: Cup, plural: cups}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`, "NS", b.ns)

	b.applyObject(1, nil, manifest)
	b.before = func() {
		if b.samples != 1 {
			t.Errorf("got %d lists of the instances before the deletion, want 1", b.samples)
		}
	}
	owner, engine, now := b.newOwner(1), newEngineForStore(b, nil), time.Now()
	engine.phases.(*phaseEngine).objects.(*objectEngine).now = func() time.Time { return now }
	removal := engine.Remove(t.Context(), &Removal{Owner: &owner, Phases: []Phase{{Name: "crds", Objects: []Object{{Manifest: b.parseManifest(manifest)}}}}})
	if removal.Err() != nil || b.before != nil {
		t.Errorf("the CRD is not deleted: %v", removal.Err())
	}
	if b.samples != 1 {
		t.Errorf("got %d lists of the instances of a CRD whose deletion has just started, want 1", b.samples)
	}
}

// An object that another client changes continuously fails this pass.
func TestContention(t *testing.T) {
	b := newFixture(t)
	b.applyObject(1, nil, config)
	b.refuse = func(u *unstructured.Unstructured) error {
		return apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, u.GetName(), errors.New("the object has been modified"))
	}
	before := b.writes
	if got := b.applyObject(1, nil, config); got.Err == nil || got.Err.Cause != CauseContended || b.writes-before != maxApplyAttempts {
		t.Errorf("got result %v after %d writes", got.Err, b.writes-before)
	}
}

// OwnerReferencesPermissionEnforcement refuses blockOwnerDeletion to an account that
// may not update the revision's finalizers.
func TestWithoutTheRightToBlockDeletion(t *testing.T) {
	b := newFixture(t)
	b.refuse = func(u *unstructured.Unstructured) error {
		if block := u.GetOwnerReferences()[0].BlockOwnerDeletion; block != nil && *block {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, u.GetName(),
				errors.New("cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on"))
		}
		return nil
	}
	if got := b.applyObject(1, nil, config); got.Action != ActionCreated {
		t.Errorf("got action %s (%v)", got.Action, got.Err)
	}
	if owner := metav1.GetControllerOf(b.readObject(config)); owner == nil || owner.Name != "app-1" {
		t.Errorf("got the controller %+v", owner)
	}
}

func TestManifestsAreCleaned(t *testing.T) {
	b := newFixture(t)
	got := b.applyObject(1, nil, `
apiVersion: v1
kind: Secret
metadata:
  namespace: NS
  name: secret
  uid: someone
  resourceVersion: "12"
  generation: 4
  creationTimestamp: null
  ownerReferences: [{apiVersion: v1, kind: Pod, name: p, uid: u}]
  managedFields: [{manager: x, operation: Update}]
  labels: {app: mine}
  annotations: {note: mine}
data: {plain: eA==}
stringData: {text: hi}
status: {anything: true}
`)
	if got.Action != ActionCreated {
		t.Fatalf("got action %s (%v)", got.Action, got.Err)
	}

	live := b.readObject("apiVersion: v1\nkind: Secret\nmetadata: {namespace: NS, name: secret}")
	if diff := cmp.Diff(map[string]any{"plain": "eA==", "text": "aGk="}, live.Object["data"]); diff != "" {
		t.Error(diff)
	}

	wantLabels := map[string]string{"app": "mine", olmv1.LabelOwnerKind: extension, olmv1.LabelOwnerName: "app"}
	if diff := cmp.Diff(wantLabels, live.GetLabels()); diff != "" {
		t.Error(diff)
	}
	if len(live.GetOwnerReferences()) != 1 || live.GetAnnotations()["note"] != "mine" {
		t.Errorf("got the metadata %+v", live.Object["metadata"])
	}
	// A namespaced object without a namespace is rejected. A superfluous namespace is dropped.
	if got := b.applyObject(1, nil, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}"); got.Err == nil || got.Err.Error() != `ConfigMap "x": the manifest names no namespace` {
		t.Errorf("got result %v", got.Err)
	}

	role := "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {namespace: NS, name: role-NS}"
	if got := b.applyObject(1, nil, role); got.Action != ActionCreated || got.Object.Namespace != "" {
		t.Errorf("got action %s (%v)", got.Action, got.Err)
	}
}

func TestRefusedManifests(t *testing.T) {
	b := newFixture(t)
	cases := []struct {
		name, manifest string
		cause          Cause
		text           string
	}{
		{"unknown kind", "apiVersion: none.example.com/v1\nkind: Gadget\nmetadata: {namespace: NS, name: x}", CauseKindMissing,
			`Gadget "NS/x": the API server does not serve the kind Gadget.none.example.com: install what defines it`},
		{"missing namespace", "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: no-such-namespace, name: x}", CauseNamespaceMissing,
			`ConfigMap "no-such-namespace/x": namespaces "no-such-namespace" not found: create the namespace "no-such-namespace"`},
		{"invalid", "apiVersion: v1\nkind: Service\nmetadata: {namespace: NS, name: x}\nspec: {ports: [{port: 0, targetPort: 1}]}", CauseInvalid,
			`Service "NS/x": Service "x" is invalid: spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive: the manifest must be corrected`},
		{"duplicate keys", "apiVersion: v1\nkind: Pod\nmetadata: {namespace: NS, name: x}\nspec: {containers: [{name: a, image: b, env: [{name: E, value: '1'}, {name: E, value: '2'}]}]}", CauseInvalid,
			`Pod "NS/x": failed to create typed patch object (NS/x; /v1, Kind=Pod): .spec.containers[name="a"].env: duplicate entries for key [name="E"]: the manifest must be corrected`},
	}

	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			got := b.applyObject(1, nil, test.manifest)
			if got.Err == nil || got.Err.Cause != test.cause || got.Err.Error() != strings.ReplaceAll(test.text, "NS", b.ns) {
				t.Errorf("got result %v", got.Err)
			}
		})
	}
}
