package fbc_test

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/blang/semver/v4"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

func TestParseRelease(t *testing.T) {
	cases := map[string]string{
		"":                      "",
		"1":                     "",
		"0":                     "",
		"1.2.3":                 "",
		"alpha.1":               "",
		"20250101.a-b":          "",
		"12345678901234567890":  "",
		"123456789012345678901": `invalid release "123456789012345678901": exceeds maximum length of 20 characters`,
		"01":                    `invalid release "01": segment 0: Numeric PreRelease version must not contain leading zeroes "01"`,
		"a_b":                   `invalid release "a_b": segment 0: Invalid character(s) found in prerelease "a_b"`,
		"1..2":                  `invalid release "1..2": segment 1: Prerelease is empty`,
		"01.ok.a_b":             "invalid release \"01.ok.a_b\": segment 0: Numeric PreRelease version must not contain leading zeroes \"01\"\nsegment 2: Invalid character(s) found in prerelease \"a_b\"",
	}

	for text, want := range cases {
		release, err := fbc.ParseRelease(text)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: got error %q, want %q", text, got, want)
		}
		if (err == nil) != (string(release) == text) && text != "" {
			t.Errorf("%q: got release %q, want the same", text, release)
		}
	}
}

func TestReleasesInOrder(t *testing.T) {
	inOrder := []fbc.Release{"", "0", "1", "1.1", "1.1.a", "2", "10", "a", "a.1", "a.b", "b"}
	for i, a := range inOrder {
		for j, b := range inOrder {
			if got, want := a.Compare(b), compareInts(i, j); got != want {
				t.Errorf("%q compared with %q: got %d, want %d", a, b, got, want)
			}
		}
	}
}

func compareInts(a, b int) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func TestVersionReleasesInOrder(t *testing.T) {
	vr := func(version string, release fbc.Release) fbc.VersionRelease {
		return fbc.VersionRelease{Version: semver.MustParse(version), Release: release}
	}
	inOrder := []fbc.VersionRelease{vr("0.9.0", "9"), vr("1.0.0-a", "1"), vr("1.0.0", ""), vr("1.0.0", "1"), vr("1.0.0", "2"), vr("1.0.1", "")}
	shuffled := []fbc.VersionRelease{inOrder[3], inOrder[5], inOrder[0], inOrder[2], inOrder[1], inOrder[4]}
	slices.SortFunc(shuffled, fbc.VersionRelease.Compare)
	for i := range inOrder {
		if inOrder[i].String() != shuffled[i].String() {
			t.Errorf("at %d: got %s, want %s", i, shuffled[i], inOrder[i])
		}
	}

	if a, b := vr("1.0.0+a", "1"), vr("1.0.0+b", "1"); a.Compare(b) != 0 {
		t.Error("got different versions by build metadata, want equal ones")
	}
}

func TestVersionReleaseForms(t *testing.T) {
	cases := map[string]struct {
		v                fbc.VersionRelease
		text, safe, json string
	}{
		"a version":    {fbc.VersionRelease{Version: semver.MustParse("1.2.3-RC.1+Build.5")}, "1.2.3-RC.1+Build.5", "1.2.3-rc.1-build.5", `{"version":"1.2.3-RC.1+Build.5","release":""}`},
		"of a release": {fbc.VersionRelease{Version: semver.MustParse("1.2.3"), Release: "A.4"}, "1.2.3-A.4", "1.2.3-a.4", `{"version":"1.2.3","release":"A.4"}`},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.v.String() != c.text || c.v.KubernetesSafe() != c.safe {
				t.Errorf("got %q and %q, want %q and %q", c.v.String(), c.v.KubernetesSafe(), c.text, c.safe)
			}

			text, err := json.Marshal(c.v)
			if err != nil || string(text) != c.json {
				t.Errorf("got JSON %s (%v), want %s", text, err, c.json)
			}

			var back fbc.VersionRelease
			if err := json.Unmarshal(text, &back); err != nil || back.String() != c.text {
				t.Errorf("read back: got %v (%v), want the same", back, err)
			}
		})
	}

	for text, want := range map[string]string{`null`: "", `""`: "", `"1.a"`: "1.a"} {
		release := fbc.Release("before")
		if err := json.Unmarshal([]byte(text), &release); err != nil || string(release) != want {
			t.Errorf("%s: got %q (%v), want %q", text, release, err, want)
		}
	}

	for _, text := range []string{`"01"`, `7`, `["a"]`} {
		var release fbc.Release
		if err := json.Unmarshal([]byte(text), &release); err == nil {
			t.Errorf("%s: got %q, want an error", text, release)
		}
	}
}

func newProperty(typ, value string) fbc.Property {
	return fbc.Property{Type: typ, Value: json.RawMessage(value)}
}

func newCSVProperty(annotations string) fbc.Property {
	csv := `{"kind":"ClusterServiceVersion","metadata":{"annotations":` + annotations + `}}`
	return newProperty("olm.bundle.object", `{"data":"`+base64.StdEncoding.EncodeToString([]byte(csv))+`"}`)
}

func TestVersionReleaseOfABundle(t *testing.T) {
	stated := func(fields string) fbc.Property {
		return newProperty("olm.package", `{"packageName":"p",`+fields+`}`)
	}
	cases := map[string]struct {
		properties []fbc.Property
		want, err  string
	}{
		"a version":              {properties: []fbc.Property{stated(`"version":"1.0.0"`)}, want: "1.0.0"},
		"with a release":         {properties: []fbc.Property{stated(`"version":"1.0.0","release":"2.x"`)}, want: "1.0.0-2.x"},
		"build metadata":         {properties: []fbc.Property{stated(`"version":"1.0.0+3"`)}, want: "1.0.0+3"},
		"a rebuild by metadata":  {properties: []fbc.Property{newProperty("olm.csv.metadata", `{"annotations":{"olm.substitutesFor":"b"}}`), stated(`"version":"1.0.0+3.a"`)}, want: "1.0.0-3.a"},
		"a rebuild by its CSV":   {properties: []fbc.Property{stated(`"version":"1.0.0+3"`), newCSVProperty(`{"olm.substitutesFor":"b"}`)}, want: "1.0.0-3"},
		"substitutes for none":   {properties: []fbc.Property{stated(`"version":"1.0.0+3"`), newCSVProperty(`{"olm.substitutesFor":""}`)}, want: "1.0.0+3"},
		"annotated otherwise":    {properties: []fbc.Property{stated(`"version":"1.0.0+3"`), newCSVProperty(`{"olm.substitutesFor":7,"x":"y"}`)}, want: "1.0.0+3"},
		"another kind annotated": {properties: []fbc.Property{stated(`"version":"1.0.0+3"`), newProperty("olm.bundle.object", `{"data":"`+base64.StdEncoding.EncodeToString([]byte(`{"kind":"Service","metadata":{"annotations":{"olm.substitutesFor":"b"}}}`))+`"}`)}, want: "1.0.0+3"},
		"a rebuild with a release": {
			properties: []fbc.Property{stated(`"version":"1.0.0+3","release":"4"`), newCSVProperty(`{"olm.substitutesFor":"b"}`)}, want: "1.0.0+3-4",
		},
		"none":             {err: `no "olm.package" property found for bundle "b"`},
		"two":              {properties: []fbc.Property{stated(`"version":"1.0.0"`), stated(`"version":"1.0.0"`)}, err: `must be exactly one property of type "olm.package"`},
		"not an object":    {properties: []fbc.Property{newProperty("olm.package", `"1.0.0"`)}, err: `unable to unmarshal "olm.package" property for bundle "b": json: cannot unmarshal string`},
		"no version":       {properties: []fbc.Property{stated(`"version":"v1"`)}, err: `invalid semver version "v1" in "olm.package" property for bundle "b": No Major.Minor.Patch elements found`},
		"no release":       {properties: []fbc.Property{stated(`"version":"1.0.0","release":"_"`)}, err: `invalid release "_" in "olm.package" property for bundle "b": invalid release "_": segment 0`},
		"a long rebuild":   {properties: []fbc.Property{stated(`"version":"1.0.0+012345678901234567890"`), newCSVProperty(`{"olm.substitutesFor":"b"}`)}, err: `unable to convert build metadata to release for bundle "b": invalid release "012345678901234567890": exceeds`},
		"an odd rebuild":   {properties: []fbc.Property{stated(`"version":"1.0.0+01"`), newCSVProperty(`{"olm.substitutesFor":"b"}`)}, err: `unable to convert build metadata to release for bundle "b": invalid release "01": segment 0`},
		"broken manifests": {properties: []fbc.Property{stated(`"version":"1.0.0+1"`), newProperty("olm.bundle.object", `{"data":"%"}`)}, want: "1.0.0+1"},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := &fbc.Bundle{Name: "b", Properties: c.properties}
			got, err := b.VersionRelease()
			switch {
			case c.err == "" && (err != nil || got.String() != c.want):
				t.Errorf("got %s (%v), want %s", got, err, c.want)
			case c.err != "" && (err == nil || !strings.HasPrefix(err.Error(), c.err)):
				t.Errorf("got error %v, want %s", err, c.err)
			}
		})
	}
}

// FuzzVersionRelease searches for releases that do not survive a round trip, and for an
// inconsistent order.
func FuzzVersionRelease(f *testing.F) {
	for _, seed := range [][2]string{{"1", "1.0"}, {"a.b", "a.1"}, {"", "01"}, {"-", "0-0"}, {"99999999999999999999", "1"}} {
		f.Add(seed[0], seed[1])
	}

	f.Fuzz(func(t *testing.T, first, second string) {
		a, aerr := fbc.ParseRelease(first)
		b, berr := fbc.ParseRelease(second)
		if aerr != nil || berr != nil {
			return
		}
		if string(a) != first || a.Compare(fbc.Release(first)) != 0 || a.Compare(b) != -b.Compare(a) {
			t.Errorf("%q compared with %q: got %d, and %d in the other order", a, b, a.Compare(b), b.Compare(a))
		}

		if first != "" && second != "" {
			x, y := semver.MustParse("1.0.0-"+first), semver.MustParse("1.0.0-"+second)
			if got := a.Compare(b); got != x.Compare(y) {
				t.Errorf("%q compared with %q: got %d, want %d as for pre-releases", a, b, got, x.Compare(y))
			}
		}

		text, err := json.Marshal(fbc.VersionRelease{Version: semver.MustParse("1.0.0"), Release: a})
		var back fbc.VersionRelease
		if err != nil || json.Unmarshal(text, &back) != nil || back.Release != a {
			t.Errorf("%q, written as %s: got %q when read back", a, text, back.Release)
		}
	})
}
