package csv

import (
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// objectMemory has the last version of each object of a kind that was read, so that a version is read only once. The zero
// value is ready to use.
type objectMemory[T client.Object] struct {
	mu    sync.Mutex
	known map[types.NamespacedName]T
}

// lookUp returns the object with the given cached metadata. ok is false when neither this version nor a newer one was
// read. The result must not be modified.
func (m *objectMemory[T]) lookUp(metadata *metav1.PartialObjectMetadata) (object T, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	object, ok = m.known[client.ObjectKeyFromObject(metadata)]
	if !ok || object.GetUID() != metadata.UID {
		return object, false
	}

	order, err := resourceversion.CompareResourceVersion(object.GetResourceVersion(), metadata.ResourceVersion)
	return object, err == nil && order >= 0
}

// findVersion returns the object in a resource version. ok is false if it was read in another version, or not at all.
func (m *objectMemory[T]) findVersion(name types.NamespacedName, version string) (object T, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	object, ok = m.known[name]
	return object, ok && object.GetResourceVersion() == version
}

// add stores an object and returns it.
func (m *objectMemory[T]) add(object T) T {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil {
		m.known = map[types.NamespacedName]T{}
	}
	m.known[client.ObjectKeyFromObject(object)] = object
	return object
}

// forget removes an object that does not exist or was written.
func (m *objectMemory[T]) forget(name types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.known, name)
}

// ReadObjects has the Deployments and CRDs that the controller has read last. The zero value is ready to use.
type ReadObjects struct {
	deployments objectMemory[*appsv1.Deployment]
	crds        objectMemory[*apiextensionsv1.CustomResourceDefinition]
}

// FindStatus returns a pointer to the status of an object in a resource version. It must not be modified. ok is false if
// the controller has not read this version last.
func (r *ReadObjects) FindStatus(kind schema.GroupVersionKind, name types.NamespacedName, version string) (status any, ok bool) {
	switch kind {
	case deploymentKind:
		if deployment, ok := r.deployments.findVersion(name, version); ok {
			return &deployment.Status, true
		}
	case crdKind:
		if crd, ok := r.crds.findVersion(name, version); ok {
			return &crd.Status, true
		}
	}
	return nil, false
}

// trimCRD returns the part of a CRD that requirements depend on: no schemas.
func trimCRD(crd *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	light := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: crd.Name, UID: crd.UID, ResourceVersion: crd.ResourceVersion, Annotations: crd.Annotations},
	}
	light.Status.Conditions = crd.Status.Conditions
	for _, version := range crd.Spec.Versions {
		light.Spec.Versions = append(light.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{Name: version.Name, Served: version.Served})
	}
	return light
}

// trimDeployment returns a Deployment without the part of its pod template that its health does not depend on.
func trimDeployment(deployment *appsv1.Deployment) *appsv1.Deployment {
	light := &appsv1.Deployment{ObjectMeta: deployment.ObjectMeta, Spec: deployment.Spec, Status: deployment.Status}
	light.ManagedFields = nil
	light.Spec.Template.Spec.Containers, light.Spec.Template.Spec.InitContainers, light.Spec.Template.Spec.Volumes = nil, nil, nil
	return light
}
