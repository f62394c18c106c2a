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

// Probes are the statements that a revision makes about some of its objects, beside
// those built in for well-known kinds.
type Probes struct {
	probes []progressionProbe
	of     []olmv1.ProgressionProbe
}

type progressionProbe struct {
	matches    func(u *unstructured.Unstructured) bool
	assertions []olmv1.ProbeAssertion
}

// CompileProbes makes the probes ready for use. It fails on a label selector that is
// not valid and on an assertion of an unknown type.
func CompileProbes(specs []olmv1.ProgressionProbe) (*Probes, error) {
	result := &Probes{of: specs}
	for i, spec := range specs {
		matches, err := compileSelector(spec.Selector)
		if err != nil {
			return nil, fmt.Errorf("progressionProbes[%d].selector: %w", i, err)
		}
		for j, assertion := range spec.Assertions {
			if !isComplete(assertion) {
				return nil, fmt.Errorf("progressionProbes[%d].assertions[%d]: the type %q is unknown or its field is not set", i, j, assertion.Type)
			}
		}
		result.probes = append(result.probes, progressionProbe{matches: matches, assertions: spec.Assertions})
	}

	return result, nil
}

// specs are what the probes were made of.
func (p *Probes) specs() []olmv1.ProgressionProbe {
	if p == nil {
		return nil
	}
	return p.of
}

func compileSelector(spec olmv1.ObjectSelector) (func(*unstructured.Unstructured) bool, error) {
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

func isComplete(assertion olmv1.ProbeAssertion) bool {
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

// Probe reports whether a live object is ready: by the built-in probe of its kind, then
// every statement about it, then whether its webhooks are trusted. Of several that fail
// the first is told. Nil makes no statements.
func (p *Probes) Probe(live *unstructured.Unstructured) Probe {
	if result := builtInProbe(live); !result.Ready {
		return result
	}
	if result := p.assert(live); !result.Ready {
		return result
	}
	return probeTrust(live)
}

func (p *Probes) assert(u *unstructured.Unstructured) Probe {
	if p == nil {
		return ready()
	}

	for _, custom := range p.probes {
		if !custom.matches(u) {
			continue
		}
		for _, assertion := range custom.assertions {
			if result := assert(u, assertion); !result.Ready {
				return result
			}
		}
	}

	return ready()
}

func assert(u *unstructured.Unstructured, assertion olmv1.ProbeAssertion) Probe {
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
	a, ok := lookUp(u, pathA)
	if !ok {
		return notReady("its field %s is not set", pathA)
	}

	b, ok := lookUp(u, pathB)
	if !ok {
		return notReady("its field %s is not set", pathB)
	}
	if !equal(a, b) {
		return notReady("its fields %s and %s differ: %s and %s", pathA, pathB, show(a), show(b))
	}

	return ready()
}

func probeFieldValue(u *unstructured.Unstructured, path, wanted string) Probe {
	value, ok := lookUp(u, path)
	if !ok {
		result := notReady("its field %s is not set", path)
		result.Failure = fmt.Sprintf("%s: missing key: %q", describe(u), path)
		return result
	}

	if written, scalar := write(value); !scalar || written != wanted {
		result := notReady("its field %s is %s, not %q", path, show(value), wanted)
		result.Failure = fmt.Sprintf("%s: value at key %q != %q; expected: %q got: %s", describe(u), path, wanted, wanted, show(value))
		return result
	}
	return ready()
}

// describe returns an object as scripts look for it: Object <kind>.<version>
// <namespace>/<name>.
func describe(u *unstructured.Unstructured) string {
	return fmt.Sprintf("Object %s.%s %s/%s", u.GetKind(), u.GetAPIVersion(), u.GetNamespace(), u.GetName())
}

// lookUp finds a field by its path, names separated by dots, with or without a dot
// in front.
func lookUp(u *unstructured.Unstructured, path string) (any, bool) {
	value, ok, err := unstructured.NestedFieldNoCopy(u.Object, strings.Split(strings.TrimPrefix(path, "."), ".")...)
	return value, ok && err == nil
}

// equal compares two values; numbers by value, as JSON knows only one kind of them.
func equal(a, b any) bool {
	if x, ok := float(a); ok {
		if y, ok := float(b); ok {
			return x == y
		}
	}
	return reflect.DeepEqual(a, b)
}

func float(value any) (float64, bool) {
	switch n := value.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, true
	default:
		return 0, false
	}
}

// write returns a scalar as a string; false for a list or an object.
func write(value any) (string, bool) {
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

// show returns a value for a message. Lists and objects are not shown: they are long,
// and may hold what is nobody's business.
func show(value any) string {
	if written, ok := write(value); ok {
		return strconv.Quote(written)
	}
	return "not a single value"
}
