package console_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// Whatever a user without rights sends to an operation, the console answers, never fails by itself, and writes nothing.
func FuzzRequests(f *testing.F) {
	fixture := newFixture(f, nil)
	user := fixture.signIn(fixture.newUser("fuzzer", ""))
	operations := slices.DeleteFunc(fixture.listOperations(), func(o operation) bool {
		// The session has tests of its own. A stream of events ends with its client.
		return o.path == "/api/v1/session" || o.path == "/api/v1/events"
	})
	slices.SortFunc(operations, func(a, b operation) int { return strings.Compare(a.path+" "+a.method, b.path+" "+b.method) })

	for i := range operations {
		f.Add(uint8(i), "a", "namespace=a&catalog=b%2Fc&text=%00", []byte(`{}`))
		f.Add(uint8(i), "../../secrets", "namespace="+strings.Repeat("x", 300), []byte(`{"name":7,"namespace":null,"manifest":"a: [","typed":"\u202e"}`))
		f.Add(uint8(i), "\x00", "%zz", []byte(`[`))
	}
	f.Fuzz(func(t *testing.T, index uint8, value, query string, body []byte) {
		if len(value)+len(query)+len(body) > 4000 {
			return
		}

		o := operations[int(index)%len(operations)]
		r := httptest.NewRequestWithContext(t.Context(), o.method, origin+"/", strings.NewReader(string(body)))
		r.URL = newOperationURL(o.path, value, query)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		r.Header.Set("X-CSRF-Token", user.csrf)
		r.AddCookie(user.cookie)
		response := httptest.NewRecorder()
		fixture.server.ServeHTTP(response, r)

		if response.Code >= http.StatusInternalServerError && response.Code != http.StatusServiceUnavailable {
			t.Errorf("%s %s %q: got %d %s, want no failure of the console", o.method, r.URL, body, response.Code, response.Body)
		}
		if strings.Contains(fixture.logged(), `"result"="ok"`) {
			t.Errorf("%s %s %q: a user without rights has written: %s", o.method, r.URL, body, fixture.logged())
		}
		if strings.Contains(response.Header().Get("Content-Type"), "json") && response.Body.Len() > 0 && !json.Valid(response.Body.Bytes()) {
			t.Errorf("%s %s: got %q, want JSON", o.method, r.URL, response.Body)
		}
	})
}

// newOperationURL returns the address of an operation, with a value for each of its path parameters but the namespace.
func newOperationURL(path, value, query string) *url.URL {
	var decoded, encoded []string
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "a" || strings.HasPrefix(segment, "{") {
			segment = value
		}
		decoded = append(decoded, segment)
		encoded = append(encoded, url.PathEscape(segment))
	}
	return &url.URL{Scheme: "https", Host: strings.TrimPrefix(origin, "https://"), Path: strings.Join(decoded, "/"), RawPath: strings.Join(encoded, "/"), RawQuery: query}
}
