package steps

import (
	"encoding/json"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

const kindConfigMap = "ConfigMap"

// Reference replaces the manifest in a step, so that plans stay small. It names the ConfigMap with the unpacked bundle
// and the other input of the steps.
type Reference struct {
	Kind                   string `json:"kind"`
	Name                   string `json:"name"`
	Namespace              string `json:"namespace"`
	CatalogSourceName      string `json:"catalogSourceName"`
	CatalogSourceNamespace string `json:"catalogSourceNamespace"`
	Replaces               string `json:"replaces"`
	Properties             string `json:"properties"`
	// Digest is the digest of the content of the steps. Plans of other versions have none.
	Digest string `json:"digest,omitempty"`
}

// ReplaceManifests replaces the manifests of steps by a reference.
func ReplaceManifests(steps []*v1alpha1.Step, to Reference) error {
	to.Kind = kindConfigMap
	manifest, err := json.Marshal(to)
	if err != nil {
		return newInvalidError("the reference to ConfigMap %s/%s cannot be encoded: %v", to.Namespace, to.Name, err)
	}

	for _, step := range steps {
		step.Resource.Manifest = string(manifest)
	}

	return nil
}

// ReferenceOf returns the reference in a step; ok is false when the step has a manifest.
func ReferenceOf(step *v1alpha1.Step) (ref Reference, ok bool) {
	// The manifest of a ConfigMap has its name in its metadata, so it cannot be mistaken for a reference.
	if err := json.Unmarshal([]byte(step.Resource.Manifest), &ref); err != nil {
		return Reference{}, false
	}
	return ref, ref.Kind == kindConfigMap && ref.Name != "" && ref.Namespace != ""
}

// Manifest returns the manifest of a step with a reference. among are the steps of the unpacked bundle.
func Manifest(step *v1alpha1.Step, among []*v1alpha1.Step) (string, error) {
	wanted := step.Resource
	for _, other := range among {
		found := other.Resource
		found.Manifest, wanted.Manifest = "", ""
		if found == wanted && other.Resolving == step.Resolving {
			return other.Resource.Manifest, nil
		}
	}

	return "", newInvalidError("the unpacked bundle has no %s %q any more, which a step of %q installs", step.Resource.Kind, step.Resource.Name, step.Resolving)
}
