package install

import (
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/pull"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// planFacts are what the plan of an extension depends on.
type planFacts struct {
	// name is the name of the ConfigMap of the plan.
	name types.NamespacedName
	// outdated reports whether there is a plan, but no annotation asks for it.
	outdated bool
	// err is why the annotation cannot be followed, or why a fact could not be read.
	err error

	// value is the value of the annotation that requests a plan.
	value string
	// wanted is the extension with the fields that the annotation overrides. It is nil if no plan is
	// requested.
	wanted *olmv1.ClusterExtension
	// effective is that extension as this installation interprets it.
	effective *olmv1.ClusterExtension
	// change are the facts of the planned change.
	change *changeFacts
	// checksPreflight reports whether the preflight checks are run at all.
	checksPreflight bool
	// replaced are the objects that the change would replace. It is nil unless the wanted objects
	// are known.
	replaced *revisionObjects
	// existing is the ConfigMap with the name of the plan. It is nil if there is none.
	existing *corev1.ConfigMap
}

// isOnlyPlanned reports whether the extension is planned and nothing else.
func (f *planFacts) isOnlyPlanned() bool { return f.wanted != nil && f.value == olmv1.PlanOnly }

// pendingRetrieval returns the error that names the image being pulled for the plan. It returns nil
// if no image is being pulled.
func (f *planFacts) pendingRetrieval() error {
	if f.change == nil || f.change.content == nil || !errors.Is(f.change.content.err, pull.ErrRetrieving) {
		return nil
	}
	return errors.Unwrap(f.change.content.err) // without the name of the bundle
}

// endsPass reports whether the pass ends without a change of the extension, because the extension is only planned, or
// because its plan fails.
func (f *planFacts) endsPass() bool {
	return f.err != nil || f.isOnlyPlanned() || f.hasForeignConfigMap()
}

// hasForeignConfigMap reports whether the ConfigMap belongs to something else.
func (f *planFacts) hasForeignConfigMap() bool {
	return f.existing != nil && !isPlanForExtension(f.existing, f.wanted.Name)
}

// planDecision is what must be done about the plan of an extension.
type planDecision struct {
	// remove reports whether the plan is deleted.
	remove bool
	// configMap is the ConfigMap to write. It is nil if none is written.
	configMap *corev1.ConfigMap
	// isOnly reports whether the extension is only planned.
	isOnly bool
	// stop is the error that ends the pass. It is nil if the pass continues with the change itself.
	stop error
}

// decidePlan decides what must be done about the plan of an extension.
func decidePlan(ext *olmv1.ClusterExtension, f *planFacts) planDecision {
	pending := f.pendingRetrieval()
	switch {
	case f.err != nil:
		return planDecision{stop: f.err}
	case f.wanted == nil:
		return planDecision{remove: f.outdated}
	case pending != nil && f.isOnlyPlanned():
		return planDecision{stop: pending}
	case pending != nil:
		return planDecision{} // The plan is written once its bundle is pulled.
	case f.hasForeignConfigMap():
		return planDecision{stop: reconcile.Stop(olmv1.ReasonBlocked, fmt.Errorf(
			"the plan cannot be written, as %s has another owner: delete it", describeConfigMap(f.name)))}
	}

	data, err := draftPlan(f).encodeWithinLimit()
	if err != nil {
		return planDecision{stop: err}
	}

	d := planDecision{configMap: newPlanConfigMap(ext, f.name, f.value, data)}
	if f.isOnlyPlanned() {
		d.isOnly, d.stop = true, reconcile.Wait(olmv1.ReasonSucceeded, resolutionRetryInterval, planOnlyError(f.name.String()))
	}

	return d
}

// planOnlyError is the wait of an extension that is only planned. Its value is the name of the
// ConfigMap of the plan.
type planOnlyError string

// Error implements error. It returns the message of the condition.
func (p planOnlyError) Error() string { return "Planned only: see ConfigMap " + string(p) }

// newPlanConfigMap returns the ConfigMap of a plan. The value is that of the annotation.
func newPlanConfigMap(ext *olmv1.ClusterExtension, name types.NamespacedName, value string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: name.Namespace, Name: name.Name,
			Labels:          map[string]string{olmv1.LabelOwnerKind: olmv1.ClusterExtensionKind, olmv1.LabelOwnerName: ext.Name},
			Annotations:     map[string]string{olmv1.AnnotationPlanFor: strconv.FormatInt(ext.Generation, 10) + " " + value},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(ext, olmv1.GroupVersion.WithKind(olmv1.ClusterExtensionKind))},
		},
		Data: data,
	}
}

// draftPlan returns the plan that reports a change.
func draftPlan(f *planFacts) *plan {
	change, d := f.change, decideChange(f.wanted, f.change)
	installed := change.revisions.installed()
	p := &plan{
		Extension: f.wanted.Name, Package: f.wanted.Spec.Source.Catalog.PackageName,
		Namespace: f.wanted.Spec.Namespace, ServiceAccount: serviceAccountName(f.effective), Action: d.action,
	}
	if p.ServiceAccount == "" {
		p.IgnoredServiceAccount = serviceAccountName(f.wanted)
	}
	if b := bundleMetadata(installed); b != nil {
		p.Installed = &plannedBundle{Name: b.Name, Version: b.Version, Release: b.Release, Image: installed.Annotations[olmv1.AnnotationBundleReference]}
	}

	for _, problem := range d.problems {
		p.addProblems(problem.check, problem.err)
	}

	p.Considered = listCandidates(change.resolution)
	if change.resolution.err == nil {
		p.recordResolution(f.wanted, change.resolution)
	}
	p.recordImage(change)
	if change.dependencies != nil {
		p.addDependencies(change.dependencies)
	}
	if f.replaced != nil {
		p.recordObjects(f)
	}

	return p
}

// recordImage records the image by digest if it is known.
func (p *plan) recordImage(f *changeFacts) {
	switch {
	case f.inputs == nil, f.inputs.err != nil:
	case f.content != nil && f.content.err == nil:
		p.Bundle.Image = f.content.annotations[olmv1.AnnotationBundleReference]
	default:
		if existing := f.revisions.findByInputsDigest(f.inputs.digest); existing != nil {
			p.Bundle.Image = existing.Annotations[olmv1.AnnotationBundleReference]
		}
	}
}

// recordObjects records what the change does to objects.
func (p *plan) recordObjects(f *planFacts) {
	objects, revs := f.change.wantedObjects(), f.change.revisions
	if f.checksPreflight {
		p.summarizeCRDSafety(f.wanted, objects)
	}

	p.Images = collectImages(f.change.resolution.result.Bundle.RelatedImages, objects)
	if revs.newest() == nil {
		p.Contents = summarizeContents(objects)
	}

	err := f.replaced.err
	if err == nil {
		err = p.addObjectChanges(f.replaced.objects, objects)
	}
	p.addProblems(checkBundle, err)
}
