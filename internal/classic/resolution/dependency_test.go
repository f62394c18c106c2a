package resolution_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/resolution"
)

// wanting returns an input with a Subscription to package "a", whose dependencies the options define.
func wanting(need option, others ...resolution.Offer) resolution.Input {
	return resolution.Input{
		Offers:        append(others, catalog("c", 0, entry("a", "stable", "1.0.0", need))),
		Subscriptions: subs(subscription("a", "stable")),
	}
}

const unmet = "constraints not satisfiable: bundle a.v1.0.0 requires an operator %s, subscription a exists, subscription a requires c/olm/stable/a.v1.0.0"

func TestDependencies(t *testing.T) {
	b := func(versions ...string) resolution.Offer { return catalog("d", 0, line("b", "stable", versions...)...) }
	apiText := "providing an API with group: example.com, version: v1, kind: B"
	run(t, []testCase{
		{name: "the provider of an API is added", in: wanting(requires("B"), catalog("d", 0, entry("b", "stable", "1.0.0", provides("B")))), want: []string{"c/stable/a.v1.0.0", "d/stable/b.v1.0.0"}},
		{name: "an API without a provider", in: wanting(requires("B")), wantErr: fmt.Sprintf(unmet, apiText)},
		{name: "a bundle provides what it requires", in: resolution.Input{Offers: offers(catalog("c", 0, entry("a", "stable", "1.0.0", provides("B"), requires("B")))), Subscriptions: subs(subscription("a", "stable"))}, want: []string{"c/stable/a.v1.0.0"}},
		{name: "a package in a range", in: wanting(needs("b", ">1.0.0 <2.0.0"), b("1.0.0", "1.5.0", "2.0.0")), want: []string{"c/stable/a.v1.0.0", "d/stable/b.v1.5.0 → b.v1.0.0"}},
		{name: "a version is excluded", in: wanting(needs("b", ">1.0.0 !1.2.1"), b("1.0.0", "1.1.0", "1.2.1")), want: []string{"c/stable/a.v1.0.0", "d/stable/b.v1.1.0 → b.v1.0.0"}},
		{name: "no version of the package", in: wanting(needs("b", ">2.0.0"), b("1.0.0")), wantErr: fmt.Sprintf(unmet, "with package: b and with version in range: >2.0.0")},
		{name: "a label", in: wanting(property("olm.label.required", `{"label":"x"}`), catalog("d", 0, entry("b", "stable", "1.0.0", property("olm.label", `{"label":"y"}`)), entry("e", "stable", "1.0.0", property("olm.label", `{"label":"x"}`)))), want: []string{"c/stable/a.v1.0.0", "d/stable/e.v1.0.0"}},
		{name: "no such label", in: wanting(property("olm.label.required", `{"label":"x"}`)), wantErr: fmt.Sprintf(unmet, "with label: x")},
		{
			name: "two needs may be met by two operators",
			in: resolution.Input{
				Offers: offers(catalog("c", 0, entry("a", "stable", "1.0.0", needs("etcd", ">3.1.0"), requires("EtcdCluster")),
					entry("etcd", "stable", "3.2.0"), entry("other", "stable", "1.0.0", provides("EtcdCluster")))),
				Subscriptions: subs(subscription("a", "stable")),
			},
			want: []string{"c/stable/a.v1.0.0", "c/stable/etcd.v3.2.0", "c/stable/other.v1.0.0"},
		},
		{
			name: "needs of needs", in: wanting(requires("B"), catalog("d", 0, entry("b", "stable", "1.0.0", provides("B"), requires("E")), entry("e", "stable", "1.0.0", provides("E")))),
			want: []string{"c/stable/a.v1.0.0", "d/stable/b.v1.0.0", "d/stable/e.v1.0.0"},
		},
		{
			name: "an older version has an available dependency",
			in: resolution.Input{
				Offers:        offers(catalog("c", 0, entry("a", "stable", "2.0.0", requires("B"), replaces("a.v1.0.0")), entry("a", "stable", "1.0.0"))),
				Subscriptions: subs(subscription("a", "stable")),
			},
			want: []string{"c/stable/a.v1.0.0"},
		},
		{name: "a need that cannot be read", in: wanting(constraint(`{"failureMessage":"m","wrong":1}`)), wantErr: `parse requirements of bundle c/olm/stable/a.v1.0.0: property "olm.constraint": json: unknown field "wrong"`},
		{name: "an empty need", in: wanting(constraint(`{"failureMessage":"m"}`)), wantErr: `parse requirements of bundle c/olm/stable/a.v1.0.0: property "olm.constraint": a constraint has one of gvk, package, cel, all, any and not: this one has 0 of them`},
		{name: "properties that are not known", in: wanting(property("something.else", `{"x":1}`)), want: []string{"c/stable/a.v1.0.0"}},
	})
}

func TestConstraints(t *testing.T) {
	certified := property("certified", `true`)
	stable := property("stable", `true`)
	others := catalog("d", 0,
		entry("blue", "stable", "1.0.0", provides("Green")),
		entry("cyan", "stable", "1.0.0", certified, stable),
		entry("grey", "stable", "1.0.0", certified, provides("Grey")))
	var many []option
	for i := range 300 {
		many = append(many, property(fmt.Sprint("p", i), `true`))
	}
	const endless = `size(properties) > 100 && properties.all(p, properties.all(q, properties.all(r, p.type + q.type + r.type != '')))`
	gvk := func(kind string) string {
		return fmt.Sprintf(`{"failureMessage":"%s is needed","gvk":{"group":"example.com","version":"v1","kind":%q}}`, kind, kind)
	}
	rule := `{"failureMessage":"require to have certified and stable properties","cel":{"rule":"properties.exists(p, p.type == \"certified\") && properties.exists(p, p.type == \"%s\")"}}`
	run(t, []testCase{
		{name: "an API", in: wanting(constraint("%s", gvk("Green")), others), want: []string{"c/stable/a.v1.0.0", "d/stable/blue.v1.0.0"}},
		{name: "a package", in: wanting(constraint(`{"package":{"packageName":"blue","versionRange":">=1.0.0"}}`), others), want: []string{"c/stable/a.v1.0.0", "d/stable/blue.v1.0.0"}},
		{name: "a rule", in: wanting(constraint(rule, "stable"), others), want: []string{"c/stable/a.v1.0.0", "d/stable/cyan.v1.0.0"}},
		{
			name: "a rule that holds for none", in: wanting(constraint(rule, "shiny"), others),
			wantErr: fmt.Sprintf(unmet, `with constraint: "properties.exists(p, p.type == \"certified\") && properties.exists(p, p.type == \"shiny\")" and message: "require to have certified and stable properties"`),
		},
		{
			// The cost limit stops its evaluation.
			name: "a rule that does not end", in: wanting(constraint(`{"failureMessage":"too much","cel":{"rule":"`+endless+`"}}`), catalog("d", 0, entry("huge", "stable", "1.0.0", many...))),
			wantErr: fmt.Sprintf(unmet, `with constraint: "`+endless+`" and message: "too much"`),
		},
		{
			name: "a rule that does not compile", in: wanting(constraint(`{"failureMessage":"m","cel":{"rule":"bundles.exists(b, true)"}}`), others),
			wantErr: `parse requirements of bundle c/olm/stable/a.v1.0.0: property "olm.constraint": cel: line 1, column 1: undeclared reference to 'bundles' (in container '')`,
		},
		{
			name: "a comparison of versions", in: wanting(constraint(`{"cel":{"rule":"properties.exists(p, p.type == \"olm.package\" && p.value.packageName == \"grey\" && semver_compare(p.value.version, \"0.9.0\") == 1)"}}`), others),
			want: []string{"c/stable/a.v1.0.0", "d/stable/grey.v1.0.0"},
		},
		{
			name: "all on one bundle", in: wanting(constraint(`{"failureMessage":"All are required for Red","all":{"constraints":[{"package":{"packageName":"blue","versionRange":">=1.0.0"}},%s]}}`, gvk("Green")), others),
			want: []string{"c/stable/a.v1.0.0", "d/stable/blue.v1.0.0"},
		},
		{
			name: "all are not on one bundle", in: wanting(constraint(`{"failureMessage":"All are required for Red","all":{"constraints":[%s,%s]}}`, gvk("Grey"), gvk("Green")), others),
			wantErr: fmt.Sprintf(unmet, `all of: providing an API with group: example.com, version: v1, kind: Grey and message: "Grey is needed"; `+
				`providing an API with group: example.com, version: v1, kind: Green and message: "Green is needed" and message: "All are required for Red"`),
		},
		{name: "any", in: wanting(constraint(`{"any":{"constraints":[%s,%s]}}`, gvk("Pink"), gvk("Grey")), others), want: []string{"c/stable/a.v1.0.0", "d/stable/grey.v1.0.0"}},
		{
			name: "nested", in: wanting(constraint(`{"any":{"constraints":[{"all":{"constraints":[%s,%s]}},{"all":{"constraints":[%s,{"not":{"constraints":[%s]}}]}}]}}`, gvk("Pink"), gvk("Grey"), gvk("Grey"), gvk("Green")), others),
			want: []string{"c/stable/a.v1.0.0", "d/stable/grey.v1.0.0"},
		},
		{
			name: "not", in: wanting(constraint(`{"all":{"constraints":[{"not":{"constraints":[%s]}},{"cel":{"rule":"properties.exists(p, p.type == \"certified\")"}},{"not":{"constraints":[{"package":{"packageName":"cyan"}}]}}]}}`, gvk("Green")), others),
			want: []string{"c/stable/a.v1.0.0", "d/stable/grey.v1.0.0"},
		},
	})
}

func TestPreferences(t *testing.T) {
	b := func(channel, version string) *resolution.Entry { return entry("b", channel, version, provides("B")) }
	run(t, []testCase{
		{name: "the higher priority", in: wanting(requires("B"), catalog("d", 1, b("stable", "1.0.0")), catalog("e", 2, b("stable", "2.0.0"))), want: []string{"c/stable/a.v1.0.0", "e/stable/b.v2.0.0"}},
		{
			name: "the same catalog before a higher priority",
			in: resolution.Input{
				Offers:        offers(catalog("c", 0, entry("a", "stable", "1.0.0", requires("B")), b("stable", "1.0.0")), catalog("d", 9, b("stable", "2.0.0"))),
				Subscriptions: subs(subscription("a", "stable")),
			},
			want: []string{"c/stable/a.v1.0.0", "c/stable/b.v1.0.0"},
		},
		{name: "the own namespace before the global one", in: wanting(requires("B"), catalogIn(namespace, "z", 0, b("stable", "1.0.0")), catalog("d", 0, b("stable", "2.0.0"))), want: []string{"c/stable/a.v1.0.0", "z/stable/b.v1.0.0"}},
		{name: "then by name", in: wanting(requires("B"), catalog("e", 0, b("stable", "1.0.0")), catalog("d", 0, b("stable", "2.0.0"))), want: []string{"c/stable/a.v1.0.0", "d/stable/b.v2.0.0"}},
		{name: "the default channel", in: wanting(requires("B"), catalog("d", 0, b("alpha", "3.0.0"), b("stable", "1.0.0"))), want: []string{"c/stable/a.v1.0.0", "d/stable/b.v1.0.0"}},
		{name: "then channels by name", in: wanting(requires("B"), catalog("d", 0, b("gamma", "3.0.0"), b("beta", "2.0.0"))), want: []string{"c/stable/a.v1.0.0", "d/beta/b.v2.0.0"}},
		{
			name: "the head of a channel",
			in:   wanting(requires("B"), catalog("d", 0, b("stable", "1.0.0"), entry("b", "stable", "2.0.0", provides("B"), replaces("b.v1.0.0")))),
			want: []string{"c/stable/a.v1.0.0", "d/stable/b.v2.0.0 → b.v1.0.0"},
		},
		{
			name: "the newest entry that satisfies the dependency",
			in: wanting(requires("B"), catalog("d", 0, b("stable", "1.0.0"), entry("b", "stable", "2.0.0", provides("B"), replaces("b.v1.0.0")),
				entry("b", "stable", "3.0.0", replaces("b.v2.0.0")))),
			want: []string{"c/stable/a.v1.0.0", "d/stable/b.v2.0.0 → b.v1.0.0"},
		},
		{
			name: "another version of a package is not its provider",
			in: resolution.Input{
				Offers:        offers(catalog("c", 0, entry("a", "stable", "1.0.0", provides("B")), entry("a", "stable", "2.0.0", requires("B"), replaces("a.v1.0.0")))),
				Subscriptions: subs(subscription("a", "stable")),
			},
			want: []string{"c/stable/a.v1.0.0"},
		},
		{
			name: "an API that moves from one operator to another",
			in: resolution.Input{
				Offers: offers(catalog("c", 0, entry("p", "stable", "1.0.0", provides("M")), entry("p", "stable", "2.0.0", replaces("p.v1.0.0")),
					entry("q", "stable", "1.0.0"), entry("q", "stable", "2.0.0", provides("M"), replaces("q.v1.0.0")))),
				Subscriptions: subs(subscription("p", "stable", has("p.v1.0.0")), subscription("q", "stable", has("q.v1.0.0"))),
				CSVs:          csvs(csvOf(t, entry("p", "", "1.0.0", provides("M"))), csvOf(t, entry("q", "", "1.0.0"))),
			},
			want: []string{"c/stable/p.v2.0.0 → p.v1.0.0", "c/stable/q.v2.0.0 → q.v1.0.0"},
		},
		{
			name: "installed operators take precedence",
			in: func() resolution.Input {
				in := wanting(requires("B"), catalog("d", 0, b("stable", "2.0.0")))
				in.CSVs = csvs(csvOf(t, b("", "1.0.0")))
				return in
			}(),
			want: []string{"c/stable/a.v1.0.0"},
		},
		{
			name: "what another dependency adds anyway",
			in: resolution.Input{
				Offers: offers(catalog("c", 0, entry("a", "stable", "1.0.0", requires("B"), needs("z", ">=1.0.0")),
					entry("b", "stable", "1.0.0", provides("B")), entry("z", "stable", "1.0.0", property("olm.label", `{"label":"l"}`), provides("Z")))),
				Subscriptions: subs(subscription("a", "stable"), subscription("z", "stable")),
			},
			want: []string{"c/stable/a.v1.0.0", "c/stable/z.v1.0.0", "c/stable/b.v1.0.0"},
		},
	})
}

// Preferences of Subscriptions take precedence over those of dependencies, also those of operators without a Subscription.
func TestPreferencesOfSubscriptionsComeFirst(t *testing.T) {
	p := func(version string, options ...option) *resolution.Entry {
		return entry("p1", "stable", version, options...)
	}
	z := entry("z", "stable", "1.0.0", provides("K"))
	older, newer := p("1.1.0", provides("K")), p("4.1.0", replaces("p1.v1.1.0"))
	run(t, []testCase{
		{
			name: "an operator without a Subscription uses another provider",
			in: resolution.Input{
				Offers: offers(catalog("c", 0, older, newer, z)), Subscriptions: subs(subscription("p1", "stable")),
				CSVs: csvs(csvOf(t, entry("x", "", "1.0.0", requires("K")))),
			},
			want: []string{"c/stable/p1.v4.1.0 → p1.v1.1.0", "c/stable/z.v1.0.0"},
		},
		{
			name: "a dependency uses another provider",
			in: resolution.Input{
				Offers:        offers(catalog("c", 0, older, newer, z, entry("a", "stable", "1.0.0", requires("K")))),
				Subscriptions: subs(subscription("a", "stable"), subscription("p1", "stable")),
			},
			want: []string{"c/stable/a.v1.0.0", "c/stable/p1.v4.1.0 → p1.v1.1.0", "c/stable/z.v1.0.0"},
		},
		{
			name: "without another provider, the older version is chosen",
			in: resolution.Input{
				Offers: offers(catalog("c", 0, older, newer)), Subscriptions: subs(subscription("p1", "stable")),
				CSVs: csvs(csvOf(t, entry("x", "", "1.0.0", requires("K")))),
			},
			want: []string{"c/stable/p1.v1.1.0"},
		},
		{
			name: "Subscriptions are served in the order of their names",
			in: resolution.Input{
				Offers: offers(catalog("c", 0, older, newer, entry("a", "stable", "2.0.0", needs("p1", "<2.0.0"), replaces("a.v1.0.0")),
					entry("a", "stable", "1.0.0"))),
				Subscriptions: subs(subscription("a", "stable"), subscription("p1", "stable")),
			},
			want: []string{"c/stable/a.v2.0.0 → a.v1.0.0", "c/stable/p1.v1.1.0"},
		},
	})
}

// Two Subscriptions to one package are satisfied by a bundle that is in the channels of both.
func TestSubscriptionsToOnePackage(t *testing.T) {
	named := func(name string) func(*v1alpha1.Subscription) {
		return func(s *v1alpha1.Subscription) { s.Name = name }
	}
	both := func(version string, options ...option) []*resolution.Entry {
		return []*resolution.Entry{entry("p", "alpha", version, options...), entry("p", "stable", version, options...)}
	}
	v1, v2 := both("1.0.0", provides("P")), both("2.0.0", provides("P"), replaces("p.v1.0.0"))
	onlyAlpha := entry("p", "alpha", "3.0.0", replaces("p.v2.0.0"))
	run(t, []testCase{
		{
			name: "both are new",
			in: resolution.Input{
				Offers:        offers(catalog("c", 0, slices.Concat(v1, v2, []*resolution.Entry{onlyAlpha})...)),
				Subscriptions: subs(subscription("p", "alpha", named("one")), subscription("p", "stable", named("two"))),
			},
			want: []string{"c/alpha/p.v2.0.0 → p.v1.0.0"},
		},
		{
			name: "both are updated",
			in: resolution.Input{
				Offers:        offers(catalog("c", 0, slices.Concat(v1, v2)...)),
				Subscriptions: subs(subscription("p", "alpha", named("one"), has("p.v1.0.0")), subscription("p", "stable", named("two"), has("p.v1.0.0"))),
				CSVs:          csvs(csvOf(t, v1[0])),
			},
			want: []string{"c/alpha/p.v2.0.0 → p.v1.0.0"},
		},
		{
			name: "no bundle is in both channels",
			in: resolution.Input{
				Offers:        offers(catalog("c", 0, entry("p", "alpha", "2.0.0"), entry("p", "stable", "1.0.0"))),
				Subscriptions: subs(subscription("p", "alpha", named("one")), subscription("p", "stable", named("two"))),
			},
			wantErr: "constraints not satisfiable: c/olm/alpha/p.v2.0.0 and c/olm/stable/p.v1.0.0 originate from package p, subscription one exists, " +
				"subscription one requires c/olm/alpha/p.v2.0.0, subscription two exists, subscription two requires c/olm/stable/p.v1.0.0",
		},
	})
}

func TestUniqueProvidersAndPackages(t *testing.T) {
	run(t, []testCase{
		{
			name: "two providers of an API",
			in: resolution.Input{
				Offers:        offers(catalog("c", 0, entry("a", "stable", "1.0.0", provides("X")), entry("b", "stable", "1.0.0", provides("X")))),
				Subscriptions: subs(subscription("a", "stable"), subscription("b", "stable")),
			},
			wantErr: "constraints not satisfiable: c/olm/stable/a.v1.0.0 and c/olm/stable/b.v1.0.0 provide X (example.com/v1), subscription a exists, subscription a requires c/olm/stable/a.v1.0.0, subscription b exists, subscription b requires c/olm/stable/b.v1.0.0",
		},
		{
			name: "two versions of a package",
			in: resolution.Input{
				Offers: offers(catalog("c", 0, entry("a", "stable", "1.0.0", needs("b", "1.0.0")), entry("d", "stable", "1.0.0", needs("b", "2.0.0")),
					entry("b", "stable", "1.0.0"), entry("b", "stable", "2.0.0", replaces("b.v1.0.0")))),
				Subscriptions: subs(subscription("a", "stable"), subscription("d", "stable")),
			},
			wantErr: "constraints not satisfiable: bundle a.v1.0.0 requires an operator with package: b and with version in range: 1.0.0, bundle d.v1.0.0 requires an operator with package: b and with version in range: 2.0.0, " +
				"c/olm/stable/b.v1.0.0 and c/olm/stable/b.v2.0.0 originate from package b, subscription a exists, subscription a requires c/olm/stable/a.v1.0.0, subscription d exists, subscription d requires c/olm/stable/d.v1.0.0",
		},
	})
}

// An update waits if it would remove what another operator requires.
func TestBlockedUpdates(t *testing.T) {
	// A needs B. The update of B's provider provides C instead of B.
	needer := entry("a", "stable", "1.0.0", requires("B"))
	old, young := entry("p", "stable", "1.0.0", provides("B")), entry("p", "stable", "2.0.0", provides("C"), replaces("p.v1.0.0"))
	// A and B require each other, and the update of each requires that of the other.
	a1, b1 := entry("x", "stable", "1.0.0", provides("A1"), requires("B1")), entry("y", "stable", "1.0.0", provides("B1"), requires("A1"))
	a2, b2 := entry("x", "stable", "2.0.0", provides("A2"), requires("B2"), replaces("x.v1.0.0")), entry("y", "stable", "2.0.0", provides("B2"), requires("A2"), replaces("y.v1.0.0"))
	run(t, []testCase{
		{
			name: "a required API is no longer provided",
			in: resolution.Input{
				Offers:        offers(catalog("c", 0, needer, old, young)),
				Subscriptions: subs(subscription("a", "stable", has(needer.Name)), subscription("p", "stable", has(old.Name))),
				CSVs:          csvs(csvOf(t, needer), csvOf(t, old)),
			},
		},
		{
			name: "only one of the two can be updated",
			in: resolution.Input{
				Offers:        offers(catalog("c", 0, a1, a2, b1)),
				Subscriptions: subs(subscription("x", "stable", has(a1.Name)), subscription("y", "stable", has(b1.Name))),
				CSVs:          csvs(csvOf(t, a1), csvOf(t, b1)),
			},
		},
		{
			name: "both are updated together",
			in: resolution.Input{
				Offers:        offers(catalog("c", 0, a1, a2, b1, b2)),
				Subscriptions: subs(subscription("x", "stable", has(a1.Name)), subscription("y", "stable", has(b1.Name))),
				CSVs:          csvs(csvOf(t, a1), csvOf(t, b1)),
			},
			want: []string{"c/stable/x.v2.0.0 → x.v1.0.0", "c/stable/y.v2.0.0 → y.v1.0.0"},
		},
	})
}

// A namespace with many Subscriptions, and catalogs as large as real ones.
func large(tb testing.TB) resolution.Input {
	tb.Helper()
	const packages, versions = 300, 10
	in := resolution.Input{Namespace: namespace}
	for _, name := range []string{"c", "d", "e"} {
		var entries []*resolution.Entry
		for p := range packages {
			for v := range versions {
				e := entry(fmt.Sprint("p", p), "stable", fmt.Sprintf("1.%d.0", v), provides(fmt.Sprint("Kind", p)))
				if v > 0 {
					e.Replaces = fmt.Sprintf("p%d.v1.%d.0", p, v-1)
				}
				if p >= 10 {
					requires(fmt.Sprint("Kind", p%10))(e)
					needs(fmt.Sprint("p", p-10), ">=1.2.0")(e)
				}
				entries = append(entries, e)
			}
		}
		in.Offers = append(in.Offers, catalog(name, 0, entries...))
	}

	for i := range 30 {
		in.Subscriptions = append(in.Subscriptions, subscription(fmt.Sprint("p", 40+i*3), "stable", func(*v1alpha1.Subscription) {}))
	}

	return in
}

func TestLargeCatalogs(t *testing.T) {
	choices, err := resolution.Resolve(large(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(choices) < 60 {
		t.Errorf("got %d operators", len(choices))
	}
}

// Three catalogs are read, of 3,000 entries each.
func BenchmarkNewSnapshot(b *testing.B) {
	for b.Loop() {
		large(b)
	}
}

func BenchmarkResolve(b *testing.B) {
	in := large(b)
	for b.Loop() {
		if _, err := resolution.Resolve(in); err != nil {
			b.Fatal(err)
		}
	}
}

// many returns an input with 300 Subscriptions, and four catalogs with 300 packages and 4,000 bundles
// each, in two channels. Each package has the options that makeOptions returns.
func many(tb testing.TB, makeOptions func(p, packages int) []option) resolution.Input {
	tb.Helper()
	const packages, versions = 300, 13
	in := resolution.Input{Namespace: namespace}
	for _, name := range []string{"c", "d", "e", "f"} {
		var entries []*resolution.Entry
		for p := range packages {
			for v := range versions {
				e := entry(fmt.Sprint("p", p), "stable", fmt.Sprintf("1.%d.0", v), append(makeOptions(p, packages), provides(fmt.Sprint("Kind", p)))...)
				if v > 0 {
					e.Replaces = fmt.Sprintf("p%d.v1.%d.0", p, v-1)
				}
				candidate := *e
				candidate.Channel = "candidate"
				entries = append(entries, e, &candidate)
			}
		}
		in.Offers = append(in.Offers, catalog(name, 0, entries...))
	}

	for p := range packages {
		in.Subscriptions = append(in.Subscriptions, subscription(fmt.Sprint("p", p), "stable"))
	}
	return in
}

// BenchmarkResolveMany resolves the Subscriptions of one namespace, and divides the result into units.
func BenchmarkResolveMany(b *testing.B) {
	for _, bc := range []struct {
		name        string
		makeOptions func(p, packages int) []option
		units       int
	}{
		{"independent", func(int, int) []option { return nil }, 300},
		{"two dependencies each", func(p, packages int) []option {
			return []option{requires(fmt.Sprint("Kind", (p*7+1)%packages)), needs(fmt.Sprint("p", (p*3+2)%packages), ">=1.2.0")}
		}, 2},
	} {
		b.Run(bc.name, func(b *testing.B) {
			in := many(b, bc.makeOptions)
			for b.Loop() {
				outcome := resolution.ResolveEach(in)
				units := resolution.Units(outcome.Choices)
				if len(outcome.Choices) != len(in.Subscriptions) || len(units) != bc.units {
					b.Fatal(len(outcome.Choices), len(units), outcome.Failures)
				}
			}
		})
	}
}
