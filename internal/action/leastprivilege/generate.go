package leastprivilege

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/mainstay-dev/mainstay/internal/action/catalog/catalogs"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/rbac"
	"github.com/mainstay-dev/mainstay/internal/render"
)

// Generate generates the service account for a version of a package.
type Generate struct {
	Registry catalogs.Registry
	Progress report.Progress

	// Package is the name of the package. With Bundle it may be empty; otherwise it must
	// match the bundle.
	Package string
	// Bundle is an existing folder or an image. Empty means that the bundle is resolved
	// from a catalog.
	Bundle string
	// Catalog is the name of a ClusterCatalog, a folder or an image. Empty means all served
	// catalogs of the cluster, as for an extension.
	Catalog string
	// Cluster returns the configuration of the cluster. It is called only when the cluster
	// is needed.
	Cluster func() (*rest.Config, error)
	// SystemNamespace is the namespace of catalogd. Empty means olmv1-system.
	SystemNamespace string
	// Version is a version or a range. Empty means any version. The highest matching
	// version is used.
	Version string
	// Channels limits the choice to bundles of these channels. Empty means all.
	Channels []string
	// UpdatesFrom are versions of the package that the extension may be updated from. The
	// same service account removes the objects that only they contain. With Bundle they are
	// folders or images.
	UpdatesFrom []string

	// Name is the name of the ClusterExtension. Empty means the name of the package.
	Name string
	// Namespace is the namespace for the namespaced objects of the bundle. Empty means the
	// name of the extension.
	Namespace string
	// ServiceAccount is the name of the service account. Empty means <extension>-installer.
	ServiceAccount string
	// WatchNamespace is the single namespace that the extension watches. Empty means all
	// namespaces if the bundle supports that.
	WatchNamespace string
	// AccessRoles reports whether the extension has spec.install.accessRoles: Aggregated.
	AccessRoles bool
	// CertManager reports whether cert-manager issues the certificates of webhooks, so that
	// the service account writes Certificates. Nil means that it does if the cluster serves
	// cert-manager and the bundle is from a catalog of the cluster.
	CertManager *bool
}

// Generated is a service account with its permissions.
type Generated struct {
	// Bundle is the name of the bundle that it can install.
	Bundle string
	// Namespace is the namespace of the service account.
	Namespace string
	// Objects can be created in this order. The namespaces must exist.
	Objects []rbac.Object
}

// Run resolves the bundle and computes the rules.
func (a *Generate) Run(ctx context.Context) (*Generated, error) {
	images, err := a.bundleReferences(ctx)
	if err != nil {
		return nil, err
	}

	g := &Generated{}
	issuer, err := a.webhookCertificateIssuer(ctx)
	if err != nil {
		return nil, err
	}

	installer := rbac.Installer{Extension: cmp.Or(a.Name, a.Package), ServiceAccount: a.ServiceAccount}
	var required []*rbac.Requirements
	for i, image := range images {
		b, err := a.loadBundle(ctx, image)
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
			return nil, a.newRenderError(b, err)
		}

		required = append(required, rbac.Required(rendered, rbac.Options{Resource: rbac.BundleResource, Extension: installer.Extension}))
	}

	grants, err := rbac.Least(required...)
	if err != nil {
		return nil, &report.Error{Object: fmt.Sprintf("bundle %q", g.Bundle), Err: err, Advice: "its author has to correct the named objects"}
	}
	if rbac.CanEscalate(grants) {
		report.OrQuiet(a.Progress).Warn("bundle " + g.Bundle + " allows its operator to grant any permission to any user; whoever installs it needs the same permissions, and so does this service account")
	}

	g.Namespace, g.Objects = installer.Namespace, installer.Objects(grants)
	return g, nil
}

// webhookCertificateIssuer returns the issuer of the certificates of webhooks.
func (a *Generate) webhookCertificateIssuer(ctx context.Context) (render.Issuer, error) {
	used := a.CertManager
	if _, onCluster := clusterCatalogName(a.Catalog); used == nil && a.Bundle == "" && onCluster {
		config, err := a.Cluster()
		if err != nil {
			return "", err
		}

		serves, err := isCertManagerServed(ctx, config)
		if err != nil {
			return "", &report.Error{Object: "the cluster", Err: fmt.Errorf("asking whether it serves cert-manager: %w", err), Advice: "specify --cert-manager or --cert-manager=false"}
		}

		used = &serves
	}

	if used != nil && *used {
		return render.IssuerCertManager, nil
	}
	return render.IssuerBuiltIn, nil
}

// isCertManagerServed reports whether the cluster serves the API of cert-manager, as
// operator-controller determines it.
func isCertManagerServed(ctx context.Context, config *rest.Config) (bool, error) {
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

// loadBundle loads a bundle, which must belong to the package.
func (a *Generate) loadBundle(ctx context.Context, ref string) (*bundle.Bundle, error) {
	_, onCluster := clusterCatalogName(a.Catalog)
	open := catalogs.OpenBundle{Registry: a.Registry, Progress: a.Progress, Ref: ref, IsImage: a.Bundle == "" && onCluster}
	b, err := open.Load(ctx)
	object := fmt.Sprintf("bundle %q", ref)
	if err != nil {
		return nil, &report.Error{Object: object, Err: err, Advice: cmp.Or(report.AdviceOf(err), "name a folder with manifests and metadata, or an image that this machine can pull")}
	}

	if a.Package != "" && b.Package != a.Package {
		return nil, &report.Error{
			Object: object, Err: fmt.Errorf("it belongs to package %q, not %q", b.Package, a.Package),
			Advice: "specify that package, or none",
		}
	}

	return b, nil
}

// newRenderError returns an error with advice for a bundle that cannot be installed with
// these options.
func (a *Generate) newRenderError(b *bundle.Bundle, err error) error {
	failed := &report.Error{Object: fmt.Sprintf("bundle %q", b.Name()), Err: err, Advice: "choose another version: this one cannot be installed"}
	var misfit *render.ConfigError
	if errors.As(err, &misfit) {
		failed.Advice = "--watch-namespace is what the extension will have as watchNamespace: set it, or leave it out, as the message says"
	}
	var refused *render.RefusedError
	if errors.As(err, &refused) {
		failed.Err = &report.Reworded{Text: strings.Join(refused.Reasons, "; "), Cause: err} // Its text names the bundle again.
	}
	return failed
}
