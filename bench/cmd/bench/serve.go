package main

import (
	"bufio"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	controller "sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/testing/cluster"
)

// measureServing measures the time and resources of catalogd until a new catalog is served, and
// the rate of requests after that.
func measureServing(ctx context.Context, dir string, runs int) (err error) {
	c, err := cluster.Up(ctx, cluster.Options{Bin: "bin", Dir: filepath.Join(dir, "serving")})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Down(ctx)) }()
	if _, err := c.Kubectl(ctx, "apply", "--server-side", "-f", "config/crd"); err != nil {
		return err
	}
	if _, err := c.Kubectl(ctx, "wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"); err != nil {
		return err
	}
	if _, err := c.Kubectl(ctx, "create", "namespace", systemNamespace); err != nil {
		return err
	}

	for _, s := range catalogSizes {
		ref := c.Registry + "/bench/serving:" + strings.ReplaceAll(s.name, " ", "")
		if err := pushCatalog(ctx, catalogDir(dir, s.name), ref); err != nil {
			return err
		}
		if err := measureCatalogd(ctx, c, filepath.Join(dir, "catalogd"), ref, s.name, runs); err != nil {
			return err
		}
	}

	return nil
}

const systemNamespace = "olmv1-system"

func pushCatalog(ctx context.Context, catalog, ref string) error {
	built, err := image.Build(image.CatalogSpec(os.DirFS(catalog)))
	if err != nil {
		return err
	}
	_, err = image.NewClient(image.Options{}).Push(ctx, ref, nil, built)
	return err
}

// servingResult is the measurement until a catalog was served.
type servingResult struct{ seconds, cpu, peak, anonymous, disk samples }

func measureCatalogd(ctx context.Context, c *cluster.Cluster, dir, ref, name string, runs int) error {
	var u servingResult
	for run := range runs {
		d, err := startCatalogd(ctx, c, filepath.Join(dir, fmt.Sprint("cache-", run)))
		if err != nil {
			return err
		}

		err = d.measureUnpacking(ctx, ref, &u)
		if err == nil && run == runs-1 {
			what := "catalogd, " + name
			u.seconds.printSummary(what+", create until Serving", "s", 2)
			u.cpu.printSummary("  processor time", "s", 2)
			u.peak.printSummary("  peak memory", "MB", 0)
			u.anonymous.printSummary("  anonymous memory", "MB", 0)
			u.disk.printSummary("  on disk", "MB", 1)
			err = d.measureReading(ctx, what)
		}

		if err := errors.Join(err, d.stopProcess(ctx), os.RemoveAll(dir)); err != nil {
			return err
		}
	}

	return nil
}

// catalogd is a catalogd process with the catalog that it serves.
type catalogd struct {
	cmd    *exec.Cmd
	cache  string
	log    strings.Builder
	client controller.WithWatch
	roots  *x509.CertPool
	base   string
}

func startCatalogd(ctx context.Context, c *cluster.Cluster, cache string) (*catalogd, error) {
	address, err := findFreeAddress(ctx)
	if err != nil {
		return nil, err
	}

	health, err := findFreeAddress(ctx)
	if err != nil {
		return nil, err
	}

	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		return nil, err
	}

	scheme := runtime.NewScheme()
	if err := errors.Join(olmv1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		return nil, err
	}

	d := &catalogd{cache: cache}
	if d.client, err = controller.NewWithWatch(config, controller.Options{Scheme: scheme}); err != nil {
		return nil, err
	}

	d.cmd = exec.CommandContext(ctx, filepath.Join("bin", "mainstay"), "run", "catalogd", "--kubeconfig", c.Kubeconfig, "--system-namespace", systemNamespace,
		"--catalogs-server-addr", address, "--external-address", address, "--health-probe-bind-address", health, "--metrics-bind-address", "0", "--cache-dir", cache)
	d.cmd.Stderr = &d.log
	d.cmd.Cancel = func() error { return d.cmd.Process.Signal(os.Interrupt) }
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	if err := waitForReady(ctx, "http://"+health+"/readyz"); err != nil {
		return nil, errors.Join(err, d.stopProcess(ctx))
	}

	return d, nil
}

// waitForReady waits until a server is ready, for at most a minute.
func waitForReady(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		_, err := readBody(ctx, http.DefaultClient, url, "identity", make([]byte, 1024))
		if err == nil {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("the server is not ready: %w", err)
		}
	}
}

// stopProcess deletes the catalog and stops the process.
func (d *catalogd) stopProcess(ctx context.Context) error {
	err := controller.IgnoreNotFound(d.client.DeleteAllOf(ctx, &olmv1.ClusterCatalog{}))
	for err == nil {
		list := &olmv1.ClusterCatalogList{}
		if err = d.client.List(ctx, list); err != nil || len(list.Items) == 0 {
			break
		}
	}

	err = errors.Join(err, d.cmd.Process.Signal(os.Interrupt), d.cmd.Wait())
	if err != nil {
		return fmt.Errorf("catalogd: %w\n%s", err, &d.log)
	}

	return nil
}

// measureUnpacking creates a catalog and waits until it is served.
func (d *catalogd) measureUnpacking(ctx context.Context, ref string, u *servingResult) error {
	before, err := readProcessorSeconds(d.cmd.Process.Pid)
	if err != nil {
		return err
	}

	list := &olmv1.ClusterCatalogList{}
	changes, err := d.client.Watch(ctx, list)
	if err != nil {
		return err
	}
	defer changes.Stop()
	created := &olmv1.ClusterCatalog{
		ObjectMeta: metav1.ObjectMeta{Name: "bench"},
		Spec:       olmv1.ClusterCatalogSpec{Source: olmv1.CatalogSource{Type: olmv1.SourceTypeImage, Image: &olmv1.ImageSource{Ref: ref}}},
	}
	began := time.Now()
	if err := d.client.Create(ctx, created); err != nil {
		return err
	}

	for change := range changes.ResultChan() {
		catalog, ok := change.Object.(*olmv1.ClusterCatalog)
		if !ok || !meta.IsStatusConditionTrue(catalog.Status.Conditions, olmv1.TypeServing) {
			continue
		}

		u.seconds = append(u.seconds, secondsSince(began))
		d.base = catalog.Status.URLs.Base
		return d.recordUsage(ctx, u, before)
	}

	return fmt.Errorf("the catalog is not served: %w", ctx.Err())
}

// recordUsage records the resources used until the catalog was served.
func (d *catalogd) recordUsage(ctx context.Context, u *servingResult, before float64) error {
	after, err := readProcessorSeconds(d.cmd.Process.Pid)
	if err != nil {
		return err
	}

	peak, anonymous, err := readProcessMemory(d.cmd.Process.Pid)
	if err != nil {
		return err
	}

	u.cpu, u.peak, u.anonymous = append(u.cpu, after-before), append(u.peak, peak), append(u.anonymous, anonymous)
	published := &corev1.ConfigMap{}
	if err := d.client.Get(ctx, controller.ObjectKey{Namespace: systemNamespace, Name: "catalogd-service-ca"}, published); err != nil {
		return err
	}

	d.roots = x509.NewCertPool()
	if !d.roots.AppendCertsFromPEM([]byte(published.Data["ca.crt"])) {
		return errors.New("catalogd has published no authority")
	}

	// Both compressed forms of the catalog are stored on disk after the first request for them.
	for _, encoding := range []string{"gzip", "zstd"} {
		if err := d.waitForCompressed(ctx, encoding); err != nil {
			return err
		}
	}

	bytes, err := totalFileSize(d.cache)
	u.disk = append(u.disk, float64(bytes)/1e6)
	return err
}

// waitForCompressed waits until a compressed form of the whole catalog is stored. Its length is
// then known.
func (d *catalogd) waitForCompressed(ctx context.Context, encoding string) error {
	c := newLoadClient(d.roots)
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodHead, d.base+"/api/v1/all", nil)
		if err != nil {
			return err
		}

		req.Header.Set("Accept-Encoding", encoding)
		resp, err := c.Do(req)
		if err != nil {
			return err
		}
		if err := resp.Body.Close(); err != nil || resp.ContentLength > 0 {
			return err
		}
	}
}

// readProcessorSeconds returns the processor time of a process, which Linux counts in hundredths
// of a second.
func readProcessorSeconds(pid int) (float64, error) {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, err
	}

	// The name of the program, in parentheses, may have blanks.
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, errors.New("this system does not tell how much time a process takes")
	}

	user, userErr := strconv.ParseFloat(fields[11], 64)
	system, systemErr := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100, errors.Join(userErr, systemErr)
}

// measureReading measures client requests.
func (d *catalogd) measureReading(ctx context.Context, what string) error {
	packages, err := d.listPackages(ctx)
	if err != nil {
		return err
	}

	metas := func(query string) (urls []string) {
		for _, name := range packages {
			urls = append(urls, d.base+"/api/v1/metas?"+strings.ReplaceAll(query, "PACKAGE", url.QueryEscape(name)))
		}
		return urls
	}

	all := []string{d.base + "/api/v1/all"}
	for _, kind := range []struct {
		name, encoding string
		urls           []string
	}{
		{"all", "identity", all},
		{"all, gzip", "gzip", all},
		{"all, zstd", "zstd", all},
		{"bundles of a package", "identity", metas("schema=olm.bundle&package=PACKAGE")},
		{"bundles of a package, gzip", "gzip", metas("schema=olm.bundle&package=PACKAGE")},
		{"bundles of a package without metadata", "identity", metas("schema=olm.bundle&package=PACKAGE&fields=-properties[olm.csv.metadata]")},
		{"channels of a package", "identity", metas("schema=olm.channel&package=PACKAGE")},
	} {
		measured, err := measureLoad(ctx, d.cmd.Process.Pid, d.roots, kind.encoding, kind.urls)
		if err != nil {
			return err
		}
		measured.printResult(what + ", " + kind.name)
	}

	peak, anonymous, err := readProcessMemory(d.cmd.Process.Pid)
	if err != nil {
		return err
	}

	samples{peak}.printSummary("  peak memory after all of it", "MB", 0)
	samples{anonymous}.printSummary("  anonymous memory after all of it", "MB", 1)
	return nil
}

// listPackages returns the names of the catalog's packages.
func (d *catalogd) listPackages(ctx context.Context) ([]string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.base+"/api/v1/metas?schema=olm.package&fields=name", nil)
	if err != nil {
		return nil, err
	}

	resp, err := newLoadClient(d.roots).Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var names []string
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		var blob struct{ Name string }
		if err := json.Unmarshal(lines.Bytes(), &blob); err != nil {
			return nil, err
		}
		names = append(names, blob.Name)
	}

	return names, nil
}
