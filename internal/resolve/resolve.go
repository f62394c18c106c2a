// Package resolve chooses the bundle of an extension from the catalogs that offer its
// package. It considers the version range, the channels, the catalog's upgrade edges,
// deprecations and the priority of catalogs. When it cannot choose, its error explains
// why and hints at what would help.
//
// The package is pure: the caller reads the catalogs and writes the conditions. It
// resolves a single package; package dependency below it resolves dependencies between
// bundles.
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

// Request states which bundle to resolve.
type Request struct {
	// Package is the name of the package.
	Package string
	// Version is a version or a range as ParseConstraint reads it. Empty matches every
	// version, including pre-releases.
	Version string
	// Channels limits the choice to bundles of these channels, and the updates to the
	// edges of these channels. Empty means all channels, and bundles in no channel.
	Channels []string
	// Policy SelfCertified permits every bundle. Any other value permits only the
	// installed bundle and its successors.
	Policy olmv1.UpgradeConstraintPolicy
	// Installed is the installed bundle; nil when nothing is installed.
	Installed *Installed
	// RunsOn reports whether the cluster satisfies a bundle's minKubeVersion, if the
	// catalog states one. It is called for few bundles. Nil means that every bundle runs.
	RunsOn func(minKubeVersion string) bool
}

// Installed is an installed bundle. It need not be in any catalog.
type Installed struct {
	Name string
	// Version of the bundle. If it is not a semantic version, no skipRange contains it.
	Version string
	// Release of the bundle; empty when the bundle has only a version.
	Release string
}

// Catalog is a catalog to choose from.
type Catalog struct {
	Name string
	// Priority decides between catalogs: the higher wins.
	Priority int32
	// Content is the catalog's content for the requested package; nil when it has none.
	Content *fbc.Content
}

// Result is the bundle that was chosen.
type Result struct {
	Bundle  fbc.Bundle
	Version semver.Version
	// Release of the bundle; empty when the bundle has only a version.
	Release string
	// Catalog is the name of the catalog that offers the bundle.
	Catalog string
	// Channels are the requested channels that contain the bundle, sorted.
	Channels []string
	// Edges lead from the installed bundle to this one. Empty when the policy ignores
	// edges, or when the bundle is the installed one.
	Edges []upgradegraph.Edge
	// Deprecations of the package in that catalog, in the form that
	// DeprecationConditions takes. Nil when there are none.
	Deprecations *fbc.Deprecations
	// Warnings are faults of the catalogs that were skipped: bundles without a valid
	// version, and edges that cannot be parsed.
	Warnings []string
}

// Resolve returns the bundle that the request selects from the catalogs.
//
// The candidates of a catalog are its bundles in the requested channels and version
// range. If a bundle is installed and the policy is not SelfCertified, a candidate must
// also be the installed bundle or one of its successors that is not older. A user has
// to force a downgrade.
//
// The best candidate of a catalog runs on the cluster, is not deprecated, and has the
// highest version and then the highest release, in this order. Catalogs are compared by
// their best candidates: one that runs beats one that does not, then one that is not
// deprecated beats one that is. Then the highest priority wins.
//
// A fault in a catalog affects nothing else: a bundle without a valid version is no
// candidate, and an invalid skipRange makes no edge.
//
// The errors are *InvalidVersionError, *NotFoundError and *AmbiguousError; Hints returns
// advice for each of them.
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

	switch offers := selectPreferredSurveys(surveys); len(offers) {
	case 0:
		return nil, &NotFoundError{Query: newErrorQuery(req), Hint: notFoundHint(req, constraint, surveys)}
	case 1:
		return newResult(req, offers[0], surveys), nil
	default:
		return nil, newAmbiguousError(req, offers)
	}
}

// selectPreferredSurveys returns the surveys with the best candidates: those that run on the
// cluster, then those that are not deprecated, then those of the highest priority.
// Several results are equally good.
func selectPreferredSurveys(surveys []*survey) []*survey {
	offers := slices.Clone(surveys)
	offers = slices.DeleteFunc(offers, func(s *survey) bool { return s.best == nil })
	if slices.ContainsFunc(offers, func(s *survey) bool { return !s.best.incompatible }) {
		offers = slices.DeleteFunc(offers, func(s *survey) bool { return s.best.incompatible })
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
		Channels:     channelsWithBundle(selectChannels(chosen.catalog.Content.Channels, req.Channels), chosen.best.bundle.Name),
		Deprecations: chosen.catalog.Content.Deprecations,
	}

	if chosen.graph != nil {
		for _, edge := range chosen.graph.Successors(readInstalled(req.Installed).graphNode()) {
			if edge.To == r.Bundle.Name {
				r.Edges = append(r.Edges, edge)
			}
		}
	}

	for _, s := range surveys {
		r.Warnings = append(r.Warnings, s.listCatalogFaults()...)
	}
	return r
}

// survey holds the best bundle of one catalog, and the reasons against its other bundles.
type survey struct {
	catalog Catalog
	// hasPackage is true when the catalog has the package.
	hasPackage bool
	// candidates are all bundles of the package with a valid version.
	candidates []candidate
	// invalid has a message for each bundle without a valid version.
	invalid []string
	// graph holds the upgrade edges to follow; nil when edges do not limit the choice.
	graph *upgradegraph.Graph
	// best is the best candidate of the catalog; nil when there is none.
	best *candidate
}

// newSurvey evaluates the bundles of one catalog against the request.
func newSurvey(req Request, constraint Constraint, c Catalog) *survey {
	s := &survey{catalog: c}
	if c.Content == nil {
		return s
	}

	s.hasPackage = c.Content.Package != nil || len(c.Content.Bundles) > 0
	s.readBundles()
	channels := selectChannels(c.Content.Channels, req.Channels)
	s.markChannelMembers(channels, len(req.Channels) == 0)
	installed := readInstalled(req.Installed)
	s.markPermittedCandidates(req, installed, channels)
	for i := range s.candidates {
		candidate := &s.candidates[i]
		candidate.matches = constraint.Matches(candidate.version)
	}

	s.selectBestCandidate(req, installed)
	return s
}

// selectBestCandidate sets best to the first candidate, in order of preference, that runs on the
// cluster. If none runs, best is the first candidate of all, so that its error can be reported.
func (s *survey) selectBestCandidate(req Request, installed installedBundle) {
	var left []*candidate
	for i := range s.candidates {
		if c := &s.candidates[i]; c.inChannels && c.matches && c.permitted {
			left = append(left, c)
		}
	}

	slices.SortFunc(left, func(a, b *candidate) int {
		switch {
		case installed.prefersCandidate(a, b):
			return -1
		case installed.prefersCandidate(b, a):
			return 1
		default:
			return 0
		}
	})

	for _, c := range left {
		if c.incompatible = !c.isCompatible(req.RunsOn); !c.incompatible {
			s.best = c
			return
		}
	}

	if len(left) > 0 {
		s.best = left[0]
	}
}

// readBundles sets candidates and invalid, and marks the deprecated candidates.
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
		c, err := newCandidate(&content.Bundles[i])
		if err != nil {
			s.invalid = append(s.invalid, err.Error()+"; the bundle is left out")
			continue
		}
		c.deprecated = deprecated[c.bundle.Name]
		s.candidates = append(s.candidates, c)
	}
}

// markChannelMembers sets inChannels on the candidates that are in the channels, or on
// every candidate when all is true.
func (s *survey) markChannelMembers(channels []fbc.Channel, all bool) {
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

// markPermittedCandidates sets permitted on the candidates that the upgrade policy allows. It
// builds the graph when upgrade edges limit the choice.
func (s *survey) markPermittedCandidates(req Request, installed installedBundle, channels []fbc.Channel) {
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
		for _, edge := range s.graph.Successors(installed.graphNode()) {
			successors[edge.To] = true
		}
	}

	for i := range s.candidates {
		c := &s.candidates[i]
		c.permitted = free || installed.isSameBundle(c) || (successors[c.bundle.Name] && !installed.isNewerThan(c))
	}
}

// listCatalogFaults returns the mistakes in the catalog, one sentence each, at most maxListed.
func (s *survey) listCatalogFaults() []string {
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

// selectChannels returns the channels with one of the names, or all channels when names
// is empty.
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

// channelsWithBundle returns the sorted names of the channels that contain the bundle.
func channelsWithBundle(channels []fbc.Channel, bundle string) []string {
	var names []string
	for _, ch := range channels {
		if slices.ContainsFunc(ch.Entries, func(e fbc.ChannelEntry) bool { return e.Name == bundle }) {
			names = append(names, ch.Name)
		}
	}

	slices.Sort(names)
	return slices.Compact(names)
}
