package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/mainstay-dev/mainstay/internal/testing/cluster"
	"github.com/mainstay-dev/mainstay/test/scenario/trial"
)

// scenario is the state that the packages share.
type scenario struct {
	*cluster.Cluster
	observer *clusterObserver
	user     *extensionUser
	table    *trial.Table
	// initialObjects are the objects that existed at the beginning.
	initialObjects map[string]bool

	mu sync.Mutex
	// dependentBundles are bundles that were refused because of their dependencies.
	dependentBundles []dependentBundle
}

// checkPackage installs every version of a package on its own, and then updates from one to the
// next.
func (s *scenario) checkPackage(ctx context.Context, p *packageVersions) {
	var good []string
	for _, version := range p.versions {
		if ctx.Err() != nil {
			return
		}

		began := time.Now()
		o, reason := s.installAndRemove(ctx, p.name, version.Original())
		s.table.PrintLine(p.name, version.Original(), o, time.Since(began), reason)
		if o == installed {
			good = append(good, version.Original())
		}

		if o == refused && strings.Contains(reason, missingDependencyText) {
			s.mu.Lock()
			s.dependentBundles = append(s.dependentBundles, dependentBundle{p.name, version.Original()})
			s.mu.Unlock()
		}
	}

	if len(good) > 1 && ctx.Err() == nil {
		s.updateThroughVersions(ctx, p.name, good)
	}

	for _, namespace := range []string{p.name, watchedNamespaceOf(p.name)} {
		if err := s.observer.deleteNamespace(ctx, namespace); err != nil {
			s.table.PrintLine(p.name, "namespace", unexpected, 0, err.Error())
		}
	}
}

// watchedNamespaceOf returns the watch namespace for extensions that cannot watch their own
// namespace.
func watchedNamespaceOf(name string) string { return name + "-watched" }

// installAndRemove installs a version and removes it.
func (s *scenario) installAndRemove(ctx context.Context, name, version string) (outcome, string) {
	rights, err := s.user.applyRights(ctx, name, "--version", version)
	if err != nil {
		return s.checkControllerRefuses(ctx, name, version, rights, err)
	}

	prepared := time.Now()
	if _, err := s.Mainstay(ctx, rights.installArgs(name, version)...); err != nil {
		return unexpected, err.Error()
	}

	o, reason := s.user.waitForOutcome(ctx, name, version)
	settled := time.Now()
	if err := s.user.uninstallWithRights(ctx, name, rights); err != nil {
		return unexpected, err.Error()
	}
	if o == installed {
		reason = fmt.Sprintf("available after %.2f s, removed in %.2f s", settled.Sub(prepared).Seconds(), time.Since(settled).Seconds())
	}

	return o, reason
}

// checkControllerRefuses checks that the controller refuses a bundle that `mainstay rbac
// generate` has refused. It returns the reason of the conditions.
func (s *scenario) checkControllerRefuses(ctx context.Context, name, version string, r *installRights, refusal error) (outcome, string) {
	if _, err := s.Mainstay(ctx, r.installArgs(name, version)...); err != nil {
		return unexpected, err.Error()
	}

	o, reason := s.user.waitForOutcome(ctx, name, version)
	if err := s.user.uninstallWithRights(ctx, name, r); err != nil {
		return unexpected, err.Error()
	}
	if o == installed {
		return unexpected, "it is installed, and yet: " + refusal.Error()
	}

	return o, reason
}

// checkNothingLeft compares the objects of the cluster with those at the beginning.
func (s *scenario) checkNothingLeft(ctx context.Context) {
	began := time.Now()
	err := s.observer.CheckNothingLeft(ctx, func(object string) bool { return s.initialObjects[object] })
	if err != nil {
		s.table.PrintLine("(all)", "", unexpected, time.Since(began), err.Error())
	}
}
