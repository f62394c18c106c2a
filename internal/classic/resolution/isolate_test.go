package resolution_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/resolution"
)

// Subscriptions that cannot be resolved do not affect the others.
func TestResolveEach(t *testing.T) {
	unread := func(name string, priority int) []resolution.UnreadCatalog {
		return []resolution.UnreadCatalog{{Catalog: types.NamespacedName{Namespace: global, Name: name}, Priority: priority, Err: errors.New("catalog " + name + " is unread")}}
	}
	a1 := func() *resolution.Entry { return entry("a", "stable", "1.0.0") }
	a2 := func() *resolution.Entry { return entry("a", "stable", "2.0.0", replaces("a.v1.0.0")) }
	b1 := func() *resolution.Entry { return entry("b", "stable", "1.0.0", provides("B")) }
	bad := subscription("b", "none")
	for _, test := range []struct {
		name string
		in   resolution.Input
		want []string
		// failures are the start of the error of each Subscription.
		failures map[string]string
	}{
		{
			name:     "a wrong channel",
			in:       resolution.Input{Offers: offers(catalog("c", 0, a1(), b1())), Subscriptions: subs(subscription("a", "stable"), bad)},
			want:     []string{"c/stable/a.v1.0.0"},
			failures: map[string]string{"b": "constraints not satisfiable: no operators found in channel none of package b"},
		},
		{
			name: "a dependent fails, too",
			in: resolution.Input{
				Offers:        offers(catalog("c", 0, entry("a", "stable", "1.0.0", requires("B")), b1(), entry("x", "stable", "1.0.0"))),
				Subscriptions: subs(subscription("a", "stable"), bad, subscription("x", "stable")),
			},
			want: []string{"c/stable/x.v1.0.0"},
			failures: map[string]string{
				"a": "constraints not satisfiable: bundle a.v1.0.0 requires an operator providing an API with group: example.com, version: v1, kind: B, bundle c/olm/stable/b.v1.0.0 is not chosen because subscription b cannot be resolved",
				"b": "constraints not satisfiable: no operators found in channel none of package b",
			},
		},
		{
			name: "an installed operator stays without its catalog, and another operator is updated",
			in: resolution.Input{
				Offers: offers(catalog("c", 0, a1(), a2())), CSVs: csvs(csvOf(t, a1()), csvOf(t, b1())),
				Subscriptions: subs(subscription("a", "stable", has("a.v1.0.0")), subscription("b", "stable", from("d"), has("b.v1.0.0"))),
			},
			want:     []string{"c/stable/a.v2.0.0 → a.v1.0.0"},
			failures: map[string]string{"b": "constraints not satisfiable: no operators found from catalog d"},
		},
		{
			name: "a new operator contradicts an installed one",
			in: resolution.Input{
				Offers: offers(catalog("c", 0, b1(), entry("a", "stable", "1.0.0", provides("B")), entry("b", "stable", "2.0.0", provides("B"), replaces("b.v1.0.0")))), CSVs: csvs(csvOf(t, b1())),
				Subscriptions: subs(subscription("a", "stable"), subscription("b", "stable", has("b.v1.0.0"))),
			},
			want:     []string{"c/stable/b.v2.0.0 → b.v1.0.0"},
			failures: map[string]string{"a": "constraints not satisfiable: "},
		},
		{
			name: "an operator whose own dependency is missing does not stop another",
			in: resolution.Input{
				Offers: offers(catalog("c", 0, a1())), CSVs: csvs(csvOf(t, entry("z", "stable", "1.0.0", requires("Z")))),
				Subscriptions: subs(subscription("a", "stable")),
			},
			want: []string{"c/stable/a.v1.0.0"},
		},
		{
			name: "a channel without order",
			in: resolution.Input{
				Offers:        offers(catalog("c", 0, a1(), entry("b", "stable", "1"), entry("b", "stable", "2"))),
				Subscriptions: subs(subscription("a", "stable"), subscription("b", "stable")),
			},
			want:     []string{"c/stable/a.v1.0.0"},
			failures: map[string]string{"b": "subscription ns/b: a unique replacement chain"},
		},
		{
			name: "a catalog that is not needed is unread",
			in:   resolution.Input{Offers: offers(catalog("c", 0, a1())), Unread: unread("d", 9), Subscriptions: subs(subscription("a", "stable"))},
			want: []string{"c/stable/a.v1.0.0"},
		},
		{
			name: "the catalog of one of them is unread",
			in: resolution.Input{
				Offers: offers(catalog("c", 0, a1())), Unread: unread("d", 9),
				Subscriptions: subs(subscription("a", "stable"), subscription("b", "stable", from("d"))),
			},
			want:     []string{"c/stable/a.v1.0.0"},
			failures: map[string]string{"b": "catalog d is unread"},
		},
		{
			name: "a dependency may be in the catalog that is unread",
			in: resolution.Input{
				Offers: offers(catalog("c", 0, entry("a", "stable", "1.0.0", requires("B")))), Unread: unread("d", 0),
				Subscriptions: subs(subscription("a", "stable")),
			},
			failures: map[string]string{"a": "catalog d is unread"},
		},
		{
			name: "no older version is installed while a catalog is unread",
			in: resolution.Input{
				Offers: offers(catalog("c", 0, a1(), entry("a", "stable", "2.0.0", replaces("a.v1.0.0"), requires("B")))), Unread: unread("d", 0),
				Subscriptions: subs(subscription("a", "stable")),
			},
			failures: map[string]string{"a": "catalog d is unread"},
		},
		{
			name: "a dependency does not come from a catalog of lower priority",
			in: resolution.Input{
				Offers: offers(catalog("c", 0, entry("a", "stable", "1.0.0", requires("B"))), catalog("e", 1, b1())), Unread: unread("d", 2),
				Subscriptions: subs(subscription("a", "stable")),
			},
			failures: map[string]string{"a": "catalog d is unread"},
		},
		{
			name: "a dependency comes from a catalog of higher priority",
			in: resolution.Input{
				Offers: offers(catalog("c", 0, entry("a", "stable", "1.0.0", requires("B"))), catalog("e", 3, b1())), Unread: unread("d", 2),
				Subscriptions: subs(subscription("a", "stable")),
			},
			want: []string{"c/stable/a.v1.0.0", "e/stable/b.v1.0.0"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.in.Namespace = namespace
			got := resolution.ResolveEach(test.in)
			if diff := cmp.Diff(test.want, texts(got.Choices)); diff != "" {
				t.Errorf("choices (-want +got)\n%s", diff)
			}
			for name, err := range got.Failures {
				if want, ok := test.failures[name]; !ok || !strings.HasPrefix(err.Error(), want) {
					t.Errorf("Subscription %s failed with\n%v, want\n%s", name, err, want)
				}
			}
			if len(got.Failures) != len(test.failures) {
				t.Errorf("got %d failures, want %d", len(got.Failures), len(test.failures))
			}
		})
	}
}

// TestNeeds checks which choices require each other.
func TestNeeds(t *testing.T) {
	b1 := func() *resolution.Entry { return entry("b", "stable", "1.0.0", provides("B")) }
	b2 := func() *resolution.Entry { return entry("b", "stable", "2.0.0", provides("B"), replaces("b.v1.0.0")) }
	for _, test := range []struct {
		name string
		in   resolution.Input
		// want are the needs by name, and units the names of each unit.
		want  map[string][]string
		units []string
	}{
		{
			name:  "nothing",
			in:    resolution.Input{Offers: offers(catalog("c", 0, entry("a", "stable", "1.0.0"), b1())), Subscriptions: subs(subscription("a", "stable"), subscription("b", "stable"))},
			units: []string{"a.v1.0.0", "b.v1.0.0"},
		},
		{
			name: "a dependency, and what shares it",
			in: resolution.Input{
				Offers:        offers(catalog("c", 0, entry("a", "stable", "1.0.0", requires("B")), b1(), entry("d", "stable", "1.0.0", requires("B")), entry("e", "stable", "1.0.0"))),
				Subscriptions: subs(subscription("a", "stable"), subscription("d", "stable"), subscription("e", "stable")),
			},
			want:  map[string][]string{"a.v1.0.0": {"b.v1.0.0"}, "d.v1.0.0": {"b.v1.0.0"}},
			units: []string{"a.v1.0.0 d.v1.0.0 b.v1.0.0", "e.v1.0.0"},
		},
		{
			name: "a dependency that is installed",
			in: resolution.Input{
				Offers: offers(catalog("c", 0, entry("a", "stable", "1.0.0", requires("B")), b1())), CSVs: csvs(csvOf(t, b1())),
				Subscriptions: subs(subscription("a", "stable"), subscription("b", "stable", has("b.v1.0.0"))),
			},
			units: []string{"a.v1.0.0"},
		},
		{
			name: "the installed operator allows no update of its dependency, its update does",
			in: resolution.Input{
				Offers:        offers(catalog("c", 0, b1(), b2(), entry("a", "stable", "2.0.0", replaces("a.v1.0.0")))),
				CSVs:          csvs(csvOf(t, b1()), csvOf(t, entry("a", "stable", "1.0.0", needs("b", "<2.0.0")))),
				Subscriptions: subs(subscription("a", "stable", has("a.v1.0.0")), subscription("b", "stable", has("b.v1.0.0"))),
			},
			want:  map[string][]string{"b.v2.0.0": {"a.v2.0.0"}},
			units: []string{"a.v2.0.0 b.v2.0.0"},
		},
		{
			name: "an API moves to another operator",
			in: resolution.Input{
				Offers:        offers(catalog("c", 0, entry("b", "stable", "2.0.0", replaces("b.v1.0.0")), entry("a", "stable", "1.0.0", provides("B")))),
				CSVs:          csvs(csvOf(t, b1())),
				Subscriptions: subs(subscription("a", "stable"), subscription("b", "stable", has("b.v1.0.0"))),
			},
			want:  map[string][]string{"a.v1.0.0": {"b.v2.0.0"}},
			units: []string{"a.v1.0.0 b.v2.0.0"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.in.Namespace = namespace
			o := resolution.ResolveEach(test.in)
			got := map[string][]string{}
			for _, c := range o.Choices {
				if len(c.Needs) > 0 {
					got[c.Name] = c.Needs
				}
			}
			if test.want == nil {
				test.want = map[string][]string{}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("needs (-want +got)\n%s", diff)
			}

			var units []string
			for _, unit := range resolution.Units(o.Choices) {
				var names []string
				for _, c := range unit {
					names = append(names, c.Name)
				}
				units = append(units, strings.Join(names, " "))
			}
			if diff := cmp.Diff(test.units, units); diff != "" {
				t.Errorf("units (-want +got)\n%s", diff)
			}
		})
	}
}

// An update in progress stops neither the resolution nor other operators.
func TestResolveEachDuringUpdate(t *testing.T) {
	a1, a2 := entry("a", "stable", "1.0.0"), entry("a", "stable", "2.0.0", replaces("a.v1.0.0"))
	o := resolution.ResolveEach(resolution.Input{
		Namespace: namespace, Offers: offers(catalog("c", 0, a1, a2, entry("b", "stable", "1.0.0"))),
		CSVs:          csvs(csvOf(t, a1, inPhase(v1alpha1.CSVPhaseReplacing)), csvOf(t, a2, inPlaceOf("a.v1.0.0"), inPhase(v1alpha1.CSVPhaseInstalling))),
		Subscriptions: subs(subscription("a", "stable", has("a.v2.0.0")), subscription("b", "stable")),
	})
	if diff := cmp.Diff([]string{"c/stable/b.v1.0.0"}, texts(o.Choices)); diff != "" || len(o.Failures) > 0 {
		t.Errorf("failures %v, choices (-want +got)\n%s", o.Failures, diff)
	}
}
