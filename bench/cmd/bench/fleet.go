package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	controller "sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

const (
	// fleetTimeout is the timeout for measuring a fleet.
	fleetTimeout = 15 * time.Minute
	// idleSettleTime is the time for the servers to become idle, and idleMeasureTime the time
	// for which they are then measured.
	idleSettleTime, idleMeasureTime = 2 * time.Second, 20 * time.Second
	// fleetWriters is the number of concurrent writers.
	fleetWriters = 16
	// maxFleetSize is the number of generated packages.
	maxFleetSize = 1000
)

// fleetCases are the measured fleets.
var fleetCases = []fleetCase{{size: 1}, {size: 1, besideCatalog: "75 MB"}, {size: 10}, {size: 50}, {size: maxFleetSize}}

// fleetCase is a number of extensions that are installed together.
type fleetCase struct {
	size int
	// besideCatalog is the size of another catalog that is added just before, or empty.
	besideCatalog string
}

func (o fleetCase) String() string {
	if o.besideCatalog == "" {
		return fmt.Sprintf("%d extensions, created at once until all are installed", o.size)
	}
	return fmt.Sprintf("%d, created when a catalog of %s is new", o.size, o.besideCatalog)
}

// measureFleets measures the time and resources to install and remove many small extensions, each
// with a CRD, a Deployment, a Service and roles.
func measureFleets(ctx context.Context, dir string, _ int) error {
	bundles := filepath.Join(dir, "fleet-bundles")
	if err := writeFleetBundles(bundles, maxFleetSize); err != nil {
		return err
	}

	for _, o := range fleetCases {
		if err := measureFleet(ctx, dir, bundles, o); err != nil {
			return fmt.Errorf("%s: %w", o, err)
		}
	}
	return nil
}

// writeFleetBundles writes packages that are copies of the sample operator: hello-0001-operator
// and so on.
func writeFleetBundles(dir string, size int) error {
	from := filepath.Join("examples", "bundles", "hello-operator", "1.0.0")
	for i := range size {
		word := fmt.Sprintf("hello-%04d", i)
		err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}

			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}

			rel, err := filepath.Rel(from, path)
			if err != nil {
				return err
			}

			target := filepath.Join(dir, word+"-operator", "1.0.0", rel)
			return errors.Join(os.MkdirAll(filepath.Dir(target), 0o755),
				os.WriteFile(target, []byte(strings.ReplaceAll(string(text), "hello", word)), 0o644))
		})
		if err != nil {
			return err
		}
	}

	return nil
}

func measureFleet(ctx context.Context, dir, bundles string, o fleetCase) (err error) {
	ctx, cancel := context.WithTimeout(ctx, fleetTimeout)
	defer cancel()
	home := filepath.Join(dir, "fleet")
	server, err := startServer(ctx, home)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stopAll(), os.RemoveAll(home)) }()
	catalog := server.registry + "/bench/fleet:v1"
	for _, args := range [][]string{
		{"catalog", "build", bundles, "--push", catalog}, {"catalog", "add", "fleet", "--image", catalog, "--wait"},
	} {
		if err := server.runMainstay(ctx, args...); err != nil {
			return err
		}
	}

	if o.besideCatalog != "" {
		other := server.registry + "/bench/beside:v1"
		if err := pushCatalog(ctx, catalogDir(dir, o.besideCatalog), other); err != nil {
			return err
		}
		if err := server.runMainstay(ctx, "catalog", "add", "beside", "--image", other, "--wait"); err != nil {
			return err
		}
	}

	f, err := newFleet(server, o)
	if err != nil {
		return err
	}

	return f.measureAll(ctx)
}

// fleet is a number of extensions on a cluster.
type fleet struct {
	server *server
	client controller.Client
	fleetCase
	names map[string]bool
}

func newFleet(server *server, o fleetCase) (*fleet, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(olmv1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		return nil, err
	}

	api, err := controller.New(server.config, controller.Options{Scheme: scheme})
	f := &fleet{server: server, client: api, fleetCase: o, names: map[string]bool{}}
	for i := range o.size {
		f.names[fmt.Sprintf("hello-%04d", i)] = true
	}

	return f, err
}

func (f *fleet) measureAll(ctx context.Context) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "fleet"}}
	if err := f.client.Create(ctx, namespace); err != nil {
		return err
	}

	before, err := readProcessorSeconds(f.server.mainstayPID())
	if err != nil {
		return err
	}

	began := time.Now()
	if err := f.forEachExtension(ctx, f.createExtension); err != nil {
		return err
	}
	if err := f.pollUntil(ctx, f.allInstalled); err != nil {
		return err
	}

	seconds := secondsSince(began)
	after, err := readProcessorSeconds(f.server.mainstayPID())
	if err != nil {
		return err
	}

	fmt.Printf("%-62s %10.2f s, %.1f s of the servers' processor time\n", f.fleetCase, seconds, after-before)
	if err := f.measureIdle(ctx); err != nil {
		return err
	}

	peak, anonymous, err := readProcessMemory(f.server.mainstayPID())
	if err != nil {
		return err
	}

	fmt.Printf("%-62s %10.0f MB, %.0f MB of it anonymous\n", "  peak memory", peak, anonymous)
	began = time.Now()
	if err := f.forEachExtension(ctx, f.deleteExtension); err != nil {
		return err
	}
	if err := f.pollUntil(ctx, f.allGone); err != nil {
		return err
	}

	fmt.Printf("%-62s %10.2f s\n", "  deleted at once until their CRDs are gone", secondsSince(began))
	return nil
}

// measureIdle prints the resources that the servers use while they are idle.
func (f *fleet) measureIdle(ctx context.Context) error {
	after, err := readProcessorSeconds(f.server.mainstayPID())
	if err != nil {
		return err
	}

	sleepContext(ctx, idleSettleTime)
	settled, err := readProcessorSeconds(f.server.mainstayPID())
	if err != nil {
		return err
	}

	requests, err := f.server.countAPIRequests(ctx)
	if err != nil {
		return err
	}

	sleepContext(ctx, idleMeasureTime)
	rested, err := readProcessorSeconds(f.server.mainstayPID())
	if err != nil {
		return err
	}

	later, err := f.server.countAPIRequests(ctx)
	if err != nil {
		return err
	}

	fmt.Printf("%-62s %10.2f s\n", fmt.Sprintf("  processor time in the %s after that", idleSettleTime), settled-after)
	fmt.Printf("%-62s %10.2f %% of a core\n", "  processor at rest", 100*(rested-settled)/idleMeasureTime.Seconds())
	fmt.Printf("%-62s %10.0f a minute\n", "  requests to the API server at rest, but for leases", (later.requestsSince(requests).total-1)*60/idleMeasureTime.Seconds())

	return nil
}

func (f *fleet) forEachExtension(ctx context.Context, do func(context.Context, *olmv1.ClusterExtension) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(fleetWriters)
	for name := range f.names {
		group.Go(func() error {
			return do(ctx, &olmv1.ClusterExtension{
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec: olmv1.ClusterExtensionSpec{
					Namespace: "fleet",
					Source: olmv1.SourceConfig{
						SourceType: olmv1.ExtensionSourceTypeCatalog, Catalog: &olmv1.CatalogFilter{PackageName: name + "-operator"},
					},
				},
			})
		})
	}

	return group.Wait()
}

func (f *fleet) createExtension(ctx context.Context, ext *olmv1.ClusterExtension) error {
	return f.client.Create(ctx, ext)
}

func (f *fleet) deleteExtension(ctx context.Context, ext *olmv1.ClusterExtension) error {
	return controller.IgnoreNotFound(f.client.Delete(ctx, ext))
}

func (f *fleet) pollUntil(ctx context.Context, done func(context.Context) (bool, error)) error {
	for {
		if ok, err := done(ctx); ok || err != nil {
			return err
		}
		// The cost of a list grows with the number of extensions.
		if !sleepContext(ctx, time.Duration(10+f.size)*time.Millisecond) {
			return ctx.Err()
		}
	}
}

func (f *fleet) allInstalled(ctx context.Context) (bool, error) {
	list := &olmv1.ClusterExtensionList{}
	if err := f.client.List(ctx, list); err != nil {
		return false, err
	}

	installed := 0
	for i := range list.Items {
		if meta.IsStatusConditionTrue(list.Items[i].Status.Conditions, olmv1.TypeInstalled) {
			installed++
		}
	}

	return installed == f.size, nil
}

func (f *fleet) allGone(ctx context.Context) (bool, error) {
	for _, kind := range []schema.GroupVersionKind{
		olmv1.GroupVersion.WithKind("ClusterExtensionList"),
		{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinitionList"},
	} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		if err := f.client.List(ctx, list); err != nil {
			return false, err
		}
		for i := range list.Items {
			if strings.Contains(list.Items[i].Name, "hello-") {
				return false, nil
			}
		}
	}

	return true, nil
}

// sleepContext sleeps, and returns false if the context ends first.
func sleepContext(ctx context.Context, how time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(how):
		return true
	}
}
