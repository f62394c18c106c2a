package resolve

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// maxListed bounds the lists in a hint: enough to recognise a pattern, short enough to
// read on a terminal.
const maxListed = 10

// maxSearched bounds the packages in which a hint looks for a way of several steps: in
// one of n bundles it asks up to n×n skipRanges, here a million or some 50 ms.
const maxSearched = 1000

// notFoundHint says of each catalog how far the search came, and what is there
// instead.
func notFoundHint(req Request, constraint Constraint, surveys []*survey) []string {
	if len(surveys) == 0 {
		return []string{"no catalog was looked at: none is available, or none has the labels that the selector asks for"}
	}

	var hint, names []string
	var known bool
	for _, s := range surveys {
		names = append(names, s.catalog.Name)
		known = known || s.known
	}

	if !known {
		return []string{fmt.Sprintf("package %q is in none of the catalogs that were looked at: %s", req.Package, list(names))}
	}

	for _, s := range surveys {
		if s.known {
			hint = append(hint, s.hint(req, constraint)...)
			hint = append(hint, s.faults()...)
		}
	}

	return hint
}

// hint tells what kept one catalog that has the package from offering a bundle.
func (s *survey) hint(req Request, constraint Constraint) []string {
	where := fmt.Sprintf("catalog %q", s.catalog.Name)
	inChannels := s.versions(func(c *candidate) bool { return c.inChannels })
	if len(inChannels) == 0 {
		if len(req.Channels) == 0 {
			return []string{where + " has the package, but no bundle of it with a valid version"}
		}
		return s.otherChannels(where)
	}

	matching := s.versions(func(c *candidate) bool { return c.inChannels && c.matches })
	if len(matching) > 0 {
		return s.noEdge(req, where, matching)
	}

	hint := []string{where + " has versions " + list(inChannels)}
	pre := s.versions(func(c *candidate) bool { return c.inChannels && constraint.missesAsPreRelease(c.version) })
	if len(pre) > 0 {
		core, _, _ := strings.Cut(pre[0], "-")
		hint = append(hint, fmt.Sprintf("%s has pre-releases of versions in the range: %s; a range holds a pre-release only when it names one, as \">=%s-0\" does", where, list(pre), core))
	}

	anyMatch := func(c *candidate) bool { return c.matches }
	if channels := s.channelsWith(anyMatch); len(channels) > 0 {
		hint = append(hint, where+" has "+list(s.versions(anyMatch))+" in other channels: "+list(channels))
	}

	return hint
}

// otherChannels tells which channels there are.
func (s *survey) otherChannels(where string) []string {
	channels := s.channelsWith(func(*candidate) bool { return true })
	if len(channels) == 0 {
		return []string{where + " has the package, but no channel with a bundle"}
	}
	return []string{where + " has the package in channels " + list(channels)}
}

// noEdge tells what leads to the versions that would match.
func (s *survey) noEdge(req Request, where string, matching []string) []string {
	installed := readInstalled(req.Installed)
	hint := []string{fmt.Sprintf("%s has %s, but no upgrade edge from the installed bundle %q leads there", where, list(matching), req.Installed.Name)}
	if s.all(func(c *candidate) bool { return c.inChannels && c.matches }, installed.isNewerThan) {
		hint = []string{fmt.Sprintf("%s has %s, older than the installed %s", where, list(matching), req.Installed.Version)}
	} else if steps := s.steps(installed); len(steps) > 0 {
		hint = append(hint, "the way there is in steps: "+strings.Join(steps, ", then "))
	} else if reachable := s.versions(func(c *candidate) bool { return c.inChannels && c.permitted }); len(reachable) > 0 {
		hint = append(hint, where+" lets the installed bundle stay at or go to "+list(reachable))
	}

	if installed.place == nil {
		hint = append(hint, fmt.Sprintf("the installed version %q is not a semantic version, so that no skipRange holds it", req.Installed.Version))
	}

	return append(hint, fmt.Sprintf("upgradeConstraintPolicy %s goes to any version, at the user's own risk", olmv1.UpgradeConstraintPolicySelfCertified))
}

// steps is the way to the best bundle that would match, if it only ever goes up.
func (s *survey) steps(installed installedBundle) []string {
	if s.graph == nil || len(s.candidates) > maxSearched {
		return nil
	}

	var goal *candidate
	byName := map[string]*candidate{}
	for i := range s.candidates {
		c := &s.candidates[i]
		byName[c.bundle.Name] = c
		if c.inChannels && c.matches && (goal == nil || installed.prefers(c, goal)) {
			goal = c
		}
	}

	if goal == nil {
		return nil
	}

	path, _ := s.graph.ShortestPath(installed.node(), goal.bundle.Name)
	var steps []string
	last := installed.place
	for _, edge := range path {
		next := byName[edge.To]
		if next == nil || last != nil && next.compare(*last) < 0 {
			return nil
		}
		last = &next.place
		steps = append(steps, next.version.String())
	}

	return steps
}

// all reports whether every chosen candidate has a trait.
func (s *survey) all(chosen, trait func(*candidate) bool) bool {
	for i := range s.candidates {
		if chosen(&s.candidates[i]) && !trait(&s.candidates[i]) {
			return false
		}
	}
	return true
}

// versions are those of the chosen candidates, highest first.
func (s *survey) versions(chosen func(*candidate) bool) []string {
	var found []*candidate
	for i := range s.candidates {
		if chosen(&s.candidates[i]) {
			found = append(found, &s.candidates[i])
		}
	}

	slices.SortStableFunc(found, func(a, b *candidate) int { return b.compare(a.place) })
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

// channelsWith are the sorted channels that hold a chosen candidate.
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

// ambiguousHint tells what each catalog offers, and the two ways out.
func ambiguousHint(offers []*survey) []string {
	var hint []string
	for _, s := range offers {
		hint = append(hint, fmt.Sprintf("catalog %q (priority %d) offers %q, version %s",
			s.catalog.Name, s.catalog.Priority, s.best.bundle.Name, s.best.version))
	}

	hint = append(hint, fmt.Sprintf("give one of the catalogs a higher priority, or select one by a label, such as %s: %s",
		olmv1.LabelMetadataName, offers[0].catalog.Name))
	for _, s := range offers {
		hint = append(hint, s.faults()...)
	}

	return hint
}

// list writes names or versions, the first ones when they are many.
func list(items []string) string {
	if more := len(items) - maxListed; more > 0 {
		return strings.Join(items[:maxListed], ", ") + " and " + strconv.Itoa(more) + " more"
	}
	return strings.Join(items, ", ")
}
