package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	operatorsv1alpha1 "github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/testing/catalogserver"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
	"github.com/mainstay-dev/mainstay/internal/testing/ociregistry"
)

// process is a server in a process of its own. The names of controllers and the metrics of a process are global.
type process struct {
	// log is the output of the server.
	log *lockedBuffer
	// metrics is the address of /metrics.
	metrics string
	// cacheDir is its cache directory.
	cacheDir string
	stop     func()
}

// lockedBuffer is a buffer that is read while a process writes to it.
type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(data)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

// startAll starts `mainstay run all` in a process of its own.
func startAll(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{log: &lockedBuffer{}, metrics: freeAddress(t), cacheDir: t.TempDir()}
	cmd := exec.Command(os.Args[0], append([]string{
		"all", "--kubeconfig", kubeconfig(t), "--system-namespace", "run-all", "--leader-elect", "--cache-dir", p.cacheDir,
		"--catalogs-server-addr", freeAddress(t), "--health-probe-bind-address", "0", "--metrics-bind-address", p.metrics,
	}, args...)...)
	cmd.Env = append(os.Environ(), serverVariable+"=1")
	cmd.Stderr = p.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}

	p.stop = sync.OnceFunc(func() {
		if err := errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait()); err != nil {
			t.Errorf("got error %v of the server:\n%s", err, p.log)
		}
	})
	t.Cleanup(p.stop)

	return p
}

// eventually waits until a check of the cluster returns nil.
func (p *process) eventually(t *testing.T, what string, check func(ctx context.Context) error) {
	t.Helper()
	env.Eventually(t, what, func() error {
		if err := check(t.Context()); err != nil {
			return fmt.Errorf("got %w; the log is\n%s", err, p.log)
		}
		return nil
	})
}

// exportedMetrics returns those metrics in names that the server exports.
func (p *process) exportedMetrics(t *testing.T, token string, names ...string) []string {
	t.Helper()
	var text string
	p.eventually(t, "reading metrics", func(ctx context.Context) error {
		code, got, err := get(ctx, "https://"+p.metrics+"/metrics", token)
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("got status %d", code)
		}
		text = got
		return err
	})

	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !strings.Contains(text, "\n# TYPE "+name+" ") })
}

// `mainstay run all` serves a ClusterCatalog, and installs the ClusterServiceVersion of a Subscription.
func TestAllRunsOLMv1AndClassic(t *testing.T) {
	c := env.Client(t, clientgoscheme.AddToScheme, apiregistrationv1.AddToScheme, olmv1.AddToScheme, operatorsv1.AddToScheme, operatorsv1alpha1.AddToScheme, apiextensionsv1.AddToScheme, configv1.AddToScheme)
	t.Cleanup(func() {
		// The servers of other tests create their own ClusterOperators.
		if err := c.DeleteAllOf(context.Background(), &configv1.ClusterOperator{}); err != nil {
			t.Error(err)
		}
	})

	token := newMetricsReader(t, "run-all")
	newPackageReader(t, c, "run-all")
	p := startAll(t)

	p.requireClusterCatalogServed(t, c, "run-all", func(t *testing.T, c client.Client, reference string) {
		p.requireContentShared(t, c, reference, func() { p.requirePackageServed(t, c, token, "a") })
	})
	p.requireOperatorInstalled(t, c)
	names := []string{"catalog_source_count", "csv_count", "mainstay_catalog_http_requests_in_flight", "mainstay_machine_config_server_requests_total", "subscription_count"}
	want := []string{"catalog_source_count", "csv_count", "mainstay_catalog_http_requests_in_flight", "subscription_count"}
	if diff := cmp.Diff(want, p.exportedMetrics(t, token, names...)); diff != "" {
		t.Errorf("exported metrics (-want +got):\n%s", diff)
	}
	p.stop()
	requireNotRegistered(t, c)

	// Without one of the kinds of OLM Classic, all runs OLM v1 only.
	conditions := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "operatorconditions.operators.coreos.com"}}
	if err := c.Delete(t.Context(), conditions); err != nil {
		t.Fatal(err)
	}
	p.eventually(t, "deleting a kind", func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(conditions), conditions); client.IgnoreNotFound(err) != nil || err == nil {
			return fmt.Errorf("the kind still exists: %w", err)
		}
		return nil
	})

	p = startAll(t)
	p.requireClusterCatalogServed(t, c, "run-all-without-classic", nil)
	if diff := cmp.Diff([]string{"mainstay_catalog_http_requests_in_flight"}, p.exportedMetrics(t, token, names...)); diff != "" {
		t.Errorf("exported metrics without OLM Classic (-want +got):\n%s", diff)
	}
	for _, want := range []string{"restart this server with --olm-classic", `"missingKinds":["OperatorCondition"]`} {
		if text := p.log.String(); strings.Count(text, want) != 1 {
			t.Errorf("want %s once in the log, got:\n%s", want, text)
		}
	}
	p.stop()

	// With the flag, all installs the kinds.
	p = startAll(t, "--olm-classic")
	p.eventually(t, "installing a kind", func(ctx context.Context) error {
		return c.Get(ctx, client.ObjectKeyFromObject(conditions), conditions)
	})
	env.Eventually(t, "exporting the metrics of OLM Classic", func() error {
		if got := p.exportedMetrics(t, token, "csv_count"); len(got) == 0 {
			return errors.New("there are none")
		}
		return nil
	})
}

// requireContentShared creates a CatalogSource with the image of a ClusterCatalog, waits until it is served without a pod,
// checks that the content is on disk once, and calls whileServed.
func (p *process) requireContentShared(t *testing.T, c client.Client, reference string, whileServed func()) {
	t.Helper()
	catalog := &operatorsv1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shared"}}
	catalog.Spec = operatorsv1alpha1.CatalogSourceSpec{SourceType: operatorsv1alpha1.SourceTypeGrpc, Image: reference}
	if err := c.Create(t.Context(), catalog); err != nil {
		t.Fatal(err)
	}
	p.eventually(t, "serving a CatalogSource", func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(catalog), catalog); err != nil {
			return err
		}
		if s := catalog.Status.GRPCConnectionState; s == nil || s.LastObservedState != "READY" {
			return fmt.Errorf("got the status %+v", catalog.Status)
		}
		return nil
	})

	var pods corev1.PodList
	if err := c.List(t.Context(), &pods, client.InNamespace(catalog.Namespace)); err != nil || len(pods.Items) > 0 {
		t.Errorf("got %d pods (error %v), want none", len(pods.Items), err)
	}
	contents, err := filepath.Glob(filepath.Join(p.cacheDir, "catalogs", "content", "*"))
	if err != nil || len(contents) != 1 {
		t.Errorf("got the content files %v (error %v), want one", contents, err)
	}
	whileServed()
	if err := c.Delete(t.Context(), catalog); err != nil {
		t.Fatal(err)
	}
}

// requireClusterCatalogServed creates a ClusterCatalog, waits until catalogd serves it, calls whileServed with its image, and
// deletes it. whileServed can be nil.
func (p *process) requireClusterCatalogServed(t *testing.T, c client.Client, name string, whileServed func(t *testing.T, c client.Client, reference string)) {
	t.Helper()
	reference := ociregistry.Start(t).Host + "/catalog:v1"
	ociregistry.Push(t, reference, image.CatalogSpec(fstest.MapFS{"catalog/catalog.json": {Data: []byte(`{"schema":"olm.package","name":"a","defaultChannel":"b"}
{"schema":"olm.channel","package":"a","name":"b","entries":[{"name":"a.v1"}]}
{"schema":"olm.bundle","package":"a","name":"a.v1","image":"example.com/a","properties":[{"type":"olm.package","value":{"packageName":"a","version":"1.0.0"}},{"type":"olm.csv.metadata","value":{"displayName":"A"}}]}`)}}))
	catalog := &olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{Name: name}}
	catalog.Spec.Source = olmv1.CatalogSource{Type: olmv1.SourceTypeImage, Image: &olmv1.ImageSource{Ref: reference}}
	p.eventually(t, "creating a ClusterCatalog", func(ctx context.Context) error { return c.Create(ctx, catalog) })
	p.eventually(t, "serving a ClusterCatalog", func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(catalog), catalog); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(catalog.Status.Conditions, olmv1.TypeServing) {
			return fmt.Errorf("got the conditions %+v", catalog.Status.Conditions)
		}
		return nil
	})

	if whileServed != nil {
		whileServed(t, c, reference)
	}
	if err := c.Delete(t.Context(), catalog); err != nil {
		t.Fatal(err)
	}
	p.eventually(t, "deleting a ClusterCatalog", func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(catalog), catalog); client.IgnoreNotFound(err) != nil || err == nil {
			return fmt.Errorf("the catalog still exists: %w", err)
		}
		return nil
	})
}

// requireOperatorInstalled creates a CatalogSource, an OperatorGroup and a Subscription, and waits until catalog-operator
// creates an InstallPlan and olm-operator reconciles the ClusterServiceVersion.
func (p *process) requireOperatorInstalled(t *testing.T, c client.Client) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "run-all-classic"}}
	// A global catalog: its bundles are unpacked in the process, because the cluster has no node for a Job.
	catalog := &operatorsv1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Namespace: "olm", Name: "catalog"}}
	catalog.Spec = operatorsv1alpha1.CatalogSourceSpec{SourceType: operatorsv1alpha1.SourceTypeGrpc, Address: serveCatalogSource(t)}
	group := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "group"}}
	subscription := &operatorsv1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "kettle"}}
	subscription.Spec = operatorsv1alpha1.SubscriptionSpec{
		Package: "kettle", Channel: "stable", CatalogSource: catalog.Name, CatalogSourceNamespace: catalog.Namespace,
	}
	for _, object := range []client.Object{namespace, catalog, group, subscription} {
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}

	p.eventually(t, "installing an operator", func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(subscription), subscription); err != nil {
			return err
		}
		if subscription.Status.InstallPlanRef == nil {
			return fmt.Errorf("got the status %+v of the Subscription", subscription.Status)
		}

		csv := &operatorsv1alpha1.ClusterServiceVersion{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace.Name, Name: "kettle.v1.0.0"}, csv); err != nil {
			return err
		}
		if csv.Status.Phase == "" {
			return errors.New("the ClusterServiceVersion has no phase")
		}
		return nil
	})

	// Tests that use the same API server do not read these objects.
	if err := errors.Join(c.Delete(t.Context(), subscription), c.Delete(t.Context(), catalog)); err != nil {
		t.Fatal(err)
	}
}

// kettleCSV is the ClusterServiceVersion of an operator without Deployments.
const kettleCSV = `{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":{"name":"kettle.v1.0.0"},
"spec":{"displayName":"Kettle","version":"1.0.0","installModes":[{"type":"AllNamespaces","supported":true}],
"install":{"strategy":"deployment","spec":{"deployments":[]}}}}`

// pushKettleBundle pushes the bundle of kettleCSV to a registry, and returns its reference.
func pushKettleBundle(t *testing.T) string {
	t.Helper()
	spec, err := image.BundleSpec(fstest.MapFS{
		"manifests/csv.yaml":        {Data: []byte(kettleCSV)},
		"metadata/annotations.yaml": {Data: []byte("annotations:\n  operators.operatorframework.io.bundle.package.v1: kettle\n")},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}

	return ociregistry.Push(t, ociregistry.Start(t).Host+"/kettle:v1", spec)
}

// serveCatalogSource serves a CatalogSource with the operator of kettleCSV until the test ends, and returns its address.
func serveCatalogSource(t *testing.T) string {
	t.Helper()
	dir, blobs := t.TempDir(), fmt.Sprintf(`{"schema":"olm.package","name":"kettle","defaultChannel":"stable"}
{"schema":"olm.channel","package":"kettle","name":"stable","entries":[{"name":"kettle.v1.0.0"}]}
{"schema":"olm.bundle","package":"kettle","name":"kettle.v1.0.0","image":%q,"properties":[
{"type":"olm.package","value":{"packageName":"kettle","version":"1.0.0"}}]}`, pushKettleBundle(t))
	if err := os.WriteFile(filepath.Join(dir, "catalog.json"), []byte(blobs), 0o600); err != nil {
		t.Fatal(err)
	}

	return catalogserver.ServeFolder(t, dir)
}

func TestFindMissingKinds(t *testing.T) {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "One"}, meta.RESTScopeNamespace)
	got, err := findMissingKinds(mapper, []schema.GroupVersionKind{
		{Group: "example.com", Version: "v1", Kind: "One"},
		{Group: "example.com", Version: "v2", Kind: "One"},
		{Group: "example.com", Version: "v1", Kind: "Two"},
	})
	if diff := cmp.Diff([]string{"One", "Two"}, got); diff != "" || err != nil {
		t.Errorf("got error %v, missing kinds (-want +got):\n%s", err, diff)
	}
}
