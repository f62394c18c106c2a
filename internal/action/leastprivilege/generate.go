package leastprivilege

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/mainstay-dev/mainstay/internal/action/catalogs"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/rbac"
	"github.com/mainstay-dev/mainstay/internal/render"
)

// Generate writes the account for one version of a package.
type Generate struct {
	Registry catalogs.Registry
	Progress report.Progress

	// Package is the package. With Bundle it may be empty, and must be the bundle's.
	Package string
	// Bundle is a folder that exists, or an image. Empty means that a catalog names it.
	Bundle string
	// Catalog is where the bundle is looked for: the name of a ClusterCatalog, or a
	// folder or an image. Empty means all that the cluster serves, as an extension does.
	Catalog string
	// Cluster says how the cluster is reached. It is called only when it is needed.
	Cluster func() (*rest.Config, error)
	// SystemNamespace is that of catalogd. Empty means olmv1-system.
	SystemNamespace string
	// Version is a version or a range; empty is every version. The highest is taken.
	Version string
	// Channels limits the choice; empty means all.
	Channels []string
	// UpdatesFrom are versions of the package that may be installed when the extension
	// is updated: what only they brought is removed then, by the same account. With
	// Bundle they are folders or images.
	UpdatesFrom []string

	// Name of the ClusterExtension. Empty means that of the package.
	Name string
	// Namespace is where the namespaced objects of the bundle go. Empty means the name
	// of the extension.
	Namespace string
	// ServiceAccount is the name of the account. Empty means <extension>-installer.
	ServiceAccount string
	// WatchNamespace is the one namespace that the extension watches. Empty means all,
	// where the bundle can.
	WatchNamespace string
	// AccessRoles says that the extension has spec.install.accessRoles: Aggregated.
	AccessRoles bool
	// CertManager reports whether cert-manager issues the certificates of webhooks, so that the
	// account writes what asks it for them. Nil means: where the cluster serves it, if the
	// bundle comes from a catalog of the cluster; else not.
	CertManager *bool
}

// Generated is an account and what it may do.
type Generated struct {
	// Bundle is the name of the bundle that it can install.
	Bundle string
	// Namespace is where the account is.
	Namespace string
	// Objects can be created in this order. The namespaces must exist.
	Objects []rbac.Object
}

// Run finds the bundle and computes the rules.
func (a *Generate) Run(ctx context.Context) (*Generated, error) {
	images, err := a.images(ctx)
	if err != nil {
		return nil, err
	}

	g := &Generated{}
	issuer, err := a.issuer(ctx)
	if err != nil {
		return nil, err
	}

	installer := rbac.Installer{Extension: cmp.Or(a.Name, a.Package), ServiceAccount: a.ServiceAccount}
	var required []*rbac.Requirements
	for i, image := range images {
		b, err := a.load(ctx, image)
		if err != nil {
			return nil, err
		}

		if i == 0 {
			g.Bundle = b.Name()
			installer.Extension = cmp.Or(installer.Extension, b.Package)
			installer.Namespace = cmp.Or(a.Namespace, installer.Extension)
		}

		rendered, err := render.Render(b, render.Options{
			InstallNamespace: installer.Namespace, WatchNamespace: a.WatchNamespace, AccessRoles: a.AccessRoles, Issuer: issuer,
		})
		if err != nil {
			return nil, a.renderError(b, err)
		}

		required = append(required, rbac.Required(rendered, rbac.Options{Resource: rbac.BundleResource, Extension: installer.Extension}))
	}

	grants, err := rbac.Least(required...)
	if err != nil {
		return nil, &report.Error{Object: fmt.Sprintf("bundle %q", g.Bundle), Err: err, Advice: "its author has to correct the named objects"}
	}
	if rbac.Unlimited(grants) {
		report.OrQuiet(a.Progress).Warn("bundle " + g.Bundle + " lets its operator give any right to anybody; whoever installs it must have the same power, and so has this account")
	}

	g.Namespace, g.Objects = installer.Namespace, installer.Objects(grants)
	return g, nil
}

// issuer is who issues the certificates of webhooks.
func (a *Generate) issuer(ctx context.Context) (render.Issuer, error) {
	used := a.CertManager
	if _, onCluster := clusterCatalog(a.Catalog); used == nil && a.Bundle == "" && onCluster {
		config, err := a.Cluster()
		if err != nil {
			return "", err
		}

		serves, err := servesCertManager(ctx, config)
		if err != nil {
			return "", &report.Error{Object: "the cluster", Err: fmt.Errorf("asking whether it serves cert-manager: %w", err), Advice: "say it with --cert-manager or --cert-manager=false"}
		}

		used = &serves
	}

	if used != nil && *used {
		return render.IssuerCertManager, nil
	}
	return render.IssuerBuiltIn, nil
}

// servesCertManager asks as the operator-controller finds out: by the API.
func servesCertManager(ctx context.Context, config *rest.Config) (bool, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return false, err
	}

	err = client.RESTClient().Get().AbsPath("/apis/" + render.CertManagerVersion).Do(ctx).Error()
	if apierrors.IsNotFound(err) {
		return false, nil
	}

	return err == nil, err
}

// load reads a bundle, which must be one of the package.
func (a *Generate) load(ctx context.Context, ref string) (*bundle.Bundle, error) {
	var b *bundle.Bundle
	open := catalogs.OpenBundle{Registry: a.Registry, Progress: a.Progress, Ref: ref}
	err := open.Run(ctx, func(files fs.FS) error {
		var err error
		b, err = bundle.Load(files)
		return err
	})
	object := fmt.Sprintf("bundle %q", ref)
	if err != nil {
		return nil, &report.Error{Object: object, Err: err, Advice: cmp.Or(report.AdviceOf(err), "name a folder with manifests and metadata, or an image that this machine can pull")}
	}

	if a.Package != "" && b.Package != a.Package {
		return nil, &report.Error{
			Object: object, Err: fmt.Errorf("it is of package %q, not of %q", b.Package, a.Package),
			Advice: "name the package that it is of, or none",
		}
	}

	return b, nil
}

// renderError says why a bundle cannot be installed so.
func (a *Generate) renderError(b *bundle.Bundle, err error) error {
	failed := &report.Error{Object: fmt.Sprintf("bundle %q", b.Name()), Err: err, Advice: "choose another version: this one cannot be installed"}
	var misfit *render.ConfigError
	if errors.As(err, &misfit) {
		failed.Advice = "--watch-namespace is what the extension will have as watchNamespace: set it, or leave it out, as the message says"
	}
	return failed
}
