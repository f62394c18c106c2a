// Package resolve chooses the bundle that an extension wants from the catalogs that
// offer its package: by version range, channels, the catalog's upgrade edges,
// deprecations and the priority of catalogs. When it cannot choose it says why, and
// what would help.
//
// It is pure: the caller reads the catalogs and writes the conditions. It chooses one
// package's bundle; what bundles need of each other is the job of the package dependency
// below it.
package resolve

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/upgradegraph"
)

// Request is what is wanted.
type Request struct {
	// Package is the name of the package.
	Package string
	// Version is a version or a range as ParseConstraint reads it. Empty means every
	// version, pre-releases too.
	Version string
	// Channels limits the choice to bundles of these channels, and the updates to the
	// edges of these channels. Empty means all channels, and bundles of none.
	Channels []string
	// Policy SelfCertified lets every bundle be chosen; with any other value only the
	// installed bundle and its successors are.
	Policy olmv1.UpgradeConstraintPolicy
	// Installed is what is installed now; nil when nothing is.
	Installed *Installed
	// RunsOn reports whether the cluster is as new as a bundle's minKubeVersion asks, as far as
	// the catalog says that. It is asked of few bundles. Nil means that every bundle runs.
	RunsOn func(minKubeVersion string) bool
}

// Installed is an installed bundle. No catalog need have it.
type Installed struct {
	Name string
	// Version of the bundle. One that is not a semantic version lies in no skipRange.
	Version string
	// Release of the bundle; empty for a bundle that has none beside its version.
	Release string
}

// Catalog is a catalog to choose from.
type Catalog struct {
	Name string
	// Priority decides between catalogs: the higher wins.
	Priority int32
	// Content is what the catalog says of the wanted package. Nil means nothing.
	Content *fbc.Content
}

// Result is the bundle that was chosen.
type Result struct {
	Bundle  fbc.Bundle
	Version semver.Version
	// Release of the bundle; empty for a bundle that has none beside its version.
	Release string
	// Catalog is the name of the catalog that the bundle was chosen from.
	Catalog string
	// Channels that hold the bundle, of those asked for; sorted.
	Channels []string
	// Edges lead from the installed bundle to this one. None when no edge binds, and when
	// it is the installed one itself.
	Edges []upgradegraph.Edge
	// Deprecations of the package in that catalog, as DeprecationConditions wants them.
	// Nil when there are none.
	Deprecations *fbc.Deprecations
	// Warnings are faults of the catalogs that were stepped over: bundles without a
	// valid version, and edges that cannot be read.
	Warnings []string
}

// Resolve chooses a bundle.
//
// In each catalog the candidates are the bundles of the channels and the version
// range that are asked for. When something is installed and the policy is not
// SelfCertified they must also be the installed bundle itself or one of its successors
// that is not older: going back is for the user to force. Of the candidates a
// catalog's best is the one that runs on the cluster, then the one that is not deprecated,
// then the one with the highest version, then with the highest release. Catalogs whose best
// does not run drop out when another's does, then those whose best is deprecated when
// another's is not; then those of lower priority drop out.
//
// A catalog's faults stop nobody else: a bundle without a valid version is no
// candidate, and an invalid skipRange makes no edge.
//
// The errors are *InvalidVersionError, *NotFoundError and *AmbiguousError; Hints tells
// what would help.
func Resolve(req Request, catalogs []Catalog) (*Result, error) {
	constraint, err := ParseConstraint(req.Version)
	if err != nil {
		return nil, err
	}

	surveys := make([]*survey, 0, len(catalogs))
	for _, c := range catalogs {
		surveys = append(surveys, newSurvey(req, constraint, c))
	}

	slices.SortStableFunc(surveys, func(a, b *survey) int { return strings.Compare(a.catalog.Name, b.catalog.Name) })

	switch offers := preferred(surveys); len(offers) {
	case 0:
		return nil, &NotFoundError{Query: newQuery(req), Hint: notFoundHint(req, constraint, surveys)}
	case 1:
		return newResult(req, offers[0], surveys), nil
	default:
		return nil, newAmbiguousError(req, offers)
	}
}

// preferred reduces the catalogs that offer something, first by deprecation and then
// by priority. Several that are left are equally good.
func preferred(surveys []*survey) []*survey {
	offers := slices.Clone(surveys)
	offers = slices.DeleteFunc(offers, func(s *survey) bool { return s.best == nil })
	if slices.ContainsFunc(offers, func(s *survey) bool { return !s.best.unsuited }) {
		offers = slices.DeleteFunc(offers, func(s *survey) bool { return s.best.unsuited })
	}
	if slices.ContainsFunc(offers, func(s *survey) bool { return !s.best.deprecated }) {
		offers = slices.DeleteFunc(offers, func(s *survey) bool { return s.best.deprecated })
	}
	if len(offers) == 0 {
		return nil
	}

	top := slices.MaxFunc(offers, func(a, b *survey) int { return cmp.Compare(a.catalog.Priority, b.catalog.Priority) })
	return slices.DeleteFunc(offers, func(s *survey) bool { return s.catalog.Priority < top.catalog.Priority })
}

func newResult(req Request, chosen *survey, surveys []*survey) *Result {
	r := &Result{
		Bundle:       *chosen.best.bundle,
		Version:      chosen.best.version,
		Release:      chosen.best.release,
		Catalog:      chosen.catalog.Name,
		Channels:     channelsOf(selectChannels(chosen.catalog.Content.Channels, req.Channels), chosen.best.bundle.Name),
		Deprecations: chosen.catalog.Content.Deprecations,
	}

	if chosen.graph != nil {
		for _, edge := range chosen.graph.Successors(readInstalled(req.Installed).node()) {
			if edge.To == r.Bundle.Name {
				r.Edges = append(r.Edges, edge)
			}
		}
	}

	for _, s := range surveys {
		r.Warnings = append(r.Warnings, s.faults()...)
	}
	return r
}

// survey is what one catalog has to offer, and what stood in the way of the rest.
type survey struct {
	catalog Catalog
	// known: the catalog has the package.
	known bool
	// candidates are all bundles of the package with a valid version.
	candidates []candidate
	// invalid says of each other bundle why it is none.
	invalid []string
	// graph holds the edges that bind; nil when none do.
	graph *upgradegraph.Graph
	// best is the bundle that the catalog offers; nil when there is none.
	best *candidate
}

// newSurvey looks at one catalog.
func newSurvey(req Request, constraint Constraint, c Catalog) *survey {
	s := &survey{catalog: c}
	if c.Content == nil {
		return s
	}

	s.known = c.Content.Package != nil || len(c.Content.Bundles) > 0
	s.readBundles()
	channels := selectChannels(c.Content.Channels, req.Channels)
	s.checkChannels(channels, len(req.Channels) == 0)
	installed := readInstalled(req.Installed)
	s.checkEdges(req, installed, channels)
	for i := range s.candidates {
		candidate := &s.candidates[i]
		candidate.matches = constraint.Matches(candidate.version)
	}

	s.choose(req, installed)
	return s
}

// choose finds the best of the candidates. From the one that would be it but for the
// cluster it goes down until one runs there; where none does it is that one, which says why.
func (s *survey) choose(req Request, installed installedBundle) {
	var left []*candidate
	for i := range s.candidates {
		if c := &s.candidates[i]; c.inChannels && c.matches && c.permitted {
			left = append(left, c)
		}
	}

	slices.SortFunc(left, func(a, b *candidate) int {
		switch {
		case installed.prefers(a, b):
			return -1
		case installed.prefers(b, a):
			return 1
		default:
			return 0
		}
	})

	for _, c := range left {
		if c.unsuited = !c.runs(req.RunsOn); !c.unsuited {
			s.best = c
			return
		}
	}

	if len(left) > 0 {
		s.best = left[0]
	}
}

// readBundles finds the bundles that have a valid version, and which are deprecated.
func (s *survey) readBundles() {
	content := s.catalog.Content
	deprecated := map[string]bool{}
	if content.Deprecations != nil {
		for _, e := range content.Deprecations.Entries {
			if e.Reference.Schema == fbc.SchemaBundle {
				deprecated[e.Reference.Name] = true
			}
		}
	}

	s.candidates = make([]candidate, 0, len(content.Bundles))
	for i := range content.Bundles {
		c, err := readBundle(&content.Bundles[i])
		if err != nil {
			s.invalid = append(s.invalid, err.Error()+"; the bundle is left out")
			continue
		}
		c.deprecated = deprecated[c.bundle.Name]
		s.candidates = append(s.candidates, c)
	}
}

// checkChannels marks the candidates that are in the channels; all of them when any
// bundle will do.
func (s *survey) checkChannels(channels []fbc.Channel, all bool) {
	members := map[string]bool{}
	if !all {
		for _, ch := range channels {
			for _, entry := range ch.Entries {
				members[entry.Name] = true
			}
		}
	}

	for i := range s.candidates {
		s.candidates[i].inChannels = all || members[s.candidates[i].bundle.Name]
	}
}

// checkEdges marks the candidates that may follow the installed bundle.
func (s *survey) checkEdges(req Request, installed installedBundle, channels []fbc.Channel) {
	free := req.Installed == nil || req.Policy == olmv1.UpgradeConstraintPolicySelfCertified
	successors := map[string]bool{}
	if !free {
		versions := make(map[string]semver.Version, len(s.candidates))
		for _, c := range s.candidates {
			versions[c.bundle.Name] = c.version
		}
		s.graph = upgradegraph.New(req.Package, channels, func(bundle string) (semver.Version, bool) {
			v, ok := versions[bundle]
			return v, ok
		})
		for _, edge := range s.graph.Successors(installed.node()) {
			successors[edge.To] = true
		}
	}

	for i := range s.candidates {
		c := &s.candidates[i]
		c.permitted = free || installed.is(c) || (successors[c.bundle.Name] && !installed.isNewerThan(c))
	}
}

// faults are the catalog's own mistakes, one sentence each; of many the first ones.
func (s *survey) faults() []string {
	faults := slices.Clone(s.invalid)
	if s.graph != nil {
		for _, err := range s.graph.Problems() {
			faults = append(faults, err.Error()+"; the edge is left out")
		}
	}

	if more := len(faults) - maxListed; more > 0 {
		faults = append(faults[:maxListed], fmt.Sprintf("%d more such faults", more))
	}

	for i, fault := range faults {
		faults[i] = fmt.Sprintf("catalog %q: %s", s.catalog.Name, fault)
	}

	return faults
}

// selectChannels are the channels with one of the names; all when no name is given.
func selectChannels(channels []fbc.Channel, names []string) []fbc.Channel {
	if len(names) == 0 {
		return channels
	}

	var selected []fbc.Channel
	for _, ch := range channels {
		if slices.Contains(names, ch.Name) {
			selected = append(selected, ch)
		}
	}
	return selected
}

// channelsOf are the sorted names of the channels that hold a bundle.
func channelsOf(channels []fbc.Channel, bundle string) []string {
	var names []string
	for _, ch := range channels {
		if slices.ContainsFunc(ch.Entries, func(e fbc.ChannelEntry) bool { return e.Name == bundle }) {
			names = append(names, ch.Name)
		}
	}

	slices.Sort(names)
	return slices.Compact(names)
}
