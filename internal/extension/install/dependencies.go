package install

import (
	"context"
	"fmt"

	"github.com/blang/semver/v4"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
	"github.com/mainstay-dev/mainstay/internal/resolve/dependency"
)

// checkDependencies checks that the requirements of a bundle are met, and that it breaks no
// extension that depends on the installed bundle. If no bundle on the cluster has requirements,
// that costs only two lists from the cache.
func (a *attempt) checkDependencies(ctx context.Context, ext *olmv1.ClusterExtension, wanted *dependency.Bundle) error {
	requirements, err := wanted.Requires()
	if err != nil {
		return reconcile.Stop(olmv1.ReasonBlocked, fmt.Errorf("bundle %q: %w", wanted.Name, err))
	}

	// From here on changes of other extensions enqueue this one, so that none is missed
	// between the check and the wait.
	a.recordWaiting(ext, waitingBundle{})
	peers, err := a.listPeerExtensions(ctx, ext)
	if err != nil {
		return err
	}

	if len(requirements) > 0 || peers.haveRequirements {
		before, others := bundleFromRevision(a.revisions.installed()), peers.dependencyBundles()
		problem := dependency.Problem{Wanted: wanted, Replaced: before, Installed: others}
		if err := a.evaluateDependencies(ctx, ext, peers, problem); err != nil {
			return err
		}
	}

	if a.dryRun == nil {
		a.waitingExtensions.Delete(ext.Name)
	}

	return nil
}

// recordWaiting records that an extension waits for others, and with which bundle. A dry run
// records nothing, because others must not count on it.
func (a *attempt) recordWaiting(ext *olmv1.ClusterExtension, bundle waitingBundle) {
	if a.dryRun == nil {
		a.waitingExtensions.Store(ext.Name, bundle)
	}
}

// evaluateDependencies returns an error if the change would break other extensions, or while
// requirements of the wanted bundle are missing. With the policy Install it has the missing ones
// installed.
func (a *attempt) evaluateDependencies(ctx context.Context, ext *olmv1.ClusterExtension, peers *peerSet, problem dependency.Problem) error {
	served := a.newServedAPIs()
	problem.Serves = served.lookUpAPI
	change := dependency.Change{Before: problem.Replaced, After: problem.Wanted, Others: problem.Installed, Serves: served.lookUpAPI}
	breaks := change.Breaks()
	unmet, err := problem.Missing()
	switch {
	case served.err != nil:
		return served.err
	case err != nil:
		return err
	case len(breaks) > 0:
		return newBreaksError(problem.Replaced, problem.Wanted, breaks)
	case len(unmet) == 0:
		return nil
	}

	// Extensions that wait for this one can now see that it waits for them.
	a.recordWaiting(ext, waitingBundle{problem.Wanted.Package, problem.Wanted.Name, problem.Wanted.Version, problem.Wanted.Properties})
	if problem.MutuallyMet(a.pendingBundles(peers)) {
		return nil
	}

	return a.resolveMissingDependencies(ctx, ext, peers, problem, unmet)
}

// waitingBundle is the bundle that an extension would install if its requirements were met. The
// zero value is for an extension that waits for something else.
type waitingBundle struct {
	pkg, name  string
	version    semver.Version
	properties []fbc.Property
}

// pendingBundles returns the bundles of other extensions that are being rolled out, or wait for
// their requirements.
func (a *attempt) pendingBundles(peers *peerSet) []*dependency.Bundle {
	var bundles []*dependency.Bundle
	for _, set := range peers.revisions {
		if b := bundleFromRevision(set); b != nil && !hasSucceeded(set) {
			bundles = append(bundles, b)
		}
	}

	for i := range peers.extensions {
		value, _ := a.waitingExtensions.Load(peers.extensions[i].Name)
		if w, _ := value.(waitingBundle); w.name != "" {
			bundles = append(bundles, dependency.NewBundle(w.name, w.pkg, w.version, w.properties))
		}
	}

	return bundles
}

// newBreaksError returns the error that names the extensions which an installation or update would
// break.
func newBreaksError(before, wanted *dependency.Bundle, breaks []dependency.Break) error {
	doing := fmt.Sprintf("installing bundle %q", wanted.Name)
	if before != nil {
		doing = fmt.Sprintf("updating from bundle %q to %q", before.Name, wanted.Name)
	}
	return reconcile.Stop(olmv1.ReasonBlocked, &dependency.BreaksError{
		Doing: doing, Breaks: breaks,
		Advice: "Update or remove those first, or keep this one back with spec.source.catalog.version",
	})
}

// resolveMissingDependencies returns an error that waits for the missing requirements. With the
// policy Install it creates extensions that provide them.
func (a *attempt) resolveMissingDependencies(ctx context.Context, ext *olmv1.ClusterExtension, peers *peerSet, problem dependency.Problem, unmet []dependency.Unmet) error {
	consent := dependencyPolicy(ext) == olmv1.DependencyPolicyInstall
	offers, err := a.readCandidatePackages(ctx, ext, unmet, consent)
	if err != nil {
		return err
	}

	withCatalogs := dependency.Problem{
		Wanted: problem.Wanted, Replaced: problem.Replaced, Installed: problem.Installed, Serves: problem.Serves, Catalogs: offers.dependencyCatalogs(),
	}
	if unmet, err = withCatalogs.Missing(); err != nil {
		return err
	}

	missing := &dependency.MissingError{Bundle: withCatalogs.Wanted.Name, Missing: unmet}
	if a.dryRun != nil {
		a.dryRun.missing = unmet
	}
	if !consent {
		return reconcile.Wait(olmv1.ReasonRetrying, resolutionRetryInterval, fmt.Errorf(
			"%w. Install it, or set spec.install.dependencies.policy to Install to have it installed", missing))
	}

	return a.installDependencies(ctx, ext, peers, &withCatalogs, offers, missing)
}

func dependencyPolicy(ext *olmv1.ClusterExtension) olmv1.DependencyPolicy {
	if ext.Spec.Install == nil || ext.Spec.Install.Dependencies == nil {
		return olmv1.DependencyPolicyBlock
	}
	return ext.Spec.Install.Dependencies.Policy
}

// blockRemovalForDependents blocks the removal while other extensions depend on the installed
// bundle, unless an annotation overrides that. A removal that has begun continues.
func (a *attempt) blockRemovalForDependents(ctx context.Context, ext *olmv1.ClusterExtension) error {
	installed := a.revisions.installed()
	if installed == nil || ext.Annotations[olmv1.AnnotationRemoveDespiteDependents] == "true" {
		a.waitingExtensions.Delete(ext.Name)
		return nil
	}

	a.waitingExtensions.Store(ext.Name, waitingBundle{})
	peers, err := a.listPeerExtensions(ctx, ext)
	if err != nil {
		return err
	}

	if peers.haveRequirements {
		served := a.newServedAPIs()
		change := dependency.Change{Before: bundleFromRevision(installed), Others: peers.dependencyBundles(), Serves: served.lookUpAPI}
		breaks := change.Breaks()
		if served.err != nil {
			return served.err
		}

		if len(breaks) > 0 {
			return reconcile.Stop(olmv1.ReasonBlocked, &dependency.BreaksError{
				Doing: "the removal waits: it", Breaks: breaks,
				Advice: fmt.Sprintf("Remove those first, or set the annotation %s: \"true\" on this extension", olmv1.AnnotationRemoveDespiteDependents),
			})
		}
	}

	a.waitingExtensions.Delete(ext.Name)
	return nil
}
