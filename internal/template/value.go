package template

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template/parse"
)

// pipe returns the value of a pipeline, and declares the variable before it.
func (e *execution) pipe(pipe *parse.PipeNode, dot any) (any, error) {
	if len(pipe.Decl) > 0 && !e.language.Documents {
		return nil, fmt.Errorf("%s: variables are not supported", shown(pipe))
	}

	value, err := e.commands(pipe, dot)
	if err != nil {
		return nil, err
	}

	for _, name := range pipe.Decl {
		if err := e.declare(name, value, pipe.IsAssign); err != nil {
			return nil, err
		}
	}

	return value, nil
}

// commands returns each command the value of the one before as its last argument.
func (e *execution) commands(pipe *parse.PipeNode, dot any) (any, error) {
	var value any
	for i, command := range pipe.Cmds {
		var args []any
		for _, node := range command.Args[1:] {
			arg, err := e.value(node, dot)
			if err != nil {
				return nil, err
			}
			args = append(args, arg)
		}

		if i > 0 {
			args = append(args, value)
		}

		var err error
		if value, err = e.command(command.Args[0], args, dot); err != nil {
			return nil, fmt.Errorf("%s: %w", shown(command), err)
		}
	}

	return value, nil
}

// command calls a function, or gives a value that takes no arguments.
func (e *execution) command(node parse.Node, args []any, dot any) (any, error) {
	if name, ok := node.(*parse.IdentifierNode); ok {
		return e.call(name.Ident, args)
	}
	if len(args) > 0 {
		return nil, errors.New("is no function and takes no arguments")
	}
	return e.value(node, dot)
}

func (e *execution) value(node parse.Node, dot any) (any, error) {
	switch n := node.(type) {
	case *parse.DotNode:
		return dot, nil
	case *parse.FieldNode:
		return e.fields(dot, n.Ident)
	case *parse.ChainNode:
		value, err := e.value(n.Node, dot)
		if err != nil {
			return nil, err
		}
		return e.fields(value, n.Field)

	case *parse.VariableNode:
		return e.variable(n)
	case *parse.StringNode:
		return n.Text, nil
	case *parse.BoolNode:
		return n.True, nil
	case *parse.NumberNode:
		return wholeNumber(n)
	case *parse.PipeNode:
		return e.pipe(n, dot)
	case *parse.IdentifierNode:
		return e.call(n.Ident, nil)
	default:
		return nil, fmt.Errorf("%s: is not supported", shown(node))
	}
}

func (e *execution) variable(n *parse.VariableNode) (any, error) {
	if n.Ident[0] == "$" {
		return e.fields(e.root, n.Ident[1:])
	}

	for i := len(e.variables) - 1; i >= 0; i-- {
		if e.variables[i].name == n.Ident[0] {
			return e.fields(e.variables[i].value, n.Ident[1:])
		}
	}
	return nil, fmt.Errorf("%s: is no variable", shown(n))
}

// maxKnown is how many names an error lists.
const maxKnown = 10

// fields returns what is found in a value by names, one in the other.
func (e *execution) fields(value any, names []string) (any, error) {
	for i, name := range names {
		found, ok := entry(value, name)
		if !ok && !e.language.Documents {
			there := ""
			if known := keysOf(value); len(known) > 0 && len(known) <= maxKnown {
				there = ": there are ." + strings.Join(known, ", .")
			}
			return nil, fmt.Errorf("there is no value .%s%s", strings.Join(names[:i+1], "."), there)
		}
		value = found
	}

	return value, nil
}

// entry returns the value of a map under a key.
func entry(value any, key string) (found any, ok bool) {
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

// keysOf returns the keys of a map, sorted.
func keysOf(value any) []string {
	switch v := value.(type) {
	case map[string]any:
		return slices.Sorted(maps.Keys(v))
	case map[string]string:
		return slices.Sorted(maps.Keys(v))
	default:
		return nil
	}
}

// item is a part of a list or of a map.
type item struct{ key, value any }

// itemsOf returns the parts of a list or of a map. Nothing has none.
func itemsOf(value any) (items []item, ok bool) {
	if list, isList := value.([]any); isList {
		for i, part := range list {
			items = append(items, item{i, part})
		}
		return items, true
	}

	for _, key := range keysOf(value) {
		part, _ := entry(value, key)
		items = append(items, item{key, part})
	}
	return items, value == nil || isContainer(value)
}

// isContainer reports whether a value is a map or a list.
func isContainer(value any) bool {
	switch value.(type) {
	case map[string]any, map[string]string, []any:
		return true
	default:
		return false
	}
}

// isTrue reports whether a value is neither nothing, false, zero nor empty.
func isTrue(value any) bool {
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

// wholeNumber is what a constant stands for. As in the library, one that is written with a
// point or an exponent is none, even if it has no fraction.
func wholeNumber(n *parse.NumberNode) (int, error) {
	hex := strings.Contains(strings.ToLower(n.Text), "0x")
	exponents := ".eEpP"
	if hex {
		exponents = ".pP"
	}

	isRune := strings.HasPrefix(n.Text, "'")
	if !n.IsInt || n.IsComplex || !isRune && strings.ContainsAny(n.Text, exponents) {
		return 0, fmt.Errorf("%s: is no whole number", shown(n))
	}

	return int(n.Int64), nil
}
