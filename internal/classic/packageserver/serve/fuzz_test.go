package serve_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"

	"github.com/mainstay-dev/mainstay/internal/classic/packageserver/serve"
)

// Any request has a response in the format of its Content-Type.
func FuzzRequests(f *testing.F) {
	f.Add(base+"/namespaces/ns/packagemanifests", "labelSelector=catalog%3Dmine&limit=3", "application/json;as=Table;v=v1;g=meta.k8s.io", "gzip;q=0")
	f.Add(base+"/packagemanifests", "watch=true&resourceVersion=0&allowWatchBookmarks=true", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", "")
	f.Add(base+"/namespaces/ns/packagemanifests/apple/icon", "resourceVersion=1", "*/*", "")
	f.Add("/apis", "", "", "")
	f.Add("/openapi/v2/", "fieldSelector=a!=b", "text/html;q=;", "gzip")
	h := &serve.Handler{
		Index: fruits(f), Global: "global", Log: logr.Discard(), Authorizer: authorizerfactory.NewAlwaysAllowAuthorizer(),
		Authenticator: authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
			return &authenticator.Response{User: &user.DefaultInfo{Name: "somebody"}}, true, nil
		}),
	}

	over, end := context.WithCancel(context.Background())
	end() // A watch ends after its initial events.
	f.Fuzz(func(t *testing.T, path, query, accept, encoding string) {
		if len(path)+len(query)+len(accept)+len(encoding) > 2000 {
			return
		}

		request := (&http.Request{
			Method: http.MethodGet, URL: &url.URL{Path: "/" + strings.TrimPrefix(path, "/"), RawQuery: query},
			Header: http.Header{"Accept": {accept}, "Accept-Encoding": {encoding}, "If-None-Match": {accept}},
		}).WithContext(over)
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, request)
		if answer.Code >= http.StatusInternalServerError {
			t.Fatalf("%d %s", answer.Code, answer.Body)
		}
		if answer.Header().Get("Content-Type") != "application/json" || answer.Header().Get("Content-Encoding") != "" {
			return
		}

		for decoder := json.NewDecoder(answer.Body); decoder.More(); {
			var content any
			if err := decoder.Decode(&content); err != nil {
				t.Fatalf("%d: %v", answer.Code, err)
			}
		}
	})
}
