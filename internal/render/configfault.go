package render

import (
	"errors"
	"strconv"
	"strings"

	"github.com/mainstay-dev/mainstay/internal/bundle"
)

// ConfigFault is a problem of a configuration at a field.
type ConfigFault struct {
	// Path is the path of the field: names, and indexes of lists as decimal numbers. It is empty
	// for the whole configuration.
	Path []string
	// Message is the problem, as in a ConfigError.
	Message string
}

// CheckConfig returns the faults of a configuration for an installation into a namespace, with
// their fields: those that ParseConfig and TargetNamespaces report. raw is the JSON of
// spec.config.inline.
func CheckConfig(b *bundle.Bundle, installNamespace string, raw []byte) []ConfigFault {
	config, faults := parseConfig(b, raw)
	if len(faults) > 0 {
		return faults
	}

	_, err := TargetNamespaces(b.InstallModes(), installNamespace, config.WatchNamespace)
	var misfit *ConfigError
	if errors.As(err, &misfit) {
		for _, problem := range misfit.Problems {
			faults = append(faults, ConfigFault{Path: []string{fieldWatchNamespace}, Message: problem})
		}
	}
	return faults
}

// pathOfField returns the path for the name of a field as the validator writes it, such as
// .deploymentConfig.env[0].name. The keys of maps can contain dots, so that the content decides
// where a key ends.
func pathOfField(content any, name string) []string {
	var path []string
	for name != "" {
		key, rest := cutIndex(name)
		if key == "" {
			key, rest = cutKey(content, strings.TrimPrefix(name, "."))
		}

		path = append(path, key)
		content = childOf(content, key)
		name = rest
	}
	return path
}

// cutIndex cuts an index such as [0] off the name of a field. It returns an empty key if the name
// does not begin with one.
func cutIndex(name string) (key, rest string) {
	inside, isIndex := strings.CutPrefix(name, "[")
	if !isIndex {
		return "", name
	}
	key, rest, _ = strings.Cut(inside, "]")
	return key, rest
}

// cutKey cuts the longest key of an object off the name of a field. A field that the object does
// not have ends at the next separator.
func cutKey(content any, name string) (key, rest string) {
	object, _ := content.(map[string]any)
	for candidate := range object {
		after, begins := strings.CutPrefix(name, candidate)
		if begins && len(candidate) > len(key) && (after == "" || strings.ContainsRune(".[", rune(after[0]))) {
			key, rest = candidate, after
		}
	}
	if key != "" {
		return key, rest
	}

	end := strings.IndexAny(name, ".[")
	if end <= 0 {
		return name, ""
	}
	return name[:end], name[end:]
}

// childOf returns the value of a key of an object or of an index of a list, or nil.
func childOf(content any, key string) any {
	switch content := content.(type) {
	case map[string]any:
		return content[key]
	case []any:
		if index, err := strconv.Atoi(key); err == nil && index >= 0 && index < len(content) {
			return content[index]
		}
	}
	return nil
}
