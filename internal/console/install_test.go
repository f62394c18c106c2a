package console_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/console"
)

// systemNamespace is the namespace in which operator-controller writes plans.
const systemNamespace = "olmv1-system"

// writePlans writes a plan for each extension that requests one, as operator-controller does.
func (f *fixture) writePlans(plan func(*olmv1.ClusterExtension) map[string]any) {
	f.T.Helper()
	f.EnsureNamespace(systemNamespace)
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.T.Context()))
	done := make(chan struct{})
	f.T.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			var list olmv1.ClusterExtensionList
			if err := f.List(ctx, &list); err == nil {
				for i := range list.Items {
					if list.Items[i].Annotations[olmv1.AnnotationPlan] != "" && strings.HasPrefix(list.Items[i].Name, f.namespace) {
						f.writePlan(ctx, &list.Items[i], plan(&list.Items[i]))
					}
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
}

// writePlan writes a plan. An extension may change or disappear meanwhile, which the next pass detects.
func (f *fixture) writePlan(ctx context.Context, extension *olmv1.ClusterExtension, fields map[string]any) {
	data, err := json.Marshal(fields)
	if err != nil {
		f.T.Error(err)
		return
	}
	written := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: olmv1.PlanName(extension.Name)}}
	_, _ = controllerutil.CreateOrUpdate(ctx, f.Client, written, func() error {
		written.OwnerReferences = nil
		written.Annotations = map[string]string{olmv1.AnnotationPlanFor: strconv.FormatInt(extension.Generation, 10) + " " + extension.Annotations[olmv1.AnnotationPlan]}
		written.Data = map[string]string{olmv1.PlanText: "a plan", olmv1.PlanJSON: string(data)}
		return controllerutil.SetControllerReference(extension, written, f.Scheme())
	})
}

// installerRules are the rights that a user needs to install, change and remove extensions.
var installerRules = []rbacv1.PolicyRule{
	{APIGroups: []string{"olm.operatorframework.io"}, Resources: []string{"clusterextensions", "clusterobjectsets", "clustercatalogs"}, Verbs: []string{"get", "list", "watch", "create", "patch", "delete"}},
	{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get", "list", "create", "delete"}},
	{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}},
	{APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, Verbs: []string{"list"}},
}

func (f *fixture) extensionExists(name string) bool {
	f.T.Helper()
	err := f.Get(f.T.Context(), client.ObjectKey{Name: name}, &olmv1.ClusterExtension{})
	if err != nil && !apierrors.IsNotFound(err) {
		f.T.Fatal(err)
	}
	return err == nil
}

// An installation is planned first, is refused with the messages of the command line, and uses the rights of the user.
func TestInstallExtension(t *testing.T) {
	f := newFixture(t, nil)
	name := f.namespace + "-kettle"
	problems := []map[string]string{{"check": "place", "message": "namespace " + strconv.Quote(name) + " does not exist: create it"}}
	f.writePlans(func(e *olmv1.ClusterExtension) map[string]any {
		found := problems
		if e.Spec.Source.Catalog.Version == "9" {
			found = []map[string]string{{"check": "choice", "message": "no bundle matches version 9"}}
		}
		return map[string]any{"action": "install", "bundle": map[string]any{"name": "kettle.v1.0.0", "version": "1.0.0"}, "images": []string{"example.com/kettle:1"}, "problems": found}
	})
	request := console.ExtensionRequest{Package: "kettle", Name: name, Namespace: name, CreateNamespace: true, Config: map[string]any{"watchNamespace": "teas"}}

	reader := f.signIn(f.newUser("reader", "", rbacv1.PolicyRule{APIGroups: []string{"olm.operatorframework.io"}, Resources: []string{"*"}, Verbs: []string{"get", "list"}}, installerRules[1]))
	for _, path := range []string{"/api/v1/extension-previews", "/api/v1/extensions"} {
		if got := reader.send(reader.newRequest(http.MethodPost, path, request)); got.Code != http.StatusForbidden {
			t.Errorf("%s of a user who may not create extensions: got %d %s, want 403", path, got.Code, got.Body)
		}
	}

	installer := f.signIn(f.newUser("installer", "", installerRules...))
	var preview console.ExtensionPreview
	installer.do(http.MethodPost, "/api/v1/extension-previews", request, &preview)
	if preview.Refusal != nil || preview.Plan == nil || preview.Plan.Bundle.Version != "1.0.0" || len(preview.Plan.Images) != 1 {
		t.Errorf("got %+v, want the plan and no refusal, because the namespace is created", preview)
	}
	if len(preview.Objects) != 2 || preview.Objects[0].Kind != "Namespace" || !strings.Contains(preview.Objects[1].YAML, "watchNamespace: teas") {
		t.Errorf("got the objects %+v, want the namespace and the extension with its configuration", preview.Objects)
	}
	if f.extensionExists(name) {
		t.Error("the preview created the extension")
	}

	written := request
	written.Object = map[string]any{
		"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
		"metadata": map[string]any{"name": "other", "labels": map[string]any{"team": "teas"}},
		"spec": map[string]any{
			"progressDeadlineMinutes": 30, "serviceAccount": map[string]any{"name": "steward"},
			"source": map[string]any{"catalog": map[string]any{"packageName": "other", "upgradeConstraintPolicy": "SelfCertified"}},
		},
	}
	installer.do(http.MethodPost, "/api/v1/extension-previews", written, &preview)
	text := preview.Objects[len(preview.Objects)-1].YAML
	for _, want := range []string{"name: " + name, "team: teas", "progressDeadlineMinutes: 30", "name: steward", "packageName: kettle", "upgradeConstraintPolicy: SelfCertified", "watchNamespace: teas"} {
		if !strings.Contains(text, want) {
			t.Errorf("got %s, want %q: the fields of the request, and the others of the object", text, want)
		}
	}
	for what, test := range map[string]struct {
		object map[string]any
		want   string
	}{
		"an unknown field": {map[string]any{"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "spec": map[string]any{"nameSpace": "teas"}}, `unknown field \"spec.nameSpace\"`},
		"another kind":     {map[string]any{"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog"}, "must be a ClusterExtension of olm.operatorframework.io/v1"},
		"another version":  {map[string]any{"apiVersion": "olm.operatorframework.io/v2", "kind": "ClusterExtension"}, "must be a ClusterExtension of olm.operatorframework.io/v1"},
		"no kind":          {map[string]any{"spec": map[string]any{}}, "must be a ClusterExtension of olm.operatorframework.io/v1"},
	} {
		written.Object = test.object
		got := installer.send(installer.newRequest(http.MethodPost, "/api/v1/extension-previews", written))
		if got.Code != http.StatusUnprocessableEntity || !strings.Contains(got.Body.String(), test.want) {
			t.Errorf("an object with %s: got %d %s, want 422 with %s", what, got.Code, got.Body, test.want)
		}
	}

	wrong := request
	wrong.Version = "9"
	installer.do(http.MethodPost, "/api/v1/extension-previews", wrong, &preview)
	if preview.Refusal == nil || !strings.Contains(preview.Refusal.Detail, "no bundle matches version 9") {
		t.Errorf("got the refusal %+v, want that of the plan", preview.Refusal)
	}
	if got := installer.send(installer.newRequest(http.MethodPost, "/api/v1/extensions", wrong)); got.Code != http.StatusUnprocessableEntity || !strings.Contains(got.Body.String(), "no bundle matches version 9") {
		t.Errorf("got %d %s, want the same refusal", got.Code, got.Body)
	}
	if f.extensionExists(name) {
		t.Error("the refused installation created the extension")
	}

	installer.do(http.MethodPost, "/api/v1/extensions", request, nil)
	extension := &olmv1.ClusterExtension{}
	f.Must(f.Get(t.Context(), client.ObjectKey{Name: name}, extension))
	if extension.Annotations[olmv1.AnnotationPlan] != "" {
		t.Errorf("got the annotations %v, want that the installation has started", extension.Annotations)
	}
	f.Must(f.Get(t.Context(), client.ObjectKey{Name: name}, &corev1.Namespace{}))
	if got := installer.send(installer.newRequest(http.MethodPost, "/api/v1/extension-previews", request)); got.Code != http.StatusConflict || !strings.Contains(got.Body.String(), "exists already") {
		t.Errorf("the second installation: got %d %s, want 409", got.Code, got.Body)
	}
}

// A change is planned, needs the generation that the user saw, and writes only the changed fields.
func TestChangeExtension(t *testing.T) {
	f := newFixture(t, nil)
	name := f.namespace + "-kettle"
	extension := &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: name}}
	extension.Spec = olmv1.ClusterExtensionSpec{
		Namespace: f.namespace, Source: olmv1.SourceConfig{SourceType: olmv1.ExtensionSourceTypeCatalog, Catalog: &olmv1.CatalogFilter{PackageName: "kettle", Channels: []string{"stable"}}},
	}
	f.CreateAll(extension)
	f.writePlans(func(*olmv1.ClusterExtension) map[string]any {
		return map[string]any{"action": "update", "objects": map[string]any{"changed": 1, "changes": []map[string]string{{"change": "changed", "kind": "Deployment", "name": "kettle", "diff": "+image"}}}}
	})

	b := f.signIn(f.newUser("installer", "", installerRules...))
	version := "2.0.0"
	change := console.ExtensionChange{Generation: extension.Generation, Version: &version}
	var preview console.PlanPreview
	b.do(http.MethodPost, "/api/v1/extensions/"+name+"/upgrade-previews", change, &preview)
	if preview.Plan == nil || preview.Plan.Objects == nil || len(preview.Plan.Objects.Changes) != 1 {
		t.Errorf("got %+v, want the changes of the plan", preview)
	}

	b.do(http.MethodPost, "/api/v1/extensions/"+name+"/upgrades", change, nil)
	f.Must(f.Get(t.Context(), client.ObjectKey{Name: name}, extension))
	if filter := extension.Spec.Source.Catalog; filter.Version != version || len(filter.Channels) != 1 {
		t.Errorf("got %+v, want the version changed and the channel kept", filter)
	}
	if got := b.send(b.newRequest(http.MethodPost, "/api/v1/extensions/"+name+"/upgrades", change)); got.Code != http.StatusConflict {
		t.Errorf("a change of an earlier generation: got %d %s, want 409", got.Code, got.Body)
	}
	if got := b.send(b.newRequest(http.MethodPost, "/api/v1/extensions/"+name+"/rollback-previews", map[string]any{"generation": extension.Generation})); got.Code != http.StatusUnprocessableEntity || !strings.Contains(got.Body.String(), "no active revision") {
		t.Errorf("a rollback without revisions: got %d %s, want the refusal of the command line", got.Code, got.Body)
	}
}

// Data is removed only with the typed name, and only by users with permission.
func TestUninstallExtension(t *testing.T) {
	f := newFixture(t, nil)
	name := f.namespace + "-kettle"
	extension := &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: name}}
	extension.Spec = olmv1.ClusterExtensionSpec{Namespace: f.namespace, Source: olmv1.SourceConfig{SourceType: olmv1.ExtensionSourceTypeCatalog, Catalog: &olmv1.CatalogFilter{PackageName: "kettle"}}}
	f.CreateAll(extension)
	owned := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{olmv1.LabelOwnerKind: olmv1.ClusterExtensionKind, olmv1.LabelOwnerName: name}}}
	f.Must(controllerutil.SetControllerReference(extension, owned, f.Scheme()))
	f.CreateAll(owned)

	path := "/api/v1/extensions/" + name
	b := f.signIn(f.newUser("installer", "", installerRules...))
	var removal console.ExtensionRemovalPreview
	b.do(http.MethodGet, path+"/removal", nil, &removal)
	if len(removal.Namespaces) != 1 || removal.Namespaces[0] != name {
		t.Errorf("got %+v, want the namespace that is deleted", removal)
	}

	if got := b.send(b.newRequest(http.MethodPost, path+"/uninstalls", map[string]any{"confirmation": "kettle"})); got.Code != http.StatusUnprocessableEntity || !f.extensionExists(name) {
		t.Errorf("another name: got %d %s, want 422 and the extension", got.Code, got.Body)
	}
	reader := f.signIn(f.newUser("reader", "", rbacv1.PolicyRule{APIGroups: []string{"olm.operatorframework.io"}, Resources: []string{"*"}, Verbs: []string{"get", "list"}}))
	if got := reader.send(reader.newRequest(http.MethodPost, path+"/uninstalls", map[string]any{"confirmation": name, "deleteCustomResources": true})); got.Code != http.StatusForbidden || !f.extensionExists(name) {
		t.Errorf("a user who may not delete: got %d %s, want 403 and the extension", got.Code, got.Body)
	}

	b.do(http.MethodPost, path+"/uninstalls", map[string]any{"confirmation": name}, nil)
	if f.extensionExists(name) {
		t.Error("the extension still exists")
	}
}

// The source of an object shows its events only to users who may list them.
func TestSourceOfExtension(t *testing.T) {
	f := newFixture(t, nil)
	name := f.namespace + "-kettle"
	extension := &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: name}}
	extension.Spec = olmv1.ClusterExtensionSpec{Namespace: f.namespace, Source: olmv1.SourceConfig{SourceType: olmv1.ExtensionSourceTypeCatalog, Catalog: &olmv1.CatalogFilter{PackageName: "kettle"}}}
	f.CreateAll(extension)
	f.CreateAll(&corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Reason: "Resolved", Message: "kettle.v1.0.0", Type: "Normal", LastTimestamp: metav1.Now(),
		InvolvedObject: corev1.ObjectReference{Kind: olmv1.ClusterExtensionKind, Name: name, UID: extension.UID},
	})

	read := rbacv1.PolicyRule{APIGroups: []string{"olm.operatorframework.io"}, Resources: []string{"*"}, Verbs: []string{"get", "list"}}
	events := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"list"}}
	var source console.Source
	b := f.signIn(f.newUser("reader", "", read))
	b.do(http.MethodGet, "/api/v1/extensions/"+name+"/source", nil, &source)
	if !strings.Contains(source.Manifest.YAML, "packageName: kettle") || strings.Contains(source.Manifest.YAML, "managedFields") || source.EventsProblem == "" || len(source.Events) > 0 {
		t.Errorf("got %+v, want the object, and that the events are forbidden", source)
	}

	source = console.Source{}
	b = f.signIn(f.newUser("watcher", "", read, events))
	b.do(http.MethodGet, "/api/v1/extensions/"+name+"/source", nil, &source)
	if len(source.Events) != 1 || source.Events[0].Reason != "Resolved" || source.EventsProblem != "" {
		t.Errorf("got %+v, want the event", source)
	}
}
