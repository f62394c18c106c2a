package dependency_test

import (
	"os"
	"testing"

	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/resolve/dependency"
	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
)

// TestRealBundles checks that the requirements of every real bundle can be parsed, and that each
// has a plan or an explanation why there is none.
func TestRealBundles(t *testing.T) {
	dirs := checkout.RealBundles(t)
	contents := map[string]*fbc.Content{}
	all := dependency.Catalog{Name: "real"}
	var needy []*dependency.Bundle
	for _, dir := range dirs {
		b, err := bundle.Load(os.DirFS(dir))
		if err != nil {
			continue // That is tested elsewhere.
		}

		content := contents[b.Package]
		if content == nil {
			content = &fbc.Content{Package: &fbc.Package{Name: b.Package}}
			contents[b.Package] = content
			all.Contents = append(all.Contents, content)
		}

		content.Bundles = append(content.Bundles, fbc.Bundle{Name: b.Name(), Package: b.Package, Properties: b.Properties})
		made := dependency.NewBundle(b.Name(), b.Package, b.Version, b.Properties)
		requirements, err := made.Requires()
		if err != nil {
			t.Errorf("%s: %v", dir, err)
		}
		if len(requirements) > 0 {
			needy = append(needy, made)
		}
	}

	for _, b := range needy {
		p := dependency.Problem{Wanted: b, Catalogs: []dependency.Catalog{all}}
		missing := must[[]dependency.Unmet](t)(p.Missing())
		plan, err := p.Plan()
		t.Logf("%s: missing %d, plan %s, %v", b.Name, len(missing), describeBundles(plan), err)
		if err != nil {
			continue
		}

		after := dependency.Problem{Wanted: b, Installed: plan}
		if missing := must[[]dependency.Unmet](t)(after.Missing()); len(missing) > 0 {
			t.Errorf("%s: after its plan %s, got missing requirements %v, want none", b.Name, describeBundles(plan), missing)
		}
	}

	if len(needy) == 0 {
		t.Error("got no real bundle with a requirement, want at least one")
	}
}
