package jsontext

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// readString reads a string whose content begins at the index. It returns the index after the
// closing quote, or -1 if it sets an error. plain is true if the text is canonical and has no
// escapes.
func (c *compactor) readString(i int) (end int, plain bool) {
	src := c.src
	plain = true
	for i < len(src) {
		if i+8 <= len(src) {
			marks := markSpecials(loadEightBytes(src, i))
			if marks == 0 {
				i += 8
				continue
			}
			i += firstMarkedByte(marks)
		}
		switch b := src[i]; {
		case b == '"':
			return i + 1, plain
		case b == '\\':
			plain = false
			if i = c.readEscapeSequence(i); i < 0 {
				return i, false
			}
		case b < ' ':
			return c.failAtIndex(i, "in string literal"), false
		case b < utf8.RuneSelf:
			i++
		default:
			next, same := c.readCharacter(i)
			i, plain = next, plain && same
		}
	}

	return c.failAtIndex(i, ""), false
}

// readCharacter reads the non-ASCII character at an index. It reports whether the character is
// copied unchanged.
func (c *compactor) readCharacter(i int) (next int, same bool) {
	r, size := utf8.DecodeRune(c.src[i:])
	if (r != utf8.RuneError || size > 1) && r != '\u2028' && r != '\u2029' {
		return i + size, true
	}
	c.replaceByCharacter(i, i+size, r)
	return i + size, false
}

// readEscapeSequence reads the escape sequence at an index.
func (c *compactor) readEscapeSequence(i int) int {
	if i+1 >= len(c.src) {
		return c.failAtIndex(i+1, "")
	}

	switch c.src[i+1] {
	case '"', '\\', 'b', 'f', 'n', 'r', 't':
		return i + 2
	case '/':
		c.replaceByCharacter(i, i+2, '/')
		return i + 2
	case 'u':
		r, next := c.readUnicodeEscape(i)
		if next >= 0 {
			c.replaceByCharacter(i, next, r)
		}
		return next
	default:
		return c.failAtIndex(i+1, "in string escape code")
	}
}

// replaceByCharacter replaces a part of src by a character.
func (c *compactor) replaceByCharacter(i, next int, r rune) {
	c.copySourceUntil(i)
	c.dst = appendCharacter(c.dst, r)
	c.copyFrom = next
}

// readUnicodeEscape reads the escape sequence \uXXXX at an index, or a surrogate pair of two. An
// unpaired surrogate becomes U+FFFD.
func (c *compactor) readUnicodeEscape(i int) (r rune, next int) {
	for j := i + 2; j < i+6; j++ {
		if j >= len(c.src) || hexDigitValue(c.src[j]) < 0 {
			return 0, c.failAtIndex(j, "in \\u hexadecimal character escape")
		}
	}
	return decodeUnicodeEscape(c.src, i)
}

// decodeUnicodeEscape decodes the complete escape sequence \uXXXX at an index, or a surrogate
// pair of two.
func decodeUnicodeEscape(text []byte, i int) (r rune, next int) {
	r, next = parseHexEscape(text, i), i+6
	if !utf16.IsSurrogate(r) {
		return r, next
	}

	if second := parseHexEscape(text, next); second >= 0 {
		if pair := utf16.DecodeRune(r, second); pair != utf8.RuneError {
			return pair, next + 6
		}
	}
	return utf8.RuneError, next
}

// parseHexEscape returns the number of the escape sequence \uXXXX at an index, or -1 if there is
// none.
func parseHexEscape(text []byte, i int) rune {
	if i+6 > len(text) || text[i] != '\\' || text[i+1] != 'u' {
		return -1
	}

	var r rune
	for _, b := range text[i+2 : i+6] {
		digit := hexDigitValue(b)
		if digit < 0 {
			return -1
		}
		r = r<<4 | digit
	}

	return r
}

func hexDigitValue(b byte) rune {
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

// appendCharacter appends a character of a string, escaped if needed.
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
	begin := findPlainEnd(dst, end-len(text))
	if begin < end {
		// The escaped text is appended and then moved over the unescaped one.
		dst = appendEscaped(dst, begin, end)
		size := copy(dst[begin:], dst[end:])
		dst = dst[:begin+size]
	}

	return append(dst, '"')
}

// appendEscaped appends a part of dst, which is plain text, as the content of a JSON string.
func appendEscaped(dst []byte, i, end int) []byte {
	for run := i; ; {
		if i = min(findPlainEnd(dst, i), end); i == end {
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

// Unquote returns the content of a JSON string. It accepts the strings that encoding/json
// accepts, and returns a *SyntaxError for all other texts.
func Unquote(quoted []byte) (string, error) {
	if len(quoted) >= 2 && quoted[0] == '"' && findPlainEnd(quoted, 1) == len(quoted)-1 && quoted[len(quoted)-1] == '"' {
		return string(quoted[1 : len(quoted)-1]), nil
	}

	canonical, n, err := Compact(nil, quoted, 1)
	if err != nil {
		return "", err
	}
	if n != len(quoted) || canonical[0] != '"' {
		return "", &SyntaxError{Offset: n, Err: errNotOneString}
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

// findPlainEnd returns the index of the first byte at or after i that is not ASCII or needs an
// escape in a string.
func findPlainEnd(text []byte, i int) int {
	for ; i+8 <= len(text); i += 8 {
		if marks := markSpecials(loadEightBytes(text, i)); marks != 0 {
			return i + firstMarkedByte(marks)
		}
	}

	for ; i < len(text); i++ {
		if b := text[i]; b < ' ' || b == '"' || b == '\\' || b >= utf8.RuneSelf {
			break
		}
	}
	return i
}

// appendUnquoted appends the unescaped content of a canonical string. dst may be an earlier part
// of the text that contains inner, as the result is never longer than inner.
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
			r, next = decodeUnicodeEscape(inner, i)
			next = min(next, len(inner))
			dst = utf8.AppendRune(dst, r)
		default:
			dst = append(dst, b)
		}

		inner = inner[next:]
	}
}
