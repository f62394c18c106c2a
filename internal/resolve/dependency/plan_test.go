package dependency_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mainstay-dev/mainstay/internal/resolve/dependency"
	"github.com/mainstay-dev/mainstay/internal/testing/golden"
)

func constraint(text string) string { return "constraint " + strings.ReplaceAll(text, "'", `"`) }

// planCases are problems with the expected plan; empty for problems without a solution.
var planCases = []struct {
	name      string
	wanted    *dependency.Bundle
	replaced  *dependency.Bundle
	installed []*dependency.Bundle
	serves    func(schema.GroupVersionKind) bool
	catalogs  []dependency.Catalog
	plan      string
}{
	{name: "nothing is needed", wanted: newBundle("x@1.0.0")},
	{name: "its own API", wanted: newBundle("x@1.0.0", "gvk A", "needs A")},
	{name: "its own property", wanted: newBundle("x@1.0.0", "also fast yes", constraint(`{'cel':{'rule':'properties.exists(p, p.type == \'fast\')'}}`))},
	{name: "what the API server serves", wanted: newBundle("x@1.0.0", "needs A"), serves: servesKinds("A")},
	{name: "what is installed", wanted: newBundle("x@1.0.0", "needs A", "pkg a >=1.0.0"), installed: []*dependency.Bundle{installed("a@1.2.0", "gvk A")}},
	{
		name: "the highest version", wanted: newBundle("x@1.0.0", "needs A"),
		catalogs: []dependency.Catalog{catalog("c", 0, offer{"a@1.0.0", "gvk A"}, offer{"a@1.1.0", "gvk A"}, offer{"a@2.0.0"})},
		plan:     "a@1.1.0 c/stable",
	},
	{
		name: "a package in a range", wanted: newBundle("x@1.0.0", "pkg a >1.0.0 !1.2.1 <2.0.0"),
		catalogs: []dependency.Catalog{catalog("c", 0, offer{"a@1.2.0"}, offer{"a@1.2.1"}, offer{"a@2.0.0"})},
		plan:     "a@1.2.0 c/stable",
	},
	{
		name: "not deprecated, although lower and of a lower priority", wanted: newBundle("x@1.0.0", "pkg a"),
		catalogs: []dependency.Catalog{catalog("high", 10, offer{"a@2.0.0!"}), catalog("low", 0, offer{"a@1.0.0"})},
		plan:     "a@1.0.0 low/stable",
	},
	{
		name: "the higher priority", wanted: newBundle("x@1.0.0", "pkg a"),
		catalogs: []dependency.Catalog{catalog("low", 0, offer{"a@2.0.0"}), catalog("high", 10, offer{"a@1.0.0"})},
		plan:     "a@1.0.0 high/stable",
	},
	{
		name: "the default channel, although lower", wanted: newBundle("x@1.0.0", "pkg a"),
		catalogs: []dependency.Catalog{catalog("c", 0, offer{"a@2.0.0/fast"}, offer{"a@1.0.0"})},
		plan:     "a@1.0.0 c/stable",
	},
	{
		name: "another channel where the default one has none", wanted: newBundle("x@1.0.0", "pkg a >=2.0.0"),
		catalogs: []dependency.Catalog{catalog("c", 0, offer{"a@2.0.0/fast"}, offer{"a@1.0.0"})},
		plan:     "a@2.0.0 c/fast",
	},
	{
		name: "what a dependency needs, too", wanted: newBundle("x@1.0.0", "needs A"),
		catalogs: []dependency.Catalog{catalog("c", 0, offer{"a@1.0.0", "gvk A", "pkg b"}, offer{"b@1.0.0", "needs D"}, offer{"d@1.0.0", "gvk D"})},
		plan:     "a@1.0.0 c/stable, b@1.0.0 c/stable, d@1.0.0 c/stable",
	},
	{
		name: "a circle", wanted: newBundle("x@1.0.0", "gvk X", "needs A"),
		catalogs: []dependency.Catalog{catalog("c", 0, offer{"a@1.0.0", "gvk A", "needs B", "needs X"}, offer{"b@1.0.0", "gvk B", "needs A"})},
		plan:     "a@1.0.0 c/stable, b@1.0.0 c/stable",
	},
	{
		name: "an older version, as the newest needs what there is not", wanted: newBundle("x@1.0.0", "pkg a"),
		catalogs: []dependency.Catalog{catalog("c", 0, offer{"a@1.0.0"}, offer{"a@2.0.0", "needs Gone"})},
		plan:     "a@1.0.0 c/stable",
	},
	{
		name: "one version for two who need it", wanted: newBundle("x@1.0.0", "pkg a", "pkg b"),
		catalogs: []dependency.Catalog{catalog("c", 0, offer{"a@1.0.0", "pkg d <2.0.0"}, offer{"b@1.0.0", "pkg d >=1.1.0"},
			offer{"d@1.0.0"}, offer{"d@1.5.0"}, offer{"d@2.0.0"})},
		plan: "a@1.0.0 c/stable, b@1.0.0 c/stable, d@1.5.0 c/stable",
	},
	{
		name: "going back to an earlier choice", wanted: newBundle("x@1.0.0", "pkg a", "pkg b"),
		catalogs: []dependency.Catalog{catalog("c", 0, offer{"a@1.0.0", "pkg d <2.0.0"}, offer{"a@2.0.0", "pkg d >=2.0.0"},
			offer{"b@1.0.0", "pkg d <2.0.0"}, offer{"d@1.0.0"}, offer{"d@2.0.0"})},
		plan: "a@1.0.0 c/stable, b@1.0.0 c/stable, d@1.0.0 c/stable",
	},
	{
		name:   "all, by two bundles",
		wanted: newBundle("x@1.0.0", constraint(`{'all':{'constraints':[{'package':{'name':'a','versionRange':'>=1.0.0'}},{'gvk':{'group':'example.com','version':'v1','kind':'B'}}]}}`)),
		catalogs: []dependency.Catalog{
			catalog("c", 0, offer{"a@1.0.0"}, offer{"b@1.0.0", "gvk B"})},
		plan: "a@1.0.0 c/stable, b@1.0.0 c/stable",
	},
	{
		name:   "any, the first that can be had, and nothing of the one that cannot",
		wanted: newBundle("x@1.0.0", constraint(`{'any':{'constraints':[{'all':{'constraints':[{'package':{'packageName':'a'}},{'package':{'packageName':'gone'}}]}},{'package':{'packageName':'b'}}]}}`)),
		catalogs: []dependency.Catalog{
			catalog("c", 0, offer{"a@1.0.0"}, offer{"b@1.0.0"})},
		plan: "b@1.0.0 c/stable",
	},
	{
		name:   "not: another version than the one that is forbidden",
		wanted: newBundle("x@1.0.0", constraint(`{'all':{'constraints':[{'package':{'packageName':'a'}},{'not':{'constraints':[{'package':{'packageName':'a','versionRange':'>=2.0.0'}}]}}]}}`)),
		catalogs: []dependency.Catalog{
			catalog("c", 0, offer{"a@1.0.0"}, offer{"a@2.0.0"})},
		plan: "a@1.0.0 c/stable",
	},
	{
		name: "nothing that an installed one forbids", wanted: newBundle("x@1.0.0", "needs A"),
		installed: []*dependency.Bundle{installed("y@1.0.0", constraint(`{'not':{'constraints':[{'gvk':{'group':'example.com','version':'v1','kind':'Bad'}}]}}`))},
		catalogs:  []dependency.Catalog{catalog("c", 0, offer{"a@1.0.0", "gvk A"}, offer{"a@2.0.0", "gvk A", "gvk Bad"})},
		plan:      "a@1.0.0 c/stable",
	},
	{
		name:   "any: what holds as it is comes before what would be installed",
		wanted: newBundle("x@1.0.0", "pkg b", constraint(`{'any':{'constraints':[{'package':{'packageName':'a'}},{'not':{'constraints':[{'package':{'packageName':'d'}}]}}]}}`)),
		catalogs: []dependency.Catalog{
			catalog("c", 0, offer{"a@1.0.0"}, offer{"b@1.0.0"})},
		plan: "b@1.0.0 c/stable",
	},
	{
		name: "what an installed one needs beside what it would rather be without", wanted: newBundle("x@1.0.0", "needs A"),
		installed: []*dependency.Bundle{installed("y@1.0.0", constraint(`{'any':{'constraints':[{'not':{'constraints':[{'package':{'packageName':'a'}}]}},{'package':{'packageName':'b'}}]}}`))},
		catalogs:  []dependency.Catalog{catalog("c", 0, offer{"a@1.0.0", "gvk A"}, offer{"b@1.0.0"})},
		plan:      "a@1.0.0 c/stable, b@1.0.0 c/stable",
	},
	{
		name:   "a rule over properties",
		wanted: newBundle("x@1.0.0", constraint(`{'cel':{'rule':'properties.exists(p, p.type == \'fast\' && p.value == \'very\') && properties.exists(p, p.type == \'olm.package\' && semver_compare(p.value.version, \'1.5.0\') < 0)'}}`)),
		catalogs: []dependency.Catalog{
			catalog("c", 0, offer{"a@1.0.0", "also fast very"}, offer{"a@1.6.0", "also fast very"}, offer{"b@1.0.0", "also fast no"})},
		plan: "a@1.0.0 c/stable",
	},

	{name: "nothing offers it", wanted: newBundle("x@1.0.0", "needs Gone", "pkg gone >=1.0.0", constraint(`{'failureMessage':'a fast disk is needed','cel':{'rule':'properties.exists(p, p.type == \'fast\')'}}`)), catalogs: []dependency.Catalog{catalog("b", 0), catalog("a", 0)}},
	{name: "no catalog", wanted: newBundle("x@1.0.0", "needs Gone")},
	{name: "another version", wanted: newBundle("x@1.0.0", "pkg a >=2.0.0"), catalogs: []dependency.Catalog{catalog("c", 0, offer{"a@1.0.0"}, offer{"a@1.1.0"})}},
	{
		name: "another version is installed", wanted: newBundle("x@1.0.0", "pkg a >=2.0.0"), installed: []*dependency.Bundle{installed("a@1.0.0")},
		catalogs: []dependency.Catalog{catalog("c", 0, offer{"a@2.0.0"}, offer{"a@1.0.0"})},
	},
	{
		name: "a dependency of a dependency is missing", wanted: newBundle("x@1.0.0", "pkg a", "pkg unrelated"),
		catalogs: []dependency.Catalog{catalog("c", 0, offer{"a@1.0.0", "needs Gone"}, offer{"a@1.1.0", "needs Gone"}, offer{"unrelated@1.0.0"}, offer{"x@0.9.0", "pkg unrelated"})},
	},
	{
		name: "two who need different versions", wanted: newBundle("x@1.0.0", "pkg a", "pkg b", "pkg unrelated"),
		catalogs: []dependency.Catalog{catalog("c", 0, offer{"a@1.0.0", "pkg d <2.0.0"}, offer{"b@1.0.0", "pkg d >=2.0.0"}, offer{"d@1.0.0"}, offer{"d@2.0.0"}, offer{"unrelated@1.0.0"})},
	},
	{
		name: "what it forbids is installed", wanted: newBundle("x@1.0.0", constraint(`{'not':{'constraints':[{'package':{'packageName':'a'}}]}}`)),
		installed: []*dependency.Bundle{installed("a@1.0.0")},
	},
	{
		name: "an update that drops what it needs", wanted: newBundle("x@2.0.0", "needs A"), replaced: installed("x@1.0.0", "gvk A"), serves: servesKinds("A"),
		catalogs: []dependency.Catalog{catalog("c", 0)},
	},
	{
		name: "what an installed one forbids", wanted: newBundle("x@1.0.0", "needs A"),
		installed: []*dependency.Bundle{installed("y@1.0.0", constraint(`{'not':{'constraints':[{'package':{'packageName':'a'}}]}}`))},
		catalogs:  []dependency.Catalog{catalog("c", 0, offer{"a@1.0.0", "gvk A"})},
	},
	{name: "many versions", wanted: newBundle("x@1.0.0", "pkg a >=9.0.0"), catalogs: []dependency.Catalog{catalog("c", 0, versions("a", 30)...)}},
}

func versions(pkg string, count int) []offer {
	var all []offer
	for i := range count {
		all = append(all, offer{fmt.Sprintf("%s@1.%d.0", pkg, i)})
	}
	return all
}

// TestPlan compares plans with the expected ones, and the messages for each problem with
// the golden file.
func TestPlan(t *testing.T) {
	var out strings.Builder
	for _, test := range planCases {
		fmt.Fprintf(&out, "# %s\n", test.name)
		p := dependency.Problem{Wanted: test.wanted, Replaced: test.replaced, Installed: test.installed, Serves: test.serves, Catalogs: test.catalogs}
		missing := must[[]dependency.Unmet](t)(p.Missing())
		if len(missing) > 0 {
			fmt.Fprintf(&out, "missing: %v\n", &dependency.MissingError{Bundle: test.wanted.Name, Missing: missing})
		}

		plan, err := p.Plan()
		var impossible *dependency.UnsatisfiableError
		switch {
		case errors.As(err, &impossible):
			fmt.Fprintf(&out, "%v\n", err)
			if test.plan != "" {
				t.Errorf("%s: %v", test.name, err)
			}
		case err != nil:
			t.Errorf("%s: %v", test.name, err)
		default:
			fmt.Fprintf(&out, "plan: %s\n", describeBundles(plan))
			if got := describeBundles(plan); got != test.plan {
				t.Errorf("%s: got plan %q, want %q", test.name, got, test.plan)
			}
		}

		slices.Reverse(test.catalogs)
		again := dependency.Problem{Wanted: test.wanted, Replaced: test.replaced, Installed: test.installed, Serves: test.serves, Catalogs: test.catalogs}
		other, otherErr := again.Plan()
		if describeBundles(other) != describeBundles(plan) || fmt.Sprint(otherErr) != fmt.Sprint(err) {
			t.Errorf("%s: with the catalogs in reverse order, got %q %v, want %q %v", test.name, describeBundles(other), otherErr, describeBundles(plan), err)
		}
	}

	golden.Check(t, "plans.txt", []byte(out.String()))
}
