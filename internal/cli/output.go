package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Output formats.
const (
	formatJSON = "json"
	formatYAML = "yaml"
	formatWide = "wide"
	formatName = "name"
)

// output is the flag -o: one of the formats that a command knows, or "" for people.
type output struct {
	format  string
	allowed []string
}

// bind adds the flag to a command as --output and -o.
func (o *output) bind(cmd *cobra.Command, allowed ...string) { o.bindAs(cmd, "output", allowed...) }

// bindAs adds the flag under another long name, for a command whose --output is a file.
func (o *output) bindAs(cmd *cobra.Command, name string, allowed ...string) {
	o.allowed = allowed
	cmd.Flags().VarP(o, name, "o", "output format: "+strings.Join(allowed, "|"))
	// The flag was just added under this name.
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp))
}

// String gives the format.
func (o *output) String() string { return o.format }

// Type names the value in the help.
func (o *output) Type() string { return "format" }

// Set takes a format if the command knows it.
func (o *output) Set(value string) error {
	if !slices.Contains(o.allowed, value) {
		return fmt.Errorf("must be one of %s", strings.Join(o.allowed, "|"))
	}
	o.format = value
	return nil
}

// printValue writes a value as JSON or YAML.
func printValue(w io.Writer, format string, value any) error {
	if format == formatYAML {
		data, err := yaml.Marshal(value)
		if err != nil {
			return fmt.Errorf("writing YAML: %w", err)
		}
		_, err = w.Write(data)
		return err
	}
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "    ")
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	return nil
}

// printObjects writes objects of the cluster as JSON, YAML or names: one object as
// itself, several, or none, as a List, like kubectl.
func printObjects(w io.Writer, format string, objects []client.Object, asList bool) error {
	for _, object := range objects {
		object.SetManagedFields(nil)
	}
	if format == formatName {
		for _, object := range objects {
			fmt.Fprintln(w, resourceName(object))
		}
		return nil
	}
	if len(objects) == 1 && !asList {
		return printValue(w, format, objects[0])
	}
	items := make([]any, 0, len(objects))
	for _, object := range objects {
		items = append(items, object)
	}
	return printValue(w, format, map[string]any{
		"apiVersion": "v1", "kind": "List", "metadata": map[string]any{"resourceVersion": ""}, "items": items,
	})
}

// printDocuments writes objects that are not in a cluster yet as a stream that kubectl
// apply reads.
func printDocuments(w io.Writer, format string, objects []client.Object) error {
	for _, object := range objects {
		object, err := withoutEmpty(object)
		if err != nil {
			return err
		}
		if format == formatYAML && len(objects) > 1 {
			fmt.Fprintln(w, "---")
		}
		if err := printObjects(w, format, []client.Object{object}, false); err != nil {
			return err
		}
	}
	return nil
}

// withoutEmpty leaves out what Go's types write though nobody has set it.
func withoutEmpty(object client.Object) (client.Object, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", resourceName(object), err)
	}
	for _, field := range []string{"spec", "status"} {
		if value, ok := content[field].(map[string]any); ok && len(value) == 0 {
			delete(content, field)
		}
	}
	return &unstructured.Unstructured{Object: content}, nil
}

// resourceName names an object as kubectl does: clustercatalog.olm.operatorframework.io/name.
func resourceName(object client.Object) string {
	gvk := object.GetObjectKind().GroupVersionKind()
	name := strings.ToLower(gvk.Kind)
	if gvk.Group != "" {
		name += "." + gvk.Group
	}
	return name + "/" + object.GetName()
}

// typed sets the kind on an object that a typed client has read, which leaves it out.
func typed[T client.Object](object T, gv schema.GroupVersion, kind string) T {
	object.GetObjectKind().SetGroupVersionKind(gv.WithKind(kind))
	return object
}

// printTable writes rows under headers, as kubectl lays them out.
func printTable(w io.Writer, headers []string, rows [][]string) error {
	var b bytes.Buffer
	table := tabwriter.NewWriter(&b, 6, 4, 3, ' ', 0)
	for _, row := range append([][]string{headers}, rows...) {
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(b.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// age writes how long ago a time is, as kubectl does. An unset time is empty.
func (a *app) age(t *metav1.Time) string {
	if t.IsZero() {
		return ""
	}
	return duration.HumanDuration(a.now().Sub(t.Time).Truncate(time.Second))
}

// conditionStatus gives the status of a condition, or "" when it is not set.
func conditionStatus(conditions []metav1.Condition, conditionType string) string {
	if c := meta.FindStatusCondition(conditions, conditionType); c != nil {
		return string(c.Status)
	}
	return ""
}
