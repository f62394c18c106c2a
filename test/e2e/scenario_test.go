package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
)

// TestScenariosOfOLMClassic runs the scenarios of OLM Classic with two real packages each. One of them
// depends on a package that is not in the catalog. The scenarios fail on every unexpected outcome. The
// test checks that their output has the outcomes that each scenario is for.
func TestScenariosOfOLMClassic(t *testing.T) {
	bin := requirePrograms(t, "devcluster", "mainstay", "opm", "scenario-subscriptions", "scenario-operators")
	bundles := checkout.SharedData(t, "bundles")

	for _, test := range []struct {
		program, packages string
		want              []string
	}{
		{"scenario-subscriptions", "universal-crossplane,node-healthcheck-operator", []string{"approved by hand", "approved automatically", "requires an operator"}},
		{"scenario-operators", "cert-manager,node-healthcheck-operator", []string{"migrated", "requires an operator"}},
	} {
		t.Run(test.program, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), filepath.Join(bin, test.program), "--bundles", bundles, "--packages", test.packages)
			cmd.Dir = filepath.Dir(bin)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("the scenario failed: %v\n%s", err, out)
			}

			for _, want := range test.want {
				if !strings.Contains(string(out), want) {
					t.Errorf("got no %q in the output of the scenario:\n%s", want, out)
				}
			}
		})
	}
}
