// Package template executes templates in the syntax of text/template over plain values:
// texts, numbers, truths, and maps and lists of them.
//
// It takes from the library only the parser. The library's execution calls methods by name,
// for which the linker has to keep every method of the program, and has loops that never
// end, which templates from elsewhere must not have. What a template may say is a
// [Language]; what it costs is bounded.
//
// It reads no files and knows nothing of what the texts mean.
package template

import (
	"fmt"
	"strings"
	"text/template/parse"
)

// Limits on a template. Its length bounds how deep its parts may be nested: the parser calls
// itself for each level. A manifest has at most 8 MiB.
const (
	maxTemplateBytes = 256 << 10
	maxOutputBytes   = 8 << 20
	maxSteps         = 1_000_000
)

// maxShown is how many characters of a template an error quotes.
const maxShown = 60

// Language is what templates may say.
type Language struct {
	// Functions are those that may be called, of text/template: and, eq, index, len, ne, not,
	// or, print, printf, println, slice.
	Functions []string
	// Documents is for templates that know the shape of what they are executed with better
	// than the program: there are range, with and variables, and what a map does not have is
	// nothing, as in the library. Otherwise it is an error to name what is not there, and only
	// texts, numbers and truths are printed.
	Documents bool
}

// Template is one that was parsed.
type Template struct {
	language Language
	root     *parse.ListNode
}

// Parse reads a template. Its name stands in errors.
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

// Execute returns the text that the template makes of a value: a map[string]any, of texts,
// ints, truths, map[string]any, map[string]string and []any. In documents it may be any of
// these, and numbers may be int64 and float64, too.
func (t *Template) Execute(value any) (string, error) {
	e := &execution{language: t.language, root: value}
	err := e.list(t.root, value)
	return e.out.String(), err
}

// shown is the beginning of a part of a template.
func shown(node parse.Node) string {
	text := node.String()
	if runes := []rune(text); len(runes) > maxShown {
		text = string(runes[:maxShown]) + "..."
	}
	return text
}

// execution is a template while it is executed.
type execution struct {
	language Language
	root     any
	// variables are those in scope, the innermost last.
	variables []variable
	out       strings.Builder
	steps     int
}

type variable struct {
	name  string
	value any
}

// list executes nodes one after the other; the variables that they declare end with them.
func (e *execution) list(list *parse.ListNode, dot any) error {
	if list == nil {
		return nil
	}

	defer func(n int) { e.variables = e.variables[:n] }(len(e.variables))
	for _, node := range list.Nodes {
		if e.steps++; e.steps > maxSteps {
			return fmt.Errorf("takes more than the %d steps that a template may take", maxSteps)
		}
		if err := e.node(node, dot); err != nil {
			return err
		}
		if e.out.Len() > maxOutputBytes {
			return fmt.Errorf("makes more than the %d bytes that a template may make", maxOutputBytes)
		}
	}

	return nil
}

func (e *execution) node(node parse.Node, dot any) error {
	switch n := node.(type) {
	case *parse.TextNode:
		e.out.Write(n.Text)
		return nil
	case *parse.CommentNode:
		return nil
	case *parse.ActionNode:
		value, err := e.pipe(n.Pipe, dot)
		if err != nil || len(n.Pipe.Decl) > 0 {
			return err
		}
		return e.print(n, value)

	case *parse.IfNode:
		return e.branch(&n.BranchNode, dot, func(any) any { return dot })
	case *parse.WithNode:
		if e.language.Documents {
			return e.branch(&n.BranchNode, dot, func(value any) any { return value })
		}
	case *parse.RangeNode:
		if e.language.Documents {
			return e.loop(n, dot)
		}
	}

	if !e.language.Documents {
		return fmt.Errorf("%s: is not supported: such a template has values, if and functions only", shown(node))
	}
	return fmt.Errorf("%s: is not supported", shown(node))
}

func (e *execution) print(node parse.Node, value any) error {
	switch {
	case value == nil:
		e.out.WriteString("<no value>")
	case isContainer(value) && !e.language.Documents:
		return fmt.Errorf("%s: is no text: name one of its values", shown(node))
	default:
		fmt.Fprint(&e.out, value)
	}

	return nil
}

// branch executes what a condition chooses. The function gives what the dot is if it is true.
func (e *execution) branch(n *parse.BranchNode, dot any, within func(any) any) error {
	defer func(n int) { e.variables = e.variables[:n] }(len(e.variables))
	value, err := e.pipe(n.Pipe, dot)
	switch {
	case err != nil:
		return err
	case isTrue(value):
		return e.list(n.List, within(value))
	default:
		return e.list(n.ElseList, dot)
	}
}

// loop executes a part for each value of a list, or of a map by its sorted keys.
func (e *execution) loop(n *parse.RangeNode, dot any) error {
	defer func(n int) { e.variables = e.variables[:n] }(len(e.variables))
	over, err := e.commands(n.Pipe, dot)
	if err != nil {
		return err
	}

	items, ok := itemsOf(over)
	if !ok {
		return fmt.Errorf("%s: is neither a list nor a map", shown(n.Pipe))
	}
	if len(items) == 0 {
		return e.list(n.ElseList, dot)
	}

	before := len(e.variables)
	for _, item := range items {
		e.variables = e.variables[:before]
		declared := []any{item.key, item.value}
		for i, name := range n.Pipe.Decl {
			if err := e.declare(name, declared[i+2-len(n.Pipe.Decl)], n.Pipe.IsAssign); err != nil {
				return err
			}
		}
		if err := e.list(n.List, item.value); err != nil {
			return err
		}
	}

	return nil
}

// declare has a variable have a value.
func (e *execution) declare(name *parse.VariableNode, value any, assign bool) error {
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

	return fmt.Errorf("%s: cannot be assigned", shown(name))
}
