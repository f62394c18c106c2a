package apply

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// Probes are the progression probes of a revision, in addition to the built-in ones.
type Probes struct {
	probes  []progressionProbe
	sources []olmv1.ProgressionProbe
}

type progressionProbe struct {
	matches    func(u *unstructured.Unstructured) bool
	assertions []olmv1.ProbeAssertion
}

// CompileProbes compiles progression probes. It returns an error for an invalid label selector and
// for an assertion of an unknown type.
func CompileProbes(specs []olmv1.ProgressionProbe) (*Probes, error) {
	result := &Probes{sources: specs}
	for i, spec := range specs {
		matches, err := compileObjectSelector(spec.Selector)
		if err != nil {
			return nil, fmt.Errorf("progressionProbes[%d].selector: %w", i, err)
		}
		for j, assertion := range spec.Assertions {
			if !isCompleteAssertion(assertion) {
				return nil, fmt.Errorf("progressionProbes[%d].assertions[%d]: the type %q is unknown or its field is not set", i, j, assertion.Type)
			}
		}
		result.probes = append(result.probes, progressionProbe{matches: matches, assertions: spec.Assertions})
	}

	return result, nil
}

// compiledFrom returns the specs that the probes were compiled from.
func (p *Probes) compiledFrom() []olmv1.ProgressionProbe {
	if p == nil {
		return nil
	}
	return p.sources
}

func compileObjectSelector(spec olmv1.ObjectSelector) (func(*unstructured.Unstructured) bool, error) {
	switch {
	case spec.Type == olmv1.ProbeSelectorTypeGroupKind && spec.GroupKind != nil:
		kind := schema.GroupKind{Group: spec.GroupKind.Group, Kind: spec.GroupKind.Kind}
		return func(u *unstructured.Unstructured) bool { return u.GroupVersionKind().GroupKind() == kind }, nil
	case spec.Type == olmv1.ProbeSelectorTypeLabel && spec.Label != nil:
		selector, err := metav1.LabelSelectorAsSelector(spec.Label)
		if err != nil {
			return nil, err
		}
		return func(u *unstructured.Unstructured) bool { return selector.Matches(labels.Set(u.GetLabels())) }, nil
	default:
		return nil, fmt.Errorf("the type %q is unknown or its field is not set", spec.Type)
	}
}

func isCompleteAssertion(assertion olmv1.ProbeAssertion) bool {
	switch assertion.Type {
	case olmv1.ProbeAssertionTypeConditionEqual:
		return assertion.ConditionEqual != nil
	case olmv1.ProbeAssertionTypeFieldsEqual:
		return assertion.FieldsEqual != nil
	case olmv1.ProbeAssertionTypeFieldValue:
		return assertion.FieldValue != nil
	default:
		return false
	}
}

// Probe probes a live object: with the built-in probe of its kind, then every assertion about it,
// then whether its webhooks have a caBundle. It returns the first failure. Nil has no assertions.
func (p *Probes) Probe(live *unstructured.Unstructured) Probe {
	if result := builtInProbe(live); !result.Ready {
		return result
	}
	if result := p.checkAssertions(live); !result.Ready {
		return result
	}
	return probeCABundle(live)
}

func (p *Probes) checkAssertions(u *unstructured.Unstructured) Probe {
	if p == nil {
		return readyProbe()
	}

	for _, custom := range p.probes {
		if !custom.matches(u) {
			continue
		}
		for _, assertion := range custom.assertions {
			if result := checkAssertion(u, assertion); !result.Ready {
				return result
			}
		}
	}

	return readyProbe()
}

func checkAssertion(u *unstructured.Unstructured, assertion olmv1.ProbeAssertion) Probe {
	switch assertion.Type {
	case olmv1.ProbeAssertionTypeConditionEqual:
		return probeCondition(u, assertion.ConditionEqual.Type, assertion.ConditionEqual.Status)
	case olmv1.ProbeAssertionTypeFieldsEqual:
		return probeFieldsEqual(u, assertion.FieldsEqual.FieldA, assertion.FieldsEqual.FieldB)
	default:
		return probeFieldValue(u, assertion.FieldValue.FieldPath, assertion.FieldValue.Value)
	}
}

func probeFieldsEqual(u *unstructured.Unstructured, pathA, pathB string) Probe {
	a, ok := lookUpField(u, pathA)
	if !ok {
		return notReadyProbe("its field %s is not set", pathA)
	}

	b, ok := lookUpField(u, pathB)
	if !ok {
		return notReadyProbe("its field %s is not set", pathB)
	}
	if !equalJSONValues(a, b) {
		return notReadyProbe("its fields %s and %s differ: %s and %s", pathA, pathB, formatForMessage(a), formatForMessage(b))
	}

	return readyProbe()
}

func probeFieldValue(u *unstructured.Unstructured, path, wanted string) Probe {
	value, ok := lookUpField(u, path)
	if !ok {
		result := notReadyProbe("its field %s is not set", path)
		result.Failure = fmt.Sprintf("%s: missing key: %q", describeObject(u), path)
		return result
	}

	if written, scalar := formatScalar(value); !scalar || written != wanted {
		result := notReadyProbe("its field %s is %s, not %q", path, formatForMessage(value), wanted)
		result.Failure = fmt.Sprintf("%s: value at key %q != %q; expected: %q got: %s", describeObject(u), path, wanted, wanted, formatForMessage(value))
		return result
	}
	return readyProbe()
}

// describeObject returns an object in a form that scripts match: Object <kind>.<version>
// <namespace>/<name>.
func describeObject(u *unstructured.Unstructured) string {
	return fmt.Sprintf("Object %s.%s %s/%s", u.GetKind(), u.GetAPIVersion(), u.GetNamespace(), u.GetName())
}

// lookUpField returns a field by its path: names separated by dots, with an optional leading dot.
func lookUpField(u *unstructured.Unstructured, path string) (any, bool) {
	value, ok, err := unstructured.NestedFieldNoCopy(u.Object, strings.Split(strings.TrimPrefix(path, "."), ".")...)
	return value, ok && err == nil
}

// equalJSONValues reports whether two values are equal. Numbers are compared by value, because JSON
// has only one type of them.
func equalJSONValues(a, b any) bool {
	if x, ok := toFloat64(a); ok {
		if y, ok := toFloat64(b); ok {
			return x == y
		}
	}
	return reflect.DeepEqual(a, b)
}

func toFloat64(value any) (float64, bool) {
	switch n := value.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, true
	default:
		return 0, false
	}
}

// formatScalar returns a scalar as a string. It returns false for a list or an object.
func formatScalar(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case int64:
		return strconv.FormatInt(v, 10), true
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), true
	default:
		return "", false
	}
}

// formatForMessage returns a value for a message. Lists and objects are not shown: they are long,
// and may hold confidential data.
func formatForMessage(value any) string {
	if written, ok := formatScalar(value); ok {
		return strconv.Quote(written)
	}
	return "not a single value"
}
