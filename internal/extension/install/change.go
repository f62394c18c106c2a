package install

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/render"
)

// fact names a fact that a change depends on.
type fact string

const (
	factTarget       fact = "target"
	factResolution   fact = "resolution"
	factInputs       fact = "inputs"
	factContent      fact = "content"
	factDependencies fact = "dependencies"
	factObjects      fact = "objects"
	factPreflight    fact = "preflight"
)

// changeFacts are what the change of an extension depends on. They are read one after the other, as
// decideChange asks for them: most of them cost requests, and many are not needed. A nil pointer is
// a fact that is not read.
type changeFacts struct {
	// revisions are those of the extension, once the pass has archived what it archives.
	revisions revisions
	// target states whether the namespace and the service account exist.
	target *finding
	// resolution is the choice of a bundle.
	resolution *resolution
	// inputs determine the objects of a revision of the chosen bundle.
	inputs *revisionInputs
	// content is that of a revision of the chosen bundle.
	content *contentFacts
	// dependencies are the findings about the requirements of the chosen bundle.
	dependencies *dependencyFindings
	// objects are those of the revision to roll back to.
	objects *revisionObjects
	// preflight is the outcome of the preflight checks.
	preflight *finding
}

// finding is the outcome of a check.
type finding struct {
	// err is what is wrong, or why it could not be checked. It is nil if nothing is wrong.
	err error
}

// revisionInputs are the inputs of a revision.
type revisionInputs struct {
	// issuer issues the certificates of webhooks.
	issuer render.Issuer
	// digest is the digest of all inputs.
	digest string
	err    error
}

// contentFacts are the content of a new revision.
type contentFacts struct {
	*revisionContent

	// identical is the name of the active revision that has the content already. It is empty if
	// there is none.
	identical string
	err       error
}

// revisionObjects are the objects of a revision.
type revisionObjects struct {
	objects []unstructured.Unstructured
	err     error
}

// wantedObjects returns the objects that the change leads to, as far as they are known.
func (f *changeFacts) wantedObjects() []unstructured.Unstructured {
	switch {
	case f.objects != nil:
		return f.objects.objects
	case f.content != nil && f.content.revisionContent != nil:
		return f.content.objects
	default:
		return nil
	}
}

// change is what must be done so that an extension has the bundle that its spec asks for.
type change struct {
	// needs is the fact without which the change cannot be decided further. It is empty if the
	// change is decided.
	needs fact
	// action is the action in the words of a plan.
	action string
	// problems are what is in the way, in the order of the checks.
	problems []problem
	// stop is the error that ends the pass: the first problem, or the wait for extensions to
	// create. It is nil if nothing is in the way.
	stop error

	// createExtensions are the extensions to create for requirements.
	createExtensions []dependencyExtension
	// annotate is the revision that gets the annotations of the content. It is empty for none.
	annotate string
	// rollBackTo is the revision to roll back to. It is empty for none.
	rollBackTo string
	// archive are the revisions to archive for that, in this order.
	archive []string
	// sync is the existing revision that has the wanted content. Its progress deadline and the
	// owner of its Secrets are maintained. It is empty for none.
	sync string
	// create reports whether a revision with the content is created.
	create bool
}

// problem is an error of a check.
type problem struct {
	// check is the check that found it. It is empty for preflight checks, whose errors name the check.
	check string
	err   error
}

// decideChange decides what must be done about an extension. The controller executes the decision,
// and a plan reports it. It stops at a fact that it needs and that is not read: change.needs names
// it.
//
// After a problem it continues where it can. The controller does not read more facts then, because
// the first problem ends its pass. A plan does, because it reports all problems.
func decideChange(ext *olmv1.ClusterExtension, f *changeFacts) *change {
	d := &change{action: actionNone}
	newest := f.revisions.newest()

	// Later the revision itself reports if they are gone.
	if f.target == nil && newest == nil {
		return d.needFact(factTarget)
	}
	if f.target != nil {
		d.addProblem(checkTarget, f.target.err)
	}

	switch {
	case f.resolution == nil:
		return d.needFact(factResolution)
	case f.resolution.err != nil:
		return d.addProblem(checkResolution, f.resolution.err)
	case f.inputs == nil:
		return d.needFact(factInputs)
	case f.inputs.err != nil:
		return d.addProblem(checkBundle, f.inputs.err)
	}

	existing := f.revisions.findByInputsDigest(f.inputs.digest)
	if existing == nil && isKept(newest, ext, f.resolution.chosen) {
		existing = newest
	}
	switch existing {
	case nil:
		return d.decideContent(ext, f)
	case newest:
		if d.stop == nil {
			d.sync = newest.Name
		}
		return d
	default:
		return d.decideRollback(f, existing)
	}
}

// decideContent decides the change to content that no active revision is known to have.
func (d *change) decideContent(ext *olmv1.ClusterExtension, f *changeFacts) *change {
	newest, installed := f.revisions.newest(), f.revisions.installed()
	d.action = actionForBundle(newest, installed, f.resolution.chosen)
	d.addProblem(checkRollback, checkRefusedUpdate(ext, f.revisions, f.inputs.digest))
	switch {
	case f.target == nil:
		return d.needFact(factTarget)
	case f.content == nil:
		return d.needFact(factContent)
	case f.content.err != nil:
		return d.addProblem(checkBundle, f.content.err)
	}

	if !holdsBundle(newest, f.resolution.chosen) {
		if f.dependencies == nil {
			return d.needFact(factDependencies)
		}
		d.addDependencies(f.dependencies)
	}

	if identical := f.revisions.findByName(f.content.identical); identical != nil {
		if d.stop == nil {
			d.annotate = identical.Name
		}
		if identical == newest {
			d.action = actionNone // Only the annotations of the revision change.
			return d
		}
		return d.decideRollback(f, identical)
	}

	if f.preflight == nil {
		return d.needFact(factPreflight)
	}
	d.addProblem("", f.preflight.err)
	d.create = d.stop == nil

	return d
}

// decideRollback decides the rollback to an active revision before the newest one. The preflight
// checks apply as for an update.
func (d *change) decideRollback(f *changeFacts, to *olmv1.ClusterObjectSet) *change {
	d.action, d.rollBackTo = actionGoBack, to.Name
	switch {
	case f.objects == nil:
		return d.needFact(factObjects)
	case f.objects.err != nil:
		return d.addProblem(checkBundle, f.objects.err)
	case f.preflight == nil:
		return d.needFact(factPreflight)
	}

	d.addProblem("", f.preflight.err)
	if d.stop == nil {
		d.archive = f.revisions.listActiveAfter(to)
	}

	return d
}

func (d *change) needFact(needed fact) *change {
	d.needs = needed
	return d
}

// addProblem adds the problem that a check found, if any.
func (d *change) addProblem(check string, err error) *change {
	if err == nil {
		return d
	}
	if d.stop == nil {
		d.stop = err
	}
	d.problems = append(d.problems, problem{check, err})
	return d
}

// addDependencies adds the findings about requirements. Extensions to create are no problem, but
// the pass ends to wait for them.
func (d *change) addDependencies(found *dependencyFindings) {
	if d.stop == nil {
		d.createExtensions, d.stop = found.create, found.stopError()
	}
	d.addProblem(checkDependencies, found.problemError())
}

// actionForBundle returns the action for a bundle that no active revision holds.
func actionForBundle(newest, installed *olmv1.ClusterObjectSet, chosen selection) string {
	switch {
	case newest == nil:
		return actionInstall
	case holdsBundle(installed, chosen), installed == nil && holdsBundle(newest, chosen):
		return actionChange
	default:
		return actionUpdate
	}
}
