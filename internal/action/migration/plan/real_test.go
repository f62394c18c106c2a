package plan

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/render"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// TestRealBundles checks that each real bundle has a plan, or a blocker that its content explains.
func TestRealBundles(t *testing.T) {
	root := env.SharedData(t, "bundles")
	counts := map[string]int{}
	for _, folder := range bundleFolders(t, root) {
		name, _ := filepath.Rel(root, folder)
		b, err := bundle.Load(os.DirFS(folder))
		if err != nil {
			t.Logf("%s: %v", name, err)
			counts["unreadable"]++
			continue
		}

		target := "other"
		switch modes := b.InstallModes(); {
		case slices.Contains(modes, v1alpha1.InstallModeTypeAllNamespaces):
			target = ""
		case slices.Contains(modes, v1alpha1.InstallModeTypeOwnNamespace):
			target = namespace
		}

		p := New(newFacts(t, b, target), Options{})
		blockers, questions := checksOf(p.Findings, SeverityBlocker), checksOf(p.Findings, SeverityAcknowledge)
		for _, f := range p.Findings {
			if f.Severity != SeverityWarning {
				t.Logf("%s: %s %s: %s", name, f.Severity, f.Check, f.Message)
			}
			if f.Severity == SeverityBlocker && !isExplained(f, b) {
				t.Errorf("%s: got the blocker %s without a reason in the bundle: %s", name, f.Check, f.Message)
			}
		}

		servesWebhooks := len(b.CSV.Spec.WebhookDefinitions) > 0
		if slices.Contains(questions, "PodTemplate") && !servesWebhooks {
			t.Errorf("%s: got a restart, want none without webhooks", name)
		}
		switch {
		case len(blockers) > 0:
			counts[blockers[0]]++
		case p.Extension == nil || len(p.Objects) == 0:
			t.Errorf("%s: got no plan and no blocker", name)
		default:
			counts["plan"]++
		}
	}

	t.Logf("%v", counts)
	if counts["plan"] == 0 {
		t.Error("no bundle has a plan")
	}
}

// isExplained reports whether the content of a bundle is the reason for a blocker.
func isExplained(f Finding, b *bundle.Bundle) bool {
	switch f.Check {
	case "APIServices":
		return len(b.CSV.Spec.APIServiceDefinitions.Owned) > 0
	case "Dependencies":
		return len(b.CSV.Spec.APIServiceDefinitions.Required) > 0 ||
			slices.ContainsFunc(b.Properties, func(p fbc.Property) bool { _, ok := describeRequirement(p); return ok })
	case "Bundle":
		var refused *render.RefusedError
		return errors.As(render.Validate(b), &refused)
	}
	return false
}

// bundleFolders returns the folders below a root that contain a bundle.
func bundleFolders(t *testing.T, root string) []string {
	t.Helper()
	var folders []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == "manifests" && !strings.Contains(path, "/tests/") {
			folders = append(folders, filepath.Dir(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return folders
}
