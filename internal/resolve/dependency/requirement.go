// Package dependency resolves the dependencies between bundles. It parses the
// requirements of a bundle, finds those that a cluster does not meet, and chooses bundles
// to install for them. If there is no solution it explains why. It also finds the
// requirements that a change of an installed bundle would break.
//
// The package is pure: the caller passes the installed bundles, the APIs that the API
// server serves, and the catalogs. Package resolve above it chooses the bundle of a
// requested package.
package dependency

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/blang/semver/v4"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

const (
	// MaxConstraintBytes limits the size of an olm.constraint, as the bundle format
	// specifies.
	MaxConstraintBytes = 64 << 10
	// maxDepth limits the nesting of constraints. Real constraints have two levels.
	maxDepth = 16
	// maxRequirements limits the number of requirements of one bundle.
	maxRequirements = 256
	// maxQuotedBytes limits how much of a rule or a range a message quotes.
	maxQuotedBytes = 120
)

// Requirement is one dependency of a bundle. All requirements of a bundle must be met;
// each may be met by a different bundle.
type Requirement struct {
	// Property is the type of the property that declares the requirement.
	Property string

	formula formula
	text    string
	key     string
}

// Key returns a key that is equal for equal requirements.
func (r Requirement) Key() string { return r.key }

// Packages returns the names of the packages that the requirement asks for.
func (r Requirement) Packages() []string {
	var names []string
	r.formula.visitLeaves(func(leaf *formula, negated bool) {
		if leaf.op == opPackage && !negated {
			names = append(names, leaf.pkg)
		}
	})
	return names
}

// Anywhere reports whether packages that the requirement does not name can meet it.
func (r Requirement) Anywhere() bool {
	anywhere := false
	r.formula.visitLeaves(func(leaf *formula, negated bool) { anywhere = anywhere || leaf.op != opPackage && !negated })
	return anywhere
}

// Range returns the version range that the requirement states for a package; empty when
// it states none.
func (r Requirement) Range(pkg string) string {
	text := ""
	r.formula.visitLeaves(func(leaf *formula, negated bool) {
		if leaf.op == opPackage && leaf.pkg == pkg && !negated && text == "" {
			text = leaf.text
		}
	})
	return text
}

// MetBy reports whether one bundle meets every part of the requirement by itself.
func (r Requirement) MetBy(b *Bundle) bool {
	return r.formula.isMetWith(func(leaf *formula, _ bool) bool { return b.meetsLeaf(leaf) })
}

// String describes the requirement in words that follow "needs".
func (r Requirement) String() string { return r.text }

type operator int

const (
	opGVK operator = iota
	opPackage
	opCEL
	opAll
	opAny
	// opNot is true when none of the parts is met.
	opNot
)

// formula is a requirement, or a part of one. One bundle on the cluster has to meet a
// leaf; different bundles may meet different leaves.
type formula struct {
	op       operator
	message  string
	gvk      schema.GroupVersionKind
	pkg      string
	text     string // the range or the rule
	versions semver.Range
	rule     *rule
	parts    []formula
}

// visitLeaves calls visit for each part that has no parts of its own. The argument
// negated is true for a leaf that must not be met.
func (f *formula) visitLeaves(visit func(leaf *formula, negated bool)) { f.walkLeaves(visit, false) }

func (f *formula) walkLeaves(visit func(*formula, bool), negated bool) {
	if f.op < opAll {
		visit(f, negated)
	}
	for i := range f.parts {
		f.parts[i].walkLeaves(visit, negated != (f.op == opNot))
	}
}

// hasNegation reports whether an additional bundle can make the formula false.
func (f *formula) hasNegation() bool {
	for i := range f.parts {
		if f.op == opNot || f.parts[i].hasNegation() {
			return true
		}
	}
	return false
}

// isMetWith evaluates the formula. The function met reports whether a leaf is met; its
// argument negated is true for a leaf that must not be met.
func (f *formula) isMetWith(met func(leaf *formula, negated bool) bool) bool {
	return f.evaluate(met, false)
}

func (f *formula) evaluate(met func(*formula, bool) bool, negated bool) bool {
	switch f.op {
	case opAll:
		for i := range f.parts {
			if !f.parts[i].evaluate(met, negated) {
				return false
			}
		}
		return true
	case opAny:
		for i := range f.parts {
			if f.parts[i].evaluate(met, negated) {
				return true
			}
		}
		return false
	case opNot:
		for i := range f.parts {
			if f.parts[i].evaluate(met, !negated) {
				return false
			}
		}
		return true
	default:
		return met(f, negated)
	}
}

// describe returns the formula in words.
func (f *formula) describe() string {
	switch f.op {
	case opGVK:
		return "the API " + formatGVK(f.gvk)
	case opPackage:
		if f.text == "" {
			return fmt.Sprintf("package %q", f.pkg)
		}
		return fmt.Sprintf("package %q in version %q", f.pkg, truncateQuoted(f.text))
	case opCEL:
		return fmt.Sprintf("a bundle for which the rule %q holds", truncateQuoted(f.text))
	case opAny:
		return "one of (" + f.describeParts() + ")"
	case opNot:
		return "the absence of (" + f.describeParts() + ")"
	default:
		return "all of (" + f.describeParts() + ")"
	}
}

func (f *formula) describeParts() string {
	var words []string
	for i := range f.parts {
		words = append(words, f.parts[i].describe())
	}
	return joinSemicolons(words)
}

func formatGVK(gvk schema.GroupVersionKind) string {
	return fmt.Sprintf("%s of %s", gvk.Kind, gvk.GroupVersion())
}

func truncateQuoted(text string) string {
	if len(text) > maxQuotedBytes {
		return strings.ToValidUTF8(text[:maxQuotedBytes], "") + "…"
	}
	return text
}

// IsRequirement reports whether a property of this type states a requirement.
func IsRequirement(propertyType string) bool {
	return propertyType == fbc.PropertyGVKRequired || propertyType == fbc.PropertyPackageRequired || propertyType == fbc.PropertyConstraint
}

// Parse returns the requirements in the properties of a bundle, without duplicates. It
// returns an error for a requirement that it does not understand, because a requirement
// that is ignored would be violated.
func Parse(properties []fbc.Property) ([]Requirement, error) {
	var requirements []Requirement
	seen := map[string]bool{}
	for _, p := range properties {
		if !IsRequirement(p.Type) {
			continue
		}

		f, err := parseProperty(p)
		if err != nil {
			return nil, fmt.Errorf("property %q: %w", p.Type, err)
		}

		text := f.describe()
		if f.message != "" {
			text += fmt.Sprintf(" (%s)", truncateQuoted(f.message))
		}

		key := p.Type + "\x00" + string(p.Value)
		if seen[key] {
			continue
		}

		seen[key] = true
		if requirements = append(requirements, Requirement{Property: p.Type, formula: f, text: text, key: key}); len(requirements) > maxRequirements {
			return nil, fmt.Errorf("the bundle has more than %d requirements", maxRequirements)
		}
	}

	return requirements, nil
}

func parseProperty(p fbc.Property) (formula, error) {
	if len(p.Value) > MaxConstraintBytes {
		return formula{}, fmt.Errorf("it has %d bytes: at most %d are allowed", len(p.Value), MaxConstraintBytes)
	}

	switch p.Type {
	case fbc.PropertyGVKRequired:
		return parseGVKRequirement(p.Value)
	case fbc.PropertyPackageRequired:
		return parsePackageRequirement(p.Value)
	default:
		return parseConstraint(p.Value, 0)
	}
}

func parseGVKRequirement(raw json.RawMessage) (formula, error) {
	var value bundle.GVKProperty
	if err := json.Unmarshal(raw, &value); err != nil {
		return formula{}, err
	}
	// The core group has no name, and no bundle provides it.
	if value.Version == "" || value.Kind == "" {
		return formula{}, errors.New("an API needs a group, a version and a kind")
	}
	return formula{op: opGVK, gvk: schema.GroupVersionKind{Group: value.Group, Version: value.Version, Kind: value.Kind}}, nil
}

// parsePackageRequirement parses a package name and a version range. The documentation of
// olm.constraint names the field "name", that of olm.package.required "packageName".
// Both are accepted in both.
func parsePackageRequirement(raw json.RawMessage) (formula, error) {
	var value struct{ PackageName, Name, VersionRange string }
	if err := json.Unmarshal(raw, &value); err != nil {
		return formula{}, err
	}

	f := formula{op: opPackage, pkg: value.PackageName, text: value.VersionRange}
	if f.pkg == "" {
		f.pkg = value.Name
	}
	if f.pkg == "" {
		return formula{}, errors.New("packageName is not set")
	}
	if f.text == "" {
		return f, nil
	}

	var err error
	if f.versions, err = semver.ParseRange(f.text); err != nil {
		return formula{}, fmt.Errorf("versionRange %q: %w", truncateQuoted(f.text), err)
	}

	return f, nil
}

// constraintValue is the value of an olm.constraint property, or an element of all, any
// or not.
type constraintValue struct {
	FailureMessage string          `json:"failureMessage"`
	GVK            json.RawMessage `json:"gvk"`
	Package        json.RawMessage `json:"package"`
	CEL            *struct {
		Rule string `json:"rule"`
	} `json:"cel"`
	All *compoundConstraint `json:"all"`
	Any *compoundConstraint `json:"any"`
	Not *compoundConstraint `json:"not"`
}

type compoundConstraint struct {
	Constraints []json.RawMessage `json:"constraints"`
}

func parseConstraint(raw json.RawMessage, depth int) (formula, error) {
	if depth == maxDepth {
		return formula{}, fmt.Errorf("constraints are nested deeper than %d levels", maxDepth)
	}

	var value constraintValue
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields() // An unknown constraint cannot be enforced.
	if err := decoder.Decode(&value); err != nil {
		return formula{}, err
	}

	var kinds []func() (formula, error)
	add := func(given bool, parse func() (formula, error)) {
		if given {
			kinds = append(kinds, parse)
		}
	}
	add(len(value.GVK) > 0, func() (formula, error) { return parseGVKRequirement(value.GVK) })
	add(len(value.Package) > 0, func() (formula, error) { return parsePackageRequirement(value.Package) })
	add(value.CEL != nil, func() (formula, error) { return parseRuleConstraint(value.CEL.Rule) })
	add(value.All != nil, func() (formula, error) { return parseCompoundConstraint(opAll, value.All, depth) })
	add(value.Any != nil, func() (formula, error) { return parseCompoundConstraint(opAny, value.Any, depth) })
	add(value.Not != nil, func() (formula, error) { return parseCompoundConstraint(opNot, value.Not, depth) })
	if len(kinds) != 1 {
		return formula{}, fmt.Errorf("a constraint has one of gvk, package, cel, all, any and not: this one has %d of them", len(kinds))
	}

	f, err := kinds[0]()
	f.message = value.FailureMessage
	return f, err
}

func parseRuleConstraint(text string) (formula, error) {
	compiled, err := compileRule(text)
	if err != nil {
		return formula{}, fmt.Errorf("cel: %w", err)
	}
	return formula{op: opCEL, text: text, rule: compiled}, nil
}

func parseCompoundConstraint(kind operator, c *compoundConstraint, depth int) (formula, error) {
	f := formula{op: kind}
	for i, raw := range c.Constraints {
		part, err := parseConstraint(raw, depth+1)
		if err != nil {
			return formula{}, fmt.Errorf("constraint %d: %w", i, err)
		}
		f.parts = append(f.parts, part)
	}

	if len(f.parts) == 0 {
		return formula{}, errors.New("all, any and not need at least one constraint")
	}
	return f, nil
}
