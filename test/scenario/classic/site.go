package classic

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/testing/cluster"
	"github.com/mainstay-dev/mainstay/test/scenario/trial"
)

// Site is an embedded cluster with the servers of OLM v1 and OLM Classic, and a catalog for both.
type Site struct {
	*cluster.Cluster
	*trial.Observer
	// Packages are the packages of the catalog.
	Packages []*Package

	dir string
	// catalogAddress is the address at which the catalog is served.
	catalogAddress string
	catalogServer  *cluster.Process
	// initialObjects are the objects that existed at the beginning.
	initialObjects map[string]bool
}

// Start starts a site in a folder, with a catalog of the bundles of another folder. If packages are
// named, the catalog has only these. The caller must call Stop, even if Start returns an error.
func Start(ctx context.Context, dir, bundles string, packages []string) (*Site, error) {
	s := &Site{dir: dir}
	c, err := cluster.Up(ctx, cluster.Options{Bin: "bin", Dir: dir})
	if err != nil {
		return s, err
	}

	s.Cluster = c
	// Some operators require a control plane node.
	if _, err := c.Kubectl(ctx, "label", "nodes", "--all", "node-role.kubernetes.io/control-plane=", "node-role.kubernetes.io/master="); err != nil {
		return s, err
	}
	// The servers of OLM Classic run if the cluster serves their kinds.
	if _, err := c.Kubectl(ctx, "apply", "--server-side", "-k", filepath.Join("config", "classic", "crd")); err != nil {
		return s, err
	}
	// One of the bundles is cert-manager, which issues no certificates on a simulated node. Nobody reads PackageManifests.
	if err := c.Serve(ctx, "--feature-gates=WebhookProviderCertManager=false", "--package-server-address=0"); err != nil {
		return s, err
	}

	s.Observer, err = trial.NewObserver(c.Kubeconfig, olmv1.AddToScheme, operatorsv1.AddToScheme, v1alpha1.AddToScheme,
		corev1.AddToScheme, appsv1.AddToScheme, apiextensionsv1.AddToScheme)
	if err != nil {
		return s, err
	}
	if err := s.publishCatalog(ctx, bundles, packages); err != nil {
		return s, err
	}

	s.initialObjects, err = s.ListStableObjects(ctx)
	return s, err
}

// Stop stops everything. It removes the files if the scenario has succeeded.
func (s *Site) Stop(ctx context.Context, good bool) error {
	var err error
	if s.catalogServer != nil {
		err = s.catalogServer.Stop()
	}
	if s.Cluster != nil {
		err = errors.Join(err, s.Down(ctx))
	}
	if good && err == nil {
		return os.RemoveAll(s.dir)
	}

	fmt.Printf("What was written stays in %s\n", s.dir)
	return err
}

// publishCatalog pushes a catalog of bundles, adds it to OLM v1, and serves it for OLM Classic.
func (s *Site) publishCatalog(ctx context.Context, bundles string, packages []string) error {
	if len(packages) > 0 {
		selected := filepath.Join(s.dir, "bundles")
		for _, name := range packages {
			if err := os.CopyFS(filepath.Join(selected, name), os.DirFS(filepath.Join(bundles, name))); err != nil {
				return err
			}
		}
		bundles = selected
	}

	image := s.Registry + "/scenario/bundles:latest"
	if _, err := s.Mainstay(ctx, "catalog", "build", filepath.Clean(bundles), "--push", image); err != nil {
		return err
	}
	if _, err := s.Mainstay(ctx, "catalog", "add", "scenario", "--image", image, "--wait"); err != nil {
		return err
	}

	text, err := s.Run(ctx, "opm", "render", image)
	if err != nil {
		return err
	}
	if s.Packages, err = readPackages(strings.NewReader(text)); err != nil {
		return err
	}

	folder := filepath.Join(s.dir, "catalog")
	if err := errors.Join(os.MkdirAll(folder, 0o755), os.WriteFile(filepath.Join(folder, "catalog.json"), []byte(text), 0o644)); err != nil {
		return err
	}
	return s.serveCatalog(folder)
}

// serveCatalog serves a file-based catalog as the pod of a CatalogSource would.
func (s *Site) serveCatalog(folder string) error {
	address, err := cluster.FreeAddress()
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}

	program := exec.Command(filepath.Join("bin", "opm"), "serve", folder, "--port", port, "--pprof-addr", "", "--termination-log", filepath.Join(s.dir, "termination.log"))
	s.catalogAddress = address
	s.catalogServer, err = cluster.Launch("opm serve", filepath.Join(s.dir, "opm.log"), program)
	return err
}

// keptObjects are the objects that OLM Classic keeps as documented: Operators until a user deletes
// them, and the content of bundles for an hour.
var keptObjects = []string{"operators.operators.coreos.com /", "configmaps olm/"}

// CheckNothingLeft waits until the cluster has only the objects that it had at the beginning, and
// those that OLM Classic keeps.
func (s *Site) CheckNothingLeft(ctx context.Context) error {
	return s.Observer.CheckNothingLeft(ctx, func(object string) bool {
		return s.initialObjects[object] || slices.ContainsFunc(keptObjects, func(kept string) bool { return strings.HasPrefix(object, kept) })
	})
}

// deleteCRDs deletes the CRDs of the groups of a package that did not exist at the beginning, and
// waits until they are gone. A failed installation leaves some.
func (s *Site) deleteCRDs(ctx context.Context, p *Package) error {
	groups := p.apiGroups()
	return trial.WaitFor(ctx, func(ctx context.Context) error {
		var crds apiextensionsv1.CustomResourceDefinitionList
		if err := s.List(ctx, &crds); err != nil {
			return err
		}

		var left []string
		for i := range crds.Items {
			crd := &crds.Items[i]
			if !groups[crd.Spec.Group] || s.initialObjects["customresourcedefinitions.apiextensions.k8s.io /"+crd.Name] {
				continue
			}
			left = append(left, crd.Name)
			if err := s.Delete(ctx, crd); client.IgnoreNotFound(err) != nil {
				return err
			}
		}

		if len(left) > 0 {
			return fmt.Errorf("CRDs are not removed: %s", strings.Join(left, ", "))
		}
		return nil
	})
}
