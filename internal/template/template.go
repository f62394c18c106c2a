// Package template executes templates in the syntax of text/template with plain values: strings,
// numbers, booleans, and maps and lists of them.
//
// It only uses the parser of the standard library. The library's execution calls methods by name,
// so that the linker has to keep every method of the program. It also allows endless loops, which
// templates from untrusted sources must not have. A [Language] defines the allowed syntax. The
// execution is bounded.
//
// The package reads no files and does not interpret the output.
package template

import (
	"fmt"
	"strings"
	"text/template/parse"
)

// Limits of a template. Its length bounds its nesting, as the parser is recursive. A
// manifest has at most 8 MiB.
const (
	maxTemplateBytes = 256 << 10
	maxOutputBytes   = 8 << 20
	maxSteps         = 1_000_000
)

// maxNodeRunes is the maximum length of a template part in errors, in characters.
const maxNodeRunes = 60

// Language is the allowed syntax of templates.
type Language struct {
	// Functions are the allowed functions of text/template: and, eq, index, len, ne, not, or,
	// print, printf, println, slice.
	Functions []string
	// Documents enables range, with and variables, for templates whose values have a shape that
	// the program does not know. Missing keys of a map are then nil, as in the standard library.
	// Otherwise a missing key is an error, and only strings, numbers and booleans can be printed.
	Documents bool
}

// Template is a parsed template.
type Template struct {
	language Language
	root     *parse.ListNode
}

// Parse parses a template. The name is used in errors.
func (l Language) Parse(name, text string) (*Template, error) {
	if len(text) > maxTemplateBytes {
		return nil, fmt.Errorf("is larger than the %d bytes that a template may have", maxTemplateBytes)
	}

	known := make(map[string]any, len(l.Functions))
	for _, name := range l.Functions {
		known[name] = true
	}

	trees, err := parse.Parse(name, text, "", "", known)
	if err != nil {
		return nil, err
	}
	if tree := trees[name]; tree != nil && len(trees) == 1 {
		return &Template{l, tree.Root}, nil
	}
	if len(trees) > 0 {
		return nil, fmt.Errorf("template: %s: nested templates are not supported", name)
	}

	return &Template{l, nil}, nil // The text is empty.
}

// Execute returns the output of the template for a value. The value is a map[string]any with
// strings, ints, booleans, map[string]any, map[string]string and []any. With Language.Documents
// it may be any of these types, or an int64 or float64.
func (t *Template) Execute(value any) (string, error) {
	e := &execution{language: t.language, root: value}
	err := e.executeNodes(t.root, value)
	return e.out.String(), err
}

// abbreviateNode returns the beginning of a part of a template for use in an error.
func abbreviateNode(node parse.Node) string {
	text := node.String()
	if runes := []rune(text); len(runes) > maxNodeRunes {
		text = string(runes[:maxNodeRunes]) + "..."
	}
	return text
}

// execution is the state of an executed template.
type execution struct {
	language Language
	root     any
	// variables are the variables in scope, innermost last.
	variables []variable
	out       strings.Builder
	steps     int
}

type variable struct {
	name  string
	value any
}

// executeNodes executes nodes in order. Variables that they declare go out of scope at the end.
func (e *execution) executeNodes(list *parse.ListNode, dot any) error {
	if list == nil {
		return nil
	}
	defer func(n int) { e.variables = e.variables[:n] }(len(e.variables))
	for _, node := range list.Nodes {
		if e.steps++; e.steps > maxSteps {
			return fmt.Errorf("takes more than the %d steps that a template may take", maxSteps)
		}
		if err := e.executeNode(node, dot); err != nil {
			return err
		}
		if e.out.Len() > maxOutputBytes {
			return fmt.Errorf("makes more than the %d bytes that a template may make", maxOutputBytes)
		}
	}

	return nil
}

func (e *execution) executeNode(node parse.Node, dot any) error {
	switch n := node.(type) {
	case *parse.TextNode:
		e.out.Write(n.Text)
		return nil
	case *parse.CommentNode:
		return nil
	case *parse.ActionNode:
		value, err := e.evaluatePipeline(n.Pipe, dot)
		if err != nil || len(n.Pipe.Decl) > 0 {
			return err
		}
		return e.printActionValue(n, value)

	case *parse.IfNode:
		return e.executeBranch(&n.BranchNode, dot, func(any) any { return dot })
	case *parse.WithNode:
		if e.language.Documents {
			return e.executeBranch(&n.BranchNode, dot, func(value any) any { return value })
		}
	case *parse.RangeNode:
		if e.language.Documents {
			return e.executeRange(n, dot)
		}
	}

	if !e.language.Documents {
		return fmt.Errorf("%s: is not supported: such a template has values, if and functions only", abbreviateNode(node))
	}
	return fmt.Errorf("%s: is not supported", abbreviateNode(node))
}

func (e *execution) printActionValue(node parse.Node, value any) error {
	switch {
	case value == nil:
		e.out.WriteString("<no value>")
	case isMapOrList(value) && !e.language.Documents:
		return fmt.Errorf("%s: is not a string: use one of its values", abbreviateNode(node))
	default:
		fmt.Fprint(&e.out, value)
	}

	return nil
}

// executeBranch executes the chosen branch of a condition. within returns the dot for a true
// value.
func (e *execution) executeBranch(n *parse.BranchNode, dot any, within func(any) any) error {
	defer func(n int) { e.variables = e.variables[:n] }(len(e.variables))
	value, err := e.evaluatePipeline(n.Pipe, dot)
	switch {
	case err != nil:
		return err
	case isTruthy(value):
		return e.executeNodes(n.List, within(value))
	default:
		return e.executeNodes(n.ElseList, dot)
	}
}

// executeRange executes a part for each value of a list, or of a map in the order of its keys.
func (e *execution) executeRange(n *parse.RangeNode, dot any) error {
	defer func(n int) { e.variables = e.variables[:n] }(len(e.variables))
	over, err := e.evaluateCommands(n.Pipe, dot)
	if err != nil {
		return err
	}

	items, ok := listRangeItems(over)
	if !ok {
		return fmt.Errorf("%s: is neither a list nor a map", abbreviateNode(n.Pipe))
	}
	if len(items) == 0 {
		return e.executeNodes(n.ElseList, dot)
	}

	before := len(e.variables)
	for _, item := range items {
		e.variables = e.variables[:before]
		declared := []any{item.key, item.value}
		for i, name := range n.Pipe.Decl {
			if err := e.declareOrAssign(name, declared[i+2-len(n.Pipe.Decl)], n.Pipe.IsAssign); err != nil {
				return err
			}
		}
		if err := e.executeNodes(n.List, item.value); err != nil {
			return err
		}
	}

	return nil
}

// declareOrAssign declares a variable, or assigns a value to one.
func (e *execution) declareOrAssign(name *parse.VariableNode, value any, assign bool) error {
	if !assign {
		e.variables = append(e.variables, variable{name.Ident[0], value})
		return nil
	}

	for i := len(e.variables) - 1; i >= 0; i-- {
		if e.variables[i].name == name.Ident[0] {
			e.variables[i].value = value
			return nil
		}
	}

	return fmt.Errorf("%s: cannot be assigned", abbreviateNode(name))
}
