package constraint

import (
	"strings"
	"testing"
)

var validRules = []string{
	`true`,
	`properties.exists(p, p.type == "certified" && p.value == "stable")`,
	`!properties.exists(p, p.type == "x") || properties.all(p, has(p.value))`,
	`properties.exists(p, p.type == "olm.package" && semver_compare(p.value.version, "1.0.0") >= 0)`,
	"properties.exists(p, // the type\n  p.type == 'a')",
	`properties.filter(p, p.type == "a")[0].value == 1`,
	`properties.map(p, p.type == "a", p.value).size() > 1 ? true : false`,
	`size(properties) > 0 && "a" in ["a", 'b',] && {"a": 1,}.a == 1`,
	`properties.exists(p, p.value)`,
	`properties.exists_one(p, type(p.value) == string)`,
	`.properties[0].type == r'\d' || b"\x41" == b'''a` + "\n" + `b'''`,
	`0x1Fu == 31u && 1.5e-3 < .5 && -(-1) == - -1 && 1e3 > 2.0`,
	`"\u00e9\U0001F600\n\101" != "a"`,
	`[true][0]`,
	`duration("1h").getHours() == 1 && timestamp("2020-01-01T00:00:00Z").getHours("UTC") == 0`,
	`google.protobuf.Int32Value{value: 1} == 1`,
	`!!true && bool("true") && matches("a", "a") && "a".matches("b")`,
	`properties.exists(properties, properties.type == "a")`,
}

// invalidRules are rules with the beginning of their errors.
var invalidRules = map[string]string{
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
	`bundles.exists(p, true)`:          "line 1, column 1: undeclared reference to 'bundles' (in container '')",
	"true &&\n p.type == 'a'":          "line 2, column 2: undeclared reference to 'p' (in container '')",
	`properties.exists(p, true) && p.type == "a"`: "line 1, column 31: undeclared reference to 'p' (in container '')",
	`semver_compare("1.0.0") == 0`:                "line 1, column 15: found no matching overload for 'semver_compare' applied to '(string)'",
	`compare(1) == 0`:                             "line 1, column 8: undeclared reference to 'compare' (in container '')",
	`"a".upper() == "A"`:                          "line 1, column 10: undeclared reference to 'upper' (in container '')",
	`properties.exists(p)`:                        "line 1, column 18: undeclared reference to 'exists' (in container '')",
	`properties.all(p, true, true)`:               "line 1, column 15: undeclared reference to 'all' (in container '')",
	`properties.all(true, true)`:                  "line 1, column 16: argument must be a simple name",
	`properties.exists(p, p)`:                     "line 1, column 22: expected type 'bool' but found 'map(string, any)'",
	`1 && true`:                                   "line 1, column 1: expected type 'bool' but found 'int'",
	`!1`:                                          "line 1, column 1: found no matching overload for '!_' applied to '(int)'",
	`1 ? true : false`:                            "line 1, column 3: found no matching overload for '_?_:_' applied to '(int, bool, bool)'",
	`has(properties)`:                             "line 1, column 5: invalid argument to has() macro",
	`properties.exists(p, p.type == "x"`:          "line 1, column 35: Syntax error: missing ')' at '<EOF>'",
	``:                                            "line 1, column 1: Syntax error: mismatched input '<EOF>'",
	`true true`:                                   "line 1, column 6: Syntax error: extraneous input 'true' expecting <EOF>",
	`true ? false`:                                "line 1, column 13: Syntax error: mismatched input '<EOF>' expecting ':'",
	`(true`:                                       "line 1, column 6: Syntax error: missing ')' at '<EOF>'",
	`size(properties,) == 1`:                      "line 1, column 17: Syntax error: mismatched input ')'",
	`{1} == {1}`:                                  "line 1, column 3: Syntax error: mismatched input '}' expecting ':'",
	`properties.1 == 1`:                           "line 1, column 11: Syntax error: mismatched input '.1' expecting <EOF>",
	`package == 1`:                                "line 1, column 1: reserved identifier: package",
	`properties.all(for, true)`:                   "line 1, column 16: reserved identifier: for",
	`"a`:                                          `line 1, column 1: Syntax error: token recognition error at: '"a'`,
	"'a\n' == ''":                                 "line 1, column 1: Syntax error: token recognition error at: ''a '",
	`"\q" == ""`:                                  `line 1, column 1: Syntax error: token recognition error at: '"\q'`,
	`"\u12" == ""`:                                `line 1, column 1: Syntax error: token recognition error at: '"\u12"'`,
	"true # no comment":                           "line 1, column 6: Syntax error: token recognition error at: '#'",
	`1 = 1`:                                       "line 1, column 3: Syntax error: token recognition error at: '= '",
	strings.Repeat("(", 301) + "true":             "expression recursion limit exceeded: 250",
	strings.Repeat("true ? true : ", 300) + "true": "expression recursion limit exceeded: 250",
	strings.Repeat("true || ", 8<<10) + "1":        "the expression is longer than 64 KiB",
	"'a'.matches('(')":                             "error parsing regexp: missing closing ): `(`",
	`"é" == x`:                                     "line 1, column 8: undeclared reference to 'x' (in container '')",
}

func TestCompile(t *testing.T) {
	for _, rule := range validRules {
		if _, err := Compile(rule); err != nil {
			t.Errorf("%.80s: got error %v, want none", rule, err)
		}
	}

	for rule, want := range invalidRules {
		_, err := Compile(rule)
		if err == nil {
			t.Errorf("%.80s: got no error, want %q", rule, want)
			continue
		}
		if got := err.Error(); !strings.HasPrefix(got, want) {
			t.Errorf("%.80s: got error %q, want %q", rule, got, want)
		}
	}
}

// The message of an error repeats at most a part of the rule.
func TestCompileShortensMessages(t *testing.T) {
	_, err := Compile("'" + strings.Repeat("é", maxMessageBytes))
	if err == nil || len(err.Error()) > maxMessageBytes+100 || !strings.HasSuffix(err.Error(), "é…") {
		t.Errorf("got error %.2000v, want a short one", err)
	}
}

// FuzzCompile checks that every rule is either compiled or rejected with a message on one line.
func FuzzCompile(f *testing.F) {
	for _, rule := range validRules {
		f.Add(rule)
	}
	for rule := range invalidRules {
		if len(rule) < 1000 {
			f.Add(rule)
		}
	}

	f.Fuzz(func(t *testing.T, rule string) {
		if _, err := Compile(rule); err != nil && strings.ContainsAny(err.Error(), "\r\n") {
			t.Errorf("%q: got error %q, want one line", rule, err)
		}
	})
}
