package subscription_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/content"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/testing/catalogserver"
)

// newUncheckedSource returns a catalog that may break the rules of file-based catalogs, as catalogs of other servers can.
func newUncheckedSource(releases ...catalogRelease) content.Stream {
	return content.Stream{
		Name: "unchecked", Database: true,
		All: func(yield func(fbc.Meta, error) bool) {
			fbc.Read(strings.NewReader(renderFBC(releases...)), "unchecked", fbc.Limits{})(yield)
		},
		Checksum: func(context.Context) (uint64, error) { return 1, nil },
	}
}

// rule returns a requirement that is an expression.
func rule(expression string) string {
	return fmt.Sprintf(`{"type":"olm.constraint","value":{"failureMessage":"m","cel":{"rule":%q}}}`, expression)
}

// A package that breaks the rules of catalogs fails its Subscription with the cause, and no other one. It is installed
// when the catalog is corrected.
func TestInvalidPackage(t *testing.T) {
	// The expression reads each triple of the properties of a bundle with 300 of them.
	const endless = `size(properties) > 100 && properties.all(p, properties.all(q, properties.all(r, p.type + q.type + r.type != '')))`
	var many []string
	for i := range 300 {
		many = append(many, fmt.Sprintf(`{"type":"p%d","value":true}`, i))
	}
	const prevented, unsatisfiable = v1alpha1.ErrorPreventedResolution, v1alpha1.ConstraintsNotSatisfiable
	const invalidRule = `parse requirements of bundle c/GLOBAL/stable/a.v1.0.0: property "olm.constraint": cel: `
	const remedy = "The catalog must be corrected, or choose another channel with spec.channel."
	a := func(version, replaces string) catalogRelease {
		return catalogRelease{pkg: "a", version: version, replaces: replaces}
	}
	withRule := func(expression string) catalogRelease {
		return catalogRelease{pkg: "a", version: "1.0.0", properties: []string{rule(expression)}}
	}
	for name, test := range map[string]struct {
		bad                  []catalogRelease
		reason, want, advice string
	}{
		"a channel without a head": {
			[]catalogRelease{a("1.0.0", "a.v2.0.0"), a("2.0.0", "a.v1.0.0")},
			prevented, `subscription NAMESPACE/a: no channel heads (entries not replaced by another entry) found in channel "stable" of package "a"`, remedy,
		},
		"a cycle below the head": {
			[]catalogRelease{a("1.0.0", "a.v2.0.0"), a("2.0.0", "a.v1.0.0"), a("3.0.0", "a.v2.0.0")},
			prevented, `subscription NAMESPACE/a: a cycle exists in the chain of replacement beginning with "a.v3.0.0" in channel "stable" of package "a"`, remedy,
		},
		"two heads": {
			[]catalogRelease{a("1.0.0", ""), a("2.0.0", "")},
			prevented, `subscription NAMESPACE/a: a unique replacement chain within a channel is required`, remedy,
		},
		"an expression that does not compile": {
			[]catalogRelease{withRule(`bundles.exists(b, true)`)},
			prevented, invalidRule + `line 1, column 1: undeclared reference to 'bundles'`, remedy,
		},
		"an expression of another type": {
			[]catalogRelease{withRule(`1 + 1`)}, prevented, invalidRule + `cel expressions must have type Bool`, remedy,
		},
		"an expression that does not end": {
			[]catalogRelease{withRule(endless), {pkg: "huge", version: "1.0.0", properties: many}},
			unsatisfiable, `constraints not satisfiable: bundle a.v1.0.0 requires an operator with constraint: "size(properties) > 100`, `Subscription "a" cannot be satisfied. `,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newFixture(t)
			good := catalogRelease{pkg: "b", version: "1.0.0"}
			address, stop := catalogserver.Serve(t, "", newUncheckedSource(append(test.bad, good)...))
			c.createCatalog(c.global, "c", address)
			failing, other := c.createSubscription("a"), c.createSubscription("b")
			c.waitForPlan(other, "b.v1.0.0")
			want := strings.NewReplacer("NAMESPACE", c.namespace, "GLOBAL", c.global).Replace(test.want)
			c.waitForStatus(failing, func(s *v1alpha1.SubscriptionStatus) bool {
				failed := condition(s, v1alpha1.SubscriptionResolutionFailed)
				return failed.Reason == test.reason && strings.HasPrefix(failed.Message, want) && strings.Contains(failed.Message, test.advice)
			})
			c.waitForEvent("ResolutionFailed", failing.Name, want)

			stop()
			serveCatalog(t, address, a("1.0.0", ""), good)
			c.waitForPlan(failing, "a.v1.0.0")
			if failed := condition(&failing.Status, v1alpha1.SubscriptionResolutionFailed); failed.Type != "" {
				t.Errorf("got the condition %+v, want none", failed)
			}
		})
	}
}

// A Subscription names a missing version or channel. It is resolved when that exists.
func TestMissingPackageAndVersion(t *testing.T) {
	for name, test := range map[string]struct {
		first []catalogRelease
		edit  func(*v1alpha1.Subscription)
		want  string
	}{
		"the package": {[]catalogRelease{{pkg: "b", version: "1.0.0"}}, func(*v1alpha1.Subscription) {}, "no operators found in package a in the catalog referenced by subscription a"},
		"the version": {
			[]catalogRelease{{pkg: "a", version: "0.9.0"}}, startingAt("a.v1.0.0"),
			"no operators found with name a.v1.0.0 in channel stable of package a in the catalog referenced by subscription a",
		},
		"the channel": {
			[]catalogRelease{{pkg: "a", version: "1.0.0", channel: "alpha"}}, func(*v1alpha1.Subscription) {},
			"no operators found in channel stable of package a in the catalog referenced by subscription a",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newFixture(t)
			address, stop := catalogserver.Serve(t, "", newUncheckedSource(test.first...))
			c.createCatalog(c.global, "c", address)
			sub := c.createSubscription("a", test.edit)
			c.waitForStatus(sub, func(s *v1alpha1.SubscriptionStatus) bool {
				failed := condition(s, v1alpha1.SubscriptionResolutionFailed)
				return failed.Reason == v1alpha1.ConstraintsNotSatisfiable && strings.Contains(failed.Message, test.want)
			})

			stop()
			serveCatalog(t, address, catalogRelease{pkg: "a", version: "1.0.0"})
			c.waitForPlan(sub, "a.v1.0.0")
		})
	}
}
