package upgradegraph

import (
	"fmt"
	"strings"

	"github.com/blang/semver/v4"

	"github.com/mainstay-dev/mainstay/internal/excerpt"
)

// maxSkipRangeBytes is the maximum length of a skipRange. Real ones have about 40 bytes; this
// leaves room for a hundred alternatives.
const maxSkipRangeBytes = 4096

// maxQuotedBytes is the maximum length of a skipRange in an error.
const maxQuotedBytes = 100

// parsedRange is a parsed skipRange, or the error of parsing it.
type parsedRange struct {
	// alternatives are the alternatives between "||".
	alternatives []semver.Range
	err          error
}

// containsVersion reports whether a version is in the range.
func (r parsedRange) containsVersion(v semver.Version) bool {
	for _, alternative := range r.alternatives {
		if alternative(v) {
			return true
		}
	}
	return false
}

// parseSkipRange parses a skipRange in the syntax of github.com/blang/semver.
//
// That library accepts some texts with an empty alternative ("<1.0.0 || || >2.0.0") and panics
// when the range is evaluated. Therefore both the whole text and each alternative must be valid.
func parseSkipRange(text string) parsedRange {
	if len(text) > maxSkipRangeBytes {
		return parsedRange{err: fmt.Errorf("%d bytes are too long (at most %d)", len(text), maxSkipRangeBytes)}
	}

	whole, err := semver.ParseRange(text)
	if err != nil {
		return parsedRange{err: err}
	}
	if !strings.Contains(text, "||") {
		return parsedRange{alternatives: []semver.Range{whole}}
	}

	var parsed parsedRange
	for alternative := range strings.SplitSeq(text, "||") {
		r, err := semver.ParseRange(strings.TrimSpace(alternative))
		if err != nil {
			return parsedRange{err: fmt.Errorf("alternative %q: %w", excerpt.Line(alternative, maxQuotedBytes), err)}
		}
		parsed.alternatives = append(parsed.alternatives, r)
	}

	return parsed
}
