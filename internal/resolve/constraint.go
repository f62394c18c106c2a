package resolve

import (
	"fmt"
	"slices"
	"strings"

	masterminds "github.com/Masterminds/semver/v3"
	"github.com/blang/semver/v4"

	"github.com/mainstay-dev/mainstay/internal/excerpt"
)

// Constraint is a set of versions. The zero value matches every version.
type Constraint struct {
	// exact is a single version to match including its build metadata.
	exact  *semver.Version
	ranges *masterminds.Constraints
}

// ParseConstraint reads a version or a range of versions: comparisons (=, !=, >, <, >=,
// <=) joined by a comma or a space for "and" and by || for "or"; the wildcards x, X and
// *; ~ for changes of the patch level and ^ for compatible changes; 1.2 - 1.4 for a
// span. The grammar is that of github.com/Masterminds/semver. Empty text matches every
// version. The error is an *InvalidVersionError.
//
// A range matches a pre-release only if it names a pre-release itself, such as
// ">=1.2.0-0". A full version with build metadata, "1.2.3+4", matches exactly that
// build; otherwise build metadata is ignored.
func ParseConstraint(text string) (Constraint, error) {
	if text == "" {
		return Constraint{}, nil
	}
	if v, err := semver.Parse(text); err == nil && len(v.Build) > 0 {
		return Constraint{exact: &v}, nil
	}

	ranges, err := masterminds.NewConstraint(text)
	if err != nil {
		return Constraint{}, newInvalidVersionError(text, err)
	}

	return Constraint{ranges: ranges}, nil
}

// Matches reports whether the constraint matches a version.
func (c Constraint) Matches(v semver.Version) bool {
	switch {
	case c.exact != nil:
		return isIdentical(*c.exact, v)
	case c.ranges == nil:
		return true
	default:
		return c.ranges.Check(toMasterminds(v))
	}
}

// missesAsPreRelease reports whether a version would match if it were not a pre-release.
func (c Constraint) missesAsPreRelease(v semver.Version) bool {
	released := v
	released.Pre = nil
	return len(v.Pre) > 0 && !c.Matches(v) && c.Matches(released)
}

// toMasterminds converts a strict version to the type of the library that parses ranges.
func toMasterminds(v semver.Version) *masterminds.Version {
	pre := make([]string, 0, len(v.Pre))
	for _, part := range v.Pre {
		pre = append(pre, part.String())
	}
	return masterminds.New(v.Major, v.Minor, v.Patch, strings.Join(pre, "."), strings.Join(v.Build, "."))
}

// InvalidVersionError is the error for a requested version that is neither a version nor
// a range.
type InvalidVersionError struct {
	// Version is the text from the request.
	Version string
	// Err is the error of the parser.
	Err error
	// Hint states what would help, one sentence each.
	Hint []string
}

func newInvalidVersionError(text string, err error) *InvalidVersionError {
	e := &InvalidVersionError{Version: text, Err: err}
	if slices.Contains(strings.Fields(strings.ToLower(text)), "or") {
		e.Hint = append(e.Hint, `"or" is written ||: "<1.16 || >=2.0"`)
	}
	e.Hint = append(e.Hint, `a version is written like "1.14.0", a range like "1.14.x", ">=1.16", ">1.15, <1.17", "~1.12" or "^2.3"`)
	return e
}

// maxQuotedBytes limits how much of an invalid version a message quotes, with the three bytes of an ellipsis.
const maxQuotedBytes = 103

// Error returns the message with the version and the reason.
func (e *InvalidVersionError) Error() string {
	return fmt.Sprintf("desired version range %q is invalid: %v", excerpt.Start(e.Version, maxQuotedBytes), e.Err)
}

// Unwrap returns the reason.
func (e *InvalidVersionError) Unwrap() error { return e.Err }
