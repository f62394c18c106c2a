package bundle

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/blang/semver/v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

var errRelease = errors.New("release field must be a string or number")

// requiredCSVFields are the fields of a CSV's spec without which the blob of the bundle
// would be wrong.
var requiredCSVFields = []string{
	"apiservicedefinitions", "customresourcedefinitions", "install", "relatedImages", "release", "replaces", "skips", "version",
}

// loadCSV decodes the CSV. It ignores the group of the apiVersion, because some authors
// omit it or write their own. Fields of a wrong type that a catalog does not need are
// omitted.
func (b *Bundle) loadCSV(object unstructured.Unstructured) error {
	if err := checkCSVSpec(object); err != nil {
		return fmt.Errorf("ClusterServiceVersion %q: %w", object.GetName(), err)
	}

	if err := decodeCSVInto(object.Object, &b.CSV); err != nil {
		if err := b.loadCSVFieldByField(object); err != nil {
			return err
		}
	}

	b.CSV.APIVersion = v1alpha1.GroupVersion.String()
	b.CSV.Kind = kindCSV
	if version, err := semver.ParseTolerant(string(b.CSV.Spec.Version)); err == nil {
		b.Version = version
	}

	return nil
}

// checkCSVSpec returns an error for a CSV without a spec, which was probably truncated. It
// also rejects a version that YAML reads as a number: 1.10 would become 1.1.
func checkCSVSpec(object unstructured.Unstructured) error {
	spec, ok := object.Object["spec"].(map[string]any)
	if !ok {
		return errors.New("spec is missing or not an object")
	}

	switch version := spec["version"].(type) {
	case nil, string:
		return nil
	default:
		return fmt.Errorf("spec.version: a version must be a string, not %v: put it in quotes", version)
	}
}

// loadCSVFieldByField decodes a CSV that has fields of a wrong type.
func (b *Bundle) loadCSVFieldByField(object unstructured.Unstructured) error {
	spec, _, _ := unstructured.NestedMap(object.Object, "spec")
	metadata := map[string]any{"metadata": object.Object["metadata"]}
	var csv v1alpha1.ClusterServiceVersion
	if err := decodeCSVInto(metadata, &csv); err != nil {
		return fmt.Errorf("ClusterServiceVersion %q: %w", object.GetName(), err)
	}

	for _, name := range slices.Sorted(maps.Keys(spec)) {
		field := map[string]any{name: spec[name]}
		var probe v1alpha1.ClusterServiceVersion
		err := decodeCSVInto(map[string]any{"spec": field}, &probe)
		if err == nil {
			err = decodeCSVInto(map[string]any{"spec": field}, &csv)
		}

		switch {
		case err == nil:
		case name == "release":
			return fmt.Errorf("failed to derive properties: %w", errRelease)
		case slices.Contains(requiredCSVFields, name):
			return fmt.Errorf("ClusterServiceVersion %q: spec.%s: %w", object.GetName(), name, err)
		default:
			b.addOmissionWithWarning("ClusterServiceVersion %q: spec.%s: %v", object.GetName(), name, err)
		}
	}

	b.CSV = csv
	return nil
}

// DecodeCSV decodes a ClusterServiceVersion. Unknown fields are ignored, and the version
// may be any text.
func DecodeCSV(content map[string]any) (*v1alpha1.ClusterServiceVersion, error) {
	csv := &v1alpha1.ClusterServiceVersion{}
	if err := decodeCSVInto(content, csv); err != nil {
		return nil, err
	}
	return csv, nil
}

func decodeCSVInto(content map[string]any, csv *v1alpha1.ClusterServiceVersion) error {
	raw, err := json.Marshal(content)
	if err != nil {
		return err
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(raw, csv)
}
