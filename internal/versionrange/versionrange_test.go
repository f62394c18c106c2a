package versionrange_test

import (
	"strings"
	"testing"

	"github.com/blang/semver/v4"

	"github.com/mainstay-dev/mainstay/internal/versionrange"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]map[string]bool{
		">=1.0.0 <2.0.0":          {"1.0.0": true, "1.9.9": true, "2.0.0": false, "2.0.0-rc.1": true},
		"1.0.0":                   {"1.0.0": true, "1.0.1": false},
		"1.x":                     {"1.5.0": true, "2.0.0": false},
		"<1.0.0 || >=2.0.0":       {"0.9.0": true, "1.5.0": false, "2.5.0": true},
		"<1.0.0 || 3.x || =2.0.0": {"0.9.0": true, "2.0.0": true, "3.1.0": true, "4.0.0": false},
	} {
		includes, err := versionrange.Parse(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		for version, wanted := range want {
			if got := includes(semver.MustParse(version)); got != wanted {
				t.Errorf("%q includes %s: %t, want %t", text, version, got, wanted)
			}
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "Last element in range is '||'",
		"3":                                 "Last element in range is '||'",
		"<1.0.0 ||":                         "Last element in range is '||'",
		"|| <1.0.0":                         "First element in range is '||'",
		"<1":                                `Could not parse Range "<1": Could not parse version "1" in "<1": No Major.Minor.Patch elements found`,
		"<1.0.0 || || >2.0.0":               `alternative "" has no complete version, such as 1.2.3`,
		">=7.0.0 0 || 3 || 3.x":             `alternative "3" has no complete version, such as 1.2.3`,
		strings.Repeat("<1.0.0 ", 4096/7+1): "longer than 4096 bytes",
	} {
		if _, err := versionrange.Parse(text); err == nil || err.Error() != want {
			t.Errorf("%.40q: got error %v, want %s", text, err, want)
		}
	}
}

// FuzzParse checks that a range that is parsed can be evaluated.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", ">=1.0.0 <2.0.0", "<1.0.0 || 3 || 3.x", "<1.0.0 || || >2.0.0", "1.x", "!=1.2.x || > 1.0.0", "99999999999999999999.x"} {
		f.Add(seed, "1.0.0")
	}

	f.Fuzz(func(t *testing.T, text, version string) {
		v, err := semver.Parse(version)
		if err != nil {
			return
		}
		includes, err := versionrange.Parse(text)
		if err != nil {
			return
		}
		if first, second := includes(v), includes(v); first != second {
			t.Errorf("%q includes %s: got %t and then %t", text, version, first, second)
		}
	})
}
