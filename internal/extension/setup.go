// Package extension is the component operator-controller: the controllers of
// ClusterExtension (install) and ClusterObjectSet (rollout), the issuer of webhook
// certificates (serving), and the reporter of whether the cluster may be updated
// (upgradeable).
package extension

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/discovery"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/mainstay-dev/mainstay/internal/extension/account"
	"github.com/mainstay-dev/mainstay/internal/extension/install"
	"github.com/mainstay-dev/mainstay/internal/extension/preflight"
	"github.com/mainstay-dev/mainstay/internal/extension/rollout"
	"github.com/mainstay-dev/mainstay/internal/extension/serving"
	"github.com/mainstay-dev/mainstay/internal/extension/upgradeable"
	"github.com/mainstay-dev/mainstay/internal/image"
)

// Options are the options of the component.
type Options struct {
	// SystemNamespace is the namespace of the component's own Secrets. Required.
	SystemNamespace string
	// Catalogs reads the content of catalogs. Required.
	Catalogs install.CatalogReader
	// Images returns the client that pulls bundles. It is called for each pull, because its logins
	// may change. Required.
	Images func(context.Context) (*image.Client, error)
	// CacheDir is the directory of unpacked bundles. It may be deleted while the program runs.
	// Required.
	CacheDir string
	// RequireServiceAccount refuses extensions and revisions that name no service account.
	RequireServiceAccount bool
	// IgnoreServiceAccount installs every extension with operator-controller's own rights, even if
	// it names a service account. It excludes RequireServiceAccount.
	IgnoreServiceAccount bool
	// CertManager selects cert-manager as the issuer of webhook certificates if the cluster serves
	// it.
	CertManager bool
	// Program is the version of this program.
	Program string
}

// Setup adds the controllers of the component to a manager.
func Setup(mgr ctrl.Manager, opts Options) error {
	if opts.SystemNamespace == "" || opts.CacheDir == "" || opts.Catalogs == nil || opts.Images == nil {
		return errors.New("setting up operator-controller: system namespace, cache directory, catalogs and images are required")
	}
	if opts.RequireServiceAccount && opts.IgnoreServiceAccount {
		return errors.New("setting up operator-controller: --require-service-account and --ignore-service-account exclude each other")
	}

	server, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("creating the discovery client: %w", err)
	}

	installs := &install.Controller{
		Client:   mgr.GetClient(),
		Reader:   mgr.GetAPIReader(),
		Catalogs: opts.Catalogs,
		Bundles:  &bundleOpener{images: opts.Images, cache: image.NewCache(opts.CacheDir)},
		Preflight: preflight.Checks{
			preflight.New(mgr.GetAPIReader(), mgr.GetRESTMapper()).CheckExtension,
			preflight.NewCRDChecker(mgr.GetAPIReader()).Check,
		},
		KubernetesVersion:     server.ServerVersion,
		ServedResources:       server.ServerResourcesForGroupVersion,
		SystemNamespace:       opts.SystemNamespace,
		RequireServiceAccount: opts.RequireServiceAccount,
		IgnoreServiceAccount:  opts.IgnoreServiceAccount,
		CertManager:           opts.CertManager,
		Program:               opts.Program,
	}
	if err := installs.SetupWithManager(mgr); err != nil {
		return err
	}

	accounts, err := account.NewClients(mgr)
	if err != nil {
		return err
	}
	if err := serving.Setup(mgr, serving.Options{SystemNamespace: opts.SystemNamespace, Accounts: accounts}); err != nil {
		return err
	}

	err = upgradeable.Setup(mgr, upgradeable.Options{
		SystemNamespace: opts.SystemNamespace, Program: opts.Program, KubernetesVersion: server.ServerVersion,
	})
	if err != nil {
		return err
	}

	return rollout.Setup(mgr, rollout.Options{
		SystemNamespace: opts.SystemNamespace, Accounts: accounts, RequireServiceAccount: opts.RequireServiceAccount,
	})
}
