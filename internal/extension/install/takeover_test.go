package install_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/extension/rollout"
	"github.com/mainstay-dev/mainstay/internal/render"
	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
	"github.com/mainstay-dev/mainstay/internal/testing/mortal"
)

// predecessor is an extension that another implementation has installed.
type predecessor struct {
	*fixture
	ext *olmv1.ClusterExtension
	// objects are the objects on the cluster, as the bundle states them.
	objects []unstructured.Unstructured
	// uids are the UIDs of the objects and of the extension.
	uids map[string]types.UID
}

// manager is the field manager that another implementation writes objects with, and its operation.
type manager struct {
	name   string
	update bool
}

// reportedConditions are the conditions of an installed extension of another implementation.
var reportedConditions = map[string]metav1.ConditionStatus{
	olmv1.TypeInstalled: metav1.ConditionTrue, olmv1.TypeProgressing: metav1.ConditionTrue, olmv1.TypeAvailable: metav1.ConditionTrue,
	olmv1.TypeDeprecated: metav1.ConditionFalse, olmv1.TypePackageDeprecated: metav1.ConditionFalse,
	olmv1.TypeChannelDeprecated: metav1.ConditionFalse, olmv1.TypeBundleDeprecated: metav1.ConditionFalse,
}

// newPredecessor creates the extension, with the status of an installed one.
func newPredecessor(t *testing.T, name string) *predecessor {
	w := newFixtureWithoutController(t)
	w.Client = env.Client(t, olmv1.AddToScheme, corev1.AddToScheme, appsv1.AddToScheme, apiextensionsv1.AddToScheme)
	p := &predecessor{fixture: w, uids: map[string]types.UID{}}
	w.createNamespace(name)
	w.createCatalog(name, "1.0.0")
	p.ext = newExtension(name, name)
	p.ext.Finalizers = []string{olmv1.FinalizerCleanupUnpackCache, olmv1.FinalizerCleanupContentManagerCache}
	if err := w.Create(t.Context(), p.ext); err != nil {
		t.Fatal(err)
	}

	before := p.ext.DeepCopy()
	past := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	p.ext.Status.Install = &olmv1.ClusterExtensionInstallStatus{Bundle: olmv1.BundleMetadata{Name: "hello-operator.v1.0.0", Version: "1.0.0"}}
	for conditionType, status := range reportedConditions {
		p.ext.Status.Conditions = append(p.ext.Status.Conditions, metav1.Condition{
			Type: conditionType, Status: status, Reason: olmv1.ReasonSucceeded, ObservedGeneration: p.ext.Generation, LastTransitionTime: past,
		})
	}
	if err := w.Client.Status().Patch(t.Context(), p.ext, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	p.uids["extension"] = p.ext.UID
	p.renderObjects()
	return p
}

// renderObjects renders the bundle, with a variable that the next version does not have.
func (p *predecessor) renderObjects() {
	p.T.Helper()
	root, err := checkout.Root()
	if err != nil {
		p.T.Fatal(err)
	}
	b, err := bundle.Load(os.DirFS(filepath.Join(root, "examples", "bundles", "hello-operator", "1.0.0")))
	if err != nil {
		p.T.Fatal(err)
	}
	if p.objects, err = render.Render(b, render.Options{InstallNamespace: p.ext.Name}); err != nil {
		p.T.Fatal(err)
	}

	labels := map[string]string{olmv1.LabelOwnerKind: olmv1.ClusterExtensionKind, olmv1.LabelOwnerName: p.ext.Name}
	for i := range p.objects {
		u := &p.objects[i]
		for key, value := range u.GetLabels() {
			labels[key] = value
		}
		u.SetLabels(labels)
		if u.GetKind() != "Deployment" {
			continue
		}
		containers, _, _ := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
		container := containers[0].(map[string]any)
		variables, _ := container["env"].([]any)
		container["env"] = append(variables, map[string]any{"name": "DROPPED", "value": "true"})
		if err := unstructured.SetNestedSlice(u.Object, containers, "spec", "template", "spec", "containers"); err != nil {
			p.T.Fatal(err)
		}
	}
}

// createObjects creates the objects with a controller reference, as a manager.
func (p *predecessor) createObjects(controller metav1.OwnerReference, by manager) {
	p.T.Helper()
	controller.Controller, controller.BlockOwnerDeletion = ptr.To(true), ptr.To(true)
	for i := range p.objects {
		u := p.objects[i].DeepCopy()
		u.SetOwnerReferences([]metav1.OwnerReference{controller})
		var err error
		if by.update {
			err = p.Create(p.T.Context(), u, client.FieldOwner(by.name))
		} else {
			err = p.Apply(p.T.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(by.name), client.ForceOwnership)
		}
		if err != nil {
			p.T.Fatal(err)
		}
		p.uids[describeObject(u)] = u.GetUID()
	}
	p.markAvailable(p.T.Context())
}

func describeObject(u *unstructured.Unstructured) string { return u.GetKind() + "/" + u.GetName() }

// markAvailable reports that the pods of all Deployments run. It ignores errors, because it is repeated.
func (p *predecessor) markAvailable(ctx context.Context) {
	_ = p.MakeDeploymentsAvailable(ctx, client.InNamespace(p.ext.Name))
}

// runFor runs the controllers with a connection that fails after a number of writes, until that or until
// done returns true.
func (p *predecessor) runFor(writes int64, done func() bool) {
	p.T.Helper()
	process := mortal.Start(p.T.Context(), env.Start(p.T), writes, func(ctx context.Context, connection *rest.Config) {
		mgr, err := env.NewManager(connection, ctrl.Options{Scheme: p.Scheme(), GracefulShutdownTimeout: ptr.To(time.Minute)}, func(mgr ctrl.Manager) error {
			return errors.Join(p.newController(mgr).SetupWithManager(mgr), rollout.Setup(mgr, rollout.Options{SystemNamespace: "default"}))
		})
		if err == nil {
			err = mgr.Start(ctx)
		}
		if err != nil && ctx.Err() == nil {
			p.T.Error(err)
		}
	})
	defer process.Kill()
	p.Eventually("the program is done or killed", func() error {
		p.markAvailable(p.T.Context())
		if process.IsDead() || done() {
			return nil
		}
		return errors.New("it runs")
	})
}

// isControlledByRevision reports whether a ClusterObjectSet controls all objects, and no other
// implementation owns a field of them.
func (p *predecessor) isControlledByRevision() bool {
	for i := range p.objects {
		live := p.objects[i].DeepCopy()
		if p.Get(p.T.Context(), client.ObjectKeyFromObject(live), live) != nil {
			return false
		}
		controller := metav1.GetControllerOf(live)
		foreign := slices.ContainsFunc(live.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
			return e.Manager == "operator-controller" || e.Manager == "olm.operatorframework.io"
		})
		if controller == nil || controller.Kind != olmv1.ClusterObjectSetKind || foreign {
			return false
		}
	}
	return true
}

// expectUnchanged checks that no object was replaced or changed.
func (p *predecessor) expectUnchanged() {
	p.T.Helper()
	for i := range p.objects {
		live := p.objects[i].DeepCopy()
		if err := p.Get(p.T.Context(), client.ObjectKeyFromObject(live), live); err != nil {
			p.T.Fatal(err)
		}
		if got, want := live.GetUID(), p.uids[describeObject(live)]; got != want {
			p.T.Errorf("%s: got UID %s, want %s", describeObject(live), got, want)
		}
		if live.GetGeneration() > 1 {
			p.T.Errorf("%s: got generation %d, want 1: its spec was changed", describeObject(live), live.GetGeneration())
		}
	}
}

// watchInstalled checks each status of the extension until stop is called. The test fails if it ever reports another
// version than the installed one, or a transition of its conditions.
func (p *predecessor) watchInstalled() (stop func()) {
	p.T.Helper()
	want := meta.FindStatusCondition(p.ext.Status.Conditions, olmv1.TypeInstalled).LastTransitionTime
	return env.CheckStates(p.Fixture, p.ext, func(ext *olmv1.ClusterExtension) error {
		if ext.Status.Install == nil || ext.Status.Install.Bundle.Version != "1.0.0" {
			return fmt.Errorf("got the installed bundle %+v, want 1.0.0", ext.Status.Install)
		}
		for conditionType, status := range reportedConditions {
			c := meta.FindStatusCondition(ext.Status.Conditions, conditionType)
			if c == nil || c.Status != status || !c.LastTransitionTime.Equal(&want) {
				return fmt.Errorf("got the condition %s %+v, want it %s since %s", conditionType, c, status, want)
			}
		}
		return nil
	})
}

// listBundles returns the versions of the bundles of the revisions, as name=version.
func (p *predecessor) listBundles() []string {
	p.T.Helper()
	var sets olmv1.ClusterObjectSetList
	if err := p.List(p.T.Context(), &sets, client.MatchingLabels{olmv1.LabelOwnerName: p.ext.Name}); err != nil {
		p.T.Fatal(err)
	}
	var names []string
	for i := range sets.Items {
		names = append(names, sets.Items[i].Name+"="+sets.Items[i].Annotations[olmv1.AnnotationBundleVersion])
	}
	slices.Sort(names)
	return names
}

// takeOver takes the installation over with programs that are killed after one more write each. Then the
// extension is updated, and deleted.
func (p *predecessor) takeOver(revision int, during func()) {
	p.T.Helper()
	stop := p.watchInstalled()
	for writes := int64(1); writes <= 4; writes++ {
		p.runFor(writes, p.isControlledByRevision)
		during()
	}
	p.runFor(1<<20, func() bool { return p.isControlledByRevision() && p.isSettled(revision) })
	stop()
	p.expectUnchanged()
	first := fmt.Sprintf("%s-%d=1.0.0", p.ext.Name, revision)
	if got := p.listBundles(); !slices.Equal(got, []string{first}) {
		p.T.Fatalf("got the revisions %q, want only %s", got, first)
	}

	// The next version is the first real change.
	p.setCatalogVersions(p.getCatalog(p.ext.Name), "1.0.0", "1.1.0")
	p.runFor(1<<20, func() bool {
		ext := p.getExtension(p.ext.Name)
		return ext.Status.Install != nil && ext.Status.Install.Bundle.Version == "1.1.0" && len(ext.Status.ActiveRevisions) == 1
	})
	second := fmt.Sprintf("%s-%d=1.1.0", p.ext.Name, revision+1)
	if got := p.listBundles(); !slices.Equal(got, []string{first, second}) {
		p.T.Errorf("got the revisions %q, want %s and %s", got, first, second)
	}
	d := &appsv1.Deployment{}
	if err := p.Get(p.T.Context(), client.ObjectKey{Namespace: p.ext.Name, Name: "hello-operator"}, d); err != nil {
		p.T.Fatal(err)
	}
	for _, variable := range d.Spec.Template.Spec.Containers[0].Env {
		if variable.Name == "DROPPED" {
			p.T.Error("got the variable DROPPED, which the new version does not have")
		}
	}
	p.removeExtension()
}

// removeExtension deletes the extension and waits until its objects are deleted.
func (p *predecessor) removeExtension() {
	p.T.Helper()
	p.delete(p.getExtension(p.ext.Name))
	p.runFor(1<<20, func() bool {
		return apierrors.IsNotFound(p.Get(p.T.Context(), client.ObjectKeyFromObject(p.ext), &olmv1.ClusterExtension{}))
	})
	err := p.Get(p.T.Context(), client.ObjectKey{Namespace: p.ext.Name, Name: "hello-operator"}, &appsv1.Deployment{})
	if !apierrors.IsNotFound(err) {
		p.T.Errorf("got %v for the Deployment of a deleted extension, want NotFound", err)
	}
}

// isSettled reports whether the revision is reported as rolled out and nothing else waits.
func (p *predecessor) isSettled(revision int) bool {
	set := &olmv1.ClusterObjectSet{}
	if p.Get(p.T.Context(), client.ObjectKey{Name: fmt.Sprintf("%s-%d", p.ext.Name, revision)}, set) != nil {
		return false
	}
	progressing := meta.FindStatusCondition(set.Status.Conditions, olmv1.TypeProgressing)
	ext := p.getExtension(p.ext.Name)
	return set.Annotations["mainstay.dev/taken-over"] == "" && progressing != nil && progressing.Reason == olmv1.ReasonSucceeded &&
		meta.IsStatusConditionTrue(ext.Status.Conditions, olmv1.TypeAvailable) && len(ext.Status.ActiveRevisions) == 1
}

// extensionReference returns an owner reference to the extension.
func (p *predecessor) extensionReference() metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: olmv1.GroupVersion.String(), Kind: olmv1.ClusterExtensionKind, Name: p.ext.Name, UID: p.ext.UID, Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true)}
}

// encodeRelease encodes a Helm release of a status, compressed with gzip.
func (p *predecessor) encodeRelease(number int, status string, objects []unstructured.Unstructured) []byte {
	p.T.Helper()
	var manifest strings.Builder
	for i := range objects {
		line, err := json.Marshal(objects[i].Object)
		if err != nil {
			p.T.Fatal(err)
		}
		manifest.Write(append(line, '\n'))
	}
	data, err := json.Marshal(map[string]any{
		"name": p.ext.Name, "version": number, "manifest": manifest.String(), "info": map[string]any{"status": status},
		"labels": map[string]string{
			olmv1.AnnotationBundleName: "hello-operator.v1.0.0", olmv1.AnnotationBundleVersion: "1.0.0",
			olmv1.AnnotationPackageName: "hello-operator", olmv1.AnnotationBundleReference: "quay.io/example/hello:1.0.0" + digest,
		},
	})
	if err != nil {
		p.T.Fatal(err)
	}
	var compressed bytes.Buffer
	w := gzip.NewWriter(&compressed)
	if _, err := w.Write(data); err != nil {
		p.T.Fatal(err)
	}
	if err := w.Close(); err != nil {
		p.T.Fatal(err)
	}
	return compressed.Bytes()
}

// createChunkedRelease stores a release in several Secrets, as the other implementation does.
func (p *predecessor) createChunkedRelease(number int, status string, objects []unstructured.Unstructured) {
	p.T.Helper()
	name := fmt.Sprintf("sh.helm.release.v1.%s.v%d", p.ext.Name, number)
	data := p.encodeRelease(number, status, objects)
	third := len(data)/3 + 1
	chunks := slices.Collect(slices.Chunk(data, third))
	var extra []string
	for i := range chunks[1:] {
		extra = append(extra, fmt.Sprintf("%s-%d", name, i))
	}
	list, err := json.Marshal(extra)
	if err != nil {
		p.T.Fatal(err)
	}

	index := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, OwnerReferences: []metav1.OwnerReference{p.extensionReference()},
			Labels: map[string]string{"name": p.ext.Name, "owner": "operator-controller", "status": status, "version": strconv.Itoa(number), "type": "index"},
		},
		Type: "operatorframework.io/index.v1", Immutable: ptr.To(false), Data: map[string][]byte{"chunk": chunks[0], "extraChunks": list},
	}
	p.CreateForTest(index)
	for i, chunk := range chunks[1:] {
		p.CreateForTest(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: extra[i], Labels: map[string]string{"owner": "operator-controller", "type": "chunk"}},
			Type:       "operatorframework.io/chunk.v1", Immutable: ptr.To(true), Data: map[string][]byte{"chunk": chunk},
		})
	}
}

// TestTakeOverHelm takes over a Helm release in several Secrets. A newer release has failed.
func TestTakeOverHelm(t *testing.T) {
	p := newPredecessor(t, "helmed")
	p.createObjects(p.extensionReference(), manager{"operator-controller", true})
	p.createChunkedRelease(1, "superseded", nil)
	p.createChunkedRelease(2, "deployed", p.objects)
	p.createChunkedRelease(3, "failed", p.objects[:1])
	p.takeOver(1, func() {})
}

// TestTakeOverPlainHelm takes over a release as Helm itself stores it.
func TestTakeOverPlainHelm(t *testing.T) {
	p := newPredecessor(t, "plain")
	p.createPlainRelease()
	p.takeOver(1, func() {})
}

// TestTakeOverWithoutCatalog takes over a release while no catalog is served. The objects stay, and the
// extension reports what is installed.
func TestTakeOverWithoutCatalog(t *testing.T) {
	p := newPredecessor(t, "adrift")
	p.setServingCondition(p.getCatalog(p.ext.Name), metav1.ConditionFalse, olmv1.ReasonUnavailable)
	p.createPlainRelease()

	stop := p.watchInstalled()
	p.runFor(1<<20, p.isControlledByRevision)
	stop()
	p.expectUnchanged()
	if got := p.listBundles(); !slices.Equal(got, []string{"adrift-1=1.0.0"}) {
		t.Errorf("got the revisions %q, want only adrift-1", got)
	}

	p.removeExtension() // Tests of other predecessors create ClusterRoles of the same names.
}

// createPlainRelease creates the objects, and the release as Helm itself stores it.
func (p *predecessor) createPlainRelease() {
	p.T.Helper()
	p.createObjects(p.extensionReference(), manager{"operator-controller", true})
	p.CreateForTest(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "sh.helm.release.v1." + p.ext.Name + ".v1",
			Labels: map[string]string{"name": p.ext.Name, "owner": "helm", "status": "deployed", "version": "1"},
		},
		Type: "helm.sh/release.v1", Data: map[string][]byte{"release": []byte(base64.StdEncoding.EncodeToString(p.encodeRelease(1, "deployed", p.objects)))},
	})
}

// TestTakeOverRevision continues with a ClusterObjectSet that another implementation has created.
func TestTakeOverRevision(t *testing.T) {
	p := newPredecessor(t, "revised")
	set := p.newRevision(olmv1.CollisionProtectionPrevent)
	if err := p.Create(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	p.markSucceeded(set)
	p.createObjects(metav1.OwnerReference{APIVersion: olmv1.GroupVersion.String(), Kind: olmv1.ClusterObjectSetKind, Name: set.Name, UID: set.UID}, manager{"olm.operatorframework.io", false})
	p.takeOver(1, func() {})
}

// TestTakeOverFormerRevision takes over a ClusterExtensionRevision, the kind before ClusterObjectSet.
func TestTakeOverFormerRevision(t *testing.T) {
	p := newPredecessor(t, "former")
	p.createFormerKind()
	archived := p.createFormerRevision(1, "Archived", false)
	active := p.createFormerRevision(2, "Active", true)
	p.createObjects(metav1.OwnerReference{APIVersion: olmv1.GroupVersion.String(), Kind: active.GetKind(), Name: active.GetName(), UID: active.GetUID()}, manager{"olm.operatorframework.io", false})

	p.takeOver(2, func() { p.expectObjectsBeforeRelease(active) })
	for _, set := range []*unstructured.Unstructured{archived, active} {
		err := p.Get(t.Context(), client.ObjectKeyFromObject(set), set)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil || set.GetDeletionTimestamp() == nil || !slices.Equal(set.GetFinalizers(), []string{metav1.FinalizerOrphanDependents}) {
			t.Errorf("%s: got %v, the deletion %v and the finalizers %v, want it deleted as an orphan", set.GetName(), err, set.GetDeletionTimestamp(), set.GetFinalizers())
		}
	}
}

// expectObjectsBeforeRelease checks that a former revision stays while it controls an object.
func (p *predecessor) expectObjectsBeforeRelease(former *unstructured.Unstructured) {
	p.T.Helper()
	if p.isControlledByRevision() {
		return
	}
	if err := p.Get(p.T.Context(), client.ObjectKeyFromObject(former), former); err != nil || former.GetDeletionTimestamp() != nil {
		p.T.Errorf("%s is deleted before its objects are taken over: %v", former.GetName(), err)
	}
}

// createFormerKind creates the CRD of ClusterExtensionRevision.
func (p *predecessor) createFormerKind() {
	p.T.Helper()
	free := apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)}
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "clusterextensionrevisions.olm.operatorframework.io"}}
	crd.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
		Group: olmv1.GroupVersion.Group, Scope: apiextensionsv1.ClusterScoped,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "clusterextensionrevisions", Singular: "clusterextensionrevision", Kind: "ClusterExtensionRevision", ListKind: "ClusterExtensionRevisionList"},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
			Name: "v1", Served: true, Storage: true, Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": free, "status": free},
			}},
		}},
	}
	p.CreateForTest(crd)
	p.Eventually("the kind is served", func() error {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(olmv1.GroupVersion.WithKind("ClusterExtensionRevisionList"))
		return p.List(p.T.Context(), list)
	})
}

// createFormerRevision creates a ClusterExtensionRevision with the objects.
func (p *predecessor) createFormerRevision(number int64, state string, succeeded bool) *unstructured.Unstructured {
	p.T.Helper()
	var objects []any
	for i := range p.objects {
		objects = append(objects, map[string]any{"object": p.objects[i].DeepCopy().Object, "collisionProtection": "Prevent"})
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"revision": number, "lifecycleState": state, "phases": []any{map[string]any{"name": "everything", "objects": objects}},
	}}}
	u.SetGroupVersionKind(olmv1.GroupVersion.WithKind("ClusterExtensionRevision"))
	u.SetName(fmt.Sprintf("%s-%d", p.ext.Name, number))
	u.SetLabels(map[string]string{olmv1.LabelOwnerKind: olmv1.ClusterExtensionKind, olmv1.LabelOwnerName: p.ext.Name})
	u.SetAnnotations(map[string]string{
		olmv1.AnnotationBundleName: "hello-operator.v1.0.0", olmv1.AnnotationBundleVersion: "1.0.0",
		olmv1.AnnotationPackageName: "hello-operator", olmv1.AnnotationBundleReference: "quay.io/example/hello:1.0.0" + digest,
	})
	u.SetFinalizers([]string{olmv1.FinalizerTeardown})
	u.SetOwnerReferences([]metav1.OwnerReference{p.extensionReference()})
	if err := p.Create(p.T.Context(), u); err != nil {
		p.T.Fatal(err)
	}
	p.T.Cleanup(func() {
		_ = p.Patch(context.Background(), u, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
		_ = client.IgnoreNotFound(p.Delete(context.Background(), u))
	})
	if !succeeded {
		return u
	}

	u.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": olmv1.TypeSucceeded, "status": "True", "reason": "Succeeded", "message": ""}}}
	if err := p.Client.Status().Update(p.T.Context(), u); err != nil {
		p.T.Fatal(err)
	}
	return u
}
