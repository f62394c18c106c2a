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

// findings are what the steps of a plan found, beside their errors.
type findings struct {
	// missing are the requirements that are not met.
	missing []dependency.Unmet
	// created are the extensions that would be created to meet them.
	created []plannedExtension
}

// plan writes down what would be done, where the extension asks for it. For one that is
// planned only it is the last step.
func (a *attempt) plan(ctx context.Context, ext *olmv1.ClusterExtension) error {
	value, asked := ext.Annotations[olmv1.AnnotationPlan]
	if !asked {
		return a.dropPlan(ctx, ext)
	}

	wanted, err := asPlanned(ext, value)
	if err != nil {
		return reconcile.Stop(olmv1.ReasonBlocked, fmt.Errorf("annotation %s: %w", olmv1.AnnotationPlan, err))
	}

	dry := &attempt{Controller: a.Controller, revs: a.revs, observed: true, planned: &findings{}, retrieved: a.retrieved}
	drafted := dry.draft(ctx, wanted)
	switch {
	case dry.awaited != nil && value == olmv1.PlanOnly:
		return dry.awaited
	case dry.awaited != nil:
		return nil //nolint:nilerr // The plan is written once its bundle is pulled.
	}

	data, err := drafted.encode()
	if err != nil {
		return err
	}
	if err := a.writePlan(ctx, ext, value, data); err != nil {
		return err
	}
	if value != olmv1.PlanOnly {
		return nil
	}

	// Others do not count on what it would install; what they change wakes it, and what
	// people change is looked at again after a while.
	a.waiting.Store(ext.Name, waitingFor{})
	return reconcile.Wait(olmv1.ReasonSucceeded, rechoose, plannedOnly(a.SystemNamespace+"/"+olmv1.PlanName(ext.Name)))
}

// plannedOnly is why nothing is done: the ConfigMap has what would be.
type plannedOnly string

// Error is the message of the condition.
func (p plannedOnly) Error() string { return "Planned only: see ConfigMap " + string(p) }

// asPlanned is a copy of the extension with the fields that the annotation changes. An id
// in it only tells one question from another.
func asPlanned(ext *olmv1.ClusterExtension, value string) (*olmv1.ClusterExtension, error) {
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

// draft goes the way of a real attempt and writes nothing. What stands against one step
// does not keep the next from being looked at, as far as that can be.
func (a *attempt) draft(ctx context.Context, ext *olmv1.ClusterExtension) *plan {
	p := &plan{
		Extension: ext.Name, Package: ext.Spec.Source.Catalog.PackageName,
		Namespace: ext.Spec.Namespace, ServiceAccount: accountName(a.honored(ext)), Action: actionNone,
	}
	if a.IgnoreServiceAccount {
		p.IgnoredServiceAccount = accountName(ext)
	}
	if b := bundleOf(a.revs.installed()); b != nil {
		p.Installed = &plannedBundle{Name: b.Name, Version: b.Version, Release: b.Release, Image: a.revs.installed().Annotations[olmv1.AnnotationBundleReference]}
	}

	p.against(checkPlace, a.checkPlace(ctx, ext))
	err := a.choose(ctx, ext)
	p.against(checkChoice, err)
	p.Considered = considered(a.choice)
	if err == nil {
		p.choose(ext, a.choice, a.chosen)
		a.draftChange(ctx, ext, p)
	}

	return p
}

// draftChange finds out what would become of the objects.
func (a *attempt) draftChange(ctx context.Context, ext *olmv1.ClusterExtension, p *plan) {
	issuer, err := a.issuer(ctx)
	if err != nil {
		p.against(checkBundle, err)
		return
	}

	wanted := inputs(a.honored(ext), a.chosen, issuer, a.Program)
	newest, installed := a.revs.newest(), a.revs.installed()
	var objects []unstructured.Unstructured
	switch standing := a.revs.standing(wanted); standing {
	case nil:
		p.Action = actionFor(newest, installed, a.chosen)
		p.against(checkRefused, a.checkRefused(ext, wanted))
		made, err := a.produce(ctx, ext, issuer, wanted)
		if err != nil {
			p.against(checkBundle, err)
			return
		}

		p.Bundle.Image, objects = made.annotations[olmv1.AnnotationBundleReference], made.objects
		if !holds(newest, a.chosen) {
			p.against(checkDependencies, a.checkDependencies(ctx, ext, made.bundle))
			p.depend(a.planned)
		}

		if set := a.holder(ext, made.phases, made.annotations); set != nil {
			p.Action = actionGoBack
			if set == newest {
				p.Action = actionNone // nothing is written of it but a note on the revision
				return
			}
		}
	case newest:
		p.Bundle.Image = standing.Annotations[olmv1.AnnotationBundleReference]
		return
	default:
		p.Action = actionGoBack
		p.Bundle.Image = standing.Annotations[olmv1.AnnotationBundleReference]
		if objects, err = a.objects(ctx, standing); err != nil {
			p.against(checkBundle, err)
			return
		}
	}

	if a.Preflight != nil {
		p.against("", a.preflight(ctx, ext, objects))
		p.judgeDefinitions(ext, objects)
	}

	p.Images = images(a.choice.result.Bundle.RelatedImages, objects)
	replaced := installed
	if replaced == nil {
		replaced = newest
	}
	if replaced == nil {
		p.Contents = contentsOf(objects)
	}

	p.against(checkBundle, a.compare(ctx, p, replaced, objects))
}

// actionFor names what is done about a bundle that no revision stands for.
func actionFor(newest, installed *olmv1.ClusterObjectSet, chosen selection) string {
	switch {
	case newest == nil:
		return actionInstall
	case holds(installed, chosen), installed == nil && holds(newest, chosen):
		return actionChange
	default:
		return actionUpdate
	}
}

// writePlan writes the ConfigMap of a plan if it differs.
func (a *attempt) writePlan(ctx context.Context, ext *olmv1.ClusterExtension, value string, data map[string]string) error {
	wanted := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: a.SystemNamespace, Name: olmv1.PlanName(ext.Name),
			Labels:          map[string]string{olmv1.LabelOwnerKind: olmv1.ClusterExtensionKind, olmv1.LabelOwnerName: ext.Name},
			Annotations:     map[string]string{olmv1.AnnotationPlanFor: strconv.FormatInt(ext.Generation, 10) + " " + value},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(ext, olmv1.GroupVersion.WithKind(olmv1.ClusterExtensionKind))},
		},
		Data: data,
	}

	what := fmt.Sprintf("ConfigMap %q in namespace %q", wanted.Name, wanted.Namespace)
	var existing corev1.ConfigMap
	err := a.Reader.Get(ctx, client.ObjectKeyFromObject(wanted), &existing)
	switch {
	case apierrors.IsNotFound(err):
		err = a.Client.Create(ctx, wanted)
	case err != nil:
	case !isPlan(&existing, ext.Name):
		return reconcile.Stop(olmv1.ReasonBlocked, fmt.Errorf("the plan cannot be written, as %s belongs to somebody else: remove it", what))
	default:
		before := existing.DeepCopy()
		existing.Annotations, existing.OwnerReferences, existing.Data = wanted.Annotations, wanted.OwnerReferences, wanted.Data
		if !equality.Semantic.DeepEqual(before, &existing) {
			err = a.Client.Patch(ctx, &existing, client.MergeFrom(before))
		}
	}

	if err != nil {
		return fmt.Errorf("writing the plan to %s: %w", what, err)
	}

	return a.plans.set(ctx, a.Reader, a.SystemNamespace, ext.Name, true)
}

// isPlan reports whether a ConfigMap is the plan of an extension of that name, perhaps of
// one that is gone.
func isPlan(object metav1.Object, extension string) bool {
	controller := metav1.GetControllerOf(object)
	return controller != nil && controller.Kind == olmv1.ClusterExtensionKind && controller.Name == extension &&
		strings.HasPrefix(controller.APIVersion, olmv1.GroupVersion.Group+"/")
}

// dropPlan removes the plan of an extension that is to be planned no more.
func (a *attempt) dropPlan(ctx context.Context, ext *olmv1.ClusterExtension) error {
	known, err := a.plans.has(ctx, a.Reader, a.SystemNamespace, ext.Name)
	if err != nil || !known {
		return err
	}

	a.waiting.Delete(ext.Name)
	plan := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: a.SystemNamespace, Name: olmv1.PlanName(ext.Name)}}
	if err := a.Client.Delete(ctx, plan); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the plan of %q, ConfigMap %q in namespace %q: %w", ext.Name, plan.Name, plan.Namespace, err)
	}

	return a.plans.set(ctx, a.Reader, a.SystemNamespace, ext.Name, false)
}

// plans knows which extensions have a plan, so that one without costs no request: those
// that were left by a program before this one are listed once. The zero value is ready
// for use.
type plans struct {
	mu    sync.Mutex
	known map[string]bool
}

func (p *plans) has(ctx context.Context, reader client.Reader, namespace, extension string) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.load(ctx, reader, namespace); err != nil {
		return false, err
	}
	return p.known[extension], nil
}

func (p *plans) set(ctx context.Context, reader client.Reader, namespace, extension string, has bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.load(ctx, reader, namespace); err != nil {
		return err
	}

	delete(p.known, extension)
	if has {
		p.known[extension] = true
	}

	return nil
}

func (p *plans) load(ctx context.Context, reader client.Reader, namespace string) error {
	if p.known != nil {
		return nil
	}

	list := metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	err := reader.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{olmv1.LabelOwnerKind: olmv1.ClusterExtensionKind})
	if err != nil {
		return fmt.Errorf("listing the plans in namespace %q: %w", namespace, err)
	}

	p.known = map[string]bool{}
	for i := range list.Items {
		if name := list.Items[i].Labels[olmv1.LabelOwnerName]; isPlan(&list.Items[i], name) && list.Items[i].Name == olmv1.PlanName(name) {
			p.known[name] = true
		}
	}

	return nil
}

// encode writes the plan for programs and for people, with as much of the diffs as there
// is room for. Those of rights and workloads are left out only when a plan without any other
// is still too large.
func (p *plan) encode() (map[string]string, error) {
	room, keep := maxPlan/3, true
	for {
		data, size, err := p.cut(room, keep).write()
		if err != nil {
			return nil, fmt.Errorf("writing the plan of %q: %w", p.Extension, err)
		}
		switch {
		case size <= maxPlan, room == 0 && !keep:
			return data, nil
		case room == 0:
			room, keep = maxPlan/3, false
		default:
			room /= 2
		}
	}
}

// write returns both forms of the plan, and how large they are together.
func (p *plan) write() (data map[string]string, size int, err error) {
	var encoded bytes.Buffer
	encoder := json.NewEncoder(&encoded)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(p); err != nil {
		return nil, 0, err
	}

	text := p.text()
	return map[string]string{olmv1.PlanJSON: encoded.String(), olmv1.PlanText: text}, encoded.Len() + len(text), nil
}
