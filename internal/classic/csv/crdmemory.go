package csv

import (
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// crdMemory has the last version of each CRD that was read, without its schemas, so that a version is read only once.
// The zero value is ready to use.
type crdMemory struct {
	mu    sync.Mutex
	known map[string]*apiextensionsv1.CustomResourceDefinition
}

// lookUp returns the CRD whose metadata is given; nil when this version was not read.
func (m *crdMemory) lookUp(metadata *metav1.PartialObjectMetadata) *apiextensionsv1.CustomResourceDefinition {
	m.mu.Lock()
	defer m.mu.Unlock()
	crd := m.known[metadata.Name]
	if crd == nil || crd.UID != metadata.UID || crd.ResourceVersion != metadata.ResourceVersion {
		return nil
	}
	return crd
}

// add stores a CRD and returns it without its schemas. The result must not be modified.
func (m *crdMemory) add(crd *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	light := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: crd.Name, UID: crd.UID, ResourceVersion: crd.ResourceVersion, Annotations: crd.Annotations},
	}
	light.Status.Conditions = crd.Status.Conditions
	for _, version := range crd.Spec.Versions {
		light.Spec.Versions = append(light.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{Name: version.Name, Served: version.Served})
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil {
		m.known = map[string]*apiextensionsv1.CustomResourceDefinition{}
	}
	m.known[crd.Name] = light
	return light
}

// forget removes a CRD that does not exist.
func (m *crdMemory) forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.known, name)
}
