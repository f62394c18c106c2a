// Package mirror computes the rules for pulling images from the mirrors that a cluster
// declares by ImageDigestMirrorSets, ImageTagMirrorSets and ImageContentSourcePolicies. The
// result is that of OpenShift's machine-config-operator, which writes it to the nodes'
// registries.conf.
//
// It is pure: objects in, rules out. Package pull watches the objects.
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

// Objects are the objects that declare mirrors.
type Objects struct {
	Digests  []configv1.ImageDigestMirrorSet
	Tags     []configv1.ImageTagMirrorSet
	Policies []operatorv1alpha1.ImageContentSourcePolicy
}

// Invalid is an invalid part of an object. The rest of the object is used.
type Invalid struct {
	Kind, Name string
	UID        types.UID
	// Field is the path of the part, such as spec.imageDigestMirrors[2].source.
	Field string
	// Message describes the problem.
	Message string
}

// Error implements error.
func (i Invalid) Error() string {
	return fmt.Sprintf("%s %s: %s: %s", i.Kind, i.Name, i.Field, i.Message)
}

// Rules returns the rules, sorted by source, and the invalid entries.
//
// Objects are processed in the order of their names. ImageContentSourcePolicies come after
// ImageDigestMirrorSets, which replace them. If several entries have the same source, their
// mirrors are merged: the order of mirrors in an entry is kept, unless an earlier entry
// contradicts it. A source is never contacted if any entry for it says so, for tags or for
// digests.
func Rules(objects Objects) ([]image.MirrorRule, []Invalid) {
	b := builder{sources: map[string]*sourceEntries{}}
	for _, set := range sortByName(objects.Digests, func(s configv1.ImageDigestMirrorSet) string { return s.Name }) {
		for i, entry := range set.Spec.ImageDigestMirrors {
			at := entryLocation{configv1.ImageDigestMirrorSetKind, set.ObjectMeta, fmt.Sprintf("spec.imageDigestMirrors[%d]", i)}
			b.addEntry(at, image.DigestOnly, entry.Source, toStrings(entry.Mirrors), entry.MirrorSourcePolicy)
		}
	}

	for _, policy := range sortByName(objects.Policies, func(p operatorv1alpha1.ImageContentSourcePolicy) string { return p.Name }) {
		for i, entry := range policy.Spec.RepositoryDigestMirrors {
			at := entryLocation{operatorv1alpha1.ImageContentSourcePolicyKind, policy.ObjectMeta, fmt.Sprintf("spec.repositoryDigestMirrors[%d]", i)}
			b.addEntry(at, image.DigestOnly, entry.Source, entry.Mirrors, "")
		}
	}

	for _, set := range sortByName(objects.Tags, func(s configv1.ImageTagMirrorSet) string { return s.Name }) {
		for i, entry := range set.Spec.ImageTagMirrors {
			at := entryLocation{configv1.ImageTagMirrorSetKind, set.ObjectMeta, fmt.Sprintf("spec.imageTagMirrors[%d]", i)}
			b.addEntry(at, image.TagOnly, entry.Source, toStrings(entry.Mirrors), entry.MirrorSourcePolicy)
		}
	}

	return b.buildRules(), b.invalid
}

func sortByName[T any](objects []T, name func(T) string) []T {
	return slices.SortedStableFunc(slices.Values(objects), func(a, b T) int { return cmp.Compare(name(a), name(b)) })
}

func toStrings(mirrors []configv1.ImageMirror) []string {
	var list []string
	for _, mirror := range mirrors {
		list = append(list, string(mirror))
	}
	return list
}

// entryLocation is the location of an entry in an object.
type entryLocation struct {
	kind   string
	object metav1.ObjectMeta
	field  string
}

// sourceEntries is the merged content of all entries for one source.
type sourceEntries struct {
	lists   map[image.ReferenceKind][][]string
	blocked bool
}

type builder struct {
	sources map[string]*sourceEntries
	invalid []Invalid
}

func (b *builder) addInvalid(at entryLocation, field, message string) {
	b.invalid = append(b.invalid, Invalid{Kind: at.kind, Name: at.object.Name, UID: at.object.UID, Field: at.field + "." + field, Message: message})
}

// addEntry adds one entry.
func (b *builder) addEntry(at entryLocation, only image.ReferenceKind, name string, mirrors []string, policy configv1.MirrorSourcePolicy) {
	name = strings.TrimRight(name, "/")
	if err := image.CheckSource(name); err != nil {
		b.addInvalid(at, "source", fmt.Sprintf("%q: %v", name, err))
		return
	}

	switch policy {
	case "", configv1.AllowContactingSource, configv1.NeverContactSource:
	default:
		// Contacting a source that must not be contacted would be worse than an error.
		b.addInvalid(at, "mirrorSourcePolicy", fmt.Sprintf("%q is not known; the source is not contacted", policy))
		policy = configv1.NeverContactSource
	}

	var list []string
	for i, mirror := range mirrors {
		mirror = strings.TrimRight(mirror, "/")
		if err := image.CheckLocation(mirror); err != nil {
			b.addInvalid(at, fmt.Sprintf("mirrors[%d]", i), fmt.Sprintf("%q: %v", mirror, err))
			continue
		}
		if !slices.Contains(list, mirror) {
			list = append(list, mirror)
		}
	}

	// An entry without a mirror other than the source itself has no effect, and neither
	// has its policy. But one that forbids the source does so even if its mirrors are invalid.
	forbids := policy == configv1.NeverContactSource && len(mirrors) > 0 && len(list) == 0
	if !forbids && !slices.ContainsFunc(list, func(m string) bool { return m != name }) {
		return
	}

	s := b.sources[name]
	if s == nil {
		s = &sourceEntries{lists: map[image.ReferenceKind][][]string{}}
		b.sources[name] = s
	}

	s.lists[only] = append(s.lists[only], list)
	s.blocked = s.blocked || policy == configv1.NeverContactSource
}

func (b *builder) buildRules() []image.MirrorRule {
	var rules []image.MirrorRule
	for _, name := range slices.Sorted(maps.Keys(b.sources)) {
		s := b.sources[name]
		rule := image.MirrorRule{Source: name, Blocked: s.blocked}
		for _, only := range []image.ReferenceKind{image.DigestOnly, image.TagOnly} {
			for _, mirror := range mergeMirrors(name, s.lists[only]) {
				rule.Mirrors = append(rule.Mirrors, image.Mirror{Location: mirror, Only: only})
			}
		}
		rules = append(rules, rule)
	}

	return rules
}

// mergeMirrors merges lists of mirrors. The source comes last unless a list says otherwise. Then
// it is left out, because it is contacted last anyway.
func mergeMirrors(source string, lists [][]string) []string {
	var g graph
	for _, list := range lists {
		for i, mirror := range list {
			g.add(mirror)
			if i > 0 {
				g.addOrder(list[i-1], mirror)
			}
		}
	}

	for _, list := range lists {
		if len(list) > 0 && !slices.Contains(list, source) {
			g.add(source)
			g.addOrder(list[len(list)-1], source)
		}
	}

	order := g.topologicalOrder()
	if len(order) > 0 && order[len(order)-1] == source {
		order = order[:len(order)-1]
	}

	return order
}
