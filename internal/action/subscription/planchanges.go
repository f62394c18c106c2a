package subscription

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/classic/steps"
	"github.com/mainstay-dev/mainstay/internal/objectdiff"
	"github.com/mainstay-dev/mainstay/internal/rbac"
)

// PlanChanges are the differences between the objects of an InstallPlan and those of the cluster.
type PlanChanges struct {
	// Changes are the objects that are created or changed. A new ClusterServiceVersion is compared with
	// the installed one. Only fields that the plan sets are compared.
	Changes []objectdiff.Change `json:"changes,omitempty"`
	// Unchanged is the number of objects that are on the cluster already.
	Unchanged int `json:"unchanged"`
	// Rights are the rights that the plan grants.
	Rights []GrantedRule `json:"rights,omitempty"`
	// Unread are sentences about what could not be read.
	Unread []string `json:"unread,omitempty"`
}

// GrantedRule is a rule that a role of a plan contains.
type GrantedRule struct {
	// Role is the kind and name of the role.
	Role string            `json:"role"`
	Rule rbacv1.PolicyRule `json:"rule"`
	// FarReaching reports whether the rule can be used to gain further rights.
	FarReaching bool `json:"farReaching,omitempty"`
}

// Compare returns what the plan of Preview changes.
func (a *Approve) Compare(ctx context.Context, p *Plan) (*PlanChanges, error) {
	r := &planReader{client: a.Client, plan: p.plan, changes: &PlanChanges{}, unpacked: map[steps.Reference][]*v1alpha1.Step{}, isUnread: map[string]bool{}}
	if a.subscription != nil {
		r.installed = a.subscription.Status.InstalledCSV
	}

	var before, after []*unstructured.Unstructured
	for _, step := range p.plan.Status.Plan {
		wanted, err := r.readManifest(ctx, step)
		if err != nil {
			return nil, action.NewServerError(fmt.Sprintf("installplan %q", p.Name), err)
		}
		if wanted == nil {
			continue
		}

		after = append(after, wanted)
		r.addRules(wanted)
		current, err := r.readCurrent(ctx, wanted)
		if err != nil {
			return nil, action.NewServerError(fmt.Sprintf("installplan %q", p.Name), err)
		}
		if current != nil {
			before = append(before, current)
		}
	}

	result, err := objectdiff.Compare(before, after)
	if err != nil {
		return nil, fmt.Errorf("comparing the objects of installplan %q: %w", p.Name, err)
	}
	r.changes.Changes, r.changes.Unchanged = result.Changes, result.Unchanged
	return r.changes, nil
}

// planReader reads the objects of a plan and of the cluster.
type planReader struct {
	client client.Client
	plan   *v1alpha1.InstallPlan
	// installed is the name of the installed ClusterServiceVersion. It is empty if there is none.
	installed string
	changes   *PlanChanges
	// unpacked are the steps of the bundles that were read.
	unpacked map[steps.Reference][]*v1alpha1.Step
	isUnread map[string]bool
}

// recordUnread records a sentence once.
func (r *planReader) recordUnread(sentence string) {
	if !r.isUnread[sentence] {
		r.isUnread[sentence] = true
		r.changes.Unread = append(r.changes.Unread, sentence)
	}
}

// readManifest returns the object of a step. It returns nil if the object is not readable.
func (r *planReader) readManifest(ctx context.Context, step *v1alpha1.Step) (*unstructured.Unstructured, error) {
	manifest := step.Resource.Manifest
	if ref, ok := steps.ReferenceOf(step); ok {
		among, err := r.readUnpacked(ctx, ref)
		if err != nil || among == nil {
			return nil, err
		}
		if manifest, err = steps.Manifest(step, among); err != nil {
			r.recordUnread(err.Error())
			return nil, nil
		}
	}

	object := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(manifest), &object.Object); err != nil || object.Object == nil {
		r.recordUnread(fmt.Sprintf("The plan has no readable manifest of %s %s.", step.Resource.Kind, step.Resource.Name))
		return nil, nil //nolint:nilerr // it is recorded
	}

	if object.GetAPIVersion() == "" || object.GetKind() == "" {
		object.SetGroupVersionKind(schema.GroupVersionKind{Group: step.Resource.Group, Version: step.Resource.Version, Kind: step.Resource.Kind})
	}
	isNamespaced, err := r.client.IsObjectNamespaced(object)
	switch {
	case err == nil && isNamespaced:
		object.SetNamespace(r.plan.Namespace)
	case err != nil && !meta.IsNoMatchError(err):
		return nil, err
	}

	return object, nil
}

// readUnpacked returns the steps of an unpacked bundle, or nil if the user may not read it.
func (r *planReader) readUnpacked(ctx context.Context, ref steps.Reference) ([]*v1alpha1.Step, error) {
	if among, ok := r.unpacked[ref]; ok {
		return among, nil
	}

	configMap := &corev1.ConfigMap{}
	err := r.client.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, configMap)
	switch {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		r.recordUnread(fmt.Sprintf("The bundle in ConfigMap %s/%s cannot be read: %v.", ref.Namespace, ref.Name, err))
		r.unpacked[ref] = nil
		return nil, nil
	case err != nil:
		return nil, err
	}

	b, err := steps.DecodeConfigMap(configMap)
	if err != nil {
		return nil, err
	}
	b.Replaces, b.Properties = ref.Replaces, ref.Properties
	among, err := steps.FromBundle(b, steps.Place{Namespace: r.plan.Namespace, Catalog: ref.CatalogSourceName, CatalogNamespace: ref.CatalogSourceNamespace})
	r.unpacked[ref] = among
	return among, err
}

// addRules adds the rules of a role.
func (r *planReader) addRules(object *unstructured.Unstructured) {
	if object.GroupVersionKind().Group != rbacv1.GroupName {
		return
	}
	var role rbacv1.ClusterRole // A Role has the same rules, and a binding has none.
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role); err != nil {
		return
	}
	for _, rule := range role.Rules {
		r.changes.Rights = append(r.changes.Rights, GrantedRule{Role: object.GetKind() + " " + object.GetName(), Rule: rule, FarReaching: rbac.IsFarReaching(&rule)})
	}
}

// readCurrent returns the object on the cluster that a plan changes, with the fields that the plan
// sets. It returns nil if there is none.
func (r *planReader) readCurrent(ctx context.Context, wanted *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	key := client.ObjectKeyFromObject(wanted)
	isOperator := wanted.GetKind() == v1alpha1.ClusterServiceVersionKind && r.installed != ""
	if isOperator {
		key.Name = r.installed
	}

	current := &unstructured.Unstructured{}
	current.SetGroupVersionKind(wanted.GroupVersionKind())
	err := r.client.Get(ctx, key, current)
	switch {
	case apierrors.IsNotFound(err), action.IsUnknownKind(err):
		return nil, nil
	case apierrors.IsForbidden(err):
		r.recordUnread(fmt.Sprintf("You are not allowed to read %s %s, so that it is shown as new.", wanted.GetKind(), wanted.GetName()))
		return nil, nil
	case err != nil:
		return nil, err
	}

	if isOperator {
		current.SetName(wanted.GetName())
	}
	fields, _ := projectFields(current.Object, wanted.Object).(map[string]any)
	return &unstructured.Unstructured{Object: fields}, nil
}

// projectFields returns the part of a live value that a manifest sets, so that defaults and the status
// of the live object are no differences.
func projectFields(live, manifest any) any {
	switch wanted := manifest.(type) {
	case map[string]any:
		fields, ok := live.(map[string]any)
		if !ok {
			return live
		}
		projected := map[string]any{}
		for name, value := range wanted {
			if current, ok := fields[name]; ok {
				projected[name] = projectFields(current, value)
			}
		}
		return projected
	case []any:
		items, ok := live.([]any)
		if !ok || len(items) != len(wanted) {
			return live
		}
		projected := make([]any, len(items))
		for i := range items {
			projected[i] = projectFields(items[i], wanted[i])
		}
		return projected
	default:
		return live
	}
}
