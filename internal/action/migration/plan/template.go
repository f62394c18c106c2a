package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mainstay-dev/mainstay/internal/apply"
)

// listKeys are the fields that identify the items of lists in a pod template. Applying an object
// merges the items of these lists. It replaces all other lists.
var listKeys = map[string][]string{
	"containers": {"name"}, "initContainers": {"name"}, "env": {"name"}, "volumes": {"name"}, "imagePullSecrets": {"name"},
	"volumeMounts": {"mountPath"}, "volumeDevices": {"devicePath"}, "ports": {"containerPort", "protocol"},
	"hostAliases": {"ip"}, "topologySpreadConstraints": {"topologyKey", "whenUnsatisfiable"}, "claims": {"name"},
}

// serverDefaults are the values of fields that an API server sets in a CSV.
var serverDefaults = map[string]any{"protocol": "TCP", "containerPort": float64(443), "optional": false, "service": ""}

// TemplateChanges returns the paths of the fields of a Deployment's pod template that change when
// the rendered Deployment is applied to the live one. Fields that only the live one has are kept,
// because another manager owns them. No path means that no pod restarts.
func TemplateChanges(rendered, live *unstructured.Unstructured) ([]string, error) {
	wanted, err := decodeDeployment(rendered)
	if err != nil {
		return nil, err
	}
	current, err := decodeDeployment(live)
	if err != nil {
		return nil, err
	}

	var c comparison
	for _, part := range []struct {
		path         string
		wanted, live any
	}{
		{"metadata.labels", wanted.Spec.Template.Labels, current.Spec.Template.Labels},
		{"metadata.annotations", wanted.Spec.Template.Annotations, current.Spec.Template.Annotations},
		{"spec", wanted.Spec.Template.Spec, current.Spec.Template.Spec},
	} {
		if err := c.compareValues(part.path, part.wanted, part.live); err != nil {
			return nil, err
		}
	}

	return c.sortedChanges(), nil
}

// SelectorChanges reports whether the selectors differ. They cannot be changed.
func SelectorChanges(rendered, live *unstructured.Unstructured) (bool, error) {
	wanted, err := decodeDeployment(rendered)
	if err != nil {
		return false, err
	}
	current, err := decodeDeployment(live)
	if err != nil {
		return false, err
	}
	return !equality.Semantic.DeepEqual(wanted.Spec.Selector, current.Spec.Selector), nil
}

// replicaChange returns the wanted and the live number of replicas. It returns false if applying
// the rendered Deployment does not change the number, also because an autoscaler has set it.
func replicaChange(rendered, live *unstructured.Unstructured) (wanted, current int64, differs bool) {
	wanted, ok, _ := unstructured.NestedInt64(rendered.Object, "spec", "replicas")
	current, known, _ := unstructured.NestedInt64(live.Object, "spec", "replicas")
	return wanted, current, ok && known && wanted != current && !apply.IsAutoscaled(live)
}

// decodeDeployment decodes a Deployment, which brings quantities into their canonical form.
func decodeDeployment(object *unstructured.Unstructured) (*appsv1.Deployment, error) {
	var d appsv1.Deployment
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &d); err != nil {
		return nil, fmt.Errorf("decoding Deployment %s: %w", object.GetName(), err)
	}
	return &d, nil
}

func toPlainValue(v any) (any, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encoding a part of a pod template: %w", err)
	}
	var plain any
	if err := json.Unmarshal(data, &plain); err != nil {
		return nil, fmt.Errorf("encoding a part of a pod template: %w", err)
	}
	return plain, nil
}

// comparison collects the paths of changed fields.
type comparison struct{ changes []string }

// sortedChanges returns each path once.
func (c *comparison) sortedChanges() []string {
	slices.Sort(c.changes)
	return slices.Compact(c.changes)
}

// compareValues compares two values by their JSON.
func (c *comparison) compareValues(path string, wanted, live any) error {
	from, err := toPlainValue(wanted)
	if err != nil {
		return err
	}
	to, err := toPlainValue(live)
	if err != nil {
		return err
	}
	c.compare(path, "", from, to)
	return nil
}

// compare adds the paths below a path at which the live value differs from the wanted one. Empty
// wanted values change nothing.
func (c *comparison) compare(path, field string, wanted, live any) {
	switch wanted := wanted.(type) {
	case nil:
	case map[string]any:
		current, _ := live.(map[string]any)
		if live == nil && len(wanted) > 0 {
			c.changes = append(c.changes, path)
			return
		}
		for key, value := range wanted {
			if given, ok := serverDefaults[key]; ok && current[key] == nil && value == given {
				continue
			}
			c.compare(path+"."+key, key, value, current[key])
		}
	case []any:
		current, _ := live.([]any)
		c.compareLists(path, field, wanted, current)
	default:
		if !equality.Semantic.DeepEqual(wanted, live) {
			c.changes = append(c.changes, path)
		}
	}
}

func (c *comparison) compareLists(path, field string, wanted, live []any) {
	keys := listKeys[field]
	if keys == nil {
		if len(wanted) > 0 && len(wanted) != len(live) {
			c.changes = append(c.changes, path)
			return
		}
		for i := range wanted {
			c.compare(fmt.Sprintf("%s[%d]", path, i), "", wanted[i], live[i])
		}
		return
	}

	last := -1
	for _, item := range wanted {
		id := identifyItem(item, keys)
		at := slices.IndexFunc(live, func(other any) bool { return identifyItem(other, keys) == id })
		if at < 0 {
			c.changes = append(c.changes, fmt.Sprintf("%s[%s]", path, id))
			continue
		}
		if at < last {
			c.changes = append(c.changes, path) // Applying the object also applies its order.
		}
		last = at
		c.compare(fmt.Sprintf("%s[%s]", path, id), "", item, live[at])
	}
}

// identifyItem returns the values of an item's keys.
func identifyItem(item any, keys []string) string {
	fields, _ := item.(map[string]any)
	values := make([]string, len(keys))
	for i, key := range keys {
		value := fields[key]
		if key == "protocol" && value == nil {
			value = "TCP"
		}
		values[i] = fmt.Sprint(value)
	}
	return strings.Join(values, "/")
}
