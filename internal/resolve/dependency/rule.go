package dependency

import (
	"encoding/json"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"

	"github.com/mainstay-dev/mainstay/internal/bundle/constraint"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// rule is a CEL expression about the properties of one bundle.
type rule struct{ program cel.Program }

// compileRule compiles a rule.
func compileRule(text string) (*rule, error) {
	program, err := constraint.Compile(text)
	if err != nil {
		return nil, err
	}
	return &rule{program: program}, nil
}

// matches evaluates the rule. It returns false for a rule that fails, because a property has another form than
// it expects or because it costs too much.
func (r *rule) matches(properties []any) bool {
	result, _, err := r.program.Eval(map[string]any{"properties": properties})
	return err == nil && result == types.True
}

// newRuleView returns properties in the form that rules read.
func newRuleView(properties []fbc.Property) []any {
	view := make([]any, 0, len(properties))
	for _, p := range properties {
		var value any
		if json.Unmarshal(p.Value, &value) == nil {
			view = append(view, map[string]any{"type": p.Type, "value": value})
		}
	}

	return view
}
