// Package constraint checks the CEL rule of an olm.constraint: that it is an expression,
// that it uses existing functions and variables, and that its type is boolean. It evaluates
// nothing; internal/resolve chooses bundles.
//
// The CEL library would also check the types of operands. But it costs every program that
// links it 3 MiB of memory and a millisecond at each start, used or not. Scripts start opm
// hundreds of times, and it checks a rule once in a release. The library rejects everything
// that this package rejects. A test with random rules verifies that.
package constraint

import (
	"errors"
	"slices"
)

// Limits of a rule. A whole constraint has at most 64 KiB. The library itself rejects an
// expression that is nested deeper than 250 levels.
const (
	maxRuleBytes    = 64 << 10
	maxNestingDepth = 300
)

// valueKind is what is known of the type of an expression.
type valueKind int

const (
	// unsure may have any type, because its type depends on what this package does not
	// check.
	unsure valueKind = iota
	// dynamic has a type that only evaluation determines. It is accepted in place of any
	// type, but a rule of it is not known to be boolean.
	dynamic
	boolean
	// concrete has a known type other than the types below and boolean.
	concrete
	// propertyList is the list of a bundle's properties, and property an element of it.
	propertyList
	property
)

// signature is the number of arguments and the result of a function or method.
type signature struct {
	least, most int
	result      valueKind
}

var functionSignatures = map[string]signature{
	"bool": {1, 1, boolean}, "bytes": {1, 1, concrete}, "double": {1, 1, concrete}, "duration": {1, 1, concrete}, "dyn": {1, 1, dynamic},
	"int": {1, 1, concrete}, "matches": {2, 2, boolean}, "size": {1, 1, concrete}, "string": {1, 1, concrete}, "timestamp": {1, 1, concrete},
	"type": {1, 1, concrete}, "uint": {1, 1, concrete},
	// semver_compare is a function of OLM. It returns -1, 0 or 1 for two versions.
	"semver_compare": {2, 2, concrete},
}

var methodSignatures = map[string]signature{
	"contains": {1, 1, boolean}, "endsWith": {1, 1, boolean}, "matches": {1, 1, boolean}, "size": {0, 0, concrete}, "startsWith": {1, 1, boolean},
	"getDate": {0, 1, concrete}, "getDayOfMonth": {0, 1, concrete}, "getDayOfWeek": {0, 1, concrete}, "getDayOfYear": {0, 1, concrete},
	"getFullYear": {0, 1, concrete}, "getHours": {0, 1, concrete}, "getMilliseconds": {0, 1, concrete}, "getMinutes": {0, 1, concrete},
	"getMonth": {0, 1, concrete}, "getSeconds": {0, 1, concrete},
}

// typeNames are the names of types, which are values, too.
var typeNames = []string{"bool", "bytes", "double", "dyn", "int", "list", "map", "null_type", "string", "type", "uint"}

// reservedWords cannot be used as names.
var reservedWords = []string{
	"as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop", "namespace", "null",
	"package", "return", "true", "var", "void", "while",
}

// CheckRule returns an error if a rule is not a boolean CEL expression over the variable
// properties.
func CheckRule(rule string) error {
	if len(rule) > maxRuleBytes {
		return errors.New("the expression is longer than 64 KiB")
	}

	tokens, err := scanTokens(rule)
	if err != nil {
		return err
	}

	p := &parser{tokens: tokens, variables: map[string][]valueKind{"properties": {propertyList}}}
	result, err := p.parseExpression()
	if err == nil && p.peekToken().text != "" {
		err = p.unexpectedTokenError()
	}
	if err != nil {
		return err
	}
	if result != boolean && result != unsure {
		return errors.New("cel expressions must have type Bool")
	}

	return nil
}

// parser parses an expression and determines its kind.
type parser struct {
	tokens   []token
	position int
	depth    int
	// variables are the variables in scope. The last kind of a name is that of the
	// innermost scope.
	variables map[string][]valueKind
}

func (p *parser) peekToken() token { return p.tokens[p.position] }

// acceptSymbol consumes the next token if it is one of the texts, and reports whether it
// is.
func (p *parser) acceptSymbol(texts ...string) bool {
	if t := p.peekToken(); t.class == symbol && slices.Contains(texts, t.text) {
		p.position++
		return true
	}
	return false
}

func (p *parser) expectSymbol(text string) error {
	if !p.acceptSymbol(text) {
		return p.unexpectedTokenError()
	}
	return nil
}

func (p *parser) unexpectedTokenError() error {
	t := p.peekToken()
	if t.text == "" {
		return t.errorAtToken("the expression ends too early")
	}
	return t.errorAtToken("unexpected %s", t.text)
}

// checkCondition returns an error for an operand that cannot be boolean.
func checkCondition(t token, k valueKind) error {
	if k == concrete || k == propertyList || k == property {
		return t.errorAtToken("%s: the operand is not a boolean", t.text)
	}
	return nil
}

// parseExpression parses: or ["?" or ":" expression].
func (p *parser) parseExpression() (valueKind, error) {
	if p.depth++; p.depth > maxNestingDepth {
		return 0, p.peekToken().errorAtToken("the expression is nested deeper than %d levels", maxNestingDepth)
	}
	defer func() { p.depth-- }()
	result, err := p.parseBinary(0)
	question := p.peekToken()
	if err != nil || !p.acceptSymbol("?") {
		return result, err
	}
	if err := checkCondition(question, result); err != nil {
		return 0, err
	}

	first, err := p.parseBinary(0)
	if err != nil {
		return 0, err
	}
	if err := p.expectSymbol(":"); err != nil {
		return 0, err
	}

	second, err := p.parseExpression()
	if err != nil || first != second {
		return unsure, err
	}

	return first, nil
}

// operators are the binary operators with their result, the loosest first.
var operators = []struct {
	texts  []string
	result valueKind
}{
	{[]string{"||"}, boolean},
	{[]string{"&&"}, boolean},
	{[]string{"<", "<=", ">", ">=", "==", "!=", "in"}, boolean},
	{[]string{"+", "-"}, unsure}, // the type depends on the operands
	{[]string{"*", "/", "%"}, concrete},
}

// parseBinary parses operands with operators of a level and tighter ones between them.
func (p *parser) parseBinary(level int) (valueKind, error) {
	if level == len(operators) {
		return p.parseUnary()
	}

	left, err := p.parseBinary(level + 1)
	for err == nil {
		operator := p.peekToken()
		if !p.acceptSymbol(operators[level].texts...) {
			return left, nil
		}

		var right valueKind
		if right, err = p.parseBinary(level + 1); err != nil {
			break
		}

		for _, operand := range []valueKind{left, right} {
			if level < 2 && err == nil {
				err = checkCondition(operator, operand)
			}
		}

		left = operators[level].result
	}

	return 0, err
}

// parseUnary parses: {"!"} member | {"-"} member. Like the library, it drops pairs of "!"
// without a check of the operand.
func (p *parser) parseUnary() (valueKind, error) {
	sign := p.peekToken()
	n := 0
	for p.acceptSymbol("!") {
		n++
	}

	if n > 0 {
		operand, err := p.parseMember()
		if err != nil || n%2 == 0 {
			return operand, err
		}
		return boolean, checkCondition(sign, operand)
	}

	for p.acceptSymbol("-") {
		n++
	}

	operand, err := p.parseMember()
	if n > 0 {
		operand = unsure
	}

	return operand, err
}

// parseMember parses: primary {"." name ["(" arguments ")"] | "[" expression "]"}.
func (p *parser) parseMember() (valueKind, error) {
	result, err := p.parsePrimary()
	for err == nil {
		switch {
		case p.acceptSymbol("."):
			result, err = p.parseSelection(result)
		case p.acceptSymbol("["):
			if _, err = p.parseExpression(); err == nil {
				err = p.expectSymbol("]")
			}
			result = elementKind(result)
		default:
			return result, nil
		}
	}

	return 0, err
}

// parseSelection parses what follows a dot.
func (p *parser) parseSelection(of valueKind) (valueKind, error) {
	name := p.peekToken()
	if name.class != identifier {
		return 0, p.unexpectedTokenError()
	}

	p.position++
	if !p.acceptSymbol("(") {
		return fieldKind(of), nil
	}
	if slices.Contains(comprehensions, name.text) && p.isComprehension() {
		return p.parseComprehension(name, of)
	}

	n, err := p.parseArguments(")")
	if err != nil {
		return 0, err
	}

	return checkCall(name, methodSignatures, n)
}

// elementKind returns the kind of an element of a value.
func elementKind(of valueKind) valueKind {
	switch of {
	case propertyList:
		return property
	case property, dynamic:
		return dynamic
	}
	return unsure
}

// fieldKind returns the kind of a field of a value.
func fieldKind(of valueKind) valueKind {
	if of == property || of == dynamic {
		return dynamic
	}
	return unsure
}

// checkCall returns the result of a call with n arguments, or an error if there is no such
// function.
func checkCall(name token, known map[string]signature, n int) (valueKind, error) {
	c, ok := known[name.text]
	if !ok {
		return 0, name.errorAtToken("there is no function %s", name.text)
	}
	if n < c.least || n > c.most {
		return 0, name.errorAtToken("%s does not take %d arguments", name.text, n)
	}
	return c.result, nil
}

// comprehensions are methods whose first argument is a variable name. Their other arguments
// are evaluated for each element.
var comprehensions = []string{"all", "exists", "existsOne", "exists_one", "filter", "map"}

// isComprehension reports whether the next arguments are those of a comprehension: a name
// and one or two more. With another number of arguments, it is a call of a method.
func (p *parser) isComprehension() bool {
	return p.peekToken().class == identifier && p.tokens[p.position+1].text == ","
}

// parseComprehension parses the arguments of a comprehension.
func (p *parser) parseComprehension(macro token, over valueKind) (valueKind, error) {
	variable := p.peekToken()
	p.position += 2
	if slices.Contains(reservedWords, variable.text) {
		return 0, variable.errorAtToken("%s is reserved", variable.text)
	}

	p.variables[variable.text] = append(p.variables[variable.text], elementKind(over))
	defer func() {
		kinds := p.variables[variable.text]
		p.variables[variable.text] = kinds[:len(kinds)-1]
	}()
	steps := []valueKind{}
	for {
		step, err := p.parseExpression()
		if err != nil {
			return 0, err
		}
		if steps = append(steps, step); !p.acceptSymbol(",") {
			break
		}
	}

	if err := p.expectSymbol(")"); err != nil {
		return 0, err
	}
	if len(steps) > 1 && (macro.text != "map" || len(steps) > 2) {
		return 0, macro.errorAtToken("%s does not take %d arguments", macro.text, len(steps)+1)
	}

	if macro.text != "map" || len(steps) == 2 {
		if err := checkCondition(macro, steps[0]); err != nil {
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
