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
	deep := strings.Repeat(`{"not":{"constraints":[`, 17) + `{"package":{"packageName":"a"}}` + strings.Repeat("]}}", 17)
	for _, tc := range []struct {
		name, propertyType, value string
		want                      string // what it is, or the error
	}{
		{"API", fbc.PropertyGVKRequired, `{"group":"g","version":"v1","kind":"K"}`, "the API K of g/v1"},
		{"API without a kind", fbc.PropertyGVKRequired, `{"group":"g","version":"v1"}`, `property "olm.gvk.required": an API needs a group, a version and a kind`},
		{"API that is a list", fbc.PropertyGVKRequired, `[]`, `property "olm.gvk.required": json: cannot unmarshal`},
		{"package", fbc.PropertyPackageRequired, `{"packageName":"a","versionRange":">1.0.0 !1.2.1"}`, `package "a" in version ">1.0.0 !1.2.1"`},
		{"package of any version", fbc.PropertyPackageRequired, `{"packageName":"a"}`, `package "a"`},
		{"package without a name", fbc.PropertyPackageRequired, `{"versionRange":">1.0.0"}`, `property "olm.package.required": packageName is not set`},
		{"package with a bad range", fbc.PropertyPackageRequired, `{"packageName":"a","versionRange":"new"}`, `property "olm.package.required": versionRange "new": `},
		{"constraint: API", fbc.PropertyConstraint, `{"gvk":{"group":"g","version":"v1","kind":"K"}}`, "the API K of g/v1"},
		{"constraint: package, both names of the field", fbc.PropertyConstraint, `{"all":{"constraints":[{"package":{"name":"a"}},{"package":{"packageName":"b"}}]}}`, `all of (package "a"; package "b")`},
		{"constraint: rule", fbc.PropertyConstraint, `{"failureMessage":"be fast","cel":{"rule":"true"}}`, `a bundle for which the rule "true" holds (be fast)`},
		{"constraint: not in any", fbc.PropertyConstraint, `{"any":{"constraints":[{"not":{"constraints":[{"package":{"name":"a"}}]}},{"package":{"name":"b"}}]}}`, `one of (the absence of (package "a"); package "b")`},
		{"constraint: nothing", fbc.PropertyConstraint, `{}`, "this one has 0 of them"},
		{"constraint: two things", fbc.PropertyConstraint, `{"cel":{"rule":"true"},"package":{"name":"a"}}`, "this one has 2 of them"},
		{"constraint: unknown", fbc.PropertyConstraint, `{"weather":"good"}`, `unknown field "weather"`},
		{"constraint: no parts", fbc.PropertyConstraint, `{"all":{"constraints":[]}}`, "need at least one constraint"},
		{"constraint: a bad part", fbc.PropertyConstraint, `{"all":{"constraints":[{"cel":{"rule":"true"}},{"cel":{"rule":"1"}}]}}`, "constraint 1: cel: cel expressions must have type Bool"},
		{"constraint: a rule of a wrong type", fbc.PropertyConstraint, `{"cel":{"rule":"'a' + 1 == 2"}}`, "cel: line 1, column 5: found no matching overload"},
		{"constraint: too deep", fbc.PropertyConstraint, deep, "nested deeper than 16 levels"},
		{"constraint: too large", fbc.PropertyConstraint, `{"failureMessage":"` + strings.Repeat("x", 64<<10) + `"}`, "at most 65536 are allowed"},
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
		t.Errorf("300 requirements: %v", err)
	}
}

func manyRequirements(count int) []fbc.Property {
	var list []fbc.Property
	for i := range count {
		list = append(list, properties("x@1.0.0", fmt.Sprintf("pkg a%d", i))[1])
	}
	return list
}

// TestRulesAreBounded checks that a rule that costs too much, or fails, does not match.
func TestRulesAreBounded(t *testing.T) {
	var statements []string
	for i := range 200 {
		statements = append(statements, fmt.Sprintf("also p%d v", i))
	}

	for rule, want := range map[string]bool{
		"true": true,
		"properties.exists(p, p.type == 'p3' && p.value == 'v')": true,
		"properties.exists(p, p.type == 'p3') && properties.all(p, properties.all(q, properties.all(r, p.type != '' && q.type != '' && r.type != '')))": false,
		"properties.exists(p, p.absent == 1)":   false,
		"semver_compare('1.2.0', '1.10.0') < 0": true,
		"semver_compare('1.2', '1.10.0') < 0":   false,
		"semver_compare(1, '1.10.0') < 0":       false,
		"properties.exists(p, p.type == 'olm.package' && semver_compare(p.value.version, '1.0.0') == 0)":       true,
		"properties.filter(p, p.type == 'olm.package')[0].value.packageName == 'a' && size(properties) == 201": true,
		"properties.exists(p, p.type == 'olm.package' && p.value.version.matches('^1[.]'))":                    true,
	} {
		raw, err := json.Marshal(map[string]any{"cel": map[string]string{"rule": rule}})
		if err != nil {
			t.Fatal(err)
		}

		p := dependency.Problem{Wanted: newBundle("x@1.0.0", "constraint "+string(raw)), Installed: []*dependency.Bundle{installed("a@1.0.0", statements...)}}
		missing, err := p.Missing()
		if err != nil {
			t.Errorf("%s: %v", rule, err)
			continue
		}
		if got := len(missing) == 0; got != want {
			t.Errorf("%s: holds: %t, want %t", rule, got, want)
		}
	}
}

// FuzzParse checks that any property is parsed or rejected. A parsed requirement can be described
// and evaluated, always with the same result.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"group":"g","version":"v1","kind":"K"}`, `{"packageName":"a","versionRange":">=1.0.0 <2.0.0 || 3.x"}`,
		`{"cel":{"rule":"properties.exists(p, p.type == 'a' && semver_compare(p.value, '1.0.0') > 0)"}}`,
		`{"failureMessage":"m","any":{"constraints":[{"not":{"constraints":[{"gvk":{"group":"g","version":"v","kind":"K"}}]}},{"all":{"constraints":[{"package":{"name":"a","versionRange":"1.0.0"}}]}}]}}`,
		`{"all":null}`, `[]`, `{"cel":{}}`, "\x00",
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
			t.Fatalf("%s gives %v", value, requirements)
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
			t.Errorf("nothing is missing, and the plan is %s", describeBundles(plan))
		}

		after := dependency.Problem{Wanted: wanted, Installed: plan}
		if missing, err := after.Missing(); err != nil || len(missing) > 0 {
			t.Errorf("after the plan %s this is missing: %v %v", describeBundles(plan), missing, err)
		}
	})
}

// MetBy requires that one bundle meets every part of a requirement.
func TestMetBy(t *testing.T) {
	const (
		blue  = `{"package":{"name":"blue"}}`
		green = `{"gvk":{"group":"g","version":"v1","kind":"Green"}}`
	)
	for _, tc := range []struct {
		name, constraint string
		blue, greenBlue  bool
	}{
		{"one part", blue, true, true},
		{"all", `{"all":{"constraints":[` + blue + `,` + green + `]}}`, false, true},
		{"any", `{"any":{"constraints":[` + blue + `,` + green + `]}}`, true, true},
		{"not", `{"not":{"constraints":[` + green + `]}}`, true, false},
		{"not all", `{"not":{"constraints":[{"all":{"constraints":[` + blue + `,` + green + `]}}]}}`, true, false},
		{"not not", `{"not":{"constraints":[{"not":{"constraints":[` + green + `]}}]}}`, false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			requirements, err := dependency.Parse([]fbc.Property{{Type: fbc.PropertyConstraint, Value: json.RawMessage(tc.constraint)}})
			if err != nil {
				t.Fatal(err)
			}
			provides := []fbc.Property{{Type: fbc.PropertyGVK, Value: json.RawMessage(`{"group":"g","version":"v1","kind":"Green"}`)}}
			for b, want := range map[*dependency.Bundle]bool{
				dependency.NewBundle("plain", "blue", semver.Version{}, nil):      tc.blue,
				dependency.NewBundle("green", "blue", semver.Version{}, provides): tc.greenBlue,
			} {
				if got := requirements[0].MetBy(b); got != want {
					t.Errorf("met by %s: %t", b.Name, got)
				}
			}
		})
	}
}
