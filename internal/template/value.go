package template

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template/parse"
)

// evaluatePipeline returns the value of a pipeline and declares its variables.
func (e *execution) evaluatePipeline(pipe *parse.PipeNode, dot any) (any, error) {
	if len(pipe.Decl) > 0 && !e.language.Documents {
		return nil, fmt.Errorf("%s: variables are not supported", abbreviateNode(pipe))
	}

	value, err := e.evaluateCommands(pipe, dot)
	if err != nil {
		return nil, err
	}

	for _, name := range pipe.Decl {
		if err := e.declareOrAssign(name, value, pipe.IsAssign); err != nil {
			return nil, err
		}
	}

	return value, nil
}

// evaluateCommands returns the value of a chain of commands. Each command gets the value of the
// previous one as its last argument.
func (e *execution) evaluateCommands(pipe *parse.PipeNode, dot any) (any, error) {
	var value any
	for i, command := range pipe.Cmds {
		var args []any
		for _, node := range command.Args[1:] {
			arg, err := e.evaluateNode(node, dot)
			if err != nil {
				return nil, err
			}
			args = append(args, arg)
		}

		if i > 0 {
			args = append(args, value)
		}

		var err error
		if value, err = e.evaluateCommand(command.Args[0], args, dot); err != nil {
			return nil, fmt.Errorf("%s: %w", abbreviateNode(command), err)
		}
	}

	return value, nil
}

// evaluateCommand calls a function, or returns a value that takes no arguments.
func (e *execution) evaluateCommand(node parse.Node, args []any, dot any) (any, error) {
	if name, ok := node.(*parse.IdentifierNode); ok {
		return e.callNamedFunction(name.Ident, args)
	}
	if len(args) > 0 {
		return nil, errors.New("is not a function and takes no arguments")
	}
	return e.evaluateNode(node, dot)
}

func (e *execution) evaluateNode(node parse.Node, dot any) (any, error) {
	switch n := node.(type) {
	case *parse.DotNode:
		return dot, nil
	case *parse.FieldNode:
		return e.lookUpFieldPath(dot, n.Ident)
	case *parse.ChainNode:
		value, err := e.evaluateNode(n.Node, dot)
		if err != nil {
			return nil, err
		}
		return e.lookUpFieldPath(value, n.Field)

	case *parse.VariableNode:
		return e.evaluateVariable(n)
	case *parse.StringNode:
		return n.Text, nil
	case *parse.BoolNode:
		return n.True, nil
	case *parse.NumberNode:
		return parseIntegerConstant(n)
	case *parse.PipeNode:
		return e.evaluatePipeline(n, dot)
	case *parse.IdentifierNode:
		return e.callNamedFunction(n.Ident, nil)
	default:
		return nil, fmt.Errorf("%s: is not supported", abbreviateNode(node))
	}
}

func (e *execution) evaluateVariable(n *parse.VariableNode) (any, error) {
	if n.Ident[0] == "$" {
		return e.lookUpFieldPath(e.root, n.Ident[1:])
	}

	for i := len(e.variables) - 1; i >= 0; i-- {
		if e.variables[i].name == n.Ident[0] {
			return e.lookUpFieldPath(e.variables[i].value, n.Ident[1:])
		}
	}
	return nil, fmt.Errorf("%s: is not a defined variable", abbreviateNode(n))
}

// maxListedKeys is the maximum number of keys that an error lists.
const maxListedKeys = 10

// lookUpFieldPath returns the value at a path of names within a value.
func (e *execution) lookUpFieldPath(value any, names []string) (any, error) {
	for i, name := range names {
		found, ok := lookUpMapValue(value, name)
		if !ok && !e.language.Documents {
			there := ""
			if known := sortedMapKeys(value); len(known) > 0 && len(known) <= maxListedKeys {
				there = ": there are ." + strings.Join(known, ", .")
			}
			return nil, fmt.Errorf("there is no value .%s%s", strings.Join(names[:i+1], "."), there)
		}
		value = found
	}

	return value, nil
}

// lookUpMapValue returns the value of a map for a key.
func lookUpMapValue(value any, key string) (found any, ok bool) {
	switch v := value.(type) {
	case map[string]any:
		found, ok = v[key]
	case map[string]string:
		if text, has := v[key]; has {
			return text, true
		}
	}

	return found, ok
}

// sortedMapKeys returns the sorted keys of a map.
func sortedMapKeys(value any) []string {
	switch v := value.(type) {
	case map[string]any:
		return slices.Sorted(maps.Keys(v))
	case map[string]string:
		return slices.Sorted(maps.Keys(v))
	default:
		return nil
	}
}

// rangeItem is an element of a list or a map.
type rangeItem struct{ key, value any }

// listRangeItems returns the elements of a list or a map. A nil value has none. It returns false
// for any other value.
func listRangeItems(value any) (items []rangeItem, ok bool) {
	if list, isList := value.([]any); isList {
		for i, part := range list {
			items = append(items, rangeItem{i, part})
		}
		return items, true
	}

	for _, key := range sortedMapKeys(value) {
		part, _ := lookUpMapValue(value, key)
		items = append(items, rangeItem{key, part})
	}
	return items, value == nil || isMapOrList(value)
}

// isMapOrList reports whether a value is a map or a list.
func isMapOrList(value any) bool {
	switch value.(type) {
	case map[string]any, map[string]string, []any:
		return true
	default:
		return false
	}
}

// isTruthy reports whether a value is not nil, false, zero or empty.
func isTruthy(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		return len(v) > 0
	case map[string]string:
		return len(v) > 0
	case []any:
		return len(v) > 0
	default:
		return v != nil && v != false && v != 0 && v != int64(0) && v != 0.0 && v != ""
	}
}

// parseIntegerConstant returns the value of an integer constant. As in the standard library, a
// constant with a decimal point or an exponent is not an integer, even without a fraction.
func parseIntegerConstant(n *parse.NumberNode) (int, error) {
	hex := strings.Contains(strings.ToLower(n.Text), "0x")
	exponents := ".eEpP"
	if hex {
		exponents = ".pP"
	}

	isRune := strings.HasPrefix(n.Text, "'")
	if !n.IsInt || n.IsComplex || !isRune && strings.ContainsAny(n.Text, exponents) {
		return 0, fmt.Errorf("%s: is not an integer", abbreviateNode(n))
	}

	return int(n.Int64), nil
}
