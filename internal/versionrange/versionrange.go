// Package versionrange parses the version ranges that authors of catalogs write: the skipRange of a channel entry and the
// versionRange of a requirement. Their syntax is that of github.com/blang/semver.
package versionrange

import (
	"fmt"
	"strings"

	"github.com/blang/semver/v4"

	"github.com/mainstay-dev/mainstay/internal/excerpt"
)

const (
	// maxBytes is the maximum length of a range, in bytes. Real ones have about 40; this leaves room for a hundred alternatives.
	maxBytes = 4096
	// maxQuotedBytes is the maximum length of an alternative in an error.
	maxQuotedBytes = 100
)

// Parse parses a range, such as ">=1.0.0 <2.0.0 || 3.x". It returns an error for invalid and for empty text, and for text
// of more than 4096 bytes.
//
// It also returns an error for an empty alternative. The library accepts some, and its range panics when it is evaluated. It
// ignores words of one character, so that the second alternative of "1.0.0 || 2 || 3.0.0" is empty.
func Parse(text string) (semver.Range, error) {
	if len(text) > maxBytes {
		return nil, fmt.Errorf("longer than %d bytes", maxBytes)
	}

	parsed, err := semver.ParseRange(text)
	if err != nil {
		return nil, err
	}

	if strings.Contains(text, "||") {
		for alternative := range strings.SplitSeq(text, "||") {
			if _, err := semver.ParseRange(strings.TrimSpace(alternative)); err != nil {
				return nil, fmt.Errorf("alternative %q has no complete version, such as 1.2.3", excerpt.Line(alternative, maxQuotedBytes))
			}
		}
	}

	return parsed, nil
}
