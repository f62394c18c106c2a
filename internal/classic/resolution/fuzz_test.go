package resolution_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/resolution"
)

// maxFuzzed bounds the size of a fuzzed text, in bytes.
const maxFuzzed = 2048

// For any properties of bundles, the choice is deterministic and contains only the requested packages and their dependencies.
// An error has reasons.
func FuzzProperties(f *testing.F) {
	f.Add("olm.gvk.required", `{"group":"example.com","version":"v1","kind":"B"}`, "olm.gvk", `{"group":"example.com","version":"v1","kind":"B"}`)
	f.Add("olm.package.required", `{"packageName":"b","versionRange":">=1.0.0"}`, "olm.package", `{"packageName":"b","version":"1.0.0"}`)
	f.Add("olm.label.required", `{"label":"x"}`, "olm.label", `{"label":"x"}`)
	f.Add("olm.constraint", `{"failureMessage":"m","not":{"constraints":[{"gvk":{"group":"g","version":"v","kind":"K"}}]}}`, "olm.deprecated", `{}`)
	f.Add("olm.constraint", `{"cel":{"rule":"properties.exists(p, p.type == \"y\")"}}`, "y", `1`)
	f.Fuzz(func(t *testing.T, needType, need, haveType, have string) {
		if len(needType)+len(need)+len(haveType)+len(have) > maxFuzzed {
			return
		}

		resolve := func() ([]string, string) {
			choices, err := resolution.Resolve(resolution.Input{
				Namespace: namespace,
				Offers: offers(catalog("c", 0, entry("a", "stable", "1.0.0", property(needType, "%s", need)),
					entry("b", "stable", "1.0.0", property(haveType, "%s", have)))),
				Subscriptions: []*v1alpha1.Subscription{subscription("a", "stable")},
			})

			var unsatisfiable *resolution.UnsatisfiableError
			if errors.As(err, &unsatisfiable) && len(unsatisfiable.Reasons) == 0 {
				t.Error("got an error without a reason")
			}
			if err != nil {
				return nil, err.Error()
			}

			return texts(choices), ""
		}

		first, firstErr := resolve()
		second, secondErr := resolve()
		if diff := cmp.Diff(first, second); diff != "" || firstErr != secondErr {
			t.Errorf("two choices for the same input differ: %q, %q\n%s", firstErr, secondErr, diff)
		}
		if firstErr == "" && (len(first) == 0 || len(first) > 2) {
			t.Errorf("chosen: %v", first)
		}
	})
}
