package constraint

import (
	"fmt"
	"slices"
	"strings"
)

// tokenClass is the class of a token.
type tokenClass int

const (
	// symbol is an operator, a bracket, or one of the words true, false, null and in.
	symbol tokenClass = iota
	// identifier is a name.
	identifier
	// literal is a number or a text.
	literal
)

// token is a token of a rule. The last one of a rule has no text.
type token struct {
	class        tokenClass
	text         string
	line, column int
}

// symbols are the operators and brackets. A longer one precedes its prefixes.
var symbols = []string{
	"||", "&&", "<=", ">=", "==", "!=", "<", ">", "!", "+", "-", "*", "/", "%", "?", ":", ".", ",", "(", ")", "[", "]", "{", "}",
}

// wordSymbols are the names that are symbols.
var wordSymbols = []string{"true", "false", "null", "in"}

// scanner splits a rule into tokens.
type scanner struct {
	rule     string
	position int
	line     int
	// lineStart is the position of the first byte of the line.
	lineStart int
}

// scanTokens returns the tokens of a rule.
func scanTokens(rule string) ([]token, error) {
	s := &scanner{rule: rule, line: 1}
	var tokens []token
	for {
		s.skipBlanks()
		t := token{line: s.line, column: s.position - s.lineStart + 1}
		if s.position == len(s.rule) {
			return append(tokens, t), nil
		}

		from := s.position
		ok := true
		switch {
		case s.scanNumber():
			t.class = literal
		case s.scanQuoted(&ok):
			t.class = literal
		case isNameByte(rule[s.position]):
			for s.position < len(rule) && isNameByte(rule[s.position]) {
				s.position++
			}
			if !slices.Contains(wordSymbols, rule[from:s.position]) {
				t.class = identifier
			}
		default:
			i := slices.IndexFunc(symbols, func(symbol string) bool { return strings.HasPrefix(rule[s.position:], symbol) })
			if i < 0 {
				return nil, t.errorAtToken("unexpected %.1q", rule[s.position:])
			}
			s.position += len(symbols[i])
		}

		if !ok {
			return nil, t.errorAtToken("the string does not end, or has an invalid escape sequence")
		}

		t.text = rule[from:s.position]
		tokens = append(tokens, t)
	}
}

// skipBlanks skips spaces and comments.
func (s *scanner) skipBlanks() {
	for s.position < len(s.rule) {
		switch c := s.rule[s.position]; {
		case c == '\n':
			s.position++
			s.line, s.lineStart = s.line+1, s.position
		case strings.IndexByte(" \t\r\f", c) >= 0:
			s.position++
		case strings.HasPrefix(s.rule[s.position:], "//"):
			end := strings.IndexByte(s.rule[s.position:], '\n')
			if end < 0 {
				end = len(s.rule) - s.position
			}
			s.position += end
		default:
			return
		}
	}
}

const digits = "0123456789"

// skipAllOf skips bytes of a set and returns their number.
func (s *scanner) skipAllOf(set string) int {
	from := s.position
	for s.position < len(s.rule) && strings.IndexByte(set, s.rule[s.position]) >= 0 {
		s.position++
	}
	return s.position - from
}

// scanNumber skips a number, and reports whether there was one.
func (s *scanner) scanNumber() bool {
	from := s.position
	if strings.HasPrefix(s.rule[s.position:], "0x") {
		s.position += 2
		if s.skipAllOf(digits+"abcdefABCDEF") == 0 {
			s.position = from + 1
			return true
		}
		s.skipOneOf("uU")
		return true
	}

	whole := s.skipAllOf(digits)
	fraction := 0
	if s.position < len(s.rule) && s.rule[s.position] == '.' {
		s.position++
		if fraction = s.skipAllOf(digits); fraction == 0 {
			s.position--
		}
	}

	if whole+fraction == 0 {
		s.position = from
		return false
	}

	before := s.position
	if s.skipOneOf("eE") {
		s.skipOneOf("+-")
		if s.skipAllOf(digits) > 0 {
			return true
		}
		s.position = before
	}

	if fraction == 0 {
		s.skipOneOf("uU")
	}

	return true
}

// skipOneOf skips one byte of a set, and reports whether there was one.
func (s *scanner) skipOneOf(set string) bool {
	ok := s.position < len(s.rule) && strings.IndexByte(set, s.rule[s.position]) >= 0
	if ok {
		s.position++
	}
	return ok
}

// scanQuoted skips a string or bytes literal, and reports whether there was one. It sets ok
// to false if the literal does not end or has an invalid escape.
func (s *scanner) scanQuoted(ok *bool) bool {
	prefix := 0
	for prefix < 2 && s.position+prefix < len(s.rule) && strings.IndexByte("rRbB", s.rule[s.position+prefix]) >= 0 {
		prefix++
	}

	rest := s.rule[s.position+prefix:]
	lower := strings.ToLower(s.rule[s.position : s.position+prefix])
	if rest == "" || rest[0] != '"' && rest[0] != '\'' || lower == "rr" || lower == "bb" || lower == "rb" {
		return false
	}

	quote := rest[:1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(rest, triple) {
		quote = triple
	}

	s.position += prefix + len(quote)
	raw := strings.Contains(lower, "r")
	for s.position < len(s.rule) {
		switch c := s.rule[s.position]; {
		case strings.HasPrefix(s.rule[s.position:], quote):
			s.position += len(quote)
			return true
		case len(quote) == 1 && (c == '\n' || c == '\r'):
			*ok = false
			return true
		case c == '\\' && !raw:
			if n := escapeLength(s.rule[s.position+1:]); n > 0 {
				s.position += 1 + n
				continue
			}
			*ok = false
			return true

		case c == '\n':
			s.position++
			s.line, s.lineStart = s.line+1, s.position
		default:
			s.position++
		}
	}

	*ok = false
	return true
}

// escapeLength returns the length of the escape sequence after a backslash, or 0 if it is
// invalid.
func escapeLength(text string) int {
	if text == "" {
		return 0
	}

	hex := func(n int) int {
		if len(text) <= n || strings.Trim(text[1:1+n], digits+"abcdefABCDEF") != "" {
			return 0
		}
		return 1 + n
	}

	switch c := text[0]; {
	case strings.IndexByte("abfnrtv\"'\\?`", c) >= 0:
		return 1
	case c == 'x' || c == 'X':
		return hex(2)
	case c == 'u':
		return hex(4)
	case c == 'U':
		return hex(8)
	case c >= '0' && c <= '3' && len(text) >= 3 && strings.Trim(text[1:3], "01234567") == "":
		return 3
	}

	return 0
}

// errorAtToken returns a formatted error with the position of the token in the rule.
func (t token) errorAtToken(format string, args ...any) error {
	return fmt.Errorf("line %d, column %d: %s", t.line, t.column, fmt.Sprintf(format, args...))
}

// isNameByte reports whether a byte may be part of a name. Digits cannot be the first byte.
func isNameByte(r byte) bool {
	return r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.IndexByte("0123456789", r) >= 0
}
