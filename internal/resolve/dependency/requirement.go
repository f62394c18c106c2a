// Package dependency is about what bundles need of each other: it reads the requirements
// of a bundle, tells which of them a cluster does not meet and what would, chooses the
// bundles to install for them, explains why that cannot be done, and tells whom a change
// of an installed bundle would break.
//
// It is pure: the caller says what is installed, what the API server serves and what
// catalogs offer. Choosing the bundle of a package that was asked for is the job of
// package resolve above it.
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
	// MaxConstraintBytes is the longest olm.constraint that is read, as the format of
	// bundles says.
	MaxConstraintBytes = 64 << 10
	// maxDepth bounds how deep constraints are nested. Those of people have two levels.
	maxDepth = 16
	// maxRequirements bounds the requirements of one bundle.
	maxRequirements = 256
	// maxQuoted is how much of a rule or a range a sentence repeats, in bytes.
	maxQuoted = 120
)

// Requirement is one thing that a bundle needs. All of a bundle's requirements must be
// met; each may be met by another bundle.
type Requirement struct {
	// Property is the type of the property that states it.
	Property string

	formula formula
	text    string
	key     string
}

// Key is the same for requirements that say the same.
func (r Requirement) Key() string { return r.key }

// Packages are the packages that the requirement names as what would meet it.
func (r Requirement) Packages() []string {
	var names []string
	r.formula.leaves(func(leaf *formula, negated bool) {
		if leaf.op == opPackage && !negated {
			names = append(names, leaf.pkg)
		}
	})
	return names
}

// Anywhere reports whether packages that the requirement does not name may meet it.
func (r Requirement) Anywhere() bool {
	anywhere := false
	r.formula.leaves(func(leaf *formula, negated bool) { anywhere = anywhere || leaf.op != opPackage && !negated })
	return anywhere
}

// Range is the range of versions in which the requirement wants a package; empty when it
// does not say.
func (r Requirement) Range(pkg string) string {
	text := ""
	r.formula.leaves(func(leaf *formula, negated bool) {
		if leaf.op == opPackage && leaf.pkg == pkg && !negated && text == "" {
			text = leaf.text
		}
	})
	return text
}

// MetBy reports whether one bundle meets every part of the requirement by itself.
func (r Requirement) MetBy(b *Bundle) bool {
	return r.formula.holds(func(leaf *formula, _ bool) bool { return b.meets(leaf) })
}

// String says what is needed, in words that follow "needs".
func (r Requirement) String() string { return r.text }

type op int

const (
	opGVK op = iota
	opPackage
	opCEL
	opAll
	opAny
	// opNot: none of the parts.
	opNot
)

// formula is a requirement, or a part of one. Each leaf is met by one bundle of those
// that are together on the cluster; different leaves may be met by different bundles.
type formula struct {
	op       op
	message  string
	gvk      schema.GroupVersionKind
	pkg      string
	text     string // the range or the rule
	versions semver.Range
	rule     *rule
	parts    []formula
}

// leaves visits the parts that are not made of parts, and tells which of them must not
// be there.
func (f *formula) leaves(visit func(leaf *formula, negated bool)) { f.walk(visit, false) }

func (f *formula) walk(visit func(*formula, bool), negated bool) {
	if f.op < opAll {
		visit(f, negated)
	}
	for i := range f.parts {
		f.parts[i].walk(visit, negated != (f.op == opNot))
	}
}

// forbids reports whether something that is added can make the formula false.
func (f *formula) forbids() bool {
	for i := range f.parts {
		if f.op == opNot || f.parts[i].forbids() {
			return true
		}
	}
	return false
}

// holds evaluates the formula. The function tells whether a leaf is met; what must not
// be there is asked for as negated.
func (f *formula) holds(met func(leaf *formula, negated bool) bool) bool { return f.eval(met, false) }

func (f *formula) eval(met func(*formula, bool) bool, negated bool) bool {
	switch f.op {
	case opAll:
		for i := range f.parts {
			if !f.parts[i].eval(met, negated) {
				return false
			}
		}
		return true
	case opAny:
		for i := range f.parts {
			if f.parts[i].eval(met, negated) {
				return true
			}
		}
		return false
	case opNot:
		for i := range f.parts {
			if f.parts[i].eval(met, !negated) {
				return false
			}
		}
		return true
	default:
		return met(f, negated)
	}
}

// describe puts the formula into words.
func (f *formula) describe() string {
	switch f.op {
	case opGVK:
		return "the API " + gvkText(f.gvk)
	case opPackage:
		if f.text == "" {
			return fmt.Sprintf("package %q", f.pkg)
		}
		return fmt.Sprintf("package %q in version %q", f.pkg, short(f.text))
	case opCEL:
		return fmt.Sprintf("a bundle for which the rule %q holds", short(f.text))
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
	return list(words)
}

func gvkText(gvk schema.GroupVersionKind) string {
	return fmt.Sprintf("%s of %s", gvk.Kind, gvk.GroupVersion())
}

func short(text string) string {
	if len(text) > maxQuoted {
		return strings.ToValidUTF8(text[:maxQuoted], "") + "…"
	}
	return text
}

// IsRequirement reports whether a property of this type states a requirement.
func IsRequirement(propertyType string) bool {
	return propertyType == fbc.PropertyGVKRequired || propertyType == fbc.PropertyPackageRequired || propertyType == fbc.PropertyConstraint
}

// Parse reads the requirements among the properties of a bundle, each once. It refuses
// what it cannot understand: a requirement that is passed over is one that is broken.
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
			text += fmt.Sprintf(" (%s)", short(f.message))
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
		return parseGVK(p.Value)
	case fbc.PropertyPackageRequired:
		return parsePackage(p.Value)
	default:
		return parseConstraint(p.Value, 0)
	}
}

func parseGVK(raw json.RawMessage) (formula, error) {
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

// parsePackage reads a package and a range of versions. The documents of olm.constraint
// call the package name, those of olm.package.required packageName; both are read in both.
func parsePackage(raw json.RawMessage) (formula, error) {
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
		return formula{}, fmt.Errorf("versionRange %q: %w", short(f.text), err)
	}

	return f, nil
}

// constraintValue is the value of an olm.constraint property, and a part of all, any and not.
type constraintValue struct {
	FailureMessage string          `json:"failureMessage"`
	GVK            json.RawMessage `json:"gvk"`
	Package        json.RawMessage `json:"package"`
	CEL            *struct {
		Rule string `json:"rule"`
	} `json:"cel"`
	All *compound `json:"all"`
	Any *compound `json:"any"`
	Not *compound `json:"not"`
}

type compound struct {
	Constraints []json.RawMessage `json:"constraints"`
}

func parseConstraint(raw json.RawMessage, depth int) (formula, error) {
	if depth == maxDepth {
		return formula{}, fmt.Errorf("constraints are nested deeper than %d levels", maxDepth)
	}

	var value constraintValue
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields() // what is not known cannot be kept
	if err := decoder.Decode(&value); err != nil {
		return formula{}, err
	}

	var kinds []func() (formula, error)
	add := func(given bool, parse func() (formula, error)) {
		if given {
			kinds = append(kinds, parse)
		}
	}
	add(len(value.GVK) > 0, func() (formula, error) { return parseGVK(value.GVK) })
	add(len(value.Package) > 0, func() (formula, error) { return parsePackage(value.Package) })
	add(value.CEL != nil, func() (formula, error) { return parseRule(value.CEL.Rule) })
	add(value.All != nil, func() (formula, error) { return parseParts(opAll, value.All, depth) })
	add(value.Any != nil, func() (formula, error) { return parseParts(opAny, value.Any, depth) })
	add(value.Not != nil, func() (formula, error) { return parseParts(opNot, value.Not, depth) })
	if len(kinds) != 1 {
		return formula{}, fmt.Errorf("a constraint has one of gvk, package, cel, all, any and not: this one has %d of them", len(kinds))
	}

	f, err := kinds[0]()
	f.message = value.FailureMessage
	return f, err
}

func parseRule(text string) (formula, error) {
	compiled, err := compile(text)
	if err != nil {
		return formula{}, fmt.Errorf("cel: %w", err)
	}
	return formula{op: opCEL, text: text, rule: compiled}, nil
}

func parseParts(kind op, c *compound, depth int) (formula, error) {
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
