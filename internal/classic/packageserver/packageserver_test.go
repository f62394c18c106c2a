package packageserver_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	operatorsv1alpha1 "github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	packagesv1 "github.com/mainstay-dev/mainstay/api/packages/v1"
	"github.com/mainstay-dev/mainstay/internal/classic/packageserver"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
	"github.com/mainstay-dev/mainstay/internal/testing/protocol"
)

// simple is a package with one version.
func simple(name, version string) string {
	return fmt.Sprintf(`schema: olm.package
name: %[1]s
defaultChannel: stable
---
schema: olm.channel
package: %[1]s
name: stable
entries: [{name: %[1]s.v%[2]s}]
---
schema: olm.bundle
package: %[1]s
name: %[1]s.v%[2]s
image: registry.example.com/%[1]s@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
properties:
- {type: olm.package, value: {packageName: %[1]s, version: %[2]s}}
- {type: olm.csv.metadata, value: {displayName: "%[1]s for all", provider: {name: Example}}}
`, name, version)
}

// Packages are listed once their catalog is read, in its namespace, or in all namespaces for global ones,
// and are deleted with it.
func TestPackagesFollowTheirCatalogs(t *testing.T) {
	f := newFixture(t)
	other := newFixture(t)
	own, _ := serveCatalog(t, folderOf(t, simple("lemon", "1.0.0"), simple("apple", "1.2.0")))
	global, _ := serveCatalog(t, folderOf(t, simple("pear", "0.1.0"), simple("apple", "2.0.0")))
	mine := f.catalog(f.namespace, "mine", own)
	all := f.catalog(f.global, "everybodys", global)
	f.untilPackages(f.namespace, "mine/apple", "mine/lemon", "everybodys/apple", "everybodys/pear")
	other.untilPackages(other.namespace, "everybodys/apple", "everybodys/pear")

	if err := f.client.Delete(t.Context(), mine); err != nil {
		t.Fatal(err)
	}

	f.untilPackages(f.namespace, "everybodys/apple", "everybodys/pear")
	if err := f.client.Delete(t.Context(), all); err != nil {
		t.Fatal(err)
	}

	f.untilPackages(f.namespace)
}

// The responses of the API server have what clients of the kind expect: names, labels, the requested
// namespace, selectors, and the first of several packages with the same name.
func TestPackagesThroughTheAPIServer(t *testing.T) {
	f := newFixture(t)
	one, _ := serveCatalog(t, folderOf(t, simple("plum", "1.0.0"), simple("melon", "1.2.0")))
	two, _ := serveCatalog(t, folderOf(t, simple("plum", "2.0.0")))
	f.catalog(f.namespace, "low", one)
	high := f.catalog(f.namespace, "preferred", two, func(s *operatorsv1alpha1.CatalogSource) {
		s.Spec.Priority = 5
		s.Labels = map[string]string{"team": "fruit"}
	})
	f.untilPackages(f.namespace, "preferred/plum", "low/melon", "low/plum")

	got := &packagesv1.PackageManifest{}
	if err := f.client.Get(t.Context(), client.ObjectKey{Namespace: f.namespace, Name: "plum"}, got); err != nil {
		t.Fatal(err)
	}

	want := &packagesv1.PackageManifest{
		ObjectMeta: metav1.ObjectMeta{
			Name: "plum", Namespace: f.namespace, CreationTimestamp: high.CreationTimestamp, ResourceVersion: got.ResourceVersion,
			Labels: map[string]string{
				"catalog": "preferred", "catalog-namespace": f.namespace, "provider": "Example", "provider-url": "", "team": "fruit",
				"operatorframework.io/os.linux": "supported", "operatorframework.io/arch.amd64": "supported",
			},
		},
		Status: packagesv1.PackageManifestStatus{
			CatalogSource: "preferred", CatalogSourceDisplayName: "The preferred", CatalogSourcePublisher: "Someone", CatalogSourceNamespace: f.namespace,
			PackageStatus: packagesv1.PackageStatus{
				PackageName: "plum", Provider: operatorsv1alpha1.AppLink{Name: "Example"}, DefaultChannel: "stable",
				Channels: []packagesv1.PackageChannel{{
					Name: "stable", CurrentCSV: "plum.v2.0.0", Entries: []packagesv1.ChannelEntry{{Name: "plum.v2.0.0", Version: "2.0.0"}},
					CurrentCSVDesc: packagesv1.CSVDescription{DisplayName: "plum for all", Version: "2.0.0", Provider: operatorsv1alpha1.AppLink{Name: "Example"}},
				}},
			},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("plum (-want +got):\n%s", diff)
	}

	for name, of := range map[string]struct {
		options []client.ListOption
		want    []string
	}{
		"by catalog":                    {[]client.ListOption{client.MatchingLabels{"catalog": "low"}}, []string{"low/melon", "low/plum"}},
		"by catalog and name":           {[]client.ListOption{client.MatchingLabels{"catalog": "low"}, client.MatchingFields{"metadata.name": "plum"}}, []string{"low/plum"}},
		"by name":                       {[]client.ListOption{client.MatchingFields{"metadata.name": "plum"}}, []string{"preferred/plum", "low/plum"}},
		"by a label of a CatalogSource": {[]client.ListOption{client.MatchingLabels{"team": "fruit"}}, []string{"preferred/plum"}},
		"by a label of no package":      {[]client.ListOption{client.MatchingLabels{"catalog": "none"}}, nil},
	} {
		if diff := cmp.Diff(of.want, f.packages(f.namespace, of.options...)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}

	err := f.client.List(t.Context(), &packagesv1.PackageManifestList{}, client.InNamespace(f.namespace), client.MatchingFields{"status.packageName": "plum"})
	if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "field label not supported: status.packageName") {
		t.Errorf("an unsupported field selector: got error %v", err)
	}
	if err := f.client.Get(t.Context(), client.ObjectKey{Namespace: f.namespace, Name: "cherry"}, got); !apierrors.IsNotFound(err) {
		t.Errorf("a package that does not exist: got error %v", err)
	}
	if err := f.client.Delete(t.Context(), got); !apierrors.IsMethodNotSupported(err) {
		t.Errorf("deleting a package: got error %v", err)
	}

	// All namespaces: each package in that of its catalog.
	var list packagesv1.PackageManifestList
	if err := f.client.List(t.Context(), &list, client.MatchingLabels{"catalog-namespace": f.namespace}); err != nil {
		t.Fatal(err)
	}

	for i := range list.Items {
		if list.Items[i].Namespace != f.namespace {
			t.Errorf("got %s in namespace %q in the list of all namespaces", list.Items[i].Name, list.Items[i].Namespace)
		}
	}

	if len(list.Items) != 3 {
		t.Errorf("got %d of its packages in the list of all namespaces", len(list.Items))
	}
}

// The packages of a catalog disappear while the catalog cannot be reached.
func TestUnavailableCatalogs(t *testing.T) {
	f := newFixture(t)
	folder := folderOf(t, simple("grape", "1.0.0"))
	address, stop := serveCatalog(t, folder)
	catalog := f.catalog(f.namespace, "moving", address)
	f.untilPackages(f.namespace, "moving/grape")
	stop()
	f.untilPackages(f.namespace)

	if err := os.WriteFile(filepath.Join(folder, "more.yaml"), []byte(simple("fig", "0.0.1")), 0o600); err != nil {
		t.Fatal(err)
	}

	back, _ := serveCatalog(t, folder)
	if err := f.client.Get(t.Context(), client.ObjectKeyFromObject(catalog), catalog); err != nil {
		t.Fatal(err)
	}

	catalog.Spec.Address = back
	if err := f.client.Update(t.Context(), catalog); err != nil {
		t.Fatal(err)
	}

	f.untilPackages(f.namespace, "moving/fig", "moving/grape")

	// The catalog is no longer served.
	catalog.Status.RegistryServiceStatus = nil
	if err := f.client.Status().Update(t.Context(), catalog); err != nil {
		t.Fatal(err)
	}

	f.untilPackages(f.namespace)
}

// Changes of a catalog change the labels and fields of its packages.
func TestDisplayNameChange(t *testing.T) {
	f := newFixture(t)
	address, _ := serveCatalog(t, folderOf(t, simple("quince", "1.0.0")))
	catalog := f.catalog(f.namespace, "named", address)
	f.untilPackages(f.namespace, "named/quince")
	catalog.Spec.DisplayName, catalog.Labels = "Another name", map[string]string{"season": "autumn"}
	if err := f.client.Update(t.Context(), catalog); err != nil {
		t.Fatal(err)
	}

	until(t, "the new name is shown", func() (bool, string) {
		var p packagesv1.PackageManifest
		if err := f.client.Get(t.Context(), client.ObjectKey{Namespace: f.namespace, Name: "quince"}, &p); err != nil {
			return false, err.Error()
		}
		return p.Status.CatalogSourceDisplayName == "Another name" && p.Labels["season"] == "autumn", p.Status.CatalogSourceDisplayName
	})
}

// A watch reports the packages that are added, modified and deleted after a list.
func TestWatch(t *testing.T) {
	f := newFixture(t)
	watching, err := client.NewWithWatch(f.config, client.Options{Scheme: env.Scheme(t, packagesv1.AddToScheme)})
	if err != nil {
		t.Fatal(err)
	}

	var events watch.Interface
	until(t, "a watch begins where a list ended", func() (bool, string) {
		var list packagesv1.PackageManifestList
		if err := watching.List(t.Context(), &list, client.InNamespace(f.namespace)); err != nil {
			t.Fatal(err)
		}

		events, err = watching.Watch(t.Context(), &packagesv1.PackageManifestList{}, client.InNamespace(f.namespace),
			&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
		if err != nil && !apierrors.IsResourceExpired(err) { // Catalogs of other tests are deleted at the same time.
			t.Fatal(err)
		}

		return err == nil, fmt.Sprint(err)
	})

	defer events.Stop()
	address, stop := serveCatalog(t, folderOf(t, simple("olive", "1.0.0")))
	f.catalog(f.namespace, "watched", address)
	next := func(want watch.EventType) *packagesv1.PackageManifest {
		t.Helper()
		select {
		case event := <-events.ResultChan():
			if event.Type != want {
				t.Fatalf("%s: %v", event.Type, event.Object)
			}
			return event.Object.(*packagesv1.PackageManifest)
		case <-time.After(env.WaitTimeout):
			t.Fatalf("got no event of type %s", want)
			return nil
		}
	}
	if p := next(watch.Added); p.Name != "olive" || p.Namespace != f.namespace {
		t.Errorf("%s/%s is added", p.Namespace, p.Name)
	}

	stop()
	if p := next(watch.Deleted); p.Name != "olive" {
		t.Errorf("%s is deleted", p.Name)
	}

	_, err = watching.Watch(t.Context(), &packagesv1.PackageManifestList{}, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "12345"}})
	if !apierrors.IsResourceExpired(err) {
		t.Errorf("an unknown resource version: got error %v", err)
	}
}

// An informer always has the packages that exist.
func TestInformers(t *testing.T) {
	f := newFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	known, err := cache.New(f.config, cache.Options{
		Scheme: env.Scheme(t, packagesv1.AddToScheme), DefaultNamespaces: map[string]cache.Config{f.namespace: {}},
	})
	if err != nil {
		t.Fatal(err)
	}

	ended := make(chan error, 1)
	go func() { ended <- known.Start(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()

	keeps := func(want ...string) {
		t.Helper()
		until(t, fmt.Sprintf("the informer keeps %q", want), func() (bool, string) {
			var list packagesv1.PackageManifestList
			if err := known.List(ctx, &list); err != nil {
				return false, err.Error()
			}

			var names []string
			for i := range list.Items {
				names = append(names, list.Items[i].Name)
			}

			slices.Sort(names)
			return slices.Equal(names, want), fmt.Sprint(names)
		})
	}

	keeps()
	address, stop := serveCatalog(t, folderOf(t, simple("date", "1.0.0"), simple("lime", "1.0.0")))
	f.catalog(f.namespace, "kept", address)
	keeps("date", "lime")
	stop()
	keeps()
}

// get sends a request to the package server directly.
func get(t *testing.T, config *rest.Config, token, path string) (int, string) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}}
	if config != nil {
		pair, err := tls.X509KeyPair(config.CertData, config.KeyData)
		if err != nil {
			t.Fatal(err)
		}
		transport.TLSClientConfig.Certificates = []tls.Certificate{pair}
	}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+serving.address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}

	// These headers are not accepted without the certificate of the API server.
	request.Header.Set("X-Remote-User", "admin")
	request.Header.Set("X-Remote-Group", "system:masters")
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}

	return answer.StatusCode, string(body)
}

// The server authenticates its clients, and requests their permissions from the cluster.
func TestAccess(t *testing.T) {
	f := newFixture(t)
	list := "/apis/packages.operators.coreos.com/v1/namespaces/" + f.namespace + "/packagemanifests"
	cluster, err := kubernetes.NewForConfig(f.config)
	if err != nil {
		t.Fatal(err)
	}

	f.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "reader"}})
	token, err := cluster.CoreV1().ServiceAccounts(f.namespace).CreateToken(t.Context(), "reader", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}

	until(t, "the server is ready", func() (bool, string) {
		code, body := get(t, nil, "", "/readyz")
		return code == 200, body
	})
	for name, of := range map[string]struct {
		config      *rest.Config
		token, path string
		code        int
	}{
		"health, by anyone":                    {path: "/healthz", code: 200},
		"readiness, by anyone":                 {path: "/readyz", code: 200},
		"packages, by anyone":                  {path: list, code: 401},
		"discovery, by anyone":                 {path: "/apis", code: 401},
		"with an invalid token":                {token: "nonsense", path: list, code: 401},
		"with a token, not allowed":            {token: token.Status.Token, path: list, code: 403},
		"an administrator, by the certificate": {config: f.config, path: list, code: 200},
	} {
		if code, body := get(t, of.config, of.token, of.path); code != of.code {
			t.Errorf("%s: %d %s", name, code, body)
		}
	}

	f.create(&rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "packages"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{packagesv1.GroupVersion.Group}, Resources: []string{"packagemanifests"}, Verbs: []string{"get", "list"}}},
	})
	f.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "packages"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "packages"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: f.namespace, Name: "reader"}},
	})
	until(t, "the reader may list", func() (bool, string) {
		code, body := get(t, nil, token.Status.Token, list)
		return code == 200, body
	})
}

// A second replica, and one that was restarted, return the same packages in the same resource version as the first.
func TestReplicas(t *testing.T) {
	f := newFixture(t)
	address, _ := serveCatalog(t, folderOf(t, simple("kiwi", "1.0.0")))
	f.catalog(f.namespace, "shared", address)
	f.untilPackages(f.namespace, "shared/kiwi")
	second, stop, err := start(t, env.ConnectAs(t, accountNamespace, accountName), packageserver.Options{GlobalNamespace: globalNamespace})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	first := serving.address
	defer func() { serving.address = first }()
	path := "/apis/packages.operators.coreos.com/v1/packagemanifests?labelSelector=catalog-namespace%3D" + f.namespace
	serving.address = second
	until(t, "the second is ready", func() (bool, string) {
		code, body := get(t, nil, "", "/readyz")
		return code == 200, body
	})
	// Catalogs of other tests are deleted at the same time, on one replica before the other.
	until(t, "both say the same", func() (bool, string) {
		serving.address = first
		_, one := get(t, f.config, "", path)
		serving.address = second
		_, two := get(t, f.config, "", path)

		return one == two && strings.Contains(one, "kiwi"), "the first says:\n" + one + "\nthe second says:\n" + two
	})
}

// The configuration of the cluster is applied at once: catalogs are read again after the interval, and
// not before.
func TestInterval(t *testing.T) {
	f := newFixture(t)
	fake := &fakeCatalog{names: []string{"first"}}
	catalog := f.catalog(f.namespace, "changing", serveFake(t, fake))
	f.untilPackages(f.namespace, "changing/first")
	fake.set("first", "second")
	read := fake.reads()
	polled := metav1.Now()
	catalog.Status.LatestImageRegistryPoll = &polled
	if err := f.client.Status().Update(t.Context(), catalog); err != nil {
		t.Fatal(err)
	}

	catalog.Labels = map[string]string{"looked-at": "again"}
	if err := f.client.Update(t.Context(), catalog); err != nil {
		t.Fatal(err)
	}

	until(t, "the catalog was looked at", func() (bool, string) {
		found := f.packages(f.namespace, client.MatchingLabels{"looked-at": "again"})
		return len(found) > 0, fmt.Sprint(found)
	})
	if now := fake.reads(); now != read {
		t.Errorf("an unchanged catalog: got %d reads, want 0", now-read)
	}

	config := &operatorsv1.OLMConfig{ObjectMeta: metav1.ObjectMeta{Name: operatorsv1.OLMConfigName}}
	config.Spec.Features = &operatorsv1.Features{PackageServerSyncInterval: &metav1.Duration{Duration: time.Second}}
	f.create(config)
	f.t.Cleanup(func() {
		if err := f.client.Delete(context.Background(), config); err != nil {
			t.Error(err)
		}
	})
	f.untilPackages(f.namespace, "changing/first", "changing/second")
	if fake.reads() <= read {
		t.Error("the catalog was not read")
	}
}

// The API server opens another connection beyond the limit of concurrent requests.
func TestRequestsOfAConnectionAreLimited(t *testing.T) {
	newFixture(t)
	if got, want := protocol.MaxConcurrentStreams(t, serving.address), uint32(100); got != want {
		t.Errorf("got a limit of %d requests, want %d", got, want)
	}
}
