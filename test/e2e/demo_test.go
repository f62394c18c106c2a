package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
)

// TestDemoOfRealPackages runs the demo with real packages: one with an update that CRD upgrade
// safety refuses, and one that updates automatically.
func TestDemoOfRealPackages(t *testing.T) {
	bin := requirePrograms(t, "devcluster", "mainstay", "demo")
	bundles := checkout.SharedData(t, "bundles")

	for _, test := range []struct {
		pkg  string
		want []string
	}{
		{"argocd-operator", []string{
			"Version 0.5.0 is requested", "The update to 0.6.0 is refused", "may not be removed",
			"CRD upgrade safety is disabled for the update to 0.6.0 only", "The operator is at the head of its channel: 0.8.0",
		}},
		{"opentelemetry-operator", []string{"The operator is at the head of its channel: 0.27.0"}},
	} {
		t.Run(test.pkg, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "demo"), "--bundles", filepath.Join(bundles, test.pkg))
			cmd.Dir = filepath.Dir(bin)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("the demo failed: %v\n%s", err, out)
			}

			rest := string(out)
			for _, want := range append(test.want, "nothing of it is left", "The demo took") {
				_, after, found := strings.Cut(rest, want)
				if !found {
					t.Fatalf("got no %q after the texts before it in:\n%s", want, out)
				}
				rest = after
			}
		})
	}
}
