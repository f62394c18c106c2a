package jsontext

// literal reads a word at an index where its first letter stands.
func (c *compactor) literal(i int, word string) int {
	for j := 1; j < len(word); j++ {
		if i+j >= len(c.src) || c.src[i+j] != word[j] {
			return c.fail(i+j, "in literal "+word+" (expecting "+quoteByte(word[j])+")")
		}
	}
	return i + len(word)
}

// number reads the number at an index where its sign or first digit stands.
func (c *compactor) number(i int) int {
	src := c.src
	if src[i] == '-' {
		if i++; !isDigit(src, i) {
			return c.fail(i, "in numeric literal")
		}
	}

	if src[i] == '0' {
		i++
	} else {
		i = digits(src, i)
	}

	if i < len(src) && src[i] == '.' {
		if i++; !isDigit(src, i) {
			return c.fail(i, "after decimal point in numeric literal")
		}
		i = digits(src, i)
	}

	if i < len(src) && src[i]|0x20 == 'e' {
		if i++; i < len(src) && (src[i] == '+' || src[i] == '-') {
			i++
		}
		if !isDigit(src, i) {
			return c.fail(i, "in exponent of numeric literal")
		}
		i = digits(src, i)
	}

	return i
}

func isDigit(text []byte, i int) bool {
	return i < len(text) && '0' <= text[i] && text[i] <= '9'
}

// digits returns the index after the digits at an index.
func digits(text []byte, i int) int {
	for isDigit(text, i) {
		i++
	}
	return i
}
