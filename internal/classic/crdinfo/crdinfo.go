// Package crdinfo caches what OLM Classic needs to know of CRDs: metadata, versions and conditions. The schemas, which are most
// of their size, are skipped when CRDs are decoded.
package crdinfo

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// Kind is the kind of CRDs.
var Kind = apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition")

// Definition is a CRD without schemas, names and conversion.
type Definition struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   Spec                                           `json:"spec"`
	Status apiextensionsv1.CustomResourceDefinitionStatus `json:"status"`
}

// Spec has the versions of a CRD.
type Spec struct {
	Versions []Version `json:"versions"`
}

// Version is a version of a CRD.
type Version struct {
	Name   string `json:"name"`
	Served bool   `json:"served"`
}

// DefinitionList is a list of CRDs.
type DefinitionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []Definition `json:"items"`
}

// IsServed reports whether the API of a CRD is served.
func IsServed(status *apiextensionsv1.CustomResourceDefinitionStatus) bool {
	met := map[apiextensionsv1.CustomResourceDefinitionConditionType]bool{}
	for _, c := range status.Conditions {
		met[c.Type] = c.Status == apiextensionsv1.ConditionTrue
	}
	return met[apiextensionsv1.Established] && met[apiextensionsv1.NamesAccepted]
}

// CRD returns a CRD that has only the fields of the Definition.
func (d *Definition) CRD() *apiextensionsv1.CustomResourceDefinition {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	d.ObjectMeta.DeepCopyInto(&crd.ObjectMeta)
	d.Status.DeepCopyInto(&crd.Status)
	for _, version := range d.Spec.Versions {
		crd.Spec.Versions = append(crd.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{Name: version.Name, Served: version.Served})
	}
	return crd
}

// DeepCopyInto copies a Definition.
func (d *Definition) DeepCopyInto(out *Definition) {
	out.TypeMeta = d.TypeMeta
	d.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Versions = slices.Clone(d.Spec.Versions)
	d.Status.DeepCopyInto(&out.Status)
}

// DeepCopyObject implements runtime.Object.
func (d *Definition) DeepCopyObject() runtime.Object {
	out := &Definition{}
	d.DeepCopyInto(out)
	return out
}

// DeepCopyObject implements runtime.Object.
func (l *DefinitionList) DeepCopyObject() runtime.Object {
	out := &DefinitionList{TypeMeta: l.TypeMeta, Items: make([]Definition, len(l.Items))}
	l.DeepCopyInto(&out.ListMeta)
	for i := range l.Items {
		l.Items[i].DeepCopyInto(&out.Items[i])
	}
	return out
}

// AddToScheme adds Definition to a scheme as the type of CRDs. The scheme must not have whole CRDs.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypeWithName(Kind, &Definition{})
	scheme.AddKnownTypeWithName(Kind.GroupVersion().WithKind(Kind.Kind+"List"), &DefinitionList{})
	metav1.AddToGroupVersion(scheme, Kind.GroupVersion())
	return nil
}

// NewCache returns a cache of Definitions, and adds it to the manager. Its scheme has no other kinds, because that of the
// manager has whole CRDs.
func NewCache(mgr ctrl.Manager) (cache.Cache, error) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		return nil, err
	}

	definitions, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: scheme, Mapper: mgr.GetRESTMapper(), DefaultTransform: trimMetadata,
	})
	if err != nil {
		return nil, fmt.Errorf("creating the cache of CRDs: %w", err)
	}
	if err := mgr.Add(definitions); err != nil {
		return nil, fmt.Errorf("adding the cache of CRDs: %w", err)
	}

	return definitions, nil
}

// trimMetadata is a cache transform function. It removes the managed fields of a Definition, and the copy of the whole CRD that
// kubectl stores in an annotation.
func trimMetadata(object any) (any, error) {
	if d, ok := object.(*Definition); ok {
		d.ManagedFields = nil
		delete(d.Annotations, corev1.LastAppliedConfigAnnotation)
	}
	return object, nil
}
