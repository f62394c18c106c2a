package release

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"text/template/parse"
)

// This file executes the templates of FolderOwn. It takes from the library only the
// parser: the library's execution has loops that never end and calls methods by name, for
// which the linker keeps every method of the program. Loops, variables and nested
// templates, which the values have no use for, are refused.

// maxTemplateBytes bounds a template, and with it how deep its parts may be nested: the
// parser calls itself for each level.
const maxTemplateBytes = 256 << 10

// maxShown is how many characters of a template an error quotes.
const maxShown = 60

// templateValues are what a template may name: .ReleaseImage, .ClusterProfile and
// .Images, by name.
type templateValues struct {
	releaseImage, clusterProfile string
	images                       map[string]string
}

// templateFuncs are the functions of a template. They take and give texts, truths and, as
// the first argument of index, the images.
var templateFuncs = map[string]func(args []any) (any, error){
	"index": templateIndex,
	"eq":    templateEqual,
	"ne": func(args []any) (any, error) {
		equal, err := templateEqual(args)
		return equal == false, err
	},
	"not": func(args []any) (any, error) {
		if len(args) != 1 {
			return nil, fmt.Errorf("not takes 1 argument, not %d", len(args))
		}
		return !isTrue(args[0]), nil
	},
	"and": func(args []any) (any, error) { return firstOrLast(args, false) },
	"or":  func(args []any) (any, error) { return firstOrLast(args, true) },
}

// execute executes the template of a file.
func execute(data []byte, values templateValues) ([]byte, error) {
	if !bytes.Contains(data, []byte("{{")) {
		return data, nil
	}
	if len(data) > maxTemplateBytes {
		return nil, fmt.Errorf("is larger than the %d bytes that a template may have", maxTemplateBytes)
	}
	known := make(map[string]any, len(templateFuncs))
	for name := range templateFuncs {
		known[name] = true
	}
	const name = "line"
	trees, err := parse.Parse(name, string(data), "", "", known)
	if err != nil {
		return nil, err
	}
	e := execution{values: values}
	if tree := trees[name]; tree != nil {
		err = e.list(tree.Root)
	}
	return e.out.Bytes(), err
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
	values templateValues
	out    bytes.Buffer
}

func (e *execution) list(list *parse.ListNode) error {
	if list == nil {
		return nil
	}
	for _, node := range list.Nodes {
		if err := e.node(node); err != nil {
			return err
		}
		if e.out.Len() > maxFileBytes {
			return fmt.Errorf("makes more than the %d bytes that a file may have", maxFileBytes)
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
		if err != nil {
			return err
		}
		if _, isImages := value.(map[string]string); isImages {
			return fmt.Errorf("%s: is no text: name one of the images", shown(node))
		}
		fmt.Fprint(&e.out, value)
		return nil
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
		return fmt.Errorf("%s: is not supported: a manifest's template has values, if and functions only", shown(node))
	}
}

// pipe gives each command the value of the one before as its last argument.
func (e *execution) pipe(pipe *parse.PipeNode) (any, error) {
	if len(pipe.Decl) > 0 {
		return nil, fmt.Errorf("%s: variables are not supported", shown(pipe))
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
			return nil, fmt.Errorf("%s: %w", shown(command), err)
		}
	}
	return value, nil
}

// command calls a function, or gives a value that takes no arguments.
func (e *execution) command(node parse.Node, args []any) (any, error) {
	if name, ok := node.(*parse.IdentifierNode); ok {
		return templateFuncs[name.Ident](args)
	}
	if len(args) > 0 {
		return nil, errors.New("is no function and takes no arguments")
	}
	return e.value(node)
}

func (e *execution) value(node parse.Node) (any, error) {
	switch n := node.(type) {
	case *parse.StringNode:
		return n.Text, nil
	case *parse.BoolNode:
		return n.True, nil
	case *parse.PipeNode:
		return e.pipe(n)
	case *parse.FieldNode:
		return e.field(n.Ident)
	case *parse.VariableNode:
		if n.Ident[0] != "$" {
			return nil, fmt.Errorf("%s: variables are not supported", shown(node))
		}
		return e.field(n.Ident[1:])
	default:
		return nil, fmt.Errorf("%s is not supported", shown(node))
	}
}

func (e *execution) field(path []string) (any, error) {
	switch name := strings.Join(path, "."); {
	case name == "ReleaseImage":
		return e.values.releaseImage, nil
	case name == "ClusterProfile":
		return e.values.clusterProfile, nil
	case name == "Images":
		return e.values.images, nil
	case len(path) == 2 && path[0] == "Images":
		return templateIndex([]any{e.values.images, path[1]})
	default:
		return nil, fmt.Errorf("there is no value .%s", name)
	}
}

func templateIndex(args []any) (any, error) {
	if len(args) != 2 {
		return nil, fmt.Errorf("index takes 2 arguments, not %d", len(args))
	}
	images, isImages := args[0].(map[string]string)
	name, isText := args[1].(string)
	if !isImages || !isText {
		return nil, errors.New("index takes .Images and the name of an image")
	}
	pullSpec, ok := images[name]
	if !ok {
		return nil, fmt.Errorf("the release has no image %q", name)
	}
	return pullSpec, nil
}

// templateEqual tells whether the first argument equals any of the others.
func templateEqual(args []any) (any, error) {
	if len(args) < 2 {
		return nil, fmt.Errorf("eq takes 2 or more arguments, not %d", len(args))
	}
	for _, arg := range args {
		if _, isImages := arg.(map[string]string); isImages {
			return nil, errors.New("eq does not compare images: name one of them")
		}
	}
	for _, arg := range args[1:] {
		if arg == args[0] {
			return true, nil
		}
	}
	return false, nil
}

// firstOrLast gives the first argument that is as wanted, else the last one.
func firstOrLast(args []any, wanted bool) (any, error) {
	if len(args) == 0 {
		return nil, errors.New("and, or: take at least 1 argument")
	}
	for _, arg := range args {
		if isTrue(arg) == wanted {
			return arg, nil
		}
	}
	return args[len(args)-1], nil
}

// isTrue tells whether a value is neither false nor empty.
func isTrue(value any) bool {
	switch v := value.(type) {
	case bool:
		return v
	case string:
		return v != ""
	case map[string]string:
		return len(v) > 0
	default:
		return false
	}
}
