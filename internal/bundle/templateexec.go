package bundle

import (
	"errors"
	"fmt"
	"strings"
	"text/template/parse"
)

// This file executes templates of image references. It takes from the library only the
// parser: the library's execution calls methods by name, for which the linker has to keep
// every method of the program, and that costs 2 MiB of memory at each start of a program
// that scripts start hundreds of times. Loops, variables, nested templates and functions
// of lists, which three strings have no use for, are refused.

// imageName is what a template is executed with.
type imageName struct {
	Package, Name, Version string
}

// templateFuncs are the functions of text/template that take and give texts, numbers and
// truths.
var templateFuncs = map[string]func(args []any) (any, error){
	"print":   func(args []any) (any, error) { return fmt.Sprint(args...), nil },
	"println": func(args []any) (any, error) { return fmt.Sprintln(args...), nil },
	"printf":  templatePrintf,
	"len":     templateLen,
	"slice":   templateSlice,
	"not": func(args []any) (any, error) {
		if len(args) != 1 {
			return nil, fmt.Errorf("wrong number of args for not: want 1 got %d", len(args))
		}
		return !isTrue(args[0]), nil
	},
	"and": func(args []any) (any, error) { return firstOr(args, func(v any) bool { return !isTrue(v) }) },
	"or":  func(args []any) (any, error) { return firstOr(args, isTrue) },
	"eq":  func(args []any) (any, error) { return templateEqual("eq", args) },
	"ne": func(args []any) (any, error) {
		equal, err := templateEqual("ne", args)
		return err == nil && !equal, err
	},
}

// execution is a template while it is executed.
type execution struct {
	name imageName
	out  strings.Builder
}

func (e *execution) list(list *parse.ListNode) error {
	if list == nil {
		return nil
	}
	for _, node := range list.Nodes {
		if err := e.node(node); err != nil {
			return err
		}
	}
	return nil
}

func (e *execution) node(node parse.Node) error {
	switch n := node.(type) {
	case *parse.TextNode:
		e.out.Write(n.Text)
		return nil
	case *parse.CommentNode:
		return nil
	case *parse.ActionNode:
		value, err := e.pipe(n.Pipe)
		if err == nil {
			fmt.Fprint(&e.out, value)
		}
		return err
	case *parse.IfNode:
		condition, err := e.pipe(n.Pipe)
		switch {
		case err != nil:
			return err
		case isTrue(condition):
			return e.list(n.List)
		default:
			return e.list(n.ElseList)
		}
	default:
		return fmt.Errorf("%s is not supported", node)
	}
}

func (e *execution) pipe(pipe *parse.PipeNode) (any, error) {
	if len(pipe.Decl) > 0 {
		return nil, fmt.Errorf("variables are not supported: %s", pipe)
	}
	var value any
	for i, command := range pipe.Cmds {
		var args []any
		for _, node := range command.Args[1:] {
			arg, err := e.value(node)
			if err != nil {
				return nil, err
			}
			args = append(args, arg)
		}
		if i > 0 {
			args = append(args, value)
		}
		var err error
		if value, err = e.command(command.Args[0], args); err != nil {
			return nil, err
		}
	}
	return value, nil
}

// command calls a function, or gives a value that takes no arguments.
func (e *execution) command(node parse.Node, args []any) (any, error) {
	if name, ok := node.(*parse.IdentifierNode); ok {
		value, err := templateFuncs[name.Ident](args)
		if err != nil {
			return nil, fmt.Errorf("error calling %s: %w", name.Ident, err)
		}
		return value, nil
	}
	if len(args) > 0 {
		return nil, fmt.Errorf("can't give argument to non-function %s", node)
	}
	return e.value(node)
}

func (e *execution) value(node parse.Node) (any, error) {
	switch n := node.(type) {
	case *parse.FieldNode:
		return e.field(n)
	case *parse.StringNode:
		return n.Text, nil
	case *parse.BoolNode:
		return n.True, nil
	case *parse.NumberNode:
		return wholeNumber(n)
	case *parse.PipeNode:
		return e.pipe(n)
	case *parse.IdentifierNode:
		return e.command(n, nil)
	default:
		return nil, fmt.Errorf("%s is not supported", node)
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
		return 0, fmt.Errorf("%s is no whole number", n)
	}
	return int(n.Int64), nil
}

func (e *execution) field(n *parse.FieldNode) (any, error) {
	if len(n.Ident) == 1 {
		switch n.Ident[0] {
		case "Package":
			return e.name.Package, nil
		case "Name":
			return e.name.Name, nil
		case "Version":
			return e.name.Version, nil
		}
	}
	return nil, fmt.Errorf("can't evaluate field %s: there are .Package, .Name and .Version", strings.TrimPrefix(n.String(), "."))
}

// isTrue tells whether a value counts as true: one that is not false, zero or empty.
func isTrue(value any) bool {
	return value != nil && value != false && value != 0 && value != ""
}

// firstOr gives the first argument that fits, or the last.
func firstOr(args []any, fits func(any) bool) (any, error) {
	if len(args) == 0 {
		return nil, errors.New("wrong number of args: want at least 1 got 0")
	}
	for _, arg := range args {
		if fits(arg) {
			return arg, nil
		}
	}
	return args[len(args)-1], nil
}

// templateEqual tells whether the first argument equals any of the others.
func templateEqual(name string, args []any) (bool, error) {
	if len(args) < 2 {
		return false, fmt.Errorf("wrong number of args for %s: want at least 2 got %d", name, len(args))
	}
	for _, arg := range args[1:] {
		if arg == args[0] {
			return true, nil
		}
	}
	return false, nil
}

func templatePrintf(args []any) (any, error) {
	if len(args) == 0 {
		return nil, errors.New("wrong number of args for printf: want at least 1 got 0")
	}
	format, ok := args[0].(string)
	if !ok {
		return nil, errors.New("the format is no text")
	}
	return fmt.Sprintf(format, args[1:]...), nil
}

func templateLen(args []any) (any, error) {
	if len(args) == 1 {
		if text, ok := args[0].(string); ok {
			return len(text), nil
		}
	}
	return nil, errors.New("len takes one text")
}

func templateSlice(args []any) (any, error) {
	if len(args) == 0 || len(args) > 3 {
		return nil, errors.New("slice takes a text and at most two numbers")
	}
	text, ok := args[0].(string)
	bounds := []int{0, len(text)}
	for i, arg := range args[1:] {
		at, isNumber := arg.(int)
		ok = ok && isNumber
		bounds[i] = at
	}
	switch {
	case !ok:
		return nil, errors.New("slice takes a text and at most two numbers")
	case bounds[0] < 0 || bounds[0] > bounds[1] || bounds[1] > len(text):
		return nil, fmt.Errorf("%v is out of the range of %q", bounds, text)
	}
	return text[bounds[0]:bounds[1]], nil
}
