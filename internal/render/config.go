package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	openapierrors "k8s.io/kube-openapi/pkg/validation/errors"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	kjson "sigs.k8s.io/json"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/bundle"
)

// Fields of a bundle's configuration, and its field in a ClusterExtension.
const (
	configField           = "spec.config.inline"
	fieldWatchNamespace   = "watchNamespace"
	fieldDeploymentConfig = "deploymentConfig"
)

// Config is the configuration of a registry+v1 bundle.
type Config struct {
	// WatchNamespace is the one namespace to watch. Empty means all.
	WatchNamespace string `json:"watchNamespace,omitempty"`
	// DeploymentConfig changes the bundle's Deployments. Nil changes nothing.
	DeploymentConfig *v1alpha1.SubscriptionConfig `json:"deploymentConfig,omitempty"`
}

// ConfigError is the error for an invalid configuration. A user must change it, or choose another
// bundle.
type ConfigError struct {
	// Problems are all problems, sorted. It is never empty.
	Problems []string
}

// Error implements error.
func (e *ConfigError) Error() string {
	return "invalid configuration: " + strings.Join(e.Problems, "; ")
}

// ConfigSchema returns the JSON schema of the configuration of a bundle. It depends on the
// supported install modes: watchNamespace is required unless the bundle can watch all namespaces,
// and unknown if it can only watch all.
func ConfigSchema(b *bundle.Bundle) *spec.Schema {
	modes := b.InstallModes()
	own := slices.Contains(modes, v1alpha1.InstallModeTypeOwnNamespace)
	single := slices.Contains(modes, v1alpha1.InstallModeTypeSingleNamespace)
	all := slices.Contains(modes, v1alpha1.InstallModeTypeAllNamespaces)

	deployment := schemaOfType(reflect.TypeFor[v1alpha1.SubscriptionConfig]())
	deployment.Description = "What to set on every Deployment of the bundle."
	properties := map[string]spec.Schema{fieldDeploymentConfig: deployment}
	var required []string
	if own || single {
		watch := spec.StringProperty()
		watch.Description = watchDescription(own, single, all)
		watch.WithMaxLength(63)
		if watch.Pattern = namespacePattern; all {
			watch.Pattern = "^$|" + namespacePattern
		}

		properties[fieldWatchNamespace] = *watch
		if !all {
			required = []string{fieldWatchNamespace}
		}
	}

	schema := newObjectSchema(properties, required)
	return &schema
}

const namespacePattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"

func watchDescription(own, single, all bool) string {
	text := "The namespace that the extension watches."
	switch {
	case own && !single:
		text += " It must be the install namespace."
	case single && !own:
		text += " It must not be the install namespace."
	}

	if all {
		text += " When unset it watches all namespaces."
	}
	return text
}

// ParseConfig parses the configuration of a bundle, the JSON of spec.config.inline, and validates
// it against ConfigSchema. No content is an empty configuration, and null is an unset field. A
// missing watchNamespace is not reported here, because it can come from elsewhere:
// TargetNamespaces reports it. The error is a *ConfigError with every problem.
func ParseConfig(b *bundle.Bundle, raw []byte) (Config, error) {
	config, faults := parseConfig(b, raw)
	if len(faults) == 0 {
		return config, nil
	}

	var problems []string
	for _, fault := range faults {
		problems = append(problems, fault.Message)
	}
	return Config{}, &ConfigError{Problems: slices.Compact(problems)}
}

// parseConfig returns the configuration, or its faults sorted by message.
func parseConfig(b *bundle.Bundle, raw []byte) (Config, []ConfigFault) {
	if len(raw) == 0 {
		return Config{}, nil
	}

	var content any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &content); err != nil {
		return Config{}, []ConfigFault{{Message: fmt.Sprintf("%s is not JSON: %v", configField, err)}}
	}
	if content = removeNullFields(content); content == nil {
		return Config{}, nil
	}

	schema := ConfigSchema(b)
	schema.Required = nil
	if faults := validateContent(schema, content); len(faults) > 0 {
		return Config{}, faults
	}

	checked, err := json.Marshal(content)
	if err != nil {
		return Config{}, []ConfigFault{{Message: err.Error()}}
	}

	var config Config
	if err := kjson.UnmarshalCaseSensitivePreserveInts(checked, &config); err != nil {
		return Config{}, []ConfigFault{{Message: err.Error()}}
	}

	return config, nil
}

// validateContent returns the violations of a schema, sorted by message.
func validateContent(schema *spec.Schema, content any) []ConfigFault {
	result := validate.NewSchemaValidator(schema, nil, configField, strfmt.Default).Validate(content)
	var faults []ConfigFault
	for _, err := range result.Errors {
		// The library mentions the body of a request. There is none here.
		text := strings.Replace(err.Error(), " in body ", " ", 1)
		path := invalidFieldName(err)
		if known := knownProblemText(err); known != "" {
			text = known + ": " + text
		}
		faults = append(faults, ConfigFault{Path: pathOfField(content, strings.TrimPrefix(path, configField)), Message: text})
	}

	slices.SortFunc(faults, func(a, b ConfigFault) int { return strings.Compare(a.Message, b.Message) })
	return faults
}

// Problems that scripts match in messages. Each is formatted with the path of a field.
const (
	problemMissing = "required field %q is missing"
	problemUnknown = "unknown field %q"
	problemPattern = "field %q must match pattern"
)

// knownProblemText returns the text of a problem that scripts match, or an empty string.
func knownProblemText(err error) string {
	var invalid *openapierrors.Validation
	if !errors.As(err, &invalid) {
		return ""
	}

	path := strings.TrimPrefix(invalidFieldName(err), configField+".")
	switch invalid.Code() {
	case openapierrors.RequiredFailCode:
		return fmt.Sprintf(problemMissing, path)
	case openapierrors.UnallowedPropertyCode:
		return fmt.Sprintf(problemUnknown, path)
	case openapierrors.PatternFailCode:
		return fmt.Sprintf(problemPattern, path)
	default:
		return ""
	}
}

// invalidFieldName returns the name of the field that a violation is about, as the validator
// writes it, or an empty string.
func invalidFieldName(err error) string {
	var invalid *openapierrors.Validation
	if !errors.As(err, &invalid) {
		return ""
	}
	if key, ok := invalid.Value.(string); ok && invalid.Code() == openapierrors.UnallowedPropertyCode {
		return invalid.Name + "." + key
	}
	return invalid.Name
}

// removeNullFields removes fields that are null from objects, as an API server does.
func removeNullFields(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, field := range value {
			if field == nil {
				delete(value, key)
				continue
			}
			value[key] = removeNullFields(field)
		}
	case []any:
		for i := range value {
			value[i] = removeNullFields(value[i])
		}
	}

	return value
}
