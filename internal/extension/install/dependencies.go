package install

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
	"github.com/mainstay-dev/mainstay/internal/resolve/dependency"
)

// dependencyFindings are what was found of the requirements of a bundle, and of the extensions that
// depend on the installed bundle.
type dependencyFindings struct {
	// missing are the requirements that are not met.
	missing []dependency.Unmet
	// create are the extensions to create for them.
	create []dependencyExtension
	// awaited are the names of the existing extensions that must be installed first.
	awaited []string
	// err is why the bundle cannot be installed otherwise.
	err error
}

// problemError returns what is in the way of the bundle, apart from the extensions to create. It returns
// nil if nothing is.
func (f *dependencyFindings) problemError() error {
	if f.err != nil || len(f.awaited) == 0 {
		return f.err
	}
	return waitForExtensions(f.awaited)
}

// stopError returns why the bundle is not installed now. It returns nil if it can be.
func (f *dependencyFindings) stopError() error {
	if f.err != nil || len(f.awaited)+len(f.create) == 0 {
		return f.err
	}

	names := f.awaited
	for _, created := range f.create {
		names = append(names[:len(names):len(names)], created.extension.Name)
	}
	return waitForExtensions(names)
}

// dependencyChecker checks that a change leaves no requirement unmet.
type dependencyChecker struct {
	client          client.Client
	servedResources func(groupVersion string) (*metav1.APIResourceList, error)
	catalogs        *catalogBrowser
	waiting         *waitingExtensions
	// registers determines whether the extension is recorded as waiting. A plan records nothing,
	// because others must not count on it.
	registers bool
}

// checkDependencies checks that the requirements of a bundle are met, and that it breaks no
// extension that depends on the installed bundle. If no bundle on the cluster has requirements,
// that costs only two lists from the cache.
func (c *dependencyChecker) checkDependencies(ctx context.Context, ext *olmv1.ClusterExtension, installed *olmv1.ClusterObjectSet, wanted *dependency.Bundle) *dependencyFindings {
	requirements, err := wanted.Requires()
	if err != nil {
		return &dependencyFindings{err: reconcile.Stop(olmv1.ReasonBlocked, fmt.Errorf("bundle %q: %w", wanted.Name, err))}
	}

	// From here on changes of other extensions enqueue this one, so that none is missed
	// between the check and the wait.
	c.recordWaiting(ext, waitingBundle{})
	peers, err := listPeerExtensions(ctx, c.client, ext)
	if err != nil {
		return &dependencyFindings{err: err}
	}

	found := &dependencyFindings{}
	if len(requirements) > 0 || peers.haveRequirements {
		before, others := bundleFromRevision(installed), peers.dependencyBundles()
		problem := dependency.Problem{Wanted: wanted, Replaced: before, Installed: others}
		found = c.evaluateDependencies(ctx, ext, peers, problem)
	}

	if c.registers && found.stopError() == nil {
		c.waiting.remove(ext.Name)
	}

	return found
}

// recordWaiting records that an extension waits for others, and with which bundle.
func (c *dependencyChecker) recordWaiting(ext *olmv1.ClusterExtension, bundle waitingBundle) {
	if c.registers {
		c.waiting.record(ext.Name, bundle)
	}
}

// evaluateDependencies finds the extensions that the change would break, and the requirements of
// the wanted bundle that are missing. With the policy Install it finds what provides these.
func (c *dependencyChecker) evaluateDependencies(ctx context.Context, ext *olmv1.ClusterExtension, peers *peerSet, problem dependency.Problem) *dependencyFindings {
	served := newServedAPIs(c.client.RESTMapper(), c.servedResources)
	problem.Serves = served.lookUpAPI
	change := dependency.Change{Before: problem.Replaced, After: problem.Wanted, Others: problem.Installed, Serves: served.lookUpAPI}
	breaks := change.Breaks()
	unmet, err := problem.Missing()
	switch {
	case served.err != nil:
		return &dependencyFindings{err: served.err}
	case err != nil:
		return &dependencyFindings{err: err}
	case len(breaks) > 0:
		return &dependencyFindings{err: newBreaksError(problem.Replaced, problem.Wanted, breaks)}
	case len(unmet) == 0:
		return &dependencyFindings{}
	}

	// Extensions that wait for this one can now see that it waits for them.
	c.recordWaiting(ext, waitingBundle{problem.Wanted.Package, problem.Wanted.Name, problem.Wanted.Version, problem.Wanted.Properties})
	if problem.MutuallyMet(c.waiting.listPendingBundles(peers)) {
		return &dependencyFindings{}
	}

	return c.findProviders(ctx, ext, peers, problem, unmet)
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

// findProviders reads from the catalogs what would meet the missing requirements. With the policy
// Install the findings hold the extensions to create.
func (c *dependencyChecker) findProviders(ctx context.Context, ext *olmv1.ClusterExtension, peers *peerSet, problem dependency.Problem, unmet []dependency.Unmet) *dependencyFindings {
	consent := dependencyPolicy(ext) == olmv1.DependencyPolicyInstall
	offers, err := c.catalogs.readCandidatePackages(ctx, ext, unmet, consent)
	if err != nil {
		return &dependencyFindings{err: err}
	}

	withCatalogs := dependency.Problem{
		Wanted: problem.Wanted, Replaced: problem.Replaced, Installed: problem.Installed, Serves: problem.Serves, Catalogs: offers.dependencyCatalogs(),
	}
	if unmet, err = withCatalogs.Missing(); err != nil {
		return &dependencyFindings{err: err}
	}

	missing := &dependency.MissingError{Bundle: withCatalogs.Wanted.Name, Missing: unmet}
	if !consent {
		return &dependencyFindings{missing: unmet, err: reconcile.Wait(olmv1.ReasonRetrying, resolutionRetryInterval, fmt.Errorf(
			"%w. Install it, or set spec.install.dependencies.policy to Install to have it installed", missing))}
	}

	return planDependencies(ext, peers, &withCatalogs, offers, missing)
}

func dependencyPolicy(ext *olmv1.ClusterExtension) olmv1.DependencyPolicy {
	if ext.Spec.Install == nil || ext.Spec.Install.Dependencies == nil {
		return olmv1.DependencyPolicyBlock
	}
	return ext.Spec.Install.Dependencies.Policy
}

// checkDependents returns an error if the removal of a bundle would break other extensions.
func (c *dependencyChecker) checkDependents(ctx context.Context, ext *olmv1.ClusterExtension, installed *olmv1.ClusterObjectSet) error {
	peers, err := listPeerExtensions(ctx, c.client, ext)
	if err != nil || !peers.haveRequirements {
		return err
	}

	served := newServedAPIs(c.client.RESTMapper(), c.servedResources)
	change := dependency.Change{Before: bundleFromRevision(installed), Others: peers.dependencyBundles(), Serves: served.lookUpAPI}
	breaks := change.Breaks()
	switch {
	case served.err != nil:
		return served.err
	case len(breaks) > 0:
		return reconcile.Stop(olmv1.ReasonBlocked, &dependency.BreaksError{
			Doing: "the removal waits: it", Breaks: breaks,
			Advice: fmt.Sprintf("Remove those first, or set the annotation %s: \"true\" on this extension", olmv1.AnnotationRemoveDespiteDependents),
		})
	}

	return nil
}
