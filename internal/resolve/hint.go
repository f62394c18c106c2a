package resolve

import (
	"fmt"
	"slices"
	"strings"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/excerpt"
)

// maxListed limits the lists in a hint: enough to recognise a pattern, short enough to
// read on a terminal.
const maxListed = 10

// maxPathSearchBundles limits the size of packages in which a hint searches an upgrade
// path of several steps. In a package of n bundles the search evaluates up to n×n
// skipRanges: here a million, or some 50 ms.
const maxPathSearchBundles = 1000

// notFoundHint states for each catalog which part of the request excludes all bundles,
// and which bundles the catalog has instead.
func notFoundHint(req Request, constraint Constraint, surveys []*survey) []string {
	if len(surveys) == 0 {
		return []string{"no catalog was looked at: none is available, or none has the labels that the selector asks for"}
	}

	var hint, names []string
	var known bool
	for _, s := range surveys {
		names = append(names, s.catalog.Name)
		known = known || s.hasPackage
	}

	if !known {
		return []string{fmt.Sprintf("package %q is in none of the catalogs that were looked at: %s", req.Package, joinLimited(names))}
	}

	for _, s := range surveys {
		if s.hasPackage {
			hint = append(hint, s.explainNoOffer(req, constraint)...)
			hint = append(hint, s.listCatalogFaults()...)
		}
	}

	return hint
}

// explainNoOffer states why a catalog that has the package offers no bundle.
func (s *survey) explainNoOffer(req Request, constraint Constraint) []string {
	where := fmt.Sprintf("catalog %q", s.catalog.Name)
	inChannels := s.versionsOf(func(c *candidate) bool { return c.inChannels })
	if len(inChannels) == 0 {
		if len(req.Channels) == 0 {
			return []string{where + " has the package, but no bundle of it with a valid version"}
		}
		return s.listOtherChannels(where)
	}

	matching := s.versionsOf(func(c *candidate) bool { return c.inChannels && c.matches })
	if len(matching) > 0 {
		return s.explainMissingUpgradeEdge(req, where, matching)
	}

	hint := []string{where + " has versions " + joinLimited(inChannels)}
	pre := s.versionsOf(func(c *candidate) bool { return c.inChannels && constraint.missesAsPreRelease(c.version) })
	if len(pre) > 0 {
		core, _, _ := strings.Cut(pre[0], "-")
		hint = append(hint, fmt.Sprintf("%s has pre-releases of versions in the range: %s; a range holds a pre-release only when it names one, as \">=%s-0\" does", where, joinLimited(pre), core))
	}

	anyMatch := func(c *candidate) bool { return c.matches }
	if channels := s.channelsWith(anyMatch); len(channels) > 0 {
		hint = append(hint, where+" has "+joinLimited(s.versionsOf(anyMatch))+" in other channels: "+joinLimited(channels))
	}

	return hint
}

// listOtherChannels returns a hint that lists the channels of the package.
func (s *survey) listOtherChannels(where string) []string {
	channels := s.channelsWith(func(*candidate) bool { return true })
	if len(channels) == 0 {
		return []string{where + " has the package, but no channel with a bundle"}
	}
	return []string{where + " has the package in channels " + joinLimited(channels)}
}

// explainMissingUpgradeEdge states why no upgrade edge leads to the matching versions, and which
// upgrades are possible.
func (s *survey) explainMissingUpgradeEdge(req Request, where string, matching []string) []string {
	installed := readInstalled(req.Installed)
	hint := []string{fmt.Sprintf("%s has %s, but no upgrade edge from the installed bundle %q leads there", where, joinLimited(matching), req.Installed.Name)}
	if s.allSelectedHave(func(c *candidate) bool { return c.inChannels && c.matches }, installed.isNewerThan) {
		hint = []string{fmt.Sprintf("%s has %s, older than the installed %s", where, joinLimited(matching), req.Installed.Version)}
	} else if steps := s.findUpgradePath(installed); len(steps) > 0 {
		hint = append(hint, "the way there is in steps: "+strings.Join(steps, ", then "))
	} else if reachable := s.versionsOf(func(c *candidate) bool { return c.inChannels && c.permitted }); len(reachable) > 0 {
		hint = append(hint, where+" lets the installed bundle stay at or go to "+joinLimited(reachable))
	}

	if installed.bundleVersion == nil {
		hint = append(hint, fmt.Sprintf("the installed version %q is not a semantic version, so that no skipRange holds it", req.Installed.Version))
	}

	return append(hint, fmt.Sprintf("upgradeConstraintPolicy %s goes to any version, at the user's own risk", olmv1.UpgradeConstraintPolicySelfCertified))
}

// findUpgradePath returns the versions on the shortest path to the best matching bundle.
// It returns nil when there is no path, or when a step would be a downgrade.
func (s *survey) findUpgradePath(installed installedBundle) []string {
	if s.graph == nil || len(s.candidates) > maxPathSearchBundles {
		return nil
	}

	var goal *candidate
	byName := map[string]*candidate{}
	for i := range s.candidates {
		c := &s.candidates[i]
		byName[c.bundle.Name] = c
		if c.inChannels && c.matches && (goal == nil || installed.prefersCandidate(c, goal)) {
			goal = c
		}
	}

	if goal == nil {
		return nil
	}

	path, _ := s.graph.ShortestPath(installed.graphNode(), goal.bundle.Name)
	var steps []string
	last := installed.bundleVersion
	for _, edge := range path {
		next := byName[edge.To]
		if next == nil || last != nil && next.compare(*last) < 0 {
			return nil
		}
		last = &next.bundleVersion
		steps = append(steps, next.version.String())
	}

	return steps
}

// allSelectedHave reports whether every selected candidate has a trait.
func (s *survey) allSelectedHave(chosen, trait func(*candidate) bool) bool {
	for i := range s.candidates {
		if chosen(&s.candidates[i]) && !trait(&s.candidates[i]) {
			return false
		}
	}
	return true
}

// versionsOf returns the versions of the selected candidates, highest first.
func (s *survey) versionsOf(chosen func(*candidate) bool) []string {
	var found []*candidate
	for i := range s.candidates {
		if chosen(&s.candidates[i]) {
			found = append(found, &s.candidates[i])
		}
	}

	slices.SortStableFunc(found, func(a, b *candidate) int { return b.compare(a.bundleVersion) })
	var out []string
	for _, c := range found {
		text := c.version.String()
		if c.release != "" {
			text += " release " + c.release
		}
		out = append(out, text)
	}

	return slices.Compact(out)
}

// channelsWith returns the sorted channels that contain a selected candidate.
func (s *survey) channelsWith(chosen func(*candidate) bool) []string {
	wanted := map[string]bool{}
	for i := range s.candidates {
		if chosen(&s.candidates[i]) {
			wanted[s.candidates[i].bundle.Name] = true
		}
	}

	var names []string
	for _, ch := range s.catalog.Content.Channels {
		for _, entry := range ch.Entries {
			if wanted[entry.Name] {
				names = append(names, ch.Name)
				break
			}
		}
	}

	slices.Sort(names)
	return slices.Compact(names)
}

// ambiguousHint states what each catalog offers, and the two ways to choose one.
func ambiguousHint(offers []*survey) []string {
	var hint []string
	for _, s := range offers {
		hint = append(hint, fmt.Sprintf("catalog %q (priority %d) offers %q, version %s",
			s.catalog.Name, s.catalog.Priority, s.best.bundle.Name, s.best.version))
	}

	hint = append(hint, fmt.Sprintf("give one of the catalogs a higher priority, or select one by a label, such as %s: %s",
		olmv1.LabelMetadataName, offers[0].catalog.Name))
	for _, s := range offers {
		hint = append(hint, s.listCatalogFaults()...)
	}

	return hint
}

// joinLimited joins names or versions with commas. It omits all after the first maxListed.
func joinLimited(items []string) string {
	return excerpt.Join(items, maxListed, ", ", " and ")
}
