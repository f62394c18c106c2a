package main

import (
	"context"
	"errors"
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
		s.table.PrintLine(n.name, n.version+", with others", o, time.Since(began), reason)
		if err := s.observer.deleteNamespace(ctx, n.name); err != nil {
			s.table.PrintLine(n.name, "namespace", unexpected, 0, err.Error())
		}
	}
}

// installWithDependencies installs a bundle with its dependencies, and removes all of them.
func (s *scenario) installWithDependencies(ctx context.Context, n dependentBundle) (outcome, string) {
	rights, err := s.user.applyRights(ctx, n.name, "--version", n.version)
	if err != nil {
		return unexpected, err.Error()
	}

	args := append(rights.installArgs(n.name, n.version), "--dependencies", string(olmv1.DependencyPolicyInstall))
	if _, err := s.Mainstay(ctx, args...); err != nil {
		return unexpected, err.Error()
	}

	o, reason, created := s.user.waitForCreatedExtensions(ctx, n)
	for i := range created {
		manifest, err := s.user.grantDependencyRights(ctx, n.name, &created[i])
		if err != nil {
			return unexpected, err.Error()
		}
		rights.manifest += manifest
	}

	if o == "" {
		o, reason = s.user.waitForOutcome(ctx, n.name, n.version)
	}

	names := []string{n.name}
	for i := range created {
		names = append(names, created[i].Name)
	}

	var failed error
	for _, name := range names { // A bundle is removed before its dependencies.
		failed = errors.Join(failed, s.user.uninstallExtension(ctx, name))
	}

	if err := errors.Join(failed, s.observer.deleteManifest(ctx, rights.manifest)); err != nil {
		return unexpected, err.Error()
	}
	if o == installed {
		reason = "beside " + strings.Join(names[1:], ", ") + ", installed for it"
	}

	return o, reason
}
