package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mainstay-dev/mainstay/internal/testing/cluster"
	"github.com/mainstay-dev/mainstay/internal/testing/steps"
)

// site is a cluster with a console. Its exported fields are the settings of the specs.
type site struct {
	// Address is that of the console, and Kubeconfig that of the administrator.
	Address, Kubeconfig string
	// Kubectl is the program kubectl, and Program the program mainstay.
	Kubectl, Program string
	// Images is where specs push images.
	Images string
	// Control interrupts and restores the connection of the console to the API server: POST /down, POST /up.
	Control string
	// Tokens are the bearer tokens of the users.
	Tokens map[string]string

	*cluster.Cluster `json:"-"`

	dir, bundles string
	console      *cluster.Server
	proxy        *proxy
}

// stateTimeout limits the wait for a state of the cluster.
const stateTimeout = 3 * time.Minute

func (s *site) startCluster(ctx context.Context) (string, error) {
	c, err := cluster.Up(ctx, cluster.Options{Bin: "bin", Dir: s.dir})
	if err != nil {
		return "", err
	}

	s.Cluster = c
	s.Kubeconfig = c.Kubeconfig
	s.Images = s.Registry + "/e2e"
	if s.Kubectl, err = filepath.Abs(filepath.Join("bin", "k8s", "kubectl")); err != nil {
		return "", err
	}
	s.Program, err = filepath.Abs(filepath.Join("bin", "mainstay"))
	return "", err
}

func (s *site) startServers(ctx context.Context) (string, error) {
	if _, err := s.Cluster.Kubectl(ctx, "apply", "--server-side", "-k", "config/classic/crd"); err != nil {
		return "", err
	}
	return "", s.Serve(ctx)
}

// addCatalogs adds a catalog of the sample operator, and one of a real package if there are bundles.
func (s *site) addCatalogs(ctx context.Context) (string, error) {
	bundles := filepath.Join(s.dir, "bundles")
	if err := cluster.CopyExample("examples", bundles, s.Registry+"/e2e/hello-operator", "1.0.0", "1.1.0"); err != nil {
		return "", err
	}
	if err := s.addCatalog(ctx, "samples", bundles); err != nil {
		return "", err
	}

	const realPackage = "opentelemetry-operator"
	folder := filepath.Join(s.bundles, realPackage)
	_, err := os.Stat(folder)
	if s.bundles == "" || errors.Is(err, fs.ErrNotExist) {
		return "real bundles: skipped, because there are none", nil
	}
	return "", s.addCatalog(ctx, "community", folder)
}

// catalogImage returns the image of a catalog.
func (s *site) catalogImage(name string) string { return s.Images + "/" + name + ":latest" }

func (s *site) addCatalog(ctx context.Context, name, bundles string) error {
	if _, err := s.Mainstay(ctx, "catalog", "build", bundles, "--push", s.catalogImage(name)); err != nil {
		return err
	}
	_, err := s.Mainstay(ctx, "catalog", "add", name, "--image", s.catalogImage(name), "--poll-interval", "1h", "--wait")
	return err
}

//go:embed operators.yaml
var operatorManifests string

//go:embed users.yaml
var userManifests string

// installOperators installs the sample operator. It waits for the last state that the pages show.
func (s *site) installOperators(ctx context.Context) (string, error) {
	if err := s.Apply(ctx, strings.ReplaceAll(operatorManifests, "CATALOG_IMAGE", s.catalogImage("samples"))); err != nil {
		return "", err
	}
	if _, err := s.Mainstay(ctx, "extension", "install", "hello-operator", "--version", "1.0.0", "--namespace", "hello", "--create-namespace", "--wait"); err != nil {
		return "", err
	}

	return "", steps.Eventually(ctx, stateTimeout, func(ctx context.Context) error {
		state, err := s.Cluster.Kubectl(ctx, "get", "subscription", "hello-operator", "-n", "team-a", "-o", "jsonpath={.status.state}")
		if err == nil && state != "UpgradePending" {
			err = fmt.Errorf("the Subscription is at %q, want UpgradePending", state)
		}
		return err
	})
}

// createUsers creates service accounts with tokens. They are users like any other for the console.
func (s *site) createUsers(ctx context.Context) (string, error) {
	if err := s.Apply(ctx, userManifests); err != nil {
		return "", err
	}

	s.Tokens = map[string]string{}
	for _, user := range []string{"admin", "tenant", "nobody", "leaver"} {
		token, err := s.Cluster.Kubectl(ctx, "create", "token", user, "-n", "users", "--duration", "6h")
		if err != nil {
			return "", err
		}
		s.Tokens[user] = strings.TrimSpace(token)
	}
	return "", nil
}

// startConsole starts the console, with a connection to the API server that can be interrupted.
func (s *site) startConsole(ctx context.Context) (string, error) {
	server, err := s.Cluster.Kubectl(ctx, "config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")
	if err != nil {
		return "", err
	}
	address, err := url.Parse(server)
	if err != nil {
		return "", err
	}
	if s.proxy, err = startProxy(ctx, address.Host); err != nil {
		return "", err
	}
	s.Control = s.proxy.control

	listen, err := cluster.FreeAddress()
	if err != nil {
		return "", err
	}

	s.Address = "https://" + listen
	s.console, err = s.Start(ctx, filepath.Join(s.dir, "console.log"), "console", "--address", listen, "--api-server", "https://"+s.proxy.address, "--api-server-ca", s.CA())
	if err != nil {
		return "", err
	}
	return "", s.console.AwaitReady(ctx)
}

// stop stops everything.
func (s *site) stop(ctx context.Context) error {
	var errs []error
	if s.console != nil {
		errs = append(errs, s.console.Stop())
	}
	if s.proxy != nil {
		s.proxy.close()
	}
	if s.Cluster != nil {
		errs = append(errs, s.Down(ctx))
	}
	return errors.Join(errs...)
}
