package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	controller "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/testing/cluster"
)

// classicNamespace is the namespace of OLM Classic and of the global catalogs.
const classicNamespace = "olm"

// classicServer is an API server with the servers of OLM Classic, each in a process of its own. Catalogs
// are served by catalog-operator, without pods.
type classicServer struct {
	*server
	client controller.WithWatch
	// olm and catalog are olm-operator and catalog-operator; nil if they are not started.
	olm, catalog *program
	// catalogsAddress is the address at which catalog-operator serves catalogs.
	catalogsAddress string
}

// startClassicControlPlane starts an API server with the CRDs of OLM Classic.
func startClassicControlPlane(ctx context.Context, dir string) (*classicServer, error) {
	s, err := startControlPlane(ctx, dir, filepath.Join("config", "classic", "crd"))
	if err != nil {
		return nil, err
	}

	c := &classicServer{server: s}
	scheme := runtime.NewScheme()
	err = errors.Join(corev1.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme), operatorsv1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme))
	if err == nil {
		c.client, err = controller.NewWithWatch(s.config, controller.Options{Scheme: scheme})
	}
	if err == nil {
		err = c.createNamespaces(ctx, classicNamespace)
	}
	if err != nil {
		return nil, errors.Join(err, s.stopAll())
	}

	return c, nil
}

func (c *classicServer) startOLMOperator(ctx context.Context) (err error) {
	c.olm, err = c.startProgram(ctx, "olm-operator")
	return err
}

func (c *classicServer) startCatalogOperator(ctx context.Context) (err error) {
	if c.catalogsAddress, err = cluster.FreeAddress(); err != nil {
		return err
	}
	c.catalog, err = c.startProgram(ctx, "catalog-operator", "--catalog-serving", "inline", "--bundle-unpack", "inline",
		"--inline-catalogs-bind-address", c.catalogsAddress, "--inline-catalogs-host", "catalogs.olm.svc")
	return err
}

// startClassic starts olm-operator and catalog-operator, and creates a global catalog from a folder.
func startClassic(ctx context.Context, dir, catalog string) (*classicServer, error) {
	c, err := startClassicControlPlane(ctx, dir)
	if err != nil {
		return nil, err
	}

	err = c.startOLMOperator(ctx)
	if err == nil {
		err = c.startCatalogOperator(ctx)
	}
	if err == nil {
		err = c.createCatalog(ctx, "bench", catalog)
	}
	if err != nil {
		return nil, errors.Join(err, c.stopAll())
	}

	return c, nil
}

// createCatalog pushes a catalog, creates its CatalogSource, and waits until it is served.
func (c *classicServer) createCatalog(ctx context.Context, name, dir string) error {
	ref := c.registry + "/bench/" + name + ":v1"
	if err := pushCatalog(ctx, dir, ref); err != nil {
		return err
	}

	source := &v1alpha1.CatalogSource{
		ObjectMeta: metav1.ObjectMeta{Namespace: classicNamespace, Name: name},
		Spec:       v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeGrpc, Image: ref},
	}
	if err := c.client.Create(ctx, source); err != nil {
		return err
	}

	return pollUntil(ctx, func(ctx context.Context) (bool, error) {
		err := c.client.Get(ctx, controller.ObjectKeyFromObject(source), source)
		return err == nil && source.Status.GRPCConnectionState != nil && source.Status.GRPCConnectionState.LastObservedState == "READY", err
	})
}

func (c *classicServer) createNamespaces(ctx context.Context, names ...string) error {
	return forEach(ctx, names, func(ctx context.Context, name string) error {
		return c.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	})
}

// createGroup creates an OperatorGroup. Without targets, it selects all namespaces.
func (c *classicServer) createGroup(ctx context.Context, namespace string, targets ...string) error {
	return c.client.Create(ctx, &operatorsv1.OperatorGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "group"},
		Spec:       operatorsv1.OperatorGroupSpec{TargetNamespaces: targets},
	})
}

func newSubscription(namespace, word string) *v1alpha1.Subscription {
	return &v1alpha1.Subscription{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: word},
		Spec: v1alpha1.SubscriptionSpec{
			Package: word + "-operator", Channel: "stable", CatalogSource: "bench", CatalogSourceNamespace: classicNamespace,
		},
	}
}

// waitForSucceeded watches selected ClusterServiceVersions until some have succeeded.
func (c *classicServer) waitForSucceeded(ctx context.Context, count int, selected ...controller.ListOption) error {
	watcher, err := c.client.Watch(ctx, &v1alpha1.ClusterServiceVersionList{}, selected...)
	if err != nil {
		return err
	}
	defer watcher.Stop()
	succeeded := map[controller.ObjectKey]bool{}
	for len(succeeded) < count {
		select {
		case event, ok := <-watcher.ResultChan():
			if !ok {
				return errors.New("the watch of ClusterServiceVersions ended")
			}
			if csv, ok := event.Object.(*v1alpha1.ClusterServiceVersion); ok && csv.Status.Phase == v1alpha1.CSVPhaseSucceeded {
				succeeded[controller.ObjectKeyFromObject(csv)] = true
			}
		case <-ctx.Done():
			return fmt.Errorf("%d of %d ClusterServiceVersions succeeded: %w", len(succeeded), count, ctx.Err())
		}
	}

	return nil
}

// classicUsage is the resource usage until a time: processor time of olm-operator and catalog-operator in seconds,
// and requests to the API server of all clients but this process.
type classicUsage struct {
	olm, catalog float64
	requests     requestCount
}

func (c *classicServer) readUsage(ctx context.Context) (u classicUsage, err error) {
	if c.olm != nil {
		if u.olm, err = readProcessorSeconds(c.olm.processID()); err != nil {
			return u, err
		}
	}
	if c.catalog != nil {
		if u.catalog, err = readProcessorSeconds(c.catalog.processID()); err != nil {
			return u, err
		}
	}

	u.requests, err = c.countForeignRequests(ctx)
	return u, err
}

func (u classicUsage) usageSince(before classicUsage) classicUsage {
	return classicUsage{olm: u.olm - before.olm, catalog: u.catalog - before.catalog, requests: u.requests.requestsSince(before.requests)}
}

// printRequests prints the average requests of each of a number of objects, and the processor time.
func (u classicUsage) printRequests(objects float64) {
	fmt.Printf("%-62s %10.1f each, %.1f of them by the API server itself; %s\n",
		"  requests to the API server", u.requests.total/objects, u.requests.byServer/objects, u)
}

func (u classicUsage) String() string {
	return fmt.Sprintf("processor time %.2f s of olm-operator, %.2f s of catalog-operator", u.olm, u.catalog)
}

// operatorWord returns the name of a generated operator without the suffix "-operator".
func operatorWord(i int) string { return fmt.Sprintf("hello-%04d", i) }

// writeOperatorCatalog writes a catalog of packages that are copies of the sample operator. The manifests
// are in the catalog, so that no bundle is pulled.
func writeOperatorCatalog(dir string, size int) error {
	for i := range size {
		word := operatorWord(i)
		name, version := word+"-operator", "1.0.0"
		properties := []any{
			newProperty("olm.package", map[string]any{"packageName": name, "version": version}),
			newProperty("olm.gvk", map[string]any{"group": word + ".example.com", "kind": "Greeting", "version": "v1alpha1"}),
		}
		manifests, err := readOperatorManifests(word)
		if err != nil {
			return err
		}
		for _, text := range manifests {
			manifest, err := yaml.YAMLToJSON(text)
			if err != nil {
				return fmt.Errorf("reading the manifests of the sample operator: %w", err)
			}
			properties = append(properties, newProperty("olm.bundle.object", map[string]any{"data": manifest}))
		}

		bundle := name + ".v" + version
		err = writeBlobs(filepath.Join(dir, name),
			map[string]any{"schema": "olm.package", "name": name, "defaultChannel": "stable"},
			map[string]any{"schema": "olm.channel", "package": name, "name": "stable", "entries": []any{map[string]any{"name": bundle}}},
			map[string]any{"schema": "olm.bundle", "package": name, "name": bundle, "image": "", "properties": properties})
		if err != nil {
			return err
		}
	}

	return nil
}

func newProperty(kind string, value any) any { return map[string]any{"type": kind, "value": value} }

// writeBlobs writes the blobs of a package.
func writeBlobs(dir string, blobs ...any) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}

	file, err := os.Create(filepath.Join(dir, "catalog.json"))
	if err != nil {
		return err
	}
	defer file.Close()
	encoder := json.NewEncoder(file)
	for _, blob := range blobs {
		if err := encoder.Encode(blob); err != nil {
			return err
		}
	}

	return file.Close()
}

// pollUntil calls done until it returns true.
func pollUntil(ctx context.Context, done func(context.Context) (bool, error)) error {
	for {
		if ok, err := done(ctx); ok || err != nil {
			return err
		}
		if !sleepContext(ctx, 10*time.Millisecond) {
			return ctx.Err()
		}
	}
}
