package upgradegraph

import (
	"fmt"
	"strings"

	"github.com/blang/semver/v4"
)

// maxSkipRangeBytes bounds the text of a skipRange. Real ones have some 40 bytes; a
// hundred alternatives still fit.
const maxSkipRangeBytes = 4096

// maxQuotedBytes bounds how much of a bad skipRange an error message repeats.
const maxQuotedBytes = 100

// parsedRange is a skipRange, or why it cannot be read.
type parsedRange struct {
	// anyOf are the alternatives between "||".
	anyOf []semver.Range
	err   error
}

// has reports whether the version lies in the range.
func (r parsedRange) has(v semver.Version) bool {
	for _, alternative := range r.anyOf {
		if alternative(v) {
			return true
		}
	}
	return false
}

// parseRange reads a skipRange in the syntax of github.com/blang/semver.
//
// That library accepts some texts with an empty alternative ("<1.0.0 || || >2.0.0")
// and then panics when the range is asked. So the whole text must be acceptable to
// it, and each alternative for itself too.
func parseRange(text string) parsedRange {
	if len(text) > maxSkipRangeBytes {
		return parsedRange{err: fmt.Errorf("%d bytes are too long (at most %d)", len(text), maxSkipRangeBytes)}
	}

	whole, err := semver.ParseRange(text)
	if err != nil {
		return parsedRange{err: err}
	}
	if !strings.Contains(text, "||") {
		return parsedRange{anyOf: []semver.Range{whole}}
	}

	var parsed parsedRange
	for alternative := range strings.SplitSeq(text, "||") {
		r, err := semver.ParseRange(strings.TrimSpace(alternative))
		if err != nil {
			return parsedRange{err: fmt.Errorf("alternative %q: %w", abbreviate(alternative), err)}
		}
		parsed.anyOf = append(parsed.anyOf, r)
	}

	return parsed
}

// abbreviate keeps a catalog's text from filling a message.
func abbreviate(text string) string {
	if len(text) <= maxQuotedBytes {
		return text
	}
	return text[:maxQuotedBytes] + "…"
}
