package operands

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/action/report"
)

// OperandFault is what the API server finds wrong with an object.
type OperandFault struct {
	// Path is the way to the field: names, and indexes of lists as decimal numbers. It is empty for the whole object.
	Path    []string `json:"path"`
	Message string   `json:"message"`
}

// OperandOutcome is the result of a write, or of asking whether it would work.
type OperandOutcome struct {
	// Object is the object as the API server keeps it, with its defaults. It is missing if there are faults or a conflict.
	Object map[string]any `json:"object,omitempty"`
	// Faults are the reasons why the API server refuses the object.
	Faults []OperandFault `json:"faults"`
	// Current is the object on the cluster if another user has changed it since it was read.
	Current map[string]any `json:"current,omitempty"`
}

// Write creates a custom resource, or updates one that has a resource version.
type Write struct {
	Client   client.Client
	Resource Resource
	Object   map[string]any
	// DryRun asks the API server whether the write would work, with all admission checks.
	DryRun bool
}

// Run writes the object. Faults and conflicts are outcomes; an error means that the request failed otherwise.
func (a *Write) Run(ctx context.Context) (*OperandOutcome, error) {
	mapping, err := findMapping(a.Client.RESTMapper(), a.Resource)
	if err != nil {
		return nil, err
	}

	object := &unstructured.Unstructured{Object: a.Object}
	if faults := checkIdentity(object, mapping.GroupVersionKind.GroupVersion().String(), mapping.GroupVersionKind.Kind); len(faults) > 0 {
		return &OperandOutcome{Faults: faults}, nil
	}

	isUpdate := object.GetResourceVersion() != ""
	if isUpdate {
		err = a.Client.Update(ctx, object, a.updateOptions()...)
	} else {
		err = a.Client.Create(ctx, object, a.createOptions()...)
	}

	if isUpdate && apierrors.IsConflict(err) {
		show := &Show{Client: a.Client, Resource: a.Resource, Namespace: object.GetNamespace(), Name: object.GetName()}
		current, err := show.Run(ctx)
		if err != nil {
			return nil, err
		}
		return &OperandOutcome{Faults: []OperandFault{}, Current: current.Object}, nil
	}
	if faults := findFaults(err); len(faults) > 0 {
		return &OperandOutcome{Faults: faults}, nil
	}
	if err != nil {
		return nil, action.NewServerError(a.Resource.Plural+" "+object.GetName(), err)
	}
	return &OperandOutcome{Object: newDetails(object).Object, Faults: []OperandFault{}}, nil
}

// createOptions makes the API server refuse fields that the schema does not have.
func (a *Write) createOptions() []client.CreateOption {
	options := []client.CreateOption{client.FieldValidation(metav1.FieldValidationStrict)}
	if a.DryRun {
		options = append(options, client.DryRunAll)
	}
	return options
}

func (a *Write) updateOptions() []client.UpdateOption {
	options := []client.UpdateOption{client.FieldValidation(metav1.FieldValidationStrict)}
	if a.DryRun {
		options = append(options, client.DryRunAll)
	}
	return options
}

// checkIdentity returns faults for an object of another kind, and for one without a name.
func checkIdentity(object *unstructured.Unstructured, apiVersion, kind string) []OperandFault {
	var faults []OperandFault
	if object.GetAPIVersion() != apiVersion {
		faults = append(faults, OperandFault{Path: []string{"apiVersion"}, Message: "must be " + apiVersion})
	}
	if object.GetKind() != kind {
		faults = append(faults, OperandFault{Path: []string{"kind"}, Message: "must be " + kind})
	}
	if object.GetName() == "" && object.GetGenerateName() == "" {
		faults = append(faults, OperandFault{Path: []string{"metadata", "name"}, Message: "is required"})
	}
	return faults
}

// unknownField matches the message for a field that the schema does not have.
var unknownField = regexp.MustCompile(`unknown field "([^"]+)"`)

// findFaults returns the fields that the API server refuses. It returns nil for errors that are not about the object.
func findFaults(err error) []OperandFault {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return nil
	}

	var faults []OperandFault
	if details := status.Status().Details; details != nil && apierrors.IsInvalid(err) {
		for _, cause := range details.Causes {
			faults = append(faults, OperandFault{Path: parseFieldPath(cause.Field), Message: cause.Message})
		}
	}
	if apierrors.IsBadRequest(err) {
		for _, match := range unknownField.FindAllStringSubmatch(err.Error(), -1) {
			faults = append(faults, OperandFault{Path: parseFieldPath(match[1]), Message: "the schema has no such field"})
		}
	}
	if len(faults) == 0 && (apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)) {
		faults = []OperandFault{{Path: []string{}, Message: err.Error()}}
	}
	return faults
}

// parseFieldPath reads a path as the API server writes it, such as spec.pools[0].labels[a.b/c].
func parseFieldPath(text string) []string {
	path := []string{}
	for text != "" && text != "<nil>" {
		switch text[0] {
		case '.':
			text = text[1:]
		case '[':
			key, rest, found := strings.Cut(text[1:], "]")
			if unquoted, err := strconv.Unquote(key); err == nil {
				key = unquoted
			}
			path = append(path, key)
			text = rest
			if !found {
				return path
			}
		default:
			end := strings.IndexAny(text, ".[")
			if end < 0 {
				return append(path, text)
			}
			path = append(path, text[:end])
			text = text[end:]
		}
	}
	return path
}

// Delete deletes a custom resource.
type Delete struct {
	Client          client.Client
	Resource        Resource
	Namespace, Name string
	// UID makes sure that another object with the same name is not deleted. It is required.
	UID string
}

// Run deletes the object and, in the background, what it owns. Finalizers of the operator may keep the object for a while.
func (a *Delete) Run(ctx context.Context) error {
	mapping, err := findMapping(a.Client.RESTMapper(), a.Resource)
	if err != nil {
		return err
	}
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: a.Name}}
	object.SetGroupVersionKind(mapping.GroupVersionKind)
	err = a.Client.Delete(ctx, object, client.Preconditions{UID: new(types.UID(a.UID))}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if apierrors.IsConflict(err) {
		return &report.Error{Object: a.Resource.Plural + " " + a.Name, Err: err, Advice: "the object was replaced by another one: load the page again"}
	}
	return action.NewServerError(a.Resource.Plural+" "+a.Name, err)
}
