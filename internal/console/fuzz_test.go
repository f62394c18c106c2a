package console_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

// FuzzRequests sends requests to the operations of the console, as a user who may read everything and write nothing. For any
// content of the request, the response is not a server error and does not contain the token of the user.
func FuzzRequests(f *testing.F) {
	site := newFixture(f, nil)
	token := site.newUser("reader", "", rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"}})
	reader := site.signIn(token)
	template := reader.newRequest(http.MethodPost, "/", nil)
	parameters := map[string]string{"namespace": site.namespace, "group": "olm.operatorframework.io", "version": "v1", "plural": "clusterextensions"}

	// The stream of events does not end, and after a sign-out all further requests are unauthorized.
	operations := slices.DeleteFunc(site.listOperations(), func(o operation) bool {
		return o.path == "/api/v1/events" || o.method == http.MethodDelete
	})
	for i, o := range operations {
		body, err := json.Marshal(o.body)
		site.Must(err)
		f.Add(uint8(i), "a", "", string(body))
		f.Add(uint8(i), "a", "namespace=default&name=a&from=1&to=2", strings.ReplaceAll(string(body), `"a"`, `"b: >>1 [\u0000"`))
	}

	f.Fuzz(func(t *testing.T, number uint8, value, query, body string) {
		o := operations[int(number)%len(operations)]
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), o.method, origin, strings.NewReader(body))
		r.Header = template.Header.Clone()
		r.URL = &url.URL{Path: o.fillPath(parameters, value), RawQuery: query}
		r.RequestURI = r.URL.RequestURI()

		site.server.ServeHTTP(w, r)

		if w.Code >= http.StatusInternalServerError {
			t.Errorf("%s %s with body %q: got %d %s, want no server error", o.method, r.RequestURI, body, w.Code, w.Body)
		}
		if strings.Contains(w.Body.String(), token) {
			t.Errorf("%s %s with body %q: the response contains the token of the user", o.method, r.RequestURI, body)
		}
	})
}
