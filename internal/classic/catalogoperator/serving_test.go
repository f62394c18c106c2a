package catalogoperator_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/catalogstore"
	"github.com/mainstay-dev/mainstay/internal/classic/catalogoperator"
	"github.com/mainstay-dev/mainstay/internal/classic/dial"
	"github.com/mainstay-dev/mainstay/internal/classic/registry"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/content"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/registrypb"
	registries "github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
	"github.com/mainstay-dev/mainstay/internal/testing/ociregistry"
)

// servedFixture runs catalog-operator in one of its modes, with an OCI registry.
type servedFixture struct {
	*fixture
	// image is the reference of the catalog's image. It does not exist before the first publish.
	image string
	// publish makes the reference point to a catalog with one package.
	publish func(pkg string)
	// network replaces the Services of a cluster.
	network dial.Proxy
	// options are those of catalog-operator.
	options catalogoperator.Options
	// closeRegistry stops the registry of the image, for catalogs that are served inline.
	closeRegistry func()
	// puller is the client of that registry.
	puller *registries.Client
}

// forEachServingMode runs a test in both modes.
func forEachServingMode(t *testing.T, test func(t *testing.T, f *servedFixture)) {
	t.Helper()
	t.Run("pods", func(t *testing.T) { test(t, newPodsFixture(t)) })
	t.Run("inline", func(t *testing.T) { test(t, newInlineFixture(t)) })
}

// packageCatalog is a file-based catalog with one package.
func packageCatalog(name string) string {
	return "{schema: olm.package, name: " + name + ", defaultChannel: stable}\n---\n" +
		"{schema: olm.channel, package: " + name + ", name: stable, entries: [{name: " + name + ".v1.0.0}]}\n---\n" +
		"{schema: olm.bundle, package: " + name + ", name: " + name + ".v1.0.0, image: example.com/" + name + ":v1, properties: [{type: olm.package, value: {packageName: " + name + ", version: 1.0.0}}]}\n"
}

// newInlineFixture runs catalog-operator without pods of catalogs.
func newInlineFixture(t *testing.T) *servedFixture {
	t.Helper()
	server := ociregistry.Start(t)
	puller := registries.NewClient(registries.Options{Insecure: true})
	store, err := catalogstore.Open(t.TempDir(), catalogstore.Limits{})
	if err != nil {
		t.Fatal(err)
	}

	listening := make(chan string, 1)
	s := &servedFixture{closeRegistry: server.Close, puller: puller, image: server.Host + "/test/catalog:v1"}
	s.options = catalogoperator.Options{Inline: &catalogoperator.InlineOptions{
		Store: store.Partition("classic"), IndexDir: t.TempDir(), BindAddress: "127.0.0.1:0", Host: "catalogs.olm.svc.cluster.local",
		OnListening: func(a net.Addr) { listening <- a.String() },
		Registries:  func(context.Context, ...client.ObjectKey) (*registries.Client, error) { return puller, nil },
	}}
	s.fixture = newFixture(t, s.options)
	s.network = newServiceNetwork(t, <-listening)
	s.publish = func(pkg string) { pushCatalog(t, puller, s.image, packageCatalog(pkg)) }

	return s
}

// pushCatalog pushes a catalog image.
func pushCatalog(t *testing.T, puller *registries.Client, reference, text string) {
	t.Helper()
	built, err := registries.Build(registries.CatalogSpec(fstest.MapFS{"catalog.yaml": {Data: []byte(text)}}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := puller.Push(t.Context(), reference, nil, built); err != nil {
		t.Fatal(err)
	}
}

// podNode runs the pods of catalogs: it sets their status and serves the content of the published image.
type podNode struct {
	*fixture
	address string

	mu        sync.Mutex
	published string
	stop      func()
}

// newPodsFixture runs catalog-operator with pods of catalogs.
func newPodsFixture(t *testing.T) *servedFixture {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	node := &podNode{address: listener.Addr().String()}
	_ = listener.Close() // Nothing answers before the image is published.
	s := &servedFixture{image: "quay.io/example/catalog:v1", network: newServiceNetwork(t, node.address), publish: node.publish}
	s.fixture = newFixture(t, catalogoperator.Options{Proxy: s.network})
	node.fixture = s.fixture
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { node.runPods(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		node.stopServer()
	})

	return s
}

func (n *podNode) stopServer() {
	if n.stop != nil {
		n.stop()
	}
}

// publish serves a catalog with one package instead of the previous one.
func (n *podNode) publish(pkg string) {
	n.T.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stopServer()
	dir := n.T.TempDir()
	n.Must(os.WriteFile(filepath.Join(dir, "catalog.yaml"), []byte(packageCatalog(pkg)), 0o600))
	ctx, cancel := context.WithCancel(context.Background())
	server := &registry.Server{Source: content.Folder{Dir: dir}, Address: n.address, ShutdownTimeout: time.Millisecond, Log: slog.New(slog.DiscardHandler)}
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	n.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			n.T.Errorf("the catalog ended: %v", err)
		}
	})
	n.published = pkg
}

// runPods sets the status of new pods until the context ends.
func (n *podNode) runPods(ctx context.Context) {
	for ctx.Err() == nil {
		var pods corev1.PodList
		_ = n.List(ctx, &pods, client.InNamespace(n.namespace)) // The next attempt follows.
		n.mu.Lock()
		published := n.published
		n.mu.Unlock()
		for i := range pods.Items {
			pod := &pods.Items[i]
			if pod.Status.Phase == corev1.PodRunning || !pod.DeletionTimestamp.IsZero() {
				continue
			}
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
				Name: "registry-server", Image: pod.Spec.Containers[0].Image, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}},
			}}
			if published != "" {
				pod.Status.Phase = corev1.PodRunning
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
				pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "registry-server", ImageID: "sha256:" + published, Ready: true}}
			}
			_ = n.Status().Update(ctx, pod) // The next attempt follows.
		}

		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// polledImage returns a spec whose image is polled every second.
func polledImage(reference string) v1alpha1.CatalogSourceSpec {
	spec := image(reference)
	spec.UpdateStrategy = &v1alpha1.UpdateStrategy{RegistryPoll: &v1alpha1.RegistryPoll{Interval: "1s"}}
	return spec
}

// waitForPackages waits until a client in the cluster, such as package-server, reads the packages of a catalog.
func (s *servedFixture) waitForPackages(catalog *v1alpha1.CatalogSource, want ...string) {
	s.T.Helper()
	pool := dial.New(dial.Options{Proxy: s.network})
	defer pool.Close()
	key := types.NamespacedName{Namespace: catalog.Namespace, Name: catalog.Name}
	s.Must(pool.Set(key, catalog.Address()))
	s.eventually(func() error {
		served, ok := pool.Client(key)
		if !ok {
			return errors.New("the catalog is not in the pool")
		}
		stream, err := served.ListPackages(s.T.Context(), &registrypb.ListPackageRequest{})
		if err != nil {
			return err
		}
		var got []string
		for {
			p, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
			got = append(got, p.GetName())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("packages (-want +got):\n%s", diff)
		}
		return nil
	})
}

// TestServing checks what clients see of a catalog, from its creation to its deletion.
func TestServing(t *testing.T) {
	forEachServingMode(t, func(t *testing.T, f *servedFixture) {
		f.publish("etcd")
		catalog := f.catalog("my.catalog", image(f.image))
		f.waitForState(catalog, "READY")
		f.waitForReason(catalog, "", is(""))
		f.waitForMetric("catalogsource_ready", catalog, 1)
		if got, want := catalog.Status.GRPCConnectionState.Address, "my-catalog."+f.namespace+".svc:50051"; got != want {
			t.Errorf("got the address %s, want %s", got, want)
		}

		service := catalog.Status.RegistryServiceStatus
		if service.Protocol != "grpc" || service.ServiceName != "my-catalog" || service.ServiceNamespace != f.namespace || service.Port != "50051" || service.CreatedAt.IsZero() {
			t.Errorf("the Service in the status is %+v", service)
		}
		for _, object := range []client.Object{named(&corev1.Service{}, "my-catalog"), named(&networkingv1.NetworkPolicy{}, "my.catalog-unpack-bundles")} {
			object.SetNamespace(f.namespace)
			f.Must(f.get(object))
			if owner := metav1.GetControllerOf(object); owner == nil || owner.UID != catalog.UID {
				t.Errorf("%T is owned by %v, want the catalog", object, owner)
			}
		}

		f.waitForPackages(catalog, "etcd")
		f.eventually(func() error { // until the node writes nothing either
			for _, pod := range f.pods("olm.catalogSource", "my.catalog") {
				if pod.Status.Phase != corev1.PodRunning {
					return fmt.Errorf("pod %s is not running yet", pod.Name)
				}
			}
			return nil
		})
		f.expectNoWrites(catalog)
		f.Must(f.Delete(t.Context(), catalog))
		f.eventually(func() error { return f.isDeleted(catalog) })
		f.waitForMetricRemoved("catalogsource_ready", catalog)
	})
}

// TestServingUpdates publishes another image under the same reference.
func TestServingUpdates(t *testing.T) {
	forEachServingMode(t, func(_ *testing.T, f *servedFixture) {
		f.publish("etcd")
		catalog := f.catalog("updated", polledImage(f.image))
		f.waitForState(catalog, "READY")
		f.waitForPackages(catalog, "etcd")
		f.publish("redis")
		f.waitForPackages(catalog, "redis")
		f.waitForState(catalog, "READY")
		f.eventually(func() error {
			if err := f.get(catalog); err != nil {
				return err
			}
			if catalog.Status.LatestImageRegistryPoll == nil {
				return errors.New("the status has no time of the latest poll")
			}
			return nil
		})
	})
}

// TestServingRecovers creates a catalog before its image exists.
func TestServingRecovers(t *testing.T) {
	forEachServingMode(t, func(_ *testing.T, f *servedFixture) {
		catalog := f.catalog("recovering", image(f.image))
		f.waitForReason(catalog, "RegistryServerError", func(m string) bool {
			return strings.HasPrefix(m, "couldn't connect to registry - ") && strings.Contains(m, strings.TrimSuffix(f.image, ":v1"))
		})
		f.publish("etcd")
		f.waitForState(catalog, "READY")
		f.waitForReason(catalog, "", is(""))
		f.waitForPackages(catalog, "etcd")
	})
}

// TestServingBecomesAddress replaces the image of a catalog by the address of another server.
func TestServingBecomesAddress(t *testing.T) {
	forEachServingMode(t, func(t *testing.T, f *servedFixture) {
		f.publish("etcd")
		catalog := f.catalog("moving", image(f.image))
		f.waitForState(catalog, "READY")
		address, _ := serve(t, "127.0.0.1:0")
		env.EditObject(f.Fixture, catalog, func(c *v1alpha1.CatalogSource) { c.Spec.Image, c.Spec.Address = "", address })
		f.eventually(func() error {
			if err := f.get(catalog); err != nil {
				return err
			}
			s := catalog.Status
			if s.GRPCConnectionState == nil || s.GRPCConnectionState.Address != address || s.RegistryServiceStatus.ServiceName != "" {
				return fmt.Errorf("got the status %+v %+v, want the address %s", s.RegistryServiceStatus, s.GRPCConnectionState, address)
			}
			return nil
		})
		f.waitForState(catalog, "READY")
		f.eventually(func() error {
			return f.isDeleted(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "moving", Namespace: f.namespace}})
		})
	})
}

// TestInlineSurvivesRestart restarts catalog-operator while the registry is stopped.
func TestInlineSurvivesRestart(t *testing.T) {
	f := newInlineFixture(t)
	f.publish("etcd")
	catalog := f.catalog("kept", image(f.image))
	f.waitForState(catalog, "READY")
	f.stop()
	f.closeRegistry()
	env.EditObject(f.Fixture, catalog, func(c *v1alpha1.CatalogSource) { c.Spec.Publisher = "Nobody" })
	listening := make(chan string, 1)
	f.options.Inline.OnListening = func(a net.Addr) { listening <- a.String() }
	f.stop = f.run(f.options)
	f.network = newServiceNetwork(t, <-listening)
	f.waitForPackages(catalog, "etcd")

	// The content of a deleted catalog is removed, also while the program does not run.
	f.stop()
	f.Must(f.Delete(t.Context(), catalog))
	f.stop = f.run(f.options)
	<-listening
	if names := f.options.Inline.Store.Names(); len(names) > 0 {
		t.Errorf("the store has the content of %v, want none", names)
	}
}

// TestInlineFaults publishes images that cannot be served, and then one that can.
func TestInlineFaults(t *testing.T) {
	cycle := `{schema: olm.package, name: p, defaultChannel: stable}
---
{schema: olm.channel, package: p, name: stable, entries: [{name: p.v1, replaces: p.v2}, {name: p.v2, replaces: p.v1}]}
---
{schema: olm.bundle, package: p, name: p.v1, image: example.com/p:v1, properties: [{type: olm.package, value: {packageName: p, version: 1.0.0}}]}
---
{schema: olm.bundle, package: p, name: p.v2, image: example.com/p:v2, properties: [{type: olm.package, value: {packageName: p, version: 2.0.0}}]}
`

	f := newInlineFixture(t)
	host, _, _ := strings.Cut(f.image, "/")
	for name, test := range map[string]struct {
		spec registries.Spec
		want string
	}{
		"syntax":  {registries.CatalogSpec(fstest.MapFS{"catalog.yaml": {Data: []byte("{")}}), "reading the catalog in image"},
		"cycle":   {registries.CatalogSpec(fstest.MapFS{"catalog.yaml": {Data: []byte(cycle)}}), `process package "p"`},
		"program": {withLabels(registries.CatalogSpec(fstest.MapFS{"catalog.yaml": {Data: []byte("{}")}}), nil), "it is not a catalog"},
		"sqlite": {
			withLabels(registries.CatalogSpec(fstest.MapFS{"catalog.yaml": {Data: []byte("{}")}}), map[string]string{"operators.operatorframework.io.index.database.v1": "/db"}),
			"it contains a SQLite catalog",
		},
	} {
		t.Run(name, func(t *testing.T) {
			reference := host + "/test/" + name + ":v1"
			ociregistry.Push(t, reference, test.spec)
			catalog := f.catalog("fault-"+name, image(reference))
			f.waitForReason(catalog, "RegistryServerError", func(m string) bool {
				return strings.HasPrefix(m, "couldn't connect to registry - ") && strings.Contains(m, test.want)
			})
			pushCatalog(t, f.puller, reference, packageCatalog("etcd"))
			f.waitForState(catalog, "READY")
			f.waitForReason(catalog, "", is(""))
		})
	}
}

// withLabels replaces the labels of an image.
func withLabels(spec registries.Spec, labels map[string]string) registries.Spec {
	spec.Labels = labels
	return spec
}

// TestInlineServesLargeChannels serves a package with 10,000 channels.
func TestInlineServesLargeChannels(t *testing.T) {
	var text strings.Builder
	text.WriteString("{\"schema\":\"olm.package\",\"name\":\"p\",\"defaultChannel\":\"c0\"}\n")
	for i := range 10_000 {
		fmt.Fprintf(&text, "{\"schema\":\"olm.channel\",\"package\":\"p\",\"name\":\"c%d\",\"entries\":[{\"name\":\"p.v1\"}]}\n", i)
	}
	text.WriteString(`{"schema":"olm.bundle","package":"p","name":"p.v1","image":"example.com/p:v1","properties":[{"type":"olm.package","value":{"packageName":"p","version":"1.0.0"}}]}`)

	f := newInlineFixture(t)
	pushCatalog(t, f.puller, f.image, text.String())
	catalog := f.catalog("large", image(f.image))
	f.waitForState(catalog, "READY")
	f.waitForReason(catalog, "", is(""))
	f.waitForPackages(catalog, "p")
}
