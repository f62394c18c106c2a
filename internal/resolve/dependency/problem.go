package dependency

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mainstay-dev/mainstay/internal/excerpt"
	"github.com/mainstay-dev/mainstay/internal/resolve/requirement"
)

// maxListed limits the versions, packages and facts that a sentence lists.
const maxListed = 5

// Problem is a bundle to install, with the cluster and the catalogs that its requirements
// are checked against.
type Problem struct {
	// Wanted is the bundle to install.
	Wanted *Bundle
	// Replaced is the installed bundle that Wanted replaces; nil for a first installation.
	Replaced *Bundle
	// Installed are the other installed bundles.
	Installed []*Bundle
	// Serves reports whether the API server serves an API, regardless of what installed it.
	// Nil means that it serves none.
	Serves func(schema.GroupVersionKind) bool
	// Catalogs offer bundles to install. Other versions of the wanted package in them are
	// tried for advice.
	Catalogs []Catalog

	index *index
}

// index finds the offers of all catalogs by what they provide.
type index struct {
	all       []*Bundle
	byAPI     map[schema.GroupVersionKind][]*Bundle
	byPackage map[string][]*Bundle
	byLeaf    map[leafKey][]*Bundle
}

// leafKey is equal for leaves that the same bundles meet.
type leafKey struct {
	operator   requirement.Operator
	gvk        schema.GroupVersionKind
	name, text string
}

func keyOfLeaf(leaf *requirement.Formula) leafKey {
	return leafKey{leaf.Operator, leaf.GVK, leaf.Name, leaf.Text}
}

// offerIndex returns the index of offers, which it builds once. The best offers come first
// in each list.
func (p *Problem) offerIndex() *index {
	if p.index != nil {
		return p.index
	}

	x := &index{
		byAPI: map[schema.GroupVersionKind][]*Bundle{}, byPackage: map[string][]*Bundle{}, byLeaf: map[leafKey][]*Bundle{},
	}
	for i := range p.Catalogs {
		x.all = append(x.all, p.Catalogs[i].listOffers()...)
	}

	slices.SortFunc(x.all, compareOffers(p.Wanted.Catalog))
	for _, b := range x.all {
		x.byPackage[b.Package] = append(x.byPackage[b.Package], b)
		for _, gvk := range b.provider.APIs() {
			x.byAPI[gvk] = append(x.byAPI[gvk], b)
		}
	}

	p.index = x
	return x
}

// offersMeeting returns the offers that meet a leaf.
func (x *index) offersMeeting(leaf *requirement.Formula) []*Bundle {
	if leaf.Operator == requirement.API {
		return x.byAPI[leaf.GVK]
	}

	key := keyOfLeaf(leaf)
	found, ok := x.byLeaf[key]
	if ok {
		return found
	}

	offers := x.all
	if leaf.Operator == requirement.Package {
		offers = x.byPackage[leaf.Name]
	}
	for _, b := range offers {
		if b.meetsLeaf(leaf) {
			found = append(found, b)
		}
	}

	x.byLeaf[key] = found
	return found
}

// willServe reports whether the API server will serve an API once Wanted is installed.
func (p *Problem) willServe(gvk schema.GroupVersionKind) bool {
	if p.Replaced != nil && p.Replaced.Provides(gvk) && !p.Wanted.Provides(gvk) {
		return false
	}
	return p.Serves != nil && p.Serves(gvk)
}

// Unmet is a requirement that is not met.
type Unmet struct {
	Requirement
	// Sentence describes the requirement, and what would meet it.
	Sentence string
}

// Missing returns the requirements of the wanted bundle that are not met. The bundle may
// meet its own requirements, and its negated requirements do not apply to itself.
func (p *Problem) Missing() ([]Unmet, error) {
	requirements, err := p.Wanted.Requires()
	if err != nil {
		return nil, err
	}

	var unmet []Unmet
	for _, r := range requirements {
		if !p.isRequirementMet(p.Wanted, &r) {
			unmet = append(unmet, Unmet{Requirement: r, Sentence: p.describeUnmet(&r)})
		}
	}

	return unmet, nil
}

// isRequirementMet reports whether a bundle and the installed bundles meet a requirement of the bundle.
func (p *Problem) isRequirementMet(owner *Bundle, r *Requirement) bool {
	return r.formula.IsMetWith(func(leaf *requirement.Formula, negated bool) bool {
		return !negated && owner.meetsLeaf(leaf) ||
			slices.ContainsFunc(p.Installed, func(b *Bundle) bool { return b != owner && b.meetsLeaf(leaf) }) ||
			leaf.Operator == requirement.API && p.willServe(leaf.GVK)
	})
}

func anyBundleMeets(bundles []*Bundle, leaf *requirement.Formula) bool {
	return slices.ContainsFunc(bundles, func(b *Bundle) bool { return b.meetsLeaf(leaf) })
}

// MissingError is the error for a bundle with unmet requirements.
type MissingError struct {
	// Bundle is the name of the bundle.
	Bundle string
	// Missing are the unmet requirements. Never empty.
	Missing []Unmet
}

// Error names each requirement and what would meet it.
func (e *MissingError) Error() string {
	var s strings.Builder
	for i, unmet := range e.Missing {
		switch {
		case i == 0:
			fmt.Fprintf(&s, "bundle %q has a dependency declared via property %q which is not met: ", e.Bundle, unmet.Property)
		case unmet.Property == e.Missing[i-1].Property:
			s.WriteString("; ")
		default:
			fmt.Fprintf(&s, "; and one declared via property %q: ", unmet.Property)
		}
		s.WriteString(unmet.Sentence)
	}

	return s.String()
}

// describeUnmet states what a requirement needs and what would meet it.
func (p *Problem) describeUnmet(r *Requirement) string {
	var hints []string
	var offered []string
	r.formula.VisitLeaves(func(leaf *requirement.Formula, negated bool) {
		if anyBundleMeets(p.Installed, leaf) || leaf.Operator == requirement.API && p.willServe(leaf.GVK) {
			hints = append(hints, "there already is "+describeFormula(leaf))
			return
		}
		if negated {
			return
		}
		if text := summarizeOffers(p.offerIndex().offersMeeting(leaf)); text != "" {
			offered = append(offered, text)
		}
		hints = append(hints, p.describeNearMiss(leaf)...)
	})

	text := "it needs " + r.String()
	switch {
	case len(offered) > 0:
		text += ", which would come with " + joinAlternatives(offered)
	case r.formula.HasNegation():
	default:
		text += ", which " + p.describeNoOffer()
	}

	if len(hints) > 0 {
		text += " (" + joinSemicolons(hints) + ")"
	}

	return text
}

// describeNoOffer states that no catalog offers what is needed.
func (p *Problem) describeNoOffer() string {
	var names []string
	for _, c := range p.Catalogs {
		names = append(names, fmt.Sprintf("%q", c.Name))
	}

	if len(names) == 0 {
		return "nothing provides: no catalog is available"
	}

	slices.Sort(names)
	return "nothing in the catalogs provides: looked at " + joinSemicolons(names)
}

// describeNearMiss states where a package is available that is needed in another version.
func (p *Problem) describeNearMiss(leaf *requirement.Formula) []string {
	if leaf.Operator != requirement.Package {
		return nil
	}

	for _, b := range p.Installed {
		if b.Package == leaf.Name {
			return []string{describeInstalled(b)}
		}
	}

	if others := p.offerIndex().byPackage[leaf.Name]; len(others) > 0 && len(p.offerIndex().offersMeeting(leaf)) == 0 {
		return []string{"the catalogs have " + summarizeOffers(others)}
	}
	return nil
}

func describeInstalled(b *Bundle) string {
	return fmt.Sprintf("package %q is installed in version %s as extension %q", b.Package, b.Version, b.Extension)
}

// summarizeOffers lists offers by package, catalog and version: package "a" in version 1.1.0, 1.0.0 (catalog "c").
func summarizeOffers(offers []*Bundle) string {
	type place struct{ pkg, catalog string }
	versions := map[place][]string{}
	var places []place
	for _, b := range offers {
		at := place{b.Package, b.Catalog}
		if versions[at] == nil {
			places = append(places, at)
		}
		versions[at] = append(versions[at], b.Version.String())
	}

	var words []string
	for _, at := range places {
		words = append(words, fmt.Sprintf("package %q in version %s (catalog %q)", at.pkg, joinCommas(versions[at]), at.catalog))
	}

	return joinAlternatives(words)
}

func joinCommas(items []string) string {
	return excerpt.Join(items, maxListed, ", ", " and ")
}

func joinSemicolons(items []string) string {
	return excerpt.Join(items, maxListed, "; ", "; and ")
}

func joinAlternatives(items []string) string {
	return excerpt.Join(items, maxListed, " or ", " or ")
}
