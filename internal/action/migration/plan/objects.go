package plan

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	operatorsv2 "github.com/mainstay-dev/mainstay/api/operators/v2"
	"github.com/mainstay-dev/mainstay/internal/apply"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// Action is what the migration does with an object.
type Action string

const (
	// ActionAdopt means that the extension takes over the object in place.
	ActionAdopt Action = "adopt"
	// ActionCreate means that the extension creates the object.
	ActionCreate Action = "create"
	// ActionRemove means that the object is deleted.
	ActionRemove Action = "remove"
	// ActionKeep means that the object stays, without an owner.
	ActionKeep Action = "keep"
)

// Object is an object with its action.
type Object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	Action     Action `json:"action"`
}

// Key returns the key of the object.
func (o Object) Key() apply.Key { return apply.KeyOf(o.Reference()) }

// Reference returns an object with only its kind and name.
func (o Object) Reference() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(o.APIVersion)
	u.SetKind(o.Kind)
	u.SetNamespace(o.Namespace)
	u.SetName(o.Name)
	return u
}

func newObject(u *unstructured.Unstructured, action Action) Object {
	return Object{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName(), Action: action}
}

// replacedKinds are the kinds whose objects have other names in OLM v1.
var replacedKinds = []string{
	"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration",
	operatorsv2.OperatorConditionKind,
}

// IsReplaced reports whether objects of a kind that OLM Classic created are deleted, because the
// extension has others in their place.
func IsReplaced(kind string) bool { return slices.Contains(replacedKinds, kind) }

// listObjects returns the objects of the operator with their actions.
func listObjects(f *Facts, o Options, rendered []unstructured.Unstructured) []Object {
	var objects []Object
	known := map[apply.Key]bool{}
	for i := range rendered {
		key := apply.KeyOf(&rendered[i])
		action := ActionCreate
		if f.Live[key] != nil {
			action = ActionAdopt
		}
		known[key] = true
		objects = append(objects, newObject(&rendered[i], action))
	}

	for i := range f.Owned {
		key := apply.KeyOf(&f.Owned[i])
		if known[key] {
			continue
		}
		known[key] = true
		action := ActionKeep
		if IsReplaced(f.Owned[i].GetKind()) {
			action = ActionRemove
		}
		objects = append(objects, newObject(&f.Owned[i], action))
	}

	objects = append(objects, listClassicObjects(f)...)
	objects = append(objects, Object{APIVersion: olmv1.GroupVersion.String(), Kind: olmv1.ClusterExtensionKind, Name: extensionName(f, o), Action: ActionCreate})
	slices.SortFunc(objects, func(a, b Object) int {
		return cmp.Or(cmp.Compare(a.Action, b.Action), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})

	return objects
}

// listClassicObjects returns the objects of OLM Classic itself.
func listClassicObjects(f *Facts) []Object {
	classic := func(kind, namespace, name string, action Action) Object {
		return Object{APIVersion: v1alpha1.GroupVersion.String(), Kind: kind, Namespace: namespace, Name: name, Action: action}
	}
	objects := []Object{
		classic(v1alpha1.SubscriptionKind, f.installNamespace(), f.Subscription.Name, ActionRemove),
		classic(v1alpha1.ClusterServiceVersionKind, f.installNamespace(), f.CSV.Name, ActionRemove),
	}
	for _, copied := range f.CopiedCSVs {
		namespace, name, _ := strings.Cut(copied, "/")
		objects = append(objects, classic(v1alpha1.ClusterServiceVersionKind, namespace, name, ActionRemove))
	}
	for i := range f.OperatorGroups {
		group := &f.OperatorGroups[i]
		objects = append(objects, Object{APIVersion: "operators.coreos.com/v1", Kind: "OperatorGroup", Namespace: group.Namespace, Name: group.Name, Action: ActionKeep})
	}
	if f.CatalogSource != nil {
		objects = append(objects, classic("CatalogSource", f.CatalogSource.Namespace, f.CatalogSource.Name, ActionKeep))
	}
	return objects
}

// belongsToCSV reports whether an object belongs to the installed CSV by its labels or references, or because an InstallPlan
// installed it for the CSV. Service accounts, Roles and RoleBindings of a bundle have no mark of their CSV.
func (f *Facts) belongsToCSV(live *unstructured.Unstructured) bool {
	return csvinfo.HasLabels(live.GetLabels(), csvinfo.OwnerLabels(f.CSV.Namespace, f.CSV.Name)) ||
		csvinfo.IsOwner(live.GetOwnerReferences(), f.CSV) || f.isInstalledByPlan(live)
}

// isInstalledByPlan reports whether a step of an InstallPlan created or updated an object for the installed CSV.
func (f *Facts) isInstalledByPlan(live *unstructured.Unstructured) bool {
	for i := range f.InstallPlans {
		p := &f.InstallPlans[i]
		if live.GetNamespace() != "" && live.GetNamespace() != p.Namespace {
			continue
		}
		if slices.ContainsFunc(p.Status.Plan, func(step *v1alpha1.Step) bool { return f.isStepOf(step, live) }) {
			return true
		}
	}
	return false
}

// isStepOf reports whether a step created or updated an object for the installed CSV.
func (f *Facts) isStepOf(step *v1alpha1.Step, live *unstructured.Unstructured) bool {
	if step == nil || step.Resolving != f.CSV.Name || step.Status != v1alpha1.StepStatusCreated && step.Status != v1alpha1.StepStatusPresent {
		return false
	}

	kind := step.Resource.Kind
	if kind == v1alpha1.KindBundleSecret {
		kind = "Secret"
	}
	return kind == live.GetKind() && step.Resource.Group == live.GroupVersionKind().Group && step.Resource.Name == live.GetName()
}
