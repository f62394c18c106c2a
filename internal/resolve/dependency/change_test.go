package dependency_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mainstay-dev/mainstay/internal/resolve/dependency"
	"github.com/mainstay-dev/mainstay/internal/testing/golden"
)

func TestBreaks(t *testing.T) {
	notB := constraint(`{'not':{'constraints':[{'gvk':{'group':'example.com','version':'v1','kind':'B'}}]}}`)
	var out strings.Builder
	for _, tc := range []struct {
		name          string
		before, after *dependency.Bundle
		others        []*dependency.Bundle
		serves        func(schema.GroupVersionKind) bool
		want          string // the extensions that break
	}{
		{name: "no extension depends on it", before: installed("a@1.0.0", "gvk A"), others: []*dependency.Bundle{installed("x@1.0.0")}},
		{name: "removal of an API", before: installed("a@1.0.0", "gvk A"), others: []*dependency.Bundle{installed("x@1.0.0", "needs A")}, serves: servesKinds("A"), want: "x"},
		{name: "removal of a package", before: installed("a@1.0.0"), others: []*dependency.Bundle{installed("x@1.0.0", "pkg a >=1.0.0"), installed("y@1.0.0", "pkg a <2.0.0")}, want: "x y"},
		{name: "another provides it too", before: installed("a@1.0.0", "gvk A"), others: []*dependency.Bundle{installed("x@1.0.0", "needs A"), installed("b@1.0.0", "gvk A")}},
		{name: "the API server serves it anyway", before: installed("a@1.0.0"), others: []*dependency.Bundle{installed("x@1.0.0", "needs A")}, serves: servesKinds("A")},
		{name: "it was not met before", before: installed("a@1.0.0"), others: []*dependency.Bundle{installed("x@1.0.0", "needs A", "pkg a >=2.0.0")}},
		{name: "an update that keeps it", before: installed("a@1.0.0", "gvk A"), after: newBundle("a@1.1.0", "gvk A", "gvk B"), others: []*dependency.Bundle{installed("x@1.0.0", "needs A", "pkg a <2.0.0")}, serves: servesKinds("A")},
		{name: "an update that drops an API", before: installed("a@1.0.0", "gvk A"), after: newBundle("a@2.0.0"), others: []*dependency.Bundle{installed("x@1.0.0", "needs A")}, serves: servesKinds("A"), want: "x"},
		{name: "an update out of the range", before: installed("a@1.0.0"), after: newBundle("a@2.0.0"), others: []*dependency.Bundle{installed("x@1.0.0", "pkg a <2.0.0")}, want: "x"},
		{name: "a property that a rule asks for", before: installed("a@1.0.0", "also fast yes"), after: newBundle("a@2.0.0"),
			others: []*dependency.Bundle{installed("x@1.0.0", constraint(`{'failureMessage':'a fast one','cel':{'rule':'properties.exists(p, p.type == \'fast\')'}}`))}, want: "x"},
		{name: "an installation that another forbids", after: newBundle("b@1.0.0", "gvk B"), others: []*dependency.Bundle{installed("x@1.0.0", notB)}, want: "x"},
		{name: "a bundle that is not forbidden, although the extension has the forbidden API itself", after: newBundle("c@1.0.0"), others: []*dependency.Bundle{installed("x@1.0.0", "gvk B", notB)}},
		{name: "an invalid constraint was not met before", before: installed("a@1.0.0", "gvk A"), others: []*dependency.Bundle{installed("x@1.0.0", "needs A", "constraint {}")}},
	} {
		change := dependency.Change{Before: tc.before, After: tc.after, Others: tc.others, Serves: tc.serves}
		breaks := change.Breaks()
		var got []string
		for _, b := range breaks {
			got = append(got, b.Dependent.Extension)
		}

		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s: got broken extensions %q, want %q", tc.name, got, tc.want)
		}
		if len(breaks) > 0 {
			fmt.Fprintf(&out, "# %s\n%v\n", tc.name, &dependency.BreaksError{Doing: "this change", Breaks: breaks, Advice: "Do something else."})
		}
	}

	golden.Check(t, "breaks.txt", []byte(out.String()))
}

func TestMutuallyMet(t *testing.T) {
	for _, tc := range []struct {
		name   string
		wanted *dependency.Bundle
		others []*dependency.Bundle
		want   bool
	}{
		{"no other bundle", newBundle("x@1.0.0", "gvk X", "needs A"), nil, false},
		{"each other", newBundle("x@1.0.0", "gvk X", "needs A"), []*dependency.Bundle{newBundle("a@1.0.0", "gvk A", "needs X")}, true},
		{"a cycle of three", newBundle("x@1.0.0", "gvk X", "needs A"), []*dependency.Bundle{newBundle("a@1.0.0", "gvk A", "needs B"), newBundle("b@1.0.0", "gvk B", "needs X")}, true},
		{"a dependency that needs nothing", newBundle("x@1.0.0", "gvk X", "needs A"), []*dependency.Bundle{newBundle("a@1.0.0", "gvk A")}, false},
		{"a cycle among the dependencies", newBundle("x@1.0.0", "gvk X", "needs A"), []*dependency.Bundle{newBundle("a@1.0.0", "gvk A", "needs B"), newBundle("b@1.0.0", "gvk B", "needs A")}, false},
		{"the dependency also lacks something else", newBundle("x@1.0.0", "gvk X", "needs A"), []*dependency.Bundle{newBundle("a@1.0.0", "gvk A", "needs X", "needs Gone")}, false},
		{"the bundle also lacks something else", newBundle("x@1.0.0", "gvk X", "needs A", "needs Gone"), []*dependency.Bundle{newBundle("a@1.0.0", "gvk A", "needs X")}, false},
		{"with an installed dependency", newBundle("x@1.0.0", "gvk X", "needs A", "pkg base"), []*dependency.Bundle{newBundle("a@1.0.0", "gvk A", "needs X", "pkg base")}, true},
	} {
		p := dependency.Problem{Wanted: tc.wanted, Installed: []*dependency.Bundle{installed("base@1.0.0")}}
		if got := p.MutuallyMet(tc.others); got != tc.want {
			t.Errorf("%s: got %t, want %t", tc.name, got, tc.want)
		}
	}
}
