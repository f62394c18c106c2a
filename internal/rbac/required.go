package rbac

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/render"
)

const (
	kindRole               = "Role"
	kindClusterRole        = "ClusterRole"
	kindRoleBinding        = "RoleBinding"
	kindClusterRoleBinding = "ClusterRoleBinding"
)

var (
	// clusterVerbs are needed in the whole cluster and cannot be limited to names, because managed
	// objects are watched per resource, not per namespace.
	clusterVerbs = []string{"list", "watch"}
	// objectVerbs are needed on the object itself.
	objectVerbs = []string{"get", "update", "patch", "delete"}
	// removalVerbs are needed on an object that is only removed.
	removalVerbs = []string{"get", "delete"}
)

// Resource is the resource of a kind.
type Resource struct {
	// Name is the plural name, as in URLs and in rules.
	Name       string
	Namespaced bool
}

// Options are the options of Required.
type Options struct {
	// Resource returns the resource of a kind. It is not called for kinds that a CRD among the
	// objects defines. Required.
	Resource func(schema.GroupVersionKind) (Resource, error)
	// Policy has the existing roles that bindings may refer to. Nil has none.
	Policy *Policy
	// Extension, if set, is the ClusterExtension on whose finalizers the account needs the verb
	// update. The documentation of OLM v1 requires it of every account, because the admission
	// plugin OwnerReferencesPermissionEnforcement requires it for objects that a ClusterExtension
	// owns.
	Extension string
	// Removed are objects that the account only deletes.
	Removed []unstructured.Unstructured
}

// Requirements are the permissions that an account needs to manage objects.
type Requirements struct {
	// Permissions are all needed. They are sorted, without duplicates.
	Permissions []Permission
	// Delegations are the roles and bindings among the objects, which delegate permissions.
	Delegations []Delegation
	// Errors are the objects that could not be evaluated.
	Errors []error
}

// Delegation is a role or a binding that delegates permissions. The API server allows it if the
// account has the permissions itself, or may delegate permissions that it does not have.
type Delegation struct {
	// Namespace is where the rules apply. Empty means the whole cluster.
	Namespace string
	// Rules are the delegated rules.
	Rules []rbacv1.PolicyRule
	// Err is why the rules are unknown, or nil.
	Err error
	// IsAggregated means that the role is aggregated, so that its rules may grow.
	IsAggregated bool
	// Alternative is the permission that replaces having the rules: the verb escalate on a role, or
	// bind on the role that a binding refers to.
	Alternative Permission
}

// Required returns what an account needs to manage the objects: to read, apply and delete each of
// them, and to delegate what the roles and bindings among them grant.
//
// Objects that cannot be evaluated, for example those of an unknown kind, are among the errors of
// the result. The others are evaluated all the same.
func Required(objects []unstructured.Unstructured, opts Options) *Requirements {
	r := &collector{
		opts:        opts,
		defined:     definedResources(objects),
		permissions: map[Permission]struct{}{},
		aggregated:  map[roleKey]bool{},
	}

	maps.Copy(r.defined, definedResources(opts.Removed))
	roles, bindings := r.parseRolesAndBindings(objects)
	for i := range objects {
		if err := r.addManagedObject(&objects[i]); err != nil {
			r.addObjectError(&objects[i], err)
		}
	}

	for i := range opts.Removed {
		r.addRemovedObject(&opts.Removed[i])
	}

	for i := range roles {
		r.addRoleDelegation(&roles[i])
	}

	rules := r.rulesByRole(roles)
	for i := range bindings {
		r.addBindingDelegation(&bindings[i], rules)
	}

	if opts.Extension != "" {
		r.permissions[Permission{
			Group: olmv1.GroupVersion.Group, Resource: "clusterextensions/finalizers", Name: opts.Extension, Verb: "update",
		}] = struct{}{}
	}

	r.result.Permissions = slices.SortedFunc(maps.Keys(r.permissions), comparePermissions)
	return &r.result
}

// collector collects requirements.
type collector struct {
	opts        Options
	defined     map[schema.GroupKind]Resource
	permissions map[Permission]struct{}
	// aggregated are the aggregated roles among the objects.
	aggregated map[roleKey]bool
	result     Requirements
}

func (r *collector) addObjectError(object *unstructured.Unstructured, err error) {
	r.result.Errors = append(r.result.Errors, fmt.Errorf("%s: %w", describeObject(object.GetKind(), object.GetNamespace(), object.GetName()), err))
}

// addManagedObject adds the permissions to manage one object.
func (r *collector) addManagedObject(object *unstructured.Unstructured) error {
	p, err := r.basePermission(object)
	if err != nil {
		return err
	}

	r.addPermissionVerbs(Permission{Group: p.Group, Resource: p.Resource}, clusterVerbs...)
	r.addPermissionVerbs(p, "create")
	p.Name = object.GetName()
	r.addPermissionVerbs(p, objectVerbs...)
	r.addServingSecret(object)

	return nil
}

// addServingSecret adds the permissions for the serving certificate of a webhook. It is stored in
// a Secret that is written with the rights of the account. The Secret is deleted with its Service.
func (r *collector) addServingSecret(object *unstructured.Unstructured) {
	name := object.GetAnnotations()[render.AnnotationServingCertificate]
	if object.GetKind() != "Service" || object.GetAPIVersion() != "v1" || name == "" {
		return
	}

	p := Permission{Resource: "secrets", Namespace: object.GetNamespace()}
	r.addPermissionVerbs(p, "create")
	p.Name = name
	r.addPermissionVerbs(p, "get", "list", "watch", "update")
}

// addRemovedObject adds the permissions to delete one object. It adds none if the kind is not
// served any more, because then there is no object.
func (r *collector) addRemovedObject(object *unstructured.Unstructured) {
	if p, err := r.basePermission(object); err == nil {
		p.Name = object.GetName()
		r.addPermissionVerbs(p, removalVerbs...)
	}
}

// basePermission returns a permission with the resource and the namespace of an object.
func (r *collector) basePermission(object *unstructured.Unstructured) (Permission, error) {
	if object.GetName() == "" {
		return Permission{}, errors.New("it has no name")
	}

	gvk := object.GroupVersionKind()
	resource, ok := r.defined[gvk.GroupKind()]
	if !ok {
		var err error
		if resource, err = r.opts.Resource(gvk); err != nil {
			return Permission{}, err
		}
	}

	p := Permission{Group: gvk.Group, Resource: resource.Name}
	if resource.Namespaced {
		if p.Namespace = object.GetNamespace(); p.Namespace == "" {
			return Permission{}, errors.New("it is of a namespaced kind and has no namespace")
		}
	}

	return p, nil
}

func (r *collector) addPermissionVerbs(p Permission, verbs ...string) {
	for _, verb := range verbs {
		p.Verb = verb
		r.permissions[p] = struct{}{}
	}
}

// definedResources returns the kinds that the CRDs among the objects define. Incomplete CRDs are
// skipped.
func definedResources(objects []unstructured.Unstructured) map[schema.GroupKind]Resource {
	defined := map[schema.GroupKind]Resource{}
	for i := range objects {
		if objects[i].GroupVersionKind().GroupKind() != (schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}) {
			continue
		}
		field := func(path ...string) string {
			value, _, _ := unstructured.NestedString(objects[i].Object, append([]string{"spec"}, path...)...)
			return value
		}
		if plural := field("names", "plural"); plural != "" {
			defined[schema.GroupKind{Group: field("group"), Kind: field("names", "kind")}] = Resource{
				Name: plural, Namespaced: field("scope") == "Namespaced",
			}
		}
	}

	return defined
}

// describeObject returns the name of an object for messages.
func describeObject(kind, namespace, name string) string {
	if namespace != "" {
		name = namespace + "/" + name
	}
	return fmt.Sprintf("%s %q", kind, name)
}
