package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/pull"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
	"github.com/mainstay-dev/mainstay/internal/render"
	"github.com/mainstay-dev/mainstay/internal/resolve/dependency"
)

const (
	// preconditionRetryInterval is how often a missing precondition is checked again, such as a
	// namespace, if no watch reports it.
	preconditionRetryInterval = 2 * time.Second
	// resolutionRetryInterval is how often a request that cannot be satisfied is resolved again
	// while no catalog and no extension changes.
	resolutionRetryInterval = time.Minute
)

// attempt is one reconciliation of one extension. It holds the results of its steps for the steps
// after them.
type attempt struct {
	*Controller

	revisions revisions
	// revisionsLoaded reports whether revisions were read.
	revisionsLoaded bool
	// resolution is the choice of a bundle.
	resolution *resolution
	// dryRun is set while a plan is drafted. The steps then write nothing, and record their
	// findings in it.
	dryRun  *findings
	bundles *bundleRetriever
	// pendingRetrieval is the error that names the image being pulled. It is nil if no image is
	// being pulled.
	pendingRetrieval error
}

// loadRevisions reads the revisions of the extension.
func (a *attempt) loadRevisions(ctx context.Context, ext *olmv1.ClusterExtension) error {
	revs, err := a.newRevisionReader().listOwnRevisions(ctx, ext)
	if err != nil {
		return err
	}
	a.revisions, a.revisionsLoaded = revs, true
	return nil
}

// pruneRevisions archives the revisions that the installed one has replaced, and deletes the
// oldest archived ones.
func (a *attempt) pruneRevisions(ctx context.Context, _ *olmv1.ClusterExtension) error {
	replaced := a.revisions.listReplacedRevisions()
	return a.newRevisionWriter().pruneRevisions(ctx, replaced, a.revisions.withArchived(replaced, 0).listExpiredRevisions())
}

// checkFirstInstallation checks the namespace and the service account of an extension that has no
// revision yet. Later the revision itself reports if they are gone.
func (a *attempt) checkFirstInstallation(ctx context.Context, ext *olmv1.ClusterExtension) error {
	if a.revisions.newest() != nil {
		return nil
	}
	return a.checkNamespaceAndAccount(ctx, ext)
}

func (a *attempt) checkNamespaceAndAccount(ctx context.Context, ext *olmv1.ClusterExtension) error {
	return checkNamespaceAndAccount(ctx, a.Reader, a.effectiveExtension(ext), a.RequireServiceAccount)
}

// resolveBundle resolves the bundle of the extension.
func (a *attempt) resolveBundle(ctx context.Context, ext *olmv1.ClusterExtension) error {
	a.resolution = a.newCatalogBrowser().resolveBundle(ctx, ext, a.revisions, a.newPlatformReader().meetsMinKubeVersion)
	if a.resolution.err != nil {
		return a.resolution.err
	}

	for _, warning := range a.resolution.result.Warnings {
		ctrl.LoggerFrom(ctx).Info("A catalog has a fault", "fault", warning)
	}
	for _, condition := range a.resolution.deprecations {
		setCondition(ext, condition)
	}

	return nil
}

// checkDependencies returns an error while requirements of a bundle are missing. With the policy
// Install it creates extensions that provide them.
func (a *attempt) checkDependencies(ctx context.Context, ext *olmv1.ClusterExtension, wanted *dependency.Bundle) error {
	checker := a.newDependencyChecker()
	checker.registers = a.dryRun == nil
	found := checker.checkDependencies(ctx, ext, a.revisions.installed(), wanted)
	if a.dryRun != nil {
		a.dryRun.dependencies = found
		return found.problemError()
	}
	if err := createDependencies(ctx, a.Client, ext.Name, found.create); err != nil {
		return err
	}
	return found.stopError()
}

// ensureRevision creates a revision of the chosen bundle if no active revision holds it. If an
// active revision before the newest one holds it, the extension is rolled back to that.
func (a *attempt) ensureRevision(ctx context.Context, ext *olmv1.ClusterExtension) error {
	issuer, err := a.newPlatformReader().detectCertificateIssuer(ctx)
	if err != nil {
		return err
	}

	wanted := digestRevisionInputs(a.effectiveExtension(ext), a.resolution.chosen, issuer, a.Program)
	newest := a.revisions.newest()
	switch existing := a.revisions.findByInputsDigest(wanted); existing {
	case nil:
	case newest:
		return a.newRevisionWriter().syncRevision(ctx, newest.Name, ext.Spec.ProgressDeadlineMinutes)
	default:
		return a.rollBackToRevision(ctx, ext, existing, 0)
	}

	if err := checkRefusedUpdate(ext, a.revisions, wanted); err != nil {
		return err
	}

	if newest != nil {
		if err := a.checkNamespaceAndAccount(ctx, ext); err != nil {
			return err
		}
	}

	content, err := a.buildRevisionContent(ctx, ext, issuer, wanted)
	if err != nil {
		return err
	}

	if !holdsBundle(newest, a.resolution.chosen) {
		if err := a.checkDependencies(ctx, ext, content.bundle); err != nil {
			return err
		}
	}

	if set := content.findIdenticalRevision(ext, a.revisions, a.SystemNamespace); set != nil {
		if err := a.newRevisionWriter().annotateRevision(ctx, set.Name, content.annotations); err != nil {
			return err
		}
		return a.rollBackToRevision(ctx, ext, set, 0)
	}

	if err := a.runPreflightChecks(ctx, ext, content.objects); err != nil {
		return err
	}

	set, secrets, err := content.newRevision(ext, a.revisions.nextRevisionNumber(), a.SystemNamespace)
	if err != nil {
		return reconcile.Stop(olmv1.ReasonBlocked, fmt.Errorf("bundle %q: %w", a.resolution.chosen.Name, err))
	}

	return a.createRevision(ctx, set, secrets)
}

// buildRevisionContent pulls and renders the chosen bundle.
func (a *attempt) buildRevisionContent(ctx context.Context, ext *olmv1.ClusterExtension, issuer render.Issuer, wanted string) (*revisionContent, error) {
	purpose, chosen := retrieveForRevision, a.resolution.chosen
	if a.dryRun != nil {
		purpose = retrieveForPlan
	}
	image, err := a.bundles.retrieveBundle(ctx, ext, purpose, cmp.Or(chosen.pinned, chosen.Image))
	if errors.Is(err, pull.ErrRetrieving) {
		a.pendingRetrieval = err
	}
	if err != nil {
		return nil, fmt.Errorf("bundle %q: %w", chosen.Name, err)
	}

	kubernetes, err := a.newPlatformReader().serverVersion()
	if err != nil {
		return nil, err
	}

	content, err := buildRevisionContent(a.effectiveExtension(ext), chosen, wanted, platform{kubernetes, issuer}, image)
	if err == nil && content.omitsStatedProperties {
		ctrl.LoggerFrom(ctx).Info("The properties of the bundle are too large to be recorded on its revision", "bundle", chosen.Name)
	}

	return content, err
}

// runPreflightChecks checks the objects that would be written and removed.
func (a *attempt) runPreflightChecks(ctx context.Context, ext *olmv1.ClusterExtension, objects []unstructured.Unstructured) error {
	runner := &preflightRunner{checks: a.Preflight, revisions: a.newRevisionReader()}
	err := runner.runChecks(ctx, a.effectiveExtension(ext), a.revisions, objects)
	known := meta.FindStatusCondition(ext.Status.Conditions, olmv1.TypeProgressing)
	if reconcile.IsWait(err) && a.dryRun == nil && (known == nil || known.Message != err.Error()) {
		ctrl.LoggerFrom(ctx).Info("Preflight checks failed", "report", err.Error())
	}

	return err
}

// createRevision creates a revision and its Secrets.
func (a *attempt) createRevision(ctx context.Context, set *olmv1.ClusterObjectSet, secrets []corev1.Secret) error {
	w := a.newRevisionWriter()
	err := w.createRevision(ctx, set, secrets)
	a.revisions = w.revisions
	return err
}

func (a *attempt) newRevisionWriter() *revisionWriter {
	return &revisionWriter{client: a.Client, reader: a.Reader, systemNamespace: a.SystemNamespace, revisions: a.revisions}
}
