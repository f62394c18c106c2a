package catalog_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/catalog"
	"github.com/mainstay-dev/mainstay/internal/catalog/controller/certify"
	"github.com/mainstay-dev/mainstay/internal/catalogclient"
	"github.com/mainstay-dev/mainstay/internal/catalogstore"
	"github.com/mainstay-dev/mainstay/internal/certificate"
	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
	"github.com/mainstay-dev/mainstay/internal/testing/ociregistry"
)

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

const text = `{"schema":"olm.package","name":"a","defaultChannel":"stable"}
{"schema":"olm.channel","package":"a","name":"stable","entries":[{"name":"a.v1"}]}
{"schema":"olm.bundle","package":"a","name":"a.v1","image":"example.com/a:v1"}
`

// replica is a replica of the component.
type replica struct {
	address, health, dir string
	stop                 func()
}

// freeAddress returns a loopback address with an unused port.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// newReplica returns a replica that does not run, and its options.
func newReplica(t *testing.T, namespace string, change func(*catalog.Options)) (*replica, catalog.Options) {
	t.Helper()
	r := &replica{address: freeAddress(t), health: freeAddress(t), dir: t.TempDir()}
	opts := catalog.Options{
		ExternalAddress: r.address, ListenAddress: r.address, CacheDir: r.dir, SystemNamespace: namespace,
		Puller: image.NewClient(image.Options{}),
	}
	if change != nil {
		change(&opts)
	}
	return r, opts
}

// start starts a replica.
func start(t *testing.T, namespace string, change func(*catalog.Options)) *replica {
	t.Helper()
	r, opts := newReplica(t, namespace, change)
	mgr, err := env.NewManager(env.Start(t), ctrl.Options{
		Scheme:                  env.Scheme(t, olmv1.AddToScheme, corev1.AddToScheme),
		HealthProbeBindAddress:  r.health,
		LeaderElection:          true,
		LeaderElectionID:        "catalogd",
		LeaderElectionNamespace: namespace,
		// The next replica becomes leader immediately, and leadership is not lost while the API server
		// restarts.
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 ptr.To(3 * time.Minute), RenewDeadline: ptr.To(2 * time.Minute),
	}, func(mgr ctrl.Manager) error { return catalog.Setup(mgr, opts) })
	if err != nil {
		t.Fatal(err)
	}

	r.stop = env.StartManager(t, mgr)
	return r
}

// createCatalog creates a namespace, a registry with a catalog image, and a ClusterCatalog for the image.
func createCatalog(t *testing.T, c client.Client) (namespace string, made *olmv1.ClusterCatalog) {
	t.Helper()
	name := strings.ToLower(t.Name())
	if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		t.Fatal(err)
	}

	ref := ociregistry.Start(t).Host + "/test/catalog:v1"
	ociregistry.Push(t, ref, image.CatalogSpec(fstest.MapFS{"a/catalog.json": {Data: []byte(text)}}))
	made = &olmv1.ClusterCatalog{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       olmv1.ClusterCatalogSpec{Source: olmv1.CatalogSource{Type: olmv1.SourceTypeImage, Image: &olmv1.ImageSource{Ref: ref}}},
	}
	if err := c.Create(t.Context(), made); err != nil {
		t.Fatal(err)
	}

	return name, made
}

// publishedAuthority returns a function that reads the certificate authority from the ConfigMap.
func publishedAuthority(c client.Client, namespace string) func(context.Context) (*x509.CertPool, error) {
	return func(ctx context.Context) (*x509.CertPool, error) {
		config := &corev1.ConfigMap{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: certify.ConfigMapName}, config); err != nil {
			return nil, err
		}

		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM([]byte(config.Data[certify.KeyCA])) {
			return nil, errors.New("no authority is published")
		}

		return pool, nil
	}
}

// readCatalog reads the package as a client, and returns an error if it is not served.
func readCatalog(t *testing.T, reader *catalogclient.Client, base string) error {
	content, err := reader.Content(t.Context(), base, "a")
	if err != nil {
		return err
	}
	if content.Package == nil || len(content.Bundles) != 1 {
		return errors.New("the package is not complete")
	}
	return nil
}

// checkReady requests /readyz of a replica.
func checkReady(t *testing.T, r *replica) error {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.health+"/readyz", nil)
	if err != nil {
		t.Fatal(err)
	}

	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("it is not ready: %s", resp.Status)
	}

	return nil
}

func TestAllReplicasServe(t *testing.T) {
	c := env.Client(t, olmv1.AddToScheme, corev1.AddToScheme)
	namespace, made := createCatalog(t, c)
	first, second := start(t, namespace, nil), start(t, namespace, nil)
	env.Eventually(t, "the catalog is served", func() error {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(made), made); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(made.Status.Conditions, olmv1.TypeServing) {
			return errors.New("it is not Serving")
		}
		return nil
	})

	reader := catalogclient.New(catalogclient.Options{RootCAs: publishedAuthority(c, namespace)})
	for _, r := range []*replica{first, second} {
		base := "https://" + r.address + "/catalogs/" + made.Name
		env.Eventually(t, "each replica serves", func() error { return readCatalog(t, reader, base) })
	}

	if base := made.Status.URLs.Base; !strings.HasPrefix(base, "https://"+first.address+"/") && !strings.HasPrefix(base, "https://"+second.address+"/") {
		t.Errorf("got base URL %s, want the address of a replica", base)
	}

	count := 0
	for _, err := range reader.All(t.Context(), made.Status.URLs.Base) {
		if err != nil {
			t.Fatal(err)
		}
		count++
	}

	if count != 3 {
		t.Errorf("%d blobs are served, want 3", count)
	}

	// Content that is deleted from the disk of a replica is restored.
	for _, r := range []*replica{first, second} {
		for _, folder := range []string{"catalogs", "content"} {
			if err := os.RemoveAll(filepath.Join(r.dir, folder)); err != nil {
				t.Fatal(err)
			}
		}
		base := "https://" + r.address + "/catalogs/" + made.Name
		if err := readCatalog(t, reader, base); err != nil {
			t.Errorf("got error %v while the folder is missing, want none", err)
		}
		env.Eventually(t, "the folder is restored", func() error {
			_, err := os.Stat(filepath.Join(r.dir, "catalogs", made.Name))
			return err
		})
	}

	if err := c.Delete(t.Context(), made); err != nil {
		t.Fatal(err)
	}

	for _, r := range []*replica{first, second} {
		env.Eventually(t, "the content is deleted", func() error {
			var unavailable *catalogclient.UnavailableError
			err := readCatalog(t, reader, "https://"+r.address+"/catalogs/"+made.Name)
			if errors.As(err, &unavailable) && unavailable.Status == 404 {
				return nil
			}
			return errors.New("it is still served")
		})
	}
}

// TestTheNextLeaderGoesOn stops the leader. The other replica, which has the content already, becomes the leader.
func TestTheNextLeaderGoesOn(t *testing.T) {
	c := env.Client(t, olmv1.AddToScheme, corev1.AddToScheme)
	namespace, made := createCatalog(t, c)
	key := client.ObjectKeyFromObject(made)
	first := start(t, namespace, nil)
	env.Eventually(t, "the first replica serves the catalog", func() error {
		if err := c.Get(t.Context(), key, made); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(made.Status.Conditions, olmv1.TypeServing) {
			return errors.New("it is not Serving")
		}
		return nil
	})

	second := start(t, namespace, nil)
	reader := catalogclient.New(catalogclient.Options{RootCAs: publishedAuthority(c, namespace)})
	env.Eventually(t, "the second replica is ready", func() error { return checkReady(t, second) })
	if err := readCatalog(t, reader, "https://"+second.address+"/catalogs/"+made.Name); err != nil {
		t.Errorf("got error %v from a ready replica, want the catalog", err)
	}

	unpacked := made.Status.LastUnpacked
	first.stop()

	// It reports its content without unpacking it again.
	env.Eventually(t, "the second replica is the leader", func() error {
		if err := c.Get(t.Context(), key, made); err != nil {
			return err
		}
		if made.Status.URLs == nil || !strings.HasPrefix(made.Status.URLs.Base, "https://"+second.address+"/") {
			return fmt.Errorf("the status is %+v", made.Status)
		}
		return nil
	})
	if !meta.IsStatusConditionTrue(made.Status.Conditions, olmv1.TypeServing) {
		t.Errorf("got status %+v, want Serving True", made.Status)
	}
	if made.Status.LastUnpacked.Before(unpacked) {
		t.Errorf("got last unpacked %v, want no time before %v", made.Status.LastUnpacked, unpacked)
	}

	made.Spec.AvailabilityMode = olmv1.AvailabilityModeUnavailable
	if err := c.Update(t.Context(), made); err != nil {
		t.Fatal(err)
	}

	env.Eventually(t, "the second replica stops serving the catalog", func() error {
		if err := c.Get(t.Context(), key, made); err != nil {
			return err
		}
		if len(made.Finalizers) > 0 || made.Status.URLs != nil {
			return fmt.Errorf("the catalog is %+v", made)
		}
		return nil
	})
}

// deadRegistry starts a listener that accepts connections and never responds.
func deadRegistry(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
		}
	}()

	return listener.Addr().String()
}

// TestDeadRegistriesDelayNoOtherCatalog creates ten catalogs whose registries never respond and a valid one, and
// checks that the leader and another replica serve the valid one.
func TestDeadRegistriesDelayNoOtherCatalog(t *testing.T) {
	c := env.Client(t, olmv1.AddToScheme, corev1.AddToScheme)
	var dead []*olmv1.ClusterCatalog
	for i := range 10 {
		catalog := &olmv1.ClusterCatalog{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("a-dead-registry-%d", i)},
			Spec: olmv1.ClusterCatalogSpec{Source: olmv1.CatalogSource{
				Type: olmv1.SourceTypeImage, Image: &olmv1.ImageSource{Ref: deadRegistry(t) + "/test/catalog:v1"},
			}},
		}
		if err := c.Create(t.Context(), catalog); err != nil {
			t.Fatal(err)
		}
		dead = append(dead, catalog)
	}

	namespace, made := createCatalog(t, c)
	// This is less than the timeout of two minutes for a registry that does not respond.
	first, second := start(t, namespace, nil), start(t, namespace, nil)
	reader := catalogclient.New(catalogclient.Options{RootCAs: publishedAuthority(c, namespace)})
	for _, r := range []*replica{first, second} {
		env.Eventually(t, "the valid catalog is served", func() error {
			return readCatalog(t, reader, "https://"+r.address+"/catalogs/"+made.Name)
		})
	}

	// They do not block their own deletion or a change to another image either.
	better := dead[0].DeepCopy()
	better.Spec.Source.Image.Ref = made.Spec.Source.Image.Ref
	if err := c.Patch(t.Context(), better, client.MergeFrom(dead[0])); err != nil {
		t.Fatal(err)
	}

	env.Eventually(t, "the catalog with the corrected image is served", func() error {
		return readCatalog(t, reader, "https://"+second.address+"/catalogs/"+better.Name)
	})
	for _, catalog := range append(dead, made) {
		if err := c.Delete(t.Context(), catalog); err != nil {
			t.Fatal(err)
		}
	}

	env.Eventually(t, "the catalogs are deleted", func() error {
		list := &olmv1.ClusterCatalogList{}
		if err := c.List(t.Context(), list); err != nil {
			return err
		}
		for i := range list.Items {
			if name := list.Items[i].Name; strings.HasPrefix(name, "a-dead-registry-") || name == made.Name {
				return fmt.Errorf("catalog %s is left", name)
			}
		}
		return nil
	})
}

// TestCertificateFilesAreReadAgain replaces the certificate files while the server runs.
func TestCertificateFilesAreReadAgain(t *testing.T) {
	c := env.Client(t, olmv1.AddToScheme, corev1.AddToScheme)
	namespace, made := createCatalog(t, c)
	dir := t.TempDir()
	opts := catalog.Options{TLSCertFile: filepath.Join(dir, "tls.crt"), TLSKeyFile: filepath.Join(dir, "tls.key")}
	// write issues a certificate and returns its authority.
	write := func() []byte {
		t.Helper()
		authority, err := certificate.NewAuthority("test", time.Hour, time.Now())
		if err != nil {
			t.Fatal(err)
		}

		issued, err := authority.Issue([]string{"127.0.0.1"}, time.Hour, time.Now())
		if err != nil {
			t.Fatal(err)
		}

		key, err := issued.KeyPEM()
		if err != nil {
			t.Fatal(err)
		}

		// Each file is replaced atomically, like the files of a mounted Secret.
		for name, text := range map[string][]byte{opts.TLSKeyFile: key, opts.TLSCertFile: issued.CertificatePEM()} {
			if err := errors.Join(os.WriteFile(name+".new", text, 0o600), os.Rename(name+".new", name)); err != nil {
				t.Fatal(err)
			}
		}

		return authority.CertificatePEM()
	}

	trusted := write()
	r := start(t, namespace, func(o *catalog.Options) { o.TLSCertFile, o.TLSKeyFile = opts.TLSCertFile, opts.TLSKeyFile })
	serves := func() error {
		reader := catalogclient.New(catalogclient.Options{RootCAs: func(context.Context) (*x509.CertPool, error) {
			pool := x509.NewCertPool()
			pool.AppendCertsFromPEM(trusted)
			return pool, nil
		}})
		return readCatalog(t, reader, "https://"+r.address+"/catalogs/"+made.Name)
	}

	env.Eventually(t, "the catalog is served", serves)
	trusted = write()
	env.Eventually(t, "the renewed certificate is served", serves)
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: certify.SecretName}, &corev1.Secret{}); err == nil {
		t.Error("got a Secret although certificate files are configured, want none")
	}
}

func TestACertificateInMemory(t *testing.T) {
	c := env.Client(t, olmv1.AddToScheme, corev1.AddToScheme)
	namespace, made := createCatalog(t, c)
	memory, err := certify.NewInMemoryCertificate([]string{"127.0.0.1"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}

	stale := t.TempDir()
	earlier, err := catalogstore.Open(stale, catalogstore.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := earlier.Unpack(t.Context(), "gone", catalogstore.Source{}, fstest.MapFS{"c.json": {Data: []byte(text)}}); err != nil {
		t.Fatal(err)
	}

	earlier.Close()
	r := start(t, namespace, func(o *catalog.Options) { o.InMemoryCertificate, o.CacheDir = memory, stale })
	reader := catalogclient.New(catalogclient.Options{RootCAs: func(context.Context) (*x509.CertPool, error) {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(memory.CA())
		return pool, nil
	}})
	env.Eventually(t, "the catalog is served", func() error {
		return readCatalog(t, reader, "https://"+r.address+"/catalogs/"+made.Name)
	})
	env.Eventually(t, "leftover content of a deleted catalog is removed", func() error {
		if _, err := os.Stat(filepath.Join(stale, "catalogs", "gone")); !errors.Is(err, os.ErrNotExist) {
			return errors.New("it is still there")
		}
		return nil
	})
	if _, err := os.Stat(filepath.Join(stale, "catalogs", made.Name)); err != nil {
		t.Errorf("got error %v for the content of an existing catalog, want it to remain", err)
	}

	r.stop()
	if err := c.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: certify.SecretName}}); err == nil {
		t.Error("got a Secret for an in-memory certificate, want none")
	}
}

func TestOptions(t *testing.T) {
	for name, test := range map[string]struct {
		opts catalog.Options
		want string
	}{
		"no puller":     {catalog.Options{}, "no image puller is set"},
		"half a pair":   {catalog.Options{Puller: image.NewClient(image.Options{}), TLSKeyFile: "x"}, "must be set together"},
		"two of a kind": {catalog.Options{Puller: image.NewClient(image.Options{}), TLSKeyFile: "x", TLSCertFile: "y", InMemoryCertificate: &certify.InMemoryCertificate{}}, "set one of them"},
	} {
		if err := catalog.Setup(nil, test.opts); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error is %v, want %q", name, err, test.want)
		}
	}

	hosts := strings.Join(catalog.Options{ExternalAddress: "catalogs.example:8443", SystemNamespace: "ns"}.Hosts(), " ")
	if want := "catalogd-service catalogd-service.ns catalogd-service.ns.svc catalogd-service.ns.svc.cluster.local catalogs.example"; hosts != want {
		t.Errorf("hosts are %s, want %s", hosts, want)
	}
}
