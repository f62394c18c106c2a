package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// needy is a bundle that needs what others bring.
type needy struct{ name, version string }

// meet installs the bundles that were refused for what they need once more, and lets
// that be installed for them. It is done when no package is looked at any more: what they
// need are some of these.
func (s *scenario) meet(ctx context.Context) {
	for _, n := range s.needy {
		if ctx.Err() != nil {
			return
		}

		began := time.Now()
		o, reason := s.withDependencies(ctx, n)
		s.table.line(n.name, n.version+", with others", o, time.Since(began), reason)
		if err := s.observer.deleteNamespace(ctx, n.name); err != nil {
			s.table.line(n.name, "namespace", surprise, 0, err.Error())
		}
	}
}

// withDependencies installs a bundle and what it needs, and removes both.
func (s *scenario) withDependencies(ctx context.Context, n needy) (outcome, string) {
	rights, err := s.prepare(ctx, n.name, "--version", n.version)
	if err != nil {
		return surprise, err.Error()
	}

	args := append(s.install(n.name, n.version, rights), "--dependencies", string(olmv1.DependencyPolicyInstall))
	if _, err := s.Mainstay(ctx, args...); err != nil {
		return surprise, err.Error()
	}

	o, reason, created := s.created(ctx, n)
	for i := range created {
		manifest, err := s.lend(ctx, n.name, &created[i])
		if err != nil {
			return surprise, err.Error()
		}
		rights.manifest += manifest
	}

	if o == "" {
		o, reason = s.settle(ctx, n.name, n.version)
	}

	names := []string{n.name}
	for i := range created {
		names = append(names, created[i].Name)
	}

	var failed error
	for _, name := range names { // What needs another is removed before it.
		failed = errors.Join(failed, s.vanish(ctx, name))
	}

	if err := errors.Join(failed, s.observer.remove(ctx, rights.manifest)); err != nil {
		return surprise, err.Error()
	}
	if o == installed {
		reason = "beside " + strings.Join(names[1:], ", ") + ", installed for it"
	}

	return o, reason
}

// created waits for the extensions that are made for what a bundle needs, or until it is
// refused.
func (s *scenario) created(ctx context.Context, n needy) (o outcome, reason string, created []olmv1.ClusterExtension) {
	err := eventually(ctx, func(ctx context.Context) error {
		var all olmv1.ClusterExtensionList
		if err := s.observer.List(ctx, &all); err != nil {
			return err
		}

		created = slices.DeleteFunc(all.Items, func(e olmv1.ClusterExtension) bool { return e.Annotations[olmv1.AnnotationCreatedFor] != n.name })
		if len(created) > 0 {
			return nil
		}

		extension, err := s.observer.extension(ctx, n.name)
		if err != nil {
			return err
		}
		if o, reason = judge(extension, n.version); o == "" {
			return errors.New(reason)
		}

		return nil
	})
	if err != nil {
		return surprise, err.Error(), nil
	}
	return o, reason, created
}

// lend returns the account of one extension what another needs that was made for it, and
// tells what that is.
func (s *scenario) lend(ctx context.Context, account string, to *olmv1.ClusterExtension) (string, error) {
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
