package dependency_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/mainstay-dev/mainstay/internal/resolve/dependency"
)

// newLargeCatalog returns a catalog of 2,000 packages of 20 versions. Each package needs two later
// packages, one by an API and one by a range. The bundles of the last packages have
// the given statement.
func newLargeCatalog(last string) dependency.Catalog {
	const packages, versions = 2000, 20
	var offers []offer
	for i := range packages {
		for v := range versions {
			o := offer{fmt.Sprintf("p%04d@1.%d.0", i, v), fmt.Sprintf("gvk K%d", i)}
			switch {
			case i >= packages-50:
				o = append(o, last)
			default:
				o = append(o, fmt.Sprintf("needs K%d", min(i*3+1, packages-1)), fmt.Sprintf("pkg p%04d >=1.%d.0", min(i*3+2, packages-1), v/2))
			}
			offers = append(offers, o)
		}
	}

	return catalog("large", 0, offers...)
}

// newConflictingProblem returns a bundle that needs ten packages of 20 versions, and two packages whose only
// versions need different versions of a third one.
func newConflictingProblem() (*dependency.Bundle, dependency.Catalog) {
	var offers []offer
	var needs []string
	for i := range 10 {
		needs = append(needs, fmt.Sprintf("pkg w%d", i))
		for v := range 20 {
			offers = append(offers, offer{fmt.Sprintf("w%d@1.%d.0", i, v), fmt.Sprintf("pkg base >=1.%d.0", v)})
		}
	}

	for v := range 20 {
		offers = append(offers, offer{fmt.Sprintf("base@1.%d.0", v)}, offer{fmt.Sprintf("y@1.%d.0", v), "pkg d <2.0.0"}, offer{fmt.Sprintf("z@1.%d.0", v), "pkg d >=2.0.0"})
	}

	offers = append(offers, offer{"d@1.0.0"}, offer{"d@2.0.0"})
	return newBundle("x@1.0.0", append(needs, "pkg y", "pkg z")...), catalog("c", 0, offers...)
}

// TestScale checks that large problems are solved correctly within the limits of the search.
func TestScale(t *testing.T) {
	for _, tc := range []struct{ name, last, want string }{
		{"available", "also fast yes", "p0001"},
		{"unavailable", "needs Gone", "the API Gone of example.com/v1"},
	} {
		p := dependency.Problem{Wanted: newBundle("x@1.0.0", "needs K1000"), Catalogs: []dependency.Catalog{newLargeCatalog(tc.last)}}
		plan, err := p.Plan()
		text := fmt.Sprint(err)
		if err == nil {
			text = describeBundles(plan)
			tc.want = "p1000@1.19.0"
		}
		if !strings.Contains(text, tc.want) {
			t.Errorf("%s: got %.2000s, want one that contains %s", tc.name, text, tc.want)
		}
	}

	x, c := newConflictingProblem()
	p := dependency.Problem{Wanted: x, Catalogs: []dependency.Catalog{c}}
	_, err := p.Plan()
	var impossible *dependency.UnsatisfiableError
	if !errors.As(err, &impossible) || len(impossible.Conflict) != 4 || strings.Contains(err.Error(), "base") {
		t.Errorf("got error %v, want only the requirements that conflict over d", err)
	}
}

// TestPlanIsLimited checks that a plan cannot have too many packages.
func TestPlanIsLimited(t *testing.T) {
	var offers []offer
	for i := range 101 {
		offers = append(offers, offer{fmt.Sprintf("p%d@1.0.0", i), fmt.Sprintf("pkg p%d", min(i+1, 100))})
	}

	p := dependency.Problem{Wanted: newBundle("x@1.0.0", "pkg p1"), Catalogs: []dependency.Catalog{catalog("c", 0, offers...)}}
	if plan, err := p.Plan(); err != nil || len(plan) != 100 {
		t.Errorf("got %d packages (%v), want 100", len(plan), err)
	}

	p.Wanted = newBundle("x@1.0.0", "pkg p0")
	const want = `the dependencies of bundle "x.v1.0.0" cannot be installed: 101 packages would be installed, and at most 100 are allowed. Install some of the dependencies yourself`
	if _, err := p.Plan(); fmt.Sprint(err) != want {
		t.Errorf("got error\n%v, want\n%s", err, want)
	}
}

func BenchmarkPlan(b *testing.B) {
	x, c := newConflictingProblem()
	for name, p := range map[string]dependency.Problem{
		"2000 packages":               {Wanted: newBundle("x@1.0.0", "needs K600"), Catalogs: []dependency.Catalog{newLargeCatalog("also fast yes")}},
		"2000 packages, no solution":  {Wanted: newBundle("x@1.0.0", "needs K20"), Catalogs: []dependency.Catalog{newLargeCatalog("needs Gone")}},
		"conflict behind ten choices": {Wanted: x, Catalogs: []dependency.Catalog{c}},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				fresh := p
				plan, err := fresh.Plan()
				if (err == nil) != (name == "2000 packages") || err == nil && len(plan) == 0 {
					b.Fatal(plan, err)
				}
			}
		})
	}
}
