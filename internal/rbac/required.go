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
	// clusterVerbs are needed in the whole cluster and cannot be limited to names:
	// managed objects are watched per resource, not per namespace.
	clusterVerbs = []string{"list", "watch"}
	// objectVerbs are needed on the one object.
	objectVerbs = []string{"get", "update", "patch", "delete"}
	// removalVerbs are needed on an object that only goes.
	removalVerbs = []string{"get", "delete"}
)

// Resource is where an API server keeps a kind.
type Resource struct {
	// Name is the plural name in URLs and in rules.
	Name       string
	Namespaced bool
}

// Options are what the objects themselves do not tell.
type Options struct {
	// Resource says where the API server keeps a kind. It is not asked for kinds that a
	// CustomResourceDefinition among the objects defines. Required.
	Resource func(schema.GroupVersionKind) (Resource, error)
	// Policy has the roles that bindings may refer to beside those among the objects.
	// Nil has none.
	Policy *Policy
	// Extension, if set, is the ClusterExtension on whose finalizers the account must
	// have the verb update. The documentation of OLM v1 asks it of every account, since the
	// admission plugin OwnerReferencesPermissionEnforcement asks it of who writes objects
	// that a ClusterExtension owns.
	Extension string
	// Removed are objects that the account only has to delete.
	Removed []unstructured.Unstructured
}

// Requirements are what an account needs to manage objects.
type Requirements struct {
	// Permissions are needed every one; sorted, none twice.
	Permissions []Permission
	// Delegations are the roles and bindings among the objects, by which the account
	// hands permissions on.
	Delegations []Delegation
	// Errors say which objects could not be judged.
	Errors []error
}

// Delegation is a role or a binding by which an account hands permissions on. The API
// server lets it do so if it has them itself, or may hand on what it has not.
type Delegation struct {
	// Namespace is where the rules hold; empty means in the whole cluster.
	Namespace string
	// Rules are handed on.
	Rules []rbacv1.PolicyRule
	// Err says why the rules are not known; nil when they are.
	Err error
	// Gathers: the role takes its rules from others, so that more can come to it.
	Gathers bool
	// Instead makes having the rules needless: the verb escalate on a role, or bind on
	// the role that a binding refers to.
	Instead Permission
}

// Required says what an account needs to manage the objects: to find, apply and delete
// each of them, and to hand on what the roles and bindings among them grant.
//
// What cannot be judged, for example an object of an unknown kind, is among the errors
// of the result; the rest is judged all the same.
func Required(objects []unstructured.Unstructured, opts Options) *Requirements {
	r := &requirer{
		opts:        opts,
		defined:     definitions(objects),
		permissions: map[Permission]struct{}{},
		gathering:   map[roleKey]bool{},
	}

	maps.Copy(r.defined, definitions(opts.Removed))
	roles, bindings := r.parse(objects)
	for i := range objects {
		if err := r.manage(&objects[i]); err != nil {
			r.fail(&objects[i], err)
		}
	}

	for i := range opts.Removed {
		r.remove(&opts.Removed[i])
	}

	for i := range roles {
		r.escalate(&roles[i])
	}

	rules := r.rulesByRole(roles)
	for i := range bindings {
		r.bind(&bindings[i], rules)
	}

	if opts.Extension != "" {
		r.permissions[Permission{
			Group: olmv1.GroupVersion.Group, Resource: "clusterextensions/finalizers", Name: opts.Extension, Verb: "update",
		}] = struct{}{}
	}

	r.result.Permissions = slices.SortedFunc(maps.Keys(r.permissions), comparePermissions)
	return &r.result
}

// requirer collects requirements.
type requirer struct {
	opts        Options
	defined     map[schema.GroupKind]Resource
	permissions map[Permission]struct{}
	// gathering are the roles among the objects that take their rules from others.
	gathering map[roleKey]bool
	result    Requirements
}

func (r *requirer) fail(object *unstructured.Unstructured, err error) {
	r.result.Errors = append(r.result.Errors, fmt.Errorf("%s: %w", describe(object.GetKind(), object.GetNamespace(), object.GetName()), err))
}

// manage adds what one object needs.
func (r *requirer) manage(object *unstructured.Unstructured) error {
	p, err := r.locate(object)
	if err != nil {
		return err
	}

	r.add(Permission{Group: p.Group, Resource: p.Resource}, clusterVerbs...)
	r.add(p, "create")
	p.Name = object.GetName()
	r.add(p, objectVerbs...)
	r.certify(object)

	return nil
}

// certify adds what the serving certificate of a webhook needs: it stands in a Secret that
// is written with the rights of the account. The Secret goes with its Service.
func (r *requirer) certify(object *unstructured.Unstructured) {
	name := object.GetAnnotations()[render.AnnotationServingCertificate]
	if object.GetKind() != "Service" || object.GetAPIVersion() != "v1" || name == "" {
		return
	}

	p := Permission{Resource: "secrets", Namespace: object.GetNamespace()}
	r.add(p, "create")
	p.Name = name
	r.add(p, "get", "list", "watch", "update")
}

// remove adds what the deletion of one object needs: nothing if there can be none, as its
// kind is not served any more.
func (r *requirer) remove(object *unstructured.Unstructured) {
	if p, err := r.locate(object); err == nil {
		p.Name = object.GetName()
		r.add(p, removalVerbs...)
	}
}

// locate returns the resource and the namespace of an object, as the beginning of what is
// needed for it.
func (r *requirer) locate(object *unstructured.Unstructured) (Permission, error) {
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

func (r *requirer) add(p Permission, verbs ...string) {
	for _, verb := range verbs {
		p.Verb = verb
		r.permissions[p] = struct{}{}
	}
}

// definitions are the kinds that the CustomResourceDefinitions among the objects
// define. An incomplete one defines nothing.
func definitions(objects []unstructured.Unstructured) map[schema.GroupKind]Resource {
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

// describe names an object to a person.
func describe(kind, namespace, name string) string {
	if namespace != "" {
		name = namespace + "/" + name
	}
	return fmt.Sprintf("%s %q", kind, name)
}
