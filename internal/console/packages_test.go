package console_test

import (
	"context"
	"encoding/pem"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/action/catalog/clusterhub"
	"github.com/mainstay-dev/mainstay/internal/action/catalog/hub"
	"github.com/mainstay-dev/mainstay/internal/console"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

const catalogBlobs = `{"schema":"olm.package","name":"argocd","defaultChannel":"stable","icon":{"base64data":"PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciPjxzY3JpcHQ+YWxlcnQoMSk8L3NjcmlwdD48L3N2Zz4=","mediatype":"image/svg+xml"}}
{"schema":"olm.channel","package":"argocd","name":"stable","entries":[{"name":"argocd.v1"}]}
{"schema":"olm.bundle","package":"argocd","name":"argocd.v1","image":"example.com/argocd:1","properties":[{"type":"olm.package","value":{"packageName":"argocd","version":"1.0.0"}},{"type":"olm.csv.metadata","value":{"displayName":"Argo CD","minKubeVersion":"1.99.0"}}]}
`

// serveCatalog serves a ClusterCatalog with blobs as catalogd outside of the cluster does. It returns its name and the number
// of times that it was read.
func (f *fixture) serveCatalog(blobs string) (string, *atomic.Int32) {
	f.T.Helper()
	reads := &atomic.Int32{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reads.Add(1)
		_, _ = w.Write([]byte(blobs))
	}))
	f.T.Cleanup(server.Close)

	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	f.EnsureNamespace(systemNamespace)
	ca := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: "catalogd-service-ca"}, Data: map[string]string{"ca.crt": string(authority)}}
	catalog := &olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{Name: f.namespace}}
	catalog.Spec.Source = olmv1.CatalogSource{Type: olmv1.SourceTypeImage, Image: &olmv1.ImageSource{Ref: "example.com/catalog:latest"}}
	f.CreateAll(ca, catalog)
	f.T.Cleanup(func() {
		for _, object := range []client.Object{ca, catalog} {
			f.Must(f.Delete(context.WithoutCancel(f.T.Context()), object))
		}
	})

	now := metav1.Now()
	catalog.Status.LastUnpacked = &now
	catalog.Status.URLs = &olmv1.ClusterCatalogURLs{Base: server.URL + "/catalogs/" + catalog.Name}
	digest := "example.com/catalog@sha256:" + strings.Repeat("a", 64)
	catalog.Status.ResolvedSource = &olmv1.ResolvedCatalogSource{Type: olmv1.SourceTypeImage, Image: &olmv1.ResolvedImageSource{Ref: digest}}
	catalog.Status.Conditions = []metav1.Condition{{Type: olmv1.TypeServing, Status: metav1.ConditionTrue, Reason: "Available", LastTransitionTime: now}}
	f.Must(f.Status().Update(f.T.Context(), catalog))
	return catalog.Name, reads
}

const tokenAuthBlobs = `{"schema":"olm.package","name":"kettle","defaultChannel":"stable"}
{"schema":"olm.channel","package":"kettle","name":"stable","entries":[{"name":"kettle.v1"}]}
{"schema":"olm.bundle","package":"kettle","name":"kettle.v1","image":"example.com/kettle:1","properties":[{"type":"olm.package","value":{"packageName":"kettle","version":"1.0.0"}},{"type":"olm.csv.metadata","value":{"annotations":{"features.operators.openshift.io/csi":"true","features.operators.openshift.io/token-auth-aws":"true","features.operators.openshift.io/token-auth-gcp":"true"}}}]}
`

// createCloudConfig creates the configuration of an OpenShift cluster on a cloud with short-lived credentials, and its kinds.
func (f *fixture) createCloudConfig(platform string) {
	f.T.Helper()
	f.Must(apiextensionsv1.AddToScheme(f.Scheme()))
	for _, kind := range []struct {
		group, plural, kind string
		fields              map[string]any
	}{
		{"config.openshift.io", "infrastructures", "Infrastructure", map[string]any{"status": map[string]any{"platformStatus": map[string]any{"type": platform}}}},
		{"config.openshift.io", "authentications", "Authentication", map[string]any{"spec": map[string]any{"serviceAccountIssuer": "https://issuer.example.com"}}},
		{"operator.openshift.io", "cloudcredentials", "CloudCredential", map[string]any{"spec": map[string]any{"credentialsMode": "Manual"}}},
	} {
		crd := builder.OpenCRD(kind.group, kind.plural, kind.kind)
		crd.Spec.Scope = apiextensionsv1.ClusterScoped
		crd.Annotations = map[string]string{"api-approved.kubernetes.io": "unapproved, for a test"}
		f.CreateForTest(crd)
		object := &unstructured.Unstructured{Object: kind.fields}
		object.SetAPIVersion(kind.group + "/v1")
		object.SetKind(kind.kind)
		object.SetName("cluster")
		f.Eventually(kind.kind+" exists", func() error { return client.IgnoreAlreadyExists(f.Create(f.T.Context(), object)) })
	}
}

// Short-lived credentials are a feature only on a cluster that uses those of the cloud, and for users who may read this.
func TestTokenAuthFeatures(t *testing.T) {
	f := newFixture(t, nil)
	catalog, _ := f.serveCatalog(tokenAuthBlobs)
	readCatalogs := []rbacv1.PolicyRule{
		{APIGroups: []string{"olm.operatorframework.io"}, Resources: []string{"clustercatalogs"}, Verbs: []string{"get", "list"}},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}},
	}
	readConfig := []rbacv1.PolicyRule{
		{APIGroups: []string{"config.openshift.io"}, Resources: []string{"infrastructures", "authentications"}, Verbs: []string{"get"}},
		{APIGroups: []string{"operator.openshift.io"}, Resources: []string{"cloudcredentials"}, Verbs: []string{"get"}},
	}
	admin := f.signIn(f.newUser("admin", "", slices.Concat(readCatalogs, readConfig)...))
	reader := f.signIn(f.newUser("reader", "", slices.Concat(readCatalogs, readConfig[:1])...))

	check := func(b *browser, what string, want ...string) {
		t.Helper()
		var result clusterhub.Packages
		env.EventuallyTrue(t, "reading the catalog", func() bool {
			result = clusterhub.Packages{}
			b.do(http.MethodGet, "/api/v1/packages", nil, &result)
			return slices.ContainsFunc(result.Items, func(p hub.PackageSummary) bool { return p.Catalog == catalog })
		}, nil)
		var details hub.PackageDetails
		b.do(http.MethodGet, "/api/v1/packages/"+catalog+"/kettle", nil, &details)
		at := slices.IndexFunc(result.Items, func(p hub.PackageSummary) bool { return p.Catalog == catalog })
		for where, got := range map[string][]string{"list": result.Items[at].Features, "details": details.Features, "version": details.Releases[0].Features} {
			if !slices.Equal(got, want) {
				t.Errorf("%s, %s: got the features %q, want %q", what, where, got, want)
			}
		}
		if len(result.Problems) > 0 && slices.ContainsFunc(result.Problems, func(p clusterhub.ListProblem) bool { return p.Kind != "packagemanifests" }) {
			t.Errorf("%s: got the problems %+v, want none of the configuration", what, result.Problems)
		}
	}
	const csi = "Container Storage Interface"
	check(admin, "a cluster without the kinds", csi)

	f.createCloudConfig("AWS")
	check(admin, "a cluster with short-lived credentials of AWS", csi, "Short-lived credentials (AWS)")
	check(reader, "a user who may not read the mode of credentials", csi)
	check(admin, "the administrator after the reader", csi, "Short-lived credentials (AWS)")
}

// Users see the packages of the catalogs that they may read. Content is read once with the rights of a user, and shared.
func TestPackages(t *testing.T) {
	f := newFixture(t, nil)
	catalog, reads := f.serveCatalog(catalogBlobs)
	path := "/api/v1/packages/" + catalog + "/argocd"
	seeCatalogs := rbacv1.PolicyRule{APIGroups: []string{"olm.operatorframework.io"}, Resources: []string{"clustercatalogs"}, Verbs: []string{"get", "list"}}
	readAuthority := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}}
	list := func(b *browser) (result clusterhub.Packages, state clusterhub.CatalogState) {
		t.Helper()
		env.EventuallyTrue(t, "reading the catalog", func() bool {
			result = clusterhub.Packages{}
			b.do(http.MethodGet, "/api/v1/packages", nil, &result)
			at := slices.IndexFunc(result.Catalogs, func(c clusterhub.CatalogState) bool { return c.Name == catalog })
			if at >= 0 {
				state = result.Catalogs[at]
			}
			return state.State != clusterhub.StateReading
		}, nil)
		return result, state
	}

	viewer := f.signIn(f.newUser("viewer", "", seeCatalogs))
	result, state := list(viewer)
	if state.State != clusterhub.StateUnavailable || !strings.Contains(state.Message, "forbidden") || len(result.Items) > 0 {
		t.Errorf("a user who may not read the authority of catalogd: got %+v", result)
	}

	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: f.namespace, Labels: map[string]string{corev1.LabelArchStable: "s390x"}}}
	f.CreateAll(node)
	t.Cleanup(func() { f.Must(f.Delete(context.WithoutCancel(t.Context()), node)) })
	seeNodes := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list"}}
	admin := f.signIn(f.newUser("admin", "", seeCatalogs, readAuthority, seeNodes))
	result, state = list(admin)
	if state.State != clusterhub.StateReady || len(result.Items) != 1 || result.Items[0].DisplayName != "Argo CD" {
		t.Fatalf("an administrator: got %+v, want the package of the catalog", result)
	}
	if got := result.Items[0].Refusal; !strings.Contains(got, "It needs Kubernetes 1.99.0 or later") {
		t.Errorf("got the refusal %q, want the Kubernetes version that the package needs", got)
	}

	if got := result.Items[0].OtherPlatform; !strings.Contains(got, "the nodes of this cluster have s390x") {
		t.Errorf("got the warning %q, want that no node has the architecture of the package", got)
	}

	for user, want := range map[*browser]map[string]int{admin: {catalog: 1}, f.signIn(f.newUser("counter", "")): {}} {
		var counts console.PackageCounts
		user.do(http.MethodGet, "/api/v1/package-counts", nil, &counts)
		if !maps.Equal(counts.Catalogs, want) {
			t.Errorf("got %v packages, want %v", counts.Catalogs, want)
		}
	}

	var details hub.PackageDetails
	viewer.do(http.MethodGet, path, nil, &details)
	if details.DisplayName != "Argo CD" || details.Refusal == "" || details.OtherPlatform != "" || len(details.Versions) != 1 || reads.Load() != 1 {
		t.Errorf("content that another user has read: got %+v after %d reads, want it once", details, reads.Load())
	}
	if got := viewer.send(viewer.newRequest(http.MethodGet, path+"-none", nil)); got.Code != http.StatusNotFound {
		t.Errorf("a package that does not exist: got %d %s, want 404", got.Code, got.Body)
	}

	stranger := f.signIn(f.newUser("stranger", ""))
	result, _ = list(stranger)
	if len(result.Items) > 0 || len(result.Catalogs) > 0 || len(result.Problems) == 0 || !result.Problems[0].Forbidden {
		t.Errorf("a user without rights: got %+v, want only the forbidden resources", result)
	}
	if got := stranger.send(stranger.newRequest(http.MethodGet, path, nil)); got.Code != http.StatusForbidden || strings.Contains(got.Body.String(), "Argo") {
		t.Errorf("a package of a catalog that the user may not read: got %d %s, want 403", got.Code, got.Body)
	}

	compressed := viewer.newRequest(http.MethodGet, "/api/v1/packages", nil)
	compressed.Header.Set("Accept-Encoding", "gzip")
	if got := viewer.send(compressed).Header().Get("Content-Encoding"); got != "gzip" {
		t.Errorf("got the encoding %q of a list, want gzip", got)
	}

	icon := viewer.send(viewer.newRequest(http.MethodGet, "/api/v1/icons/"+details.Icon, nil))
	if icon.Code != http.StatusOK || icon.Header().Get("Content-Type") != "image/svg+xml" || !strings.Contains(icon.Header().Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("got %d %v, want the icon with a policy that allows no script", icon.Code, icon.Header())
	}
	for target, want := range map[string]int{
		"/api/v1/icons/" + strings.Repeat("0", 64) + ".png": http.StatusNotFound,
		"/api/v1/icons/..%2f..%2fetc":                       http.StatusUnprocessableEntity,
		"/api/v1/packages/A%2Fb/argocd":                     http.StatusUnprocessableEntity,
		"/api/v1/packages/olm:hub/argocd/rights":            http.StatusUnprocessableEntity,
		"/api/v1/packages/" + catalog + "/none/rights":      http.StatusUnprocessableEntity,
	} {
		if got := viewer.send(viewer.newRequest(http.MethodGet, target, nil)); got.Code != want {
			t.Errorf("%s: got %d %s, want %d", target, got.Code, got.Body, want)
		}
	}
}
