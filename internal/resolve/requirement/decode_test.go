package requirement_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/blang/semver/v4"

	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/resolve/requirement"
)

func property(propertyType, value string) fbc.Property {
	return fbc.Property{Type: propertyType, Value: json.RawMessage(value)}
}

func TestDecodeErrors(t *testing.T) {
	deep := strings.Repeat(`{"not":{"constraints":[`, 17) + `{"package":{"packageName":"a"}}` + strings.Repeat("]}}", 17)
	for _, tc := range []struct{ name, propertyType, value, want string }{
		{"another property", "other", `{}`, `property "other": it states no requirement`},
		{"API without a kind", fbc.PropertyGVKRequired, `{"group":"g","version":"v1"}`, `property "olm.gvk.required": an API needs a group, a version and a kind`},
		{"API that is a list", fbc.PropertyGVKRequired, `[]`, `property "olm.gvk.required": json: cannot unmarshal`},
		{"package without a name", fbc.PropertyPackageRequired, `{"versionRange":">1.0.0"}`, `property "olm.package.required": packageName is not set`},
		{"package with a bad range", fbc.PropertyPackageRequired, `{"packageName":"a","versionRange":"new"}`, `property "olm.package.required": versionRange "new": `},
		{"no label", requirement.PropertyLabelRequired, `{"label":""}`, `property "olm.label.required": label is not set`},
		{"label that is a list", requirement.PropertyLabelRequired, `[]`, `property "olm.label.required": json: cannot unmarshal`},
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
			if _, err := requirement.Decode(property(tc.propertyType, tc.value)); !strings.Contains(fmt.Sprint(err), tc.want) {
				t.Errorf("got error %v, want %s", err, tc.want)
			}
		})
	}
}

// TestMetBy checks formulas that one bundle must meet.
func TestMetBy(t *testing.T) {
	const (
		blue  = `{"package":{"name":"blue","versionRange":">=1.0.0"}}`
		green = `{"gvk":{"group":"g","version":"v1","kind":"Green"}}`
	)
	plain := requirement.NewProvider("blue", semver.MustParse("1.0.0"), nil)
	greenBlue := requirement.NewProvider("blue", semver.MustParse("1.0.0"), []fbc.Property{
		property(fbc.PropertyGVK, `{"group":"g","version":"v1","kind":"Green"}`), property(requirement.PropertyLabel, `{"label":"l"}`),
	})
	for _, tc := range []struct {
		name, propertyType, value string
		plain, greenBlue          bool
	}{
		{"package", fbc.PropertyPackageRequired, `{"packageName":"blue"}`, true, true},
		{"another version", fbc.PropertyPackageRequired, `{"packageName":"blue","versionRange":">1.0.0"}`, false, false},
		{"API", fbc.PropertyGVKRequired, `{"group":"g","version":"v1","kind":"Green"}`, false, true},
		{"label", requirement.PropertyLabelRequired, `{"label":"l"}`, false, true},
		{"one part", fbc.PropertyConstraint, blue, true, true},
		{"all", fbc.PropertyConstraint, `{"all":{"constraints":[` + blue + `,` + green + `]}}`, false, true},
		{"any", fbc.PropertyConstraint, `{"any":{"constraints":[` + blue + `,` + green + `]}}`, true, true},
		{"not", fbc.PropertyConstraint, `{"not":{"constraints":[` + green + `]}}`, true, false},
		{"not all", fbc.PropertyConstraint, `{"not":{"constraints":[{"all":{"constraints":[` + blue + `,` + green + `]}}]}}`, true, false},
		{"not not", fbc.PropertyConstraint, `{"not":{"constraints":[{"not":{"constraints":[` + green + `]}}]}}`, false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, err := requirement.Decode(property(tc.propertyType, tc.value))
			if err != nil {
				t.Fatal(err)
			}
			if got := f.MetBy(plain); got != tc.plain {
				t.Errorf("met by the plain bundle: got %t, want %t", got, tc.plain)
			}
			if got := f.MetBy(greenBlue); got != tc.greenBlue {
				t.Errorf("met by the green bundle: got %t, want %t", got, tc.greenBlue)
			}
		})
	}
}

// TestRulesAreBounded checks that a rule that costs too much, or fails, is not met.
func TestRulesAreBounded(t *testing.T) {
	properties := []fbc.Property{property(fbc.PropertyPackage, `{"packageName":"a","version":"1.0.0"}`)}
	for i := range 200 {
		properties = append(properties, property(fmt.Sprint("p", i), `"v"`))
	}

	provider := requirement.NewProvider("a", semver.MustParse("1.0.0"), properties)
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

		f, err := requirement.Decode(property(fbc.PropertyConstraint, string(raw)))
		if err != nil {
			t.Errorf("%s: %v", rule, err)
			continue
		}
		if got := f.MetBy(provider); got != want {
			t.Errorf("%s: got met %t, want %t", rule, got, want)
		}
	}
}

// FuzzDecode checks that any property is decoded or rejected, and that a formula can be evaluated,
// always with the same result.
func FuzzDecode(f *testing.F) {
	types := []string{fbc.PropertyGVKRequired, fbc.PropertyPackageRequired, requirement.PropertyLabelRequired, fbc.PropertyConstraint}
	for _, seed := range []string{
		`{"group":"g","version":"v1","kind":"K"}`, `{"packageName":"a","versionRange":">=1.0.0 <2.0.0 || 3.x"}`, `{"label":"l"}`,
		`{"cel":{"rule":"properties.exists(p, p.type == 'a' && semver_compare(p.value, '1.0.0') > 0)"}}`,
		`{"failureMessage":"m","any":{"constraints":[{"not":{"constraints":[{"gvk":{"group":"g","version":"v","kind":"K"}}]}},{"all":{"constraints":[{"package":{"name":"a","versionRange":"1.0.0"}}]}}]}}`,
		`{"all":null}`, `[]`, `{"cel":{}}`, "\x00",
	} {
		for kind := range types {
			f.Add(kind, []byte(seed))
		}
	}

	provider := requirement.NewProvider("a", semver.MustParse("1.0.0"), []fbc.Property{property(fbc.PropertyGVK, `{"group":"g","version":"v1","kind":"K"}`)})
	f.Fuzz(func(t *testing.T, kind int, value []byte) {
		if len(value) > 4096 {
			return
		}

		formula, err := requirement.Decode(property(types[uint(kind)%uint(len(types))], string(value)))
		if err != nil {
			return
		}

		first := formula.MetBy(provider)
		leaves := 0
		formula.VisitLeaves(func(*requirement.Formula, bool) { leaves++ })
		second := formula.IsMetWith(func(leaf *requirement.Formula, _ bool) bool { return provider.Meets(leaf) })
		if first != second || leaves == 0 {
			t.Errorf("%s: got met %t, then %t, with %d leaves, want the same result", value, first, second, leaves)
		}
	})
}
