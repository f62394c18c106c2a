package dependency

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// maxListed bounds the versions, packages and facts that a sentence lists.
const maxListed = 5

// Problem is a bundle that is to be installed, and the facts that its requirements are
// judged against.
type Problem struct {
	// Wanted is the bundle.
	Wanted *Bundle
	// Replaced is the installed bundle that Wanted takes the place of; nil when it is a
	// first installation.
	Replaced *Bundle
	// Installed are the other installed bundles.
	Installed []*Bundle
	// Serves reports whether the API server serves an API, whoever installed it. Nil means
	// that it serves none.
	Serves func(schema.GroupVersionKind) bool
	// Catalogs offer what is not installed. Other versions of the wanted package among
	// them are looked at for advice.
	Catalogs []Catalog

	index *index
}

// index finds offers.
type index struct {
	all       []*Bundle
	byGVK     map[schema.GroupVersionKind][]*Bundle
	byPackage map[string][]*Bundle
	byRule    map[*rule][]*Bundle
}

// offers returns the index, with the best offers first everywhere.
func (p *Problem) offers() *index {
	if p.index != nil {
		return p.index
	}

	x := &index{
		byGVK: map[schema.GroupVersionKind][]*Bundle{}, byPackage: map[string][]*Bundle{}, byRule: map[*rule][]*Bundle{},
	}
	for i := range p.Catalogs {
		x.all = append(x.all, p.Catalogs[i].offers()...)
	}

	slices.SortFunc(x.all, prefer(p.Wanted.Catalog))
	for _, b := range x.all {
		x.byPackage[b.Package] = append(x.byPackage[b.Package], b)
		for _, gvk := range b.provides {
			x.byGVK[gvk] = append(x.byGVK[gvk], b)
		}
	}

	p.index = x
	return x
}

// meeting are the offers that meet a leaf.
func (x *index) meeting(leaf *formula) []*Bundle {
	switch leaf.op {
	case opGVK:
		return x.byGVK[leaf.gvk]
	case opPackage:
		var found []*Bundle
		for _, b := range x.byPackage[leaf.pkg] {
			if b.meets(leaf) {
				found = append(found, b)
			}
		}
		return found
	default:
		found, ok := x.byRule[leaf.rule]
		if !ok {
			for _, b := range x.all {
				if b.meets(leaf) {
					found = append(found, b)
				}
			}
			x.byRule[leaf.rule] = found
		}
		return found
	}
}

// serves reports whether the API server will serve an API once Wanted has taken its place.
func (p *Problem) serves(gvk schema.GroupVersionKind) bool {
	if p.Replaced != nil && p.Replaced.Provides(gvk) && !p.Wanted.Provides(gvk) {
		return false
	}
	return p.Serves != nil && p.Serves(gvk)
}

// Unmet is a requirement that is not met.
type Unmet struct {
	Requirement
	// Sentence names it, and what would meet it.
	Sentence string
}

// Missing returns the requirements of the wanted bundle that are not met. What it provides
// itself it need not find elsewhere; nor does it forbid itself.
func (p *Problem) Missing() ([]Unmet, error) {
	requirements, err := p.Wanted.Requires()
	if err != nil {
		return nil, err
	}

	var unmet []Unmet
	for _, r := range requirements {
		if !p.isMet(p.Wanted, &r) {
			unmet = append(unmet, Unmet{Requirement: r, Sentence: p.sentence(&r)})
		}
	}

	return unmet, nil
}

// isMet reports whether a requirement of a bundle is met by itself and what is installed.
func (p *Problem) isMet(owner *Bundle, r *Requirement) bool {
	return r.formula.holds(func(leaf *formula, negated bool) bool {
		return !negated && owner.meets(leaf) ||
			slices.ContainsFunc(p.Installed, func(b *Bundle) bool { return b != owner && b.meets(leaf) }) ||
			leaf.op == opGVK && p.serves(leaf.gvk)
	})
}

func anyMeets(bundles []*Bundle, leaf *formula) bool {
	return slices.ContainsFunc(bundles, func(b *Bundle) bool { return b.meets(leaf) })
}

// MissingError says that a bundle needs what is not there.
type MissingError struct {
	// Bundle is its name.
	Bundle string
	// Missing are the requirements. Never empty.
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

// sentence says what a requirement needs and what would meet it.
func (p *Problem) sentence(r *Requirement) string {
	var hints []string
	var offered []string
	r.formula.leaves(func(leaf *formula, negated bool) {
		if anyMeets(p.Installed, leaf) || leaf.op == opGVK && p.serves(leaf.gvk) {
			hints = append(hints, "there already is "+leaf.describe())
			return
		}
		if negated {
			return
		}
		if text := summary(p.offers().meeting(leaf)); text != "" {
			offered = append(offered, text)
		}
		hints = append(hints, p.nearMiss(leaf)...)
	})

	text := "it needs " + r.String()
	switch {
	case len(offered) > 0:
		text += ", which would come with " + orList(offered)
	case r.formula.forbids():
	default:
		text += ", which " + p.nobody()
	}

	if len(hints) > 0 {
		text += " (" + list(hints) + ")"
	}

	return text
}

// nobody says that the catalogs do not help.
func (p *Problem) nobody() string {
	var names []string
	for _, c := range p.Catalogs {
		names = append(names, fmt.Sprintf("%q", c.Name))
	}

	if len(names) == 0 {
		return "nothing provides: no catalog is available"
	}

	slices.Sort(names)
	return "nothing in the catalogs provides: looked at " + list(names)
}

// nearMiss says where a package is that is needed in another version.
func (p *Problem) nearMiss(leaf *formula) []string {
	if leaf.op != opPackage {
		return nil
	}

	for _, b := range p.Installed {
		if b.Package == leaf.pkg {
			return []string{installedText(b)}
		}
	}

	if others := p.offers().byPackage[leaf.pkg]; len(others) > 0 && len(p.offers().meeting(leaf)) == 0 {
		return []string{"the catalogs have " + summary(others)}
	}
	return nil
}

func installedText(b *Bundle) string {
	return fmt.Sprintf("package %q is installed in version %s as extension %q", b.Package, b.Version, b.Extension)
}

// summary lists offers by package, catalog and version: package "a" in version 1.1.0, 1.0.0 (catalog "c").
func summary(offers []*Bundle) string {
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
		words = append(words, fmt.Sprintf("package %q in version %s (catalog %q)", at.pkg, comma(versions[at]), at.catalog))
	}

	return orList(words)
}

func comma(items []string) string {
	if more := len(items) - maxListed; more > 0 {
		return strings.Join(items[:maxListed], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(items, ", ")
}

func list(items []string) string {
	if more := len(items) - maxListed; more > 0 {
		return strings.Join(items[:maxListed], "; ") + fmt.Sprintf("; and %d more", more)
	}
	return strings.Join(items, "; ")
}

func orList(items []string) string {
	if more := len(items) - maxListed; more > 0 {
		return strings.Join(items[:maxListed], " or ") + fmt.Sprintf(" or %d more", more)
	}
	return strings.Join(items, " or ")
}
