package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	packagesv1 "github.com/mainstay-dev/mainstay/api/packages/v1"
	"github.com/mainstay-dev/mainstay/bench/generate"
)

// packageCatalogs is the number of catalogs whose packages are served together.
const packageCatalogs = 4

// measureClassicPackages measures package-server with four large catalogs: its memory from its start on, and how long a
// client of the API server waits for all packages.
func measureClassicPackages(ctx context.Context, dir string, runs int) (err error) {
	ctx, cancel := context.WithTimeout(ctx, fleetTimeout)
	defer cancel()
	home := filepath.Join(dir, "packages")
	defer func() { err = errors.Join(err, os.RemoveAll(home)) }()
	c, err := startClassicControlPlane(ctx, home)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stopAll()) }()

	address, stop, err := serveRegistry(ctx, catalogDir(dir, "75 MB"), filepath.Join(home, "registry"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	for i := range packageCatalogs {
		if err := c.createServedCatalog(ctx, fmt.Sprintf("catalog-%d", i), address); err != nil {
			return err
		}
	}

	began := time.Now()
	server, err := c.startPackageServer(ctx)
	if err != nil {
		return err
	}
	if err := c.waitForPackages(ctx); err != nil {
		return err
	}
	what := fmt.Sprintf("%d catalogs of 75 MB, package-server started until all are served", packageCatalogs)
	fmt.Printf("%-62s %10.2f s\n", what, secondsSince(began))
	if err := c.measureLists(ctx, runs); err != nil {
		return err
	}

	peak, _, err := readProcessMemory(server.processID())
	if err != nil {
		return err
	}
	fmt.Printf("%-62s %10.0f MB, %d MB anonymous\n", "  peak memory of package-server", peak, server.peakAnonymous())
	return nil
}

// serveRegistry serves a catalog until it is stopped.
func serveRegistry(ctx context.Context, catalog, cache string) (address string, stop func() error, err error) {
	if address, err = findFreeAddress(ctx); err != nil {
		return "", nil, err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", nil, err
	}

	cmd := exec.CommandContext(ctx, filepath.Join("bin", "opm"), "serve", catalog, "--port", port, "--cache-dir", cache, "--cache-enforce-integrity=false",
		"--pprof-addr", "", "--termination-log", os.DevNull)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() error { return errors.Join(cmd.Process.Signal(os.Interrupt), cmd.Wait()) }
	if err := waitForListener(ctx, address); err != nil {
		return "", nil, errors.Join(err, stop())
	}
	return address, stop, nil
}

// createServedCatalog creates a CatalogSource as catalog-operator leaves it for a server with an address.
func (c *classicServer) createServedCatalog(ctx context.Context, name, address string) error {
	source := &v1alpha1.CatalogSource{
		ObjectMeta: metav1.ObjectMeta{Namespace: classicNamespace, Name: name},
		Spec:       v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeGrpc, Address: address, DisplayName: name},
	}
	if err := c.client.Create(ctx, source); err != nil {
		return err
	}
	source.Status.RegistryServiceStatus = &v1alpha1.RegistryServiceStatus{Protocol: "grpc", CreatedAt: metav1.Now()}
	return c.client.Status().Update(ctx, source)
}

// startPackageServer starts package-server, and has the API server forward requests for packages to it.
func (c *classicServer) startPackageServer(ctx context.Context) (*program, error) {
	address, err := findFreeAddress(ctx)
	if err != nil {
		return nil, err
	}
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return nil, err
	}

	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: classicNamespace, Name: "packageserver"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}
	api := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
		"metadata": map[string]any{"name": packagesv1.GroupVersion.Version + "." + packagesv1.GroupVersion.Group},
		"spec": map[string]any{
			"group": packagesv1.GroupVersion.Group, "version": packagesv1.GroupVersion.Version,
			"groupPriorityMinimum": int64(2000), "versionPriority": int64(15), "insecureSkipTLSVerify": true,
			"service": map[string]any{"namespace": service.Namespace, "name": service.Name, "port": port},
		},
	}}
	if err := errors.Join(c.client.Create(ctx, service), c.client.Create(ctx, api)); err != nil {
		return nil, err
	}
	return c.startProgram(ctx, "package-server", "--global-namespace", classicNamespace, "--bind-address", host, "--secure-port", text,
		"--cert-dir", filepath.Join(c.dir, "package-server"))
}

// waitForPackages waits until the API server returns the packages of all catalogs.
func (c *classicServer) waitForPackages(ctx context.Context) error {
	wanted := packageCatalogs * generate.MB75.Packages
	return pollUntil(ctx, func(ctx context.Context) (bool, error) {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(packagesv1.GroupVersion.WithKind(packagesv1.PackageManifestListKind))
		err := c.client.List(ctx, list)
		if ctx.Err() == nil && (meta.IsNoMatchError(err) || apierrors.IsServiceUnavailable(err)) {
			return false, nil // The API server does not forward requests yet.
		}
		return len(list.Items) == wanted, err
	})
}

// measureLists measures lists of all packages through the API server, as kubectl and web pages request them.
func (c *classicServer) measureLists(ctx context.Context, runs int) error {
	client, err := rest.HTTPClientFor(c.config)
	if err != nil {
		return err
	}

	for _, list := range []struct{ what, accept, encoding string }{
		{"  a table of all packages, gzip", "application/json;as=Table;v=v1;g=meta.k8s.io", "gzip"},
		{"  all packages as JSON", "application/json", "identity"},
		{"  all packages as JSON, gzip", "application/json", "gzip"},
	} {
		var seconds samples
		var bytes int64
		for range runs {
			began := time.Now()
			if bytes, err = c.listPackages(ctx, client, list.accept, list.encoding); err != nil {
				return err
			}
			seconds = append(seconds, secondsSince(began))
		}
		seconds.printSummary(fmt.Sprintf("%s (%.1f MB)", list.what, float64(bytes)/1e6), "s", 3)
	}
	return nil
}

// listPackages requests all packages and returns the size of the response.
func (c *classicServer) listPackages(ctx context.Context, client *http.Client, accept, encoding string) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(c.config.Host, "/")+"/apis/"+packagesv1.GroupVersion.String()+"/packagemanifests", nil)
	if err != nil {
		return 0, err
	}

	req.Header.Set("Accept", accept)
	req.Header.Set("Accept-Encoding", encoding)
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	bytes, err := io.Copy(io.Discard, resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("listing packages: %s", resp.Status)
	}
	return bytes, err
}
