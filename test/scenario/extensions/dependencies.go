package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// dependentBundle is a bundle that depends on other bundles.
type dependentBundle struct{ name, version string }

// retryWithDependencies installs the bundles that were refused because of their dependencies
// again, together with these. It runs after all other packages, as the dependencies are some of
// them.
func (s *scenario) retryWithDependencies(ctx context.Context) {
	for _, n := range s.dependentBundles {
		if ctx.Err() != nil {
			return
		}

		began := time.Now()
		o, reason := s.installWithDependencies(ctx, n)
		s.table.printLine(n.name, n.version+", with others", o, time.Since(began), reason)
		if err := s.observer.deleteNamespace(ctx, n.name); err != nil {
			s.table.printLine(n.name, "namespace", unexpected, 0, err.Error())
		}
	}
}

// installWithDependencies installs a bundle with its dependencies, and removes all of them.
func (s *scenario) installWithDependencies(ctx context.Context, n dependentBundle) (outcome, string) {
	rights, err := s.applyRights(ctx, n.name, "--version", n.version)
	if err != nil {
		return unexpected, err.Error()
	}

	args := append(s.installArgs(n.name, n.version, rights), "--dependencies", string(olmv1.DependencyPolicyInstall))
	if _, err := s.Mainstay(ctx, args...); err != nil {
		return unexpected, err.Error()
	}

	o, reason, created := s.waitForCreatedExtensions(ctx, n)
	for i := range created {
		manifest, err := s.grantDependencyRights(ctx, n.name, &created[i])
		if err != nil {
			return unexpected, err.Error()
		}
		rights.manifest += manifest
	}

	if o == "" {
		o, reason = s.waitForOutcome(ctx, n.name, n.version)
	}

	names := []string{n.name}
	for i := range created {
		names = append(names, created[i].Name)
	}

	var failed error
	for _, name := range names { // A bundle is removed before its dependencies.
		failed = errors.Join(failed, s.uninstallExtension(ctx, name))
	}

	if err := errors.Join(failed, s.observer.deleteManifest(ctx, rights.manifest)); err != nil {
		return unexpected, err.Error()
	}
	if o == installed {
		reason = "beside " + strings.Join(names[1:], ", ") + ", installed for it"
	}

	return o, reason
}

// waitForCreatedExtensions waits for the extensions that are created for the dependencies of a
// bundle, or until the bundle is refused.
func (s *scenario) waitForCreatedExtensions(ctx context.Context, n dependentBundle) (o outcome, reason string, created []olmv1.ClusterExtension) {
	err := waitFor(ctx, func(ctx context.Context) error {
		var all olmv1.ClusterExtensionList
		if err := s.observer.List(ctx, &all); err != nil {
			return err
		}

		created = slices.DeleteFunc(all.Items, func(e olmv1.ClusterExtension) bool { return e.Annotations[olmv1.AnnotationCreatedFor] != n.name })
		if len(created) > 0 {
			return nil
		}

		extension, err := s.observer.getExtension(ctx, n.name)
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
func (s *scenario) grantDependencyRights(ctx context.Context, account string, to *olmv1.ClusterExtension) (string, error) {
	catalog := to.Spec.Source.Catalog
	args := []string{"rbac", "generate", catalog.PackageName, "--name", to.Name, "--namespace", to.Spec.Namespace,
		"--service-account", account + "-installer", "--cert-manager=false", "--version", catalog.Version}
	for _, channel := range catalog.Channels {
		args = append(args, "--channel", channel)
	}

	manifest, err := s.Mainstay(ctx, args...)
	if err != nil {
		return "", err
	}

	return manifest, s.Apply(ctx, manifest)
}
