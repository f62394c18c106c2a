package install

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/blang/semver/v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
	"github.com/mainstay-dev/mainstay/internal/resolve/dependency"
)

// checkDependencies makes sure that a bundle has what it needs, and breaks nobody who
// needs what is installed now. A bundle that needs nothing, on a cluster where nobody
// needs anything, costs a look through the cache.
func (a *attempt) checkDependencies(ctx context.Context, ext *olmv1.ClusterExtension, wanted *dependency.Bundle) error {
	requirements, err := wanted.Requires()
	if err != nil {
		return reconcile.Stop(olmv1.ReasonBlocked, fmt.Errorf("bundle %q: %w", wanted.Name, err))
	}

	// A change after this wakes the extension, so that none is missed between looking
	// and waiting.
	a.waitFor(ext, waitingFor{})
	around, err := a.surroundings(ctx, ext)
	if err != nil {
		return err
	}

	if len(requirements) > 0 || around.dependents {
		before, others := installedBundleOf(a.revs.installed()), around.bundles()
		problem := dependency.Problem{Wanted: wanted, Replaced: before, Installed: others}
		if err := a.judge(ctx, ext, around, problem); err != nil {
			return err
		}
	}

	if a.planned == nil {
		a.waiting.Delete(ext.Name)
	}

	return nil
}

// waitFor notes what an extension waits for. A plan waits for nothing, and must not have
// others count on it.
func (a *attempt) waitFor(ext *olmv1.ClusterExtension, bundle waitingFor) {
	if a.planned == nil {
		a.waiting.Store(ext.Name, bundle)
	}
}

// judge refuses what others would suffer from, and waits until the requirements of the
// wanted bundle are met; with consent it does something about that.
func (a *attempt) judge(ctx context.Context, ext *olmv1.ClusterExtension, around *surroundings, problem dependency.Problem) error {
	served := a.served()
	problem.Serves = served.serves
	change := dependency.Change{Before: problem.Replaced, After: problem.Wanted, Others: problem.Installed, Serves: served.serves}
	breaks := change.Breaks()
	unmet, err := problem.Missing()
	switch {
	case served.failure != nil:
		return served.failure
	case err != nil:
		return err
	case len(breaks) > 0:
		return refuse(problem.Replaced, problem.Wanted, breaks)
	case len(unmet) == 0:
		return nil
	}

	// From here on those that wait for this one can tell that it waits for them.
	a.waitFor(ext, waitingFor{problem.Wanted.Package, problem.Wanted.Name, problem.Wanted.Version, problem.Wanted.Properties})
	if problem.MutuallyMet(a.onTheirWay(around)) {
		return nil
	}

	return a.meet(ctx, ext, around, problem, unmet)
}

// waitingFor is the bundle that an extension would install if its requirements were met.
// The zero value is that of one that waits for something else.
type waitingFor struct {
	pkg, name  string
	version    semver.Version
	properties []fbc.Property
}

// onTheirWay are the bundles of other extensions that are being rolled out, or wait for
// their requirements.
func (a *attempt) onTheirWay(around *surroundings) []*dependency.Bundle {
	var bundles []*dependency.Bundle
	for _, set := range around.sets {
		if b := installedBundleOf(set); b != nil && !hasSucceeded(set) {
			bundles = append(bundles, b)
		}
	}

	for i := range around.extensions {
		value, _ := a.waiting.Load(around.extensions[i].Name)
		if w, _ := value.(waitingFor); w.name != "" {
			bundles = append(bundles, dependency.NewBundle(w.name, w.pkg, w.version, w.properties))
		}
	}

	return bundles
}

// refuse tells whom an installation or update would break.
func refuse(before, wanted *dependency.Bundle, breaks []dependency.Break) error {
	doing := fmt.Sprintf("installing bundle %q", wanted.Name)
	if before != nil {
		doing = fmt.Sprintf("updating from bundle %q to %q", before.Name, wanted.Name)
	}
	return reconcile.Stop(olmv1.ReasonBlocked, &dependency.BreaksError{
		Doing: doing, Breaks: breaks,
		Advice: "Update or remove those first, or keep this one back with spec.source.catalog.version",
	})
}

// meet waits for missing requirements, or has them installed.
func (a *attempt) meet(ctx context.Context, ext *olmv1.ClusterExtension, around *surroundings, problem dependency.Problem, unmet []dependency.Unmet) error {
	consent := dependencyPolicy(ext) == olmv1.DependencyPolicyInstall
	offers, err := a.offersFor(ctx, ext, unmet, consent)
	if err != nil {
		return err
	}

	told := dependency.Problem{
		Wanted: problem.Wanted, Replaced: problem.Replaced, Installed: problem.Installed, Serves: problem.Serves, Catalogs: offers.catalogs(),
	}
	if unmet, err = told.Missing(); err != nil {
		return err
	}

	missing := &dependency.MissingError{Bundle: told.Wanted.Name, Missing: unmet}
	if a.planned != nil {
		a.planned.missing = unmet
	}
	if !consent {
		return reconcile.Wait(olmv1.ReasonRetrying, rechoose, fmt.Errorf(
			"%w. Install it, or set spec.install.dependencies.policy to Install to have it installed", missing))
	}

	return a.installDependencies(ctx, ext, around, &told, offers, missing)
}

func dependencyPolicy(ext *olmv1.ClusterExtension) olmv1.DependencyPolicy {
	if ext.Spec.Install == nil || ext.Spec.Install.Dependencies == nil {
		return olmv1.DependencyPolicyBlock
	}
	return ext.Spec.Install.Dependencies.Policy
}

// holdRemoval waits while other extensions need what is about to be removed, unless its
// owner says to go on. A removal that has begun goes on.
func (a *attempt) holdRemoval(ctx context.Context, ext *olmv1.ClusterExtension) error {
	installed := a.revs.installed()
	if installed == nil || ext.Annotations[olmv1.AnnotationRemoveDespiteDependents] == "true" {
		a.waiting.Delete(ext.Name)
		return nil
	}

	a.waiting.Store(ext.Name, waitingFor{})
	around, err := a.surroundings(ctx, ext)
	if err != nil {
		return err
	}

	if around.dependents {
		served := a.served()
		change := dependency.Change{Before: installedBundleOf(installed), Others: around.bundles(), Serves: served.serves}
		breaks := change.Breaks()
		if served.failure != nil {
			return served.failure
		}

		if len(breaks) > 0 {
			return reconcile.Stop(olmv1.ReasonBlocked, &dependency.BreaksError{
				Doing: "the removal waits: it", Breaks: breaks,
				Advice: fmt.Sprintf("Remove those first, or set the annotation %s: \"true\" on this extension", olmv1.AnnotationRemoveDespiteDependents),
			})
		}
	}

	a.waiting.Delete(ext.Name)
	return nil
}

// surroundings are the other extensions, as far as they are not about to go.
type surroundings struct {
	extensions []olmv1.ClusterExtension
	// sets are the active revisions of the other extensions.
	sets []*olmv1.ClusterObjectSet
	// dependents reports whether one of them needs anything.
	dependents bool
}

// surroundings reads the other extensions from the cache. They are not copied, and must
// not be changed.
func (a *attempt) surroundings(ctx context.Context, ext *olmv1.ClusterExtension) (*surroundings, error) {
	var extensions olmv1.ClusterExtensionList
	if err := a.Client.List(ctx, &extensions, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing extensions: %w", err)
	}

	var sets olmv1.ClusterObjectSetList
	if err := a.Client.List(ctx, &sets, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing revisions: %w", err)
	}

	around := &surroundings{}
	stays := map[types.UID]bool{}
	for i := range extensions.Items {
		if other := &extensions.Items[i]; other.Name != ext.Name && other.DeletionTimestamp.IsZero() {
			around.extensions = append(around.extensions, *other)
			stays[other.UID] = true
		}
	}

	for i := range sets.Items {
		set := &sets.Items[i]
		// Labels are no proof: whoever makes a set may give it those of any extension.
		owner := metav1.GetControllerOfNoCopy(set)
		if isActive(set) && owner != nil && stays[owner.UID] {
			around.sets = append(around.sets, set)
			around.dependents = around.dependents || set.Annotations[olmv1.AnnotationRequires] != ""
		}
	}

	return around, nil
}

// has reports whether there is another extension of a name.
func (s *surroundings) has(name string) bool {
	return slices.ContainsFunc(s.extensions, func(other olmv1.ClusterExtension) bool { return other.Name == name })
}

// bundles returns what the other extensions have installed, and what those that are on
// their way need.
func (s *surroundings) bundles() []*dependency.Bundle {
	var bundles []*dependency.Bundle
	for _, set := range s.sets {
		b := installedBundleOf(set)
		if b == nil {
			continue // Its annotations are not ours.
		}
		if !hasSucceeded(set) {
			if b = needsOf(b); b == nil {
				continue
			}
		}
		bundles = append(bundles, b)
	}

	return bundles
}

// served tells what the API server serves, whoever installed it. Each API is looked for
// once.
type served struct {
	mapper meta.RESTMapper
	// resources asks the API server; nil when only the mapper is asked.
	resources func(groupVersion string) (*metav1.APIResourceList, error)
	known     map[schema.GroupVersionKind]bool
	failure   error
}

func (a *attempt) served() *served {
	return &served{mapper: a.Client.RESTMapper(), resources: a.ServedResources, known: map[schema.GroupVersionKind]bool{}}
}

func (s *served) serves(gvk schema.GroupVersionKind) bool {
	known, ok := s.known[gvk]
	if !ok {
		known = s.ask(gvk)
		s.known[gvk] = known
	}
	return known
}

// ask asks the mapper, and the server itself when the mapper knows the API: the mapper
// does not forget what has gone.
func (s *served) ask(gvk schema.GroupVersionKind) bool {
	_, err := s.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	switch {
	case meta.IsNoMatchError(err):
		return false
	case err != nil:
		s.failure = errors.Join(s.failure, fmt.Errorf("looking for the API %s: %w", gvk, err))
		return false
	case s.resources == nil:
		return true
	}

	served, err := s.resources(gvk.GroupVersion().String())
	if err != nil {
		// An API whose server does not answer right now is served all the same.
		return !apierrors.IsNotFound(err)
	}

	return slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Kind == gvk.Kind })
}
