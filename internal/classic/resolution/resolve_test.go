package resolution_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/resolution"
)

type testCase struct {
	name string
	in   resolution.Input
	// want are the choices, as CATALOG/CHANNEL/CSV, and what each replaces after an arrow.
	want []string
	// wantErr is the whole error.
	wantErr string
}

func run(t *testing.T, tests []testCase) {
	t.Helper()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.in.Namespace = namespace
			// The order of the inputs has no effect.
			for range 2 {
				choices, err := resolution.Resolve(test.in)
				if test.wantErr != "" || err != nil {
					if err == nil || err.Error() != test.wantErr {
						t.Fatalf("error\n%v, want\n%s", err, test.wantErr)
					}
				} else if diff := cmp.Diff(test.want, texts(choices)); diff != "" {
					t.Fatalf("(-want +got)\n%s", diff)
				}

				slices.Reverse(test.in.Offers)
				slices.Reverse(test.in.Subscriptions)
				slices.Reverse(test.in.CSVs)
			}
		})
	}
}

func texts(choices []resolution.Choice) []string {
	var all []string
	for _, c := range choices {
		text := c.Catalog().Name + "/" + c.Channel + "/" + c.Name
		if c.Replaces != "" {
			text += " → " + c.Replaces
		}
		all = append(all, text)
	}

	return all
}

func offers(all ...resolution.Offer) []resolution.Offer           { return all }
func subs(all ...*v1alpha1.Subscription) []*v1alpha1.Subscription { return all }
func csvs(all ...v1alpha1.ClusterServiceVersion) []v1alpha1.ClusterServiceVersion {
	return all
}

// example is the graph of the documentation: 0.1.3 replaces 0.1.2 replaces 0.1.1.
func example() resolution.Offer {
	return catalog("c", 0, line("example", "stable", "0.1.1", "0.1.2", "0.1.3")...)
}

func TestUpdateGraph(t *testing.T) {
	etcd := func() resolution.Offer {
		return catalog("c", 0,
			entry("etcd", "stable", "0.9.0"),
			entry("etcd", "stable", "0.9.1", replaces("etcd.v0.9.0")),
			entry("etcd", "stable", "0.9.2", replaces("etcd.v0.9.0"), skips("etcd.v0.9.1")))
	}
	installed := func(pkg, version string) []v1alpha1.ClusterServiceVersion {
		return csvs(csvOf(t, entry(pkg, "", version)))
	}
	elasticsearch := func() resolution.Offer {
		return catalog("c", 0,
			entry("es", "stable", "4.1.2", replaces("es.v4.1.1"), skipRange(">=4.1.0 <4.1.2")),
			entry("es", "stable", "4.1.1"))
	}
	run(t, []testCase{
		{name: "the head of the channel is installed", in: resolution.Input{Offers: offers(example()), Subscriptions: subs(subscription("example", "stable"))}, want: []string{"c/stable/example.v0.1.3 → example.v0.1.2"}},
		{name: "one step at a time", in: resolution.Input{Offers: offers(example()), Subscriptions: subs(subscription("example", "stable", has("example.v0.1.1"))), CSVs: installed("example", "0.1.1")}, want: []string{"c/stable/example.v0.1.2 → example.v0.1.1"}},
		{name: "then the next", in: resolution.Input{Offers: offers(example()), Subscriptions: subs(subscription("example", "stable", has("example.v0.1.2"))), CSVs: installed("example", "0.1.2")}, want: []string{"c/stable/example.v0.1.3 → example.v0.1.2"}},
		{
			name: "another package is requested now",
			in: resolution.Input{
				Offers:        offers(catalog("c", 0, entry("p", "stable", "1.0.0"), entry("q", "stable", "1.0.0"))),
				Subscriptions: subs(subscription("q", "stable", has("p.v1.0.0"))), CSVs: installed("p", "1.0.0"),
			},
			want: []string{"c/stable/q.v1.0.0"},
		},
		{name: "the head has no update", in: resolution.Input{Offers: offers(example()), Subscriptions: subs(subscription("example", "stable", has("example.v0.1.3"))), CSVs: installed("example", "0.1.3")}},
		{name: "the installed version is missing", in: resolution.Input{Offers: offers(example()), Subscriptions: subs(subscription("example", "stable", has("example.v0.1.1")))}, want: []string{"c/stable/example.v0.1.1"}},
		{name: "the installed version is missing, also in the catalog", in: resolution.Input{Offers: offers(example()), Subscriptions: subs(subscription("example", "stable", has("example.v0.1.0")))}, want: []string{"c/stable/example.v0.1.3 → example.v0.1.2"}},
		{name: "the installed version is missing, and was not the first", in: resolution.Input{Offers: offers(example()), Subscriptions: subs(subscription("example", "stable", has("example.v0.1.2"), startingAt("example.v0.1.1")))}, want: []string{"c/stable/example.v0.1.2 → example.v0.1.1"}},
		{name: "a skipped version is not installed", in: resolution.Input{Offers: offers(etcd()), Subscriptions: subs(subscription("etcd", "stable", has("etcd.v0.9.0"))), CSVs: installed("etcd", "0.9.0")}, want: []string{"c/stable/etcd.v0.9.2 → etcd.v0.9.0"}},
		{name: "an installed skipped version is updated", in: resolution.Input{Offers: offers(etcd()), Subscriptions: subs(subscription("etcd", "stable", has("etcd.v0.9.1"))), CSVs: installed("etcd", "0.9.1")}, want: []string{"c/stable/etcd.v0.9.2 → etcd.v0.9.1"}},
		{name: "a skipped version can be the starting version", in: resolution.Input{Offers: offers(etcd()), Subscriptions: subs(subscription("etcd", "stable", startingAt("etcd.v0.9.1")))}, want: []string{"c/stable/etcd.v0.9.1 → etcd.v0.9.0"}},
		{name: "a range of versions is skipped", in: resolution.Input{Offers: offers(elasticsearch()), Subscriptions: subs(subscription("es", "stable", has("es.v4.1.0"))), CSVs: installed("es", "4.1.0")}, want: []string{"c/stable/es.v4.1.2 → es.v4.1.0"}},
		{
			name: "the head that skips comes before the entry that replaces",
			in: resolution.Input{
				Offers:        offers(catalog("c", 0, append(line("es", "stable", "4.1.0", "4.1.1"), entry("es", "stable", "4.1.2", replaces("es.v4.1.1"), skipRange(">=4.1.0 <4.1.2")))...)),
				Subscriptions: subs(subscription("es", "stable", has("es.v4.1.0"))), CSVs: installed("es", "4.1.0"),
			},
			want: []string{"c/stable/es.v4.1.2 → es.v4.1.0"},
		},
		{name: "a version outside of the range is not skipped", in: resolution.Input{Offers: offers(elasticsearch()), Subscriptions: subs(subscription("es", "stable", has("es.v4.0.9"))), CSVs: installed("es", "4.0.9")}},
		{name: "a version skipped by a range can be the starting version", in: resolution.Input{Offers: offers(elasticsearch()), Subscriptions: subs(subscription("es", "stable", startingAt("es.v4.1.1")))}, want: []string{"c/stable/es.v4.1.1"}},
		{
			name: "a replaced version outside of the range is updated",
			in: resolution.Input{
				Offers:        offers(catalog("c", 0, entry("es", "stable", "4.1.2", replaces("es.v4.0.0"), skipRange(">=4.1.0 <4.1.2")), entry("es", "stable", "4.0.0"))),
				Subscriptions: subs(subscription("es", "stable", has("es.v4.0.0"))), CSVs: installed("es", "4.0.0"),
			},
			want: []string{"c/stable/es.v4.1.2 → es.v4.0.0"},
		},
		{
			name: "nodes without content are passed over",
			in: resolution.Input{
				Offers:        offers(catalog("c", 0, entry("z", "stable", "1.0.5", replaces("z.v1.0.4"), skips("z.v1.0.1", "z.v1.0.2", "z.v1.0.3")))),
				Subscriptions: subs(subscription("z", "stable", has("z.v1.0.2"))), CSVs: installed("z", "1.0.2"),
			},
			want: []string{"c/stable/z.v1.0.5 → z.v1.0.2"},
		},
		{
			name: "versions do not count",
			in: resolution.Input{
				Offers:        offers(catalog("c", 0, entry("v", "stable", "9.0.0"), entry("v", "stable", "1.0.0", replaces("v.v9.0.0")))),
				Subscriptions: subs(subscription("v", "stable")),
			},
			want: []string{"c/stable/v.v1.0.0 → v.v9.0.0"},
		},
		{
			name: "without a channel the default channel is used",
			in: resolution.Input{
				Offers:        offers(catalog("c", 0, entry("p", "alpha", "2.0.0"), entry("p", "stable", "1.0.0"))),
				Subscriptions: subs(subscription("p", "")),
			},
			want: []string{"c/stable/p.v1.0.0"},
		},
		{
			name: "without a channel another one may have the update",
			in: resolution.Input{
				Offers:        offers(catalog("c", 0, entry("p", "alpha", "2.0.0", replaces("p.v1.0.0")), entry("p", "stable", "1.0.0"))),
				Subscriptions: subs(subscription("p", "", has("p.v1.0.0"))), CSVs: installed("p", "1.0.0"),
			},
			want: []string{"c/alpha/p.v2.0.0 → p.v1.0.0"},
		},
		{
			name: "only the named channel counts",
			in: resolution.Input{
				Offers:        offers(catalog("c", 0, entry("p", "alpha", "2.0.0", replaces("p.v1.0.0")), entry("p", "stable", "1.0.0"))),
				Subscriptions: subs(subscription("p", "stable", has("p.v1.0.0"))), CSVs: installed("p", "1.0.0"),
			},
		},
		{
			name: "only the named catalog counts",
			in: resolution.Input{
				Offers:        offers(catalog("c", 0, entry("p", "stable", "1.0.0")), catalog("d", 9, entry("p", "stable", "2.0.0", replaces("p.v1.0.0")))),
				Subscriptions: subs(subscription("p", "stable", has("p.v1.0.0"))), CSVs: installed("p", "1.0.0"),
			},
		},
		{
			name: "a range that contains its own version is not an update",
			in: resolution.Input{
				Offers:        offers(catalog("c", 0, entry("p", "stable", "1.0.0", skipRange("<=1.0.0")))),
				Subscriptions: subs(subscription("p", "stable", has("p.v1.0.0"))), CSVs: installed("p", "1.0.0"),
			},
		},
	})
}

func TestChannelOrderErrors(t *testing.T) {
	of := func(entries ...*resolution.Entry) resolution.Input {
		return resolution.Input{Offers: offers(catalog("c", 0, entries...)), Subscriptions: subs(subscription("p", "stable"))}
	}
	run(t, []testCase{
		{
			name:    "no head",
			in:      of(entry("p", "stable", "1", replaces("p.v2")), entry("p", "stable", "2", replaces("p.v1"))),
			wantErr: `subscription ns/p: no channel heads (entries not replaced by another entry) found in channel "stable" of package "p"`,
		},
		{
			name:    "a cycle",
			in:      of(entry("p", "stable", "3", replaces("p.v2")), entry("p", "stable", "2", replaces("p.v1")), entry("p", "stable", "1", replaces("p.v2"))),
			wantErr: `subscription ns/p: a cycle exists in the chain of replacement beginning with "p.v3" in channel "stable" of package "p"`,
		},
		{
			name: "several heads",
			in:   of(entry("p", "stable", "1"), entry("p", "stable", "2"), entry("p", "stable", "3", replaces("p.v2"))),
			wantErr: "subscription ns/p: a unique replacement chain within a channel is required to determine the relative order between channel entries, " +
				`but 2 replacement chains were found in channel "stable" of package "p": p.v1, p.v3...p.v2`,
		},
	})
}

func TestNothingToChoose(t *testing.T) {
	only := func(sub *v1alpha1.Subscription, more ...*resolution.Entry) resolution.Input {
		return resolution.Input{Offers: offers(catalog("c", 0, append(more, entry("p", "stable", "1.0.0"))...)), Subscriptions: subs(sub)}
	}
	run(t, []testCase{
		{name: "no catalog", in: only(subscription("p", "stable", from("d"))), wantErr: "constraints not satisfiable: no operators found from catalog d in namespace olm referenced by subscription p, subscription p exists"},
		{name: "no package", in: only(subscription("q", "stable")), wantErr: "constraints not satisfiable: no operators found in package q in the catalog referenced by subscription q, subscription q exists"},
		{name: "no channel", in: only(subscription("p", "beta")), wantErr: "constraints not satisfiable: no operators found in channel beta of package p in the catalog referenced by subscription p, subscription p exists"},
		{name: "no such version", in: only(subscription("p", "stable", startingAt("p.v9"))), wantErr: "constraints not satisfiable: no operators found with name p.v9 in channel stable of package p in the catalog referenced by subscription p, subscription p exists"},
		{name: "a forbidden one", in: only(subscription("q", "stable"), entry("q", "stable", "1.0.0", property("olm.deprecated", `{}`))), wantErr: "constraints not satisfiable: bundle c/olm/stable/q.v1.0.0 is deprecated, subscription q exists, subscription q requires c/olm/stable/q.v1.0.0"},
		{
			name: "one of several is enough to fail",
			in: resolution.Input{
				Offers:        offers(catalog("c", 0, entry("p", "stable", "1.0.0"))),
				Subscriptions: subs(subscription("p", "stable"), subscription("q", "stable")),
			},
			wantErr: "constraints not satisfiable: no operators found in package q in the catalog referenced by subscription q, subscription q exists",
		},
	})
}

// The advice after the fixed text states what a user can do.
func TestAdvice(t *testing.T) {
	tests := []struct {
		name string
		in   resolution.Input
		want string
	}{
		{
			"a wrong channel",
			resolution.Input{Offers: offers(catalog("c", 0, entry("p", "beta", "1.0.0"), entry("p", "stable", "1.0.0"))), Subscriptions: subs(subscription("p", "gamma"))},
			`Subscription "p": package "p" has the channels stable, beta; correct spec.channel or spec.startingCSV.`,
		},
		{
			"a catalog that does not exist",
			resolution.Input{Subscriptions: subs(subscription("p", "stable"))},
			`Subscription "p": its CatalogSource must exist in its own namespace or in the namespace of global catalogs, and have content.`,
		},
		{
			"an operator without a Subscription",
			resolution.Input{
				Offers: offers(catalog("c", 0, entry("p", "stable", "1.0.0"))), Subscriptions: subs(subscription("p", "stable")),
				CSVs: csvs(csvOf(t, entry("p", "", "0.9.0"))),
			},
			`Subscription "p" cannot be satisfied. ClusterServiceVersion "p.v0.9.0" is kept as it is because no Subscription refers to it: create a Subscription to a channel of package "p" that contains it, or delete it if it is not needed.`,
		},
		{
			"two operators with one API",
			resolution.Input{
				Offers:        offers(catalog("c", 0, entry("p", "stable", "1.0.0", provides("P")), entry("q", "stable", "1.0.0", provides("P")))),
				Subscriptions: subs(subscription("p", "stable"), subscription("q", "stable")),
			},
			`The Subscriptions "p" and "q" cannot be satisfied together. Operators that provide the same API cannot be installed in the same namespace: remove one of them, or install it in another namespace.`,
		},
		{
			"two versions of one package",
			resolution.Input{
				Offers: offers(catalog("c", 0, entry("p", "alpha", "1.0.0"), entry("p", "stable", "2.0.0"))),
				Subscriptions: subs(subscription("p", "alpha"), subscription("p", "stable", func(s *v1alpha1.Subscription) {
					s.Name = "q"
				})),
			},
			`The Subscriptions "p" and "q" cannot be satisfied together. Change spec.channel or spec.startingCSV of a Subscription, or install one of the operators in another namespace.`,
		},
		{
			"a prohibited bundle",
			resolution.Input{Offers: offers(catalog("c", 0, entry("p", "stable", "1.0.0", property("olm.deprecated", `{}`)))), Subscriptions: subs(subscription("p", "stable"))},
			`Subscription "p" cannot be satisfied. The catalog prohibits bundle "p.v1.0.0": choose another version with spec.channel or spec.startingCSV, or delete its ClusterServiceVersion if it is installed.`,
		},
	}

	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.in.Namespace = namespace
			_, err := resolution.Resolve(test.in)
			var unsatisfiable *resolution.UnsatisfiableError
			if !errors.As(err, &unsatisfiable) {
				t.Fatalf("error %v", err)
			}
			if got := unsatisfiable.Advice(); got != test.want {
				t.Errorf("advice\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

func TestInstalledOperators(t *testing.T) {
	v1, v2, v3 := entry("p", "stable", "1.0.0", provides("P")), entry("p", "stable", "2.0.0", provides("P")), entry("p", "stable", "3.0.0", provides("P"))
	v2.Replaces, v3.Replaces = v1.Name, v2.Name
	offered := func() []resolution.Offer { return offers(catalog("c", 0, v1, v2, v3)) }
	copyOf := func(csv v1alpha1.ClusterServiceVersion) v1alpha1.ClusterServiceVersion {
		csv.Labels = map[string]string{"olm.copiedFrom": "elsewhere"}
		return csv
	}
	bare := v1alpha1.ClusterServiceVersion{Spec: v1alpha1.ClusterServiceVersionSpec{Version: "1.0.0"}}
	bare.Name, bare.Namespace = "p.v1.0.0", namespace
	sub := func(csv string) []*v1alpha1.Subscription { return subs(subscription("p", "stable", has(csv))) }
	run(t, []testCase{
		{
			name:    "one without a Subscription stays",
			in:      resolution.Input{Offers: offered(), Subscriptions: sub(""), CSVs: csvs(csvOf(t, v1))},
			wantErr: "constraints not satisfiable: clusterserviceversion p.v1.0.0 exists and is not referenced by a subscription, subscription p exists, subscription p requires at least one of c/olm/stable/p.v3.0.0, c/olm/stable/p.v2.0.0 or c/olm/stable/p.v1.0.0, there can be only one operator from package p",
		},
		{name: "copies do not count", in: resolution.Input{Offers: offered(), Subscriptions: sub(""), CSVs: csvs(copyOf(csvOf(t, v1)))}, want: []string{"c/stable/p.v3.0.0 → p.v2.0.0"}},
		{name: "one that was replaced and still exists", in: resolution.Input{Offers: offered(), Subscriptions: sub(v2.Name), CSVs: csvs(csvOf(t, v1, inPhase(v1alpha1.CSVPhaseReplacing)), csvOf(t, v2, inPlaceOf(v1.Name)))}, want: []string{"c/stable/p.v3.0.0 → p.v2.0.0"}},
		{name: "a failed one is replaced with fail forward", in: resolution.Input{FailForward: true, Offers: offered(), Subscriptions: sub(v2.Name), CSVs: csvs(csvOf(t, v1, inPhase(v1alpha1.CSVPhaseReplacing)), csvOf(t, v2, inPlaceOf(v1.Name), inPhase(v1alpha1.CSVPhaseFailed)))}, want: []string{"c/stable/p.v3.0.0 → p.v2.0.0"}},
		{
			name:    "an invalid chain of replacements",
			in:      resolution.Input{FailForward: true, Offers: offered(), Subscriptions: sub(v3.Name), CSVs: csvs(csvOf(t, v1, inPhase(v1alpha1.CSVPhaseReplacing)), csvOf(t, v2, inPlaceOf(v1.Name), inPhase(v1alpha1.CSVPhasePending)), csvOf(t, v3, inPlaceOf(v2.Name), inPhase(v1alpha1.CSVPhaseFailed)))},
			wantErr: `ClusterServiceVersion ns/p.v2.0.0 is replaced by p.v3.0.0 but is in phase "Pending", not "Replacing": cannot determine the outcome of the replacement of p.v1.0.0`,
		},
		{name: "the Subscription names the package", in: resolution.Input{Offers: offered(), Subscriptions: sub("p.v1.0.0"), CSVs: csvs(bare)}, want: []string{"c/stable/p.v2.0.0 → p.v1.0.0"}},
		{
			name: "an invalid annotation",
			in: resolution.Input{Offers: offered(), Subscriptions: sub("p.v1.0.0"), CSVs: csvs(csvOf(t, v1, func(csv *v1alpha1.ClusterServiceVersion) {
				csv.Annotations[csvinfo.AnnotationProperties] = "["
			}))},
			wantErr: "annotation operatorframework.io/properties of ClusterServiceVersion ns/p.v1.0.0 is not a list of properties: unexpected end of JSON input: delete it to use the APIs of the spec instead",
		},
	})

	deprecated := entry("p", "stable", "1.0.0", property("olm.deprecated", `{}`))
	run(t, []testCase{
		{
			name: "a deprecated one is updated", in: resolution.Input{Offers: offered(), Subscriptions: sub(deprecated.Name), CSVs: csvs(csvOf(t, deprecated))},
			want: []string{"c/stable/p.v2.0.0 → p.v1.0.0"},
		},
		{
			name:    "a deprecated one without an update",
			in:      resolution.Input{Offers: offers(catalog("c", 0, v1)), Subscriptions: sub(deprecated.Name), CSVs: csvs(csvOf(t, deprecated))},
			wantErr: "constraints not satisfiable: bundle @existing/ns//p.v1.0.0 is deprecated, subscription p exists, subscription p requires @existing/ns//p.v1.0.0",
		},
	})

	// A failed version that is not replaced blocks its package.
	_, err := resolution.Resolve(resolution.Input{
		Namespace: namespace, Offers: offered(), Subscriptions: sub(v2.Name),
		CSVs: csvs(csvOf(t, v1, inPhase(v1alpha1.CSVPhaseReplacing)), csvOf(t, v2, inPlaceOf(v1.Name), inPhase(v1alpha1.CSVPhaseFailed))),
	})
	var unsatisfiable *resolution.UnsatisfiableError
	if !errors.As(err, &unsatisfiable) || !slices.ContainsFunc(unsatisfiable.Reasons, func(s string) bool { return strings.Contains(s, "p.v1.0.0 exists and is not referenced") }) {
		t.Errorf("error %v", err)
	}
}

func TestSettling(t *testing.T) {
	old, young := entry("p", "stable", "1.0.0"), entry("p", "stable", "2.0.0")
	tests := []struct {
		phase        v1alpha1.ClusterServiceVersionPhase
		reason       string
		isInstalling bool
		want         bool
	}{
		{v1alpha1.CSVPhaseNone, "", false, true},
		{v1alpha1.CSVPhasePending, v1alpha1.CSVReasonRequirementsUnknown, false, true},
		{v1alpha1.CSVPhasePending, v1alpha1.CSVReasonRequirementsNotMet, true, true},
		{v1alpha1.CSVPhasePending, v1alpha1.CSVReasonRequirementsNotMet, false, false},
		{v1alpha1.CSVPhaseInstallReady, "", false, true},
		{v1alpha1.CSVPhaseInstalling, "", false, true},
		{v1alpha1.CSVPhaseSucceeded, "", true, false},
		{v1alpha1.CSVPhaseFailed, "", true, false},
	}

	for _, test := range tests {
		replacing := csvOf(t, young, inPlaceOf(old.Name), inPhase(test.phase))
		replacing.Status.Reason = test.reason
		if got := resolution.IsUpdateInProgress(csvs(csvOf(t, old), replacing), test.isInstalling); got != test.want {
			t.Errorf("phase %q, reason %q: got %t, want %t", test.phase, test.reason, got, test.want)
		}
	}

	if resolution.IsUpdateInProgress(csvs(csvOf(t, old, inPhase(v1alpha1.CSVPhasePending))), false) {
		t.Error("an operator that replaces none is in progress")
	}
}

func TestOrphan(t *testing.T) {
	one, two, other := csvOf(t, entry("p", "", "1.0.0")), csvOf(t, entry("p", "", "2.0.0")), csvOf(t, entry("q", "", "1.0.0"))
	bare := one.DeepCopy()
	bare.Annotations = nil
	copied := one.DeepCopy()
	copied.Labels = map[string]string{csvinfo.LabelCopiedFrom: "elsewhere"}
	tests := []struct {
		name string
		csvs []v1alpha1.ClusterServiceVersion
		subs []*v1alpha1.Subscription
		want string
	}{
		{"one", csvs(one, other), subs(subscription("p", "stable")), "p.v1.0.0"},
		{"none of the package", csvs(other), subs(subscription("p", "stable")), ""},
		{"one with a Subscription", csvs(one), subs(subscription("p", "stable", has("p.v1.0.0"))), ""},
		{"two", csvs(one, two), nil, ""},
		{"one of an unknown package", csvs(*bare), nil, ""},
		{"a copy", csvs(*copied), nil, ""},
	}

	for _, test := range tests {
		if got := resolution.FindUnsubscribedCSV("p", test.csvs, test.subs); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// A package with 10,000 channels is resolved like any other, also if its default channel is unknown.
func TestManyChannels(t *testing.T) {
	var entries []*resolution.Entry
	for i := range 10_000 {
		entries = append(entries, entry("p", fmt.Sprintf("c%05d", i), "1.0.0"))
	}
	stable := entry("p", "stable", "2.0.0", replaces("p.v1.0.0"))
	all := append(slices.Clone(entries), stable)
	run(t, []testCase{
		{name: "a channel", in: resolution.Input{Offers: offers(catalog("c", 0, all...)), Subscriptions: subs(subscription("p", "c09999"))}, want: []string{"c/c09999/p.v1.0.0"}},
		{name: "the default channel", in: resolution.Input{Offers: offers(catalog("c", 0, all...)), Subscriptions: subs(subscription("p", ""))}, want: []string{"c/stable/p.v2.0.0 → p.v1.0.0"}},
		{name: "any channel", in: resolution.Input{Offers: offers(catalog("c", 0, entries...)), Subscriptions: subs(subscription("p", ""))}, want: []string{"c/c00000/p.v1.0.0"}},
		{
			name: "a version in all channels",
			in:   resolution.Input{Offers: offers(catalog("c", 0, entries...)), Subscriptions: subs(subscription("p", "", startingAt("p.v1.0.0")))}, want: []string{"c/c00000/p.v1.0.0"},
		},
	})
}
