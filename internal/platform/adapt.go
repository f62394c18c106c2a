package platform

import (
	"errors"
	"fmt"
)

// adaptDocument adapts an object of config for a release: it renames namespaces, passes the
// version of the release to programs, and sets the default catalogs.
func (b *Build) adaptDocument(p platformPart, document map[string]any) error {
	metadata, _ := document["metadata"].(map[string]any)
	if len(p.renames) > 0 {
		renameNamespaces(document, "", p.renames)
		if name, ok := metadata["name"].(string); ok && document["kind"] == "Namespace" && p.renames[name] != "" {
			metadata["name"] = p.renames[name]
		}
	}

	switch {
	case document["kind"] == "ConfigMap" && metadata["name"] == "default-catalogs" && len(b.Catalogs) > 0:
		data := map[string]any{}
		for name, text := range b.Catalogs {
			data[name] = text
		}
		document["data"] = data
	case document["kind"] == "Deployment" && p.reportsVersion:
		if err := setReleaseVersion(document); err != nil {
			return fmt.Errorf("the Deployment %v: %w", metadata["name"], err)
		}
	}

	return nil
}

// renameNamespaces renames namespaces, and arguments with their names, in the value of a field.
func renameNamespaces(value any, field string, names map[string]string) any {
	switch value := value.(type) {
	case map[string]any:
		for key := range value {
			value[key] = renameNamespaces(value[key], key, names)
		}
	case []any:
		for i := range value {
			value[i] = renameNamespaces(value[i], field, names)
		}
	case string:
		switch field {
		case "namespace", "targetNamespaces", "args", "command":
			if name, ok := names[value]; ok {
				return name
			}
		}
	}

	return value
}

// setReleaseVersion sets the version of the release in the first container of a Deployment.
func setReleaseVersion(deployment map[string]any) error {
	at := deployment
	for _, field := range []string{"spec", "template", "spec"} {
		at, _ = at[field].(map[string]any)
	}

	containers, _ := at["containers"].([]any)
	if len(containers) == 0 {
		return errors.New("it has no container")
	}

	container, ok := containers[0].(map[string]any)
	if !ok {
		return errors.New("its container is none")
	}

	env, _ := container["env"].([]any)
	container["env"] = append(env, map[string]any{"name": "RELEASE_VERSION", "value": "0.0.1-snapshot"})
	return nil
}
