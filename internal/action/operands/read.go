package operands

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/action"
)

// maxObjects limits the objects of a kind that are read at once.
const maxObjects = 500

// Operand is a custom resource.
type Operand struct {
	Namespace string     `json:"namespace,omitempty"`
	Name      string     `json:"name"`
	Created   *time.Time `json:"created,omitempty"`
	// State is the state in words. It is empty if the object reports none. Message states what is wrong.
	State   string `json:"state,omitempty"`
	Message string `json:"message,omitempty"`
	// Status is the status of the object, for the columns of status descriptors.
	Status map[string]any `json:"status,omitempty"`
}

// OperandPage is a part of the custom resources of a kind.
type OperandPage struct {
	Items []Operand `json:"items"`
	// Continue asks for the next part. It is empty at the end.
	Continue string `json:"continue,omitempty"`
}

// List lists custom resources.
type List struct {
	Client   client.Client
	Resource Resource
	// Namespace limits the list. Empty means all namespaces.
	Namespace string
	// Continue is that of the previous page.
	Continue string
}

// Run returns a page of the objects in the order of the API server, which is by namespace and name.
func (a *List) Run(ctx context.Context) (*OperandPage, error) {
	mapping, err := findMapping(a.Client.RESTMapper(), a.Resource)
	if err != nil {
		return nil, err
	}

	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(mapping.GroupVersionKind)
	if err := a.Client.List(ctx, list, client.InNamespace(a.Namespace), client.Limit(maxObjects), client.Continue(a.Continue)); err != nil {
		return nil, action.NewServerError(a.Resource.String(), err)
	}

	page := &OperandPage{Items: []Operand{}, Continue: list.GetContinue()}
	for i := range list.Items {
		page.Items = append(page.Items, newOperand(&list.Items[i]))
	}
	return page, nil
}

func newOperand(object *unstructured.Unstructured) Operand {
	operand := Operand{Namespace: object.GetNamespace(), Name: object.GetName()}
	operand.State, operand.Message = stateOf(object)
	operand.Status, _, _ = unstructured.NestedMap(object.Object, "status")
	if created := object.GetCreationTimestamp(); !created.IsZero() {
		operand.Created = new(created.UTC())
	}
	return operand
}

// OperandDetails are a custom resource with what it reports.
type OperandDetails struct {
	// Object is the whole object, without the bookkeeping of field managers.
	Object     map[string]any     `json:"object"`
	State      string             `json:"state,omitempty"`
	Message    string             `json:"message,omitempty"`
	Conditions []OperandCondition `json:"conditions,omitempty"`
}

// Show reads a custom resource.
type Show struct {
	Client          client.Client
	Resource        Resource
	Namespace, Name string
}

// Run returns the object.
func (a *Show) Run(ctx context.Context) (*OperandDetails, error) {
	object, err := a.readObject(ctx)
	if err != nil {
		return nil, err
	}
	return newDetails(object), nil
}

func (a *Show) readObject(ctx context.Context) (*unstructured.Unstructured, error) {
	mapping, err := findMapping(a.Client.RESTMapper(), a.Resource)
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(mapping.GroupVersionKind)
	err = a.Client.Get(ctx, client.ObjectKey{Namespace: a.Namespace, Name: a.Name}, object)
	return object, action.NewServerError(a.Resource.Plural+" "+a.Name, err)
}

func newDetails(object *unstructured.Unstructured) *OperandDetails {
	object.SetManagedFields(nil)
	details := &OperandDetails{Object: object.Object, Conditions: readConditions(object)}
	details.State, details.Message = stateOf(object)
	return details
}

// OperandRelation is an object that a custom resource owns.
type OperandRelation struct {
	APIVersion string     `json:"apiVersion"`
	Kind       string     `json:"kind"`
	Namespace  string     `json:"namespace,omitempty"`
	Name       string     `json:"name"`
	Created    *time.Time `json:"created,omitempty"`
}

// RelatedObjects are the objects that a custom resource owns.
type RelatedObjects struct {
	Items []OperandRelation `json:"items"`
	// Forbidden are the kinds that the user may not list.
	Forbidden []string `json:"forbidden,omitempty"`
	// Incomplete are the kinds of which only the first objects have been read.
	Incomplete []string `json:"incomplete,omitempty"`
}

// Related finds the objects that a custom resource owns, among the kinds that its operator names.
type Related struct {
	Client          client.Client
	Resource        Resource
	Namespace, Name string
}

// Run returns the objects. It reads only their metadata.
func (a *Related) Run(ctx context.Context) (*RelatedObjects, error) {
	owner, err := (&Show{Client: a.Client, Resource: a.Resource, Namespace: a.Namespace, Name: a.Name}).readObject(ctx)
	if err != nil {
		return nil, err
	}
	described, _, err := findDescription(ctx, a.Client, a.Resource, a.Namespace)
	if err != nil {
		return nil, err
	}

	related := &RelatedObjects{Items: []OperandRelation{}}
	for _, kind := range a.listKinds(described) {
		if err := related.addOwned(ctx, a.Client, kind, a.Namespace, owner.GetUID()); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(related.Items, func(x, y OperandRelation) int {
		return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	return related, nil
}

// commonKinds are the kinds that are searched if the operator names none.
var commonKinds = []schema.GroupVersionKind{
	{Group: "apps", Version: "v1", Kind: "Deployment"}, {Group: "apps", Version: "v1", Kind: "StatefulSet"}, {Group: "apps", Version: "v1", Kind: "DaemonSet"},
	{Group: "batch", Version: "v1", Kind: "Job"}, {Version: "v1", Kind: "Service"}, {Version: "v1", Kind: "Pod"}, {Version: "v1", Kind: "ConfigMap"},
}

// maxRelatedKinds limits the kinds that are searched.
const maxRelatedKinds = 20

// listKinds returns the kinds to search. The kinds that a CSV names have no group, which is found by their name.
func (a *Related) listKinds(described *description) []schema.GroupVersionKind {
	if described == nil || len(described.Resources) == 0 {
		return commonKinds
	}

	var kinds []schema.GroupVersionKind
	for _, named := range described.Resources {
		candidates := []schema.GroupVersionKind{{Version: named.Version, Kind: named.Kind}}
		if _, group, ok := strings.Cut(named.Name, "."); ok {
			candidates = []schema.GroupVersionKind{{Group: group, Version: named.Version, Kind: named.Kind}}
		} else if group, version, ok := strings.Cut(named.Version, "/"); ok {
			candidates = []schema.GroupVersionKind{{Group: group, Version: version, Kind: named.Kind}}
		} else {
			for _, common := range commonKinds {
				if common.Kind == named.Kind {
					candidates = []schema.GroupVersionKind{common}
				}
			}
		}
		for _, kind := range candidates {
			if _, err := a.Client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version); err == nil && !slices.Contains(kinds, kind) && len(kinds) < maxRelatedKinds {
				kinds = append(kinds, kind)
			}
		}
	}
	return kinds
}

// addOwned adds the objects of a kind that an object owns.
func (r *RelatedObjects) addOwned(ctx context.Context, c client.Client, kind schema.GroupVersionKind, namespace string, owner types.UID) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind)
	err := c.List(ctx, list, client.InNamespace(namespace), client.Limit(maxObjects))
	switch {
	case apierrors.IsForbidden(err):
		r.Forbidden = append(r.Forbidden, kind.Kind)
		return nil
	case action.IsUnknownKind(err):
		return nil
	case err != nil:
		return action.NewServerError(kind.Kind, err)
	}

	if list.Continue != "" {
		r.Incomplete = append(r.Incomplete, kind.Kind)
	}
	for i := range list.Items {
		item := &list.Items[i]
		if slices.ContainsFunc(item.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == owner }) {
			r.Items = append(r.Items, OperandRelation{
				APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Namespace: item.Namespace, Name: item.Name, Created: new(item.CreationTimestamp.UTC()),
			})
		}
	}
	return nil
}

// ListNames returns the names of the objects of a kind that the user may list, for fields that name one. An empty group with an
// empty version is the kind of the core group.
func ListNames(ctx context.Context, c client.Client, kind schema.GroupKind, version, namespace string) ([]string, error) {
	versions := []string{}
	if version != "" {
		versions = append(versions, version)
	}
	mapping, err := c.RESTMapper().RESTMapping(kind, versions...)
	if err != nil {
		return nil, action.NewServerError(kind.String(), err)
	}

	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(mapping.GroupVersionKind)
	if err := c.List(ctx, list, client.InNamespace(namespace), client.Limit(maxObjects)); err != nil {
		return nil, action.NewServerError(kind.String(), err)
	}
	names := []string{}
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return slices.Compact(slices.Sorted(slices.Values(names))), nil
}
