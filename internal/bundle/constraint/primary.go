package constraint

import "slices"

// parsePrimary parses a literal, a name, a call of a function, a list, a map, a message or
// an expression in parentheses.
func (p *parser) parsePrimary() (valueKind, error) {
	t := p.peekToken()
	switch {
	case t.class == literal:
		p.position++
		return concrete, nil
	case p.acceptSymbol("true", "false"):
		return boolean, nil
	case p.acceptSymbol("null"):
		return concrete, nil
	case p.acceptSymbol("("):
		result, err := p.parseExpression()
		if err != nil {
			return 0, err
		}
		return result, p.expectSymbol(")")

	case p.acceptSymbol("["):
		_, err := p.parseArguments("]")
		return concrete, err
	case p.acceptSymbol("{"):
		return concrete, p.parseEntries(false)
	case p.acceptSymbol("."):
		t = p.peekToken()
	}

	if t.class != identifier {
		return 0, p.unexpectedTokenError()
	}

	p.position++
	if slices.Contains(reservedWords, t.text) {
		return 0, t.errorAtToken("%s is reserved", t.text)
	}

	return p.parseNamed(t)
}

// parseNamed parses what follows a name: a call, the rest of the name of a type and its
// message, or nothing.
func (p *parser) parseNamed(name token) (valueKind, error) {
	if p.acceptSymbol("(") {
		if name.text == "has" {
			return p.parseHas()
		}
		n, err := p.parseArguments(")")
		if err != nil {
			return 0, err
		}
		return checkCall(name, functionSignatures, n)
	}

	if kinds := p.variables[name.text]; len(kinds) > 0 {
		return kinds[len(kinds)-1], nil
	}
	// CEL knows the messages of google.protobuf, although no rule needs them.
	if name.text == "google" {
		return unsure, p.parseMessage()
	}
	if slices.Contains(typeNames, name.text) {
		return concrete, nil
	}

	return 0, name.errorAtToken("there is no %s: a rule is about the variable properties", name.text)
}

// parseHas parses the argument of has, which must select a field.
func (p *parser) parseHas() (valueKind, error) {
	start := p.peekToken()
	before := p.position
	if _, err := p.parseExpression(); err != nil {
		return 0, err
	}

	selects := p.position-before >= 3 && p.tokens[p.position-1].class == identifier && p.tokens[p.position-2].text == "." || p.tokens[p.position-1].text == ")"
	if !selects {
		return 0, start.errorAtToken("has takes a field, such as has(p.value)")
	}

	return boolean, p.expectSymbol(")")
}

// parseMessage parses the rest of the name of a message, and its fields.
func (p *parser) parseMessage() error {
	from := p.position
	for p.acceptSymbol(".") {
		if p.peekToken().class != identifier {
			return p.unexpectedTokenError()
		}
		if p.position++; p.peekToken().text == "(" {
			// It is a method.
			p.position -= 2
			return nil
		}
	}

	if p.position == from || !p.acceptSymbol("{") {
		return nil
	}
	return p.parseEntries(true)
}

// parseArguments parses expressions with commas between them, up to the closing text, and
// returns their number. A list may end with a comma, even an empty one. So may a map and a
// message.
func (p *parser) parseArguments(end string) (int, error) {
	if end == "]" && p.acceptSymbol(",") {
		return 0, p.expectSymbol(end)
	}

	for n := 0; ; {
		if p.acceptSymbol(end) {
			return n, nil
		}
		if _, err := p.parseExpression(); err != nil {
			return 0, err
		}

		n++
		if p.acceptSymbol(end) {
			return n, nil
		}
		if err := p.expectSymbol(","); err != nil {
			return 0, err
		}
		if end == ")" && p.peekToken().text == end {
			return 0, p.unexpectedTokenError()
		}
	}
}

// parseEntries parses the entries of a map, or the fields of a message, up to the closing
// brace.
func (p *parser) parseEntries(fields bool) error {
	if p.acceptSymbol(",") {
		return p.expectSymbol("}")
	}

	for !p.acceptSymbol("}") {
		if fields {
			if p.peekToken().class != identifier {
				return p.unexpectedTokenError()
			}
			p.position++
		} else if _, err := p.parseExpression(); err != nil {
			return err
		}

		if err := p.expectSymbol(":"); err != nil {
			return err
		}
		if _, err := p.parseExpression(); err != nil {
			return err
		}
		if p.acceptSymbol("}") {
			break
		}
		if err := p.expectSymbol(","); err != nil {
			return err
		}
	}

	return nil
}
