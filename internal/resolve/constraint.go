package resolve

import (
	"fmt"
	"slices"
	"strings"

	masterminds "github.com/Masterminds/semver/v3"
	"github.com/blang/semver/v4"
)

// Constraint is a set of versions. The zero value holds every version.
type Constraint struct {
	// exact is a single version that is wanted with its build metadata.
	exact  *semver.Version
	ranges *masterminds.Constraints
}

// ParseConstraint reads a version or a range of versions: comparisons (=, !=, >, <, >=,
// <=) joined by a comma or a space for "and" and by || for "or"; the wildcards x, X and
// *; ~ for changes of the patch level and ^ for compatible changes; 1.2 - 1.4 for a
// span. The grammar is that of github.com/Masterminds/semver. Empty text means every
// version. The error is an *InvalidVersionError.
//
// A pre-release is held only by a range that names a pre-release itself, such as
// ">=1.2.0-0". A full version with build metadata, "1.2.3+4", means exactly that
// build; otherwise build metadata does not count.
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

// Matches reports whether the set holds a version.
func (c Constraint) Matches(v semver.Version) bool {
	switch {
	case c.exact != nil:
		return identical(*c.exact, v)
	case c.ranges == nil:
		return true
	default:
		return c.ranges.Check(convert(v))
	}
}

// missesAsPreRelease reports whether only being a pre-release keeps a version out.
func (c Constraint) missesAsPreRelease(v semver.Version) bool {
	released := v
	released.Pre = nil
	return len(v.Pre) > 0 && !c.Matches(v) && c.Matches(released)
}

// convert hands a strict version to the library that knows ranges.
func convert(v semver.Version) *masterminds.Version {
	pre := make([]string, 0, len(v.Pre))
	for _, part := range v.Pre {
		pre = append(pre, part.String())
	}
	return masterminds.New(v.Major, v.Minor, v.Patch, strings.Join(pre, "."), strings.Join(v.Build, "."))
}

// InvalidVersionError says that the wanted version is neither a version nor a range.
type InvalidVersionError struct {
	// Version is the text as it was given.
	Version string
	// Err tells why it cannot be read.
	Err error
	// Hint says what would help, one sentence each.
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

// maxQuotedBytes bounds how much of a bad version a message repeats.
const maxQuotedBytes = 100

// Error returns the text and the reason.
func (e *InvalidVersionError) Error() string {
	text := e.Version
	if len(text) > maxQuotedBytes {
		text = text[:maxQuotedBytes] + "…"
	}
	return fmt.Sprintf("desired version range %q is invalid: %v", text, e.Err)
}

// Unwrap returns the reason.
func (e *InvalidVersionError) Unwrap() error { return e.Err }
