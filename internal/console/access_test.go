package console_test

import (
	"bufio"
	"cmp"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/action/inventory"
	"github.com/mainstay-dev/mainstay/internal/console"
)

// operation is an operation of the API. Its path has the parameters of the OpenAPI document, such as {name}.
type operation struct {
	method, path string
	// body has every field of the request's body.
	body any
}

// pathParameter matches a parameter in the path of an operation.
var pathParameter = regexp.MustCompile(`\{(\w+)\}`)

// fillPath returns the path with values for its parameters, or value for those that have none.
func (o operation) fillPath(values map[string]string, value string) string {
	return pathParameter.ReplaceAllStringFunc(o.path, func(parameter string) string {
		return cmp.Or(values[strings.Trim(parameter, "{}")], value)
	})
}

// apiSchema is a schema of the OpenAPI document.
type apiSchema struct {
	Ref        string                `json:"$ref"`
	Type       string                `json:"type"`
	Enum       []any                 `json:"enum"`
	Properties map[string]*apiSchema `json:"properties"`
	Items      *apiSchema            `json:"items"`
}

// apiDocument is the OpenAPI document.
type apiDocument struct {
	Paths map[string]map[string]struct {
		RequestBody struct {
			Content map[string]struct {
				Schema *apiSchema `json:"schema"`
			} `json:"content"`
		} `json:"requestBody"`
	} `json:"paths"`
	Components struct {
		Schemas map[string]*apiSchema `json:"schemas"`
	} `json:"components"`
}

// newExample returns a value of a schema, with every property.
func (d *apiDocument) newExample(schema *apiSchema) any {
	switch {
	case schema == nil:
		return nil
	case schema.Ref != "":
		return d.newExample(d.Components.Schemas[path.Base(schema.Ref)])
	case len(schema.Enum) > 0:
		return schema.Enum[0]
	}

	switch schema.Type {
	case "string":
		return "a"
	case "integer", "number":
		return 1
	case "boolean":
		return true
	case "array":
		return []any{d.newExample(schema.Items)}
	default:
		object := map[string]any{}
		for name, property := range schema.Properties {
			object[name] = d.newExample(property)
		}
		return object
	}
}

// listOperations returns the operations of the OpenAPI document, in a stable order.
func (f *fixture) listOperations() []operation {
	f.T.Helper()
	text, err := f.server.OpenAPI()
	f.Must(err)
	document := &apiDocument{}
	f.Must(yaml.Unmarshal(text, document))
	var operations []operation
	for path, methods := range document.Paths {
		for method, described := range methods {
			body := document.newExample(described.RequestBody.Content["application/json"].Schema)
			operations = append(operations, operation{strings.ToUpper(method), path, body})
		}
	}
	if len(operations) < 5 {
		f.T.Fatalf("got %d operations, want those of the console", len(operations))
	}

	slices.SortFunc(operations, func(a, b operation) int {
		return cmp.Or(strings.Compare(a.path, b.path), strings.Compare(a.method, b.method))
	})
	return operations
}

// Only the sign-in works without a session, and no write works without the CSRF token or from another site.
func TestEveryOperationIsProtected(t *testing.T) {
	f := newFixture(t, nil)
	signedIn := f.signIn(f.newUser("alice", ""))
	for _, o := range f.listOperations() {
		path := o.fillPath(map[string]string{"namespace": f.namespace}, "a")
		isSignIn := path == "/api/v1/session" && o.method != http.MethodDelete
		stranger := &browser{f: f}
		if got := stranger.send(stranger.newRequest(o.method, path, nil)).Code; !isSignIn && got != http.StatusUnauthorized {
			t.Errorf("%s %s without a session: got %d, want 401", o.method, path, got)
		}
		if o.method == http.MethodGet {
			continue
		}

		without := signedIn.newRequest(o.method, path, nil)
		without.Header.Del("X-CSRF-Token")
		if got := signedIn.send(without).Code; !isSignIn && got != http.StatusForbidden {
			t.Errorf("%s %s without the CSRF token: got %d, want 403", o.method, path, got)
		}

		foreign := signedIn.newRequest(o.method, path, nil)
		foreign.Header.Set("Sec-Fetch-Site", "cross-site")
		if got := signedIn.send(foreign).Code; got != http.StatusForbidden {
			t.Errorf("%s %s from another site: got %d, want 403", o.method, path, got)
		}
	}
}

// The console has no rights of its own: users see only the objects that the API server returns to them.
func TestUsersSeeWhatTheyMayRead(t *testing.T) {
	f := newFixture(t, nil)
	other := f.NewNamespace("console-other-")
	for _, namespace := range []string{f.namespace, other} {
		f.CreateAll(&v1alpha1.Subscription{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "argocd"},
			Spec:       v1alpha1.SubscriptionSpec{Package: "argocd", CatalogSource: "hub", CatalogSourceNamespace: "olm"},
		})
	}
	extension := &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: f.namespace}}
	extension.Spec = olmv1.ClusterExtensionSpec{
		Namespace: f.namespace, Source: olmv1.SourceConfig{SourceType: olmv1.ExtensionSourceTypeCatalog, Catalog: &olmv1.CatalogFilter{PackageName: "argocd"}},
	}
	f.CreateAll(extension)

	read := []string{"get", "list", "watch"}
	classic := rbacv1.PolicyRule{APIGroups: []string{"operators.coreos.com"}, Resources: []string{"*"}, Verbs: read}
	v1 := rbacv1.PolicyRule{APIGroups: []string{"olm.operatorframework.io"}, Resources: []string{"*"}, Verbs: read}
	list := func(b *browser, query string) (items []string, forbidden []string) {
		var got inventory.Inventory
		b.do(http.MethodGet, "/api/v1/installed"+query, nil, &got)
		for _, i := range got.Items {
			if i.Name == f.namespace || i.Namespace == f.namespace || i.Namespace == other {
				items = append(items, strings.TrimPrefix(i.Kind+"/"+i.Namespace, "/"))
			}
		}
		for _, p := range got.Problems {
			if p.Forbidden && p.Message != "" {
				forbidden = append(forbidden, p.Kind)
			}
		}
		return items, forbidden
	}
	expect := func(who string, got, want []string) {
		t.Helper()
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", who, got, want)
		}
	}

	nobody := f.signIn(f.newUser("nobody", ""))
	items, forbidden := list(nobody, "")
	expect("a user without rights", items, nil)
	expect("forbidden to a user without rights", forbidden, []string{"clusterextensions", "subscriptions"})

	tenant := f.signIn(f.newUser("tenant", f.namespace, classic))
	items, forbidden = list(tenant, "")
	expect("a user of one namespace, all namespaces", items, nil)
	expect("forbidden to a user of one namespace", forbidden, []string{"clusterextensions", "subscriptions"})
	items, forbidden = list(tenant, "?namespace="+f.namespace)
	expect("a user of one namespace, that namespace", items, []string{"Subscription/" + f.namespace})
	expect("extensions forbidden to a user of one namespace", forbidden, []string{"clusterextensions"})

	admin := f.signIn(f.newUser("admin", "", classic, v1))
	items, forbidden = list(admin, "")
	expect("an administrator", items, []string{"ClusterExtension/", "Subscription/" + f.namespace, "Subscription/" + other})
	expect("forbidden to an administrator", forbidden, nil)

	if got := tenant.send(tenant.newRequest(http.MethodGet, "/api/v1/extensions/"+f.namespace, nil)).Code; got != http.StatusForbidden {
		t.Errorf("an extension that the user may not read: got %d, want 403", got)
	}
	missing := admin.send(admin.newRequest(http.MethodGet, "/api/v1/extensions/none-such", nil))
	if text := missing.Body.String(); missing.Code != http.StatusNotFound || !strings.Contains(text, `ClusterExtension \"none-such\": not found.`) {
		t.Errorf("an extension that does not exist: got %d %s, want 404 with its kind and name", missing.Code, text)
	}

	var review console.AccessReview
	tenant.do(http.MethodPost, "/api/v1/access", map[string]any{"permissions": []console.Permission{
		{Verb: "list", Group: "operators.coreos.com", Resource: "subscriptions", Namespace: f.namespace},
		{Verb: "delete", Group: "operators.coreos.com", Resource: "subscriptions", Namespace: f.namespace},
	}}, &review)
	if !slices.Equal(review.Allowed, []bool{true, false}) {
		t.Errorf("got the review %v, want the permissions of the user's role", review.Allowed)
	}

	var namespaces console.Namespaces
	tenant.do(http.MethodGet, "/api/v1/namespaces", nil, &namespaces)
	if !namespaces.Forbidden || len(namespaces.Names) > 0 {
		t.Errorf("got %+v, want forbidden", namespaces)
	}
}

// A stream reports changes of resources that the user may watch, lists those that the user may not watch, and ends with the
// session.
func TestStreamOfChanges(t *testing.T) {
	f := newFixture(t, nil)
	watch := rbacv1.PolicyRule{APIGroups: []string{"operators.coreos.com"}, Resources: []string{"subscriptions"}, Verbs: []string{"get", "list", "watch"}}
	b := f.signIn(f.newUser("tenant", f.namespace, watch))
	server := httptest.NewServer(f.server)
	t.Cleanup(server.Close)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/api/v1/events?kinds=subscriptions,clusterextensions,secrets&namespace="+f.namespace, http.NoBody)
	f.Must(err)
	r.AddCookie(b.cookie)
	response, err := server.Client().Do(r)
	f.Must(err)
	t.Cleanup(func() { _ = response.Body.Close() })
	lines := bufio.NewScanner(response.Body)
	next := func(wanted string) {
		t.Helper()
		event := ""
		for lines.Scan() {
			line := lines.Text()
			if name, ok := strings.CutPrefix(line, "event: "); ok {
				event = name
			} else if data, ok := strings.CutPrefix(line, "data: "); ok && strings.Contains(event+" "+data, wanted) {
				return
			}
		}
		t.Fatalf("the stream ended without %q: %v", wanted, lines.Err())
	}

	next(`unwatched {"kind":"clusterextensions"`)
	for _, name := range []string{"first", "second"} {
		f.CreateAll(&v1alpha1.Subscription{
			ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name},
			Spec:       v1alpha1.SubscriptionSpec{Package: name, CatalogSource: "hub", CatalogSourceNamespace: "olm"},
		})
		next(`changed {"kind":"subscriptions"}`)
	}

	b.do(http.MethodDelete, "/api/v1/session", nil, nil)
	next("signedOut")
	if lines.Scan(); strings.TrimSpace(lines.Text()) != "" {
		t.Errorf("got %q after the end of the session", lines.Text())
	}
}

func TestPages(t *testing.T) {
	f := newFixture(t, nil)
	b := &browser{f: f}
	page := b.send(b.newRequest(http.MethodGet, "/installed/extensions/argocd", nil))
	if page.Code != http.StatusOK || !strings.Contains(page.Body.String(), "Mainstay") {
		t.Errorf("a deep link: got %d %s, want the page", page.Code, page.Body)
	}
	if policy := page.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "script-src 'self';") || !strings.Contains(policy, "frame-ancestors 'none'") {
		t.Errorf("got the policy %q, want no foreign or inline scripts and no frames", policy)
	}

	script := b.newRequest(http.MethodGet, "/assets/a-1.js", nil)
	script.Header.Set("Accept-Encoding", "br, gzip")
	compressed := b.send(script)
	if compressed.Header().Get("Content-Encoding") != "gzip" || compressed.Body.Len() > 100 || !strings.Contains(compressed.Header().Get("Cache-Control"), "immutable") {
		t.Errorf("got %d bytes with %v, want a compressed file that is cached", compressed.Body.Len(), compressed.Header())
	}
	if plain := b.send(b.newRequest(http.MethodGet, "/assets/a-1.js", nil)); plain.Body.Len() != 1000 {
		t.Errorf("a client without gzip: got %d bytes, want 1000", plain.Body.Len())
	}
	if got := b.send(b.newRequest(http.MethodPost, "/installed", nil)).Code; got != http.StatusMethodNotAllowed {
		t.Errorf("a write to a page: got %d, want 405", got)
	}
}

// Requests of a signed-in user with unexpected input are rejected. The console never returns a server error.
func TestUnexpectedRequests(t *testing.T) {
	f := newFixture(t, nil)
	b := f.signIn(f.newUser("alice", ""))
	for _, test := range []struct {
		method, path, text string
		want               int
	}{
		{http.MethodGet, "/api/v1/installed?namespace=A%00", "", http.StatusUnprocessableEntity},
		{http.MethodGet, "/api/v1/extensions/..%2f..%2fsecrets", "", http.StatusUnprocessableEntity},
		{http.MethodGet, "/api/v1/namespaces/a/subscriptions/b%2fc", "", http.StatusUnprocessableEntity},
		{http.MethodPost, "/api/v1/access", `{"permissions":`, http.StatusBadRequest},
		{http.MethodPost, "/api/v1/access", `{"permissions":[{"verb":7}]}`, http.StatusUnprocessableEntity},
		{http.MethodPost, "/api/v1/access", `{"permissions":[{"verb":"get","resource":"pods"}]}`, http.StatusOK},
		{http.MethodGet, "/api/v1/none-such", "", http.StatusOK}, // a page
	} {
		r := b.newRequest(test.method, test.path, nil)
		r.Body = io.NopCloser(strings.NewReader(test.text))
		if got := b.send(r); got.Code != test.want {
			t.Errorf("%s %s %s: got %d %s, want %d", test.method, test.path, test.text, got.Code, got.Body, test.want)
		}
	}
}
