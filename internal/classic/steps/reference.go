package steps

import (
	"encoding/json"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

const kindConfigMap = "ConfigMap"

// Reference stands in a step for the manifest: the ConfigMap that the bundle was unpacked into, and
// what else the steps were made of. So plans stay small.
type Reference struct {
	Kind                   string `json:"kind"`
	Name                   string `json:"name"`
	Namespace              string `json:"namespace"`
	CatalogSourceName      string `json:"catalogSourceName"`
	CatalogSourceNamespace string `json:"catalogSourceNamespace"`
	Replaces               string `json:"replaces"`
	Properties             string `json:"properties"`
	// Digest is that of the content which the steps were made of. Plans of other versions have none.
	Digest string `json:"digest,omitempty"`
}

// Refer puts a reference in the place of the manifests of steps.
func Refer(steps []*v1alpha1.Step, to Reference) error {
	to.Kind = kindConfigMap
	manifest, err := json.Marshal(to)
	if err != nil {
		return invalid("the reference to ConfigMap %s/%s cannot be encoded: %v", to.Namespace, to.Name, err)
	}

	for _, step := range steps {
		step.Resource.Manifest = string(manifest)
	}

	return nil
}

// ReferenceOf returns the reference that a step has in place of a manifest; ok is false when it has a
// manifest.
func ReferenceOf(step *v1alpha1.Step) (ref Reference, ok bool) {
	// The manifest of a ConfigMap has its name in its metadata.
	if err := json.Unmarshal([]byte(step.Resource.Manifest), &ref); err != nil {
		return Reference{}, false
	}
	return ref, ref.Kind == kindConfigMap && ref.Name != "" && ref.Namespace != ""
}

// Manifest returns the manifest of a step among the steps that were made of its bundle once more.
func Manifest(step *v1alpha1.Step, among []*v1alpha1.Step) (string, error) {
	wanted := step.Resource
	for _, other := range among {
		found := other.Resource
		found.Manifest, wanted.Manifest = "", ""
		if found == wanted && other.Resolving == step.Resolving {
			return other.Resource.Manifest, nil
		}
	}

	return "", invalid("the unpacked bundle has no %s %q any more, which a step of %q installs", step.Resource.Kind, step.Resource.Name, step.Resolving)
}
