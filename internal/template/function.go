package template

import (
	"errors"
	"fmt"
)

// function is one that templates may call.
type function struct {
	call func(args []any) (any, error)
	// atLeast and atMost are how many arguments it takes; atMost of 0 is any number.
	atLeast, atMost int
	// containers says that it takes maps and lists; in documents, those that print do, too.
	containers, prints bool
}

// functions are those of text/template that take and give plain values.
var functions = map[string]function{
	"and":     {call: func(args []any) (any, error) { return firstOrLast(args, false), nil }, atLeast: 1, containers: true},
	"or":      {call: func(args []any) (any, error) { return firstOrLast(args, true), nil }, atLeast: 1, containers: true},
	"not":     {call: func(args []any) (any, error) { return !isTrue(args[0]), nil }, atLeast: 1, atMost: 1, containers: true},
	"eq":      {call: func(args []any) (any, error) { return equalsAny(args), nil }, atLeast: 2},
	"ne":      {call: func(args []any) (any, error) { return !equalsAny(args), nil }, atLeast: 2, atMost: 2},
	"len":     {call: length, atLeast: 1, atMost: 1, containers: true},
	"slice":   {call: slice, atLeast: 1, atMost: 3},
	"print":   {call: func(args []any) (any, error) { return fmt.Sprint(args...), nil }, prints: true},
	"println": {call: func(args []any) (any, error) { return fmt.Sprintln(args...), nil }, prints: true},
	"printf":  {call: format, atLeast: 1, prints: true},
}

// call calls a function. That it is one that the language has, was checked by the parser.
func (e *execution) call(name string, args []any) (any, error) {
	if name == "index" {
		return e.index(args)
	}

	f, ok := functions[name]
	switch {
	case !ok:
		return nil, fmt.Errorf("there is no function %s", name)
	case len(args) < f.atLeast:
		return nil, fmt.Errorf("%s takes %d or more arguments, not %d", name, f.atLeast, len(args))
	case f.atMost > 0 && len(args) > f.atMost:
		return nil, fmt.Errorf("%s takes %d arguments at most, not %d", name, f.atMost, len(args))
	}

	for _, arg := range args {
		if isContainer(arg) && !f.containers && (!f.prints || !e.language.Documents) {
			return nil, fmt.Errorf("%s takes no maps and lists: name one of their values", name)
		}
	}

	return f.call(args)
}

// index returns what is found in a value by keys and numbers, one in the other.
func (e *execution) index(args []any) (any, error) {
	if len(args) < 2 {
		return nil, fmt.Errorf("index takes 2 or more arguments, not %d", len(args))
	}

	value := args[0]
	for _, arg := range args[1:] {
		switch at := arg.(type) {
		case string:
			found, ok := entry(value, at)
			if _, isList := value.([]any); isList || value != nil && !isContainer(value) {
				return nil, fmt.Errorf("index: what has %q must be a map", at)
			}
			if !ok && !e.language.Documents {
				return nil, fmt.Errorf("there is no value %q", at)
			}
			value = found
		case int:
			list, ok := value.([]any)
			if !ok || at < 0 || at >= len(list) {
				return nil, fmt.Errorf("index: there is no list with a value %d", at)
			}
			value = list[at]
		default:
			return nil, errors.New("index takes texts and whole numbers")
		}
	}

	return value, nil
}

// plain has whole numbers be of one type.
func plain(value any) any {
	if number, ok := value.(int64); ok {
		return int(number)
	}
	return value
}

// equalsAny reports whether the first argument equals any of the others.
func equalsAny(args []any) bool {
	for _, arg := range args[1:] {
		if plain(arg) == plain(args[0]) {
			return true
		}
	}
	return false
}

// firstOrLast returns the first argument that is as wanted, else the last one.
func firstOrLast(args []any, wanted bool) any {
	for _, arg := range args {
		if isTrue(arg) == wanted {
			return arg
		}
	}
	return args[len(args)-1]
}

func format(args []any) (any, error) {
	text, ok := args[0].(string)
	if !ok {
		return nil, errors.New("printf: the format is no text")
	}
	return fmt.Sprintf(text, args[1:]...), nil
}

func length(args []any) (any, error) {
	switch v := args[0].(type) {
	case string:
		return len(v), nil
	case map[string]any:
		return len(v), nil
	case map[string]string:
		return len(v), nil
	case []any:
		return len(v), nil
	default:
		return nil, errors.New("len takes a text, a map or a list")
	}
}

func slice(args []any) (any, error) {
	text, ok := args[0].(string)
	bounds := []int{0, len(text)}
	for i, arg := range args[1:] {
		at, isNumber := plain(arg).(int)
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
