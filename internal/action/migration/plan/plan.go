package plan

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/render"
)

// Plan is what a migration would do.
type Plan struct {
	// Subscription is the Subscription, as namespace/name.
	Subscription string `json:"subscription"`
	// CSV is the name of the installed ClusterServiceVersion.
	CSV string `json:"csv"`
	// Findings are the results of the checks: blockers first, warnings last.
	Findings []Finding `json:"findings"`
	// Extension is the ClusterExtension to create. It is nil if it cannot be determined.
	Extension *olmv1.ClusterExtension `json:"extension,omitempty"`
	// Objects are all objects of the operator with their actions.
	Objects []Object `json:"objects,omitempty"`
}

// Allowed reports whether no finding prevents the migration.
func (p *Plan) Allowed() bool {
	return p.Extension != nil && !slices.ContainsFunc(p.Findings, Finding.Blocks)
}

// New returns the plan of a migration. Every check runs whose facts are known.
func New(f *Facts, o Options) *Plan {
	p := &Plan{Subscription: f.Subscription.Namespace + "/" + f.Subscription.Name, CSV: f.Subscription.Status.InstalledCSV}
	for _, c := range slices.Concat(classicChecks, []check{checkNames, checkCatalog, checkDependencies}) {
		p.Findings = append(p.Findings, c(f, o)...)
	}

	if f.CSV != nil && f.Bundle != nil && len(f.targetNamespaces()) > 0 {
		rendered, refused := renderBundle(f)
		p.Findings = append(p.Findings, refused...)
		if len(refused) == 0 {
			p.addBundle(f, o, rendered)
		}
	}

	p.Findings = markAcknowledged(p.Findings, o.Acknowledged)
	return p
}

// addBundle adds the results that need the rendered bundle.
func (p *Plan) addBundle(f *Facts, o Options, rendered []unstructured.Unstructured) {
	for _, c := range bundleChecks {
		p.Findings = append(p.Findings, c(f, o, rendered)...)
	}

	ext, err := newExtension(f, o)
	if err != nil {
		p.Findings = append(p.Findings, newBlocker("Configuration", f.subscriptionText(), "correct spec.config of the Subscription", "%v", err))
		return
	}

	p.Extension, p.Objects = ext, listObjects(f, o, rendered)
}

// Rendered returns the objects of the bundle as the extension would render them. It returns nil if
// they cannot be rendered.
func Rendered(f *Facts) []unstructured.Unstructured {
	if f.Bundle == nil || len(f.targetNamespaces()) == 0 {
		return nil
	}
	objects, err := render.Render(f.Bundle, renderOptions(f, newConfig(f)))
	if err != nil {
		return nil
	}
	return objects
}
