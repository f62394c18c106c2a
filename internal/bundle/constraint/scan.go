package constraint

import (
	"fmt"
	"slices"
	"strings"
)

// class is what a token is.
type class int

const (
	// symbol is an operator, a bracket, or one of the words true, false, null and in.
	symbol class = iota
	// identifier is a name.
	identifier
	// literal is a number or a text.
	literal
)

// token is a word of a rule. The last one of a rule has no text.
type token struct {
	class        class
	text         string
	line, column int
}

// symbols are the operators and brackets, longer ones before those that they start with.
var symbols = []string{
	"||", "&&", "<=", ">=", "==", "!=", "<", ">", "!", "+", "-", "*", "/", "%", "?", ":", ".", ",", "(", ")", "[", "]", "{", "}",
}

var words = []string{"true", "false", "null", "in"}

// scanner cuts a rule into tokens.
type scanner struct {
	rule string
	at   int
	line int
	// start is where the line starts.
	start int
}

func scan(rule string) ([]token, error) {
	s := &scanner{rule: rule, line: 1}
	var tokens []token
	for {
		s.blank()
		t := token{line: s.line, column: s.at - s.start + 1}
		if s.at == len(s.rule) {
			return append(tokens, t), nil
		}

		from := s.at
		ok := true
		switch {
		case s.number():
			t.class = literal
		case s.quoted(&ok):
			t.class = literal
		case isName(rule[s.at]):
			for s.at < len(rule) && isName(rule[s.at]) {
				s.at++
			}
			if !slices.Contains(words, rule[from:s.at]) {
				t.class = identifier
			}
		default:
			i := slices.IndexFunc(symbols, func(symbol string) bool { return strings.HasPrefix(rule[s.at:], symbol) })
			if i < 0 {
				return nil, t.fault("unexpected %.1q", rule[s.at:])
			}
			s.at += len(symbols[i])
		}

		if !ok {
			return nil, t.fault("the text does not end, or holds what \\ cannot stand before")
		}

		t.text = rule[from:s.at]
		tokens = append(tokens, t)
	}
}

// blank passes over spaces and comments.
func (s *scanner) blank() {
	for s.at < len(s.rule) {
		switch c := s.rule[s.at]; {
		case c == '\n':
			s.at++
			s.line, s.start = s.line+1, s.at
		case strings.IndexByte(" \t\r\f", c) >= 0:
			s.at++
		case strings.HasPrefix(s.rule[s.at:], "//"):
			end := strings.IndexByte(s.rule[s.at:], '\n')
			if end < 0 {
				end = len(s.rule) - s.at
			}
			s.at += end
		default:
			return
		}
	}
}

const digits = "0123456789"

// run passes over bytes of a set and tells how many there were.
func (s *scanner) run(set string) int {
	from := s.at
	for s.at < len(s.rule) && strings.IndexByte(set, s.rule[s.at]) >= 0 {
		s.at++
	}
	return s.at - from
}

// number passes over a number, and tells whether there was one.
func (s *scanner) number() bool {
	from := s.at
	if strings.HasPrefix(s.rule[s.at:], "0x") {
		s.at += 2
		if s.run(digits+"abcdefABCDEF") == 0 {
			s.at = from + 1
			return true
		}
		s.suffix("uU")
		return true
	}

	whole := s.run(digits)
	fraction := 0
	if s.at < len(s.rule) && s.rule[s.at] == '.' {
		s.at++
		if fraction = s.run(digits); fraction == 0 {
			s.at--
		}
	}

	if whole+fraction == 0 {
		s.at = from
		return false
	}

	before := s.at
	if s.suffix("eE") {
		s.suffix("+-")
		if s.run(digits) > 0 {
			return true
		}
		s.at = before
	}

	if fraction == 0 {
		s.suffix("uU")
	}

	return true
}

// suffix passes over one byte of a set and tells whether it was there.
func (s *scanner) suffix(set string) bool {
	ok := s.at < len(s.rule) && strings.IndexByte(set, s.rule[s.at]) >= 0
	if ok {
		s.at++
	}
	return ok
}

// quoted passes over a text or bytes, and tells whether there were any. They are ok when
// they end and hold no wrong escape.
func (s *scanner) quoted(ok *bool) bool {
	prefix := 0
	for prefix < 2 && s.at+prefix < len(s.rule) && strings.IndexByte("rRbB", s.rule[s.at+prefix]) >= 0 {
		prefix++
	}

	rest := s.rule[s.at+prefix:]
	lower := strings.ToLower(s.rule[s.at : s.at+prefix])
	if rest == "" || rest[0] != '"' && rest[0] != '\'' || lower == "rr" || lower == "bb" || lower == "rb" {
		return false
	}

	quote := rest[:1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(rest, triple) {
		quote = triple
	}

	s.at += prefix + len(quote)
	raw := strings.Contains(lower, "r")
	for s.at < len(s.rule) {
		switch c := s.rule[s.at]; {
		case strings.HasPrefix(s.rule[s.at:], quote):
			s.at += len(quote)
			return true
		case len(quote) == 1 && (c == '\n' || c == '\r'):
			*ok = false
			return true
		case c == '\\' && !raw:
			if n := escape(s.rule[s.at+1:]); n > 0 {
				s.at += 1 + n
				continue
			}
			*ok = false
			return true

		case c == '\n':
			s.at++
			s.line, s.start = s.line+1, s.at
		default:
			s.at++
		}
	}

	*ok = false
	return true
}

// escape returns how long the escape is that follows a backslash, and 0 if it is none.
func escape(text string) int {
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

// fault is an error at the token's place in the rule.
func (t token) fault(format string, args ...any) error {
	return fmt.Errorf("line %d, column %d: %s", t.line, t.column, fmt.Sprintf(format, args...))
}

// isName reports whether a rune can stand in a name; digits cannot come first.
func isName(r byte) bool {
	return r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.IndexByte("0123456789", r) >= 0
}
