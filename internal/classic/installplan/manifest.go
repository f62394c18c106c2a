package installplan

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// decodeManifest returns the object in the manifest of a step. A manifest of a program that encodes typed objects may
// lack apiVersion and kind: they are completed from the step. Errors do not contain the manifest, which may be that of
// a Secret.
func decodeManifest(step *v1alpha1.Step, manifest string) (*unstructured.Unstructured, error) {
	resource := &step.Resource
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(manifest), &object.Object); err != nil {
		return nil, fmt.Errorf("the manifest of %s %s cannot be read: %w", resource.Kind, resource.Name, err)
	}
	if object.GetName() != resource.Name {
		return nil, fmt.Errorf("the manifest of %s %s is one of %q: %w", resource.Kind, resource.Name, object.GetName(), errInvalidPlan)
	}

	wanted := objectKind(resource.Kind)
	if object.GetKind() == "" {
		object.SetKind(wanted)
	}
	if kind := object.GetKind(); kind != wanted {
		return nil, fmt.Errorf("the manifest of %s %s is one of kind %q: %w", resource.Kind, resource.Name, kind, errInvalidPlan)
	}

	version, ok := completeAPIVersion(object.GetAPIVersion(), resource)
	if !ok {
		return nil, fmt.Errorf("the manifest of %s %s has no apiVersion with a group and a version, and neither has its step: %w", resource.Kind, resource.Name, errInvalidPlan)
	}
	object.SetAPIVersion(version.String())

	return object, nil
}

// objectKind returns the kind of the objects of steps of a kind.
func objectKind(stepKind string) string {
	if stepKind == v1alpha1.KindBundleSecret {
		return kindSecret
	}
	return stepKind
}

// completeAPIVersion returns the API version of a manifest. If its group or its version is missing, it is that of the
// step, or else the known one of the kind. ok is false if none of them is complete.
func completeAPIVersion(inManifest string, resource *v1alpha1.StepResource) (version schema.GroupVersion, ok bool) {
	known, _ := schema.ParseGroupVersion(kinds[resource.Kind].apiVersion) // The table has valid ones.
	isCore := known.Group == "" && known.Version != ""
	candidates := []schema.GroupVersion{{Group: resource.Group, Version: resource.Version}, known}
	if parsed, err := schema.ParseGroupVersion(inManifest); err == nil {
		candidates = append([]schema.GroupVersion{parsed}, candidates...)
	}

	for _, candidate := range candidates {
		if candidate.Version != "" && (candidate.Group != "" || isCore) {
			return candidate, true
		}
	}

	return schema.GroupVersion{}, false
}
