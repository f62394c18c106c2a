package resolve_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/blang/semver/v4"

	"github.com/mainstay-dev/mainstay/internal/resolve"
)

func TestComparisons(t *testing.T) {
	cases := map[string]struct {
		constraint string
		in, out    []string
	}{
		"equal":                            {"=1.11.0", []string{"1.11.0", "1.11.0+build"}, []string{"1.11.1", "1.10.9"}},
		"no comparison is equal":           {"1.11.1", []string{"1.11.1"}, []string{"1.11.0", "1.11.2"}},
		"not equal":                        {"!=1.11.0", []string{"1.11.1", "1.10.0"}, []string{"1.11.0"}},
		"greater":                          {">1.11.1", []string{"1.11.2", "2.0.0"}, []string{"1.11.1", "1.11.0"}},
		"less":                             {"<1.11.1", []string{"1.11.0", "0.0.1"}, []string{"1.11.1", "1.11.2"}},
		"greater or equal":                 {">=1.11.1", []string{"1.11.1", "1.11.2"}, []string{"1.11.0"}},
		"less or equal":                    {"<=1.11.1", []string{"1.11.1", "1.11.0"}, []string{"1.11.2"}},
		"a comma is and":                   {">=1.11, <1.13", []string{"1.11.0", "1.12.9"}, []string{"1.10.9", "1.13.0"}},
		"a space is and":                   {">=1.11 <1.13", []string{"1.11.0", "1.12.9"}, []string{"1.10.9", "1.13.0"}},
		"two bars are or":                  {"<1.11 || >=2.0", []string{"1.10.9", "2.0.0"}, []string{"1.11.0", "1.99.0"}},
		"and binds closer than or":         {">=1.0, <1.1 || >=2.0 <2.1", []string{"1.0.5", "2.0.5"}, []string{"1.1.0", "2.1.0"}},
		"a capital wildcard":               {"1.11.X", []string{"1.11.0", "1.11.9"}, []string{"1.12.0"}},
		"a star at the patch level":        {"1.11.*", []string{"1.11.0", "1.11.9"}, []string{"1.12.0"}},
		"a wildcard at the minor level":    {"=1.x", []string{"1.0.0", "1.99.9"}, []string{"2.0.0", "0.9.0"}},
		"a short version is a wildcard":    {"1.11", []string{"1.11.0", "1.11.9"}, []string{"1.12.0"}},
		"form 1.14.x":                      {"1.14.x", []string{"1.14.5"}, []string{"1.15.0"}},
		"form >1.15, <1.17":                {">1.15, <1.17", []string{"1.16.0", "1.16.9"}, []string{"1.15.0", "1.15.9", "1.17.0"}},
		"form <1.16":                       {"<1.16", []string{"1.15.9"}, []string{"1.16.0"}},
		"form >=1.16":                      {">=1.16", []string{"1.16.0", "2.0.0"}, []string{"1.15.9"}},
		"form 9.x":                         {"9.x", []string{"9.9.9"}, []string{"8.9.9", "10.0.0"}},
		"caret before 1.0.0":               {"^0.2.3", []string{"0.2.3", "0.2.9"}, []string{"0.3.0", "0.2.2", "1.0.0"}},
		"caret after 1.0.0":                {"^1.2.3", []string{"1.2.3", "1.9.0"}, []string{"2.0.0", "1.2.2"}},
		"pre-releases do not match":        {">=1.0.0", []string{"1.0.0"}, []string{"1.1.0-rc.1", "2.0.0-0"}},
		"a pre-release names pre-releases": {">=1.0.0-0", []string{"1.0.0", "1.0.0-rc.1", "1.1.0-rc.1"}, []string{"0.9.0"}},
		"an exact pre-release":             {"4.17.0-202412170235", []string{"4.17.0-202412170235"}, []string{"4.17.0", "4.17.0-202412170234"}},
		"build metadata is exact":          {"1.0.0+b", []string{"1.0.0+b"}, []string{"1.0.0", "1.0.0+a"}},
		"the empty constraint matches every version": {"", []string{"0.0.0", "1.0.0-rc.1"}, nil},
	}

	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c, err := resolve.ParseConstraint(tc.constraint)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range tc.in {
				if !c.Matches(semver.MustParse(v)) {
					t.Errorf("%q does not match %s, want a match", tc.constraint, v)
				}
			}
			for _, v := range tc.out {
				if c.Matches(semver.MustParse(v)) {
					t.Errorf("%q matches %s, want no match", tc.constraint, v)
				}
			}
		})
	}
}

// TestShorthandsMeanTheirComparisons compares every wildcard, tilde and caret form with
// the equivalent comparison, for versions around all limits.
func TestShorthandsMeanTheirComparisons(t *testing.T) {
	rows := [][2]string{
		// wildcards
		{"1.11.x", ">=1.11.0, <1.12.0"},
		{">=1.12.X", ">=1.12.0"},
		{"<=2.x", "<3"},
		{"*", ">=0.0.0"},
		// patch releases
		{"~1.11.0", ">=1.11.0, <1.12.0"},
		{"~1", ">=1, <2"},
		{"~1.12", ">=1.12, <1.13"},
		{"~1.12.x", ">=1.12.0, <1.13.0"},
		{"~1.x", ">=1, <2"},
		// minor releases
		{"^0", ">=0.0.0, <1.0.0"},
		{"^0.0", ">=0.0.0, <0.1.0"},
		{"^0.0.3", ">=0.0.3, <0.0.4"},
		{"^0.2", ">=0.2.0, <0.3.0"},
		{"^0.2.3", ">=0.2.3, <0.3.0"},
		{"^1.2.x", ">= 1.2.0, < 2.0.0"},
		{"^1.2.3", ">= 1.2.3, < 2.0.0"},
		{"^2.x", ">= 2.0.0, < 3"},
		{"^2.3", ">= 2.3, < 3"},
	}

	var versions []semver.Version
	for major := range 5 {
		for _, minor := range []int{0, 1, 2, 3, 4, 10, 11, 12, 13, 99} {
			for _, patch := range []int{0, 1, 2, 3, 4, 5, 99} {
				for _, suffix := range []string{"", "-alpha", "-rc.1", "+build"} {
					versions = append(versions, semver.MustParse(fmt.Sprintf("%d.%d.%d%s", major, minor, patch, suffix)))
				}
			}
		}
	}

	for _, row := range rows {
		t.Run(row[0], func(t *testing.T) {
			short, err := resolve.ParseConstraint(row[0])
			if err != nil {
				t.Fatal(err)
			}

			long, err := resolve.ParseConstraint(row[1])
			if err != nil {
				t.Fatal(err)
			}

			held := 0
			for _, v := range versions {
				if got, want := short.Matches(v), long.Matches(v); got != want {
					t.Errorf("%s matches %q: got %v, want %v as for %q", v, row[0], got, want, row[1])
				} else if got {
					held++
				}
			}

			if held == 0 {
				t.Error("got no version that matches, want at least one to compare")
			}
		})
	}
}

func TestInvalidConstraints(t *testing.T) {
	for _, text := range []string{"newest", " ", ">=1.0 OR <0.5", "1.2.3.4", ">>1", "1.0.0 ||", strings.Repeat("1", 10_000), strings.Repeat("1||", 100) + "1"} {
		t.Run(text[:min(len(text), 10)], func(t *testing.T) {
			_, err := resolve.ParseConstraint(text)
			var invalid *resolve.InvalidVersionError
			if !errors.As(err, &invalid) {
				t.Fatalf("got error %v, want an InvalidVersionError", err)
			}
			if invalid.Version != text || invalid.Err == nil || len(resolve.Hints(fmt.Errorf("wrapped: %w", err))) == 0 {
				t.Errorf("got %+v, want the version %.50q, its cause and a hint", invalid, text)
			}
			if !strings.HasPrefix(err.Error(), "desired version range ") || len(err.Error()) > 1000 {
				t.Errorf("got the message %.200s", err)
			}
		})
	}
}
