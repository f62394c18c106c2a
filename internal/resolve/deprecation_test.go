package resolve_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/resolve"
)

func TestDeprecationConditions(t *testing.T) {
	of := func(parts ...contentOption) *fbc.Deprecations { return catalog("a", 0, parts...).Content.Deprecations }
	wholePackage := withDeprecation(fbc.SchemaPackage, "", "package: use other")
	stable := withDeprecation(fbc.SchemaChannel, "stable", "channel: use fast")
	beta := withDeprecation(fbc.SchemaChannel, "beta", "channel: beta ended")
	v1 := withDeprecation(fbc.SchemaBundle, "e.v1.0.0", "bundle: use 2.x")

	cases := map[string]struct {
		deprecations *fbc.Deprecations
		channels     []string
		bundle       string
		// want has the messages of the conditions. A condition with a message is true.
		want [4]string
	}{
		"nothing deprecated":               {nil, []string{"stable"}, "e.v1.0.0", [4]string{}},
		"the package":                      {of(wholePackage), nil, "e.v2.0.0", [4]string{"package: use other", "package: use other", "", ""}},
		"a requested channel":              {of(stable), []string{"fast", "stable"}, "e.v2.0.0", [4]string{"channel: use fast", "", "channel: use fast", ""}},
		"two requested channels":           {of(stable, beta), []string{"beta", "stable"}, "e.v2.0.0", [4]string{"channel: use fast;channel: beta ended", "", "channel: use fast;channel: beta ended", ""}},
		"a channel that was not requested": {of(stable), []string{"fast"}, "e.v2.0.0", [4]string{}},
		"a channel when none is requested": {of(stable), nil, "e.v2.0.0", [4]string{}},
		"the bundle":                       {of(v1), []string{"stable"}, "e.v1.0.0", [4]string{"bundle: use 2.x", "", "", "bundle: use 2.x"}},
		"another bundle":                   {of(v1), []string{"stable"}, "e.v2.0.0", [4]string{}},
		"no bundle":                        {of(v1, withDeprecation(fbc.SchemaBundle, "", "nameless")), nil, "", [4]string{}},
		"all three have a condition each":  {of(v1, stable, wholePackage), []string{"stable"}, "e.v1.0.0", [4]string{"package: use other;channel: use fast;bundle: use 2.x", "package: use other", "channel: use fast", "bundle: use 2.x"}},
	}

	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var want []metav1.Condition
			for i, conditionType := range []string{"Deprecated", "PackageDeprecated", "ChannelDeprecated", "BundleDeprecated"} {
				c := metav1.Condition{Type: conditionType, Status: metav1.ConditionFalse, Reason: "Deprecated", Message: tc.want[i]}
				if tc.want[i] != "" {
					c.Status = metav1.ConditionTrue
				}
				want = append(want, c)
			}
			if diff := cmp.Diff(want, resolve.DeprecationConditions(tc.deprecations, tc.channels, tc.bundle)); diff != "" {
				t.Errorf("messages (-want +got)\n%s", diff)
			}
		})
	}
}

func TestDeprecationWithoutMessageCounts(t *testing.T) {
	d := catalog("a", 0, withDeprecation(fbc.SchemaBundle, "e.v1.0.0", "")).Content.Deprecations
	for i, want := range []metav1.ConditionStatus{"True", "False", "False", "True"} {
		if got := resolve.DeprecationConditions(d, nil, "e.v1.0.0")[i]; got.Status != want || got.Message != "" {
			t.Errorf("%s = %s %q, want %s", got.Type, got.Status, got.Message, want)
		}
	}
}
