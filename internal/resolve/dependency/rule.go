package dependency

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/blang/semver/v4"
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/mainstay-dev/mainstay/internal/bundle/constraint"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// maxCost limits the evaluation of one rule for one bundle, in the cost units of cel-go.
// To read each of 100 properties costs some 500.
const maxCost = 100_000

// rule is a CEL expression about the properties of one bundle.
type rule struct{ program cel.Program }

var celEnvironment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable("properties", cel.ListType(cel.MapType(cel.StringType, cel.AnyType))),
		cel.Function("semver_compare", cel.Overload("semver_compare_any_any",
			[]*cel.Type{cel.AnyType, cel.AnyType}, cel.IntType, cel.BinaryBinding(compareVersions))),
	)
})

func compareVersions(a, b ref.Val) ref.Val {
	var versions [2]semver.Version
	for i, value := range []ref.Val{a, b} {
		text, ok := value.Value().(string)
		if !ok {
			return types.NewErr("semver_compare compares texts, not a %s", value.Type().TypeName())
		}
		var err error
		if versions[i], err = semver.Parse(text); err != nil {
			return types.NewErr("semver_compare: %q: %v", truncateQuoted(text), err)
		}
	}

	return types.Int(versions[0].Compare(versions[1]))
}

// compileRule compiles a rule. constraint.CheckRule refuses invalid rules first, because
// its messages name the position. cel-go then also checks the types of operands.
func compileRule(text string) (*rule, error) {
	if err := constraint.CheckRule(text); err != nil {
		return nil, err
	}

	env, err := celEnvironment()
	if err != nil {
		return nil, err
	}

	ast, issues := env.Compile(text)
	if err := issues.Err(); err != nil {
		return nil, err
	}
	if !ast.OutputType().IsExactType(cel.BoolType) {
		return nil, fmt.Errorf("cel expressions must have type Bool")
	}

	program, err := env.Program(ast, cel.CostLimit(maxCost), cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, err
	}

	return &rule{program: program}, nil
}

// matches evaluates the rule for the properties of a bundle. A rule that fails, because of
// an unexpected property or its cost, does not match.
func (r *rule) matches(properties []any) bool {
	result, _, err := r.program.Eval(map[string]any{"properties": properties})
	return err == nil && result == types.True
}

// newRuleView returns the properties in the form that rules evaluate.
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
