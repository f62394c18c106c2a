package install

import (
	"cmp"
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/render"
)

// changeReader reads the facts of the change of one extension. It writes nothing.
type changeReader struct {
	ext *olmv1.ClusterExtension
	// effective is the extension as this installation interprets it.
	effective *olmv1.ClusterExtension
	// purpose is the purpose of the retrievals.
	purpose      string
	bundles      *bundleRetriever
	catalogs     *catalogBrowser
	dependencies *dependencyChecker
	platform     *platformReader
	preflight    *preflightRunner
	revisions    *revisionReader
	// program is the version of this program.
	program string
	// requireServiceAccount refuses extensions without a service account.
	requireServiceAccount bool
}

// readUntilStop reads facts until the change is decided, or something is in its way.
func (r *changeReader) readUntilStop(ctx context.Context, f *changeFacts) {
	for d := decideChange(r.ext, f); d.needs != "" && d.stop == nil; d = decideChange(r.ext, f) {
		r.readFact(ctx, f, d)
	}
}

// readAll reads all facts that the change depends on, and whether the extension's namespace and
// account exist.
func (r *changeReader) readAll(ctx context.Context, f *changeFacts) {
	r.readTarget(ctx, f)
	for d := decideChange(r.ext, f); d.needs != ""; d = decideChange(r.ext, f) {
		r.readFact(ctx, f, d)
	}
}

// readFact reads the fact that a decision needs.
func (r *changeReader) readFact(ctx context.Context, f *changeFacts, d *change) {
	switch d.needs {
	case factTarget:
		r.readTarget(ctx, f)
	case factResolution:
		r.readResolution(ctx, f)
	case factInputs:
		r.readInputs(ctx, f)
	case factContent:
		f.content = r.readContent(ctx, f)
	case factDependencies:
		f.dependencies = r.dependencies.checkDependencies(ctx, r.ext, f.revisions.installed(), f.content.bundle)
	case factObjects:
		objects, err := r.revisions.loadObjects(ctx, f.revisions.findByName(d.rollBackTo))
		f.objects = &revisionObjects{objects, err}
	case factPreflight:
		f.preflight = &finding{r.preflight.runChecks(ctx, r.effective, f.revisions, f.wantedObjects())}
	}
}

// checkRollback checks a rollback to a revision, as an update is checked.
func (r *changeReader) checkRollback(ctx context.Context, revs revisions, to *olmv1.ClusterObjectSet) error {
	objects, err := r.revisions.loadObjects(ctx, to)
	if err != nil {
		return err
	}
	return r.preflight.runChecks(ctx, r.effective, revs, objects)
}

func (r *changeReader) readTarget(ctx context.Context, f *changeFacts) {
	f.target = &finding{checkNamespaceAndAccount(ctx, r.revisions.reader, r.effective, r.requireServiceAccount)}
}

func (r *changeReader) readResolution(ctx context.Context, f *changeFacts) {
	f.resolution = r.catalogs.resolveBundle(ctx, r.ext, f.revisions, r.platform.meetsMinKubeVersion)
	if f.resolution.result == nil {
		return
	}
	for _, warning := range f.resolution.result.Warnings {
		ctrl.LoggerFrom(ctx).Info("A catalog has a fault", "fault", warning)
	}
}

func (r *changeReader) readInputs(ctx context.Context, f *changeFacts) {
	issuer, err := r.platform.detectCertificateIssuer(ctx)
	if r.effective.Annotations[olmv1.AnnotationServingSecrets] == olmv1.ServingSecretsClassic {
		issuer = render.IssuerClassic
	}
	f.inputs = &revisionInputs{issuer: issuer, err: err}
	if err == nil {
		f.inputs.digest = digestRevisionInputs(r.effective, f.resolution.chosen, issuer, r.program)
	}
}

// readContent retrieves and renders the chosen bundle.
func (r *changeReader) readContent(ctx context.Context, f *changeFacts) *contentFacts {
	content, err := r.buildContent(ctx, f.resolution.chosen, f.inputs)
	if err != nil {
		return &contentFacts{err: err}
	}
	if content.omitsStatedProperties {
		ctrl.LoggerFrom(ctx).Info("The properties of the bundle are too large to be recorded on its revision", "bundle", f.resolution.chosen.Name)
	}

	facts := &contentFacts{revisionContent: content}
	if identical := content.findIdenticalRevision(r.ext, f.revisions, r.revisions.systemNamespace); identical != nil {
		facts.identical = identical.Name
	}
	return facts
}

func (r *changeReader) buildContent(ctx context.Context, chosen selection, inputs *revisionInputs) (*revisionContent, error) {
	image, err := r.bundles.retrieveBundle(ctx, r.ext, r.purpose, cmp.Or(chosen.pinned, chosen.Image))
	if err != nil {
		return nil, fmt.Errorf("bundle %q: %w", chosen.Name, err)
	}

	kubernetes, err := r.platform.serverVersion()
	if err != nil {
		return nil, err
	}
	return buildRevisionContent(r.effective, chosen, inputs.digest, platform{kubernetes, inputs.issuer}, image)
}
