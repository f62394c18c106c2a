package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/testing/cluster"
)

// extensionUser installs and uninstalls extensions by commands, and waits for their outcome.
type extensionUser struct {
	cluster  *cluster.Cluster
	observer *clusterObserver
}

// installRights are the rights with which an extension is installed.
type installRights struct {
	manifest string
	// watchNamespace is the namespace to watch, empty for all.
	watchNamespace string
}

// applyRights applies the rights that `mainstay rbac generate` writes, for the namespaces that
// the bundle can watch.
func (u *extensionUser) applyRights(ctx context.Context, name string, args ...string) (*installRights, error) {
	r := &installRights{}
	// cert-manager is one of the bundles, but it issues no certificates here.
	args = append([]string{"rbac", "generate", name, "--namespace", name, "--create-namespace", "--cert-manager=false"}, args...)
	manifest, err := u.cluster.Mainstay(ctx, args...)
	if advice := errorText(err); strings.Contains(advice, "do not support targeting all namespaces") {
		switch {
		case strings.Contains(advice, `set watchNamespace to "`):
			r.watchNamespace = name
		case strings.Contains(advice, "set watchNamespace to one namespace"):
			r.watchNamespace = watchedNamespaceOf(name)
			if err := u.cluster.Apply(ctx, "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+r.watchNamespace+"}\n"); err != nil {
				return r, err
			}
		default:
			return r, err
		}
		manifest, err = u.cluster.Mainstay(ctx, append(args, "--watch-namespace", r.watchNamespace)...)
	}

	if err != nil {
		return r, err
	}

	r.manifest = manifest
	return r, u.cluster.Apply(ctx, manifest)
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// installArgs returns the command that installs an extension with these rights.
func (r *installRights) installArgs(name, version string) []string {
	args := []string{"extension", "install", name, "--namespace", name, "--create-namespace", "--version", version, "--check=false"}
	if r.manifest != "" {
		args = append(args, "--service-account", name+"-installer")
	}
	if r.watchNamespace != "" {
		args = append(args, "--watch-namespace", r.watchNamespace)
	}
	return args
}

// waitForOutcome waits until the extension is installed or refused.
func (u *extensionUser) waitForOutcome(ctx context.Context, name, version string) (outcome, string) {
	var result outcome
	var reason string
	err := waitFor(ctx, func(ctx context.Context) error {
		extension, err := u.observer.getExtension(ctx, name)
		if err != nil {
			return err
		}
		if result, reason = judgeOutcome(extension, version); result == "" {
			return errors.New(reason)
		}
		return nil
	})
	if err != nil {
		return unexpected, err.Error()
	}

	return result, reason
}

// uninstallWithRights uninstalls an extension with its rights, and checks that no objects are
// left.
func (u *extensionUser) uninstallWithRights(ctx context.Context, name string, r *installRights) error {
	return errors.Join(u.uninstallExtension(ctx, name), u.observer.deleteManifest(ctx, r.manifest))
}

// uninstallExtension uninstalls an extension, and checks that no objects are left.
func (u *extensionUser) uninstallExtension(ctx context.Context, name string) error {
	if _, err := u.cluster.Mainstay(ctx, "extension", "uninstall", name, "--delete-custom-resources"); err != nil {
		return err
	}

	err := waitFor(ctx, func(ctx context.Context) error {
		extension, err := u.observer.getExtension(ctx, name)
		if err == nil {
			err = fmt.Errorf("it is not removed: %s", findCondition(extension.Status.Conditions, olmv1.TypeProgressing).Message)
		}
		return client.IgnoreNotFound(err)
	})
	if err != nil {
		return errors.Join(err, u.touchTerminatingCRDs(ctx, name))
	}
	return waitFor(ctx, func(ctx context.Context) error {
		left, err := u.observer.listOwnedObjects(ctx, name)
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("left behind: %s", strings.Join(left, ", "))
		}
		return err
	})
}

// touchTerminatingCRDs touches the CRDs that are being deleted, so that the API server processes
// them again. It waits for the removal of the extension, so that the scenario can continue.
func (u *extensionUser) touchTerminatingCRDs(ctx context.Context, name string) error {
	touched, err := u.observer.touchTerminating(ctx)
	if err != nil {
		return err
	}

	err = waitFor(ctx, func(ctx context.Context) error {
		_, err := u.observer.getExtension(ctx, name)
		if err == nil {
			err = errors.New("it is still not removed")
		}
		return client.IgnoreNotFound(err)
	})

	return errors.Join(fmt.Errorf("CRDs that were being deleted were touched: %s", strings.Join(touched, "; ")), err)
}

// waitForCreatedExtensions waits for the extensions that are created for the dependencies of a
// bundle, or until the bundle is refused.
func (u *extensionUser) waitForCreatedExtensions(ctx context.Context, n dependentBundle) (o outcome, reason string, created []olmv1.ClusterExtension) {
	err := waitFor(ctx, func(ctx context.Context) error {
		var all olmv1.ClusterExtensionList
		if err := u.observer.List(ctx, &all); err != nil {
			return err
		}

		created = slices.DeleteFunc(all.Items, func(e olmv1.ClusterExtension) bool { return e.Annotations[olmv1.AnnotationCreatedFor] != n.name })
		if len(created) > 0 {
			return nil
		}

		extension, err := u.observer.getExtension(ctx, n.name)
		if err != nil {
			return err
		}
		if o, reason = judgeOutcome(extension, n.version); o == "" {
			return errors.New(reason)
		}

		return nil
	})
	if err != nil {
		return unexpected, err.Error(), nil
	}
	return o, reason, created
}

// grantDependencyRights grants the service account of one extension the rights for a dependency,
// and returns their manifest.
func (u *extensionUser) grantDependencyRights(ctx context.Context, account string, to *olmv1.ClusterExtension) (string, error) {
	catalog := to.Spec.Source.Catalog
	args := []string{"rbac", "generate", catalog.PackageName, "--name", to.Name, "--namespace", to.Spec.Namespace,
		"--service-account", account + "-installer", "--cert-manager=false", "--version", catalog.Version}
	for _, channel := range catalog.Channels {
		args = append(args, "--channel", channel)
	}

	manifest, err := u.cluster.Mainstay(ctx, args...)
	if err != nil {
		return "", err
	}

	return manifest, u.cluster.Apply(ctx, manifest)
}
