package console_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/action/sources"
)

// sourceRules are the rights of a user on catalogs and on the operators installed from them.
func sourceRules(verbs ...string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{"olm.operatorframework.io", "operators.coreos.com"}, Resources: []string{"*"}, Verbs: verbs},
		{APIGroups: []string{"config.openshift.io"}, Resources: []string{"operatorhubs"}, Verbs: verbs},
	}
}

// createSources creates a ClusterCatalog and a CatalogSource of the same name, and returns the name.
func (f *fixture) createSources() string {
	f.T.Helper()
	name := f.namespace
	f.CreateAll(
		&olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: olmv1.ClusterCatalogSpec{
			Source: olmv1.CatalogSource{Type: olmv1.SourceTypeImage, Image: &olmv1.ImageSource{Ref: "registry.example.com/catalog:v1"}},
		}},
		&v1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: name}, Spec: v1alpha1.CatalogSourceSpec{
			SourceType: v1alpha1.SourceTypeGrpc, Image: "registry.example.com/index:v1", DisplayName: "Classic", Publisher: "Example",
		}},
	)
	return name
}

// findSource returns the source of a kind and name.
func findSource(t *testing.T, listing sources.Listing, kind, name string) sources.PackageSource {
	t.Helper()
	i := slices.IndexFunc(listing.Items, func(s sources.PackageSource) bool { return s.Kind == kind && s.Name == name })
	if i < 0 {
		t.Fatalf("got %+v, want a %s %s", listing.Items, kind, name)
	}
	return listing.Items[i]
}

func TestSourcesAreListed(t *testing.T) {
	f := newFixture(t, nil)
	name := f.createSources()
	reader := f.signIn(f.newUser("reader", "", sourceRules("get", "list", "watch")...))
	var listing sources.Listing
	reader.do(http.MethodGet, "/api/v1/sources", nil, &listing)
	catalog, classic := findSource(t, listing, "ClusterCatalog", name), findSource(t, listing, "CatalogSource", name)
	if catalog.State != sources.StateNotServing || !strings.Contains(catalog.Message, "catalogd") || catalog.Advice == "" {
		t.Errorf("got %+v, want the reason why it is not served, and advice", catalog)
	}
	if classic.State != sources.StateNotServing || !strings.Contains(classic.Advice, "kubectl get pods") || classic.Publisher != "Example" {
		t.Errorf("got %+v, want the reason why it does not respond, and advice", classic)
	}

	tenant := f.signIn(f.newUser("tenant", f.namespace, sourceRules("get", "list", "watch")...))
	listing = sources.Listing{}
	tenant.do(http.MethodGet, "/api/v1/sources?namespace="+f.namespace, nil, &listing)
	if len(listing.Items) != 1 || listing.Items[0].Kind != "CatalogSource" || len(listing.Problems) != 2 || !listing.Problems[0].Forbidden {
		t.Errorf("a user of one namespace: got %+v and the problems %+v, want the CatalogSource and the forbidden resources", listing.Items, listing.Problems)
	}
	nobody := f.signIn(f.newUser("nobody", ""))
	listing = sources.Listing{}
	nobody.do(http.MethodGet, "/api/v1/sources", nil, &listing)
	if len(listing.Items) > 0 || len(listing.Problems) != 3 {
		t.Errorf("a user without rights: got %+v and the problems %+v, want nothing and three problems", listing.Items, listing.Problems)
	}
}

// Changes of catalogs need the rights of the user, and the version of the object that the user has read.
func TestSourcesAreChanged(t *testing.T) {
	f := newFixture(t, nil)
	name := f.createSources()
	reader := f.signIn(f.newUser("reader", "", sourceRules("get", "list", "watch")...))
	admin := f.signIn(f.newUser("admin", "", sourceRules("*")...))
	var listing sources.Listing
	admin.do(http.MethodGet, "/api/v1/sources", nil, &listing)
	catalog, classic := findSource(t, listing, "ClusterCatalog", name), findSource(t, listing, "CatalogSource", name)

	ofCatalog, ofClassic := "/api/v1/sources/"+name+"/settings", "/api/v1/sources/"+name+"/settings?namespace="+name
	disable := map[string]any{"revision": catalog.Revision, "enabled": false, "priority": 7}
	poll := map[string]any{"revision": classic.Revision, "pollMinutes": 30, "image": "registry.example.com/index:v2"}
	add := map[string]any{"name": name + "-new", "image": "registry.example.com/catalog:v2", "pollMinutes": 10}
	addClassic := map[string]any{"name": "added", "namespace": name, "image": "registry.example.com/index:v2", "publisher": "Me"}
	for path, body := range map[string]any{ofCatalog: disable, ofClassic: poll, "/api/v1/sources/" + name + "/refresh": nil} {
		if code, text := reader.status(http.MethodPost, path, body); code != http.StatusForbidden {
			t.Errorf("%s by a user who may only read: got %d %s, want 403", path, code, text)
		}
	}
	for _, body := range []map[string]any{add, addClassic} {
		if code, text := reader.status(http.MethodPost, "/api/v1/sources", body); code != http.StatusForbidden {
			t.Errorf("adding %v by a user who may only read: got %d %s, want 403", body, code, text)
		}
		admin.do(http.MethodPost, "/api/v1/sources", body, nil)
	}

	// The controllers change the status meanwhile.
	cluster, changed := &olmv1.ClusterCatalog{}, &v1alpha1.CatalogSource{}
	f.Must(f.Get(t.Context(), client.ObjectKey{Name: name}, cluster))
	f.Must(f.Get(t.Context(), client.ObjectKey{Namespace: name, Name: name}, changed))
	cluster.Status.LastUnpacked, changed.Status.Message = new(metav1.Now()), "polled"
	f.Must(errors.Join(f.Status().Update(t.Context(), cluster), f.Status().Update(t.Context(), changed)))

	admin.do(http.MethodPost, ofCatalog, disable, nil)
	admin.do(http.MethodPost, ofClassic, poll, nil)
	if code, text := admin.status(http.MethodPost, ofCatalog, disable); code != http.StatusConflict {
		t.Errorf("a change of an older catalog: got %d %s, want 409", code, text)
	}
	if code, text := admin.status(http.MethodPost, ofClassic, map[string]any{"revision": "", "enabled": false}); code != http.StatusUnprocessableEntity {
		t.Errorf("disabling a CatalogSource: got %d %s, want 422", code, text)
	}
	admin.do(http.MethodPost, "/api/v1/sources/"+name+"/refresh", nil, nil)

	f.Must(f.Get(t.Context(), client.ObjectKey{Name: name}, cluster))
	f.Must(f.Get(t.Context(), client.ObjectKey{Namespace: name, Name: name}, changed))
	if cluster.Spec.AvailabilityMode != olmv1.AvailabilityModeUnavailable || cluster.Spec.Priority != 7 || cluster.Annotations[olmv1.AnnotationRefresh] == "" {
		t.Errorf("got %+v with %v, want a disabled catalog that is refreshed", cluster.Spec, cluster.Annotations)
	}
	if changed.Spec.UpdateStrategy.RegistryPoll.Interval != "30m" || changed.Spec.Image != "registry.example.com/index:v2" || changed.Spec.Publisher != "Example" {
		t.Errorf("got %+v, want another image and interval, and the other fields unchanged", changed.Spec)
	}
}

// A catalog on which other objects depend is deleted only when its name is typed.
func TestSourcesAreDeleted(t *testing.T) {
	f := newFixture(t, nil)
	name := f.createSources()
	f.CreateAll(&v1alpha1.Subscription{
		ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "argocd"},
		Spec:       v1alpha1.SubscriptionSpec{Package: "argocd", CatalogSource: name, CatalogSourceNamespace: name},
	})
	extension := &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: name}}
	extension.Spec = olmv1.ClusterExtensionSpec{Namespace: name, Source: olmv1.SourceConfig{SourceType: olmv1.ExtensionSourceTypeCatalog, Catalog: &olmv1.CatalogFilter{
		PackageName: "argocd", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{olmv1.LabelMetadataName: name}},
	}}}
	f.CreateAll(extension)

	reader := f.signIn(f.newUser("reader", "", sourceRules("get", "list", "watch")...))
	admin := f.signIn(f.newUser("admin", "", sourceRules("*")...))
	for path, object := range map[string]client.Object{
		"/api/v1/sources/" + name + "/deletion":                   &olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{Name: name}},
		"/api/v1/sources/" + name + "/deletion?namespace=" + name: &v1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: name}},
	} {
		var plan sources.DeletionPlan
		admin.do(http.MethodGet, path, nil, &plan)
		if !slices.ContainsFunc(plan.Dependents, func(d sources.Dependent) bool { return d.Name == name || d.Name == "argocd" }) || plan.Typed != name {
			t.Errorf("%s: got %+v, want its dependents, and its name to be typed", path, plan)
		}

		typed := map[string]any{"typed": name, "revision": plan.Revision}
		if code, text := admin.status(http.MethodPost, path, map[string]any{}); code != http.StatusUnprocessableEntity {
			t.Errorf("%s without the name: got %d %s, want 422", path, code, text)
		}
		if code, text := reader.status(http.MethodPost, path, typed); code != http.StatusForbidden {
			t.Errorf("%s by a user who may only read: got %d %s, want 403", path, code, text)
		}
		f.Must(f.Get(t.Context(), client.ObjectKeyFromObject(object), object))
		f.Must(f.Status().Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(`{"status":{"lastUnpacked":"2026-01-01T00:00:00Z","message":"polled"}}`))))
		admin.do(http.MethodPost, path, typed, nil)
		if err := f.Get(t.Context(), client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) && object.GetDeletionTimestamp() == nil {
			t.Errorf("%s: got %v, want the catalog deleted", path, err)
		}
	}

	limited := f.signIn(f.newUser("limited", "", rbacv1.PolicyRule{APIGroups: []string{"operators.coreos.com"}, Resources: []string{"catalogsources"}, Verbs: []string{"*"}}))
	f.CreateAll(&v1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "other"}, Spec: v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeGrpc, Image: "a"}})
	var plan sources.DeletionPlan
	limited.do(http.MethodGet, "/api/v1/sources/other/deletion?namespace="+name, nil, &plan)
	if plan.Typed != "other" || len(plan.Problems) != 1 {
		t.Errorf("a user who may not list Subscriptions: got %+v, want the name to be typed", plan)
	}
}

// A default catalog is enabled and disabled by its own entry of the OperatorHub.
func TestDefaultSources(t *testing.T) {
	f := newFixture(t, nil)
	hub := &configv1.OperatorHub{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}, Spec: configv1.OperatorHubSpec{Sources: []configv1.HubSource{{Name: "other", Disabled: true}}}}
	f.CreateAll(hub)
	t.Cleanup(func() {
		f.Must(f.Delete(context.Background(), &configv1.OperatorHub{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}))
	})
	hub.Status.Sources = []configv1.HubSourceStatus{{Name: "community"}, {Name: "other", Disabled: true}}
	f.Must(f.Status().Update(t.Context(), hub))

	admin := f.signIn(f.newUser("admin", "", sourceRules("*")...))
	reader := f.signIn(f.newUser("reader", "", sourceRules("get", "list")...))
	var listing sources.Listing
	reader.do(http.MethodGet, "/api/v1/sources", nil, &listing)
	if got := findSource(t, listing, "OperatorHub", "other"); got.State != sources.StateDisabled || listing.HubRevision == "" {
		t.Errorf("got %+v, want the disabled default catalog in the list", got)
	}

	disable := map[string]any{"enabled": false, "revision": listing.HubRevision}
	if code, text := reader.status(http.MethodPost, "/api/v1/default-sources/community", disable); code != http.StatusForbidden {
		t.Errorf("a user who may only read: got %d %s, want 403", code, text)
	}
	if code, text := admin.status(http.MethodPost, "/api/v1/default-sources/none-such", disable); code != http.StatusUnprocessableEntity || !strings.Contains(text, "community, other") {
		t.Errorf("an unknown catalog: got %d %s, want those that exist", code, text)
	}
	f.Must(f.Get(t.Context(), client.ObjectKeyFromObject(hub), hub))
	hub.Status.Sources[0].Message = "reported meanwhile"
	f.Must(f.Status().Update(t.Context(), hub))
	admin.do(http.MethodPost, "/api/v1/default-sources/community", disable, nil)
	if code, text := admin.status(http.MethodPost, "/api/v1/default-sources/community", disable); code != http.StatusConflict {
		t.Errorf("an older OperatorHub: got %d %s, want 409", code, text)
	}
	f.Must(f.Get(t.Context(), client.ObjectKey{Name: "cluster"}, hub))
	if want := []configv1.HubSource{{Name: "other", Disabled: true}, {Name: "community", Disabled: true}}; !slices.Equal(hub.Spec.Sources, want) {
		t.Errorf("got %+v, want %+v", hub.Spec.Sources, want)
	}
}

func TestTenants(t *testing.T) {
	f := newFixture(t, nil)
	for _, name := range []string{"one", "two"} {
		f.CreateAll(&operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name}})
	}
	approve := rbacv1.PolicyRule{APIGroups: []string{"operators.coreos.com"}, Resources: []string{"installplans"}, Verbs: []string{"update"}}
	f.newUser("approver", f.namespace, approve)
	reader := f.signIn(f.newUser("reader", "", append(sourceRules("get", "list"), rbacv1.PolicyRule{
		APIGroups: []string{rbacv1.GroupName}, Resources: []string{"*"}, Verbs: []string{"list"},
	})...))

	var tenants sources.Tenants
	reader.do(http.MethodGet, "/api/v1/tenants?namespace="+f.namespace, nil, &tenants)
	if len(tenants.Items) != 2 || !strings.Contains(tenants.Items[0].Problem, "2 OperatorGroups") {
		t.Errorf("got %+v, want two OperatorGroups that exclude each other", tenants.Items)
	}

	var access sources.NamespaceAccess
	reader.do(http.MethodGet, "/api/v1/tenants/"+f.namespace+"/access", nil, &access)
	i := slices.IndexFunc(access.Entries, func(e sources.AccessEntry) bool { return e.Namespace == f.namespace && e.Name == "approver" })
	if i < 0 || !slices.Equal(access.Entries[i].Rights, []string{"approve updates"}) || access.Entries[i].IsClusterWide {
		t.Errorf("got %+v, want the permissions of the approver's role", access.Entries)
	}

	nobody := f.signIn(f.newUser("nobody", ""))
	access, tenants = sources.NamespaceAccess{}, sources.Tenants{}
	nobody.do(http.MethodGet, "/api/v1/tenants/"+f.namespace+"/access", nil, &access)
	nobody.do(http.MethodGet, "/api/v1/tenants", nil, &tenants)
	if len(access.Entries) > 0 || len(access.Problems) != 4 || len(tenants.Items) > 0 || len(tenants.Problems) != 2 {
		t.Errorf("a user without rights: got %+v and %+v, want only problems", access, tenants)
	}
}
