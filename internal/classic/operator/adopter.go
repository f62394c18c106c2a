package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/crdinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// A change of the labels of a role or a binding requires the rights to write its content.

// +kubebuilder:rbac:groups="",resources=configmaps;secrets;serviceaccounts;services,verbs=list;watch;patch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=list;watch;patch
// +kubebuilder:rbac:groups=apiregistration.k8s.io,resources=apiservices,verbs=list;watch;patch
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=list;watch;patch
// +kubebuilder:rbac:groups=operators.coreos.com,resources=clusterserviceversions;installplans;operatorconditions;subscriptions,verbs=list;watch;patch
// +kubebuilder:rbac:groups=operators.coreos.com,resources=clusterserviceversions,verbs=get
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterrolebindings;clusterroles;rolebindings;roles,verbs=list;watch;patch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles;roles,verbs=bind;escalate

// adopter labels the components of Subscriptions.
type adopter struct {
	client client.Client
	// labelled has the labelled InstallPlans.
	labelled *labelledObjects
	// shared has the Deployments, and the metadata of other objects that OLM creates, except ConfigMaps. crds has the CRDs.
	shared, crds client.Reader
	// own has the Subscriptions, see keepRelations, and the metadata of the ConfigMaps that OLM
	// creates.
	own client.Reader
}

// adoptee is an object that may belong to an operator.
type adoptee struct {
	kind     schema.GroupVersionKind
	metadata *metav1.ObjectMeta
}

// adoptionFacts are the facts that the labels of a Subscription's components depend on.
type adoptionFacts struct {
	// subscription is nil if it does not exist.
	subscription *v1alpha1.Subscription
	// plans are the InstallPlans with the label, and the one that the Subscription names.
	plans []adoptee
	// csv is the installed ClusterServiceVersion; nil if there is none.
	csv *v1alpha1.ClusterServiceVersion
	// candidates are objects that may have been created for the ClusterServiceVersion.
	candidates []adoptee
}

// adoptionDecision is what must be labelled.
type adoptionDecision struct {
	// key is the key of the label.
	key string
	// adopted get the label, disowned lose it.
	adopted, disowned []adoptee
}

func (a *adopter) newReconciler() *reconcile.KeyReconciler[adoptionFacts, adoptionDecision] {
	return &reconcile.KeyReconciler[adoptionFacts, adoptionDecision]{Gather: a.gatherFacts, Decide: decideAdoption, Execute: a.executeDecision}
}

// gatherFacts reads what belongs to a Subscription.
func (a *adopter) gatherFacts(ctx context.Context, key types.NamespacedName) (adoptionFacts, error) {
	var facts adoptionFacts
	sub := &v1alpha1.Subscription{}
	if err := a.own.Get(ctx, key, sub); err != nil || !sub.DeletionTimestamp.IsZero() {
		return facts, client.IgnoreNotFound(err)
	}

	facts.subscription = sub
	var err error
	if facts.plans, err = a.readInstallPlans(ctx, sub); err != nil {
		return facts, err
	}
	if sub.Status.InstalledCSV == "" {
		return facts, nil
	}

	csv := &v1alpha1.ClusterServiceVersion{}
	err = a.client.Get(ctx, client.ObjectKey{Namespace: sub.Namespace, Name: sub.Status.InstalledCSV}, csv)
	if err != nil || csvinfo.IsCopied(csv) {
		return facts, client.IgnoreNotFound(err)
	}

	facts.csv = csv
	facts.candidates, err = a.readCandidates(ctx, csv)

	return facts, err
}

// readInstallPlans returns the InstallPlans with the label of a Subscription's components, and the
// one that it names. Only metadata is read.
func (a *adopter) readInstallPlans(ctx context.Context, sub *v1alpha1.Subscription) ([]adoptee, error) {
	key, ok := csvinfo.ComponentKey(operatorOfSubscription(sub))
	if !ok {
		return nil, nil
	}
	if err := a.labelled.WaitForSync(ctx); err != nil {
		return nil, err
	}

	var plans []adoptee
	for _, plan := range a.labelled.listByKey(installPlanKind, key) {
		if plan.Namespace == sub.Namespace {
			plans = append(plans, adoptee{installPlanKind, &plan})
		}
	}

	ref := sub.Status.InstallPlanRef
	if ref == nil || slices.ContainsFunc(plans, func(o adoptee) bool { return o.metadata.Name == ref.Name }) {
		return plans, nil
	}

	// The plan may be gone, in which case the patch of its label is ignored.
	return append(plans, adoptee{installPlanKind, &metav1.ObjectMeta{Namespace: sub.Namespace, Name: ref.Name}}), nil
}

// readCandidates returns the objects of which some were created for a ClusterServiceVersion, and
// its CRDs.
func (a *adopter) readCandidates(ctx context.Context, csv *v1alpha1.ClusterServiceVersion) ([]adoptee, error) {
	var all []adoptee
	for _, kind := range componentKinds {
		if !kind.isOwned {
			continue
		}

		reader := a.shared
		if kind.GroupVersionKind == configMapKind {
			reader = a.own
		}

		isNamespaced, err := a.client.IsObjectNamespaced(newPartialMetadata(kind.GroupVersionKind))
		if err != nil {
			return nil, fmt.Errorf("looking for the kind %s: %w", kind.Kind, err)
		}

		opts := []client.ListOption{client.MatchingLabelsSelector{Selector: csvinfo.SelectOwned(csv.Namespace, csv.Name)}}
		if isNamespaced {
			opts = []client.ListOption{client.InNamespace(csv.Namespace)}
		}

		objects, err := listCached(ctx, reader, kind.GroupVersionKind, opts...)
		if err != nil {
			return nil, fmt.Errorf("listing the objects of kind %s: %w", kind.Kind, err)
		}
		for i := range objects {
			all = append(all, adoptee{kind.GroupVersionKind, &objects[i]})
		}
	}

	for _, owned := range csv.Spec.CustomResourceDefinitions.Owned {
		crd := &crdinfo.Definition{}
		err := a.crds.Get(ctx, client.ObjectKey{Name: owned.Name}, crd)
		switch {
		case err == nil:
			all = append(all, adoptee{crdKind, &crd.ObjectMeta})
		case client.IgnoreNotFound(err) != nil:
			return nil, fmt.Errorf("reading CustomResourceDefinition %q: %w", owned.Name, err)
		}
	}

	return all, nil
}

// decideAdoption returns what gets and what loses the label of a Subscription's components. Of the
// InstallPlans, only the one that the Subscription names has the label.
func decideAdoption(f adoptionFacts) adoptionDecision {
	sub := f.subscription
	if sub == nil {
		return adoptionDecision{}
	}
	key, ok := csvinfo.ComponentKey(operatorOfSubscription(sub))
	if !ok {
		return adoptionDecision{}
	}

	related := []adoptee{{subscriptionKind, &sub.ObjectMeta}}
	d := adoptionDecision{key: key}
	for _, plan := range f.plans {
		if sub.Status.InstallPlanRef != nil && plan.metadata.Name == sub.Status.InstallPlanRef.Name {
			related = append(related, plan)
		} else if sub.Status.InstallPlanRef != nil {
			d.disowned = append(d.disowned, plan)
		}
	}

	if f.csv != nil {
		related = append(related, adoptee{csvKind, &f.csv.ObjectMeta})
		for _, candidate := range f.candidates {
			if candidate.kind == crdKind || isOwnedBy(candidate.metadata, f.csv) {
				related = append(related, candidate)
			}
		}
	}

	for _, o := range related {
		if _, ok := o.metadata.Labels[key]; !ok && o.metadata.DeletionTimestamp.IsZero() {
			d.adopted = append(d.adopted, o)
		}
	}

	return d
}

// isOwnedBy reports whether an object was created for a ClusterServiceVersion.
func isOwnedBy(metadata *metav1.ObjectMeta, csv *v1alpha1.ClusterServiceVersion) bool {
	return csvinfo.IsOwner(metadata.OwnerReferences, csv) || csvinfo.HasLabels(metadata.Labels, csvinfo.OwnerLabels(csv.Namespace, csv.Name))
}

// executeDecision patches the labels.
func (a *adopter) executeDecision(ctx context.Context, _ adoptionFacts, d adoptionDecision) error {
	value := ""
	var errs []error
	for _, o := range d.adopted {
		errs = append(errs, a.patchLabel(ctx, o, d.key, &value))
	}
	for _, o := range d.disowned {
		errs = append(errs, a.patchLabel(ctx, o, d.key, nil))
	}

	return errors.Join(errs...)
}

// patchLabel sets a label of an object, or removes it if the value is nil. An object that does not
// exist any more is no error.
func (a *adopter) patchLabel(ctx context.Context, o adoptee, key string, value *string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]*string{key: value}}})
	if err != nil {
		return fmt.Errorf("encoding the label %s: %w", key, err)
	}

	patched := newPartialMetadata(o.kind)
	patched.Namespace, patched.Name = o.metadata.Namespace, o.metadata.Name
	if err := a.client.Patch(ctx, patched, client.RawPatch(types.MergePatchType, patch)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("labelling %s %q as a component: %w", o.kind.Kind, o.metadata.Name, err)
	}

	return nil
}
