package constraint

import "slices"

// primary reads a literal, a name, a call of a function, a list, a map, a message or an
// expression in parentheses.
func (p *parser) primary() (kind, error) {
	t := p.peek()
	switch {
	case t.class == literal:
		p.at++
		return concrete, nil
	case p.take("true", "false"):
		return boolean, nil
	case p.take("null"):
		return concrete, nil
	case p.take("("):
		result, err := p.expression()
		if err != nil {
			return 0, err
		}
		return result, p.expect(")")

	case p.take("["):
		_, err := p.arguments("]")
		return concrete, err
	case p.take("{"):
		return concrete, p.entries(false)
	case p.take("."):
		t = p.peek()
	}

	if t.class != identifier {
		return 0, p.unexpected()
	}

	p.at++
	if slices.Contains(reserved, t.text) {
		return 0, t.fault("%s is reserved", t.text)
	}

	return p.named(t)
}

// named reads what follows a name: a call, the rest of the name of a type and its message,
// or nothing.
func (p *parser) named(name token) (kind, error) {
	if p.take("(") {
		if name.text == "has" {
			return p.has()
		}
		n, err := p.arguments(")")
		if err != nil {
			return 0, err
		}
		return call(name, functions, n)
	}

	if kinds := p.variables[name.text]; len(kinds) > 0 {
		return kinds[len(kinds)-1], nil
	}
	// The messages of google.protobuf are known, though no rule needs them.
	if name.text == "google" {
		return unsure, p.message()
	}
	if slices.Contains(types, name.text) {
		return concrete, nil
	}

	return 0, name.fault("there is no %s: a rule is about the variable properties", name.text)
}

// has reads the argument of has: a field of something.
func (p *parser) has() (kind, error) {
	start := p.peek()
	before := p.at
	if _, err := p.expression(); err != nil {
		return 0, err
	}

	selects := p.at-before >= 3 && p.tokens[p.at-1].class == identifier && p.tokens[p.at-2].text == "." || p.tokens[p.at-1].text == ")"
	if !selects {
		return 0, start.fault("has takes a field, such as has(p.value)")
	}

	return boolean, p.expect(")")
}

// message reads the rest of the name of a message, and its fields.
func (p *parser) message() error {
	from := p.at
	for p.take(".") {
		if p.peek().class != identifier {
			return p.unexpected()
		}
		if p.at++; p.peek().text == "(" {
			// A method of something.
			p.at -= 2
			return nil
		}
	}

	if p.at == from || !p.take("{") {
		return nil
	}
	return p.entries(true)
}

// arguments reads expressions with commas between them, up to the closing text, and counts
// them. A list may end with a comma, even an empty one; so may a map and a message.
func (p *parser) arguments(end string) (int, error) {
	if end == "]" && p.take(",") {
		return 0, p.expect(end)
	}

	for n := 0; ; {
		if p.take(end) {
			return n, nil
		}
		if _, err := p.expression(); err != nil {
			return 0, err
		}

		n++
		if p.take(end) {
			return n, nil
		}
		if err := p.expect(","); err != nil {
			return 0, err
		}
		if end == ")" && p.peek().text == end {
			return 0, p.unexpected()
		}
	}
}

// entries reads the entries of a map, or the fields of a message, up to the closing brace.
func (p *parser) entries(fields bool) error {
	if p.take(",") {
		return p.expect("}")
	}

	for !p.take("}") {
		if fields {
			if p.peek().class != identifier {
				return p.unexpected()
			}
			p.at++
		} else if _, err := p.expression(); err != nil {
			return err
		}

		if err := p.expect(":"); err != nil {
			return err
		}
		if _, err := p.expression(); err != nil {
			return err
		}
		if p.take("}") {
			break
		}
		if err := p.expect(","); err != nil {
			return err
		}
	}

	return nil
}
