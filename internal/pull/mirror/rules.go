// Package mirror turns the mirrors that a cluster declares, by ImageDigestMirrorSets,
// ImageTagMirrorSets and ImageContentSourcePolicies, into the rules that images are pulled
// by. The outcome is that of the field's machine-config-operator, which writes the same
// into the nodes' registries.conf.
//
// It is pure: it reads objects and gives rules. Watching the objects is the work of package
// pull.
package mirror

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	operatorv1alpha1 "github.com/mainstay-dev/mainstay/api/operator/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/image"
)

// Objects are the mirrors that a cluster declares.
type Objects struct {
	Digests  []configv1.ImageDigestMirrorSet
	Tags     []configv1.ImageTagMirrorSet
	Policies []operatorv1alpha1.ImageContentSourcePolicy
}

// Invalid is a part of an object that means nothing. The rest of the object counts.
type Invalid struct {
	Kind, Name string
	UID        types.UID
	// Field is the part, such as spec.imageDigestMirrors[2].source.
	Field string
	// Message says what is wrong with it.
	Message string
}

// Error implements error.
func (i Invalid) Error() string {
	return fmt.Sprintf("%s %s: %s: %s", i.Kind, i.Name, i.Field, i.Message)
}

// Rules returns the rules, by source, and what is left out of them.
//
// Objects count in the order of their names, ImageContentSourcePolicies after
// ImageDigestMirrorSets, which they are the older form of. The mirrors of a source that
// several entries name are merged: an order that any entry asks for is kept, as long as no
// entry before it asks for the opposite. A source is never contacted itself if one entry
// for it says so, be it for tags or for digests.
func Rules(objects Objects) ([]image.MirrorRule, []Invalid) {
	b := builder{sources: map[string]*source{}}
	for _, set := range byName(objects.Digests, func(s configv1.ImageDigestMirrorSet) string { return s.Name }) {
		for i, entry := range set.Spec.ImageDigestMirrors {
			at := place{configv1.ImageDigestMirrorSetKind, set.ObjectMeta, fmt.Sprintf("spec.imageDigestMirrors[%d]", i)}
			b.add(at, image.DigestOnly, entry.Source, texts(entry.Mirrors), entry.MirrorSourcePolicy)
		}
	}

	for _, policy := range byName(objects.Policies, func(p operatorv1alpha1.ImageContentSourcePolicy) string { return p.Name }) {
		for i, entry := range policy.Spec.RepositoryDigestMirrors {
			at := place{operatorv1alpha1.ImageContentSourcePolicyKind, policy.ObjectMeta, fmt.Sprintf("spec.repositoryDigestMirrors[%d]", i)}
			b.add(at, image.DigestOnly, entry.Source, entry.Mirrors, "")
		}
	}

	for _, set := range byName(objects.Tags, func(s configv1.ImageTagMirrorSet) string { return s.Name }) {
		for i, entry := range set.Spec.ImageTagMirrors {
			at := place{configv1.ImageTagMirrorSetKind, set.ObjectMeta, fmt.Sprintf("spec.imageTagMirrors[%d]", i)}
			b.add(at, image.TagOnly, entry.Source, texts(entry.Mirrors), entry.MirrorSourcePolicy)
		}
	}

	return b.rules(), b.invalid
}

func byName[T any](objects []T, name func(T) string) []T {
	return slices.SortedStableFunc(slices.Values(objects), func(a, b T) int { return cmp.Compare(name(a), name(b)) })
}

func texts(mirrors []configv1.ImageMirror) []string {
	var list []string
	for _, mirror := range mirrors {
		list = append(list, string(mirror))
	}
	return list
}

// place is an entry of an object.
type place struct {
	kind   string
	object metav1.ObjectMeta
	field  string
}

// source is what all entries say about one source.
type source struct {
	lists   map[image.ReferenceKind][][]string
	blocked bool
}

type builder struct {
	sources map[string]*source
	invalid []Invalid
}

func (b *builder) refuse(at place, field, message string) {
	b.invalid = append(b.invalid, Invalid{Kind: at.kind, Name: at.object.Name, UID: at.object.UID, Field: at.field + "." + field, Message: message})
}

// add takes in one entry.
func (b *builder) add(at place, only image.ReferenceKind, name string, mirrors []string, policy configv1.MirrorSourcePolicy) {
	name = strings.TrimRight(name, "/")
	if err := image.CheckSource(name); err != nil {
		b.refuse(at, "source", fmt.Sprintf("%q: %v", name, err))
		return
	}

	switch policy {
	case "", configv1.AllowContactingSource, configv1.NeverContactSource:
	default:
		// Contacting a source that must not be contacted would be worse than an error.
		b.refuse(at, "mirrorSourcePolicy", fmt.Sprintf("%q is not known; the source is not contacted", policy))
		policy = configv1.NeverContactSource
	}

	var list []string
	for i, mirror := range mirrors {
		mirror = strings.TrimRight(mirror, "/")
		if err := image.CheckLocation(mirror); err != nil {
			b.refuse(at, fmt.Sprintf("mirrors[%d]", i), fmt.Sprintf("%q: %v", mirror, err))
			continue
		}
		if !slices.Contains(list, mirror) {
			list = append(list, mirror)
		}
	}

	// An entry without a mirror that is not the source itself says nothing, its policy
	// neither. But one that forbids the source does so whatever its mirrors look like.
	forbids := policy == configv1.NeverContactSource && len(mirrors) > 0 && len(list) == 0
	if !forbids && !slices.ContainsFunc(list, func(m string) bool { return m != name }) {
		return
	}

	s := b.sources[name]
	if s == nil {
		s = &source{lists: map[image.ReferenceKind][][]string{}}
		b.sources[name] = s
	}

	s.lists[only] = append(s.lists[only], list)
	s.blocked = s.blocked || policy == configv1.NeverContactSource
}

func (b *builder) rules() []image.MirrorRule {
	var rules []image.MirrorRule
	for _, name := range slices.Sorted(maps.Keys(b.sources)) {
		s := b.sources[name]
		rule := image.MirrorRule{Source: name, Blocked: s.blocked}
		for _, only := range []image.ReferenceKind{image.DigestOnly, image.TagOnly} {
			for _, mirror := range merge(name, s.lists[only]) {
				rule.Mirrors = append(rule.Mirrors, image.Mirror{Location: mirror, Only: only})
			}
		}
		rules = append(rules, rule)
	}

	return rules
}

// merge puts lists of mirrors together. The source comes last where no list says
// otherwise, and is then left out, for it is asked last anyhow.
func merge(source string, lists [][]string) []string {
	var g graph
	for _, list := range lists {
		for i, mirror := range list {
			g.add(mirror)
			if i > 0 {
				g.before(list[i-1], mirror)
			}
		}
	}

	for _, list := range lists {
		if len(list) > 0 && !slices.Contains(list, source) {
			g.add(source)
			g.before(list[len(list)-1], source)
		}
	}

	order := g.sorted()
	if len(order) > 0 && order[len(order)-1] == source {
		order = order[:len(order)-1]
	}

	return order
}
