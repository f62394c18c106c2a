package dependency_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/blang/semver/v4"

	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/resolve/dependency"
)

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		name, propertyType, value string
		want                      string // the text of the requirement, or the error
	}{
		{"API", fbc.PropertyGVKRequired, `{"group":"g","version":"v1","kind":"K"}`, "the API K of g/v1"},
		{"package", fbc.PropertyPackageRequired, `{"packageName":"a","versionRange":">1.0.0 !1.2.1"}`, `package "a" in version ">1.0.0 !1.2.1"`},
		{"package of any version", fbc.PropertyPackageRequired, `{"packageName":"a"}`, `package "a"`},
		{"constraint: API", fbc.PropertyConstraint, `{"gvk":{"group":"g","version":"v1","kind":"K"}}`, "the API K of g/v1"},
		{"constraint: package, both names of the field", fbc.PropertyConstraint, `{"all":{"constraints":[{"package":{"name":"a"}},{"package":{"packageName":"b"}}]}}`, `all of (package "a"; package "b")`},
		{"constraint: rule", fbc.PropertyConstraint, `{"failureMessage":"be fast","cel":{"rule":"true"}}`, `a bundle for which the rule "true" holds (be fast)`},
		{"constraint: not in any", fbc.PropertyConstraint, `{"any":{"constraints":[{"not":{"constraints":[{"package":{"name":"a"}}]}},{"package":{"name":"b"}}]}}`, `one of (the absence of (package "a"); package "b")`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			properties := []fbc.Property{{Type: "other", Value: json.RawMessage(`1`)}, {Type: tc.propertyType, Value: json.RawMessage(tc.value)}}
			got, err := dependency.Parse(append(properties, properties...))
			text := fmt.Sprint(err)
			if err == nil {
				text = fmt.Sprint(len(got), got)
				tc.want = "1 [" + tc.want + "]"
			}
			if !strings.Contains(text, tc.want) {
				t.Errorf("got %s, want %s", text, tc.want)
			}
		})
	}

	if _, err := dependency.Parse(manyRequirements(300)); err == nil || !strings.Contains(err.Error(), "more than 256 requirements") {
		t.Errorf("300 requirements: got error %v, want that there are too many", err)
	}
}

func manyRequirements(count int) []fbc.Property {
	var list []fbc.Property
	for i := range count {
		list = append(list, properties("x@1.0.0", fmt.Sprintf("pkg a%d", i))[1])
	}
	return list
}

// FuzzParse checks that any property is parsed or rejected. A parsed requirement can be described
// and evaluated, always with the same result.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"group":"g","version":"v1","kind":"K"}`, `{"packageName":"a","versionRange":">=1.0.0 <2.0.0 || 3.x"}`,
		`{"cel":{"rule":"properties.exists(p, p.type == 'a' && semver_compare(p.value, '1.0.0') > 0)"}}`,
		`{"failureMessage":"m","any":{"constraints":[{"not":{"constraints":[{"gvk":{"group":"g","version":"v","kind":"K"}}]}},{"all":{"constraints":[{"package":{"name":"a","versionRange":"1.0.0"}}]}}]}}`,
		`{"all":null}`, `[]`, `{"cel":{}}`, "\x00", `{"packageName":"a","versionRange":">=7.0.0 0 || 3 || 3.x"}`,
	} {
		for kind := range 3 {
			f.Add(kind, []byte(seed))
		}
	}

	types := []string{fbc.PropertyGVKRequired, fbc.PropertyPackageRequired, fbc.PropertyConstraint}
	f.Fuzz(func(t *testing.T, kind int, value []byte) {
		if len(value) > 4096 {
			return
		}

		p := []fbc.Property{{Type: types[uint(kind)%3], Value: value}}
		requirements, err := dependency.Parse(p)
		if err != nil {
			return
		}
		if len(requirements) != 1 || requirements[0].String() == "" {
			t.Fatalf("%s: got the requirements %v, want one", value, requirements)
		}

		wanted := dependency.NewBundle("x", "x", semver.MustParse("1.0.0"), p)
		offered := catalog("c", 0, offer{"a@1.0.0", "gvk K", "also a 2.0.0"})
		problem := dependency.Problem{Wanted: wanted, Catalogs: []dependency.Catalog{offered}}
		missing, err := problem.Missing()
		if err != nil {
			t.Fatal(err)
		}

		plan, err := problem.Plan()
		if err != nil {
			return
		}
		if len(missing) == 0 && len(plan) > 0 {
			t.Errorf("nothing is missing: got plan %s, want none", describeBundles(plan))
		}

		after := dependency.Problem{Wanted: wanted, Installed: plan}
		if missing, err := after.Missing(); err != nil || len(missing) > 0 {
			t.Errorf("after the plan %s: got missing requirements %v, error %v; want none", describeBundles(plan), missing, err)
		}
	})
}
