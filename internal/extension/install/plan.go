package install

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
	"github.com/mainstay-dev/mainstay/internal/resolve/dependency"
)

// +kubebuilder:rbac:groups="",namespace=olmv1-system,resources=configmaps,verbs=get;list;create;patch;delete

// findings are what the steps of a dry run record in addition to their errors.
type findings struct {
	// missing are the requirements that are not met.
	missing []dependency.Unmet
	// created are the extensions that would be created to meet them.
	created []plannedExtension
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

	dry := &attempt{Controller: a.Controller, revisions: a.revisions, revisionsLoaded: true, dryRun: &findings{}, requestedRetrievals: a.requestedRetrievals}
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
	a.waitingExtensions.Store(ext.Name, waitingBundle{})
	return reconcile.Wait(olmv1.ReasonSucceeded, resolutionRetryInterval, planOnlyError(a.SystemNamespace+"/"+olmv1.PlanName(ext.Name)))
}

// planOnlyError is the wait of an extension that is only planned. Its value is the name of the
// ConfigMap of the plan.
type planOnlyError string

// Error implements error. It returns the message of the condition.
func (p planOnlyError) Error() string { return "Planned only: see ConfigMap " + string(p) }

// overrideForPlan returns a copy of the extension with the fields that the annotation overrides.
// The field id has no effect: it only distinguishes requests.
func overrideForPlan(ext *olmv1.ClusterExtension, value string) (*olmv1.ClusterExtension, error) {
	wanted := ext.DeepCopy()
	if value == olmv1.PlanOnly {
		return wanted, nil
	}

	var fields struct {
		ID                      string                             `json:"id"`
		Version                 *string                            `json:"version"`
		Channels                *[]string                          `json:"channels"`
		Selector                *metav1.LabelSelector              `json:"selector"`
		UpgradeConstraintPolicy *olmv1.UpgradeConstraintPolicy     `json:"upgradeConstraintPolicy"`
		CRDUpgradeSafety        *olmv1.CRDUpgradeSafetyEnforcement `json:"crdUpgradeSafety"`
	}

	decoder := json.NewDecoder(strings.NewReader(value))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&fields)
	if err == nil {
		if _, more := decoder.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("something follows the object")
		}
	}

	if err != nil || !strings.HasPrefix(strings.TrimSpace(value), "{") {
		return nil, errors.Join(fmt.Errorf(
			"it must be %q, or a JSON object with some of version, channels, selector, upgradeConstraintPolicy and crdUpgradeSafety", olmv1.PlanOnly), err)
	}

	filter := wanted.Spec.Source.Catalog
	if fields.Version != nil {
		filter.Version = *fields.Version
	}
	if fields.Channels != nil {
		filter.Channels = *fields.Channels
	}
	if fields.Selector != nil {
		filter.Selector = fields.Selector
	}

	if policy := fields.UpgradeConstraintPolicy; policy != nil {
		if *policy != olmv1.UpgradeConstraintPolicyCatalogProvided && *policy != olmv1.UpgradeConstraintPolicySelfCertified {
			return nil, fmt.Errorf("upgradeConstraintPolicy %q: it is %s or %s", *policy,
				olmv1.UpgradeConstraintPolicyCatalogProvided, olmv1.UpgradeConstraintPolicySelfCertified)
		}
		filter.UpgradeConstraintPolicy = *policy
	}

	if enforcement := fields.CRDUpgradeSafety; enforcement != nil {
		if *enforcement != olmv1.CRDUpgradeSafetyEnforcementNone && *enforcement != olmv1.CRDUpgradeSafetyEnforcementStrict {
			return nil, fmt.Errorf("crdUpgradeSafety %q: it is %s or %s", *enforcement,
				olmv1.CRDUpgradeSafetyEnforcementNone, olmv1.CRDUpgradeSafetyEnforcementStrict)
		}
		if wanted.Spec.Install == nil {
			wanted.Spec.Install = &olmv1.ClusterExtensionInstallConfig{}
		}
		wanted.Spec.Install.Preflight = &olmv1.PreflightConfig{CRDUpgradeSafety: &olmv1.CRDUpgradeSafetyPreflightConfig{Enforcement: *enforcement}}
	}

	return wanted, nil
}

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
		p.recordResolution(ext, a.resolution, a.chosen)
		a.draftObjectChanges(ctx, ext, p)
	}

	return p
}

// draftObjectChanges adds the changes of the objects to the plan.
func (a *attempt) draftObjectChanges(ctx context.Context, ext *olmv1.ClusterExtension, p *plan) {
	issuer, err := a.detectCertificateIssuer(ctx)
	if err != nil {
		p.addProblems(checkBundle, err)
		return
	}

	wanted := digestRevisionInputs(a.effectiveExtension(ext), a.chosen, issuer, a.Program)
	newest, installed := a.revisions.newest(), a.revisions.installed()
	var objects []unstructured.Unstructured
	switch existing := a.revisions.findByInputsDigest(wanted); existing {
	case nil:
		p.Action = actionForBundle(newest, installed, a.chosen)
		p.addProblems(checkRollback, a.checkRefusedUpdate(ext, wanted))
		content, err := a.buildRevisionContent(ctx, ext, issuer, wanted)
		if err != nil {
			p.addProblems(checkBundle, err)
			return
		}

		p.Bundle.Image, objects = content.annotations[olmv1.AnnotationBundleReference], content.objects
		if !holdsBundle(newest, a.chosen) {
			p.addProblems(checkDependencies, a.checkDependencies(ctx, ext, content.bundle))
			p.addDependencies(a.dryRun)
		}

		if set := a.findIdenticalRevision(ext, content.phases, content.annotations); set != nil {
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
		if objects, err = a.loadRevisionObjects(ctx, existing); err != nil {
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

// writePlanConfigMap creates the ConfigMap of a plan, or patches it if it differs.
func (a *attempt) writePlanConfigMap(ctx context.Context, ext *olmv1.ClusterExtension, value string, data map[string]string) error {
	wanted := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: a.SystemNamespace, Name: olmv1.PlanName(ext.Name),
			Labels:          map[string]string{olmv1.LabelOwnerKind: olmv1.ClusterExtensionKind, olmv1.LabelOwnerName: ext.Name},
			Annotations:     map[string]string{olmv1.AnnotationPlanFor: strconv.FormatInt(ext.Generation, 10) + " " + value},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(ext, olmv1.GroupVersion.WithKind(olmv1.ClusterExtensionKind))},
		},
		Data: data,
	}

	description := fmt.Sprintf("ConfigMap %q in namespace %q", wanted.Name, wanted.Namespace)
	var existing corev1.ConfigMap
	err := a.Reader.Get(ctx, client.ObjectKeyFromObject(wanted), &existing)
	switch {
	case apierrors.IsNotFound(err):
		err = a.Client.Create(ctx, wanted)
	case err != nil:
	case !isPlanForExtension(&existing, ext.Name):
		return reconcile.Stop(olmv1.ReasonBlocked, fmt.Errorf("the plan cannot be written, as %s has another owner: delete it", description))
	default:
		before := existing.DeepCopy()
		existing.Annotations, existing.OwnerReferences, existing.Data = wanted.Annotations, wanted.OwnerReferences, wanted.Data
		if !equality.Semantic.DeepEqual(before, &existing) {
			err = a.Client.Patch(ctx, &existing, client.MergeFrom(before))
		}
	}

	if err != nil {
		return fmt.Errorf("writing the plan to %s: %w", description, err)
	}

	return a.planRegistry.recordPlan(ctx, a.Reader, a.SystemNamespace, ext.Name, true)
}

// isPlanForExtension reports whether a ConfigMap is the plan of an extension with that name. The
// extension may be gone.
func isPlanForExtension(object metav1.Object, extension string) bool {
	controller := metav1.GetControllerOf(object)
	return controller != nil && controller.Kind == olmv1.ClusterExtensionKind && controller.Name == extension &&
		strings.HasPrefix(controller.APIVersion, olmv1.GroupVersion.Group+"/")
}

// deletePlanConfigMap deletes the plan of an extension without the annotation.
func (a *attempt) deletePlanConfigMap(ctx context.Context, ext *olmv1.ClusterExtension) error {
	known, err := a.planRegistry.lookUpPlan(ctx, a.Reader, a.SystemNamespace, ext.Name)
	if err != nil || !known {
		return err
	}

	a.waitingExtensions.Delete(ext.Name)
	plan := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: a.SystemNamespace, Name: olmv1.PlanName(ext.Name)}}
	if err := a.Client.Delete(ctx, plan); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the plan of %q, ConfigMap %q in namespace %q: %w", ext.Name, plan.Name, plan.Namespace, err)
	}

	return a.planRegistry.recordPlan(ctx, a.Reader, a.SystemNamespace, ext.Name, false)
}

// planRegistry tracks which extensions have a plan, so that an extension without one costs no
// request. Plans of an earlier process are listed once. The zero value is ready for use.
type planRegistry struct {
	mu         sync.Mutex
	extensions map[string]bool
}

func (p *planRegistry) lookUpPlan(ctx context.Context, reader client.Reader, namespace, extension string) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.loadExistingPlans(ctx, reader, namespace); err != nil {
		return false, err
	}
	return p.extensions[extension], nil
}

func (p *planRegistry) recordPlan(ctx context.Context, reader client.Reader, namespace, extension string, has bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.loadExistingPlans(ctx, reader, namespace); err != nil {
		return err
	}

	delete(p.extensions, extension)
	if has {
		p.extensions[extension] = true
	}

	return nil
}

func (p *planRegistry) loadExistingPlans(ctx context.Context, reader client.Reader, namespace string) error {
	if p.extensions != nil {
		return nil
	}

	list := metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	err := reader.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{olmv1.LabelOwnerKind: olmv1.ClusterExtensionKind})
	if err != nil {
		return fmt.Errorf("listing the plans in namespace %q: %w", namespace, err)
	}

	p.extensions = map[string]bool{}
	for i := range list.Items {
		if name := list.Items[i].Labels[olmv1.LabelOwnerName]; isPlanForExtension(&list.Items[i], name) && list.Items[i].Name == olmv1.PlanName(name) {
			p.extensions[name] = true
		}
	}

	return nil
}

// encodeWithinLimit returns the data of the ConfigMap, with as much of the diffs as maxPlanBytes
// allows. The diffs of RBAC objects and workloads are left out only if a plan without any other
// diff is still too large.
func (p *plan) encodeWithinLimit() (map[string]string, error) {
	room, keep := maxPlanBytes/3, true
	for {
		data, size, err := p.truncateTo(room, keep).encodeJSONAndText()
		if err != nil {
			return nil, fmt.Errorf("writing the plan of %q: %w", p.Extension, err)
		}
		switch {
		case size <= maxPlanBytes, room == 0 && !keep:
			return data, nil
		case room == 0:
			room, keep = maxPlanBytes/3, false
		default:
			room /= 2
		}
	}
}

// encodeJSONAndText returns the plan as JSON and as text, and their size together.
func (p *plan) encodeJSONAndText() (data map[string]string, size int, err error) {
	var encoded bytes.Buffer
	encoder := json.NewEncoder(&encoded)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(p); err != nil {
		return nil, 0, err
	}

	text := p.renderText()
	return map[string]string{olmv1.PlanJSON: encoded.String(), olmv1.PlanText: text}, encoded.Len() + len(text), nil
}
