package validate

import (
	"encoding/json"
	"strings"

	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/bundle/constraint"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/versionrange"
)

// CheckFormat checks whether a bundle has the required folders and annotations, and whether
// its dependencies are valid.
func CheckFormat(files *bundle.Files) Findings {
	found := &findings{validator: Format}
	if !files.HasManifests {
		found.add(Error, "Unable to locate manifests directory")
	}
	if !files.HasMetadata {
		found.add(Error, "Unable to locate metadata directory")
	}
	if len(found.list) > 0 {
		return found.list
	}

	annotations, name := files.Annotations()
	if name == "" {
		found.add(Error, "Could not find annotations file")
	} else {
		checkAnnotations(files, annotations, found)
	}

	for _, dependency := range files.Dependencies() {
		checkDependency(dependency, found)
	}

	return found.list
}

// annotationKeys are the annotations of a bundle, which are labels of its image too.
var annotationKeys = []string{bundle.KeyMediaType, bundle.KeyManifests, bundle.KeyMetadata, bundle.KeyPackage, bundle.KeyChannels, bundle.KeyDefaultChannel}

func checkAnnotations(files *bundle.Files, annotations map[string]string, found *findings) {
	mediaType, err := bundle.DetectMediaType(files.Manifests, bundle.FolderManifests)
	if err != nil {
		found.add(Error, "%v", err)
	}

	for _, key := range annotationKeys {
		value, ok := annotations[key]
		switch {
		case !ok && key == bundle.KeyDefaultChannel:
		case !ok:
			found.add(Error, "Missing annotation %q", key)
		case key == bundle.KeyMediaType && err == nil && value != mediaType:
			found.add(Error, "Expecting annotation %q to have value %q instead of %q", key, mediaType, value)
		case (key == bundle.KeyChannels || key == bundle.KeyDefaultChannel) && value == "":
			found.add(Error, "Expecting annotation %q to have non-empty value", key)
		}
	}
}

// checkLabels checks the labels of an image. Tools recognize a bundle by them before they read its files. The annotations take
// precedence, so that a label that is missing or differs is a warning.
func checkLabels(files *bundle.Files, labels map[string]string) Findings {
	found := &findings{validator: Format}
	annotations, file := files.Annotations()
	mediaType, err := bundle.DetectMediaType(files.Manifests, bundle.FolderManifests)
	for _, key := range annotationKeys {
		value, ok := labels[key]
		value = strings.TrimSpace(value)
		switch {
		case !ok && annotations[key] == "":
		case !ok:
			found.add(Warning, "Missing label %q of the image", key)
		case key == bundle.KeyMediaType && err == nil && value != mediaType:
			found.add(Error, "Expecting label %q of the image to have value %q instead of %q", key, mediaType, value)
		case (key == bundle.KeyChannels || key == bundle.KeyDefaultChannel) && value == "":
			found.add(Error, "Expecting label %q of the image to have non-empty value", key)
		case value != annotations[key]:
			found.add(Warning, "Label %q of the image has value %q, but %q in %s takes precedence", key, value, annotations[key], file)
		}
	}
	return found.list
}

func checkDependency(dependency fbc.Property, found *findings) {
	var check func(json.RawMessage, *findings) error
	switch dependency.Type {
	case "olm.gvk":
		check = checkGVK
	case "olm.package":
		check = checkPackage
	case "olm.label":
		check = checkLabel
	case "olm.constraint":
		check = checkConstraint
	}

	if check == nil || check(dependency.Value, found) != nil {
		found.add(Error, "couldn't parse dependency of type %s", dependency.Type)
	}
}

func checkGVK(raw json.RawMessage, found *findings) error {
	var value bundle.GVKProperty
	if err := json.Unmarshal(raw, &value); err != nil {
		return err
	}
	if value.Group == "" {
		found.add(Error, "API Group is empty")
	}
	if value.Version == "" {
		found.add(Error, "API Version is empty")
	}
	if value.Kind == "" {
		found.add(Error, "API Kind is empty")
	}

	return nil
}

func checkPackage(raw json.RawMessage, found *findings) error {
	var value struct {
		PackageName string `json:"packageName"`
		Version     string `json:"version"`
	}
	if err := json.Unmarshal(raw, &value); err != nil {
		return err
	}
	if value.PackageName == "" {
		found.add(Error, "Package name is empty")
	}

	if value.Version == "" {
		found.add(Error, "Package version is empty")
	} else if _, err := versionrange.Parse(value.Version); err != nil {
		found.add(Error, "Invalid semver format version")
	}

	return nil
}

func checkLabel(raw json.RawMessage, found *findings) error {
	var value struct {
		Label string `json:"label"`
	}
	if err := json.Unmarshal(raw, &value); err != nil {
		return err
	}
	if value.Label == "" {
		found.add(Error, "Label information is missing")
	}
	return nil
}

func checkConstraint(raw json.RawMessage, found *findings) error {
	var value struct {
		CEL *struct {
			Rule string `json:"rule"`
		} `json:"cel"`
	}
	if err := json.Unmarshal(raw, &value); err != nil {
		return err
	}

	switch {
	case value.CEL == nil:
		found.add(Error, "The CEL field is missing")
	case value.CEL.Rule == "":
		found.add(Error, "The CEL expression is missing")
	default:
		if _, err := constraint.Compile(value.CEL.Rule); err != nil {
			found.add(Error, "Invalid CEL expression: %s", err)
		}
	}

	return nil
}
