package payload

import (
	"errors"
	"fmt"
)

// place makes of an object of config what it is in a release: it lies where platforms have it, its programs
// know the version of the release, and the default catalogs are those of the release.
func (b *Build) place(p part, document map[string]any) error {
	metadata, _ := document["metadata"].(map[string]any)
	if len(p.moved) > 0 {
		move(document, "", p.moved)
		if name, ok := metadata["name"].(string); ok && document["kind"] == "Namespace" && p.moved[name] != "" {
			metadata["name"] = p.moved[name]
		}
	}

	switch {
	case document["kind"] == "ConfigMap" && metadata["name"] == "default-catalogs" && len(b.Catalogs) > 0:
		data := map[string]any{}
		for name, text := range b.Catalogs {
			data[name] = text
		}
		document["data"] = data
	case document["kind"] == "Deployment" && p.reports:
		if err := know(document); err != nil {
			return fmt.Errorf("the Deployment %v: %w", metadata["name"], err)
		}
	}

	return nil
}

// move renames namespaces, and arguments that name them, wherever they stand in a value that a field of the
// given name has.
func move(value any, field string, names map[string]string) any {
	switch value := value.(type) {
	case map[string]any:
		for key := range value {
			value[key] = move(value[key], key, names)
		}
	case []any:
		for i := range value {
			value[i] = move(value[i], field, names)
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

// know tells the first container of a Deployment the version of the release.
func know(deployment map[string]any) error {
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
