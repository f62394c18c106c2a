package template

import (
	"errors"
	"fmt"
)

// function is a function that templates may call.
type function struct {
	call func(args []any) (any, error)
	// minArgs and maxArgs bound the number of arguments; a maxArgs of 0 is no limit.
	minArgs, maxArgs int
	// acceptsContainers is set if the function accepts maps and lists. Printing functions only
	// accept them with Language.Documents.
	acceptsContainers, prints bool
}

// functions are the functions of text/template that take and return plain values.
var functions = map[string]function{
	"and":     {call: func(args []any) (any, error) { return firstMatchOrLast(args, false), nil }, minArgs: 1, acceptsContainers: true},
	"or":      {call: func(args []any) (any, error) { return firstMatchOrLast(args, true), nil }, minArgs: 1, acceptsContainers: true},
	"not":     {call: func(args []any) (any, error) { return !isTruthy(args[0]), nil }, minArgs: 1, maxArgs: 1, acceptsContainers: true},
	"eq":      {call: func(args []any) (any, error) { return equalsAnyArgument(args), nil }, minArgs: 2},
	"ne":      {call: func(args []any) (any, error) { return !equalsAnyArgument(args), nil }, minArgs: 2, maxArgs: 2},
	"len":     {call: lengthOfValue, minArgs: 1, maxArgs: 1, acceptsContainers: true},
	"slice":   {call: sliceString, minArgs: 1, maxArgs: 3},
	"print":   {call: func(args []any) (any, error) { return fmt.Sprint(args...), nil }, prints: true},
	"println": {call: func(args []any) (any, error) { return fmt.Sprintln(args...), nil }, prints: true},
	"printf":  {call: formatWithArgs, minArgs: 1, prints: true},
}

// callNamedFunction calls a function. The parser has checked that the language allows it.
func (e *execution) callNamedFunction(name string, args []any) (any, error) {
	if name == "index" {
		return e.lookUpIndexPath(args)
	}

	f, ok := functions[name]
	switch {
	case !ok:
		return nil, fmt.Errorf("there is no function %s", name)
	case len(args) < f.minArgs:
		return nil, fmt.Errorf("%s takes %d or more arguments, not %d", name, f.minArgs, len(args))
	case f.maxArgs > 0 && len(args) > f.maxArgs:
		return nil, fmt.Errorf("%s takes %d arguments at most, not %d", name, f.maxArgs, len(args))
	}

	for _, arg := range args {
		if isMapOrList(arg) && !f.acceptsContainers && (!f.prints || !e.language.Documents) {
			return nil, fmt.Errorf("%s takes no maps and lists: use one of their values", name)
		}
	}

	return f.call(args)
}

// lookUpIndexPath returns the value at a path of keys and indexes within a value.
func (e *execution) lookUpIndexPath(args []any) (any, error) {
	if len(args) < 2 {
		return nil, fmt.Errorf("index takes 2 or more arguments, not %d", len(args))
	}

	value := args[0]
	for _, arg := range args[1:] {
		switch at := arg.(type) {
		case string:
			found, ok := lookUpMapValue(value, at)
			if _, isList := value.([]any); isList || value != nil && !isMapOrList(value) {
				return nil, fmt.Errorf("index: the value with the key %q must be a map", at)
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
			return nil, errors.New("index takes strings and integers")
		}
	}

	return value, nil
}

// normalizeNumber converts an int64 to an int, so that integers of both types are comparable.
func normalizeNumber(value any) any {
	if number, ok := value.(int64); ok {
		return int(number)
	}
	return value
}

// equalsAnyArgument reports whether the first argument equals any of the others.
func equalsAnyArgument(args []any) bool {
	for _, arg := range args[1:] {
		if normalizeNumber(arg) == normalizeNumber(args[0]) {
			return true
		}
	}
	return false
}

// firstMatchOrLast returns the first argument whose truth value is wanted, or the last argument.
func firstMatchOrLast(args []any, wanted bool) any {
	for _, arg := range args {
		if isTruthy(arg) == wanted {
			return arg
		}
	}
	return args[len(args)-1]
}

func formatWithArgs(args []any) (any, error) {
	text, ok := args[0].(string)
	if !ok {
		return nil, errors.New("printf: the format is not a string")
	}
	return fmt.Sprintf(text, args[1:]...), nil
}

func lengthOfValue(args []any) (any, error) {
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
		return nil, errors.New("len takes a string, a map or a list")
	}
}

func sliceString(args []any) (any, error) {
	text, ok := args[0].(string)
	bounds := []int{0, len(text)}
	for i, arg := range args[1:] {
		at, isNumber := normalizeNumber(arg).(int)
		ok = ok && isNumber
		bounds[i] = at
	}

	switch {
	case !ok:
		return nil, errors.New("slice takes a string and at most two integers")
	case bounds[0] < 0 || bounds[0] > bounds[1] || bounds[1] > len(text):
		return nil, fmt.Errorf("%v is out of the range of %q", bounds, text)
	}

	return text[bounds[0]:bounds[1]], nil
}
