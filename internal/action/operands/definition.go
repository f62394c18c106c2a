package operands

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/action/report"
)

// OperandDefinition is what is known about a kind.
type OperandDefinition struct {
	Resource
	Kind       string `json:"kind"`
	Namespaced bool   `json:"namespaced"`
	// Schema is the JSON schema of the objects, without apiVersion, kind and metadata. It is empty if the API server has none.
	Schema      map[string]any `json:"schema"`
	DisplayName string         `json:"displayName,omitempty"`
	Description string         `json:"description,omitempty"`
	// SpecDescriptors and StatusDescriptors say how the operator wants fields to be shown.
	SpecDescriptors   []OperandDescriptor `json:"specDescriptors"`
	StatusDescriptors []OperandDescriptor `json:"statusDescriptors"`
	// Examples are sample objects of the operator.
	Examples []map[string]any `json:"examples"`
	// Operator is the ClusterServiceVersion that the descriptors come from.
	Operator string `json:"operator,omitempty"`
}

// Define describes a kind.
type Define struct {
	Client client.Client
	// Config reaches the API server as the user.
	Config   *rest.Config
	Resource Resource
	// Namespace is where descriptors and examples are searched. Empty means all namespaces.
	Namespace string
}

// Run returns the definition. It returns an error with status 404 if the API server does not serve the kind.
func (a *Define) Run(ctx context.Context) (*OperandDefinition, error) {
	mapping, err := findMapping(a.Client.RESTMapper(), a.Resource)
	if err != nil {
		return nil, err
	}

	definition := &OperandDefinition{
		Resource: a.Resource, Kind: mapping.GroupVersionKind.Kind, Namespaced: mapping.Scope.Name() == meta.RESTScopeNameNamespace,
		SpecDescriptors: []OperandDescriptor{}, StatusDescriptors: []OperandDescriptor{}, Examples: []map[string]any{},
	}
	if definition.Schema, err = a.readSchema(mapping.GroupVersionKind); err != nil {
		return nil, action.NewServerError("the schema of "+a.Resource.String(), err)
	}

	described, csv, err := findDescription(ctx, a.Client, a.Resource, a.Namespace)
	if err != nil || described == nil {
		return definition, err
	}
	definition.DisplayName, definition.Description, definition.Operator = described.DisplayName, described.Description, csv.Name
	definition.SpecDescriptors = convertDescriptors(described.SpecDescriptors)
	definition.StatusDescriptors = convertDescriptors(described.StatusDescriptors)
	definition.Examples = readExamples(csv, mapping.GroupVersionKind)
	return definition, nil
}

// findMapping returns how the API server serves a resource.
func findMapping(mapper meta.RESTMapper, resource Resource) (*meta.RESTMapping, error) {
	kind, err := mapper.KindFor(resource.groupVersionResource())
	if err == nil {
		return mapper.RESTMapping(kind.GroupKind(), kind.Version)
	}
	if !meta.IsNoMatchError(err) {
		return nil, action.NewServerError(resource.String(), err)
	}
	status := apierrors.NewNotFound(schema.GroupResource{Group: resource.Group, Resource: resource.Plural}, "")
	return nil, &report.Error{
		Object: resource.String(), Err: &report.Reworded{Text: "the API server does not serve this kind", Cause: status},
		Advice: "wait until the operator is installed, or check the address",
	}
}

// maxExamples limits the examples of a kind.
const maxExamples = 20

// readExamples returns the examples of a CSV for a kind. An annotation that is no list of objects has none.
func readExamples(csv *v1alpha1.ClusterServiceVersion, kind schema.GroupVersionKind) []map[string]any {
	var all []map[string]any
	examples := []map[string]any{}
	if json.Unmarshal([]byte(csv.Annotations[annotationExamples]), &all) != nil {
		return examples
	}
	for _, example := range all {
		if example["kind"] == kind.Kind && example["apiVersion"] == kind.GroupVersion().String() && len(examples) < maxExamples {
			examples = append(examples, example)
		}
	}
	return examples
}

// readSchema reads the schema of a kind from the OpenAPI v3 document of its group and version.
func (a *Define) readSchema(kind schema.GroupVersionKind) (map[string]any, error) {
	reader, err := discovery.NewDiscoveryClientForConfig(a.Config)
	if err != nil {
		return nil, err
	}
	paths, err := reader.OpenAPIV3().Paths()
	if err != nil {
		return nil, err
	}
	path, ok := paths["apis/"+kind.GroupVersion().String()]
	if !ok {
		return map[string]any{}, nil // the API server may publish it a moment later
	}
	content, err := openapi.GroupVersion.Schema(path, "application/json")
	if err != nil {
		return nil, err
	}
	return findSchema(content, kind)
}

// findSchema returns the schema of a kind in an OpenAPI v3 document. It adds the schemas of the document if it refers to them.
func findSchema(content []byte, kind schema.GroupVersionKind) (map[string]any, error) {
	var document struct {
		Components struct {
			Schemas map[string]map[string]any `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(content, &document); err != nil {
		return nil, fmt.Errorf("decoding the OpenAPI document of %s: %w", kind.GroupVersion(), err)
	}

	for _, candidate := range document.Components.Schemas {
		if !describesKind(candidate, kind) {
			continue
		}
		removeCommonFields(candidate)
		text, err := json.Marshal(candidate)
		if err != nil {
			return nil, err
		}
		if strings.Contains(string(text), `"$ref"`) {
			return attachComponents(candidate, document.Components.Schemas)
		}
		return candidate, nil
	}
	return map[string]any{}, nil
}

// attachComponents returns a copy of a schema with the schemas that it refers to, which may include itself.
func attachComponents(own map[string]any, schemas map[string]map[string]any) (map[string]any, error) {
	text, err := json.Marshal(own)
	if err != nil {
		return nil, err
	}
	var copied map[string]any
	if err := json.Unmarshal(text, &copied); err != nil {
		return nil, err
	}
	copied["components"] = map[string]any{"schemas": schemas}
	return copied, nil
}

// removeCommonFields removes the fields that all objects have.
func removeCommonFields(candidate map[string]any) {
	properties, _ := candidate["properties"].(map[string]any)
	for _, name := range []string{"apiVersion", "kind", "metadata"} {
		delete(properties, name)
	}
}

func describesKind(candidate map[string]any, kind schema.GroupVersionKind) bool {
	list, _ := candidate["x-kubernetes-group-version-kind"].([]any)
	for _, entry := range list {
		found, _ := entry.(map[string]any)
		if found["group"] == kind.Group && found["version"] == kind.Version && found["kind"] == kind.Kind {
			return true
		}
	}
	return false
}
