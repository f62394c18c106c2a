package jsontext

// readLiteral reads a literal, whose first letter is at the index.
func (c *compactor) readLiteral(i int, word string) int {
	for j := 1; j < len(word); j++ {
		if i+j >= len(c.src) || c.src[i+j] != word[j] {
			return c.failAtIndex(i+j, "in literal "+word+" (expecting "+quoteInvalidByte(word[j])+")")
		}
	}
	return i + len(word)
}

// readNumber reads a number, whose sign or first digit is at the index.
func (c *compactor) readNumber(i int) int {
	src := c.src
	if src[i] == '-' {
		if i++; !isDigitAt(src, i) {
			return c.failAtIndex(i, "in numeric literal")
		}
	}

	if src[i] == '0' {
		i++
	} else {
		i = skipDigits(src, i)
	}

	if i < len(src) && src[i] == '.' {
		if i++; !isDigitAt(src, i) {
			return c.failAtIndex(i, "after decimal point in numeric literal")
		}
		i = skipDigits(src, i)
	}

	if i < len(src) && src[i]|0x20 == 'e' {
		if i++; i < len(src) && (src[i] == '+' || src[i] == '-') {
			i++
		}
		if !isDigitAt(src, i) {
			return c.failAtIndex(i, "in exponent of numeric literal")
		}
		i = skipDigits(src, i)
	}

	return i
}

func isDigitAt(text []byte, i int) bool {
	return i < len(text) && '0' <= text[i] && text[i] <= '9'
}

// skipDigits returns the index after the digits at an index.
func skipDigits(text []byte, i int) int {
	for isDigitAt(text, i) {
		i++
	}
	return i
}
