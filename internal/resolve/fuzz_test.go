package resolve_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/blang/semver/v4"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/resolve"
)

// FuzzParseConstraint checks that any text is parsed or rejected without a panic, and that a
// parsed constraint can be matched.
func FuzzParseConstraint(f *testing.F) {
	for _, seed := range []string{"", "1.11.x", ">=1.11, <1.13", "^0.0", "~1.12.x", "<1 || >2", "1.2 - 1.4", "1.0.0+b", "=>1", "v1", "*", "|| ||", "\x00", "99999999999999999999"} {
		f.Add(seed, "1.11.3-rc.1+b")
	}

	f.Fuzz(func(t *testing.T, text, version string) {
		c, err := resolve.ParseConstraint(text)
		if err != nil {
			var invalid *resolve.InvalidVersionError
			if !errors.As(err, &invalid) || len(invalid.Hint) == 0 {
				t.Errorf("got error %v (%T), want its documented type and a hint", err, err)
			}
			return
		}

		v, err := semver.Parse(version)
		if err != nil {
			return
		}
		if again := c.Matches(v); again != c.Matches(v) {
			t.Errorf("%q matches %s once and not another time, want the same result", text, v)
		}
		if text == "" && !c.Matches(v) {
			t.Errorf("the empty constraint does not match %s, want a match", v)
		}
	})
}

// byteSource returns the fuzzer's bytes as small numbers. It returns zeros after the last byte.
type byteSource []byte

func (s *byteSource) below(n int) int {
	if len(*s) == 0 {
		return 0
	}
	b := (*s)[0]
	*s = (*s)[1:]
	return int(b) % n
}

func pick[T any](s *byteSource, from []T) T { return from[s.below(len(from))] }

var (
	fuzzVersions = []string{"0.1.0", "1.0.0", "1.0.1", "1.1.0", "1.1.0-rc.1", "1.1.0+2", "2.0.0", "2.0.0-0", "3.1.4", "1.0", ""}
	fuzzRanges   = []string{"", "", "<1.0.0", ">=1.0.0 <2.0.0", "1.x", "<3.0.0", "!=1.0.0", "broken"}
	fuzzWanted   = []string{"", "", "1.x", ">=1.0.0", "<2.0.0-0", "1.1.0", "^0", "~1.0", "1.1.0+2"}
)

// randomCatalog returns a small catalog with random names, edges and deprecations.
func randomCatalog(s *byteSource, name string) resolve.Catalog {
	var parts []contentOption
	count := s.below(6)
	bundleName := func() string { return fmt.Sprintf("b%d", s.below(count+2)) }
	for i := range count {
		parts = append(parts, withBundles(bundleOf(fmt.Sprintf("b%d", i), pick(s, fuzzVersions), pick(s, []string{"", "", "1", "2.a", "01"}))))
	}

	for ch := range s.below(3) {
		var entries []fbc.ChannelEntry
		for range s.below(6) {
			entries = append(entries, fbc.ChannelEntry{
				Name: bundleName(), Replaces: pick(s, []string{"", bundleName()}), Skips: []string{bundleName()}, SkipRange: pick(s, fuzzRanges),
			})
		}
		parts = append(parts, withChannel(fmt.Sprintf("ch%d", ch), entries...))
	}

	for range s.below(3) {
		parts = append(parts, withDeprecation(fbc.SchemaBundle, bundleName(), "old"))
	}

	return catalog(name, int32(s.below(3)-1), parts...)
}

// FuzzResolve checks the documented guarantees of Resolve on small random catalogs.
func FuzzResolve(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{2, 3, 1, 0, 3, 0, 6, 0, 2, 3, 0, 1, 1, 2, 1, 3, 1, 0, 0, 2, 1, 1, 1, 0})
	f.Add([]byte("\x01\x05\x01\x00\x02\x00\x03\x00\x06\x00\x08\x00\x02\x04\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := byteSource(data)
		var catalogs []resolve.Catalog
		for i := range s.below(4) {
			catalogs = append(catalogs, randomCatalog(&s, fmt.Sprintf("c%d", i)))
		}

		req := resolve.Request{Package: pkg, Version: pick(&s, fuzzWanted)}
		if s.below(2) == 1 {
			req.Installed = &resolve.Installed{Name: fmt.Sprintf("b%d", s.below(7)), Version: pick(&s, fuzzVersions)}
			req.Policy = pick(&s, []olmv1.UpgradeConstraintPolicy{catalogProvided, selfCertified, ""})
		}

		for range s.below(3) {
			req.Channels = append(req.Channels, fmt.Sprintf("ch%d", s.below(3)))
		}

		got, err := resolve.Resolve(req, catalogs)
		if err != nil {
			checkError(t, err)
			return
		}

		checkResult(t, req, catalogs, got)
		slices.Reverse(catalogs)
		again, err := resolve.Resolve(req, catalogs)
		if err != nil || again.Bundle.Name != got.Bundle.Name || again.Catalog != got.Catalog {
			t.Errorf("with the catalogs in another order: got error %v, result %+v, want the same result", err, again)
		}
	})
}

func checkError(t *testing.T, err error) {
	t.Helper()
	var notFound *resolve.NotFoundError
	var ambiguous *resolve.AmbiguousError
	if !errors.As(err, &notFound) && !errors.As(err, &ambiguous) {
		t.Errorf("got error %v (%T), want a documented type", err, err)
	}
	if len(resolve.Hints(err)) == 0 {
		t.Errorf("got no hint for the error %v", err)
	}
	if ambiguous != nil && len(ambiguous.Catalogs) < 2 {
		t.Errorf("got an ambiguity between %v, want several catalogs", ambiguous.Catalogs)
	}
}

func checkResult(t *testing.T, req resolve.Request, catalogs []resolve.Catalog, got *resolve.Result) {
	t.Helper()
	c, err := resolve.ParseConstraint(req.Version)
	if err != nil {
		t.Fatal(err)
	}
	if !c.Matches(got.Version) {
		t.Errorf("%s does not match %q", got.Version, req.Version)
	}
	if len(req.Channels) > 0 && len(got.Channels) == 0 {
		t.Errorf("%q is in none of the channels %v", got.Bundle.Name, req.Channels)
	}

	at := slices.IndexFunc(catalogs, func(c resolve.Catalog) bool { return c.Name == got.Catalog })
	if req.Installed == nil || req.Policy == selfCertified || got.Bundle.Name == req.Installed.Name || got.Version.String() == req.Installed.Version {
		return
	}

	// Independent of the code under test: an entry must name or cover the installed bundle.
	from, versionErr := semver.Parse(req.Installed.Version)
	for _, ch := range catalogs[at].Content.Channels {
		if len(req.Channels) > 0 && !slices.Contains(req.Channels, ch.Name) {
			continue
		}
		for _, e := range ch.Entries {
			covered := false
			if r, err := semver.ParseRange(e.SkipRange); err == nil && versionErr == nil {
				covered = r(from)
			}
			if e.Name == got.Bundle.Name && (covered || e.Replaces == req.Installed.Name || slices.Contains(e.Skips, req.Installed.Name)) {
				if versionErr == nil && got.Version.LT(from) {
					t.Errorf("got a downgrade from %s to %s, want none", from, got.Version)
				}
				return
			}
		}
	}

	t.Errorf("%q is neither installed (%+v) nor a successor", got.Bundle.Name, req.Installed)
}
