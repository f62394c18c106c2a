package mirror

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	operatorv1alpha1 "github.com/mainstay-dev/mainstay/api/operator/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/image"
)

// digests returns a set of entries, each "source: mirror mirror", with "!" before a source
// that is never contacted.
func digests(name string, entries ...string) configv1.ImageDigestMirrorSet {
	set := configv1.ImageDigestMirrorSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, entry := range entries {
		source, mirrors, policy := parse(entry)
		e := configv1.ImageDigestMirrors{Source: source, MirrorSourcePolicy: policy}
		for _, mirror := range mirrors {
			e.Mirrors = append(e.Mirrors, configv1.ImageMirror(mirror))
		}
		set.Spec.ImageDigestMirrors = append(set.Spec.ImageDigestMirrors, e)
	}

	return set
}

func tags(name string, entries ...string) configv1.ImageTagMirrorSet {
	set := configv1.ImageTagMirrorSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, e := range digests(name, entries...).Spec.ImageDigestMirrors {
		set.Spec.ImageTagMirrors = append(set.Spec.ImageTagMirrors, configv1.ImageTagMirrors(e))
	}
	return set
}

func policy(name string, entries ...string) operatorv1alpha1.ImageContentSourcePolicy {
	p := operatorv1alpha1.ImageContentSourcePolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, entry := range entries {
		source, mirrors, _ := parse(entry)
		p.Spec.RepositoryDigestMirrors = append(p.Spec.RepositoryDigestMirrors, operatorv1alpha1.RepositoryDigestMirrors{Source: source, Mirrors: mirrors})
	}
	return p
}

func parse(entry string) (string, []string, configv1.MirrorSourcePolicy) {
	source, mirrors, _ := strings.Cut(entry, ": ")
	source, never := strings.CutPrefix(source, "!")
	if never {
		return source, strings.Fields(mirrors), configv1.NeverContactSource
	}
	return source, strings.Fields(mirrors), ""
}

// show formats rules as in the tests: "[!]source: mirror@digest mirror@tag".
func show(rules []image.MirrorRule) []string {
	var lines []string
	for _, rule := range rules {
		line := rule.Source + ":"
		if rule.Blocked {
			line = "!" + line
		}
		for _, mirror := range rule.Mirrors {
			line = strings.Join([]string{line, mirror.Location + "@" + strings.TrimSuffix(string(mirror.Only), "-only")}, " ")
		}
		lines = append(lines, line)
	}

	return lines
}

func TestRules(t *testing.T) {
	type D = []configv1.ImageDigestMirrorSet
	type T = []configv1.ImageTagMirrorSet
	type P = []operatorv1alpha1.ImageContentSourcePolicy
	tests := map[string]struct {
		objects Objects
		want    []string
		invalid []string
	}{
		"none": {},
		"digests": {
			objects: Objects{Digests: D{digests("a", "quay.io/x: m1.io m2.io/y:")}},
			want:    []string{"quay.io/x: m1.io@digest"},
			invalid: []string{`ImageDigestMirrorSet a: spec.imageDigestMirrors[0].mirrors[1]: "m2.io/y:": it is not of the form host[:port][/path]`},
		},
		"tags":     {objects: Objects{Tags: T{tags("a", "quay.io: m1.io:5000/a/b")}}, want: []string{"quay.io: m1.io:5000/a/b@tag"}},
		"policies": {objects: Objects{Policies: P{policy("a", "quay.io: m1.io")}}, want: []string{"quay.io: m1.io@digest"}},
		"all kinds for one source": {
			objects: Objects{Digests: D{digests("a", "quay.io: d.io")}, Tags: T{tags("a", "quay.io: t.io d.io")}, Policies: P{policy("a", "quay.io: p.io d.io")}},
			want:    []string{"quay.io: p.io@digest d.io@digest t.io@tag d.io@tag"},
		},
		"sources are sorted": {
			objects: Objects{Digests: D{digests("a", "quay.io/b: m.io", "quay.io: m.io", "*.example.com: m.io", "docker.io/library: m.io")}},
			want:    []string{"*.example.com: m.io@digest", "docker.io/library: m.io@digest", "quay.io: m.io@digest", "quay.io/b: m.io@digest"},
		},
		"lists that meet": {
			objects: Objects{Digests: D{digests("a", "quay.io: b.io c.io"), digests("b", "quay.io: a.io b.io")}},
			want:    []string{"quay.io: a.io@digest b.io@digest c.io@digest"},
		},
		"lists that do not meet": {
			objects: Objects{Digests: D{digests("z", "quay.io: a.io"), digests("b", "quay.io: c.io"), digests("c", "quay.io: b.io")}},
			want:    []string{"quay.io: c.io@digest b.io@digest a.io@digest"},
		},
		"lists that contradict each other": {
			objects: Objects{Digests: D{digests("a", "quay.io: a.io b.io"), digests("b", "quay.io: b.io a.io c.io")}},
			want:    []string{"quay.io: a.io@digest b.io@digest c.io@digest"},
		},
		"the same mirror twice": {
			objects: Objects{Digests: D{digests("a", "quay.io: a.io a.io/ b.io a.io"), digests("b", "quay.io: b.io")}},
			want:    []string{"quay.io: a.io@digest b.io@digest"},
		},
		"the source last": {
			objects: Objects{Digests: D{digests("a", "quay.io: a.io quay.io")}}, want: []string{"quay.io: a.io@digest"},
		},
		"the source before a mirror": {
			objects: Objects{Digests: D{digests("a", "quay.io: a.io quay.io b.io"), digests("b", "quay.io: c.io")}},
			want:    []string{"quay.io: a.io@digest c.io@digest quay.io@digest b.io@digest"},
		},
		"entries without a mirror": {objects: Objects{Digests: D{digests("a", "!quay.io: ", "!docker.io: docker.io")}}},
		"never contacted": {
			objects: Objects{Digests: D{digests("a", "!quay.io/x: m.io", "quay.io/y: m.io"), digests("b", "!quay.io/y: n.io", "quay.io/x: n.io")}, Tags: T{tags("a", "!quay.io/z: m.io")}, Policies: P{policy("a", "quay.io/z: m.io")}},
			want:    []string{"!quay.io/x: m.io@digest n.io@digest", "!quay.io/y: m.io@digest n.io@digest", "!quay.io/z: m.io@digest m.io@tag"},
		},
		"invalid entries are ignored": {
			objects: Objects{
				Digests: D{digests("a", "https://quay.io: m.io", "quay.io/*: m.io", "*.quay.io/x: m.io", "*: m.io", "quay: m.io", "Quay.io/UPPER: m.io", "quay.io:x: m.io", "quay.io/good: https://m.io m.io *.m.io mirror/x")},
				Tags:    T{tags("b", "quay.io@sha256:0: m.io")},
				Policies: P{{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: operatorv1alpha1.ImageContentSourcePolicySpec{
					RepositoryDigestMirrors: []operatorv1alpha1.RepositoryDigestMirrors{{Source: "", Mirrors: []string{"m.io"}}, {Source: "a b", Mirrors: []string{"m.io"}}, {Source: "quay.io/ok/", Mirrors: []string{"", "m.io/ok/"}}},
				}}},
			},
			want: []string{"quay.io/good: m.io@digest", "quay.io/ok: m.io/ok@digest"},
			invalid: []string{
				`ImageDigestMirrorSet a: spec.imageDigestMirrors[0].source: "https://quay.io": it is a URL: leave out the scheme before the host`,
				`ImageDigestMirrorSet a: spec.imageDigestMirrors[1].source: "quay.io/*": it is not of the form host[:port][/path]`,
				`ImageDigestMirrorSet a: spec.imageDigestMirrors[2].source: "*.quay.io/x": a wildcard matches hosts only: write it as *.example.com`,
				`ImageDigestMirrorSet a: spec.imageDigestMirrors[3].source: "*": it is not of the form host[:port][/path]`,
				`ImageDigestMirrorSet a: spec.imageDigestMirrors[4].source: "quay": it does not begin with a registry's host: that has a dot or a port, or is localhost`,
				`ImageDigestMirrorSet a: spec.imageDigestMirrors[5].source: "Quay.io/UPPER": it is not of the form host[:port][/path]`,
				`ImageDigestMirrorSet a: spec.imageDigestMirrors[6].source: "quay.io:x": it is not of the form host[:port][/path]`,
				`ImageDigestMirrorSet a: spec.imageDigestMirrors[7].mirrors[0]: "https://m.io": it is a URL: leave out the scheme before the host`,
				`ImageDigestMirrorSet a: spec.imageDigestMirrors[7].mirrors[2]: "*.m.io": it is not of the form host[:port][/path]`,
				`ImageDigestMirrorSet a: spec.imageDigestMirrors[7].mirrors[3]: "mirror/x": it does not begin with a registry's host: that has a dot or a port, or is localhost`,
				`ImageContentSourcePolicy c: spec.repositoryDigestMirrors[0].source: "": it is not of the form host[:port][/path]`,
				`ImageContentSourcePolicy c: spec.repositoryDigestMirrors[1].source: "a b": it is not of the form host[:port][/path]`,
				`ImageContentSourcePolicy c: spec.repositoryDigestMirrors[2].mirrors[0]: "": it is not of the form host[:port][/path]`,
				`ImageTagMirrorSet b: spec.imageTagMirrors[0].source: "quay.io@sha256:0": it is not of the form host[:port][/path]`,
			},
		},
		"invalid entries do not allow a source": {
			objects: Objects{
				Digests: D{digests("a", "!quay.io/x: http://m.io", "quay.io/y: http://m.io"), {ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: configv1.ImageDigestMirrorSetSpec{
					ImageDigestMirrors: []configv1.ImageDigestMirrors{{Source: "quay.io/z", Mirrors: []configv1.ImageMirror{"m.io"}, MirrorSourcePolicy: "Sometimes"}},
				}}},
			},
			want: []string{"!quay.io/x:", "!quay.io/z: m.io@digest"},
			invalid: []string{
				`ImageDigestMirrorSet a: spec.imageDigestMirrors[0].mirrors[0]: "http://m.io": it is a URL: leave out the scheme before the host`,
				`ImageDigestMirrorSet a: spec.imageDigestMirrors[1].mirrors[0]: "http://m.io": it is a URL: leave out the scheme before the host`,
				`ImageDigestMirrorSet b: spec.imageDigestMirrors[0].mirrorSourcePolicy: "Sometimes" is not known; the source is not contacted`,
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			rules, invalid := Rules(test.objects)
			if diff := cmp.Diff(test.want, show(rules)); diff != "" {
				t.Errorf("rules (-want +got):\n%s", diff)
			}
			var got []string
			for _, i := range invalid {
				got = append(got, i.Error())
			}
			if diff := cmp.Diff(test.invalid, got); diff != "" {
				t.Errorf("ignored entries (-want +got):\n%s", diff)
			}
		})
	}
}

// For random lists, the result contains each mirror once, keeps every order without a
// contradiction, and does not depend on the order of the objects.
func TestMergeKeepsOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 500 {
		ranks := random.Perm(12) // the order of all lists in this round
		var objects Objects
		var lists [][]int
		for i := range 1 + random.IntN(5) {
			list := random.Perm(12)[:1+random.IntN(6)]
			slices.SortFunc(list, func(a, b int) int { return ranks[a] - ranks[b] })
			entry := "quay.io:"
			for _, m := range list {
				entry = fmt.Sprintf("%s m%d.io", entry, m)
			}

			objects.Digests = append(objects.Digests, digests(fmt.Sprintf("set-%d", i), entry))
			lists = append(lists, list)
		}

		rules, invalid := Rules(objects)
		if len(rules) != 1 || len(invalid) != 0 {
			t.Fatalf("round %d: got rules %v and invalid entries %v, want one rule and none", round, rules, invalid)
		}

		at := map[string]int{}
		for i, mirror := range rules[0].Mirrors {
			if _, twice := at[mirror.Location]; twice {
				t.Fatalf("round %d: got mirror %s twice, want it once", round, mirror.Location)
			}
			at[mirror.Location] = i
		}

		for _, list := range lists {
			for i, m := range list {
				place, ok := at[fmt.Sprintf("m%d.io", m)]
				if !ok || i > 0 && place < at[fmt.Sprintf("m%d.io", list[i-1])] {
					t.Fatalf("round %d: got %[3]v, want the order of %[2]v", round, list, show(rules))
				}
			}
		}

		random.Shuffle(len(objects.Digests), func(i, j int) { objects.Digests[i], objects.Digests[j] = objects.Digests[j], objects.Digests[i] })
		again, _ := Rules(objects)
		if diff := cmp.Diff(rules, again); diff != "" {
			t.Fatalf("round %d: rules with the objects in another order (-before +after):\n%s", round, diff)
		}
	}
}

func FuzzRules(f *testing.F) {
	f.Add("quay.io", "m.io", "n.io/x", true)
	f.Add("*.example.com", "https://m", "*", false)
	f.Fuzz(func(t *testing.T, source, one, two string, never bool) {
		set := configv1.ImageDigestMirrorSet{Spec: configv1.ImageDigestMirrorSetSpec{ImageDigestMirrors: []configv1.ImageDigestMirrors{
			{Source: source, Mirrors: []configv1.ImageMirror{configv1.ImageMirror(one), configv1.ImageMirror(two)}},
			{Source: source, Mirrors: []configv1.ImageMirror{configv1.ImageMirror(two), configv1.ImageMirror(one)}},
		}}}
		if never {
			set.Spec.ImageDigestMirrors[1].MirrorSourcePolicy = configv1.NeverContactSource
		}
		rules, _ := Rules(Objects{Digests: []configv1.ImageDigestMirrorSet{set}})
		for _, rule := range rules {
			if image.CheckSource(rule.Source) != nil {
				t.Errorf("got invalid source %q, want it ignored", rule.Source)
			}
			for _, mirror := range rule.Mirrors {
				if image.CheckLocation(mirror.Location) != nil {
					t.Errorf("got invalid mirror %q, want it ignored", mirror.Location)
				}
			}
		}
	})
}
