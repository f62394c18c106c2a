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

	"github.com/mainstay-dev/mainstay/internal/action/catalog/clustercatalog"
	"github.com/mainstay-dev/mainstay/internal/action/report"
)

const content = `{"schema":"olm.package","name":"a"}
{"schema":"olm.package","name":"b"}
`

// newFakeAPIServer starts a fake API server, including its proxy for Services. The
// end-to-end tests read through a real one.
func newFakeAPIServer(t *testing.T, answers map[string]any) *rest.Config {
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
	return &rest.Config{Host: server.URL, BearerToken: "secret", TLSClientConfig: rest.TLSClientConfig{CAData: certificatePEM(server)}}
}

func certificatePEM(server *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

func newCatalog(base string, serving string) map[string]any {
	return map[string]any{"status": map[string]any{
		"urls":       map[string]any{"base": base},
		"conditions": []any{map[string]any{"type": "Serving", "status": serving, "reason": "R", "message": "M"}},
	}}
}

const catalogPath = "/apis/olm.operatorframework.io/v1/clustercatalogs/c"

func readNames(t *testing.T, config *rest.Config) ([]string, error) {
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

func TestMetasThroughServiceProxy(t *testing.T) {
	got, err := readNames(t, newFakeAPIServer(t, map[string]any{
		catalogPath: newCatalog("https://catalogd-service.olmv1-system.svc/catalogs/c", "True"),
		"/api/v1/namespaces/olmv1-system/services/https:catalogd-service:443/proxy/catalogs/c/api/v1/all": content,
	}))
	if diff := cmp.Diff([]string{"a", "b"}, got); diff != "" || err != nil {
		t.Errorf("got error %v, names (-want +got):\n%s", err, diff)
	}
}

func TestMetasFromProcess(t *testing.T) {
	catalogd := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/catalogs/c/api/v1/all" && r.Header.Get("Authorization") == "" {
			_, _ = w.Write([]byte(content))
			return
		}
		w.WriteHeader(http.StatusTeapot)
	}))

	defer catalogd.Close()
	got, err := readNames(t, newFakeAPIServer(t, map[string]any{
		catalogPath: newCatalog(catalogd.URL+"/catalogs/c", "True"),
		"/api/v1/namespaces/olmv1-system/configmaps/catalogd-service-ca": map[string]any{"data": map[string]any{"ca.crt": string(certificatePEM(catalogd))}},
	}))
	if !slices.Equal(got, []string{"a", "b"}) || err != nil {
		t.Errorf("got names %v, error %v", got, err)
	}
}

func TestList(t *testing.T) {
	served, broken := newCatalog("https://localhost:1/catalogs/c", "True"), newCatalog("", "False")
	served["metadata"], served["spec"] = map[string]any{"name": "c"}, map[string]any{"priority": -3}
	broken["metadata"] = map[string]any{"name": "b"}
	config := newFakeAPIServer(t, map[string]any{path.Dir(catalogPath): map[string]any{"items": []any{broken, served}}})
	got, err := (&clustercatalog.Reader{Config: config}).List(t.Context())
	if diff := cmp.Diff([]clustercatalog.ServedCatalog{{Name: "c", Priority: -3}}, got); diff != "" || err != nil {
		t.Errorf("got error %v, catalogs (-want +got):\n%s", err, diff)
	}

	_, err = (&clustercatalog.Reader{Config: newFakeAPIServer(t, nil)}).List(t.Context())
	if err == nil || !strings.Contains(report.AdviceOf(err), "Mainstay is installed") {
		t.Errorf("a cluster without the kind: got error %v, advice %q", err, report.AdviceOf(err))
	}
}

func TestMetasErrors(t *testing.T) {
	for name, test := range map[string]struct {
		answers      map[string]any
		want, advice string
	}{
		"no such catalog": {nil, `clustercatalog "c": not found`, "kubectl get clustercatalogs"},
		"not served":      {map[string]any{catalogPath: newCatalog("", "False")}, "it is not served: R: M", "kubectl describe"},
		"no address":      {map[string]any{catalogPath: newCatalog("", "True")}, "it is not served yet", "kubectl describe"},
		"odd address":     {map[string]any{catalogPath: newCatalog("http://x/catalogs/c", "True")}, "is invalid", "kubectl describe"},
		"no right":        {map[string]any{catalogPath: newCatalog("https://catalogd-service.ns.svc:8443/catalogs/c", "True")}, "https:catalogd-service:8443", "services/proxy in the namespace ns"},
		"no authority":    {map[string]any{catalogPath: newCatalog("https://localhost:1/catalogs/c", "True")}, "catalogd-service-ca", "namespace of catalogd"},
		"no certificate": {map[string]any{
			catalogPath: newCatalog("https://localhost:1/catalogs/c", "True"),
			"/api/v1/namespaces/olmv1-system/configmaps/catalogd-service-ca": map[string]any{"data": map[string]any{"ca.crt": "x"}},
		}, "holds no certificate", "namespace of catalogd"},
		"no object": {map[string]any{catalogPath: "<html>"}, "reading the answer", "kubectl get"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := readNames(t, newFakeAPIServer(t, test.answers))
			var failed *report.Error
			if !errors.As(err, &failed) || !strings.Contains(err.Error(), test.want) || !strings.Contains(failed.Advice, test.advice) {
				t.Errorf("got error %v, advice %q", err, report.AdviceOf(err))
			}
		})
	}
}

func TestMetasTruncated(t *testing.T) {
	got, err := readNames(t, newFakeAPIServer(t, map[string]any{
		catalogPath: newCatalog("https://catalogd-service.ns.svc/catalogs/c", "True"),
		"/api/v1/namespaces/ns/services/https:catalogd-service:443/proxy/catalogs/c/api/v1/all": content[:len(content)-4],
	}))
	if err == nil || !strings.Contains(err.Error(), "clustercatalog/c") {
		t.Errorf("got names %v, error %v; want one that names the catalog", got, err)
	}
}
