package yamltext

import (
	"bytes"
	"cmp"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// reservedWords are the plain scalars that YAML 1.1 does not read as strings, except for numbers
// and dates.
var reservedWords = newWordSet("y Y yes Yes YES true True TRUE on On ON n N no No NO false False FALSE off Off OFF ~ null Null NULL " +
	".nan .NaN .NAN .inf .Inf .INF +.inf +.Inf +.INF -.inf -.Inf -.INF <<")

func newWordSet(list string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(list) {
		set[word] = true
	}
	return set
}

// isAmbiguousPlain reports whether a plain scalar with this text is not read as a string.
func isAmbiguousPlain(text []byte) bool {
	switch text[0] {
	case 'y', 'Y', 'n', 'N', 't', 'T', 'f', 'F', 'o', 'O', '~', '<':
		return reservedWords[string(text)]
	case '.':
		_, err := strconv.ParseFloat(string(text), 64)
		return err == nil || reservedWords[string(text)]
	case '+', '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return reservedWords[string(text)] || isYAMLNumber(text) || isTimestamp(text) || isBase60Number(text)
	}

	return false
}

// floatPattern matches a number with an optional fraction and exponent.
var floatPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)
})

// isYAMLNumber reports whether YAML reads a text as a number that fits a Go type.
func isYAMLNumber(text []byte) bool {
	if bytes.Count(text, []byte{'.'}) > 1 || bytes.ContainsFunc(text, isNonNumberRune) {
		return false
	}
	_, ok := parseYAMLNumber(strings.ReplaceAll(string(text), "_", ""))
	return ok
}

func isNonNumberRune(r rune) bool { return !strings.ContainsRune("0123456789abcdefABCDEFxXoO+-._", r) }

// parseYAMLNumber parses a number as YAML does and returns its output form.
func parseYAMLNumber(text string) (string, bool) {
	if i, err := strconv.ParseInt(text, 0, 64); err == nil {
		return strconv.FormatInt(i, 10), true
	}
	if u, err := strconv.ParseUint(text, 0, 64); err == nil {
		return strconv.FormatUint(u, 10), true
	}

	if floatPattern().MatchString(text) {
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			return strconv.FormatFloat(f, 'g', -1, 64), true
		}
	}

	if binary, ok := strings.CutPrefix(text, "0b"); ok {
		_, intErr := strconv.ParseInt(binary, 2, 64)
		_, uintErr := strconv.ParseUint(binary, 2, 64)
		return "", intErr == nil || uintErr == nil
	}

	return "", false
}

func (e *emitter) emitNumber(text []byte) {
	if len(text) < 19 && !bytes.ContainsAny(text, ".eE") && string(text) != "-0" {
		e.emitUnquoted(text)
		return
	}
	if written, ok := parseYAMLNumber(string(text)); ok {
		text = []byte(written)
	}

	// A number that is too large for a float64 stays unchanged.
	e.emitUnquoted(text)
}

// timestampFormats are the supported formats of dates.
var timestampFormats = []string{"2006-1-2T15:4:5.999999999Z07:00", "2006-1-2t15:4:5.999999999Z07:00", "2006-1-2 15:4:5.999999999", "2006-1-2"}

func isTimestamp(text []byte) bool {
	const year = 4
	if len(text) <= year || text[year] != '-' || !hasOnlyDigits(text[:year]) {
		return false
	}

	for _, format := range timestampFormats {
		if _, err := time.Parse(format, string(text)); err == nil {
			return true
		}
	}
	return false
}

func hasOnlyDigits(text []byte) bool {
	return !bytes.ContainsFunc(text, func(r rune) bool { return r < '0' || r > '9' })
}

// base60Pattern matches the base 60 numbers of YAML 1.1, which are used for times of the day and
// angles.
var base60Pattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?$`) })

func isBase60Number(text []byte) bool {
	return bytes.IndexByte(text, ':') >= 0 && base60Pattern().Match(text)
}

// compareKeysNaturally compares keys in natural order: numbers in them by their value, and other
// characters before letters.
func compareKeysNaturally(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}

	if n == len(a) || n == len(b) {
		return len(a) - len(b)
	}

	for n > 0 && !utf8.RuneStart(a[n]) {
		n--
	}

	ar, _ := utf8.DecodeRune(a[n:])
	br, _ := utf8.DecodeRune(b[n:])
	switch al, bl := unicode.IsLetter(ar), unicode.IsLetter(br); {
	case al && bl:
		return int(ar - br)
	case al:
		return 1
	case bl:
		return -1
	}

	// A zero after other digits of a number counts together with them.
	var before int64
	if (ar == '0' || br == '0') && followsNumber(a[:n]) {
		before = 1
	}

	an, as := accumulateDigits(before, a[n:])
	bn, bs := accumulateDigits(before, b[n:])
	return cmp.Or(cmp.Compare(an, bn), cmp.Compare(as, bs), cmp.Compare(ar, br))
}

// followsNumber reports whether a text ends with a number that is not zero.
func followsNumber(text []byte) bool {
	for len(text) > 0 {
		r, size := utf8.DecodeLastRune(text)
		if !unicode.IsDigit(r) {
			return false
		}
		if r != '0' {
			return true
		}
		text = text[:len(text)-size]
	}

	return false
}

// accumulateDigits appends the leading digits of a text to a number. It also returns the number
// of digits.
func accumulateDigits(n int64, text []byte) (number int64, count int) {
	for _, r := range string(text) {
		if !unicode.IsDigit(r) {
			break
		}
		n = n*10 + int64(r-'0')
		count++
	}

	return n, count
}
