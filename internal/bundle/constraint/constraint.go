// Package constraint compiles the CEL rule of an olm.constraint: a boolean expression over the
// properties of one bundle. internal/bundle/validate checks the rules of a bundle with it, and
// internal/resolve/requirement evaluates them.
package constraint

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"unicode"

	"github.com/blang/semver/v4"
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/mainstay-dev/mainstay/internal/excerpt"
)

// Limits of a rule. A whole constraint has at most 64 KiB. The library rejects an expression
// that is nested deeper than 250 levels.
const (
	maxRuleBytes = 64 << 10
	// maxEvaluationCost limits one evaluation, in the cost units of CEL. A comparison with each
	// of 100 properties costs about 500.
	maxEvaluationCost = 100_000
	// maxMessageBytes limits the message of an error, which can repeat a part of the rule.
	maxMessageBytes = 1 << 10
)

// environment returns the CEL environment of rules, with the variable properties and the
// function semver_compare of OLM.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable("properties", cel.ListType(cel.MapType(cel.StringType, cel.AnyType))),
		cel.Function("semver_compare", cel.Overload("semver_compare_any_any",
			[]*cel.Type{cel.AnyType, cel.AnyType}, cel.IntType, cel.BinaryBinding(compareVersions))),
	)
})

// compareVersions returns -1, 0 or 1 for two semantic versions.
func compareVersions(a, b ref.Val) ref.Val {
	var versions [2]semver.Version
	for i, value := range []ref.Val{a, b} {
		text, ok := value.Value().(string)
		if !ok {
			return types.NewErr("semver_compare compares strings, not a %s", value.Type().TypeName())
		}
		var err error
		if versions[i], err = semver.Parse(text); err != nil {
			return types.NewErr("semver_compare: %v", err)
		}
	}

	return types.Int(versions[0].Compare(versions[1]))
}

// Compile returns the program of a rule. The error names the line and the column of the first
// fault, in characters.
func Compile(rule string) (cel.Program, error) {
	if len(rule) > maxRuleBytes {
		return nil, errors.New("the expression is longer than 64 KiB")
	}

	env, err := environment()
	if err != nil {
		return nil, err
	}

	ast, issues := env.Compile(rule)
	if err := firstFault(issues); err != nil {
		return nil, err
	}
	if !ast.OutputType().IsExactType(cel.BoolType) {
		return nil, errors.New("cel expressions must have type Bool")
	}

	return env.Program(ast, cel.CostLimit(maxEvaluationCost), cel.EvalOptions(cel.OptOptimize))
}

// firstFault returns the first of the issues as an error on one line, or nil.
func firstFault(issues *cel.Issues) error {
	faults := issues.Errors()
	if len(faults) == 0 {
		return nil
	}

	message := excerpt.Start(strings.Map(replaceControlCharacter, faults[0].Message), maxMessageBytes)

	// The limits of the library have no location. Locations start at line 1 and column 0, and
	// the location of the end of an empty rule is column -1.
	location := faults[0].Location
	if location.Line() < 1 {
		return errors.New(message)
	}

	return fmt.Errorf("line %d, column %d: %s", location.Line(), max(location.Column(), 0)+1, message)
}

func replaceControlCharacter(r rune) rune {
	if unicode.IsControl(r) {
		return ' '
	}
	return r
}
