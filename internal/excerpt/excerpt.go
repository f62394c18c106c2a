// Package excerpt limits the length of texts and lists for messages, events and logs. Truncated texts are valid
// UTF-8.
package excerpt

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ellipsis ends a text whose rest is left out.
const ellipsis = "…"

// Start returns the start of a text, with at most maxBytes bytes including the ellipsis that ends a
// truncated one.
func Start(text string, maxBytes int) string {
	if len(text) > maxBytes {
		text = text[:max(0, maxBytes-len(ellipsis))]
		return strings.ToValidUTF8(text, "") + ellipsis
	}
	return strings.ToValidUTF8(text, "")
}

// Line returns the start of a text as one line: control characters, line breaks and repeated spaces
// become one space. It is for texts from outside that a message quotes.
func Line(text string, maxBytes int) string {
	isSeparator := func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }
	return Start(strings.Join(strings.FieldsFunc(text, isSeparator), " "), maxBytes)
}

// Ends returns the start and the end of a text, with at most maxBytes bytes including a note of how
// much is left out in the middle. In an error the start states what failed and the end the
// innermost cause.
func Ends(text string, maxBytes int) string {
	if len(text) <= maxBytes {
		return strings.ToValidUTF8(text, "")
	}

	note := fmt.Sprintf(" … (%d bytes left out) … ", len(text)-maxBytes)
	head := max(0, maxBytes-len(note)) * 2 / 3
	tail := len(text) - max(0, maxBytes-len(note)-head)
	for head > 0 && !utf8.RuneStart(text[head]) {
		head--
	}

	for tail < len(text) && !utf8.RuneStart(text[tail]) {
		tail++
	}

	return strings.ToValidUTF8(text[:head], "") + note + strings.ToValidUTF8(text[tail:], "")
}

// Join joins the first maxItems items with a separator. If there are others, it adds a conjunction and their number:
// with the separator ", " and the conjunction " and ", the result is "a, b and 3 more".
func Join(items []string, maxItems int, separator, conjunction string) string {
	return JoinSample(items[:min(len(items), maxItems)], len(items), separator, conjunction)
}

// JoinSample is Join for items of which only a sample is known: total is the number of all.
func JoinSample(sample []string, total int, separator, conjunction string) string {
	text := strings.Join(sample, separator)
	if more := total - len(sample); more > 0 {
		text += conjunction + fmt.Sprintf("%d more", more)
	}
	return text
}
