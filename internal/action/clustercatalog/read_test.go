package clustercatalog_test

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/mainstay-dev/mainstay/internal/action/clustercatalog"
	"github.com/mainstay-dev/mainstay/internal/action/report"
)

const content = `{"schema":"olm.package","name":"a"}
{"schema":"olm.package","name":"b"}
`

// cluster stands for an API server, which here could not reach a Service: it answers the
// requests that a real one would, among them those of its proxy. Reading through a real
// one is part of the end-to-end tests.
func cluster(t *testing.T, answers map[string]any) *rest.Config {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		switch answer := answers[r.URL.Path].(type) {
		case nil:
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"kind":"Status","status":"Failure","message":"not found: ` + r.URL.Path + `"}`))
		case string:
			_, _ = w.Write([]byte(answer))
		default:
			_ = json.NewEncoder(w).Encode(answer)
		}
	}))

	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL, BearerToken: "secret", TLSClientConfig: rest.TLSClientConfig{CAData: authority(server)}}
}

func authority(server *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

func catalog(base string, serving string) map[string]any {
	return map[string]any{"status": map[string]any{
		"urls":       map[string]any{"base": base},
		"conditions": []any{map[string]any{"type": "Serving", "status": serving, "reason": "R", "message": "M"}},
	}}
}

const object = "/apis/olm.operatorframework.io/v1/clustercatalogs/c"

func names(t *testing.T, config *rest.Config) ([]string, error) {
	t.Helper()
	var got []string
	for meta, err := range (&clustercatalog.Reader{Config: config}).Metas(t.Context(), "c") {
		if err != nil {
			return got, err
		}
		got = append(got, meta.Name)
	}

	return got, nil
}

func TestAServiceIsReadThroughTheAPIServer(t *testing.T) {
	got, err := names(t, cluster(t, map[string]any{
		object: catalog("https://catalogd-service.olmv1-system.svc/catalogs/c", "True"),
		"/api/v1/namespaces/olmv1-system/services/https:catalogd-service:443/proxy/catalogs/c/api/v1/all": content,
	}))
	if diff := cmp.Diff([]string{"a", "b"}, got); diff != "" || err != nil {
		t.Errorf("error %v, names (-want +got):\n%s", err, diff)
	}
}

func TestAProcessIsReadDirectly(t *testing.T) {
	catalogd := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/catalogs/c/api/v1/all" && r.Header.Get("Authorization") == "" {
			_, _ = w.Write([]byte(content))
			return
		}
		w.WriteHeader(http.StatusTeapot)
	}))

	defer catalogd.Close()
	got, err := names(t, cluster(t, map[string]any{
		object: catalog(catalogd.URL+"/catalogs/c", "True"),
		"/api/v1/namespaces/olmv1-system/configmaps/catalogd-service-ca": map[string]any{"data": map[string]any{"ca.crt": string(authority(catalogd))}},
	}))
	if !slices.Equal(got, []string{"a", "b"}) || err != nil {
		t.Errorf("names %v, error %v", got, err)
	}
}

func TestOnlyServedCatalogsAreListed(t *testing.T) {
	served, broken := catalog("https://localhost:1/catalogs/c", "True"), catalog("", "False")
	served["metadata"], served["spec"] = map[string]any{"name": "c"}, map[string]any{"priority": -3}
	broken["metadata"] = map[string]any{"name": "b"}
	config := cluster(t, map[string]any{path.Dir(object): map[string]any{"items": []any{broken, served}}})
	got, err := (&clustercatalog.Reader{Config: config}).List(t.Context())
	if diff := cmp.Diff([]clustercatalog.Served{{Name: "c", Priority: -3}}, got); diff != "" || err != nil {
		t.Errorf("error %v, catalogs (-want +got):\n%s", err, diff)
	}

	_, err = (&clustercatalog.Reader{Config: cluster(t, nil)}).List(t.Context())
	if err == nil || !strings.Contains(report.AdviceOf(err), "Mainstay is installed") {
		t.Errorf("of a cluster without the kind: %v, advice %q", err, report.AdviceOf(err))
	}
}

func TestWhatCannotBeReadSaysWhatToDo(t *testing.T) {
	for name, test := range map[string]struct {
		answers      map[string]any
		want, advice string
	}{
		"no such catalog": {nil, `clustercatalog "c": not found`, "kubectl get clustercatalogs"},
		"not served":      {map[string]any{object: catalog("", "False")}, "it is not served: R: M", "kubectl describe"},
		"no address":      {map[string]any{object: catalog("", "True")}, "it is not served yet", "kubectl describe"},
		"odd address":     {map[string]any{object: catalog("http://x/catalogs/c", "True")}, "none that can be read", "kubectl describe"},
		"no right":        {map[string]any{object: catalog("https://catalogd-service.ns.svc:8443/catalogs/c", "True")}, "https:catalogd-service:8443", "services/proxy in the namespace ns"},
		"no authority":    {map[string]any{object: catalog("https://localhost:1/catalogs/c", "True")}, "catalogd-service-ca", "namespace of catalogd"},
		"no certificate": {map[string]any{
			object: catalog("https://localhost:1/catalogs/c", "True"),
			"/api/v1/namespaces/olmv1-system/configmaps/catalogd-service-ca": map[string]any{"data": map[string]any{"ca.crt": "x"}},
		}, "holds no certificate", "namespace of catalogd"},
		"no object": {map[string]any{object: "<html>"}, "reading the answer", "kubectl get"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := names(t, cluster(t, test.answers))
			var failed *report.Error
			if !errors.As(err, &failed) || !strings.Contains(err.Error(), test.want) || !strings.Contains(failed.Advice, test.advice) {
				t.Errorf("error is %v, advice %q", err, report.AdviceOf(err))
			}
		})
	}
}

func TestATruncatedAnswerIsAnError(t *testing.T) {
	got, err := names(t, cluster(t, map[string]any{
		object: catalog("https://catalogd-service.ns.svc/catalogs/c", "True"),
		"/api/v1/namespaces/ns/services/https:catalogd-service:443/proxy/catalogs/c/api/v1/all": content[:len(content)-4],
	}))
	if err == nil || !strings.Contains(err.Error(), "clustercatalog/c") {
		t.Errorf("names %v, error %v: want one that names the catalog", got, err)
	}
}
