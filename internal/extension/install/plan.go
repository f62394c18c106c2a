package install

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// findings are what the steps of a dry run record in addition to their errors.
type findings struct {
	// dependencies are the findings about requirements. It is nil if they were not checked.
	dependencies *dependencyFindings
}

// reconcilePlan writes the plan of an extension whose annotation asks for one, and deletes it
// otherwise. For an extension that is only planned it is the last step.
func (a *attempt) reconcilePlan(ctx context.Context, ext *olmv1.ClusterExtension) error {
	value, requested := ext.Annotations[olmv1.AnnotationPlan]
	if !requested {
		return a.deletePlanConfigMap(ctx, ext)
	}

	wanted, err := overrideForPlan(ext, value)
	if err != nil {
		return reconcile.Stop(olmv1.ReasonBlocked, fmt.Errorf("annotation %s: %w", olmv1.AnnotationPlan, err))
	}

	dry := &attempt{Controller: a.Controller, revisions: a.revisions, revisionsLoaded: true, dryRun: &findings{}, bundles: a.bundles}
	drafted := dry.draftPlan(ctx, wanted)
	switch {
	case dry.pendingRetrieval != nil && value == olmv1.PlanOnly:
		return dry.pendingRetrieval
	case dry.pendingRetrieval != nil:
		return nil //nolint:nilerr // The plan is written once its bundle is pulled.
	}

	data, err := drafted.encodeWithinLimit()
	if err != nil {
		return err
	}
	if err := a.writePlanConfigMap(ctx, ext, value, data); err != nil {
		return err
	}
	if value != olmv1.PlanOnly {
		return nil
	}

	// Other extensions do not count on the planned bundle. Their changes enqueue this
	// extension; other changes are found when the wait ends.
	a.waitingExtensions.record(ext.Name, waitingBundle{})
	return reconcile.Wait(olmv1.ReasonSucceeded, resolutionRetryInterval, planOnlyError(a.SystemNamespace+"/"+olmv1.PlanName(ext.Name)))
}

// planOnlyError is the wait of an extension that is only planned. Its value is the name of the
// ConfigMap of the plan.
type planOnlyError string

// Error implements error. It returns the message of the condition.
func (p planOnlyError) Error() string { return "Planned only: see ConfigMap " + string(p) }

// draftPlan runs the steps of an attempt without writing anything. After the failure of one step
// the next ones are still run where possible.
func (a *attempt) draftPlan(ctx context.Context, ext *olmv1.ClusterExtension) *plan {
	p := &plan{
		Extension: ext.Name, Package: ext.Spec.Source.Catalog.PackageName,
		Namespace: ext.Spec.Namespace, ServiceAccount: serviceAccountName(a.effectiveExtension(ext)), Action: actionNone,
	}
	if a.IgnoreServiceAccount {
		p.IgnoredServiceAccount = serviceAccountName(ext)
	}
	if b := bundleMetadata(a.revisions.installed()); b != nil {
		p.Installed = &plannedBundle{Name: b.Name, Version: b.Version, Release: b.Release, Image: a.revisions.installed().Annotations[olmv1.AnnotationBundleReference]}
	}

	p.addProblems(checkTarget, a.checkNamespaceAndAccount(ctx, ext))
	err := a.resolveBundle(ctx, ext)
	p.addProblems(checkResolution, err)
	p.Considered = listCandidates(a.resolution)
	if err == nil {
		p.recordResolution(ext, a.resolution)
		a.draftObjectChanges(ctx, ext, p)
	}

	return p
}

// draftObjectChanges adds the changes of the objects to the plan.
func (a *attempt) draftObjectChanges(ctx context.Context, ext *olmv1.ClusterExtension, p *plan) {
	issuer, err := a.newPlatformReader().detectCertificateIssuer(ctx)
	if err != nil {
		p.addProblems(checkBundle, err)
		return
	}

	wanted := digestRevisionInputs(a.effectiveExtension(ext), a.resolution.chosen, issuer, a.Program)
	newest, installed := a.revisions.newest(), a.revisions.installed()
	var objects []unstructured.Unstructured
	switch existing := a.revisions.findByInputsDigest(wanted); existing {
	case nil:
		p.Action = actionForBundle(newest, installed, a.resolution.chosen)
		p.addProblems(checkRollback, checkRefusedUpdate(ext, a.revisions, wanted))
		content, err := a.buildRevisionContent(ctx, ext, issuer, wanted)
		if err != nil {
			p.addProblems(checkBundle, err)
			return
		}

		p.Bundle.Image, objects = content.annotations[olmv1.AnnotationBundleReference], content.objects
		if !holdsBundle(newest, a.resolution.chosen) {
			p.addProblems(checkDependencies, a.checkDependencies(ctx, ext, content.bundle))
			p.addDependencies(a.dryRun.dependencies)
		}

		if set := content.findIdenticalRevision(ext, a.revisions, a.SystemNamespace); set != nil {
			p.Action = actionGoBack
			if set == newest {
				p.Action = actionNone // only the annotations of the revision would change
				return
			}
		}
	case newest:
		p.Bundle.Image = existing.Annotations[olmv1.AnnotationBundleReference]
		return
	default:
		p.Action = actionGoBack
		p.Bundle.Image = existing.Annotations[olmv1.AnnotationBundleReference]
		if objects, err = a.newRevisionReader().loadObjects(ctx, existing); err != nil {
			p.addProblems(checkBundle, err)
			return
		}
	}

	if a.Preflight != nil {
		p.addProblems("", a.runPreflightChecks(ctx, ext, objects))
		p.summarizeCRDSafety(ext, objects)
	}

	p.Images = collectImages(a.resolution.result.Bundle.RelatedImages, objects)
	replaced := installed
	if replaced == nil {
		replaced = newest
	}
	if replaced == nil {
		p.Contents = summarizeContents(objects)
	}

	p.addProblems(checkBundle, a.diffAgainstRevision(ctx, p, replaced, objects))
}
