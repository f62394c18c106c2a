package jsontext

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// str reads the string whose content begins at an index. It gives the index after the
// closing quote, or -1 with an error, and whether the text is its own canonical form and
// has no escapes.
func (c *compactor) str(i int) (end int, plain bool) {
	src := c.src
	plain = true
	for i < len(src) {
		if i+8 <= len(src) {
			marks := specials(word(src, i))
			if marks == 0 {
				i += 8
				continue
			}
			i += first(marks)
		}
		switch b := src[i]; {
		case b == '"':
			return i + 1, plain
		case b == '\\':
			plain = false
			if i = c.escape(i); i < 0 {
				return i, false
			}
		case b < ' ':
			return c.fail(i, "in string literal"), false
		case b < utf8.RuneSelf:
			i++
		default:
			next, same := c.character(i)
			i, plain = next, plain && same
		}
	}

	return c.fail(i, ""), false
}

// character reads the character beyond ASCII at an index. It tells whether it stays as
// it is.
func (c *compactor) character(i int) (next int, same bool) {
	r, size := utf8.DecodeRune(c.src[i:])
	if (r != utf8.RuneError || size > 1) && r != '\u2028' && r != '\u2029' {
		return i + size, true
	}
	c.replace(i, i+size, r)
	return i + size, false
}

// escape reads the escape sequence at an index.
func (c *compactor) escape(i int) int {
	if i+1 >= len(c.src) {
		return c.fail(i+1, "")
	}

	switch c.src[i+1] {
	case '"', '\\', 'b', 'f', 'n', 'r', 't':
		return i + 2
	case '/':
		c.replace(i, i+2, '/')
		return i + 2
	case 'u':
		r, next := c.unicode(i)
		if next >= 0 {
			c.replace(i, next, r)
		}
		return next
	default:
		return c.fail(i+1, "in string escape code")
	}
}

// replace puts a character in the place of a part of src.
func (c *compactor) replace(i, next int, r rune) {
	c.flush(i)
	c.dst = appendCharacter(c.dst, r)
	c.run = next
}

// unicode reads the escape sequence \uXXXX at an index, or the two of a character that
// takes two. A half of such a pair alone is U+FFFD.
func (c *compactor) unicode(i int) (r rune, next int) {
	for j := i + 2; j < i+6; j++ {
		if j >= len(c.src) || hexValue(c.src[j]) < 0 {
			return 0, c.fail(j, "in \\u hexadecimal character escape")
		}
	}
	return unescape(c.src, i)
}

// unescape decodes the escape sequence \uXXXX at an index, which is known to be whole.
func unescape(text []byte, i int) (r rune, next int) {
	r, next = hex4(text, i), i+6
	if !utf16.IsSurrogate(r) {
		return r, next
	}

	if second := hex4(text, next); second >= 0 {
		if pair := utf16.DecodeRune(r, second); pair != utf8.RuneError {
			return pair, next + 6
		}
	}
	return utf8.RuneError, next
}

// hex4 returns the number of the escape sequence \uXXXX at an index, and -1 when there is
// none.
func hex4(text []byte, i int) rune {
	if i+6 > len(text) || text[i] != '\\' || text[i+1] != 'u' {
		return -1
	}

	var r rune
	for _, b := range text[i+2 : i+6] {
		digit := hexValue(b)
		if digit < 0 {
			return -1
		}
		r = r<<4 | digit
	}

	return r
}

func hexValue(b byte) rune {
	switch {
	case '0' <= b && b <= '9':
		return rune(b - '0')
	case 'a' <= b && b <= 'f':
		return rune(b-'a') + 10
	case 'A' <= b && b <= 'F':
		return rune(b-'A') + 10
	}

	return -1
}

// appendCharacter appends a character of a string with the escape that it needs.
func appendCharacter(dst []byte, r rune) []byte {
	const hex = "0123456789abcdef"
	switch r {
	case '"', '\\':
		return append(dst, '\\', byte(r))
	case '\b':
		return append(dst, `\b`...)
	case '\f':
		return append(dst, `\f`...)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	case '\u2028':
		return append(dst, `\u2028`...)
	case '\u2029':
		return append(dst, `\u2029`...)
	}

	if r < ' ' {
		return append(dst, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
	}
	return utf8.AppendRune(dst, r)
}

// AppendQuoted appends a text as a canonical JSON string. See Compact.
func AppendQuoted[T ~string | ~[]byte](dst []byte, text T) []byte {
	dst = append(append(dst, '"'), text...)
	end := len(dst)
	begin := plainEnd(dst, end-len(text))
	if begin < end {
		// The text with its escapes is written behind the one without and then moved over it.
		dst = appendEscaped(dst, begin, end)
		size := copy(dst[begin:], dst[end:])
		dst = dst[:begin+size]
	}

	return append(dst, '"')
}

// appendEscaped appends a part of dst, which is a text, as the content of a string.
func appendEscaped(dst []byte, i, end int) []byte {
	for run := i; ; {
		if i = min(plainEnd(dst, i), end); i == end {
			return append(dst, dst[run:end]...)
		}

		r, size := utf8.DecodeRune(dst[i:end])
		if r >= utf8.RuneSelf && (r != utf8.RuneError || size > 1) && r != '\u2028' && r != '\u2029' {
			i += size
			continue
		}

		dst = append(dst, dst[run:i]...)
		dst = appendCharacter(dst, r)
		i += size
		run = i
	}
}

// Unquote returns the content of a JSON string. It reads all that encoding/json reads as
// one, and says by a *SyntaxError what is wrong otherwise.
func Unquote(quoted []byte) (string, error) {
	if len(quoted) >= 2 && quoted[0] == '"' && plainEnd(quoted, 1) == len(quoted)-1 && quoted[len(quoted)-1] == '"' {
		return string(quoted[1 : len(quoted)-1]), nil
	}

	canonical, n, err := Compact(nil, quoted, 1)
	if err != nil {
		return "", err
	}
	if n != len(quoted) || canonical[0] != '"' {
		return "", &SyntaxError{Offset: n, Err: errNoString}
	}

	text := appendUnquoted(canonical[:0], canonical[1:len(canonical)-1])
	return string(text), nil
}

// AppendUnquoted appends the content of a canonical JSON string. See Compact.
func AppendUnquoted(dst, quoted []byte) []byte {
	if len(quoted) < 2 {
		return dst
	}
	return appendUnquoted(dst, quoted[1:len(quoted)-1])
}

// plainEnd returns the index of the first byte at or after an index that does not stand for
// itself in a string, or is not ASCII.
func plainEnd(text []byte, i int) int {
	for ; i+8 <= len(text); i += 8 {
		if marks := specials(word(text, i)); marks != 0 {
			return i + first(marks)
		}
	}

	for ; i < len(text); i++ {
		if b := text[i]; b < ' ' || b == '"' || b == '\\' || b >= utf8.RuneSelf {
			break
		}
	}
	return i
}

// appendUnquoted appends what the content of a canonical string stands for. It may be
// appended to the text that the content is a later part of: it is never longer.
func appendUnquoted(dst, inner []byte) []byte {
	for {
		i := bytes.IndexByte(inner, '\\')
		if i < 0 || i+1 >= len(inner) {
			return append(dst, inner...)
		}

		dst = append(dst, inner[:i]...)
		next := i + 2
		switch b := inner[i+1]; b {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			var r rune
			r, next = unescape(inner, i)
			next = min(next, len(inner))
			dst = utf8.AppendRune(dst, r)
		default:
			dst = append(dst, b)
		}

		inner = inner[next:]
	}
}
