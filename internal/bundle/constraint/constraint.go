// Package constraint says whether the CEL rule of an olm.constraint is one: that it is an
// expression, that it uses what there is, and that it is true or false. It evaluates
// nothing: choosing bundles is internal/resolve's job.
//
// The CEL library would say more, of operands whose types do not fit. But it costs every
// program that links it 3 MiB of memory and a millisecond at each start, used or not, and
// opm, which scripts start hundreds of times, checks a rule once in a release. What this
// package refuses the library refuses too; a test with random rules holds it to that.
package constraint

import (
	"errors"
	"slices"
)

// Bounds on a rule. A whole constraint has at most 64 KiB; the library itself refuses
// what is nested deeper than 250 levels.
const (
	maxRule  = 64 << 10
	maxDepth = 300
)

// kind is what is known of the type of an expression.
type kind int

const (
	// unsure may be of any type: its type depends on what is not looked at.
	unsure kind = iota
	// dynamic is of a type that only evaluation tells. It is taken where any type is
	// wanted, but a rule of it is not known to be true or false.
	dynamic
	boolean
	// concrete is of a known type that is none of the others.
	concrete
	// propertyList is the list of a bundle's properties, and property one of them.
	propertyList
	property
)

// callable is something that can be called, with how many arguments, and what that gives.
type callable struct {
	least, most int
	result      kind
}

var functions = map[string]callable{
	"bool": {1, 1, boolean}, "bytes": {1, 1, concrete}, "double": {1, 1, concrete}, "duration": {1, 1, concrete}, "dyn": {1, 1, dynamic},
	"int": {1, 1, concrete}, "matches": {2, 2, boolean}, "size": {1, 1, concrete}, "string": {1, 1, concrete}, "timestamp": {1, 1, concrete},
	"type": {1, 1, concrete}, "uint": {1, 1, concrete},
	// semver_compare is of OLM: -1, 0 or 1 for two versions.
	"semver_compare": {2, 2, concrete},
}

var methods = map[string]callable{
	"contains": {1, 1, boolean}, "endsWith": {1, 1, boolean}, "matches": {1, 1, boolean}, "size": {0, 0, concrete}, "startsWith": {1, 1, boolean},
	"getDate": {0, 1, concrete}, "getDayOfMonth": {0, 1, concrete}, "getDayOfWeek": {0, 1, concrete}, "getDayOfYear": {0, 1, concrete},
	"getFullYear": {0, 1, concrete}, "getHours": {0, 1, concrete}, "getMilliseconds": {0, 1, concrete}, "getMinutes": {0, 1, concrete},
	"getMonth": {0, 1, concrete}, "getSeconds": {0, 1, concrete},
}

// types are the names of types, which are values too.
var types = []string{"bool", "bytes", "double", "dyn", "int", "list", "map", "null_type", "string", "type", "uint"}

// reserved are words that cannot name anything.
var reserved = []string{
	"as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop", "namespace", "null",
	"package", "return", "true", "var", "void", "while",
}

// CheckRule reports whether a rule is a CEL expression over the variable properties that is
// true or false.
func CheckRule(rule string) error {
	if len(rule) > maxRule {
		return errors.New("the expression is longer than 64 KiB")
	}

	tokens, err := scan(rule)
	if err != nil {
		return err
	}

	p := &parser{tokens: tokens, variables: map[string][]kind{"properties": {propertyList}}}
	result, err := p.expression()
	if err == nil && p.peek().text != "" {
		err = p.unexpected()
	}
	if err != nil {
		return err
	}
	if result != boolean && result != unsure {
		return errors.New("cel expressions must have type Bool")
	}

	return nil
}

// parser reads an expression and finds out its kind as it goes.
type parser struct {
	tokens []token
	at     int
	depth  int
	// variables are those in sight; the last kind of a name is the innermost's.
	variables map[string][]kind
}

func (p *parser) peek() token { return p.tokens[p.at] }

// take reads a token if it is one of the texts.
func (p *parser) take(texts ...string) bool {
	if t := p.peek(); t.class == symbol && slices.Contains(texts, t.text) {
		p.at++
		return true
	}
	return false
}

func (p *parser) expect(text string) error {
	if !p.take(text) {
		return p.unexpected()
	}
	return nil
}

func (p *parser) unexpected() error {
	t := p.peek()
	if t.text == "" {
		return t.fault("the expression ends too early")
	}
	return t.fault("unexpected %s", t.text)
}

// condition refuses an operand that cannot be true or false.
func condition(t token, k kind) error {
	if k == concrete || k == propertyList || k == property {
		return t.fault("%s: what it is given is neither true nor false", t.text)
	}
	return nil
}

// expression reads: or ["?" or ":" expression].
func (p *parser) expression() (kind, error) {
	if p.depth++; p.depth > maxDepth {
		return 0, p.peek().fault("the expression is nested deeper than %d levels", maxDepth)
	}

	defer func() { p.depth-- }()
	result, err := p.binary(0)
	question := p.peek()
	if err != nil || !p.take("?") {
		return result, err
	}
	if err := condition(question, result); err != nil {
		return 0, err
	}

	first, err := p.binary(0)
	if err != nil {
		return 0, err
	}
	if err := p.expect(":"); err != nil {
		return 0, err
	}

	second, err := p.expression()
	if err != nil || first != second {
		return unsure, err
	}

	return first, nil
}

// operators are those with two operands, the loosest first, and what they give.
var operators = []struct {
	texts  []string
	result kind
}{
	{[]string{"||"}, boolean},
	{[]string{"&&"}, boolean},
	{[]string{"<", "<=", ">", ">=", "==", "!=", "in"}, boolean},
	{[]string{"+", "-"}, unsure}, // what is added may be of a type that is not known
	{[]string{"*", "/", "%"}, concrete},
}

// binary reads operands with operators of a level and tighter ones between them.
func (p *parser) binary(level int) (kind, error) {
	if level == len(operators) {
		return p.unary()
	}

	left, err := p.binary(level + 1)
	for err == nil {
		operator := p.peek()
		if !p.take(operators[level].texts...) {
			return left, nil
		}

		var right kind
		if right, err = p.binary(level + 1); err != nil {
			break
		}

		for _, operand := range []kind{left, right} {
			if level < 2 && err == nil {
				err = condition(operator, operand)
			}
		}

		left = operators[level].result
	}

	return 0, err
}

// unary reads: {"!"} member | {"-"} member. The library drops pairs of "!" without a look
// at what they stand before.
func (p *parser) unary() (kind, error) {
	sign := p.peek()
	n := 0
	for p.take("!") {
		n++
	}

	if n > 0 {
		operand, err := p.member()
		if err != nil || n%2 == 0 {
			return operand, err
		}
		return boolean, condition(sign, operand)
	}

	for p.take("-") {
		n++
	}

	operand, err := p.member()
	if n > 0 {
		operand = unsure
	}

	return operand, err
}

// member reads: primary {"." name ["(" arguments ")"] | "[" expression "]"}.
func (p *parser) member() (kind, error) {
	result, err := p.primary()
	for err == nil {
		switch {
		case p.take("."):
			result, err = p.selection(result)
		case p.take("["):
			if _, err = p.expression(); err == nil {
				err = p.expect("]")
			}
			result = element(result)
		default:
			return result, nil
		}
	}

	return 0, err
}

// selection reads what follows a dot.
func (p *parser) selection(of kind) (kind, error) {
	name := p.peek()
	if name.class != identifier {
		return 0, p.unexpected()
	}

	p.at++
	if !p.take("(") {
		return field(of), nil
	}
	if slices.Contains(comprehensions, name.text) && p.overVariable() {
		return p.comprehension(name, of)
	}

	n, err := p.arguments(")")
	if err != nil {
		return 0, err
	}

	return call(name, methods, n)
}

// element is the kind of what an index gives, field that of what a name gives.
func element(of kind) kind {
	switch of {
	case propertyList:
		return property
	case property, dynamic:
		return dynamic
	}
	return unsure
}

func field(of kind) kind {
	if of == property || of == dynamic {
		return dynamic
	}
	return unsure
}

func call(name token, known map[string]callable, n int) (kind, error) {
	c, ok := known[name.text]
	if !ok {
		return 0, name.fault("there is no function %s", name.text)
	}
	if n < c.least || n > c.most {
		return 0, name.fault("%s cannot be given %d arguments", name.text, n)
	}
	return c.result, nil
}

// comprehensions are methods whose further arguments are evaluated for each element, under
// the name that is the first.
var comprehensions = []string{"all", "exists", "existsOne", "exists_one", "filter", "map"}

// overVariable reports whether the arguments that follow are those of a comprehension: a
// name and one or two more. A call with another number of them is one of a method.
func (p *parser) overVariable() bool {
	return p.peek().class == identifier && p.tokens[p.at+1].text == ","
}

func (p *parser) comprehension(macro token, over kind) (kind, error) {
	variable := p.peek()
	p.at += 2
	if slices.Contains(reserved, variable.text) {
		return 0, variable.fault("%s is reserved", variable.text)
	}

	p.variables[variable.text] = append(p.variables[variable.text], element(over))
	defer func() {
		kinds := p.variables[variable.text]
		p.variables[variable.text] = kinds[:len(kinds)-1]
	}()
	steps := []kind{}
	for {
		step, err := p.expression()
		if err != nil {
			return 0, err
		}
		if steps = append(steps, step); !p.take(",") {
			break
		}
	}

	if err := p.expect(")"); err != nil {
		return 0, err
	}
	if len(steps) > 1 && (macro.text != "map" || len(steps) > 2) {
		return 0, macro.fault("%s cannot be given %d arguments", macro.text, len(steps)+1)
	}

	if macro.text != "map" || len(steps) == 2 {
		if err := condition(macro, steps[0]); err != nil {
			return 0, err
		}
	}

	switch {
	case macro.text == "map":
		return concrete, nil
	case macro.text != "filter":
		return boolean, nil
	case over == propertyList:
		return propertyList, nil
	default:
		return concrete, nil
	}
}
