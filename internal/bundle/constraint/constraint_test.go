package constraint

import (
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/google/cel-go/cel"
)

// rules are rules with their expected errors.
var rules = map[string]string{
	`true`: "",
	`properties.exists(p, p.type == "certified" && p.value == "stable")`:                             "",
	`!properties.exists(p, p.type == "x") || properties.all(p, has(p.value))`:                        "",
	`properties.exists(p, p.type == "olm.package" && semver_compare(p.value.version, "1.0.0") >= 0)`: "",
	"properties.exists(p, // the type\n  p.type == 'a')":                                             "",
	`properties.filter(p, p.type == "a")[0].value == 1`:                                              "",
	`properties.map(p, p.type == "a", p.value).size() > 1 ? true : false`:                            "",
	`size(properties) > 0 && "a" in ["a", 'b',] && {"a": 1,}.a == 1`:                                 "",
	`properties.exists(p, p.value)`:                                                                  "",
	`properties.exists_one(p, type(p.value) == string)`:                                              "",
	`.properties[0].type == r'\d' || b"\x41" == b'''a` + "\n" + `b'''`:                               "",
	`0x1Fu == 31u && 1.5e-3 < .5 && -(-1) == - -1 && 1e3 > 2.0`:                                      "",
	`"\u00e9\U0001F600\n\101" != "a"`:                                                                "",
	`[true][0]`:                                                                                      "",
	`duration("1h").getHours() == 1 && timestamp("2020-01-01T00:00:00Z").getHours("UTC") == 0`:       "",
	`google.protobuf.Int32Value{value: 1} == 1`:                                                      "",
	`!!true && bool("true") && matches("a", "a") && "a".matches("b")`:                                "",
	`properties.exists(properties, properties.type == "a")`:                                          "",

	`1`:                                "cel expressions must have type Bool",
	`"a" `:                             "cel expressions must have type Bool",
	`null`:                             "cel expressions must have type Bool",
	`string`:                           "cel expressions must have type Bool",
	`properties`:                       "cel expressions must have type Bool",
	`properties[0]`:                    "cel expressions must have type Bool",
	`properties[0].value`:              "cel expressions must have type Bool",
	`properties.filter(p, true)`:       "cel expressions must have type Bool",
	`properties.map(p, p.type)`:        "cel expressions must have type Bool",
	`dyn(true)`:                        "cel expressions must have type Bool",
	`semver_compare("1.0.0", "2.0.0")`: "cel expressions must have type Bool",
	`true ? 1 : 2`:                     "cel expressions must have type Bool",
	`2 * 3`:                            "cel expressions must have type Bool",
	`bundles.exists(p, true)`:          "line 1, column 1: there is no bundles: a rule is about the variable properties",
	"true &&\n p.type == 'a'":          "line 2, column 2: there is no p: a rule is about the variable properties",
	`properties.exists(p, true) && p.type == "a"`: "line 1, column 31: there is no p: a rule is about the variable properties",
	`semver_compare("1.0.0") == 0`:                "line 1, column 1: semver_compare does not take 1 arguments",
	`compare(1) == 0`:                             "line 1, column 1: there is no function compare",
	`"a".upper() == "A"`:                          "line 1, column 5: there is no function upper",
	`properties.exists(p)`:                        "line 1, column 19: there is no p: a rule is about the variable properties",
	`properties.all(p, true, true)`:               "line 1, column 12: all does not take 3 arguments",
	`properties.all(true, true)`:                  "line 1, column 12: there is no function all",
	`properties.exists(p, p)`:                     "line 1, column 12: exists: the operand is not a boolean",
	`1 && true`:                                   "line 1, column 3: &&: the operand is not a boolean",
	`!1`:                                          "line 1, column 1: !: the operand is not a boolean",
	`1 ? true : false`:                            "line 1, column 3: ?: the operand is not a boolean",
	`has(properties)`:                             "line 1, column 5: has takes a field, such as has(p.value)",
	`properties.exists(p, p.type == "x"`:          "line 1, column 35: the expression ends too early",
	``:                                            "line 1, column 1: the expression ends too early",
	`true true`:                                   "line 1, column 6: unexpected true",
	`true ? false`:                                "line 1, column 13: the expression ends too early",
	`(true`:                                       "line 1, column 6: the expression ends too early",
	`size(properties,) == 1`:                      "line 1, column 17: unexpected )",
	`{1} == {1}`:                                  "line 1, column 3: unexpected }",
	`properties.1 == 1`:                           "line 1, column 11: unexpected .1",
	`package == 1`:                                "line 1, column 1: package is reserved",
	`properties.all(for, true)`:                   "line 1, column 16: for is reserved",
	`"a`:                                          `line 1, column 1: the string does not end, or has an invalid escape sequence`,
	"'a\n' == ''":                                 `line 1, column 1: the string does not end, or has an invalid escape sequence`,
	`"\q" == ""`:                                  `line 1, column 1: the string does not end, or has an invalid escape sequence`,
	`"\u12" == ""`:                                `line 1, column 1: the string does not end, or has an invalid escape sequence`,
	"true # no comment":                           `line 1, column 6: unexpected "#"`,
	`1 = 1`:                                       `line 1, column 3: unexpected "="`,
	strings.Repeat("(", 301) + "true":             "line 1, column 301: the expression is nested deeper than 300 levels",
	strings.Repeat("true ? true : ", 300) + "true": "line 1, column 4201: the expression is nested deeper than 300 levels",
	strings.Repeat("true || ", 8<<10) + "1":        "the expression is longer than 64 KiB",
}

func TestCheckRule(t *testing.T) {
	for rule, want := range rules {
		got := ""
		if err := CheckRule(rule); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%.80s: error %q, want %q", rule, got, want)
		}
		if len(rule) <= maxRuleBytes {
			checkWithLibrary(t, rule)
			if checkByLibrary(t, rule) == nil != (want == "") {
				t.Errorf("%.80s: the library says %v", rule, checkByLibrary(t, rule))
			}
		}
	}
}

// environment is the environment of rules for the library.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable("properties", cel.ListType(cel.MapType(cel.StringType, cel.AnyType))),
		cel.Function("semver_compare",
			cel.Overload("semver_compare_any_any", []*cel.Type{cel.AnyType, cel.AnyType}, cel.IntType)),
	)
})

type notBool struct{}

func (notBool) Error() string { return "cel expressions must have type Bool" }

// checkByLibrary returns the library's error for a rule.
func checkByLibrary(t *testing.T, rule string) error {
	t.Helper()
	env, err := environment()
	if err != nil {
		t.Fatal(err)
	}

	ast, issues := env.Compile(rule)
	if err := issues.Err(); err != nil {
		return err
	}
	if !ast.OutputType().IsExactType(cel.BoolType) {
		return notBool{}
	}

	return nil
}

// checkWithLibrary checks that every rejected rule is also rejected by the library.
func checkWithLibrary(t *testing.T, rule string) {
	t.Helper()
	if err := CheckRule(rule); err != nil && checkByLibrary(t, rule) == nil {
		t.Errorf("%q is refused, and the library takes it: %v", rule, err)
	}
}

// grammar generates random rules: each name stands for one of its alternatives, in which
// words in angle brackets are names.
var grammar = map[string][]string{
	"rule": {"<bool>", "<bool> && <rule>", "<rule> || <bool>", "!<bool>", "<bool> ? <bool> : <any>", "<any>"},
	"bool": {"true", "<list>.all(p, <bool>)", "properties.exists(p, <bool>)", "properties.exists_one(<name>, <bool>)", "<any> == <any>", "<num> < <num>", "<any> in <list>", "has(<any>.type)", "<text>.startsWith(<text>)", "<text>.matches(<text>)", "(<bool>)", "bool(<any>)", "<any>", "<list>[0]"},
	"any":  {"<num>", "<text>", "<list>", "<name>", "<name>.type", "<name>.value", "<name>.value.a[\"b\"]", "<bool>", "null", "dyn(<any>)", "type(<any>)", "{<text>: <any>}", "{<text>: <any>}.a", "<bool> ? <any> : <any>", "properties[0]", "google.protobuf.Int32Value{value: 1}"},
	"num":  {"1", "1u", "0x1F", "-1", "1.5", "<num> + <num>", "<num> * <num>", "size(<list>)", "semver_compare(<any>, <any>)", "int(<any>)", "<name>.value", "<list>.size()"},
	"text": {"\"a\"", "'b'", "r'\\d'", "<text> + <text>", "string(<any>)", "<name>.type"},
	"list": {"properties", "[<any>, <any>]", "[]", "<list> + <list>", "<list>.filter(q, <bool>)", "<list>.map(<name>, <any>)", "<list>.map(p, <bool>, <any>)", "<name>.value"},
	"name": {"p", "q", "properties"},
}

// deriveExpression replaces names by alternatives until none is left, by short ones when it
// is deep.
func deriveExpression(random *rand.Rand, name string, depth int) string {
	alternatives := grammar[name]
	text := alternatives[random.IntN(len(alternatives))]
	if depth > 6 {
		text = alternatives[0]
	}

	var made strings.Builder
	for {
		before, rest, found := strings.Cut(text, "<")
		inner, after, named := strings.Cut(rest, ">")
		if !found {
			return made.String() + text
		}

		if _, known := grammar[inner]; !named || !known { // an operator
			made.WriteString(before + "<")
			text = rest
			continue
		}

		made.WriteString(before + deriveExpression(random, inner, depth+1))
		text = after
	}
}

func TestRandomRules(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	taken, refused := 0, 0
	for range 3000 {
		rule := deriveExpression(random, "rule", 0)
		checkWithLibrary(t, rule)
		if checkByLibrary(t, rule) == nil {
			taken++
		} else if CheckRule(rule) != nil {
			refused++
		}
	}

	if taken < 100 || refused < 1000 {
		t.Errorf("of 3000 rules the library takes %d, and %d of the others are refused: the grammar is no test", taken, refused)
	}

	t.Logf("of 3000 rules the library takes %d; of the others %d are refused", taken, refused)
}

func FuzzCheckRule(f *testing.F) {
	for rule := range rules {
		if len(rule) < 1000 {
			f.Add(rule)
		}
	}

	f.Fuzz(func(t *testing.T, rule string) {
		if len(rule) <= 4096 {
			checkWithLibrary(t, rule)
		}
	})
}
