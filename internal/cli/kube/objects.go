package kube

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// PrintObjects prints objects of the cluster as JSON, YAML or names. Like kubectl, it prints a single
// object as such, unless asList is set, and any other number of objects as a List. It removes the
// managed fields of the objects.
func PrintObjects(w io.Writer, format string, objects []client.Object, asList bool) error {
	for _, object := range objects {
		object.SetManagedFields(nil)
	}

	if format == terminal.FormatName {
		for _, object := range objects {
			fmt.Fprintln(w, ResourceName(object))
		}
		return nil
	}

	if len(objects) == 1 && !asList {
		return terminal.PrintValue(w, format, objects[0])
	}

	items := make([]any, 0, len(objects))
	for _, object := range objects {
		items = append(items, object)
	}

	return terminal.PrintValue(w, format, map[string]any{
		"apiVersion": "v1", "kind": "List", "metadata": map[string]any{"resourceVersion": ""}, "items": items,
	})
}

// PrintDocuments prints objects that are not in a cluster yet as a stream of documents for kubectl
// apply.
func PrintDocuments(w io.Writer, format string, objects []client.Object) error {
	for _, object := range objects {
		object, err := withoutEmptyFields(object)
		if err != nil {
			return err
		}
		if format == terminal.FormatYAML && len(objects) > 1 {
			fmt.Fprintln(w, "---")
		}
		if err := PrintObjects(w, format, []client.Object{object}, false); err != nil {
			return err
		}
	}

	return nil
}

// withoutEmptyFields returns the object without its status and without an empty spec, which Go types
// write even if they are not set.
func withoutEmptyFields(object client.Object) (client.Object, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", ResourceName(object), err)
	}

	delete(content, "status")
	if spec, ok := content["spec"].(map[string]any); ok && len(spec) == 0 {
		delete(content, "spec")
	}

	return &unstructured.Unstructured{Object: content}, nil
}

// ResourceName returns the name of an object in the format of kubectl, such as
// clustercatalog.olm.operatorframework.io/name.
func ResourceName(object client.Object) string {
	gvk := object.GetObjectKind().GroupVersionKind()
	name := strings.ToLower(gvk.Kind)
	if gvk.Group != "" {
		name += "." + gvk.Group
	}
	return name + "/" + object.GetName()
}

// SetGroupVersionKind sets the kind of an object, which typed clients leave empty, and returns the
// object.
func SetGroupVersionKind[T client.Object](object T, gv schema.GroupVersion, kind string) T {
	object.GetObjectKind().SetGroupVersionKind(gv.WithKind(kind))
	return object
}

// FormatAge formats the time since t like kubectl. It returns an empty string if t is not set.
func (s *Session) FormatAge(t *metav1.Time) string {
	if t.IsZero() {
		return ""
	}
	return duration.HumanDuration(s.Now().Sub(t.Time).Truncate(time.Second))
}

// ConditionStatus returns the status of a condition, or "" when it is not set.
func ConditionStatus(conditions []metav1.Condition, conditionType string) string {
	if c := meta.FindStatusCondition(conditions, conditionType); c != nil {
		return string(c.Status)
	}
	return ""
}

// PrintDeletedObject prints that an object was deleted, in the format of kubectl.
func PrintDeletedObject(cmd *cobra.Command, out *terminal.Output, resource, name string) {
	if out.Format == terminal.FormatName {
		fmt.Fprintln(cmd.OutOrStdout(), resource+"/"+name)
		return
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s %q deleted\n", resource, name)
}
