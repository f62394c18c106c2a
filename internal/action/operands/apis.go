package operands

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/action"
)

const (
	// annotationInternalObjects lists the CRDs of a CSV that are not for users, as a JSON array.
	annotationInternalObjects = "operators.operatorframework.io/internal-objects"
	// annotationExamples has examples of a CSV's custom resources, as a JSON array.
	annotationExamples = "alm-examples"
	// crdKind is the kind of the objects of an extension that define kinds.
	crdKind = "CustomResourceDefinition"
)

// Resource is a kind of custom resources, as it is in the paths of the API server.
type Resource struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	// Plural is the name of the kind in paths.
	Plural string `json:"plural"`
}

func (r Resource) groupVersionResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Plural}
}

// String returns the resource as kubectl writes it.
func (r Resource) String() string { return r.Plural + "." + r.Version + "." + r.Group }

// OperandDescriptor says how a console shows a field.
type OperandDescriptor struct {
	// Path is relative to the spec or the status of the object.
	Path         string   `json:"path"`
	DisplayName  string   `json:"displayName,omitempty"`
	Description  string   `json:"description,omitempty"`
	XDescriptors []string `json:"x-descriptors,omitempty"`
}

// OperandAPI is a kind that an extension or operator provides.
type OperandAPI struct {
	Resource
	Kind string `json:"kind"`
	// DisplayName and Description are those of the operator. They are empty if it has none, or if the user may not read them.
	DisplayName string `json:"displayName,omitempty"`
	Description string `json:"description,omitempty"`
	Namespaced  bool   `json:"namespaced"`
	// Missing means that the API server does not serve the kind yet.
	Missing bool `json:"missing,omitempty"`
}

// OfExtension lists the kinds of a ClusterExtension.
type OfExtension struct {
	Client client.Client
	Name   string
}

// Run returns the kinds whose CRDs are in the active revisions of the extension. The version is the one that the API server prefers.
func (a *OfExtension) Run(ctx context.Context) ([]OperandAPI, error) {
	state, err := (&action.ExtensionStatus{Client: a.Client, Name: a.Name}).Run(ctx)
	if err != nil {
		return nil, err
	}

	names := map[string]bool{}
	for i := range state.Revisions {
		for _, phase := range state.Revisions[i].Phases {
			for j := range phase.Objects {
				if o := &phase.Objects[j]; o.Kind == crdKind {
					names[o.Name] = true
				}
			}
		}
	}

	apis := []OperandAPI{}
	for name := range names {
		plural, group, _ := strings.Cut(name, ".")
		apis = append(apis, completeAPI(a.Client.RESTMapper(), OperandAPI{Resource: Resource{Group: group, Plural: plural}}))
	}
	sortAPIs(apis)
	return apis, nil
}

// OfOperator lists the kinds of an operator of OLM Classic.
type OfOperator struct {
	Client    client.Client
	Namespace string
	// Subscription or CSV is the name of the operator.
	Subscription, CSV string
}

// Run returns the kinds that the operator owns and that are for users. A Subscription without an installed operator has none.
func (a *OfOperator) Run(ctx context.Context) ([]OperandAPI, error) {
	name := a.CSV
	if a.Subscription != "" {
		var sub v1alpha1.Subscription
		if err := a.Client.Get(ctx, client.ObjectKey{Namespace: a.Namespace, Name: a.Subscription}, &sub); err != nil {
			return nil, action.NewNotFoundError("subscription "+a.Subscription, "mainstay subscription list", err)
		}
		name = cmp.Or(sub.Status.InstalledCSV, sub.Status.CurrentCSV)
	}
	if name == "" {
		return []OperandAPI{}, nil
	}

	var csv v1alpha1.ClusterServiceVersion
	if err := a.Client.Get(ctx, client.ObjectKey{Namespace: a.Namespace, Name: name}, &csv); err != nil {
		return nil, action.NewNotFoundError("clusterserviceversion "+name, "mainstay subscription list", err)
	}

	apis := []OperandAPI{}
	for _, described := range describeOwned(&csv) {
		if !described.internal {
			api := OperandAPI{Resource: described.Resource, Kind: described.kind, DisplayName: described.DisplayName, Description: described.Description}
			apis = append(apis, completeAPI(a.Client.RESTMapper(), api))
		}
	}
	return apis, nil
}

// completeAPI adds what the API server knows of a kind.
func completeAPI(mapper meta.RESTMapper, api OperandAPI) OperandAPI {
	kind, err := mapper.KindFor(api.groupVersionResource())
	if err != nil {
		api.Missing = true
		return api
	}

	api.Kind = kind.Kind
	api.Version = cmp.Or(api.Version, kind.Version)
	if mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version); err == nil {
		api.Namespaced = mapping.Scope.Name() == meta.RESTScopeNameNamespace
	}
	return api
}

func sortAPIs(apis []OperandAPI) {
	slices.SortFunc(apis, func(a, b OperandAPI) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Group, b.Group)) })
}

// description is what a CSV says about a kind.
type description struct {
	Resource
	v1alpha1.APIDescription
	kind     string
	internal bool
}

// describeOwned returns the owned kinds of a CSV in its order.
func describeOwned(csv *v1alpha1.ClusterServiceVersion) []description {
	var internal []string
	_ = json.Unmarshal([]byte(csv.Annotations[annotationInternalObjects]), &internal) // a value that is no list hides nothing
	var owned []description
	for i := range csv.Spec.CustomResourceDefinitions.Owned {
		crd := &csv.Spec.CustomResourceDefinitions.Owned[i]
		plural, group, _ := strings.Cut(crd.Name, ".")
		owned = append(owned, description{
			Resource: Resource{Group: group, Version: crd.Version, Plural: plural}, APIDescription: crd.APIDescription, kind: crd.Kind,
			internal: slices.Contains(internal, crd.Name),
		})
	}
	for i := range csv.Spec.APIServiceDefinitions.Owned {
		api := &csv.Spec.APIServiceDefinitions.Owned[i]
		owned = append(owned, description{
			Resource: Resource{Group: api.Group, Version: api.Version, Plural: api.Name}, APIDescription: api.APIDescription, kind: api.Kind,
		})
	}
	return owned
}

// findDescription returns what a CSV in the namespace says about a resource, and that CSV. It returns nil if there is none, or if the
// user may not list CSVs there.
func findDescription(ctx context.Context, c client.Client, resource Resource, namespace string) (*description, *v1alpha1.ClusterServiceVersion, error) {
	var list v1alpha1.ClusterServiceVersionList
	err := c.List(ctx, &list, client.InNamespace(namespace), client.Limit(maxObjects))
	if apierrors.IsForbidden(err) || action.IsUnknownKind(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, action.NewServerError("clusterserviceversions", err)
	}

	var found *description
	var owner *v1alpha1.ClusterServiceVersion
	for i := range list.Items {
		for _, d := range describeOwned(&list.Items[i]) {
			isSame := d.Group == resource.Group && d.Plural == resource.Plural
			// A description of the same version is the best. During an upgrade, the newer CSV is the last.
			if isSame && (found == nil || d.Version == resource.Version || found.Version != resource.Version) {
				found, owner = &d, &list.Items[i]
			}
		}
	}
	return found, owner, nil
}

func convertDescriptors(list []v1alpha1.Descriptor) []OperandDescriptor {
	converted := []OperandDescriptor{}
	for i := range list {
		d := &list[i]
		converted = append(converted, OperandDescriptor{Path: d.Path, DisplayName: d.DisplayName, Description: d.Description, XDescriptors: d.XDescriptors})
	}
	return converted
}
