package indexdb

import (
	"cmp"
	"strings"

	"github.com/blang/semver/v4"
)

// unversioned is the version of a bundle without one: lower than 0.0.0 and higher than its
// usual pre-releases.
const unversioned = "0.0.0-z"

// parseBundleVersion parses the version of a bundle, which may be empty.
func parseBundleVersion(text string) (semver.Version, error) {
	if text == "" {
		text = unversioned
	}
	return semver.Parse(text)
}

// compareVersions compares versions by precedence and then, unlike semantic versioning, by
// build metadata: a rebuild is higher than its original.
func compareVersions(a, b semver.Version) int {
	return cmp.Or(a.Compare(b), compareBuilds(a.Build, b.Build))
}

// compareBuilds compares build metadata like pre-releases, except that no metadata is the
// lowest.
func compareBuilds(a, b []string) int {
	for i := 0; i < len(a) && i < len(b); i++ {
		if order := compareIdentifiers(a[i], b[i]); order != 0 {
			return order
		}
	}
	return cmp.Compare(len(a), len(b))
}

// compareIdentifiers orders numbers by their value, before words.
func compareIdentifiers(a, b string) int {
	aNumber, bNumber := isNumber(a), isNumber(b)
	switch {
	case aNumber && bNumber:
		a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	case aNumber:
		return -1
	case bNumber:
		return 1
	default:
		return cmp.Compare(a, b)
	}
}

func isNumber(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}
